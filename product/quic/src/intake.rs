//! Feeds the received streams of a connection to HTTP/3.

use std::net::SocketAddr;

use bytes::Bytes;
use http2::Event;
use quinn_proto::{Connection, ConnectionError, ConnectionStats, Dir, ReadError, StreamEvent, StreamId, VarInt};
use units::Nanos;

use crate::bodies::Body;
use crate::endpoint::Settings;
use crate::h3::control::Update;
use crate::h3::fault::{End, Fault, ID_ERROR, REQUEST_CANCELLED, REQUEST_REJECTED, STREAM_CREATION_ERROR};
use crate::h3::fields::Request;
use crate::h3::floods::Budget;
use crate::h3::request::Shared;
use crate::h3::uni::{Next, Seen, Uni};
use crate::streams::{Stream, Streams, id};

/// The size of the pieces in which a stream is read until the head of its request is complete. It is small because the
/// body may follow.
pub const HEAD_PIECE_BYTES: usize = 1 << 10;

/// The receiving side of a connection.
pub struct Intake {
    shared: Shared,
    budget: Budget,
    seen: Seen,
    unis: Vec<(StreamId, Uni)>,
    streams_max: u32,
    /// The first refused request, as announced in GOAWAY.
    pub refused_from: Option<u32>,
    /// True if the connection's window was used up and may be open again.
    pub is_writable: bool,
    /// True if the connection has ended.
    pub is_lost: bool,
    /// The time of the last call into quinn.
    pub now: Nanos,
    /// A mistake that was found after the last call into quinn.
    pub late: Option<End>,
}

/// The result of reading a request's stream.
pub enum Pulled {
    /// The head of the request.
    Head(Request),
    /// All received bytes were taken.
    Blocked,
    /// The requested number of bytes was read.
    Full,
    End,
    /// The client has cancelled the request.
    Reset,
}

impl Intake {
    pub fn new(settings: &Settings) -> Intake {
        Intake {
            shared: Shared::new(settings.request, settings.has_tunnels),
            budget: Budget::default(),
            seen: Seen::default(),
            unis: Vec::new(),
            streams_max: settings.streams_max,
            refused_from: None,
            is_writable: false,
            is_lost: false,
            now: Nanos::ZERO,
            late: None,
        }
    }

    /// Counts received frames and checks the client's address. Returns a mistake found since the last call.
    pub fn count(&mut self, now: Nanos, stats: &ConnectionStats, peer: SocketAddr) -> Result<(), End> {
        self.now = now;
        if let Some(end) = self.late.take() {
            return Err(end);
        }
        self.budget.on_peer(now, peer)?;
        Ok(self.budget.on_stats(now, stats)?)
    }

    /// Returns the time at which a mistake found between calls must be reported.
    pub fn late_at(&self) -> Option<Nanos> {
        self.late.as_ref().map(|_| self.now)
    }

