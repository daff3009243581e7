//! Responses received on the streams that this end opened. A closed stream is kept until its response has been taken.
//!
//! Malformed responses (RFC 9113 section 8.1.1) are detected here: the engine would end the connection and with it all
//! other responses.

use std::collections::VecDeque;

use http::gateway::ResponseBuilder;
use http::http1::upstream::{Framing, ResponseLimits, UpstreamFault, UpstreamHead};
use http::{Method, PeerLength, Trailers};

/// The maximum number of heads of one response that the caller has not taken.
const UNREAD_MAX: usize = 16;

/// The response on one stream.
#[derive(Debug)]
struct Response {
    method: Method,
    /// Heads that the caller has not taken, interim ones before the final one. A fault is always the last item.
    heads: VecDeque<Result<UpstreamHead, UpstreamFault>>,
    interim: u32,
    /// The final head has been received.
    has_head: bool,
    is_malformed: bool,
    /// The bytes of the body that are still to come, if the head declares its length.
    left: Option<PeerLength>,
    trailers: Option<Box<Trailers>>,
    /// The code with which the stream ended (RFC 9113 section 7).
    closed: Option<u32>,
    /// True if the caller was notified about the stream and has not checked since then.
    is_told: bool,
}

#[derive(Debug)]
pub struct Responses {
    /// Responses ordered by stream.
    open: Vec<(u32, Response)>,
    /// The head being received: header blocks are not interleaved.
    pub head: ResponseBuilder,
    /// Streams to report to the caller, each once.
    news: VecDeque<u32>,
    interim_max: u32,
}

impl Response {
    fn take_head(&mut self, head: UpstreamHead, ends_stream: bool, interim_max: u32) -> Result<(), UpstreamFault> {
        if head.is_interim() && (self.interim == interim_max || self.heads.len() >= UNREAD_MAX) {
            return Err(UpstreamFault("interim responses without end"));
        }
        self.interim += u32::from(head.is_interim());
        self.has_head = !head.is_interim();
        self.left = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::None => Some(PeerLength::ZERO),
            _ => None,
        };
        self.heads.push_back(Ok(head));
        if ends_stream { self.end() } else { Ok(()) }
    }

    fn on_body(&mut self, bytes: u64, ends_stream: bool) -> Result<(), UpstreamFault> {
        if !self.has_head {
            return Err(UpstreamFault("a body before the head"));
        }
        if let Some(left) = &mut self.left {
            *left = left.less(bytes).ok_or(UpstreamFault("more bytes than the announced length"))?;
        }
        if ends_stream { self.end() } else { Ok(()) }
    }

    /// Checks that the stream may end at this point.
    fn end(&self) -> Result<(), UpstreamFault> {
        match self.left {
            _ if !self.has_head => Err(UpstreamFault("an end before the head")),
            Some(PeerLength::ZERO) | None => Ok(()),
            Some(_) => Err(UpstreamFault::TOO_FEW),
        }
    }
}

impl Responses {
    pub fn new(limits: ResponseLimits) -> Responses {
        let (open, news) = (Vec::new(), VecDeque::new());
        Responses { open, head: ResponseBuilder::new(limits), news, interim_max: limits.interim_max }
    }

    /// Records that a request of this method was sent.
    pub fn begin(&mut self, stream: u32, method: Method) {
        let response = Response {
            method,
            heads: VecDeque::new(),
            interim: 0,
            has_head: false,
            is_malformed: false,
            left: None,
            trailers: None,
            closed: None,
            is_told: false,
        };
        // Stream numbers only grow.
        self.open.push((stream, response));
    }

    fn place(&self, stream: u32) -> Option<usize> {
        self.open.binary_search_by_key(&stream, |(of, _)| *of).ok()
    }

    fn get_mut(&mut self, stream: u32) -> Option<&mut Response> {
        self.place(stream).map(|at| &mut self.open[at].1)
    }

    /// Queues this stream for [`Self::next_news`], unless it is queued already.
    pub fn tell(&mut self, stream: u32) {
        if let Some(response) = self.get_mut(stream)
            && !std::mem::replace(&mut response.is_told, true)
        {
            self.news.push_back(stream);
        }
    }

    /// Returns a stream that has received something since it was last returned.
    pub fn next_news(&mut self) -> Option<u32> {
        while let Some(stream) = self.news.pop_front() {
            if let Some(response) = self.get_mut(stream) {
                response.is_told = false;
                return Some(stream);
            }
        }
        None
    }

    /// Takes the collected fields as a head or trailers. Returns false if the response is malformed.
    pub fn end_head(&mut self, stream: u32, ends_stream: bool) -> bool {
        let Some(at) = self.place(stream) else { return true };
        let response = &mut self.open[at].1;
        let taken = match response.has_head {
            true if !ends_stream => Err(UpstreamFault("a second head")),
            true => self.head.finish_trailers().and_then(|trailers| {
                response.trailers = trailers;
                response.end()
            }),
            false => {
                let head = self.head.finish(response.method, ends_stream);
                head.and_then(|head| response.take_head(head, ends_stream, self.interim_max))
            }
        };
        self.note(stream, taken)
    }

    /// Counts bytes of a body, or its end. Returns false if the response is malformed.
    pub fn on_body(&mut self, stream: u32, bytes: usize, ends_stream: bool) -> bool {
        let Some(response) = self.get_mut(stream) else { return true };
        let taken = response.on_body(bytes as u64, ends_stream);
        self.note(stream, taken)
    }

    fn note(&mut self, stream: u32, taken: Result<(), UpstreamFault>) -> bool {
        self.tell(stream);
        let (Err(fault), Some(response)) = (taken, self.get_mut(stream)) else { return true };
        if !std::mem::replace(&mut response.is_malformed, true) {
            response.heads.push_back(Err(fault));
        }
        false
    }

    /// Records that the stream has ended with this code.
    pub fn close(&mut self, stream: u32, code: u32) {
        if let Some(response) = self.get_mut(stream) {
            response.closed = Some(code);
            self.tell(stream);
        }
    }

    /// Returns the next received head, or the fault of the response.
    pub fn take_head(&mut self, stream: u32) -> Option<Result<UpstreamHead, UpstreamFault>> {
        self.get_mut(stream)?.heads.pop_front()
    }

    pub fn take_trailers(&mut self, stream: u32) -> Option<Box<Trailers>> {
        self.get_mut(stream)?.trailers.take()
    }

    /// Returns the code with which the stream ended; `None` if it has not.
    pub fn closed(&self, stream: u32) -> Option<u32> {
        self.place(stream).and_then(|at| self.open[at].1.closed)
    }

    /// Removes the response, which is no longer wanted.
    pub fn remove(&mut self, stream: u32) {
        if let Some(at) = self.place(stream) {
            self.open.remove(at);
        }
    }
}
