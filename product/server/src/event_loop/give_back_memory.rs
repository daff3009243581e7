//! Returns memory to the system after a flood. Otherwise tables would keep the length needed for the maximum number of
//! connections and responses, and the allocator would keep freed memory.

use std::thread;

use super::responder::Responder;
use super::shortage::is_full;
use crate::connection::{Connections, WAITING_BYTES_MIN};
use crate::net::{Net, Socket};
use crate::send::Transmitter;
use crate::sys;

/// The number of slots up to which tables are kept even if few slots are used: some hundred kilobytes.
const SLOTS_KEPT: usize = 1024;
/// Tables are shrunk if fewer than one slot in this many is used.
const VACANT_TO_USED: usize = 4;

impl<N: Net> Responder<N> {
    /// Ends a connection whose stored requests are incomplete or wait behind others, if all memory is in use. By the
    /// end of the turn a thousand other connections could each have sent as much.
    pub(super) fn end_part(&mut self, at: usize) {
        let is_full = is_full(self.connections.account());
        if is_full && self.connections.get(at).is_some_and(|conn| conn.kept_bytes() >= WAITING_BYTES_MIN) {
            self.end_for_memory(at);
        }
    }
}

impl Transmitter {
    /// Shrinks the tables of the transmitter and the connections, and returns free memory to the system.
    pub fn give_back_memory(&mut self, connections: &mut Connections<impl Socket>) {
        connections.shrink();
        self.shrink();
        // This may take tens of milliseconds. If no thread can be started, the next call tries again.
        let _ = thread::Builder::new().name("weir-memory".into()).spawn(sys::trim_memory);
    }

    /// Returns true if tables are long and mostly empty.
    pub fn has_memory_to_give(&self, connections: &Connections<impl Socket>) -> bool {
        let is_long = |slots: usize, used: usize| slots > SLOTS_KEPT && used < slots / VACANT_TO_USED;
        let jobs = self.link.scheduler().jobs();
        is_long(connections.capacity(), connections.len())
            || is_long(jobs.slots().max(self.sendings.capacity()), jobs.len())
    }
}
