use std::fs;
use std::io;
use std::path::Path;

use crate::records::{self, RecordWriter};
use crate::{FileError, JobRecord, Manifest};

const MANIFEST: &str = "manifest.json";

/// A finished run: its manifest and its records in arrival order.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub manifest: Manifest,
    pub records: Vec<JobRecord>,
}

impl Run {
    /// Writes the records (`records.parquet` in a build that can, else `records.csv`), then `manifest.json`, into `folder`
    /// (made if missing): a run cut short has no manifest.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut writer = Run::create_records(folder)?;
        for record in &self.records {
            writer.write(record)?;
        }
        writer.finish()?;
        Run::write_manifest(folder, &self.manifest)
    }

    /// Begins a run's records in `folder` (made if missing), for a run too long to be kept in memory; its manifest is written
    /// last.
    pub fn create_records(folder: &Path) -> io::Result<RecordWriter> {
        fs::create_dir_all(folder)?;
        RecordWriter::create(&folder.join(records::USUAL))
    }

    /// Ends a run begun by [`Run::create_records`].
    pub fn write_manifest(folder: &Path, manifest: &Manifest) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(manifest).map_err(io::Error::other)?;
        text.push('\n');
        fs::write(folder.join(MANIFEST), text)
    }

    /// Whether records are in this folder, of a finished run or of one that was cut short.
    pub fn has_records(folder: &Path) -> bool {
        records::find(folder).is_file()
    }

    /// Whether a finished run is in this folder.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(MANIFEST).exists()
    }

    /// Reads what [`Run::write`] wrote, in whichever format.
    pub fn read(folder: &Path) -> Result<Run, FileError> {
        let path = folder.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|e| FileError::new(&path, e))?;
        let manifest = serde_json::from_str(&text).map_err(|e| FileError::new(&path, e))?;
        let mut records = records::read(&records::find(folder))?;
        records.sort_by_key(|record| record.job);
        Ok(Run { manifest, records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use std::collections::BTreeMap;

    fn run() -> Run {
        let manifest = Manifest {
            name: "weir-off".into(),
            server: "weir".into(),
            policy: "fair".into(),
            drain: "off".into(),
            link_bps: 10_000_000,
            rho: 0.8,
            seed: 1,
            per_connection: 1,
            seconds: 60.0,
            commit: "unknown".into(),
            kernel: "6.18".into(),
            command: vec!["weirlab".into()],
            server_cpu: Some(0.01),
            client_cpu: None,
            lateness_ns_p99: Some(1000),
            wire_bytes: None,
            void: None,
            baseline: None,
            environment: BTreeMap::from([("qdisc".into(), "htb".into())]),
        };
        let record = JobRecord {
            job: 0,
            size_bytes: 10,
            head_bytes: 200,
            arrival_ns: 5,
            start_ns: 6,
            first_byte_ns: None,
            end_ns: 105,
            body_bytes: 3,
            status: 200,
            outcome: Outcome::Incomplete,
        };
        Run { manifest, records: vec![record.clone(), JobRecord { job: 1, first_byte_ns: Some(7), ..record }] }
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let folder = std::env::temp_dir().join(format!("weir-record-{}", std::process::id()));
        run().write(&folder).unwrap();
        assert_eq!(Run::read(&folder).unwrap(), run());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// What older runs have, what scripts read, and what a build without Parquet writes.
    #[test]
    fn reads_text_as_well() {
        let folder = std::env::temp_dir().join(format!("weir-record-csv-{}", std::process::id()));
        run().write(&folder).unwrap();
        fs::remove_file(records::find(&folder)).unwrap();
        let mut writer = RecordWriter::create(&folder.join("records.csv")).unwrap();
        run().records.iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        assert!(fs::read_to_string(folder.join("records.csv")).unwrap().starts_with("job,size_bytes,head_bytes,"));
        assert_eq!(Run::read(&folder).unwrap(), run());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn says_which_file_is_missing() {
        let said = Run::read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(said.starts_with("/nonexistent/manifest.json: "), "{said}");
    }
}
