//! Runs of an experiment that are missing, and why: without this, a run that this machine could not do looks as if it
//! had been forgotten.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::run::{make, whole};
use crate::{FileError, Run};

const LEFT_OUT: &str = "left-out.json";

/// `left-out.json` in the folder of an experiment: reasons by the run's folder in it, for example `rho-0.8/cake`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub reasons: BTreeMap<String, String>,
}

impl LeftOut {
    /// Reads the reasons kept in this folder, without runs that have been made since; empty if there is no file.
    pub fn read(folder: &Path) -> Result<LeftOut, FileError> {
        let path = folder.join(LEFT_OUT);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LeftOut::default()),
            read => read.map_err(|error| FileError::new(&path, error))?,
        };
        let mut reasons: BTreeMap<String, String> =
            serde_json::from_str(&text).map_err(|error| FileError::new(&path, error))?;
        reasons.retain(|run, _| !Run::is_in(&folder.join(run)));
        Ok(LeftOut { reasons })
    }

    /// Adds the runs that were left out this time to those kept in the folder, and removes runs that have been made
    /// since.
    pub fn add(folder: &Path, reasons: impl IntoIterator<Item = (String, String)>) -> Result<(), FileError> {
        let mut kept = LeftOut::read(folder)?;
        kept.reasons.extend(reasons);
        let path = folder.join(LEFT_OUT);
        if kept.reasons.is_empty() && !path.exists() {
            return Ok(());
        }
        make(folder)?;
        whole(&path, |part| {
            let text = serde_json::to_string_pretty(&kept.reasons).map_err(|error| FileError::new(part, error))?;
            fs::write(part, text + "\n").map_err(|error| FileError::new(part, error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stay_until_their_run_is_made() {
        let folder = std::env::temp_dir().join(format!("weir-left-out-{}", std::process::id()));
        let reason = |run: &str, why: &str| (run.to_string(), why.to_string());
        assert_eq!(LeftOut::read(&folder).unwrap(), LeftOut::default());
        LeftOut::add(&folder, []).unwrap();
        assert!(!folder.exists(), "nothing to say");
        LeftOut::add(&folder, [reason("rho-0.8/cake", "no cake"), reason("rho-0.8/fq", "no fq")]).unwrap();
        LeftOut::add(&folder, [reason("rho-0.8/cake", "still no cake"), reason("rho-0.9/cake", "failed")]).unwrap();
        fs::create_dir_all(folder.join("rho-0.8/fq")).unwrap();
        fs::write(folder.join("rho-0.8/fq/manifest.json"), "{}").unwrap();
        let left = LeftOut::read(&folder).unwrap().reasons.into_iter().collect::<Vec<_>>();
        assert_eq!(left, [reason("rho-0.8/cake", "still no cake"), reason("rho-0.9/cake", "failed")]);
        fs::write(folder.join(LEFT_OUT), "[").unwrap();
        let said = LeftOut::read(&folder).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert!(said.starts_with(&folder.join(LEFT_OUT).display().to_string()), "{said}");
    }
}
