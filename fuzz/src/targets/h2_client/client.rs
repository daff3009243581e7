//! The client of a run, and the bounds of its session.

use std::collections::BTreeMap;

use http::Method;
use http::gateway::RequestHead;
use http::http1::upstream::{Framing, ResponseLimits};
use http2::testing::{self, DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE};
use http2::{
    BODIES_BYTES_MAX, BodyRead, Broken, ClientSession, ClientSettings, Closed, FRAME_HEADER_BYTES, Flood, PREFACE,
    STREAMS_MAX, Stop,
};
use units::Nanos;
use units::memory::Account;

use super::super::bodies::Body;
use crate::Reached;

/// The maximum bytes that a server sends in one run.
const WIRE_BYTES_MAX: usize = 1 << 20;
/// Bytes of answers, for each that has come and beside them: SETTINGS, GOAWAY with its text.
const ANSWER_FACTOR: usize = 4;
const ANSWER_BYTES: usize = 256;
const HEAD_BYTES_MAX: usize = 128;
/// Updates of the windows of a stream and its connection, which reading opens, and a reset.
const UPDATE_BYTES_MAX: usize = 3 * (FRAME_HEADER_BYTES + 4);
/// Grants of the last round, for each stream.
const LAST_GRANTS: usize = 64;

/// A stream as seen by its client.
struct Stream {
    method: Method,
    /// The rest of the request's body that has not been sent.
    body: Option<Body>,
    /// END_STREAM or RST_STREAM has left.
    is_over: bool,
    interim: u32,
    /// The final head: how the body is framed, and what has been read of it.
    framing: Option<Framing>,
    read_bytes: u64,
    has_body: bool,
    is_malformed: bool,
    has_left: bool,
}

pub struct Client {
    session: ClientSession,
    pub now: Nanos,
    out: Vec<u8>,
    streams: BTreeMap<u32, Stream>,
    is_broken: bool,
    /// The bytes of answers that are allowed.
    allowance: usize,
    wire_bytes: usize,
    pub cut: usize,
    /// The bytes that are sent again.
    last: Vec<u8>,
    pub reached: Reached,
}

impl Client {
    pub fn new() -> Client {
        let mut client = Client {
            session: ClientSession::new(&ClientSettings::default()),
            now: Nanos::ZERO,
            out: Vec::new(),
            streams: BTreeMap::new(),
            is_broken: false,
            allowance: ANSWER_BYTES,
            wire_bytes: 0,
            cut: usize::MAX,
            last: Vec::new(),
            reached: Reached::default(),
        };
        client.session.control(&mut client.out);
        assert!(client.out.starts_with(PREFACE));
        client.out.drain(..PREFACE.len());
        client.look(None, 0);
        client
    }

    /// The stream with this index among all opened ones.
    pub fn nth(&self, place: u8) -> Option<u32> {
        let count = self.streams.len().max(1);
        self.streams.keys().nth(usize::from(place) % count).copied()
    }

    pub fn hear(&mut self, bytes: Vec<u8>) {
        self.receive(&bytes);
        self.last = bytes;
    }

