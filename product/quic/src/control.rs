//! The server's control stream (RFC 9114 section 6.2.1), which is opened as soon as the client allows it, and the
//! frames still to be sent on it.

use quinn_proto::{Connection, Dir, StreamId, WriteError};

use crate::h3::control::{
    ENABLE_CONNECT_PROTOCOL, MAX_FIELD_SECTION_SIZE, QPACK_BLOCKED_STREAMS, QPACK_MAX_TABLE_CAPACITY,
};
use crate::h3::{frames, uni, varint};

#[derive(Debug)]
pub struct Control {
    id: Option<StreamId>,
    to_say: Vec<u8>,
    /// The maximum head of a request, for SETTINGS.
    head_bytes_max: usize,
    has_tunnels: bool,
    farewell: Farewell,
}

/// The progress of GOAWAY.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Farewell {
    NotDue,
    Due,
    /// The frame was passed to quinn when this many frames had been sent on streams.
    Given {
        frames: u64,
    },
    Acknowledged,
}

impl Control {
    pub fn new(head_bytes_max: usize, has_tunnels: bool) -> Control {
        Control { id: None, to_say: Vec::new(), head_bytes_max, has_tunnels, farewell: Farewell::NotDue }
    }

    /// Sends pending frames, as far as the client allows.
    pub fn say(&mut self, connection: &mut Connection) {
        // If a ClientHello takes two datagrams, the limit on streams is in the second.
        if self.id.is_none() {
            self.id = connection.streams().open(Dir::Uni);
            if self.id.is_some() {
                self.to_say.splice(0..0, greeting(self.head_bytes_max, self.has_tunnels));
            }
        }
        let Some(id) = self.id.filter(|_| !self.to_say.is_empty()) else { return };
        let said = connection.send_stream(id).write(&self.to_say).unwrap_or(0);
        self.to_say.drain(..said);
        if self.farewell == Farewell::Due && self.to_say.is_empty() {
            self.farewell = Farewell::Given { frames: connection.stats().frame_tx.stream };
        }
    }

    /// Announces that requests from this stream on are not served (RFC 9114 section 5.2).
    pub fn go_away(&mut self, stream: u32) {
        let id = 4 * u64::from(stream);
        frames::head(frames::GOAWAY, varint::bytes(id) as u64, &mut self.to_say);
        varint::write(id, &mut self.to_say);
        self.farewell = Farewell::Due;
    }

    /// Records that the client has acknowledged everything sent so far, which includes this many frames of streams.
    pub fn on_all_acknowledged(&mut self, sent_frames: u64) {
        if matches!(self.farewell, Farewell::Given { frames } if sent_frames > frames) {
            self.farewell = Farewell::Acknowledged;
        }
    }

    /// Returns true if a GOAWAY that is due may not have reached the client.
    pub fn awaits_farewell(&self) -> bool {
        matches!(self.farewell, Farewell::Due | Farewell::Given { .. })
    }

    /// Returns true if nothing can be written on the connection. If its window is shut, this stream is refused too.
    pub fn is_refused(&self, connection: &mut Connection) -> bool {
        self.id.is_some_and(|id| connection.send_stream(id).write(&[]) == Err(WriteError::Blocked))
    }
}

/// Returns the start of the stream: its type, and SETTINGS (RFC 9114 section 7.2.4).
fn greeting(head_bytes_max: usize, has_tunnels: bool) -> Vec<u8> {
    let mut settings = Vec::new();
    let all =
        [(QPACK_MAX_TABLE_CAPACITY, 0), (MAX_FIELD_SECTION_SIZE, head_bytes_max as u64), (QPACK_BLOCKED_STREAMS, 0)];
    for (setting, value) in all.into_iter().chain(has_tunnels.then_some((ENABLE_CONNECT_PROTOCOL, 1))) {
        varint::write(setting, &mut settings);
        varint::write(value, &mut settings);
    }
    let mut said = Vec::new();
    varint::write(uni::CONTROL, &mut said);
    frames::head(frames::SETTINGS, settings.len() as u64, &mut said);
    said.extend(settings);
    said
}
