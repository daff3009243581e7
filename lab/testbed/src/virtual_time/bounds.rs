//! What a machine in virtual time may use: of memory, and of processor time while its clock stands still.

use std::time::Duration;

use crate::LabError;

/// Another amount of memory, MiB.
const MEMORY: &str = "WEIRLAB_MACHINE_MIB";
/// For tests: another time until a program counts as spinning, s.
const STUCK_AFTER: &str = "WEIRLAB_STUCK_AFTER_S";
/// The memory that a machine may use by default, MiB; of the host's it takes what it has used.
const MEMORY_MIB: u64 = 3072;
/// Below this the kernel itself has not enough.
const MEMORY_MIN_MIB: u64 = 128;
/// Processor time in which the virtual clock has to move by a second. A run at 10 Mbit/s takes half a second of it, so what takes
/// a hundred times that spins.
const STUCK_AFTER_S: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) memory_mib: u64,
    pub(super) stuck_after: Duration,
}

impl Bounds {
    /// Returns the bounds of the environment, else the usual ones.
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
