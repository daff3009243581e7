//! The data that callbacks read and write.

use std::collections::VecDeque;

use http::{MalformedRequest, PeerLength, Refused, RequestBuilder, check_field};
use units::memory::{Account, Charge};

use crate::bodies::Bodies;
use crate::responses::Responses;
use crate::session::{Source, Supply};
use crate::{Event, FRAME_HEADER_BYTES, Priority, Settings, priority};

/// Received messages, by the role of this end of the connection.
pub enum Side {
    Server(Box<Requests>),
    Client(Responses),
}

/// Requests of a client. Malformed requests (RFC 9113 section 8.1.1) are detected here, since the engine would end the
/// connection and with it all other requests.
pub struct Requests {
    events: VecDeque<Event>,
    /// The head being received: header blocks are not interleaved.
    head: RequestBuilder,
    /// The state of the trailers while a block of trailers is being received: whether they are well formed so far.
    trailers: Option<Result<(), MalformedRequest>>,
    /// The priority in the head being received.
    priority: Option<Priority>,
    /// Per stream, the content still to come if the head declares a length.
    left: Vec<(u32, PeerLength)>,
    /// The memory of queued requests. The next field is the charge for it and for the head being received.
    events_bytes: usize,
    charge: Charge,
}

const OTHER_LENGTH: MalformedRequest = MalformedRequest("content whose length is not the content-length");
const HEADERS_WITHIN: MalformedRequest = MalformedRequest("trailers that do not end the request");

/// Queue capacity that is kept when the queue is empty.
const EVENTS_KEPT: usize = 8;

/// The stream whose body is currently made into frames, and the progress.
pub struct Turn {
    pub stream: u32,
    /// The maximum length of `out`.
    pub end: usize,
    /// The source, valid during the call that sets the turn and ends it.
    pub source: *mut (dyn Source + 'static),
    /// Bytes of the body.
    pub bytes: u64,
    pub stop: Option<Supply>,
}

pub struct Hooks {
    pub side: Side,
    pub bodies: Bodies,
    pub out: Vec<u8>,
    /// The offset of the header of the frame being made.
    pub frame_at: usize,
    pub turn: Option<Turn>,
    /// Streams to reset because their message is malformed.
    pub malformed: Vec<u32>,
    /// Number of streams reset because of the peer's mistakes since the last query.
    pub provoked: u32,
    /// The last protocol error that the library found.
    pub trouble: Option<String>,
    /// True if the peer's SETTINGS have arrived.
    pub has_settings: bool,
    /// The last stream that a peer still processes when it closes without an error (GOAWAY); 0 otherwise.
    pub last_processed: u32,
}

impl Requests {
    pub fn new(settings: &Settings) -> Requests {
        Requests {
            events: VecDeque::new(),
            head: RequestBuilder::new(settings.request, settings.has_tunnels),
            trailers: None,
            priority: None,
            left: Vec::new(),
            events_bytes: 0,
            charge: Charge::default(),
        }
    }

    fn begin(&mut self, is_first: bool) {
        self.head.begin();
        (self.trailers, self.priority) = ((!is_first).then_some(Ok(())), None);
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        match &mut self.trailers {
            // Trailers are discarded.
            Some(checked) => *checked = checked.and_then(|()| check_field(name, value)),
            None => {
                if name == b"priority" {
                    self.priority = Some(priority::parse(value));
                }
                self.head.push(name, value);
            }
        }
    }

    /// Completes a header block. An error is a malformed request.
    fn end(&mut self, stream: u32, ends_stream: bool, bodies: &mut Bodies) -> Result<(), Box<Refused>> {
        if let Some(checked) = self.trailers {
            let checked = checked.and(if ends_stream { Ok(()) } else { Err(HEADERS_WITHIN) });
            return checked.map_err(Refused::malformed);
        }
        let (mut request, said) = (self.head.finish()?, self.head.content_length());
        if ends_stream && said.is_some_and(|said| said > PeerLength::ZERO) {
            return Err(Refused::malformed(OTHER_LENGTH));
        }
        if !ends_stream {
            request.iter_mut().for_each(|request| request.set_unended());
            self.left.extend(said.map(|said| (stream, said)));
        }
        bodies.begin(stream, ends_stream);
        self.push_event(Event::Request { stream, request });
        Ok(())
    }

