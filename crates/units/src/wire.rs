//! How many bytes a response takes on the wire, as a shaper on the interface counts them.
//!
//! The figures are those of Ethernet, IPv4 and TCP with timestamps, which is what Linux sends by default: 14 bytes
//! of Ethernet header (the shaper counts no preamble, checksum or gap), 20 of IPv4, 20 of TCP and 12 of options.

/// Headers in front of every segment: 14 + 20 + 32 bytes.
pub const PACKET_OVERHEAD_BYTES: u64 = 66;

/// Payload of a full segment at an MTU of 1500: 1500 − 20 − 32.
pub const SEGMENT_BYTES: u64 = 1448;

/// A SYN-ACK carries 20 bytes of TCP options: 14 + 20 + 40.
pub const SYN_ACK_BYTES: u64 = 74;

/// What the server sends for a connection beside its responses: the SYN-ACK, the ACK of the request, and the ACK of
/// the client's FIN; its own FIN rides on the last segment.
pub const CONNECTION_BYTES: u64 = SYN_ACK_BYTES + 2 * PACKET_OVERHEAD_BYTES;

/// Bytes on the wire of `payload_bytes` sent in full-size segments of `segment_bytes` (the last one may be short).
pub const fn bytes_of(payload_bytes: u64, segment_bytes: u64) -> u64 {
    payload_bytes + PACKET_OVERHEAD_BYTES * payload_bytes.div_ceil(segment_bytes)
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
}
