//! HTTP/1.1 responses on their way to the socket. Several small responses are gathered and sent together; a single
//! response takes the shortest path.

use http::{HttpDate, Response};
use units::Nanos;

use super::{Direct, Dispatch, Order, Transmitter};
use crate::body::Body;
use crate::connection::{Connection, Connections, Outgoing};
use crate::net::Socket;
use crate::storage::Storage;

/// The maximum bytes sent to one connection per turn, which a single response may exceed. A socket buffer takes about
/// this many.
pub const BYTES_PER_TURN_MAX: u64 = 2 << 20;

/// The maximum length of bodies that are copied behind the head. That is cheaper for the kernel than a second piece of
/// memory, and pipelined responses can share a system call.
const COPIED_BYTES_MAX: u64 = 2 << 10;

/// The number of bytes of pipelined small responses that are gathered before they are sent.
const GATHER_BYTES_MAX: usize = 64 << 10;
/// The minimum body size for corking. Such bodies take several system calls anyway, so two more hardly matter.
const CORK_BYTES_MIN: u64 = 1 << 20;

/// Responses of one connection, encoded one after the other.
#[derive(Default)]
pub struct Gathered {
    /// The encoded responses; the allocation is reused.
    out: Vec<u8>,
}

/// The result of sending on the shortest path: the number of bytes sent immediately, and what happened to the rest.
pub struct SentNow {
    pub bytes: u64,
    pub outcome: Direct,
}

impl Gathered {
    /// Appends bytes that belong to no response and are sent before the next one.
    pub fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Keeps a buffer for the next response, unless it is longer than twice `GATHER_BYTES_MAX`.
    fn reuse(&mut self, mut buffer: Vec<u8>) {
        if self.out.capacity() == 0 && buffer.capacity() <= 2 * GATHER_BYTES_MAX {
            buffer.clear();
            self.out = buffer;
        }
    }
}

impl Transmitter {
    /// Gathers the head of a reply, and its body if that is small. Returns the rest of the body, and whether the
    /// connection ends after it.
    pub fn encode(
        &mut self,
        connection: &mut Connection<impl Socket>,
        (response, is_last): (Response<Body>, bool),
        date: &HttpDate,
    ) -> (Body, bool) {
        // The map is nearly always empty, and then the key is not even hashed.
        if !self.put_off.is_empty()
            && let Some(bytes) = self.put_off.remove(&connection.exchange_id(0))
        {
            self.gathered.push(&bytes);
        }
        encode(connection, (response, is_last), date, self.reads.storage(), &mut self.gathered.out)
    }

    /// Sends the gathered responses and then this body, as a job or immediately. Returns `None` if it became a job, or
    /// if the responses wait for more to be gathered. `is_alone` is true if nothing else becomes ready in this turn.
    pub fn send_encoded(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        (body, is_last): (Body, bool),
        is_alone: bool,
    ) -> Option<SentNow> {
        let connection = &mut connections[at];
        let is_alone = is_alone && self.is_direct();
        let is_allowed = self.limit.allows(connection.client_of(0), now);
        // Without the cork, each sendfile would push out the partial segment at its end. Paced grants and bursts end on
        // segment boundaries and must not wait. Under TLS, each call states whether more follows.
        let is_unpaced = matches!(self.order, Order::Arrival | Order::Turn);
        if is_unpaced && body.len() >= CORK_BYTES_MIN && !connection.channel.is_tls() && body.pipe().is_none() {
            connection.cork(true);
        }
        if self.order != Order::Arrival && !is_alone || !is_allowed {
            // A copy has no spare capacity, so a response that waits takes no more memory than it needs.
            let outgoing = Outgoing::new(self.gathered.out.clone(), body, connection.end());
            self.gathered.out.clear();
            let id = connection.exchange_id(0);
            self.respond(connections, now, id, outgoing);
            return None;
        }
        let gathers = body.is_empty() && !is_last && connection.exchange(0).line.is_none();
        if !gathers || self.gathered.out.len() >= GATHER_BYTES_MAX {
            return Some(self.send_gathered(connections, now, at, body));
        }
        connection.http1().answering.on_gathered();
        None
    }

    /// Sends the bytes gathered for a connection; discards them if the connection has ended.
    pub fn flush(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) -> Option<SentNow> {
        if !connections.contains(at) {
            self.gathered.out.clear();
            return None;
        }
        (!self.gathered.is_empty()).then(|| self.send_gathered(connections, now, at, Body::default()))
    }

    /// Writes directly into the socket. The bytes that the socket does not take become a job.
    fn send_gathered(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        body: Body,
    ) -> SentNow {
        let connection = &mut connections[at];
        let outgoing = Outgoing::new(std::mem::take(&mut self.gathered.out), body, connection.end());
        let (id, class) = (connection.exchange_id(0), connection.exchange(0).class);
        let dispatch = Dispatch::single(id, outgoing, class).of(connection.client_of(0));
        let (bytes, outcome) = self.send_now(connections, now, dispatch, BYTES_PER_TURN_MAX);
        match outcome {
            Direct::Sent(buffer) => {
                self.gathered.reuse(buffer);
                SentNow { bytes, outcome: Direct::Sent(Vec::new()) }
            }
            outcome => SentNow { bytes, outcome },
        }
    }
}

/// Appends the head of a reply over HTTP/1.1, and its body if that is small. Returns the rest of the body, and whether
/// the connection ends after it.
fn encode(
    connection: &mut Connection<impl Socket>,
    (response, is_last): (Response<Body>, bool),
    date: &HttpDate,
    storage: &mut dyn Storage,
    out: &mut Vec<u8>,
) -> (Body, bool) {
    let began = out.len();
    let delimiter = connection.http1().encode(&response, is_last, date, out);
    let status = response.status;
    let mut body = delimiter.map_or_else(Body::default, |delimiter| response.body.delimited(delimiter));
    connection.exchange(0).note_encoded(status, out.len() - began, &body);
    if body.len() <= COPIED_BYTES_MAX && body.is_in_memory() {
        let copied = body.read(storage, out, COPIED_BYTES_MAX);
        debug_assert!(copied.is_ok() && body.is_empty(), "memory does not fail");
    }
    (body, connection.http1().answering.closes())
}
