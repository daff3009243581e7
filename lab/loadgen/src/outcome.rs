use hdrhistogram::Histogram;
use record::JobRecord;
use units::Nanos;
use workload::PageTimes;

use crate::PlanError;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The records of every request that was submitted, in order of arrival; that is all of them unless `interrupted`.
    pub records: Vec<JobRecord>,
    /// In order of arrival, where pages were loaded; a job names its page as its client.
    pub pages: Vec<PageTimes>,
    /// The lateness of requests when they were submitted, nanoseconds, within 0.1 %.
    pub lateness: Histogram<u64>,
    /// CPU time of this process during the run, other threads included.
    pub cpu: Nanos,
    /// The time that the run took, from its start to the end of the last job or of the wait for it.
    pub elapsed: Nanos,
    /// Start of the run, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The most connections that stood at once.
    pub connections_peak: usize,
    /// Requests for which this machine had no descriptor or no port left; recorded as refused at once.
    pub turned_away: u64,
    /// The progress function asked to stop before every job had ended.
    pub interrupted: bool,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub elapsed: Nanos,
    /// Requests there will be, where that is known.
    pub jobs: Option<usize>,
    pub submitted: usize,
    /// Jobs that have ended, well or not.
    pub ended: usize,
}

/// The reason why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The source has no request.
    #[error("there is nothing to ask for: no request is due")]
    NothingToAsk,
    /// An attempt of ours and why it failed: our own machine, never the server.
    #[error("{0}: {1}")]
    System(&'static str, #[source] rustix::io::Errno),
}
