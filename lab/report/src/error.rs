use std::fmt;

/// Why runs could not be reported.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportError {
    /// There was nothing to report.
    NoRuns,
    /// A run's manifest or a record holds a value no run can have.
    BadRun { run: String, reason: String },
    /// A run was made on another link or in another way than the first.
    DifferentConditions { run: String, first: String, what: &'static str, given: u64, expected: u64 },
    /// A run has another number of jobs than the first.
    DifferentCount { run: String, first: String, jobs: usize, expected: usize },
    /// A run's job is not the first run's job of the same number: (arrival in ns, size in bytes) of each.
    DifferentJob { run: String, first: String, job: usize, given: (u64, u64), expected: (u64, u64) },
    /// Of a seed there are two runs, so that it is open which of them counts.
    SeedTwice { run: String, seed: u64 },
    /// The picture could not be drawn.
    Picture(String),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::NoRuns => write!(f, "there is no run to report: give at least one"),
            ReportError::BadRun { run, reason } => write!(f, "run `{run}`: {reason}"),
            ReportError::DifferentConditions { run, first, what, given, expected } => write!(
                f,
                "run `{run}`: {what} is {given}, but {expected} in run `{first}`; only runs under the same conditions compare"
            ),
            ReportError::DifferentCount { run, first, jobs, expected } => write!(
                f,
                "run `{run}`: it has {jobs} jobs, but run `{first}` has {expected}; only runs of the same jobs compare"
            ),
            ReportError::DifferentJob { run, first, job, given, expected } => write!(
                f,
                "run `{run}`: job {job} arrives at {} ns for {} bytes, but at {} ns for {} bytes in run `{first}`; \
                 only runs of the same jobs compare",
                given.0, given.1, expected.0, expected.1
            ),
            ReportError::SeedTwice { run, seed } => write!(
                f,
                "run `{run}` of seed {seed} is there twice under the same conditions; of each seed one run counts: leave one out"
            ),
            ReportError::Picture(reason) => write!(f, "the picture could not be drawn: {reason}"),
        }
    }
}

impl std::error::Error for ReportError {}
