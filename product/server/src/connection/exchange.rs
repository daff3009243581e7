//! A request and its response, in any state. An HTTP/1.1 connection has one exchange at a time; an HTTP/2 or HTTP/3
//! connection has one on each stream.

use http::http1::{Head, OwnedHead};
use http::{OwnedRequest, Request, Response};
use sched::JobId;
use sched::grow::reserve_one;
use units::Nanos;
use units::memory::{Account, Charge};

use super::LogEntry;
use crate::body::Body;
use crate::clock::ClientTime;
use crate::exchange_id::ExchangeId;
use crate::files::{Key, SearchStep};
use crate::limits::Limits;
use crate::upload::Upload;
use crate::upstream::PassOn;

/// The time that a closing connection waits for a silent client. It is long enough for a lost acknowledgement to be
/// retransmitted.
pub const CLOSING_PERIOD: Nanos = Nanos::from_secs(2);

/// The number of streams for which an idle connection keeps memory.
const STREAMS_KEPT: usize = 4;

pub struct Exchange {
    pub id: ExchangeId,
    pub task: Task,
    /// The class of the response being sent.
    pub class: u16,
    /// False for HEAD on a stream, where no body follows the head.
    pub has_body: bool,
    /// Data for the access log and the objectives, kept while the response is prepared and sent.
    pub line: Option<Box<LogEntry>>,
}

/// The task that must end before a response can be sent, or the sending itself.
#[derive(Default)]
pub enum Task {
    #[default]
    None,
    /// The decision whether to admit the client is pending.
    Deciding(Box<Deciding>),
    /// A disk thread is looking up the file.
    LookingUp(Box<PendingLookup>),
    /// An upstream is producing the response.
    PassedOn(Box<KeptRequest>),
    /// The request's body is arriving; the reply will state its length.
    Receiving(Box<Receiving>),
    /// The response is being sent.
    Sending(JobId),
}

/// A request that is stored until it is answered.
pub struct KeptRequest {
    request: OwnedRequest,
    /// The upload of the body while it arrives on a stream. Over HTTP/1.1 it belongs to the connection.
    pub upload: Option<Box<Upload>>,
    _charge: Charge,
}

impl KeptRequest {
    /// Copies a request and counts its memory in `account`.
    pub fn new(request: &Request, account: &Account) -> KeptRequest {
        let request = OwnedRequest::from(request);
        KeptRequest { _charge: Charge::new(account, request.memory_bytes()), upload: None, request }
    }

    pub fn view(&self) -> Request<'_> {
        self.request.view()
    }

    /// The bytes of memory of its fields.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.request.memory_bytes()
    }
}

/// A received request that waits for the decision whether to admit its client.
pub struct Deciding {
    came: Came,
    /// The names of the fields to copy from the authentication server's response, if a server is queried.
    pub copied: Vec<String>,
    _charge: Charge,
}

/// A request as received, with additional data for HTTP/1.1.
enum Came {
    Lines(OwnedHead),
    OnStream(OwnedRequest),
}

impl Deciding {
    /// Copies a request and counts its memory in `account`; `head` is the HTTP/1.1 head.
    pub fn new(request: &Request, head: Option<&Head>, account: &Account) -> Deciding {
        let came = match head {
            Some(head) => Came::Lines(head.into()),
            None => Came::OnStream(request.into()),
        };
        let bytes = match &came {
            Came::Lines(head) => head.memory_bytes(),
            Came::OnStream(request) => request.memory_bytes(),
        };
        Deciding { came, copied: Vec::new(), _charge: Charge::new(account, bytes) }
    }

    pub fn request(&self) -> Request<'_> {
        match &self.came {
            Came::Lines(head) => head.view().request,
            Came::OnStream(request) => request.view(),
        }
    }

    /// The HTTP/1.1 head.
    pub fn head(&self) -> Option<Head<'_>> {
        match &self.came {
            Came::Lines(head) => Some(head.view()),
            Came::OnStream(_) => None,
        }
    }

    /// The bytes of memory of its fields.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self._charge.bytes()
    }
}

/// A request whose body is arriving.
pub struct Receiving {
    pub request: KeptRequest,
    /// The number of bytes of the body received so far.
    pub bytes: u64,
}

/// A request that waits for a lookup.
pub struct PendingLookup {
    pub request: Box<KeptRequest>,
    pub key: Key,
    pub search: Search,
}

/// The reason why a file is looked up.
pub enum Search {
    /// The request itself names the file. The values are the current step of the search, the request's minor version of
    /// HTTP/1, and the upstreams that run the file if it is a script.
    Own(SearchStep, u8, Option<Box<PassOn>>),
    /// The response of an upstream names the file.
    Named(Response<()>),
}

/// The exchanges of a client over HTTP/2 or HTTP/3.
pub struct Streams {
    /// The open exchanges, by stream number; at most [`http2::STREAMS_MAX`].
    open: Vec<Exchange>,
    /// The instant until which the connection may wait for its client.
    pub deadline: ClientTime,
    /// True if the connection ends with its last stream.
    pub is_leaving: bool,
    /// The time at which an ending connection is closed even if its client has not taken or acknowledged everything.
    pub ends_at: Option<ClientTime>,
    /// The bytes that the client had acknowledged when `ends_at` was set, over HTTP/3.
    acked_bytes: u64,
}

