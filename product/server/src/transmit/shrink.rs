//! Memory: what connections hold, and that of many responses and connections that have gone.

use super::connection::Load;
use super::{Socket, Transmitter};

impl<S: Socket> Transmitter<S> {
    /// What was made for a connection, or read for its only response, and has not left.
    pub fn unsent_bytes(&mut self, at: usize) -> usize {
        let connection = &mut self.connections[at];
        let sealed_bytes = connection.session.as_mut().map_or(0, |session| session.unsent_bytes());
        let made_bytes = match &mut connection.load {
            Load::Single(job) => {
                job.and_then(|job| self.sendings.get(job)).map_or(0, |one| one.outgoing.memory_bytes())
            }
            Load::Framed(framed) => framed.memory_bytes(),
        };
        sealed_bytes + made_bytes
    }

    /// All that is to be sent on a connection waits for its reader, which took less than the least rate at so many looks of
    /// [`Transmitter::end_stalled`], one after another.
    pub fn is_slow(&self, at: usize, looks: u8) -> bool {
        self.waits_for_reader(at) && self.connections[at].reader.slow_looks() >= looks
    }

    /// Responses that its tables have room for.
    pub fn slots(&self) -> usize {
        self.link.scheduler.jobs().slots().max(self.sendings.capacity())
    }

    /// Gives back what tables have behind the last one in use.
    pub fn shrink(&mut self) {
        let slots = self.link.scheduler.shrink();
        self.sendings.truncate(slots);
        self.connections.shrink();
        self.link.unacknowledged.shrink();
        self.departures.shrink_to_fit();
        self.unsaid.shrink_to_fit();
    }
}