    /// Handles quinn's events.
    pub fn take(&mut self, now: Nanos, connection: &mut Connection, streams: &mut Streams) -> Result<(), End> {
        while let Some(event) = connection.poll() {
            match event {
                quinn_proto::Event::Stream(event) => self.stream_event(now, event, connection, streams)?,
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.is_lost = true;
                    streams.end_all();
                    if let ConnectionError::TransportError(error) = reason {
                        // quinn has informed the client.
                        return Err(End::protocol(error.code.into(), &error.to_string()));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn stream_event(
        &mut self,
        now: Nanos,
        event: StreamEvent,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> Result<(), End> {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = connection.streams().accept(Dir::Bi) {
                    self.begin(now, id, connection, streams)?;
                }
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(id) = connection.streams().accept(Dir::Uni) {
                    self.unis.push((id, Uni::default()));
                    self.uni(now, id, connection, streams)?;
                }
            }
            StreamEvent::Readable { id } => match (id.dir(), u32::try_from(id.index())) {
                (Dir::Uni, _) => self.uni(now, id, connection, streams)?,
                (Dir::Bi, Ok(stream)) => self.request(now, stream, connection, streams)?,
                (Dir::Bi, Err(_)) => {}
            },
            StreamEvent::Writable { id } => {
                self.is_writable = true;
                let stream = u32::try_from(id.index()).ok().filter(|_| id.dir() == Dir::Bi);
                if let Some(open) = stream.and_then(|stream| streams.open.get_mut(stream)) {
                    open.is_shut = false;
                }
            }
            StreamEvent::Stopped { id, error_code } => self.stopped(now, id, error_code, connection, streams)?,
            StreamEvent::Finished { id } => settle(id, streams),
            StreamEvent::Available { .. } => {}
        }
        Ok(())
    }

    /// Starts a request whose stream the client has opened.
    fn begin(
        &mut self,
        now: Nanos,
        id: StreamId,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> Result<(), End> {
        let limit = self.refused_from.unwrap_or(u32::MAX);
        match u32::try_from(id.index()).ok().filter(|&stream| stream < limit) {
            Some(stream) => {
                streams.begin(stream);
                self.request(now, stream, connection, streams)
            }
            None => {
                let code = code(REQUEST_REJECTED);
                let _ = connection.recv_stream(id).stop(code);
                let _ = connection.send_stream(id).reset(code);
                Ok(())
            }
        }
    }

    fn stopped(
        &mut self,
        now: Nanos,
        id: StreamId,
        code: VarInt,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> Result<(), End> {
        if id.dir() == Dir::Uni {
            return Err(End::protocol(
                crate::h3::fault::CLOSED_CRITICAL_STREAM,
                "the server's control stream was stopped",
            ));
        }
        let stream = u32::try_from(id.index()).ok().filter(|stream| streams.open.get(*stream).is_some());
        match stream {
            Some(stream) => {
                streams.reset(connection, stream, code.into_inner());
                Ok(self.budget.on_reset(now)?)
            }
            None => {
                let _ = connection.send_stream(id).reset(code);
                settle(id, streams);
                Ok(())
            }
        }
    }

    /// Reads the stream of a request because bytes have arrived or its body turned out to be unwanted.
    pub fn request(
        &mut self,
        now: Nanos,
        stream: u32,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> Result<(), End> {
        let read = self.read_request(now, stream, connection, streams);
        streams.count(stream);
        let counted = streams.check_kept();
        match read {
            Ok(true) => self.on_cancelled(now, stream, connection, streams),
            Ok(false) => counted,
            Err(fault) => self.on_fault(now, fault, stream, connection, streams),
        }
    }

    pub fn on_fault(
        &mut self,
        now: Nanos,
        fault: Fault,
        stream: u32,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> Result<(), End> {
        let (code, refused) = match fault {
            Fault::Stream(code, refused) => (code, refused),
            fault => return Err(end(fault)),
        };
        streams.events.push_back(Event::Malformed { stream, refused });
        streams.reset(connection, stream, code);
        Ok(self.budget.on_provoked(now)?)
    }

    /// Ends a request that the client cancelled before it was complete.
    pub fn on_cancelled(
        &mut self,
        now: Nanos,
        stream: u32,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> Result<(), End> {
        streams.reset(connection, stream, REQUEST_CANCELLED);
        Ok(self.budget.on_reset(now)?)
    }

    /// Reads the head of a request, and its body only if it is unwanted. Returns true if the client has cancelled the
    /// request.
    fn read_request(
        &mut self,
        now: Nanos,
        stream: u32,
        connection: &mut Connection,
        streams: &mut Streams,
    ) -> Result<bool, Fault> {
        let Some(open) = streams.open.get_mut(stream).filter(|open| open.incoming.is_some()) else { return Ok(false) };
        if open.is_told && open.body != Body::Unwanted {
            streams.on_body(stream);
            return Ok(connection.recv_stream(id(stream)).received_reset().is_ok_and(|reset| reset.is_some()));
        }
        let mut request = match self.pull(now, stream, open, connection, None)? {
            Pulled::Head(request) => request,
            pulled => return Ok(matches!(pulled, Pulled::Reset)),
        };
        open.is_told = true;
        if !open.is_wished {
            open.priority = request.priority;
        }
        // The end of the stream may have arrived with the head.
        let behind = self.peek(stream, open, connection);
        if !matches!(behind, Ok(Pulled::End)) {
            request.fields.iter_mut().for_each(|request| request.set_unended());
        }
        streams.events.push_back(Event::Request { stream, request: request.fields });
        Ok(matches!(behind?, Pulled::Reset))
    }

    /// Checks whether more has arrived after the head of a request.
    fn peek(&mut self, stream: u32, open: &mut Stream, connection: &mut Connection) -> Result<Pulled, Fault> {
        match &mut open.incoming {
            Some(incoming) if incoming.rest.is_empty() => match next(connection, stream, HEAD_PIECE_BYTES) {
                Ok(Some(bytes)) => {
                    incoming.rest = bytes;
                    Ok(Pulled::Full)
                }
                Ok(None) => finish(open),
                Err(ReadError::Blocked) => Ok(Pulled::Blocked),
                Err(ReadError::Reset(_)) => Ok(Pulled::Reset),
            },
            _ => Ok(Pulled::Full),
        }
    }

    /// Reads the stream of a request, up to the end of its head or of the stream. If the body is wanted, its content is
    /// appended to `into`, which grows to at most the given length.
    pub fn pull(
        &mut self,
        now: Nanos,
        stream: u32,
        open: &mut Stream,
        connection: &mut Connection,
        mut into: Option<(&mut Vec<u8>, usize)>,
    ) -> Result<Pulled, Fault> {
        loop {
            let left = into.as_ref().map_or(usize::MAX, |(into, end)| end.saturating_sub(into.len()));
            let Some(incoming) = &mut open.incoming else { return Ok(Pulled::End) };
            if left == 0 {
                return Ok(Pulled::Full);
            }
            if incoming.rest.is_empty() {
                let piece_bytes = if open.is_told { left } else { HEAD_PIECE_BYTES };
                match next(connection, stream, piece_bytes) {
                    Ok(Some(bytes)) => incoming.rest = bytes,
                    Ok(None) => return finish(open),
                    Err(ReadError::Blocked) => return Ok(Pulled::Blocked),
                    Err(ReadError::Reset(_)) => return Ok(Pulled::Reset),
                }
            }
            let piece = incoming.rest.split_to(incoming.rest.len().min(left));
            let mut unread = &piece[..];
            let content = into.as_mut().map(|(into, _)| &mut **into);
            if let Some(request) = incoming.receive(now, &mut unread, &mut self.shared, &mut self.budget, content)? {
                incoming.rest = piece.slice(piece.len() - unread.len()..);
                return Ok(Pulled::Head(request));
            }
        }
    }

    /// Reads a unidirectional stream.
    fn uni(&mut self, now: Nanos, id: StreamId, connection: &mut Connection, streams: &mut Streams) -> Result<(), End> {
        let Some(place) = self.unis.iter().position(|(of, _)| *of == id) else { return Ok(()) };
        let mut updates = Vec::new();
        let uni = &mut self.unis[place].1;
        let kept_before = uni.kept_bytes();
        let read = read_uni(now, id, uni, connection, &mut self.seen, &mut self.budget, &mut updates);
        streams.kept_bytes = streams.kept_bytes + uni.kept_bytes() - kept_before;
        streams.charge();
        match read.map_err(end)? {
            Read::On => {}
            Read::Ended => {
                self.unis.swap_remove(place);
            }
            Read::Unwanted => {
                self.unis.swap_remove(place);
                let _ = connection.recv_stream(id).stop(code(STREAM_CREATION_ERROR));
                self.budget.on_control(now)?;
            }
        }
        updates.into_iter().try_for_each(|update| self.update(update, streams))
    }

    fn update(&self, update: Update, streams: &mut Streams) -> Result<(), End> {
        let Update { id, priority } = update;
        let last = u64::from(streams.next) + u64::from(self.streams_max);
        match u32::try_from(id / 4).ok().filter(|&stream| u64::from(stream) < last) {
            Some(stream) => streams.wish(stream, priority),
            None => return Err(End::protocol(ID_ERROR, "a priority of a stream that may not be opened yet")),
        }
        Ok(())
    }
}

/// Returns the next bytes of a request's stream; `None` if it has ended.
fn next(connection: &mut Connection, stream: u32, bytes_max: usize) -> Result<Option<Bytes>, ReadError> {
    let mut receiving = connection.recv_stream(id(stream));
    // A stream that quinn has dropped has neither bytes nor an end.
    let Ok(mut chunks) = receiving.read(true) else { return Err(ReadError::Blocked) };
    chunks.next(bytes_max).map(|chunk| chunk.map(|chunk| chunk.bytes))
}

/// Checks that the request is complete where the client has ended its stream.
fn finish(open: &mut Stream) -> Result<Pulled, Fault> {
    let finished = open.incoming.take().map_or(Ok(()), |incoming| incoming.finish());
    finished.map(|()| Pulled::End)
}

/// The state of a unidirectional stream.
enum Read {
    On,
    Ended,
    Unwanted,
}

fn read_uni(
    now: Nanos,
    id: StreamId,
    uni: &mut Uni,
    connection: &mut Connection,
    seen: &mut Seen,
    budget: &mut Budget,
    updates: &mut Vec<Update>,
) -> Result<Read, Fault> {
    let mut receiving = connection.recv_stream(id);
    let Ok(mut chunks) = receiving.read(true) else { return Ok(Read::Ended) };
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                let mut bytes = &chunk.bytes[..];
                loop {
                    match uni.next(now, &mut bytes, seen, budget)? {
                        Next::More => break,
                        Next::Update(update) => updates.push(update),
                        Next::Stop => return Ok(Read::Unwanted),
                    }
                }
            }
            Ok(None) | Err(ReadError::Reset(_)) => return uni.end().map(|()| Read::Ended),
            Err(ReadError::Blocked) => return Ok(Read::On),
        }
    }
}

fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn end(fault: Fault) -> End {
    match fault {
        Fault::Connection(code, why) => End::protocol(code, why),
        Fault::Flood(flood) => flood.into(),
        // Streams of the connection itself have no such mistake.
        Fault::Stream(code, _) => End::protocol(code, "a stream that the connection needs"),
    }
}

/// Removes a response with nothing in flight: the client has acknowledged all of it, or has stopped reading it.
fn settle(id: StreamId, streams: &mut Streams) {
    if let Some(stream) = u32::try_from(id.index()).ok().filter(|_| id.dir() == Dir::Bi) {
        streams.unacknowledged.remove(&stream);
    }
}
