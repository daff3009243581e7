//! A second server on the same line: `[twin]`, just as each run's own, on a host of its own behind the same router, and asked by a load
//! of its own. What became of it stands in the run's manifest, and its records beside the run's.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use record::{Manifest, Run, Samples};
use serde::Deserialize;
use stats::{mean, nearest_rank, within_percentiles};

use crate::experiment::rho;
use crate::namespace::Place;
use crate::program::Program;
use crate::server::{Endpoint, SERVER_LOG, server_command, start_server};
use crate::view::TWIN_LOG_COLUMN;
use crate::{Experiment, Interrupt, LabError, Link, Load, Network, Plan, RunSpec, Told, machine, said};

/// Its folder while it runs, and what the names of its files and figures begin with.
const NAME: &str = "twin";
/// What is kept of it, from its folder.
const FILES: [&str; 4] = ["records.parquet", "manifest.json", "load.log", SERVER_LOG];

/// What `[twin]` says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwinSpec {
    /// Of its load, which is otherwise that of the run.
    #[serde(deserialize_with = "rho")]
    rho: Option<f64>,
    /// Of its load; unset is one more than the run's.
    seed: Option<u64>,
    /// What it is told of the uplink, if it is Weir; unset is what the run's own server is told.
    told: Option<Told>,
}

impl TwinSpec {
    /// Its load beside this one.
    pub fn load(&self, load: &Load) -> Load {
        Load { rho: self.rho, seed: self.seed.unwrap_or(load.seed.wrapping_add(1)), ..load.clone() }
    }
}

/// What is wrong with the twin of an experiment.
pub(crate) fn check(experiment: &Experiment) -> Result<(), String> {
    if experiment.twin.is_none() {
        return Ok(());
    }
    if experiment.network != Network::Router {
        return Err("a twin is behind a router: write network = \"router\"".into());
    }
    if experiment.load.rho.is_none() || !experiment.load.class.is_empty() {
        return Err("a twin has its own rho: write rho = 0.4 for the run's own load too, and no other load".into());
    }
    if experiment.limits.concern_kernel() || experiment.runs().any(|run| run.cold_reads_per_s.is_some()) {
        return Err(
            "a twin has neither limits of the kernel nor a slow disk: leave limits and cold_reads_per_s out".into()
        );
    }
    if experiment.runs().any(|run| run.upstream.is_some()) {
        return Err("a twin has no upstream: leave upstream out".into());
    }
    Ok(())
}

/// The second server of a run, and its load once that has begun.
pub(crate) struct Twin {
    server: Program,
    load: Option<Program>,
    address: SocketAddr,
    folder: PathBuf,
}

impl Twin {
    /// Starts the server, if the experiment has a twin.
    pub(crate) fn start(
        plan: &Plan<'_>,
        spec: &RunSpec,
        link: Option<&Link>,
        (site, folder, port): (&Path, &Path, u16),
        interrupt: &Interrupt,
    ) -> Result<Option<Twin>, LabError> {
        let (Some(wanted), Some((place, ip, link))) =
            (&plan.experiment.twin, link.and_then(|link| Some((link.twin()?, link.twin_address(), link))))
        else {
            return Ok(None);
        };
        let folder = folder.join(NAME);
        fs::create_dir(&folder).map_err(|e| LabError::path(&folder, e))?;
        let spec = RunSpec { told: wanted.told.clone().or(spec.told.clone()), ..spec.clone() };
        let address = SocketAddr::new(ip.into(), port);
        let weir = plan.programs.weir.as_deref();
        let command = server_command(plan.experiment, &spec, address, site, &folder, weir)?;
        let endpoint = Endpoint { server: place, client: link.client(), address };
        let probe = format!("/{}.bin", plan.sizes.first().copied().unwrap_or(0));
        let server = start_server(endpoint, &spec, &command, &folder, &probe, interrupt)?;
        Ok(Some(Twin { server, load: None, address, folder }))
    }

