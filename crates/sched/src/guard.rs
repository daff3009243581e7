/// The anti-starvation guard: a share of all granted bytes goes to the oldest ready job, whatever its rank.
///
/// The share stands beside the ranks, so waiting never changes a rank. It bounds how long any job gets nothing: while
/// n jobs are older than it, a job waits for their bytes to leave at `permille` / 1000 of the link, and then it is the
/// oldest itself (Homa's `pacer_fifo_fraction` is the same idea). Raised: the largest responses finish
/// sooner and everyone else later. Zero switches it off.
#[derive(Debug, Clone, Copy)]
pub struct Guard {
    permille: u32,
    /// Thousandths of a byte that the oldest job is owed.
    owed: u64,
}

impl Guard {
    /// `permille` of the bytes, at most 1000.
    pub fn new(permille: u32) -> Guard {
        assert!(permille <= 1000, "a share of {permille} per mille");
        Guard { permille, owed: 0 }
    }

    pub fn is_off(&self) -> bool {
        self.permille == 0
    }

    /// Whether a grant of this many bytes is due to the oldest job.
    pub(crate) fn is_due(&self, grant_bytes: u64) -> bool {
        !self.is_off() && self.owed >= grant_bytes * 1000
    }

    /// Bytes were sent, by the oldest job or by another.
    pub(crate) fn on_sent(&mut self, bytes: u64, to_oldest: bool) {
        self.owed += bytes * u64::from(self.permille);
        if to_oldest {
            self.owed = self.owed.saturating_sub(bytes * 1000);
        }
    }

    /// Nobody is waiting: nothing is owed to anyone.
    pub(crate) fn forget(&mut self) {
        self.owed = 0;
    }
}

impl Default for Guard {
    fn default() -> Guard {
        Guard::new(0)
    }
}
