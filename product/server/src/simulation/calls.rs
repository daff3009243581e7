//! The server's system calls on a TCP connection.

use rustix::io::Errno;

use super::world::{Event, World};

impl World {
    /// A read by the server.
    pub fn read(&mut self, at: usize, into: &mut [u8]) -> Result<usize, Errno> {
        self.enter();
        if self.plan.has_socket_faults && self.random.once_in(50) {
            return Err(Errno::INTR);
        }
        let read = self.wires[at].read(into);
        self.show(at, || format!("read: {read:?}"));
        if read.is_ok_and(|bytes| bytes > 0) {
            let delay = self.wires[at].link.delay;
            self.schedule(self.now + delay, Event::UpRoom { wire: at });
        }
        read
    }

    /// Performs a write by the server; `more` announces that more data follows.
    pub fn write(&mut self, at: usize, bytes: &[u8], more: bool) -> std::io::Result<usize> {
        self.enter();
        let most = if self.plan.has_socket_faults && self.random.once_in(8) {
            self.random.between(1, 3_000) as usize
        } else {
            usize::MAX
        };
        let written = self.wires[at].write(bytes, more, most);
        if written.as_ref().is_ok_and(|written| *written < bytes.len()) {
            // Memory was short for a moment.
            let delay = self.wires[at].link.delay;
            self.schedule(self.now + delay, Event::Acked { wire: at, bytes: 0 });
        }
        self.note(written.as_ref().map_or(u64::MAX, |bytes| *bytes as u64));
        self.show(at, || format!("write {} bytes, more {more}: {written:?}", bytes.len()));
        self.pump_down(at);
        written
    }

    /// Closes the server's end.
    pub fn close(&mut self, at: usize) {
        self.enter();
        let server = &mut self.wires[at].server;
        (server.is_closed, server.token) = (true, None);
        if server.inbox.is_empty() && !server.ends_with_reset {
            self.wires[at].down.is_ended = true;
            self.pump_down(at);
        } else {
            self.reset_client(at);
        }
    }
}
