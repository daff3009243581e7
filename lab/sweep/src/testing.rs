//! What the tests of this crate share: a folder of their own, and a simulator that is a formula.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::{Fields, Measured, Model, Plan};

/// Removed at the end of the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weir-sweep-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// M/M/1: 1 / (1 - rho) ms, halved under srpt, and a little of the seed. Counts how often it ran.
#[derive(Default)]
pub struct Formula {
    pub ran: AtomicUsize,
}

impl Model for Formula {
    fn version(&self) -> String {
        "1".into()
    }

    fn check(&self, fields: &Fields) -> Result<(), String> {
        let rho = fields["rho"].as_f64().unwrap_or(1.0);
        if rho < 1.0 { Ok(()) } else { Err(format!("rho: `{rho}` is no load")) }
    }

    fn trial(&self, fields: &Fields) -> Result<Measured, String> {
        outcome(fields, 1)
    }

    fn files(&self, _: &Fields) -> Vec<PathBuf> {
        Vec::new()
    }

    fn run(&self, fields: &Fields, seed: u64) -> Result<Measured, String> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        outcome(fields, seed)
    }
}

fn outcome(fields: &Fields, seed: u64) -> Result<Measured, String> {
    let rho = fields["rho"].as_f64().unwrap();
    let sooner = if fields["policy"] == "srpt" { 0.5 } else { 1.0 };
    let mean = sooner / (1.0 - rho) + seed as f64 / 100.0;
    let bin = |power: i32| {
        let from_bytes = 10f64.powi(power);
        json!({ "from_bytes": from_bytes as u64, "jobs": 1000 >> power, "size_bytes_mean": from_bytes * 1.1,
                "response_time_ms_mean": mean * from_bytes.sqrt() / 10.0, "response_time_variance_ms2": mean * mean,
                "slowdown_mean": mean })
    };
    let outcome = json!({ "response_time_ms": { "mean": mean, "variance": mean * mean }, "slowdown_mean": mean,
            "by_size": (1..=5).map(bin).collect::<Vec<_>>() });
    Measured::from_json(&outcome).map_err(|e| e.to_string())
}

/// Two policies at three loads with four seeds: 24 runs.
pub fn plan() -> Plan {
    let text = "question = \"which\"\nmodel = \"queue\"\nreplications = 4\n[grid]\npolicy = [\"ps\", \"srpt\"]\n\
                rho = [0.5, 0.8, 0.9]\n";
    Plan::parse(text, Path::new("small.toml")).unwrap()
}
