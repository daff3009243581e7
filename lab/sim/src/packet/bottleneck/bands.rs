use super::{Arena, List, Packet};

/// FIFOs with strict priority between them, drop-tail. With one band it is a FIFO.
pub struct Queue {
    bands: Vec<List>,
    limit: u32,
    arena: Arena,
}

impl Queue {
    pub(super) fn of_bands(bands: usize, limit: u32) -> Queue {
        Queue { bands: vec![List::default(); bands], limit, arena: Arena::default() }
    }

    /// Adds a packet. Returns false if there is no room.
    #[must_use]
    pub fn enqueue(&mut self, packet: Packet) -> bool {
        let band = usize::from(packet.band).min(self.bands.len() - 1);
        let has_room = self.bands[band].packets < self.limit;
        if has_room {
            self.arena.push(&mut self.bands[band], packet);
        }
        has_room
    }

    pub fn dequeue(&mut self) -> Option<Packet> {
        let band = self.bands.iter_mut().find(|band| !band.is_empty())?;
        self.arena.pop(band)
    }

    pub fn bytes(&self) -> u64 {
        self.arena.bytes
    }

    /// The bytes of packets without data.
    pub fn control_bytes(&self) -> u64 {
        self.arena.control_bytes
    }

    pub fn packets(&self) -> u32 {
        self.arena.packets
    }
}
