//! Memory of a flood goes back to the system when it is over: tables are as long as there were connections and responses at once, and the
//! allocator keeps what it was given back.

use std::thread;

use super::conn::Conn;
use super::connections::Connections;
use super::owner::slot_of;
use super::proxy::Proxy;
use super::responder::Responder;
use super::sender::Sender;
use crate::net::Net;
use crate::sys;

/// Tables of so many are kept, whatever they hold: some hundred kilobytes.
const SLOTS_KEPT: usize = 1024;
/// Tables are shrunk where less than one in so many is used.
const VACANT_TO_USED: usize = 4;

impl<N: Net> Responder<N> {
    /// What a connection holds may be another now.
    pub(super) fn weigh(&mut self, at: usize) {
        let Some(conn) = self.conns.get(at) else { return };
        let unsent_bytes = self.sender.unsent_bytes(conn, &self.proxy);
        self.conns.weigh(at, || unsent_bytes);
    }
}

impl<N: Net> Sender<N> {
    /// Bytes that were made for a connection and not taken, interim responses among them, and those that its transfers keep.
    pub fn unsent_bytes(&mut self, conn: &Conn, proxy: &Proxy<N>) -> usize {
        let passed_bytes: usize =
            conn.exchanges.iter().map(|exchange| proxy.upstreams.memory_bytes(exchange.owner)).sum();
        let put_off_bytes =
            if self.put_off.is_empty() { 0 } else { self.put_off.get(&conn.owner).map_or(0, Vec::capacity) };
        let transmitter = &mut self.transmitter;
        transmitter.connections[slot_of(conn.owner)].unsent_bytes(&transmitter.sendings) + put_off_bytes + passed_bytes
    }

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
