//! An HTTP/2 client that writes its frames by hand. It sends some requests, `depth` at a time, on windows that it opens
//! as it reads.

use std::collections::{BTreeMap, VecDeque};

use http2::testing::{
    Came, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
    frames, hello, wide,
};
use units::Nanos;

use super::super::files::Site;
use super::super::random::Random;
use super::super::wire::Stop;
use super::UNWRITTEN;
use super::request::{Meaning, Request};

const ACK: u8 = 1;
/// Codes of RFC 9113 section 7.
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
/// The number of received bytes between two window updates.
const UPDATE_EVERY: u32 = 16_000;
/// The initial window of RFC 9113 section 6.9.2.
const WINDOW_BYTES: i64 = 65_535;
const SETTINGS_INITIAL_WINDOW_SIZE: u8 = 4;
/// The maximum frame length of RFC 9113 section 4.2.
const FRAME_BYTES_MAX: usize = 16_384;

pub struct Http2 {
    to_ask: VecDeque<Request>,
    asked: BTreeMap<u32, Stream>,
    depth: usize,
    think: Nanos,
    may_ask_at: Nanos,
    habits: Habits,
    next: u32,
    received: Vec<u8>,
    /// Frames to send in addition to requests.
    to_say: Vec<u8>,
    unacknowledged_bytes: u32,
    pings: u64,
    /// The last stream that the server answers, once it has sent GOAWAY.
    last: Option<u32>,
    /// True if responses may be cut off, because the disk fails at times or memory is short.
    may_be_cut: bool,
    /// The number of responses that have ended since the number was last taken.
    ended: u64,
    /// The send window of the connection, for request bodies. The next field is the initial window of new streams.
    window: i64,
    stream_window: i64,
}

#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// True if the client keeps its windows open.
    pub is_wide: bool,
    /// The client cancels one in this many requests.
    pub cancels: Option<u64>,
    /// True if the client sends a PING with each request.
    pub pings: bool,
}

#[derive(Debug)]
struct Stream {
    request: Request,
    /// A head that may be interim; only what follows shows it.
    head: Option<Vec<u8>>,
    hints: u64,
    has_head: bool,
    has_trailers: bool,
    came: usize,
    /// The number of bytes read since the last window update.
    read_bytes: u32,
    /// The number of bytes after which the client cancels the request.
    cancel_at: Option<usize>,
    /// The position of the end of the request in the bytes that the client has written.
    end: u64,
    /// The number of bytes of the request's body that were sent; `None` once all are.
    upload_at: Option<usize>,
    window: i64,
    /// The response is the text of an error.
    is_reason: bool,
}

impl Stream {
    fn new(request: Request, upload_at: Option<usize>, cancel_at: Option<usize>, window: i64) -> Stream {
        Stream {
            upload_at,
            request,
            head: None,
            hints: 0,
            has_head: false,
            has_trailers: false,
            came: 0,
            read_bytes: 0,
            cancel_at,
            end: UNWRITTEN,
            window,
            is_reason: false,
        }
    }
}

impl Stream {
    /// Judges the last head as the head of the response.
    fn judge_head(&mut self) -> Result<(), String> {
        let Some(head) = self.head.take() else { return Ok(()) };
        // After updates of the table's size, its first field is the status (RFC 7541 appendix A).
        let first = head.iter().find(|byte| **byte & 0xe0 != 0x20);
        let status = first.and_then(|byte| [200, 204, 206, 304, 400, 404, 500].get(byte.wrapping_sub(0x88) as usize));
        self.is_reason = self.request.judge(status.copied(), self.hints)? == Meaning::Reason;
        self.has_head = true;
        Ok(())
    }
}

impl Habits {
    pub fn of(random: &mut Random) -> Habits {
        let cancels = random.once_in(3).then(|| random.between(1, 6));
        Habits { is_wide: random.once_in(2), cancels, pings: random.once_in(3) }
    }
}

impl Http2 {
    pub fn new(requests: Vec<Request>, depth: usize, think: Nanos, habits: Habits, may_be_cut: bool) -> Http2 {
        let mut to_say = hello();
        if habits.is_wide {
            to_say.extend(wide());
        }
        Http2 {
            to_ask: requests.into(),
            asked: BTreeMap::new(),
            depth,
            think,
            may_ask_at: Nanos::ZERO,
            habits,
            next: 1,
            received: Vec::new(),
            to_say,
            unacknowledged_bytes: 0,
            pings: 0,
            last: None,
            may_be_cut,
            ended: 0,
            window: WINDOW_BYTES,
            stream_window: WINDOW_BYTES,
        }
    }

    pub fn describe(&self) -> String {
        let Http2 { depth, habits, asked, to_ask, last, .. } = self;
        format!("{depth} at a time, {habits:?}, {} to ask, asked {asked:?}, last {last:?}", to_ask.len())
    }

