//! The memory of a connection that its own buffers do not count: table entries, memory held by libraries (based on the
//! resident memory of a thousand connections, docs/notebook/attacks.md), and HTTP/1.1 requests that are incomplete or
//! waiting.

use units::memory::{Account, Charge};

use super::Connection;

/// The bytes of a connection's slots in the tables of connections, lower layers and names, assuming that a third of the
/// slots is free.
const TABLES_BYTES: usize = 1 << 10;
/// The bytes of a client's TLS session.
const TLS_BYTES: usize = 9 << 10;
/// The bytes of the engine of a connection without streams.
const HTTP2_BYTES: usize = 13 << 10;
const HTTP3_BYTES: usize = 28 << 10;
/// The bytes of a stream with its request, response and job.
const HTTP1_STREAM_BYTES: usize = 1 << 10;
const HTTP2_STREAM_BYTES: usize = 1 << 10;
const HTTP3_STREAM_BYTES: usize = 2 << 10;

/// The minimum size of waiting or incomplete requests for which a connection is ended when memory is short. Nearly all
/// clients stay below it.
pub const WAITING_BYTES_MIN: u64 = 4 << 10;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Protocol {
    #[default]
    Http1,
    Http1OverTls,
    Http2,
    Http2OverTls,
    Http3,
}

impl Protocol {
    /// Returns the bytes of a connection with this protocol and `streams` requests and responses in progress.
    fn bytes(self, streams: usize) -> usize {
        let (fixed_bytes, stream_bytes) = match self {
            Protocol::Http1 => (0, HTTP1_STREAM_BYTES),
            Protocol::Http1OverTls => (TLS_BYTES, HTTP1_STREAM_BYTES),
            Protocol::Http2 => (HTTP2_BYTES, HTTP2_STREAM_BYTES),
            Protocol::Http2OverTls => (TLS_BYTES + HTTP2_BYTES, HTTP2_STREAM_BYTES),
            Protocol::Http3 => (HTTP3_BYTES, HTTP3_STREAM_BYTES),
        };
        TABLES_BYTES + fixed_bytes + streams * stream_bytes
    }
}

/// The account of a connection's memory, and the part that no buffer counts.
#[derive(Debug)]
pub struct Held {
    charge: Charge,
    /// The account of bytes that upstreams have sent and the client has not taken. It has a bound of its own, so that
    /// an upload cannot keep responses waiting.
    responses: Account,
    /// The number of open streams of HTTP/2 and HTTP/3 at the last count.
    streams: u32,
    requests: Requests,
}

/// The waiting requests of a connection. They wait for their own remaining bytes, for an earlier response or for an
/// upstream.
#[derive(Debug, Default)]
struct Requests {
    /// The bytes of requests that had been taken at the last look, modulo 4 GiB.
    taken_bytes: u32,
    /// The number of consecutive looks, up to the last one, at which hardly any waiting bytes had been taken since the
    /// one before.
    idle_looks: u8,
}

impl Requests {
    fn look(&mut self, bytes: u64, taken_bytes: u64) {
        let taken_now = taken_bytes as u32;
        let newly_taken_bytes = taken_now.wrapping_sub(std::mem::replace(&mut self.taken_bytes, taken_now));
        let is_idle = bytes >= WAITING_BYTES_MIN && u64::from(newly_taken_bytes) < WAITING_BYTES_MIN;
        self.idle_looks = if is_idle { self.idle_looks.saturating_add(1) } else { 0 };
    }
}

impl Held {
    /// Creates the account of a new HTTP/1.1 connection without TLS.
    pub fn new(account: &Account) -> Held {
        account.set_fixed_bytes(TABLES_BYTES);
        Held {
            charge: Charge::new(account, TABLES_BYTES),
            responses: account.part(),
            streams: 0,
            requests: Requests::default(),
        }
    }

    pub fn account(&self) -> &Account {
        self.charge.account()
    }

    pub fn responses(&self) -> &Account {
        &self.responses
    }

    /// The bytes of everything that the connection holds in memory.
    pub fn bytes(&self) -> u64 {
        self.account().bytes()
    }

    /// The bytes of the connection's own part at the last count.
    #[cfg(test)]
    pub fn own_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Records, about once a second, the bytes of waiting requests and the bytes taken so far.
    pub fn look_at_requests(&mut self, bytes: u64, taken_bytes: u64) {
        self.requests.look(bytes, taken_bytes);
    }

    /// The number of consecutive looks at which requests waited and hardly any of their bytes had been taken.
    pub fn idle_looks(&self) -> u8 {
        self.requests.idle_looks
    }

    pub fn streams(&self) -> usize {
        self.streams as usize
    }
}

impl<S> Connection<S> {
    /// Counts again the connection's memory outside its buffers, which count themselves. Called after a change of
    /// protocol, and when a request has arrived or ended.
    pub fn count(&mut self) {
        let bytes = self.own_bytes();
        self.held.charge.set(bytes);
        self.held.account().set_fixed_bytes(bytes);
        // At most STREAMS_MAX streams are open.
        self.held.streams = self.protocol.streams().map_or(0, |streams| streams.count() as u32);
    }

    /// The bytes of the connection's own memory.
    pub fn own_bytes(&self) -> usize {
        let protocol = match (self.takes_frames(), self.channel.is_tls()) {
            _ if self.channel.is_quic() => Protocol::Http3,
            (false, false) => Protocol::Http1,
            (false, true) => Protocol::Http1OverTls,
            (true, false) => Protocol::Http2,
            (true, true) => Protocol::Http2OverTls,
        };
        let kept_bytes = self.protocol.http1().map_or(0, |http1| http1.kept_bytes());
        protocol.bytes(self.protocol.answering()) + kept_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_connection_costs_as_measured() {
        let of = |protocol: Protocol, streams| protocol.bytes(streams) >> 10;
        assert_eq!([of(Protocol::Http1, 0), of(Protocol::Http2, 100), of(Protocol::Http3, 100)], [1, 114, 229]);
    }
}
