//! Bodies of requests. What has come of one and was not read stays in quinn-proto, so that its stream's window opens as it is read (RFC 9000
//! section 4.1): a client is held where the reader stops. quinn opens the connection's window then too; so that streams that nobody reads do
//! not shut it for the others, it is wider by the windows of the streams whose bodies are wanted, as far as memory has room for them.
//!
//! Whether anybody wants a body is known when the request is answered, and parts of it may come before: they are kept until then.

use mux::{BodyRead, Event};
use quinn_proto::{Connection, VarInt};

use crate::Session;
use crate::endpoint::{STREAM_WINDOW_BYTES, WINDOW_BYTES};
use crate::intake::{HEAD_PIECE_BYTES, Intake, Pulled};
use crate::streams::{Stream, Streams};

/// What may be kept of the body of one request: the window of its stream, and the bytes that were read with the head.
const BODY_BYTES_MAX: usize = STREAM_WINDOW_BYTES as usize + HEAD_PIECE_BYTES;

/// The same of one for whose window memory has no room: it has a part of the connection's.
const SHARED_BYTES_MAX: usize = WINDOW_BYTES as usize / 2;

/// What becomes of the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The caller has not said yet.
    Undecided,
    Unwanted,
    /// Something of it may not have been read, and the reader knows of that.
    Wanted {
        is_unread: bool,
        is_told: bool,
        /// The connection's window is wider by its own.
        has_window: bool,
    },
}

impl Stream {
    fn is_wanted(&self) -> bool {
        matches!(self.body, Body::Wanted { .. })
    }

    /// Bytes of memory at most: of heads that no window has let through, and of a body that was not read. quinn does not tell how much there is of
    /// one, so each counts with all that its window lets through.
    pub fn memory_bytes(&self) -> usize {
        let head_bytes = self.reply.as_ref().map_or(0, |reply| reply.heads.len());
        head_bytes
            + match () {
                () if self.has_window() => BODY_BYTES_MAX,
                () if self.holds_body() => SHARED_BYTES_MAX,
                () => 0,
            }
    }

    /// The connection's window is wider by its own, since more of its body may come.
    fn has_window(&self) -> bool {
        matches!(self.body, Body::Wanted { has_window: true, .. }) && self.incoming.is_some()
    }

    /// quinn holds some of its body, as far as is known.
    fn holds_body(&self) -> bool {
        match self.body {
            Body::Undecided => self.is_told && self.incoming.is_some(),
            Body::Unwanted => false,
            Body::Wanted { is_unread, .. } => is_unread && self.incoming.is_some(),
        }
    }
}

impl Streams {
    /// Something of a body has come, or its end.
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

    /// Memory has room for the window of another stream.
    fn has_room(&self) -> bool {
        self.account().room() >= BODY_BYTES_MAX
    }

    /// Makes the connection's window as wide as the bodies that are wanted ask for.
    pub fn widen(&mut self, connection: &mut Connection) {
        let windows = self.open.iter().filter(|open| open.has_window()).count();
        if std::mem::replace(&mut self.windows, windows) != windows {
            let bytes = u64::from(WINDOW_BYTES) + windows as u64 * u64::from(STREAM_WINDOW_BYTES);
            connection.set_receive_window(VarInt::from_u64(bytes).unwrap_or(VarInt::MAX));
        }
    }
}

impl Intake {
    /// Nobody wants the body of the request that was told of last, unless somebody has said so.
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

    /// As [`mux::Session::want_body`].
    pub fn want_body(&mut self, stream: u32) -> bool {
        let has_window = self.streams.has_room();
        let Some(open) = self.streams.open.get_mut(stream) else { return false };
        match open.body {
            Body::Unwanted => return false,
            Body::Wanted { .. } => return true,
            Body::Undecided => open.body = Body::Wanted { is_unread: false, is_told: false, has_window },
        }
        // Whether it has come in part is known when it is read.
        self.streams.on_body(stream);
        self.streams.widen(&mut self.connection);
        true
    }

    /// As [`mux::Session::read_body`]; [`Session::make`] tells the client of its windows. A mistake of the client that ends the connection is
    /// found here too: it is told by [`Session::on_timeout`], which is due at once then.
    pub fn read_body(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        self.intake.read_body(stream, into, bytes_max, &mut self.connection, &mut self.streams)
    }

    /// As [`mux::Session::leave_body`].
    pub fn leave_body(&mut self, stream: u32) {
        self.intake.leave_body(stream, &mut self.connection, &mut self.streams);
    }

    /// Bytes of memory that are alive; of content that was not acknowledged those that are counted, since quinn does not tell them.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self) -> usize {
        self.body_bytes() + self.streams.kept_bytes + self.sent_bytes()
    }

    /// Bytes of memory of heads that wait and of bodies that were not read, summed anew.
    #[cfg(any(test, feature = "testing"))]
    pub fn body_bytes(&self) -> usize {
        self.streams.open.iter().map(Stream::memory_bytes).sum()
    }
}
