//! Memory of a flood goes back to the system when it is over: tables are as long as there were connections and responses at once, and the
//! allocator keeps what it was given back.

use std::thread;

use super::Worker;
use crate::net::Net;
use crate::sys;

/// Tables of so many are kept, whatever they hold: some hundred kilobytes.
const SLOTS_KEPT: usize = 1024;
/// Tables are shrunk where less than one in so many is used.
const VACANT_TO_USED: usize = 4;

impl<N: Net> Worker<N> {
    /// Called by every sweep.
    pub(super) fn give_back_memory(&mut self) {
        if !self.has_memory_to_give() || !self.timers.begin_giving_back() {
            return;
        }
        self.conns.shrink();
        self.buffers.departures.shrink_to_fit();
        self.sender.transmitter.shrink();
        // It may take tens of milliseconds. Without a thread it is for another time.
        let _ = thread::Builder::new().name("weir-memory".into()).spawn(sys::trim_memory);
    }

    /// Tables are long, and hold little.
    pub(super) fn has_memory_to_give(&self) -> bool {
        let transmitter = &self.sender.transmitter;
        let is_long = |slots: usize, used: usize| slots > SLOTS_KEPT && used < slots / VACANT_TO_USED;
        is_long(self.conns.capacity(), self.conns.len())
            || is_long(transmitter.slots(), transmitter.link.scheduler().jobs().len())
    }
}
