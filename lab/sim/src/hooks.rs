use record::JobRecord;

/// The callbacks of a caller while a simulation runs. The run is the same with or without.
#[derive(Default)]
pub struct Hooks<'a> {
    /// Every job that is counted, as it leaves, and at a finite horizon those that did not, as incomplete. The jobs of the
    /// warm-up, and those that come behind the last one counted, are nobody's result; the first counted is job 0.
    pub record: Option<&'a mut dyn FnMut(JobRecord)>,
    /// The callback for the number of jobs that have left, now and then (at least every [`PROGRESS_JOBS`] jobs).
    pub progress: Option<&'a mut dyn FnMut(u64)>,
}

/// Often enough for a progress bar, too seldom to cost anything.
pub const PROGRESS_JOBS: u64 = 1 << 16;

impl Hooks<'_> {
    /// Returns hooks without callbacks.
    pub fn none() -> Self {
        Hooks::default()
    }
}