    pub fn is_done(&self) -> bool {
        self.asked.is_empty() && (self.to_ask.is_empty() || self.last.is_some())
    }

    pub fn is_waiting(&self) -> bool {
        !self.asked.is_empty() || self.pings > 0
    }

    pub fn think_at(&self) -> Option<Nanos> {
        (!self.to_ask.is_empty() && self.asked.len() < self.depth).then_some(self.may_ask_at)
    }

    pub fn asked_count(&self) -> u64 {
        u64::from(self.next / 2)
    }

    pub fn stop(&mut self) {
        self.to_ask.clear();
    }

    pub fn say(&mut self, now: Nanos, into: &mut Vec<u8>, site: &Site, random: &mut Random) {
        into.append(&mut self.to_say);
        self.upload(into, site);
        while now >= self.may_ask_at
            && self.asked.len() < self.depth
            && self.last.is_none()
            && let Some(request) = self.to_ask.pop_front()
        {
            let field = request.field();
            let mut fields =
                vec![(":method", request.method()), (":scheme", "http"), (":authority", "a"), (":path", &request.path)];
            fields.extend(field.as_ref().map(|(name, value)| (*name, value.as_str())));
            let upload = request.upload(site);
            let length = upload.filter(|(_, is_told)| *is_told).map(|(body, _)| body.len().to_string());
            fields.extend(length.as_ref().map(|length| ("content-length", length.as_str())));
            let end = if upload.is_some() { 0 } else { END_STREAM };
            into.extend(frame(HEADERS, END_HEADERS | end, self.next, &block(&fields)));
            if self.habits.pings {
                into.extend(frame(PING, 0, 0, &[7; 8]));
                self.pings += 1;
            }
            let cancels = self.habits.cancels.is_some_and(|times| random.once_in(times));
            let cancel_at = cancels.then(|| random.below(40_000) as usize);
            let stream = Stream::new(request, upload.map(|_| 0), cancel_at, self.stream_window);
            self.asked.insert(self.next, stream);
            self.next += 2;
        }
        self.upload(into, site);
    }

    /// Sends as much of the request bodies as the windows allow.
    fn upload(&mut self, into: &mut Vec<u8>, site: &Site) {
        for (number, stream) in &mut self.asked {
            while let Some(at) = stream.upload_at {
                let (body, _) = stream.request.upload(site).expect("it has one");
                let room = self.window.min(stream.window).max(0) as usize;
                let part = &body[at..body.len().min(at + room.min(FRAME_BYTES_MAX))];
                let is_last = at + part.len() == body.len();
                if part.is_empty() && !is_last {
                    break;
                }
                into.extend(frame(DATA, if is_last { END_STREAM } else { 0 }, *number, part));
                stream.window -= part.len() as i64;
                self.window -= part.len() as i64;
                stream.upload_at = (!is_last).then_some(at + part.len());
            }
        }
    }

    /// Opens the window of a stream, or of the connection.
    fn open_window(&mut self, number: u32, payload: &[u8]) -> Result<(), String> {
        let by: [u8; 4] = payload.try_into().map_err(|_| "an update of no window")?;
        let by = i64::from(u32::from_be_bytes(by));
        match self.asked.get_mut(&number) {
            _ if number == 0 => self.window += by,
            Some(stream) => stream.window += by,
            None => {}
        }
        Ok(())
    }

