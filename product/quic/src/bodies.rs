//! Request bodies. Received and unread parts stay in quinn-proto, so a stream's window opens as its body is read (RFC
//! 9000 section 4.1), and the client stops when the reader stops. quinn opens the connection's window at the same time.
//! So that unread streams do not block the others, the connection's window is widened by the windows of the streams
//! with wanted bodies, if memory has room.
//!
//! Whether a body is wanted is decided when the request is answered. Parts that arrive earlier are kept until then.

use http2::{BodyRead, Event};
use quinn_proto::{Connection, VarInt};

use crate::Session;
use crate::endpoint::{STREAM_WINDOW_BYTES, WINDOW_BYTES};
use crate::intake::{HEAD_PIECE_BYTES, Intake, Pulled};
use crate::streams::{Stream, Streams};

/// The maximum stored bytes of one request body: the window of its stream, plus the bytes that were read together with
/// the head.
const BODY_BYTES_MAX: usize = STREAM_WINDOW_BYTES as usize + HEAD_PIECE_BYTES;

/// The same maximum for a body whose window does not fit into memory; it shares the connection's window.
const SHARED_BYTES_MAX: usize = WINDOW_BYTES as usize / 2;

/// The state of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The caller has not decided yet.
    Undecided,
    Unwanted,
    /// The body is wanted. `is_unread` is true if some of it may be unread, `is_told` if the reader was notified of
    /// that.
    Wanted {
        is_unread: bool,
        is_told: bool,
        /// True if the connection's window was widened by this stream's window.
        has_window: bool,
    },
}

impl Stream {
    fn is_wanted(&self) -> bool {
        matches!(self.body, Body::Wanted { .. })
    }

    /// Returns the maximum memory in bytes of an unread body and of response heads that wait for a window. quinn does
    /// not report the size of unread bodies, so each body counts with its whole window.
    pub fn memory_bytes(&self) -> usize {
        let head_bytes = self.reply.as_ref().map_or(0, |reply| reply.heads.len());
        head_bytes
            + match () {
                () if self.has_window() => BODY_BYTES_MAX,
                () if self.holds_body() => SHARED_BYTES_MAX,
                () => 0,
            }
    }

    /// Returns true if the connection's window was widened by this stream's window, because more of its body may come.
    fn has_window(&self) -> bool {
        matches!(self.body, Body::Wanted { has_window: true, .. }) && self.incoming.is_some()
    }

    /// Returns true if quinn may hold a part of the body.
    fn holds_body(&self) -> bool {
        match self.body {
            Body::Undecided => self.is_told && self.incoming.is_some(),
            Body::Unwanted => false,
            Body::Wanted { is_unread, .. } => is_unread && self.incoming.is_some(),
        }
    }
}

impl Streams {
    /// Records that a part of a body, or its end, has arrived.
    pub fn on_body(&mut self, stream: u32) {
        let Some(open) = self.open.get_mut(stream) else { return };
        if let Body::Wanted { is_unread, is_told, .. } = &mut open.body {
            *is_unread = true;
            if !std::mem::replace(is_told, true) {
                self.events.push_back(Event::Body { stream });
            }
        }
        self.count(stream);
    }

    /// Returns true if memory has room for the window of another stream.
    fn has_room(&self) -> bool {
        self.account().room() >= BODY_BYTES_MAX
    }

    /// Adapts the connection's window to the bodies that are wanted.
    pub fn widen(&mut self, connection: &mut Connection) {
        let windows = self.open.iter().filter(|open| open.has_window()).count();
        if std::mem::replace(&mut self.windows, windows) != windows {
            let bytes = u64::from(WINDOW_BYTES) + windows as u64 * u64::from(STREAM_WINDOW_BYTES);
            connection.set_receive_window(VarInt::from_u64(bytes).unwrap_or(VarInt::MAX));
        }
    }
}