    pub fn again(&mut self, count: usize) {
        let last = std::mem::take(&mut self.last);
        for _ in 0..count {
            if self.is_broken {
                break;
            }
            self.receive(&last);
        }
        self.last = last;
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.cut) {
            self.wire_bytes += piece.len();
            if self.wire_bytes <= WIRE_BYTES_MAX {
                self.receive_piece(piece);
            }
        }
    }

    fn receive_piece(&mut self, bytes: &[u8]) {
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
            assert!(self.session.is_leaving() && self.session.streams_max() == 0, "{broken}");
        }
        self.look(None, 0);
        self.hear_news();
    }

    fn hear_news(&mut self) {
        let mut told = Vec::new();
        while let Some(stream) = self.session.news() {
            assert!(!told.contains(&stream), "{stream} is told of twice");
            told.push(stream);
            assert!(self.streams.get(&stream).is_some_and(|known| !known.has_left), "{stream} is told of to nobody");
            self.take_heads(stream);
        }
        for stream in self.streams.keys() {
            assert!(self.session.kept_bytes(*stream) <= BODIES_BYTES_MAX / STREAMS_MAX as usize);
        }
        assert!(self.session.body_bytes() <= BODIES_BYTES_MAX);
    }

    fn take_heads(&mut self, stream: u32) {
        while let Some(head) = self.session.take_head(stream) {
            let known = self.streams.get_mut(&stream).expect("a stream that was opened");
            assert!(!known.is_malformed, "something behind what is wrong");
            let Ok(head) = head else {
                known.is_malformed = true;
                self.reached.mark("malformed response");
                continue;
            };
            assert!(known.framing.is_none(), "a head behind the final one");
            if head.is_interim() {
                known.interim += 1;
                assert!(known.interim <= ResponseLimits::default().interim_max);
                self.reached.mark("interim head");
            } else {
                known.framing = Some(head.framing);
                assert!(known.method != Method::Head || head.framing == Framing::None, "a body for HEAD");
                self.reached.mark("head");
            }
        }
    }

    /// Sends a request whose method and body `choice` selects.
    pub fn request(&mut self, choice: u8) {
        let open: Vec<u32> =
            self.streams.iter().filter(|(_, known)| !known.has_left).map(|(stream, _)| *stream).collect();
        let open = open.into_iter().filter(|stream| self.session.closed(*stream).is_none()).count();
        if open >= self.session.streams_max() as usize {
            return self.reached.mark_if(self.session.is_leaving(), "no more requests");
        }
        let method = [Method::Get, Method::Head, Method::Post, Method::Put][usize::from(choice >> 6)];
        let body = matches!(method, Method::Post | Method::Put).then(|| Body::new(choice));
        let head = RequestHead::of_get("http", "a", "/x");
        self.allowance += HEAD_BYTES_MAX;
        let Some(stream) =
            self.session.request(self.now, method, &head, body.is_some(), &Account::default(), &mut self.out)
        else {
            return;
        };
        assert!(self.streams.last_key_value().is_none_or(|(last, _)| *last < stream) && stream % 2 == 1);
        let has_body = body.is_some();
        let known = Stream {
            method,
            body,
            is_over: false,
            interim: 0,
            framing: None,
            read_bytes: 0,
            has_body,
            is_malformed: false,
            has_left: false,
        };
        self.streams.insert(stream, known);
        assert!(self.streams.len() < 1 << 16);
        self.look(None, 0);
    }

    /// Reads the bytes sent; `granted` is the stream that was granted, with its room.
    fn look(&mut self, granted: Option<u32>, room: usize) -> u64 {
        let (mut content, mut others) = (0, 0);
        let frames = testing::frames(&mut self.out);
        assert!(self.out.is_empty(), "frames are made whole");
        for (kind, flags, stream, payload) in frames {
            let bytes = FRAME_HEADER_BYTES + payload.len();
            if let Some(known) = self.streams.get_mut(&stream) {
                assert!(
                    !known.is_over || matches!(kind, RST_STREAM | WINDOW_UPDATE),
                    "{kind} on {stream}, which is over"
                );
                assert!(kind != DATA || known.has_body, "content of a request that has none");
                known.is_over |= kind == RST_STREAM || (matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0);
            }
            assert!(kind != GOAWAY || self.is_broken || granted.is_none());
            match kind {
                DATA => {
                    assert_eq!(Some(stream), granted, "content of a stream that was not granted");
                    content += bytes;
                }
                _ => others += bytes,
            }
        }
        assert!(content <= room, "{content} bytes in a room of {room}");
        assert!(others <= self.allowance, "{others} bytes of answers, {} are accounted for", self.allowance);
        self.allowance -= others;
        content as u64
    }

    pub fn write(&mut self, stream: u32, room: usize) {
        let known = self.streams.get_mut(&stream).expect("a stream that was opened");
        let Some(mut body) = known.body.take() else { return };
        let window = self.session.window(stream).unwrap_or(0);
        let written = self.session.write(stream, room, &mut body, &mut self.out);
        self.allowance += 2 * ANSWER_BYTES;
        let framed = self.look(Some(stream), room);
        assert!(written.bytes <= window.into(), "{} bytes in a window of {window}", written.bytes);
        assert!(written.bytes <= framed, "{} bytes said, {framed} made", written.bytes);
        match written.stop {
            Stop::Room | Stop::Source => {}
            Stop::End => self.reached.mark("a request's body whole"),
            Stop::Failed => self.reached.mark("a request's body that fails"),
            Stop::StreamWindow | Stop::Window => self.reached.mark("a request's body waits for a window"),
            Stop::Closed => assert_eq!(written.bytes, 0),
        }
        if !matches!(written.stop, Stop::End | Stop::Failed | Stop::Closed) {
            self.streams.get_mut(&stream).expect("it is still there").body = Some(body);
        }
        self.hear_news();
    }

    /// Reads at most this many bytes of the response's body.
    pub fn read(&mut self, stream: u32, bytes_max: usize) {
        let known = self.streams.get_mut(&stream).expect("a stream that was opened");
        if known.framing.is_none() || known.is_malformed || known.has_left {
            return;
        }
        let mut came = Vec::new();
        let read = self.session.read_body(self.now, stream, &mut came, bytes_max);
        assert!(came.len() <= bytes_max, "{} bytes where {bytes_max} were asked for", came.len());
        known.read_bytes += came.len() as u64;
        let most = match known.framing {
            Some(Framing::None) => 0,
            Some(Framing::Length(length)) => length.bytes(),
            _ => u64::MAX,
        };
        assert!(known.read_bytes <= most, "{} bytes of {most}", known.read_bytes);
        match read {
            BodyRead::More | BodyRead::Later => {}
            BodyRead::Cut => self.reached.mark("a body cut off"),
            BodyRead::End => {
                assert!(most == u64::MAX || known.read_bytes == most, "an end at {} of {most}", known.read_bytes);
                self.reached.mark("a body whole");
                self.reached.mark_if(self.session.take_trailers(stream).is_some(), "trailers");
            }
        }
        match self.session.closed(stream) {
            Some(Closed::Whole) if read == BodyRead::End => self.reached.mark("a response whole"),
            _ => {}
        }
        self.allowance += UPDATE_BYTES_MAX;
        self.session.control(&mut self.out);
        self.look(None, 0);
        self.hear_news();
    }

    /// Cancels a stream.
    pub fn leave(&mut self, stream: u32) {
        let known = self.streams.get_mut(&stream).expect("a stream that was opened");
        if std::mem::replace(&mut known.has_left, true) {
            return;
        }
        known.body = None;
        match self.session.closed(stream) {
            Some(Closed::Refused) => self.reached.mark("a stream refused"),
            Some(Closed::Reset(_)) => self.reached.mark("a stream reset"),
            Some(Closed::Whole) | None => {}
        }
        self.session.leave(stream);
        assert_eq!((self.session.closed(stream), self.session.kept_bytes(stream)), (None, 0));
        self.allowance += UPDATE_BYTES_MAX;
        self.session.control(&mut self.out);
        self.look(None, 0);
        self.hear_news();
    }

    pub fn finish(&mut self) {
        let streams: Vec<u32> = self.streams.keys().copied().collect();
        assert!(streams.len() <= STREAMS_MAX as usize || self.streams.values().any(|known| known.is_over));
        for &stream in &streams {
            (0..LAST_GRANTS).for_each(|_| self.write(stream, 1448));
            self.read(stream, usize::MAX);
            self.leave(stream);
        }
        assert_eq!(self.session.body_bytes(), 0, "kept for nobody");
        self.allowance += ANSWER_BYTES;
        self.session.end(&mut self.out);
        self.look(None, 0);
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
        Broken::Flood(Flood::Unread | Flood::Paths) => unreachable!("the caller tells of it, and HTTP/2 has no paths"),
    }
}