    fn set(&mut self, payload: &[u8]) {
        for setting in payload.chunks_exact(6).filter(|setting| setting[1] == SETTINGS_INITIAL_WINDOW_SIZE) {
            let bytes = i64::from(u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]));
            let more = bytes - std::mem::replace(&mut self.stream_window, bytes);
            self.asked.values_mut().for_each(|stream| stream.window += more);
        }
    }

    /// Records the position at which all requests written so far end.
    pub fn note_written(&mut self, bytes: u64) {
        let is_written = |stream: &&mut Stream| stream.end == UNWRITTEN && stream.upload_at.is_none();
        self.asked.values_mut().filter(is_written).for_each(|stream| stream.end = bytes);
    }

    pub fn receive(&mut self, bytes: &[u8], now: Nanos, site: &Site) -> Result<u64, String> {
        self.received.extend_from_slice(bytes);
        for came in frames(&mut self.received) {
            self.on_frame(came, now, site)?;
        }
        Ok(std::mem::take(&mut self.ended))
    }

    fn on_frame(&mut self, (kind, flags, number, payload): Came, now: Nanos, site: &Site) -> Result<(), String> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                self.set(&payload);
                self.to_say.extend(frame(SETTINGS, ACK, 0, &[]));
            }
            WINDOW_UPDATE => self.open_window(number, &payload)?,
            PING if flags & ACK == 0 => self.to_say.extend(frame(PING, ACK, 0, &payload)),
            PING => self.pings = self.pings.checked_sub(1).ok_or("an answer to no PING")?,
            GOAWAY => self.last = payload.first_chunk().map(|last| u32::from_be_bytes(*last)),
            HEADERS => self.on_head(number, &payload, flags & END_STREAM != 0)?,
            DATA => self.on_data(number, &payload, site)?,
            RST_STREAM if payload == REFUSED_STREAM => drop(self.asked.remove(&number)),
            RST_STREAM => {
                if let Some(stream) = self.asked.remove(&number)
                    && !self.may_be_cut
                    && !stream.request.may_break()
                {
                    return Err(format!("{stream:?} is reset: {payload:?}"));
                }
            }
            _ => {}
        }
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            self.on_stream_end(number, now, site)?;
        }
        self.cancel(number, now);
        Ok(())
    }

    fn on_head(&mut self, number: u32, payload: &[u8], ends_stream: bool) -> Result<(), String> {
        let is_known = number < self.next && number % 2 == 1;
        let Some(stream) = self.asked.get_mut(&number) else {
            return if is_known && self.habits.cancels.is_some() {
                Ok(())
            } else {
                Err(format!("a head on stream {number}"))
            };
        };
        if ends_stream && stream.request.has_trailers() && (stream.has_head || stream.head.is_some()) {
            stream.has_trailers = true;
            return stream.judge_head();
        }
        if stream.has_head {
            return Err(format!("a head behind content of {stream:?}"));
        }
        stream.hints += u64::from(stream.head.replace(payload.to_vec()).is_some());
        Ok(())
    }

    fn on_data(&mut self, number: u32, payload: &[u8], site: &Site) -> Result<(), String> {
        let bytes = payload.len() as u32;
        self.unacknowledged_bytes += bytes;
        if !self.habits.is_wide && self.unacknowledged_bytes >= UPDATE_EVERY {
            self.to_say.extend(frame(WINDOW_UPDATE, 0, 0, &self.unacknowledged_bytes.to_be_bytes()));
            self.unacknowledged_bytes = 0;
        }
        let Some(stream) = self.asked.get_mut(&number) else {
            return if self.habits.cancels.is_some() { Ok(()) } else { Err(format!("content on stream {number}")) };
        };
        stream.judge_head()?;
        let (from, to) = (stream.came, stream.came + payload.len());
        if !stream.is_reason && stream.request.body(site).is_some_and(|body| body.get(from..to) != Some(payload)) {
            return Err(format!("wrong bytes from {from} to {to} of {stream:?}"));
        }
        if !stream.is_reason {
            stream.request.take(payload);
        }
        stream.came = to;
        stream.read_bytes += bytes;
        if !self.habits.is_wide && stream.read_bytes >= UPDATE_EVERY {
            self.to_say.extend(frame(WINDOW_UPDATE, 0, number, &stream.read_bytes.to_be_bytes()));
            stream.read_bytes = 0;
        }
        Ok(())
    }

    fn on_stream_end(&mut self, number: u32, now: Nanos, site: &Site) -> Result<(), String> {
        let Some(mut stream) = self.asked.remove(&number) else { return Ok(()) };
        stream.judge_head()?;
        self.ended += 1;
        self.may_ask_at = now + self.think;
        if stream.upload_at.is_some() {
            self.to_say.extend(frame(RST_STREAM, 0, number, &[0; 4]));
        }
        if !stream.is_reason {
            stream.request.judge_content(site)?;
        }
        match stream.request.body(site).filter(|_| !stream.is_reason) {
            Some(body) if body.len() != stream.came => Err(format!("the end of {stream:?}, of {} bytes", body.len())),
            Some(_) if stream.has_trailers != stream.request.has_trailers() => Err(format!("trailers of {stream:?}")),
            _ => Ok(()),
        }
    }

    fn cancel(&mut self, number: u32, now: Nanos) {
        let is_due = |stream: &Stream| stream.cancel_at.is_some_and(|bytes| stream.came >= bytes);
        if self.asked.get(&number).is_some_and(is_due) {
            self.asked.remove(&number);
            self.to_say.extend(frame(RST_STREAM, 0, number, &CANCEL));
            self.may_ask_at = now + self.think;
        }
    }

    /// Judges the end of the connection, given the number of bytes that the server had read.
    pub fn judge_end(&self, read_bytes: u64, stop: Stop) -> Result<(), String> {
        if stop == Stop::Over {
            return Ok(());
        }
        let is_owed = |number: u32, stream: &Stream| match self.last {
            // A GOAWAY may name a request that has arrived only in part.
            _ if stream.request.may_break() => false,
            Some(last) => number <= last && (stream.has_head || read_bytes >= stream.end),
            None => read_bytes >= stream.end,
        };
        match self.asked.iter().find(|(number, stream)| is_owed(**number, stream)) {
            Some((number, stream)) => Err(format!("stream {number} is not answered: {stream:?}, {:?}", self.last)),
            None => Ok(()),
        }
    }
}