impl Exchange {
    pub fn new(id: ExchangeId) -> Exchange {
        Exchange { id, task: Task::None, class: 0, has_body: true, line: None }
    }

    /// Records that the exchange's request waits for the lookup of `key`.
    pub fn wait_for(&mut self, key: Key, request: Box<KeptRequest>, search: Search) {
        self.task = Task::LookingUp(Box::new(PendingLookup { request, key, search }));
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.task, Task::Sending(_))
    }

    /// Returns the upload of the request's body if it arrives on a stream and there is no response yet.
    pub fn upload(&mut self) -> Option<&mut Upload> {
        match &mut self.task {
            Task::PassedOn(request) => request.upload.as_deref_mut(),
            Task::Receiving(receiving) => receiving.request.upload.as_deref_mut(),
            Task::None | Task::Deciding(_) | Task::LookingUp(_) | Task::Sending(_) => None,
        }
    }

    /// Returns true if the exchange will have a line in the access log.
    pub fn is_logged(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.log.is_some())
    }

    /// Records the status and sizes of the encoded response for the log and the objectives.
    pub fn note_encoded(&mut self, status: http::Status, head_bytes: usize, body: &Body) {
        if let Some(line) = &mut self.line {
            (line.status, line.head_bytes, line.body_bytes) = (status.0, head_bytes as u32, body.len());
            line.is_staged = body.is_staged();
        }
    }
}

impl Streams {
    /// Creates a table without streams.
    pub fn new(deadline: ClientTime) -> Streams {
        Streams { open: Vec::new(), deadline, is_leaving: false, ends_at: None, acked_bytes: 0 }
    }

    /// The open streams, by number.
    pub fn open(&self) -> &[Exchange] {
        &self.open
    }

    pub fn open_mut(&mut self) -> &mut [Exchange] {
        &mut self.open
    }

    pub fn on(&mut self, stream: u32) -> Option<&mut Exchange> {
        let place = self.place_of(stream)?;
        self.open.get_mut(place)
    }

    fn place_of(&self, number: u32) -> Option<usize> {
        self.open.binary_search_by_key(&number, |exchange| exchange.id.stream).ok()
    }

    /// Returns true if no stream is open.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// The number of open streams.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// The number of streams for which memory is allocated.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.open.capacity()
    }

    /// Returns whether an ending connection continues to wait for its client, which has acknowledged `acked_bytes` so
    /// far but not everything. The wait lasts one period, and is extended by another each time the client acknowledged
    /// at least `bytes_per_s_min` in the last one. If the client is slower, the connection ends.
    pub fn waits_for(&mut self, now: ClientTime, acked_bytes: u64, bytes_per_s_min: u64) -> bool {
        let period_bytes = (bytes_per_s_min * CLOSING_PERIOD.0 / 1_000_000_000).max(1);
        match self.ends_at {
            Some(ends_at) if now < ends_at => return true,
            Some(_) if acked_bytes.saturating_sub(self.acked_bytes) < period_bytes => return false,
            _ => {}
        }
        (self.ends_at, self.acked_bytes) = (Some(now + CLOSING_PERIOD), acked_bytes);
        true
    }

    pub fn begin(&mut self, id: ExchangeId) {
        // Datagrams may overtake each other, and so may the requests in them.
        let at = self.open.partition_point(|exchange| exchange.id.stream < id.stream);
        reserve_one(&mut self.open);
        self.open.insert(at, Exchange::new(id));
        self.deadline = ClientTime::NEVER;
    }

    pub fn end(&mut self, number: u32, now: ClientTime, limits: &Limits) {
        if let Some(at) = self.place_of(number) {
            self.open.remove(at);
        }
        if self.open.is_empty() {
            self.deadline = limits.idle_until(now);
            if self.open.capacity() > STREAMS_KEPT {
                self.open = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients once had only two seconds, and a client behind a slow link lost the last bytes of its response when the
    /// server stopped.
    #[test]
    fn a_client_that_goes_on_taking_what_it_was_sent_is_waited_for() {
        let mut streams = Streams::new(ClientTime::default());
        let mut waits =
            |seconds, acked_bytes| streams.waits_for(ClientTime::after(Nanos::from_secs(seconds)), acked_bytes, 500);
        assert!(waits(10, 100_000), "it has a period");
        assert!(waits(11, 100_900) && waits(12, 101_000), "it takes 500 bytes in a second");
        assert!(waits(13, 101_000), "it has time until 14 s");
        assert!(waits(14, 102_000) && !waits(16, 102_999), "and then was slower");
    }

    /// A lost HTTP/3 request arrives after later ones, which once ended the worker.
    #[test]
    fn streams_are_found_in_whatever_order_they_began() {
        let mut streams = Streams::new(ClientTime::default());
        [5, 1, 9, 3, 7].into_iter().for_each(|number| streams.begin(ExchangeId::new(1, number)));
        for number in [1, 3, 5, 7, 9] {
            assert_eq!(streams.on(number).map(|exchange| exchange.id), Some(ExchangeId::new(1, number)));
        }
        [5, 5].into_iter().for_each(|number| streams.end(number, ClientTime::default(), &Limits::default()));
        assert_eq!(streams.count(), 4);
        assert!(streams.on(5).is_none() && streams.on(9).is_some() && streams.on(4).is_none());
    }
}
