//! The limits of a machine in virtual time: its memory, and its processor time while its clock stands still.

use std::time::Duration;

use crate::LabError;

/// The variable that sets another amount of memory, in MiB.
const MEMORY: &str = "WEIRLAB_MACHINE_MIB";
/// The variable that sets another time until a program counts as spinning, in seconds, for tests.
const STUCK_AFTER: &str = "WEIRLAB_STUCK_AFTER_S";
/// The default memory of a machine in MiB. It occupies only as much of the host's memory as it has used.
const MEMORY_MIB: u64 = 3072;
/// The minimum, below which the kernel itself lacks memory.
const MEMORY_MIN_MIB: u64 = 128;
/// The processor time in which the virtual clock must advance by a second. A run at 10 Mbit/s takes half a second for
/// that, so a program that takes a hundred times as long spins.
const STUCK_AFTER_S: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) memory_mib: u64,
    pub(super) stuck_after: Duration,
}

impl Bounds {
    /// Returns the limits set in the environment, otherwise the defaults.
    pub(super) fn from_environment() -> Result<Bounds, LabError> {
        let given = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Ok(Bounds {
            memory_mib: number(MEMORY, given(MEMORY), MEMORY_MIN_MIB, MEMORY_MIB)?,
            stuck_after: Duration::from_secs(number(STUCK_AFTER, given(STUCK_AFTER), 1, STUCK_AFTER_S)?),
        })
    }
}

fn number(name: &'static str, given: Option<String>, least: u64, usual: u64) -> Result<u64, LabError> {
    let Some(value) = given else { return Ok(usual) };
    match value.parse() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(LabError::Variable { name, value, wanted: format!("a whole number of at least {least}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_and_anything_else_is_told() {
        let number = |given: Option<&str>| number(MEMORY, given.map(String::from), 128, 3072);
        assert_eq!((number(None).unwrap(), number(Some("512")).unwrap()), (3072, 512));
        for wrong in ["", "1G", "127", "-1"] {
            let said = number(Some(wrong)).unwrap_err().to_string();
            assert_eq!(said, format!("WEIRLAB_MACHINE_MIB is `{wrong}`: a whole number of at least 128 is expected"));
        }
    }
}
