//! Responses of HTTP/1.1 on their way down: several small ones are gathered and leave together, and one that is alone takes the shortest way.

use http::HttpDate;
use units::Nanos;

use super::Order;
use super::budget::BYTES_PER_TURN_MAX;
use super::conn::Conn;
use super::owner::slot_of;
use super::sender::Sender;
use crate::handler::Reply;
use crate::net::Net;
use crate::transmit::{Body, Direct, Dispatch, Outgoing, Sink, Socket};

/// Pipelined small responses are gathered up to this many bytes before they are sent.
const GATHER_BYTES_MAX: usize = 64 << 10;
/// Bodies from here on take several system calls, which two more do not make dearer.
const CORK_BYTES_MIN: u64 = 1 << 20;

/// Responses of one connection, encoded one behind the other.
#[derive(Default)]
pub(super) struct Gathered {
    /// Its memory is kept from one use to the next.
    out: Vec<u8>,
}

/// What took the shortest way: how much of it left at once, and what became of it.
pub(super) struct SentNow {
    pub bytes: u64,
    pub outcome: Direct,
}

impl Gathered {
    /// Something that belongs to no response, before the next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Keeps a buffer for the next response, unless it is longer than that.
    fn reuse(&mut self, mut buffer: Vec<u8>) {
        if self.out.capacity() == 0 && buffer.capacity() <= 2 * GATHER_BYTES_MAX {
            buffer.clear();
            self.out = buffer;
        }
    }
}

impl<N: Net> Sender<N> {
    /// Gathers the head of a reply, and its body where that is small; gives the body that is left, and whether the connection ends behind it.
    pub fn encode(&mut self, conn: &mut Conn, reply: Reply, date: &HttpDate) -> (Body, bool) {
        self.put_off.remove(&conn.owner).into_iter().for_each(|bytes| self.gathered.push(&bytes));
        conn.encode(reply, date, self.transmitter.reads.storage(), &mut self.gathered.out)
    }

    /// Sends what is gathered, and this body behind it: as a job, or at once. Nothing comes back of a job, and of what waits for more to be
    /// gathered. `is_alone`: nothing else becomes ready in this turn.
    pub fn send_encoded(
        &mut self,
        now: Nanos,
        conn: &mut Conn,
        (body, is_last): (Body, bool),
        is_alone: bool,
    ) -> Option<SentNow> {
        let at = slot_of(conn.owner);
        let is_alone = is_alone && self.is_direct();
        let is_allowed = self.transmitter.limit.allows(conn.client_of(0), now);
        // Each sendfile would push out what it ends with. Paced grants and bursts end where segments do, and must not wait.
        // Under TLS each call says whether more follows.
        let is_unpaced = matches!(self.order, Order::Arrival | Order::Turn);
        if is_unpaced && body.len() >= CORK_BYTES_MIN && !conn.channel.is_tls() && body.pipe().is_none() {
            self.transmitter.connections[at].socket.tcp().inspect(|socket| socket.cork(true));
            conn.channel.is_corked = true;
        }
        if self.order != Order::Arrival && !is_alone || !is_allowed {
            // A copy, so that no response allocates but for what it has, and waits with no more.
            let outgoing = Outgoing::new(self.gathered.out.clone(), body, conn.end());
            self.gathered.out.clear();
            self.dispatch(now, conn, 0, outgoing);
            return None;
        }
        let gathers = body.is_empty() && !is_last && conn.exchange(0).line.is_none();
        if !gathers || self.gathered.out.len() >= GATHER_BYTES_MAX {
            return Some(self.send_now(now, conn, body));
        }
        conn.http1.answering.on_gathered();
        None
    }

    /// Sends what was gathered for a connection, if it is still there.
    pub fn flush(&mut self, now: Nanos, conn: Option<&mut Conn>) -> Option<SentNow> {
        let Some(conn) = conn else {
            self.gathered.out.clear();
            return None;
        };
        (!self.gathered.is_empty()).then(|| self.send_now(now, conn, Body::default()))
    }

    /// The shortest way: straight into the socket. What it does not take at once becomes a job.
    fn send_now(&mut self, now: Nanos, conn: &mut Conn, body: Body) -> SentNow {
        let outgoing = Outgoing::new(std::mem::take(&mut self.gathered.out), body, conn.end());
        let dispatch = Dispatch::single(outgoing, conn.exchange(0).class).of(conn.client_of(0));
        let (bytes, outcome) = self.transmitter.send_now(now, slot_of(conn.owner), dispatch, BYTES_PER_TURN_MAX);
        match outcome {
            Direct::Sent(buffer) => {
                self.gathered.reuse(buffer);
                SentNow { bytes, outcome: Direct::Sent(Vec::new()) }
            }
            outcome => SentNow { bytes, outcome },
        }
    }
}
