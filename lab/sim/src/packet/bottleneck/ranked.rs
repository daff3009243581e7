use super::{Arena, List, Packet};

/// A FIFO per connection; which goes next is the drain's to say. What is no job's (band 0: handshakes, acknowledgements,
/// and what is sent again when all of a response has been sent once) goes first.
pub struct Ranked {
    first: List,
    /// By slot of the connection.
    flows: Vec<List>,
    limit: u32,
    pub arena: Arena,
}

impl Ranked {
    pub fn new(limit: u32) -> Ranked {
        Ranked { first: List::default(), flows: Vec::new(), limit, arena: Arena::default() }
    }

    pub fn enqueue(&mut self, packet: Packet) -> bool {
        let slot = packet.conn.slot as usize;
        if self.flows.len() <= slot {
            self.flows.resize(slot + 1, List::default());
        }
        let is_job = packet.band > 0;
        if is_job && self.arena.packets >= self.limit {
            return false;
        }
        self.arena.push(if is_job { &mut self.flows[slot] } else { &mut self.first }, packet);
        true
    }

    pub fn dequeue_first(&mut self) -> Option<Packet> {
        self.arena.pop(&mut self.first)
    }

    /// The next packet of the connection in this slot.
    pub fn dequeue_of(&mut self, slot: u32) -> Option<Packet> {
        self.arena.pop(self.flows.get_mut(slot as usize)?)
    }

    /// The connection has no job any more: what is left of it is what was sent again.
    pub fn promote(&mut self, slot: u32) {
        while let Some(packet) = self.dequeue_of(slot) {
            self.arena.push(&mut self.first, packet);
        }
    }

    pub fn is_empty_of(&self, slot: u32) -> bool {
        self.flows.get(slot as usize).is_none_or(List::is_empty)
    }
}
