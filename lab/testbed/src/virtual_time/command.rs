//! Any command in a machine in virtual time: how tests whose verdict depends on time are made to depend on nothing else.

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
    /// The time that its machine was there, by the machine's clock.
    pub virtual_seconds: u64,
}

/// Runs a command from start to end in a machine of its own, as root there, in the folder that is the current one here. It sees the
/// host's files; what it writes is gone afterwards.
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
