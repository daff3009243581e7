//! The packets that carry responses: the part of each packet that belongs to the response, by protocol, at an MTU of
//! 1500 over IPv4, as a shaper counts it.

use units::wire::{DATAGRAM_OVERHEAD_BYTES, PACKET_OVERHEAD_BYTES, SEGMENT_BYTES, SYN_ACK_BYTES};

/// A record of TLS 1.3: 5 bytes of header, 1 of type, 16 of tag (RFC 8446 section 5.2).
const RECORD_BYTES: u64 = 5 + 1 + 16;

/// The bytes that a server sends to resume a session, which is the minimum, with X25519 and SHA-256: ServerHello in a
/// record without encryption (5 + 4 + 124), change_cipher_spec (6), and in one record EncryptedExtensions with a
/// protocol name of two letters (15) and Finished (36).
const FLIGHT_BYTES: u64 = 5 + 4 + 124 + 6 + RECORD_BYTES + 15 + 36;

/// Frame header of HTTP/2 (RFC 9113 section 4.1).
const FRAME_BYTES: u64 = 9;

/// The payload of a full datagram of the servers measured here, Weir and Caddy, which fills a packet over IPv6.
const DATAGRAM_BYTES: u64 = 1452;

/// The QUIC bytes in a datagram: flags, the client's connection ID (8 bytes, from the lab's client), a packet number of
/// 1 byte and the tag (RFC 9000 section 17.3.1), then STREAM with an ID of 2 bytes, which begin with a connection's
/// 17th request (section 19.8).
const QUIC_BYTES: u64 = 1 + 8 + 1 + 16 + 1 + 2;

/// The minimum size of a server's first datagram (section 14.1), which has room for the flight above.
const INITIAL_BYTES: u64 = 1200;

/// The packets of one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrier {
    /// The bytes of a response in a full packet; never zero.
    pub segment_bytes: u64,
    /// All other bytes in each packet with data.
    pub overhead_bytes: u64,
    /// The bytes that a connection sends before its first response, without a pause, including headers.
    pub opening_bytes: u64,
    /// The bytes of a packet without data.
    pub empty_bytes: u64,
    /// True if the rest of a response's last packet may carry other responses; the response is then charged its share
    /// of the packet.
    pub is_shared: bool,
}

impl Carrier {
    /// HTTP/1.1: a SYN-ACK, full segments with timestamps.
    pub const HTTP1: Carrier = Carrier::over_tcp(0, 0, false);
    /// A record ends with each packet, so the packet can be decrypted when it arrives. A record over many packets would
    /// save 1.4 % of the bytes, but its first bytes would have to wait for its last.
    pub const HTTP1_TLS: Carrier = Carrier::over_tcp(RECORD_BYTES, PACKET_OVERHEAD_BYTES + FLIGHT_BYTES, false);
    /// A frame ends with each packet, so that the next can belong to another response; SETTINGS are sent with the
    /// first.
    pub const HTTP2: Carrier = Carrier::over_tcp(FRAME_BYTES, FRAME_BYTES, true);
    /// The same frames in records; SETTINGS, in a separate record, are sent with the handshake.
    pub const HTTP2_TLS: Carrier = Carrier::over_tcp(
        RECORD_BYTES + FRAME_BYTES,
        PACKET_OVERHEAD_BYTES + FLIGHT_BYTES + RECORD_BYTES + FRAME_BYTES,
        true,
    );
    pub const HTTP3: Carrier = Carrier {
        segment_bytes: DATAGRAM_BYTES - QUIC_BYTES,
        overhead_bytes: DATAGRAM_OVERHEAD_BYTES + QUIC_BYTES,
        opening_bytes: DATAGRAM_OVERHEAD_BYTES + INITIAL_BYTES,
        empty_bytes: DATAGRAM_OVERHEAD_BYTES,
        is_shared: true,
    };

    /// Returns the carrier of a protocol described by the load generator, such as `HTTP/2 over TLS, up to 6 streams on
    /// a connection`; for unknown ones it is HTTP/1.1.
    pub fn of_protocol(said: &str) -> Carrier {
        let of = [
            ("HTTP/3", Carrier::HTTP3),
            ("HTTP/2 over TLS", Carrier::HTTP2_TLS),
            ("HTTP/2", Carrier::HTTP2),
            ("HTTP/1.1 over TLS", Carrier::HTTP1_TLS),
        ];
        of.into_iter().find(|(begin, _)| said.starts_with(begin)).map_or(Carrier::HTTP1, |(_, carrier)| carrier)
    }

    /// Creates a carrier over TCP. `inside_bytes` of each segment do not belong to the response; `opening_bytes` follow
    /// the SYN-ACK of a connection.
    const fn over_tcp(inside_bytes: u64, opening_bytes: u64, is_shared: bool) -> Carrier {
        Carrier {
            segment_bytes: SEGMENT_BYTES - inside_bytes,
            overhead_bytes: PACKET_OVERHEAD_BYTES + inside_bytes,
            opening_bytes: SYN_ACK_BYTES + opening_bytes,
            empty_bytes: PACKET_OVERHEAD_BYTES,
            is_shared,
        }
    }

    /// The bytes of a full packet.
    pub const fn packet_bytes(self) -> u64 {
        self.segment_bytes + self.overhead_bytes
    }

    /// The charge for the last packet of a response, which contains `rest_bytes`, fewer than fill it.
    pub const fn last_bytes(self, rest_bytes: u64) -> u64 {
        match (rest_bytes, self.is_shared) {
            (0, _) => 0,
            (_, true) => (rest_bytes * self.packet_bytes()).div_ceil(self.segment_bytes),
            (_, false) => rest_bytes + self.overhead_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums from the RFCs, computed once more.
    #[test]
    fn packets_by_hand() {
        let of = |carrier: Carrier| [carrier.segment_bytes, carrier.overhead_bytes, carrier.opening_bytes];
        assert_eq!(of(Carrier::HTTP1), [1448, 66, 74]);
        assert_eq!(of(Carrier::HTTP1_TLS), [1426, 88, 74 + 66 + 212]);
        assert_eq!(of(Carrier::HTTP2), [1439, 75, 74 + 9]);
        assert_eq!(of(Carrier::HTTP2_TLS), [1417, 97, 74 + 66 + 212 + 31]);
        assert_eq!(of(Carrier::HTTP3), [1423, 71, 1242]);
        let full = [Carrier::HTTP1, Carrier::HTTP1_TLS, Carrier::HTTP2, Carrier::HTTP2_TLS, Carrier::HTTP3];
        assert_eq!(full.map(Carrier::packet_bytes), [1514, 1514, 1514, 1514, 1494]);
    }

    #[test]
    fn a_last_packet_has_its_headers_or_its_share_of_them() {
        assert_eq!([0, 1, 1425].map(|rest| Carrier::HTTP1_TLS.last_bytes(rest)), [0, 89, 1513]);
        // 1514/1417 of a byte is 1.07, of 1416 bytes 1512.9.
        assert_eq!([0, 1, 1416].map(|rest| Carrier::HTTP2_TLS.last_bytes(rest)), [0, 2, 1513]);
    }
}
