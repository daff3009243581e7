//! Latency on the server's side, from its access log: 004 (section 2) uses only this, "to factor out extraneous load in
//! the network".
//!
//! It is measured from the last byte of the request to the last byte of the response in the kernel, without the queue
//! before `accept` and without the wire.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use record::{FileError, JobRecord, Run};
use stats::{SIZE_DECADES, size_decade, weighted_mean};

/// The server's access log in JSON, in the folder of a run.
const FILE: &str = "access.json";

/// Returns the path of the server's access log.
pub(crate) fn access_log(folder: &Path) -> std::io::Result<PathBuf> {
    Ok(folder.canonicalize()?.join(FILE))
}

/// The entries for the manifest: the mean of all responses, `server_latency_ms`, and of each of the server's classes,
/// with its name, all weighted by size class. Empty if the server kept no log.
pub(crate) fn described(folder: &Path) -> Result<BTreeMap<String, String>, FileError> {
    let log = folder.join(FILE);
    if !log.exists() {
        return Ok(BTreeMap::new());
    }
    Run::read_access_log(&log).map(|run| means(&run))
}

fn means(run: &Run) -> BTreeMap<String, String> {
    // A probe has no body.
    let whole: Vec<&JobRecord> = run.records.iter().filter(|job| job.is_complete() && job.size_bytes > 0).collect();
    let of = |name: String, group: Option<usize>| Some((name, format!("{:.4}", mean_ms(&whole, group)?)));
    let classes = run.manifest.clients.iter().enumerate();
    let classes = classes.filter_map(|(group, class)| of(format!("server_latency_ms_{class}"), Some(group)));
    of("server_latency_ms".into(), None).into_iter().chain(classes).collect()
}

/// Each size class is weighted by the number of all its responses, in whichever class of the server.
fn mean_ms(jobs: &[&JobRecord], group: Option<usize>) -> Option<f64> {
    let is_of = |job: &JobRecord| group.is_none_or(|group| job.group as usize == group);
    let class = |size: usize| {
        let all = jobs.iter().filter(|job| size_decade(job.size_bytes) == size);
        let times: Vec<f64> =
            all.clone().filter(|job| is_of(job)).map(|job| job.response_time().as_millis_f64()).collect();
        (all.count() as f64, stats::mean(&times))
    };
    weighted_mean((0..=SIZE_DECADES.len()).map(class))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Manifest;

    fn job(group: u32, size_bytes: u64, ms: u64) -> JobRecord {
        JobRecord { group, ..JobRecord::complete(0, size_bytes, 0, ms * 1_000_000) }
    }

    #[test]
    fn classes_are_weighed_alike_and_probes_are_none() {
        let manifest = Manifest { clients: vec!["A".into(), "B".into()], ..Manifest::new("a") };
        let records = vec![job(0, 0, 900), job(0, 500, 10), job(0, 500, 20), job(0, 5_000, 100), job(1, 5_000, 200)];
        let found = means(&Run { manifest, records, pages: vec![] });
        // Two small and two large in total; A's means are 15 and 100, B's only 200.
        let expected =
            [("server_latency_ms", "82.5000"), ("server_latency_ms_A", "57.5000"), ("server_latency_ms_B", "200.0000")];
        assert_eq!(found, expected.map(|(name, ms)| (name.to_string(), ms.to_string())).into());
        assert!(described(Path::new("/nonexistent")).unwrap().is_empty());
    }
}
