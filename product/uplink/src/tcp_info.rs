use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The fields of the kernel's `struct tcp_info` (linux/tcp.h) that we use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Payload of a full segment, in bytes.
    pub segment_bytes: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: u32,
    /// Unacknowledged segments that have arrived beyond a gap (SACK).
    pub sacked_segments: u32,
    /// Smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Minimum round-trip time of the last five minutes, in microseconds. Zero until one was measured, and on kernels
    /// before 4.6.
    pub min_rtt_us: u32,
    /// Congestion window, in segments.
    pub cwnd_segments: u32,
    /// Bytes written to the socket and not yet sent.
    pub notsent_bytes: u32,
    /// The recent delivery rate in bytes per second; zero until measured, and on kernels before 4.9. Linux keeps the
    /// last rate that was not limited by the program, or a higher one measured since.
    pub delivery_rate: u64,
    /// True if the program wrote too slowly for the rate to show the path's capacity.
    pub is_delivery_app_limited: bool,
    /// Total payload bytes acknowledged. Zero on kernels before 4.2.
    pub acked_bytes: u64,
    /// Total time for which the receiver's window prevented sending, in microseconds. Zero on kernels before 4.10.
    pub rwnd_limited_us: u64,
    /// Time since the last acknowledgement, in milliseconds.
    pub last_ack_ms: u32,
    /// Total payload bytes retransmitted. Zero on kernels before 4.19, which do not report it.
    pub retransmitted_bytes: u64,
    /// Total payload bytes sent, retransmissions included. Zero on kernels before 4.19, which do not report it.
    pub sent_bytes: u64,
    /// Total segments sent, with and without payload, except the SYN-ACK of an accepted connection. Wraps.
    pub sent_segments: u32,
    /// All segments carry timestamps (RFC 7323).
    pub has_timestamps: bool,
    /// The segments without payload that will still be sent if the socket is closed now and the client closes too: our
    /// FIN, and the acknowledgement of the client's FIN. Zero once both sides have closed, or one has reset the
    /// connection.
    pub closing_segments: u8,
}

const INFO_BYTES: usize = 256;
const STATE_AT: usize = 0;
const OPTIONS_AT: usize = 5;
const OPTION_TIMESTAMPS: u8 = 1;
const FLAGS_AT: usize = 7;
const DELIVERY_RATE_AT: usize = 160;
const SND_MSS_AT: usize = 16;
const UNACKED_AT: usize = 24;
const SACKED_AT: usize = 28;
const LAST_ACK_RECV_AT: usize = 56;
const RTT_AT: usize = 68;
const SND_CWND_AT: usize = 80;
const BYTES_ACKED_AT: usize = 120;
const SEGS_OUT_AT: usize = 136;
const NOTSENT_AT: usize = 144;
const MIN_RTT_AT: usize = 148;
const RWND_LIMITED_AT: usize = 176;
const BYTES_SENT_AT: usize = 200;
const BYTES_RETRANS_AT: usize = 208;

/// Queries the kernel. Returns an error if the descriptor is not a TCP socket.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = [0u8; INFO_BYTES];
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: the pointer and the length describe `raw`, which outlives the call, and the kernel writes at most
    // `length` bytes; the descriptor is borrowed, so it is open.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpInfo::from_kernel(&raw))
}

impl TcpInfo {
    /// Parses the kernel's reply. Fields that an older kernel does not have stay zero.
    pub(crate) fn from_kernel(bytes: &[u8]) -> TcpInfo {
        let mut raw = [0u8; INFO_BYTES];
        let known = bytes.len().min(INFO_BYTES);
        raw[..known].copy_from_slice(&bytes[..known]);
        let u32_at = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let u64_at = |at: usize| u64::from_ne_bytes(*raw[at..].first_chunk().expect("each field is within the bytes"));
        let min_rtt_us = u32_at(MIN_RTT_AT);
        TcpInfo {
            segment_bytes: u32_at(SND_MSS_AT),
            unacked_segments: u32_at(UNACKED_AT),
            sacked_segments: u32_at(SACKED_AT),
            rtt_us: u32_at(RTT_AT),
            // The value is all ones until it is measured.
            min_rtt_us: if min_rtt_us == u32::MAX { 0 } else { min_rtt_us },
            cwnd_segments: u32_at(SND_CWND_AT),
            notsent_bytes: u32_at(NOTSENT_AT),
            // This is a C bit field: the lowest bit of the byte on little-endian machines, the highest on others.
            is_delivery_app_limited: raw[FLAGS_AT] & if cfg!(target_endian = "little") { 1 } else { 0x80 } != 0,
            delivery_rate: u64_at(DELIVERY_RATE_AT),
            acked_bytes: u64_at(BYTES_ACKED_AT),
            rwnd_limited_us: u64_at(RWND_LIMITED_AT),
            last_ack_ms: u32_at(LAST_ACK_RECV_AT),
            retransmitted_bytes: u64_at(BYTES_RETRANS_AT),
            sent_bytes: u64_at(BYTES_SENT_AT),
            sent_segments: u32_at(SEGS_OUT_AT),
            has_timestamps: raw[OPTIONS_AT] & OPTION_TIMESTAMPS != 0,
            closing_segments: closing_segments(raw[STATE_AT]),
        }
    }
}

/// Returns the number of closing segments for a state of net/tcp_states.h.
fn closing_segments(state: u8) -> u8 {
    const ESTABLISHED: u8 = 1;
    const FIN_WAIT1: u8 = 4;
    const FIN_WAIT2: u8 = 5;
    const CLOSE_WAIT: u8 = 8;
    match state {
        ESTABLISHED => 2,
        FIN_WAIT1 | FIN_WAIT2 | CLOSE_WAIT => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn tells_of_a_loopback_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(&[0; 1000]).unwrap();
        let info = tcp_info(&stream).unwrap();
        assert!(info.segment_bytes >= 536, "{info:?}");
        assert!(info.cwnd_segments >= 1, "{info:?}");
        assert_eq!((info.notsent_bytes, info.retransmitted_bytes, info.sent_bytes), (0, 0, 1000), "{info:?}");
        // The SYN, the ACK of the handshake, and the data.
        assert_eq!(info.sent_segments, 3, "{info:?}");
    }

    /// The ledger relies on this: an accepted connection has sent nothing that is already counted.
    #[test]
    fn the_syn_ack_is_not_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        assert_eq!(tcp_info(&accepted).unwrap().sent_segments, 0);
        accepted.write_all(&[0; 1000]).unwrap();
        assert_eq!(tcp_info(&accepted).unwrap().sent_segments, 1);
    }

    /// The rate on loopback is more than a megabyte a second, and in any case plausible.
    #[test]
    fn tells_how_fast_bytes_are_delivered() {
        use std::io::Read;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || peer.read_exact(&mut vec![0; 8 << 20]));
        stream.write_all(&vec![0; 8 << 20]).unwrap();
        reader.join().unwrap().unwrap();
        let info = tcp_info(&stream).unwrap();
        assert!((1 << 20..1 << 40).contains(&info.delivery_rate), "{info:?}");
        assert_eq!(info.acked_bytes - info.acked_bytes % (8 << 20), 8 << 20, "{info:?}");
        // The time must be at least less than an hour, because a field of another meaning could have any value.
        assert!(info.last_ack_ms < 3_600_000, "{info:?}");
    }

    #[test]
    fn refuses_what_is_no_tcp_socket() {
        assert!(tcp_info(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