    /// Counts content. Returns false if it is more or less than the head declared.
    fn on_body(&mut self, stream: u32, bytes: usize, ends_stream: bool) -> bool {
        let Some(at) = self.left.iter().position(|(of, _)| *of == stream) else { return true };
        let Some(left) = self.left[at].1.less(bytes as u64) else { return false };
        self.left[at].1 = left;
        if ends_stream {
            self.left.swap_remove(at);
        }
        !ends_stream || left == PeerLength::ZERO
    }

    fn close(&mut self, stream: u32) {
        self.left.retain(|(of, _)| *of != stream);
        self.push_event(Event::Closed { stream });
    }

    pub fn count_in(&mut self, account: &Account) {
        self.charge.move_to(account);
    }

    /// Bytes of memory of the request in an event.
    fn bytes_of(event: &Event) -> usize {
        match event {
            Event::Request { request: Ok(request), .. } => request.memory_bytes(),
            Event::Malformed { refused, .. } => refused.shown.method.len() + refused.shown.target.len(),
            _ => 0,
        }
    }

    pub fn push_event(&mut self, event: Event) {
        self.events_bytes += Requests::bytes_of(&event);
        self.events.push_back(event);
    }

    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > EVENTS_KEPT {
            self.events = VecDeque::new();
        }
        if let Some(event) = &event {
            self.events_bytes -= Requests::bytes_of(event);
            self.count();
        }
        event
    }

    /// Bytes of memory of requests, recomputed.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self) -> usize {
        self.events.iter().map(Requests::bytes_of).sum::<usize>() + self.head.memory_bytes()
    }

    /// Updates the charge after requests were received or returned.
    pub fn count(&mut self) {
        self.charge.set(self.events_bytes + self.head.memory_bytes());
    }
}

impl Hooks {
    pub fn new(side: Side) -> Hooks {
        let (bodies, out, malformed) = (Bodies::default(), Vec::new(), Vec::new());
        let (frame_at, turn, provoked, trouble, last_processed) = (0, None, 0, None, 0);
        let has_settings = false;
        Hooks { side, bodies, out, frame_at, turn, malformed, provoked, trouble, has_settings, last_processed }
    }

    /// Bytes of memory of the head that was received last.
    pub fn head_bytes(&self) -> usize {
        match &self.side {
            Side::Server(requests) => requests.head.memory_bytes(),
            Side::Client(_) => 0,
        }
    }

    /// The requests; the session must be a server's.
    pub fn requests(&mut self) -> &mut Requests {
        match &mut self.side {
            Side::Server(requests) => requests,
            Side::Client(_) => unreachable!("its session is a client's"),
        }
    }

    /// The responses; the session must be a client's.
    pub fn responses(&mut self) -> &mut Responses {
        match &mut self.side {
            Side::Client(responses) => responses,
            Side::Server(_) => unreachable!("its session is a server's"),
        }
    }

    /// Starts a header block, the first of its stream or a later one.
    pub fn begin_head(&mut self, is_first: bool) {
        match &mut self.side {
            Side::Server(requests) => requests.begin(is_first),
            Side::Client(responses) => responses.head.begin(),
        }
    }

    pub fn push_field(&mut self, name: &[u8], value: &[u8]) {
        match &mut self.side {
            Side::Server(requests) => requests.push(name, value),
            Side::Client(responses) => responses.head.push(name, value),
        }
    }

