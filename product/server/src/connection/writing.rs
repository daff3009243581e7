//! Writing on a connection, whatever its protocol.

use sched::{JobId, Scheduler};
use tls::RECORD_BYTES_MAX;

use super::{Connection, Outgoing, Protocol, Room, Sent};
use crate::body::Failure;
use crate::net::Socket;
use crate::storage::Storage;

impl<S: Socket> Connection<S> {
    /// Writes as much as there is room for: into the socket, or as frames that are handed down after the last of them.
    /// Records for frames are made at that point and counted here. Returns the number of bytes sent, and how many of
    /// them are bytes of frames.
    pub fn write(
        &mut self,
        stream: u32,
        outgoing: &mut Outgoing,
        storage: &mut dyn Storage,
        room: Room,
    ) -> (Sent, u64) {
        let overhead_bytes = self.record_overhead();
        let (sent, frames_bytes) = match &mut self.protocol {
            Protocol::Http1(_) => match self.socket.tcp() {
                Some(socket) => (outgoing.send_on(socket, self.session.as_deref_mut(), storage, room), 0),
                None => (Sent { failure: Some(Failure::Disconnected), ..Sent::default() }, 0),
            },
            Protocol::Framed(framed) => {
                // The connection's own frames leave in the same segment and count as the response's. If the room did not
                // include them, the write would be longer than a segment, and its last bytes would need another packet.
                let joining_bytes = framed.joining_bytes(room);
                let before_bytes = room.before_bytes;
                let room = Room { before_bytes: before_bytes + joining_bytes, ..room };
                let sent = outgoing.make_frames(&mut framed.engine, stream, storage, room, &mut framed.out.edit());
                let mut frames_bytes = sent.carried_bytes;
                if frames_bytes > 0 {
                    framed.control_bytes -= joining_bytes;
                    frames_bytes += joining_bytes;
                }
                let records = |bytes: u64| bytes.div_ceil(RECORD_BYTES_MAX as u64) * overhead_bytes;
                let records_bytes = records(before_bytes + frames_bytes) - records(before_bytes);
                (Sent { carried_bytes: frames_bytes + records_bytes, ..sent }, frames_bytes)
            }
        };
        self.delivery.on_sent(sent.carried_bytes);
        (sent, frames_bytes)
    }

    /// Records that the window of a response's stream or of the connection is shut.
    pub fn on_shut(&mut self, job: JobId, scheduler: &mut Scheduler) {
        self.framed().on_shut(job, scheduler);
    }

    /// Blocks all responses, because the connection takes no more bytes.
    pub fn on_full(&mut self, scheduler: &mut Scheduler) {
        self.delivery.was_full = true;
        self.protocol.wait(scheduler);
    }
}