impl Intake {
    /// Discards the body of the request reported last, unless the caller has decided about it.
    pub fn drain_unwanted(&mut self, connection: &mut Connection, streams: &mut Streams) {
        let Some(stream) = streams.asked.take() else { return };
        if streams.open.get(stream).is_some_and(|open| open.body == Body::Undecided) {
            self.leave_body(stream, connection, streams);
        }
    }

    fn leave_body(&mut self, stream: u32, connection: &mut Connection, streams: &mut Streams) {
        let Some(open) = streams.open.get_mut(stream) else { return };
        open.body = Body::Unwanted;
        let taken = self.request(self.now, stream, connection, streams);
        self.late = self.late.take().or(taken.err());
        streams.widen(connection);
    }

    fn read_body(
        &mut self,
        stream: u32,
        into: &mut Vec<u8>,
        bytes_max: usize,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> BodyRead {
        let has_room = streams.has_room();
        let Some(open) = streams.open.get_mut(stream).filter(|open| open.is_wanted()) else { return BodyRead::Cut };
        let (end, had_window) = (into.len() + bytes_max, open.has_window());
        let pulled = match self.pull(self.now, stream, open, connection, Some((into, end))) {
            Ok(Pulled::Reset) => self.on_cancelled(self.now, stream, connection, streams).map(|()| BodyRead::Cut),
            Ok(Pulled::End) => Ok(BodyRead::End),
            Ok(Pulled::Blocked) => Ok(BodyRead::Later),
            Ok(Pulled::Head(_) | Pulled::Full) => Ok(BodyRead::More),
            Err(fault) => self.on_fault(self.now, fault, stream, connection, streams).map(|()| BodyRead::Cut),
        };
        streams.count(stream);
        let pulled = streams.check_kept().and(pulled);
        if let Some(open) = streams.open.get_mut(stream) {
            let has_window = had_window || has_room;
            open.body = Body::Wanted { is_unread: pulled == Ok(BodyRead::More), is_told: false, has_window };
        }
        streams.count(stream);
        streams.widen(connection);
        pulled.unwrap_or_else(|end| {
            self.late = Some(end);
            BodyRead::Cut
        })
    }
}

impl Session {
    pub fn event(&mut self) -> Option<Event> {
        self.intake.drain_unwanted(&mut self.connection, &mut self.streams);
        let event = self.streams.next_event();
        if let Some(Event::Request { stream, .. }) = event {
            self.streams.asked = Some(stream);
        }
        event
    }

    /// See [`http2::Session::want_body`].
    pub fn want_body(&mut self, stream: u32) -> bool {
        let has_window = self.streams.has_room();
        let Some(open) = self.streams.open.get_mut(stream) else { return false };
        match open.body {
            Body::Unwanted => return false,
            Body::Wanted { .. } => return true,
            Body::Undecided => open.body = Body::Wanted { is_unread: false, is_told: false, has_window },
        }
        // Reading shows whether a part has arrived.
        self.streams.on_body(stream);
        self.streams.widen(&mut self.connection);
        true
    }

    /// Works like [`http2::Session::read_body`]; [`Session::make`] sends the window updates to the client. If a mistake
    /// that ends the connection is detected, [`Session::on_timeout`] becomes due immediately and returns it.
    pub fn read_body(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        self.intake.read_body(stream, into, bytes_max, &mut self.connection, &mut self.streams)
    }

    /// See [`http2::Session::leave_body`].
    pub fn leave_body(&mut self, stream: u32) {
        self.intake.leave_body(stream, &mut self.connection, &mut self.streams);
    }

    /// Bytes of memory in use. Unacknowledged content is counted by its charge, because quinn does not report it.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self) -> usize {
        self.body_bytes() + self.streams.kept_bytes + self.sent_bytes()
    }

    /// Bytes of memory of waiting heads and unread bodies, recomputed.
    #[cfg(any(test, feature = "testing"))]
    pub fn body_bytes(&self) -> usize {
        self.streams.open.iter().map(Stream::memory_bytes).sum()
    }
}
