use units::Nanos;

/// What is known of the path to a client. Everything may be unknown, and each policy that looks here says what it
/// does then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Path {
    /// Smoothed round-trip time.
    pub rtt: Option<Nanos>,
    /// Congestion window, payload bytes.
    pub cwnd_bytes: Option<u64>,
    /// Estimated throughput, bits per second.
    pub throughput_bps: Option<u64>,
}

impl Path {
    /// Nothing is known of it.
    pub const UNKNOWN: Path = Path { rtt: None, cwnd_bytes: None, throughput_bps: None };
}
