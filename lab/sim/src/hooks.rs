use record::JobRecord;

/// The callbacks of a caller during a simulation. They do not affect the run.
#[derive(Default)]
pub struct Hooks<'a> {
    /// Called for every counted job as it leaves. At a finite horizon it is also called for the counted jobs that did
    /// not leave, as incomplete. Jobs of the warm-up and jobs after the last counted one are not reported; the first
    /// counted job is job 0.
    pub record: Option<&'a mut dyn FnMut(JobRecord)>,
    /// Called from time to time (at least every [`PROGRESS_JOBS`] jobs) with the number of jobs that have left.
    pub progress: Option<&'a mut dyn FnMut(u64)>,
}

/// The interval of progress calls: often enough for a progress bar, and too seldom to cost anything.
pub const PROGRESS_JOBS: u64 = 1 << 16;

impl Hooks<'_> {
    /// Returns hooks without callbacks.
    pub fn none() -> Self {
        Hooks::default()
    }
}
