//! The server of a run, and the bounds of its session.

use std::collections::BTreeMap;

use http::{Limits, OwnedRequest, Refused, Status};
use http2::testing::{self, DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE, frame};
use http2::{BODIES_BYTES_MAX, Broken, Event, FRAME_HEADER_BYTES, Flood, STREAMS_MAX, Session, Settings, Stop};
use units::Nanos;

use super::super::bodies::{Body, Upload, head};
use super::super::qpack::check_request;
use super::{IS_CANCELLED, IS_WIDENED};
use crate::Reached;

/// The maximum head, which an input of a few kilobytes exceeds.
const NARROW: Limits = Limits { head_bytes_max: 16 << 10, fields_max: 64 };
/// The maximum bytes that a client sends in one run.
const WIRE_BYTES_MAX: usize = 1 << 20;
/// Bytes of answers, for each that has come and beside them: SETTINGS, GOAWAY with its text.
const ANSWER_FACTOR: usize = 4;
const ANSWER_BYTES: usize = 256;
const HEAD_BYTES_MAX: usize = 128;
/// Grants of the last round, for each stream.
const LAST_GRANTS: usize = 64;
/// Read at once of a request's body.
const READ_BYTES: usize = 100;

/// A stream as seen by its server.
#[derive(Default)]
pub struct Stream {
    body: Option<Body>,
    upload: Option<Upload>,
    has_responded: bool,
    /// Closed by either side according to an event, or because everything was sent.
    is_closed: bool,
    /// END_STREAM or RST_STREAM has been sent.
    is_over: bool,
}

pub struct Server {
    pub session: Session,
    pub now: Nanos,
    out: Vec<u8>,
    streams: BTreeMap<u32, Stream>,
    /// The highest stream that was requested or closed.
    highest: u32,
    is_broken: bool,
    /// The bytes of answers that are allowed.
    pub allowance: usize,
    wire_bytes: usize,
    pub cut: usize,
    next: u32,
    last: Last,
    wants_bodies: bool,
    reads_at_once: bool,
    pub reached: Reached,
}

/// The action that [`AGAIN`] repeats.
#[derive(Clone)]
pub enum Last {
    Bytes(Vec<u8>),
    /// A request, with a new number each time.
    Request(u8, Vec<u8>),
}