    /// What its load is, and where it goes: an experiment, the server's address, a folder.
    pub(crate) fn load_of(&self, experiment: &Experiment) -> (Experiment, SocketAddr, PathBuf) {
        let mut of_twin = experiment.clone();
        if let Some(twin) = &experiment.twin {
            of_twin.load = twin.load(&experiment.load);
        }
        (of_twin, self.address, self.folder.clone())
    }

    /// Starts the load, given by its command.
    pub(crate) fn begin(&mut self, client: Place<'_>, command: &[String]) -> Result<(), LabError> {
        let words = [machine::punctual_prefix().as_slice(), command].concat();
        self.load = Some(Program::start(client, "weirlab load of the twin", &words, &self.folder.join("load.log"))?);
        Ok(())
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(SERVER_LOG)
    }

    pub(crate) fn check_running(&mut self) -> Result<(), LabError> {
        self.server.check_running()
    }

    /// Whether its load has ended.
    pub(crate) fn poll(&mut self) -> Result<bool, LabError> {
        self.load.as_mut().map_or(Ok(true), Program::poll_success)
    }
}

/// Moves what is to be kept of a twin beside the run's own files, `twin-records.parquet` and so on, and gives what its manifest has to
/// say of it.
pub(crate) fn complete(folder: &Path, own: &Run, samples: &Samples) -> Result<BTreeMap<String, String>, LabError> {
    let of_twin = folder.join(NAME);
    if !of_twin.is_dir() {
        return Ok(BTreeMap::new());
    }
    let run = Run::read(&of_twin)
        .map_err(|e| LabError::Output { what: "what the twin's load recorded".into(), reason: e.to_string() })?;
    for name in FILES.iter().filter(|name| of_twin.join(name).exists()) {
        let to = folder.join(format!("{NAME}-{name}"));
        fs::rename(of_twin.join(name), &to).map_err(|e| LabError::path(&to, e))?;
    }
    fs::remove_dir_all(&of_twin).map_err(|e| LabError::path(&of_twin, e))?;
    said::write(folder, &format!("{NAME}-"), &samples.series(TWIN_LOG_COLUMN))?;
    Ok(figures(&run, own))
}

/// Of its response times, ms, and its part of the bodies that arrived while both were asked.
fn figures(twin: &Run, own: &Run) -> BTreeMap<String, String> {
    let millis: Vec<f64> =
        twin.records.iter().map(|record| record.end_ns.saturating_sub(record.arrival_ns) as f64 / 1e6).collect();
    let sizes: Vec<u64> = twin.records.iter().map(|record| record.size_bytes).collect();
    let is_small = within_percentiles(&sizes, 0.0, 50.0);
    let mut small: Vec<f64> = millis.iter().zip(is_small).filter(|(_, small)| *small).map(|(ms, _)| *ms).collect();
    small.sort_by(f64::total_cmp);
    let (mine, others) = (bodies(twin), bodies(own));
    let figures = [
        ("mean_ms", mean(&millis)),
        ("small_p50_ms", nearest_rank(&small, 500)),
        ("small_p95_ms", nearest_rank(&small, 950)),
        ("share", (mine + others > 0).then(|| mine as f64 / (mine + others) as f64)),
        ("bytes", Some(mine as f64)),
    ];
    let named = |(name, figure): (&str, Option<f64>)| Some((format!("neighbour_{NAME}_{name}"), figure?.to_string()));
    figures.into_iter().filter_map(named).collect()
}

