//! What connections hold in memory, as far as it can be told at once: what is kept and waits is counted, what libraries hold is taken for what
//! was measured: resident memory of a thousand such connections, docs/notebook/attacks.md.

use super::conn::Conn;

/// Its places in the tables of connections, of what is below them and of their names, a third of them free.
const TABLES_BYTES: u64 = 1 << 10;
/// The session of a client that speaks TLS.
const TLS_BYTES: u64 = 9 << 10;
/// The engine of a connection without streams.
const HTTP2_BYTES: u64 = 13 << 10;
const HTTP3_BYTES: u64 = 28 << 10;
/// A stream with its request, its response and its job.
const HTTP1_STREAM_BYTES: u64 = 1 << 10;
const HTTP2_STREAM_BYTES: u64 = 1 << 10;
const HTTP3_STREAM_BYTES: u64 = 2 << 10;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Http1,
    Http1OverTls,
    Http2,
    Http2OverTls,
    Http3,
}

/// What waits for a connection is counted in pieces of so much.
const PIECE_BYTES: usize = 128;

/// Of one connection, in 4 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holding {
    pub(super) protocol: Protocol,
    /// Requests and responses under way.
    pub(super) streams: u8,
    pub(super) buffered_pieces: u16,
}

impl Holding {
    /// What is counted for its tables, TLS, engine, streams, and what waits: incomplete heads, and frames and records that were not taken.
    pub fn bytes(self) -> u64 {
        let (fixed_bytes, stream_bytes) = match self.protocol {
            Protocol::Http1 => (0, HTTP1_STREAM_BYTES),
            Protocol::Http1OverTls => (TLS_BYTES, HTTP1_STREAM_BYTES),
            Protocol::Http2 => (HTTP2_BYTES, HTTP2_STREAM_BYTES),
            Protocol::Http2OverTls => (TLS_BYTES + HTTP2_BYTES, HTTP2_STREAM_BYTES),
            Protocol::Http3 => (HTTP3_BYTES, HTTP3_STREAM_BYTES),
        };
        let buffered_bytes = u64::from(self.buffered_pieces) * PIECE_BYTES as u64;
        TABLES_BYTES + fixed_bytes + u64::from(self.streams) * stream_bytes + buffered_bytes
    }
}

/// Of all connections of a worker.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Held {
    bytes: u64,
    streams: usize,
}

impl Held {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Open streams of HTTP/2 and HTTP/3.
    pub fn streams(&self) -> usize {
        self.streams
    }

    pub fn add(&mut self, holding: Holding) {
        self.bytes += holding.bytes();
        self.streams += multiplexed(holding);
    }

    pub fn remove(&mut self, holding: Holding) {
        self.bytes -= holding.bytes();
        self.streams -= multiplexed(holding);
    }
}

fn multiplexed(holding: Holding) -> usize {
    match holding.protocol {
        Protocol::Http1 | Protocol::Http1OverTls => 0,
        Protocol::Http2 | Protocol::Http2OverTls | Protocol::Http3 => holding.streams.into(),
    }
}

impl Conn {
    /// What it holds now, with so many bytes that were made for it and not taken.
    pub(super) fn holds(&self, unsent_bytes: usize) -> Holding {
        let protocol = match (self.is_multiplexed(), self.channel.is_tls()) {
            _ if self.channel.is_quic() => Protocol::Http3,
            (false, false) => Protocol::Http1,
            (false, true) => Protocol::Http1OverTls,
            (true, false) => Protocol::Http2,
            (true, true) => Protocol::Http2OverTls,
        };
        let streams = match self.exchanges.streams() {
            Some(streams) => streams.count(),
            None => self.http1.answering.is_on().into(),
        };
        let buffered_pieces = (self.http1.kept_bytes() + unsent_bytes).div_ceil(PIECE_BYTES);
        Holding {
            protocol,
            streams: u8::try_from(streams).unwrap_or(u8::MAX),
            buffered_pieces: u16::try_from(buffered_pieces).unwrap_or(u16::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holding() -> impl Strategy<Value = Holding> {
        let protocol = prop::sample::select(vec![
            Protocol::Http1,
            Protocol::Http1OverTls,
            Protocol::Http2,
            Protocol::Http2OverTls,
            Protocol::Http3,
        ]);
        let counts = (any::<u8>(), any::<u16>());
        (protocol, counts).prop_map(|(protocol, (streams, buffered_pieces))| Holding {
            protocol,
            streams,
            buffered_pieces,
        })
    }

    proptest! {
        #[test]
        fn the_whole_is_the_sum_of_its_connections(steps in prop::collection::vec((0usize..8, prop::option::of(holding())), 0..200)) {
            let (mut held, mut each) = (Held::default(), [None::<Holding>; 8]);
            for (at, holding) in steps {
                each[at].take().into_iter().for_each(|before| held.remove(before));
                holding.into_iter().for_each(|after| held.add(after));
                each[at] = holding;
                let sum: u64 = each.iter().flatten().map(|holding| holding.bytes()).sum();
                prop_assert_eq!(held.bytes(), sum);
            }
        }
    }

    #[test]
    fn a_stalled_connection_costs_as_measured() {
        let of = |protocol, streams| Holding { protocol, streams, ..Holding::default() }.bytes() >> 10;
        assert_eq!([of(Protocol::Http1, 0), of(Protocol::Http2, 100), of(Protocol::Http3, 100)], [1, 114, 229]);
        assert_eq!(size_of::<Holding>(), 4);
        const { assert!(mux::STREAMS_MAX <= u8::MAX as _) };
        // Beside so much there is less than a megabyte.
        const { assert!(mux::BODIES_BYTES_MAX + (1 << 20) <= u16::MAX as usize * PIECE_BYTES) };
    }
}
