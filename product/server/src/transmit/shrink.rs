//! Memory of many responses and connections that have gone.

use super::{Socket, Transmitter};

impl<S: Socket> Transmitter<S> {
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
