//! Memory of a flood goes back to the system when it is over: tables are as long as there were connections and responses at once, and the
//! allocator keeps what it was given back.

use std::thread;

use super::failures::Kind;
use super::responder::Responder;
use super::sender::Sender;
use super::shortage::{PART_BYTES_MIN, is_full};
use crate::connection::Connections;
use crate::net::{Net, Socket};
use crate::sys;

/// Tables of so many are kept, whatever they hold: some hundred kilobytes.
const SLOTS_KEPT: usize = 1024;
/// Tables are shrunk where less than one in so many is used.
const VACANT_TO_USED: usize = 4;

impl<N: Net> Responder<N> {
    /// Ends a connection with a part of a request where all memory is used: at the end of the turn its thousand neighbours would each have sent
    /// one as large.
    pub(super) fn end_part(&mut self, at: usize) {
        let is_full = is_full(self.connections.account());
        if is_full && self.connections.get(at).is_some_and(|conn| conn.part_bytes() >= PART_BYTES_MIN) {
            self.end_for_memory(at);
        }
    }

    /// Ends a connection for the memory that it holds, with a line in the error log.
    pub(super) fn end_for_memory(&mut self, at: usize) {
        let conn = &self.connections[at];
        let what = if conn.part_bytes() > 0 { "its request is not whole" } else { "it does not read" };
        let why = format!("{}: {what}, and holds {} KB", conn.peer(), conn.held.bytes() >> 10);
        self.service.journal.fail(self.timers.now(), Kind::Memory, why);
        self.abandon(at);
    }
}

impl Sender {
    /// Of these connections too.
    pub fn give_back_memory(&mut self, connections: &mut Connections<impl Socket>) {
        connections.shrink();
        self.transmitter.shrink();
        // It may take tens of milliseconds. Without a thread it is for another time.
        let _ = thread::Builder::new().name("weir-memory".into()).spawn(sys::trim_memory);
    }

    /// Tables are long, and hold little.
    pub fn has_memory_to_give(&self, connections: &Connections<impl Socket>) -> bool {
        let is_long = |slots: usize, used: usize| slots > SLOTS_KEPT && used < slots / VACANT_TO_USED;
        let jobs = self.transmitter.link.scheduler().jobs();
        is_long(connections.capacity(), connections.len())
            || is_long(jobs.slots().max(self.transmitter.sendings.capacity()), jobs.len())
    }
}
