use super::{Arena, List, Packet};

/// Strict priority between FIFOs, drop-tail. With one band it is a FIFO.
pub struct Bands {
    bands: Vec<List>,
    limit: u32,
    pub arena: Arena,
}

impl Bands {
    pub fn new(bands: usize, limit: u32) -> Bands {
        Bands { bands: vec![List::default(); bands], limit, arena: Arena::default() }
    }

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
}
