//! Runs any command in a machine in virtual time, so that tests whose verdict depends on time do not depend on the
//! host's load.

use super::bounds::Bounds;
use super::kernel::find_kernel;
use super::machine::Task;
use crate::{Interrupt, LabError};

/// The result of a command.
#[derive(Debug)]
pub struct Said {
    pub status: i32,
    pub out: String,
    pub err: String,
    /// The time for which its machine existed, by the machine's clock.
    pub virtual_seconds: u64,
}

/// Runs a command in its own machine, as root there, in the current folder. It sees the host's files; the files that it
/// writes are lost afterwards.
pub fn run_command(words: &[String], interrupt: &Interrupt) -> Result<Said, LabError> {
    let task = Task { kernel: &find_kernel()?, command: words, seed: None, bounds: Bounds::from_environment()? };
    let ended = task.run(interrupt)?;
    Ok(Said {
        status: ended.status,
        out: ended.out.clone(),
        err: ended.err.clone(),
        virtual_seconds: ended.virtual_seconds,
    })
}
