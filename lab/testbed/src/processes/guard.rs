//! A separate process that resumes the processes of Apache however this program ends: it reads from a pipe that ends
//! with this program.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::hands;
use crate::LabError;

/// The guard, as seen from this program. Dropping it waits until it has done its work.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts `command`, which must call [`Guard::stand`] with the same arguments. It is in a separate process group,
    /// so that a signal from the terminal does not end it.
    pub fn start(mut command: Command) -> Result<Guard, LabError> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).spawn();
        child.map(Guard).map_err(|e| LabError::io("guard", e))
    }

    /// Waits for the end of its input, then resumes the processes of this Apache.
    pub fn stand(master: u32, group: Option<&Path>) {
        let mut rest = [0; 16];
        while std::io::stdin().read(&mut rest).is_ok_and(|bytes| bytes > 0) {}
        hands::free(master, group);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