/// Bytes of the bodies that were there when the last request had come.
fn bodies(run: &Run) -> u64 {
    let Manifest { seconds, .. } = run.manifest;
    let in_time = run.records.iter().filter(|record| record.end_ns as f64 <= seconds * 1e9);
    in_time.map(|record| record.body_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{JobRecord, Sample};

    fn parse(top: &str, twin: &str) -> Result<Experiment, String> {
        let text = format!(
            "question = \"\"\nlink = \"10mbit\"\nseconds = 1\n{top}\n[[run]]\nname = \"a\"\nserver = \"weir\"\n[twin]\n{twin}\n"
        );
        Experiment::parse(&text, Path::new("x.toml")).map_err(|e| e.to_string())
    }

    const ROUTER: &str = "rho = 0.5\nnetwork = \"router\"\nseed = 4";

    #[test]
    fn its_load_is_the_run_s_but_for_how_much_and_which() {
        let experiment = parse(ROUTER, "rho = 0.3").unwrap();
        let load = experiment.twin.as_ref().unwrap().load(&experiment.load);
        assert_eq!((load.rho, load.seed, load.seconds), (Some(0.3), 5, Some(1.0)));
        let experiment = parse(ROUTER, "rho = 0.3\nseed = 9\ntold = \"auto\"").unwrap();
        assert_eq!(experiment.twin.unwrap().load(&experiment.load).seed, 9);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (top, twin, says) in [
            ("rho = 0.5", "rho = 0.3", "a twin is behind a router: write network = \"router\""),
            (ROUTER, "", "missing field `rho`"),
            (ROUTER, "rho = 0", "`0` is not a load"),
            (ROUTER, "rho = 0.3\ntold = \"x\"", "told: `x`: expected auto, off, a rate or two rates"),
            (ROUTER, "rho = 0.3\nlink = 3", "unknown field `link`, expected one of `rho`, `seed`, `told`"),
            ("profile = \"W1\"\nnetwork = \"router\"", "rho = 0.3", "a twin has its own rho"),
            (&format!("{ROUTER}\nlimits = {{ mss = 536 }}"), "rho = 0.3", "a twin has neither limits"),
        ] {
            let said = parse(top, twin).unwrap_err();
            assert!(said.contains(says), "{twin}: {said}");
        }
    }

    fn run(jobs: &[(u64, u64)]) -> Run {
        let text = r#"{"name":"a","server":"weir","policy":"srpt","shaping":"paced","link_bps":1,"rho":0.8,"seed":1,
            "per_connection":1,"seconds":1.0,"commit":"","kernel":"","command":[],"server_cpu":null,"client_cpu":null,
            "lateness_ns_p99":null,"wire_bytes":null,"void":null,"environment":{}}"#;
        let record = |&(size_bytes, end_ms): &(u64, u64)| JobRecord::complete(0, size_bytes, 0, end_ms * 1_000_000);
        Run { manifest: serde_json::from_str(text).unwrap(), records: jobs.iter().map(record).collect(), pages: vec![] }
    }

    #[test]
    fn its_share_is_of_what_arrived_in_time() {
        let twin = run(&[(100, 10), (200, 30), (5_000, 1_001)]);
        let figures = figures(&twin, &run(&[(900, 1_000)]));
        let figure = |name: &str| figures[&format!("neighbour_twin_{name}")].parse::<f64>().unwrap();
        assert_eq!((figure("bytes"), figure("share")), (300.0, 0.25));
        assert_eq!((figure("mean_ms"), figure("small_p50_ms"), figure("small_p95_ms")), (347.0, 10.0, 10.0));
    }

    #[test]
    fn what_is_kept_of_it_lies_beside_the_run() {
        let folder = std::env::temp_dir().join(format!("weir-twin-{}", std::process::id()));
        let own = run(&[(900, 10)]);
        fs::create_dir_all(&folder).unwrap();
        let samples = Samples {
            columns: vec![TWIN_LOG_COLUMN.into()],
            rows: vec![Sample { at_ns: 300_000_000, values: vec![Some(100)] }],
        };
        assert!(complete(&folder, &own, &samples).unwrap().is_empty(), "there is none");
        run(&[(100, 10)]).write(&folder.join(NAME)).unwrap();
        fs::write(folder.join(NAME).join(SERVER_LOG), "weir: uplink: found 5mbit\n").unwrap();
        assert_eq!(complete(&folder, &own, &samples).unwrap()["neighbour_twin_share"], "0.1");
        for kept in ["twin-records.parquet", "twin-manifest.json", "twin-server.log", "twin-uplink.csv"] {
            assert!(folder.join(kept).is_file(), "{kept}");
        }
        assert!(!folder.join(NAME).exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
