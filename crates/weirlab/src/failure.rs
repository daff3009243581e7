//! How a command ends: exit status 0 ok, 1 failed, 2 usage, with one line that says why.

/// Why a command did not do what it was asked.
pub enum Failure {
    /// What was asked for makes no sense (exit status 2).
    Usage(String),
    /// It made sense and did not work (exit status 1).
    Failed(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.to_string())
    }
}

/// Prints the failure, if any, as `program: reason` and gives the exit status.
pub fn exit_code(program: &str, outcome: Result<(), Failure>) -> std::process::ExitCode {
    let (status, reason) = match outcome {
        Ok(()) => return std::process::ExitCode::SUCCESS,
        Err(Failure::Failed(reason)) => (1, reason),
        Err(Failure::Usage(reason)) => (2, reason),
    };
    eprintln!("{program}: {reason}");
    std::process::ExitCode::from(status)
}
