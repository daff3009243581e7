/// The reason why runs could not be reported.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReportError {
    /// There was nothing to report.
    #[error("there is no run to report: give at least one")]
    NoRuns,
    /// A run's manifest or a record holds a value no run can have.
    #[error("run `{run}`: {reason}")]
    BadRun { run: String, reason: String },
    /// A run was made on another link or in another way than the first.
    #[error(
        "run `{run}`: {what} is {given}, but {expected} in run `{first}`; only runs under the same conditions compare"
    )]
    DifferentConditions { run: String, first: String, what: &'static str, given: u64, expected: u64 },
    /// A run has another number of jobs than the first.
    #[error("run `{run}`: it has {jobs} jobs, but run `{first}` has {expected}; only runs of the same jobs compare")]
    DifferentCount { run: String, first: String, jobs: usize, expected: usize },
    /// A run's job is not the first run's job of the same number: (arrival in ns, size in bytes) of each.
    #[error(
        "run `{run}`: job {job} arrives at {} ns for {} bytes, but at {} ns for {} bytes in run `{first}`; \
         only runs of the same jobs compare",
        given.0, given.1, expected.0, expected.1
    )]
    DifferentJob { run: String, first: String, job: usize, given: (u64, u64), expected: (u64, u64) },
}
