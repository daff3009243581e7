//! Memory of a flood goes back to the system when it is over: tables are as long as there were connections and responses at once, and the
//! allocator keeps what it was given back.

use std::thread;

use super::connections::Connections;
use super::sender::Sender;
use crate::net::Net;
use crate::sys;

/// Tables of so many are kept, whatever they hold: some hundred kilobytes.
const SLOTS_KEPT: usize = 1024;
/// Tables are shrunk where less than one in so many is used.
const VACANT_TO_USED: usize = 4;

impl<N: Net> Sender<N> {
    /// Of these connections too.
    pub fn give_back_memory(&mut self, conns: &mut Connections) {
        conns.shrink();
        self.transmitter.shrink();
        // It may take tens of milliseconds. Without a thread it is for another time.
        let _ = thread::Builder::new().name("weir-memory".into()).spawn(sys::trim_memory);
    }

    /// Tables are long, and hold little.
    pub fn has_memory_to_give(&self, conns: &Connections) -> bool {
        let is_long = |slots: usize, used: usize| slots > SLOTS_KEPT && used < slots / VACANT_TO_USED;
        let jobs = self.transmitter.link.scheduler().jobs();
        is_long(conns.capacity(), conns.len())
            || is_long(jobs.slots().max(self.transmitter.sendings.capacity()), jobs.len())
    }
}
