//! The number of bytes a response takes on the wire, as a shaper on the interface counts them.
//!
//! The figures are for Ethernet, IPv4 and TCP with timestamps, which is what Linux sends by default: 14 bytes of
//! Ethernet header (the shaper counts no preamble, checksum or gap), 20 of IPv4, 20 of TCP and 12 of options.

/// Headers in front of every segment: 14 + 20 + 32 bytes.
pub const PACKET_OVERHEAD_BYTES: u64 = 66;

/// Payload of a full segment at an MTU of 1500: 1500 − 20 − 32.
pub const SEGMENT_BYTES: u64 = 1448;

/// The SYN-ACK, which carries 20 bytes of TCP options: 14 + 20 + 40.
pub const SYN_ACK_BYTES: u64 = 74;

/// The bytes that the server sends for a connection in addition to its responses: the SYN-ACK, the ACK of the request,
/// and the ACK of the client's FIN. Its own FIN is part of the last segment.
pub const CONNECTION_BYTES: u64 = SYN_ACK_BYTES + 2 * PACKET_OVERHEAD_BYTES;

/// The extra length of an IPv6 header compared with IPv4 (RFC 8200 section 3: 40 bytes, not 20).
const IPV6_EXTRA_BYTES: u64 = 20;

/// The timestamps option with its padding (RFC 7323 section 3.2).
const TIMESTAMPS_BYTES: u64 = 12;

/// Headers in front of a UDP datagram: 14 + 20 + 8 bytes.
pub const DATAGRAM_OVERHEAD_BYTES: u64 = 42;

/// The way in which one connection's payload is cut into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a full segment, bytes; never zero.
    pub segment_bytes: u64,
    /// Headers in front of every segment as a shaper counts them: Ethernet, IP and TCP with its options, bytes.
    pub header_bytes: u64,
    /// The SYN-ACK, bytes; 0 if there is none.
    pub syn_ack_bytes: u64,
}

impl Framing {
    /// IPv4 with timestamps at an MTU of 1500.
    pub const ETHERNET: Framing = Framing::new(SEGMENT_BYTES, false, true);

    /// Returns the framing of a TCP connection with this segment size, address family and use of timestamps. A segment
    /// size of 0 counts as 1.
    pub const fn new(segment_bytes: u64, is_ipv6: bool, has_timestamps: bool) -> Framing {
        let family = if is_ipv6 { IPV6_EXTRA_BYTES } else { 0 };
        let options = if has_timestamps { 0 } else { TIMESTAMPS_BYTES };
        Framing {
            segment_bytes: if segment_bytes == 0 { 1 } else { segment_bytes },
            header_bytes: PACKET_OVERHEAD_BYTES + family - options,
            syn_ack_bytes: SYN_ACK_BYTES + family,
        }
    }

    /// Returns the framing of UDP whose full datagrams have this payload (0 counts as 1). There is no SYN-ACK.
    pub const fn datagrams(datagram_bytes: u64, is_ipv6: bool) -> Framing {
        let family = if is_ipv6 { IPV6_EXTRA_BYTES } else { 0 };
        Framing {
            segment_bytes: if datagram_bytes == 0 { 1 } else { datagram_bytes },
            header_bytes: DATAGRAM_OVERHEAD_BYTES + family,
            syn_ack_bytes: 0,
        }
    }

    /// Returns the same headers with segments of another size.
    pub const fn with_segment(self, segment_bytes: u64) -> Framing {
        Framing { segment_bytes: if segment_bytes == 0 { 1 } else { segment_bytes }, ..self }
    }

    /// Returns the bytes on the wire of this payload in full segments; the last one may be short.
    pub const fn wire_bytes(self, payload_bytes: u64) -> u64 {
        payload_bytes.saturating_add(self.header_bytes.saturating_mul(payload_bytes.div_ceil(self.segment_bytes)))
    }

    /// Returns the bytes of a full segment with its headers.
    pub const fn packet_bytes(self) -> u64 {
        self.segment_bytes.saturating_add(self.header_bytes)
    }
}

impl Default for Framing {
    fn default() -> Framing {
        Framing::ETHERNET
    }
}

/// Returns the bytes on the wire of `payload_bytes` sent in full-size segments of `segment_bytes` (the last one may be
/// short).
pub const fn bytes_of(payload_bytes: u64, segment_bytes: u64) -> u64 {
    payload_bytes.saturating_add(PACKET_OVERHEAD_BYTES.saturating_mul(payload_bytes.div_ceil(segment_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_header_per_segment() {
        assert_eq!(bytes_of(0, SEGMENT_BYTES), 0);
        assert_eq!(bytes_of(1, SEGMENT_BYTES), 67);
        assert_eq!(bytes_of(1448, SEGMENT_BYTES), 1514);
        assert_eq!(bytes_of(1449, SEGMENT_BYTES), 1449 + 132);
        assert_eq!(CONNECTION_BYTES, 206);
    }

    #[test]
    fn no_payload_wraps() {
        for payload_bytes in [1 << 31, 1 << 32, 1 << 53, 1 << 63, u64::MAX - 1, u64::MAX] {
            for segment_bytes in [1, SEGMENT_BYTES, u64::MAX] {
                let wire_bytes = Framing::new(segment_bytes, true, true).wire_bytes(payload_bytes);
                assert!(wire_bytes > payload_bytes || wire_bytes == u64::MAX, "{payload_bytes}");
                assert!(bytes_of(payload_bytes, segment_bytes) >= payload_bytes, "{payload_bytes}");
            }
        }
    }

    /// A full packet has Ethernet's 1,514 bytes, whatever the family and the options.
    #[test]
    fn a_full_packet_is_as_long_in_every_framing() {
        for (segment_bytes, is_ipv6, has_timestamps) in
            [(1448, false, true), (1460, false, false), (1428, true, true), (1440, true, false)]
        {
            let framing = Framing::new(segment_bytes, is_ipv6, has_timestamps);
            assert_eq!(framing.packet_bytes(), 1514, "{framing:?}");
            assert_eq!(framing.wire_bytes(2 * segment_bytes + 1), 2 * 1514 + 1 + framing.header_bytes);
            assert_eq!(framing.syn_ack_bytes, if is_ipv6 { 94 } else { 74 });
        }
        assert_eq!(Framing::new(0, false, true).segment_bytes, 1);
        // The payload is 1,500 bytes minus the headers of IPv6 and UDP; over IPv4 such a packet is not full.
        assert_eq!([true, false].map(|is_ipv6| Framing::datagrams(1452, is_ipv6).packet_bytes()), [1514, 1494]);
        assert_eq!(Framing::datagrams(0, false), Framing::datagrams(1, false));
        assert_eq!(Framing::datagrams(1200, true).syn_ack_bytes, 0);
    }
}