    /// Completes a head or trailers, and the message too if the block ends the stream.
    pub fn end_head(&mut self, stream: u32, ends_stream: bool) {
        let ended = match &mut self.side {
            Side::Server(requests) => requests.end(stream, ends_stream, &mut self.bodies).map_err(Some),
            Side::Client(responses) => responses.end_head(stream, ends_stream).then_some(()).ok_or(None),
        };
        if let Err(refused) = ended {
            return self.on_malformed(stream, refused);
        }
        match &self.side {
            // On the server, a stream's end also ends the content, even after trailers.
            Side::Server(_) if ends_stream => self.end_body(stream),
            Side::Client(_) if ends_stream => drop(self.bodies.end(stream)),
            _ => {}
        }
    }

    /// Takes the priority in the head just completed.
    pub fn take_priority(&mut self) -> Option<Priority> {
        match &mut self.side {
            Side::Server(requests) => requests.priority.take(),
            Side::Client(_) => None,
        }
    }

    /// Discards a malformed message and marks its stream for a reset. A request is reported with the reason.
    fn on_malformed(&mut self, stream: u32, refused: Option<Box<Refused>>) {
        self.bodies.remove(stream);
        if self.malformed.contains(&stream) {
            return;
        }
        self.malformed.push(stream);
        if let (Side::Server(requests), Some(refused)) = (&mut self.side, refused) {
            requests.push_event(Event::Malformed { stream, refused });
        }
    }

    /// Stores a part of a body. Returns false if the body is not wanted.
    pub fn keep(&mut self, stream: u32, bytes: &[u8]) -> bool {
        if !self.is_well_formed(stream, bytes.len(), false) {
            return false;
        }
        let kept = self.bodies.keep(stream, bytes);
        self.tell(stream, kept == Some(true));
        kept.is_some()
    }

    /// Counts content; a message with more or less than its head declares is malformed.
    fn is_well_formed(&mut self, stream: u32, bytes: usize, ends_stream: bool) -> bool {
        let is_well_formed = match &mut self.side {
            Side::Server(requests) => requests.on_body(stream, bytes, ends_stream),
            Side::Client(responses) => responses.on_body(stream, bytes, ends_stream),
        };
        if !is_well_formed {
            self.on_malformed(stream, Some(Refused::malformed(OTHER_LENGTH)));
        }
        is_well_formed
    }

    pub fn end_body(&mut self, stream: u32) {
        if !self.is_well_formed(stream, 0, true) {
            return;
        }
        let is_news = self.bodies.end(stream);
        self.tell(stream, is_news);
    }

    /// Notifies the reader of a body if there is something to read.
    pub fn tell(&mut self, stream: u32, is_news: bool) {
        match &mut self.side {
            _ if !is_news => {}
            Side::Server(requests) => requests.push_event(Event::Body { stream }),
            Side::Client(responses) => responses.tell(stream),
        }
    }

    pub fn close(&mut self, stream: u32, code: u32) {
        match &mut self.side {
            Side::Server(requests) => {
                self.bodies.remove(stream);
                requests.close(stream);
            }
            Side::Client(responses) => {
                // A complete body is still to be read.
                if !self.bodies.has_ended(stream) {
                    self.bodies.remove(stream);
                }
                responses.close(stream, code);
            }
        }
    }

    /// Returns the number of bytes of this stream's body that its next frame may hold, at most `bytes_max`.
    pub fn room(&self, stream: u32, bytes_max: usize) -> usize {
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.stream == stream && turn.stop.is_none()) else {
            return 0;
        };
        turn.end.saturating_sub(self.out.len() + FRAME_HEADER_BYTES).min(bytes_max)
    }

    /// Appends up to `bytes_max` bytes of the body to the output, after room for the frame header. Keeps nothing if the
    /// source fails.
    pub fn read(&mut self, source: &mut dyn Source, bytes_max: usize) -> (usize, Supply) {
        self.frame_at = self.out.len();
        self.out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        let begin = self.out.len();
        let supply = source.peek(&mut self.out, bytes_max);
        let mut bytes = self.out.len() - begin;
        assert!(bytes <= bytes_max, "{bytes} bytes of a frame of {bytes_max}");
        if supply == Supply::Failed {
            bytes = 0;
        }
        if bytes == 0 {
            self.out.truncate(self.frame_at);
        }
        source.advance(bytes);
        (bytes, supply)
    }
}
