use hdrhistogram::Histogram;
use record::JobRecord;
use units::Nanos;
use workload::PageTimes;

use crate::PlanError;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The records of all requests that were submitted, in order of arrival. Unless `interrupted`, these are all
    /// requests of the load.
    pub records: Vec<JobRecord>,
    /// The times of the pages that were begun, if pages were loaded. A job has the number of its page as its client.
    pub pages: Vec<PageTimes>,
    /// The lateness of requests when they were submitted, in nanoseconds, with a precision of 0.1 %.
    pub lateness: Histogram<u64>,
    /// The CPU time of this process during the run, including other threads.
    pub cpu: Nanos,
    /// The duration of the run, from its start to the end of the last job or of the wait for it.
    pub elapsed: Nanos,
    /// The start of the run, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The maximum number of concurrent connections.
    pub connections_peak: usize,
    /// Requests for which this machine had no descriptor or port left; they are recorded as refused.
    pub turned_away: u64,
    /// The progress function stopped the run before every job had ended.
    pub interrupted: bool,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub elapsed: Nanos,
    /// The total number of requests, if it is known.
    pub jobs: Option<usize>,
    pub submitted: usize,
    /// The number of jobs that have ended, successfully or not.
    pub ended: usize,
}

/// The reason why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The source has no requests.
    #[error("there is nothing to ask for: no request is due")]
    NothingToAsk,
    /// An attempted system call and its error. This machine failed, not the server.
    #[error("{0}: {1}")]
    System(&'static str, #[source] rustix::io::Errno),
}
