use units::Nanos;

/// The known properties of the path to a client. Any field may be unknown; each policy that uses paths documents what
/// it does then.
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
    /// A path with no known properties.
    pub const UNKNOWN: Path = Path { rtt: None, cwnd_bytes: None, throughput_bps: None };
}

/// The paths of a policy's jobs, by slot; empty if the policy uses no paths.
#[derive(Debug, Default)]
pub(crate) struct Paths(Vec<Path>);

impl Paths {
    pub fn set(&mut self, slot: u32, path: &Path) {
        self.0.resize(self.0.len().max(slot as usize + 1), Path::UNKNOWN);
        self.0[slot as usize] = *path;
    }

    pub fn of(&self, slot: u32) -> &Path {
        self.0.get(slot as usize).unwrap_or(&Path::UNKNOWN)
    }
}