impl Server {
    pub fn new(wants_bodies: bool, reads_at_once: bool) -> Server {
        Server {
            session: Session::new(&Settings { request: NARROW, ..Settings::default() }),
            now: Nanos::ZERO,
            out: Vec::new(),
            streams: BTreeMap::new(),
            highest: 0,
            is_broken: false,
            allowance: ANSWER_BYTES,
            wire_bytes: 0,
            cut: usize::MAX,
            next: 1,
            last: Last::Bytes(Vec::new()),
            wants_bodies,
            reads_at_once,
            reached: Reached::default(),
        }
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.cut) {
            self.wire_bytes += piece.len();
            if self.wire_bytes > WIRE_BYTES_MAX {
                return;
            }
            self.receive_piece(piece);
        }
    }

    pub fn receive_piece(&mut self, bytes: &[u8]) {
        let had_ended = self.is_broken;
        let taken = self.session.receive(self.now, bytes, &mut self.out);
        self.allowance += ANSWER_FACTOR * bytes.len();
        if had_ended {
            assert!(taken.is_ok() && self.out.is_empty(), "an end is told once");
            self.reached.mark("anything after the end");
        }
        if let Err(broken) = taken {
            self.is_broken = true;
            self.reached.mark(name(&broken));
            assert!(self.session.has_ended(), "{broken}");
        }
        self.look(None, 0);
        self.events();
    }

    pub fn events(&mut self) {
        while let Some(event) = self.session.event() {
            match event {
                Event::Request { stream, request } => self.request(stream, request),
                // Perhaps of a stream whose request is still to come (RFC 9218 section 7.1).
                Event::Priority { .. } => self.reached.mark("a wish changed"),
                Event::Body { stream } => {
                    let known = self.streams.get_mut(&stream).and_then(|known| known.upload.as_mut());
                    let upload = known.expect("a body that is wanted");
                    assert!(!std::mem::replace(&mut upload.is_readable, true), "{stream} is told of twice");
                    if self.reads_at_once {
                        self.read(stream);
                    }
                }
                Event::Malformed { stream, refused } => {
                    assert!((400..500).contains(&refused.reject.status.0), "{stream}: {}", refused.reject);
                    self.reached.mark("a malformed request");
                }
                Event::Closed { stream } => {
                    self.reached.mark("a stream closed");
                    // A request that was incomplete or malformed was never reported, and must not be reported later.
                    self.highest = self.highest.max(stream);
                    if let Some(known) = self.streams.get_mut(&stream) {
                        assert!(!known.is_closed, "{stream} is closed twice");
                        known.is_closed = true;
                    }
                    assert_eq!(self.session.stream_window(stream), None, "{stream} is closed and has a window");
                }
            }
        }
        assert!(self.session.body_bytes() <= BODIES_BYTES_MAX);
        let open = self.streams.values().filter(|stream| !stream.is_closed).count();
        assert!(open <= STREAMS_MAX as usize, "{open} streams are open");
    }

    pub fn request(&mut self, stream: u32, request: Result<Box<OwnedRequest>, Box<Refused>>) {
        self.reached.mark("request");
        assert!(stream > self.highest && stream % 2 == 1, "request {stream} behind {}", self.highest);
        self.highest = stream;
        self.streams.insert(stream, Stream::default());
        match request {
            Ok(request) => {
                check_request(&request.view(), &NARROW);
                if self.wants_bodies && self.session.want_body(stream) {
                    self.streams.entry(stream).or_default().upload = Some(Upload::new(&request.view()));
                }
            }
            Err(refused) if refused.reject.status == Status::HEAD_TOO_LARGE => {
                self.reached.mark("head beyond the limit");
            }
            Err(_) => self.reached.mark("request refused by its head"),
        }
    }

    /// Reads the available part of a request's body.
    fn read(&mut self, stream: u32) {
        let Some(upload) = self.streams.get_mut(&stream).and_then(|known| known.upload.as_mut()) else { return };
        while upload.is_readable {
            let mut came = Vec::new();
            let read = self.session.read_body(stream, &mut came, READ_BYTES);
            upload.on_read(READ_BYTES, &came, read, &mut self.reached);
        }
    }

    /// Reads the bytes sent; `granted` is the stream that was granted, with its room.
    pub fn look(&mut self, granted: Option<u32>, room: usize) -> u64 {
        let mut content = 0;
        let mut others = 0;
        let frames = testing::frames(&mut self.out);
        assert!(self.out.is_empty(), "frames are made whole");
        for (kind, flags, stream, payload) in frames {
            let bytes = FRAME_HEADER_BYTES + payload.len();
            if let Some(known) = self.streams.get_mut(&stream) {
                assert!(
                    !known.is_over || matches!(kind, RST_STREAM | WINDOW_UPDATE),
                    "{kind} on {stream}, which is over"
                );
                known.is_over |= kind == RST_STREAM || (matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0);
            }
            match kind {
                DATA => {
                    assert_eq!(Some(stream), granted, "content of a stream that was not granted");
                    content += bytes;
                }
                HEADERS => assert!(self.streams[&stream].has_responded, "a head for {stream} from nowhere"),
                RST_STREAM if payload[..] == [0, 0, 0, 7] => self.reached.mark("stream refused"),
                RST_STREAM => self.reached.mark("reset by the server"),
                GOAWAY => self.reached.mark("server says farewell"),
                _ => {}
            }
            others += if kind == DATA { 0 } else { bytes };
        }
        assert!(content <= room, "{content} bytes in a room of {room}");
        assert!(others <= self.allowance, "{others} bytes of answers, {} are accounted for", self.allowance);
        self.allowance -= others;
        content as u64
    }

    /// The stream with this index among all requested ones.
    pub fn nth(&self, place: u8) -> Option<u32> {
        let count = self.streams.len().max(1);
        self.streams.keys().nth(usize::from(place) % count).copied()
    }

    pub fn respond(&mut self, stream: u32, choice: u8) {
        let known = self.streams.get_mut(&stream).expect("a stream that was asked for");
        if known.has_responded || known.is_closed {
            return;
        }
        known.has_responded = true;
        let has_body = choice & 0x40 == 0;
        known.body = has_body.then(|| Body::new(choice));
        self.session.respond(stream, &head(), has_body);
        self.allowance += HEAD_BYTES_MAX;
    }

    pub fn write(&mut self, stream: u32, room: usize) -> Option<Stop> {
        self.read(stream);
        let known = self.streams.get_mut(&stream).expect("a stream that was asked for");
        let mut body = known.body.take()?;
        let windows = self.session.stream_window(stream).unwrap_or(0).min(self.session.window());
        let written = self.session.write(stream, room, &mut body, &mut self.out);
        self.allowance += 2 * ANSWER_BYTES;
        let framed = self.look(Some(stream), room);
        assert!(written.bytes <= windows.into(), "{} bytes in windows of {windows}", written.bytes);
        assert!(written.bytes <= framed, "{} bytes said, {framed} made", written.bytes);
        let known = self.streams.get_mut(&stream).expect("it is still there");
        assert!(written.bytes == 0 || !known.is_closed, "content of {stream}, which is closed");
        match written.stop {
            Stop::Room => {}
            Stop::End => self.reached.mark("response whole"),
            Stop::Source => self.reached.mark("source has nothing"),
            Stop::Failed => self.reached.mark("source failed"),
            Stop::StreamWindow => self.reached.mark("stream window shut"),
            Stop::Window => self.reached.mark("window shut"),
            Stop::Closed => assert_eq!(written.bytes, 0),
        }
        if !matches!(written.stop, Stop::End | Stop::Failed | Stop::Closed) {
            known.body = Some(body);
        }
        self.events();
        Some(written.stop)
    }

    /// Collects the frames that the session wants to send.
    pub fn say(&mut self) {
        self.session.control(&mut self.out);
        self.look(None, 0);
        self.events();
    }

    pub fn send_request(&mut self, flags: u8, fields: Vec<u8>) {
        let stream = self.next;
        self.next = self.next.wrapping_add(2);
        self.receive(&frame(HEADERS, flags & !(IS_CANCELLED | IS_WIDENED), stream, &fields));
        if flags & IS_WIDENED != 0 {
            self.receive(&frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]));
        }
        if flags & IS_CANCELLED != 0 {
            self.receive(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        }
        self.last = Last::Request(flags, fields);
    }

    pub fn send(&mut self, bytes: Vec<u8>) {
        self.receive(&bytes);
        self.last = Last::Bytes(bytes);
    }

    pub fn again(&mut self, count: usize) {
        for _ in 0..count {
            match self.last.clone() {
                _ if self.is_broken => return,
                Last::Bytes(bytes) => self.receive(&bytes),
                Last::Request(flags, fields) => self.send_request(flags, fields),
            }
        }
    }

    pub fn cancel(&mut self, stream: u32) {
        self.session.cancel(stream);
        self.allowance += ANSWER_BYTES;
        self.say();
    }

    pub fn go_away(&mut self) {
        self.session.go_away();
        self.allowance += ANSWER_BYTES;
        self.say();
    }

    pub fn finish(&mut self) {
        let streams: Vec<u32> = self.streams.keys().copied().collect();
        for &stream in &streams {
            self.respond(stream, 3);
        }
        for &stream in &streams {
            for _ in 0..LAST_GRANTS {
                if self.write(stream, 1448) != Some(Stop::Room) {
                    break;
                }
            }
        }
        self.go_away();
        let unanswered = self.streams.values().filter(|stream| !stream.has_responded && !stream.is_closed).count();
        assert_eq!(unanswered, 0);
    }
}

fn name(broken: &Broken) -> &'static str {
    match broken {
        Broken::Protocol(_) => "mistake",
        Broken::Flood(Flood::Control) => "flood of control frames",
        Broken::Flood(Flood::Updates) => "flood of updates",
        Broken::Flood(Flood::Resets) => "flood of cancelled streams",
        Broken::Flood(Flood::Provoked) => "flood of stream errors",
        Broken::Flood(Flood::Continuations) => "flood of parts of a head",
        Broken::Flood(Flood::Unread) => "flood of answers unread",
        Broken::Flood(Flood::Paths) => unreachable!("HTTP/2 has no paths"),
    }
}
