//! `weirlab sweep` as a person calls it: mistakes are said before anything runs, what was finished is not done again
//! however the sweep ended, and the same file gives the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SMALL: &str = r#"question = "which"
model = "queue"
replications = 3
[fixed]
link = "10mbit"
jobs = 2000
dist = "exponential:mean=5000"
[grid]
policy = ["ps", "srpt"]
rho = [0.5, 0.8]
"#;

/// Longest a step of these tests may take before it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(60);

/// A folder of a test's own with an experiment in it; removed at its end.
struct Bench {
    folder: PathBuf,
}

impl Bench {
    fn new(name: &str, experiment: &str) -> Bench {
        let folder = std::env::temp_dir().join(format!("weirlab-sweep-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("small.toml"), experiment).unwrap();
        Bench { folder }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weirlab"));
        command.current_dir(&self.folder).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn sweep(&self, out: &str) -> Output {
        self.command(&["sweep", "small.toml", "--json", "--out", out]).output().unwrap()
    }

    /// Sweeps, and gives how many runs there are and how many of them were there already.
    fn runs_and_found(&self, out: &str) -> (u64, u64) {
        let output = self.sweep(out);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (json["runs"].as_u64().unwrap(), json["runs_found"].as_u64().unwrap())
    }

    fn kept(&self, out: &str) -> u64 {
        let runs = fs::read_dir(self.folder.join(out).join("runs")).into_iter().flatten().flatten();
        runs.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json")).count() as u64
    }

    /// Starts a sweep and waits until it has kept some runs.
    fn start(&self, out: &str, kept: u64) -> Child {
        let child = self.command(&["sweep", "small.toml", "--jobs-parallel", "2", "--out", out]).spawn().unwrap();
        let started = Instant::now();
        while self.kept(out) < kept {
            assert!(started.elapsed() < HUNG_AFTER, "nothing is kept");
            std::thread::sleep(Duration::from_millis(2));
        }
        child
    }

    /// The results, all but the manifest, which holds the command.
    fn results(&self, out: &str) -> Vec<(String, Vec<u8>)> {
        let out = self.folder.join(out);
        let mut files: Vec<PathBuf> =
            ["runs.parquet", "sizes.parquet", "cells.csv", "table.md"].map(|name| out.join(name)).to_vec();
        files.sort();
        let name = |path: &Path| path.strip_prefix(&out).unwrap().display().to_string();
        files.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn same(one: &[(String, Vec<u8>)], two: &[(String, Vec<u8>)]) {
    assert_eq!(one.len(), two.len());
    for ((name, bytes), (other, other_bytes)) in one.iter().zip(two) {
        assert!(name == other && bytes == other_bytes, "{name} differs from {other}");
    }
}

#[test]
fn the_same_file_gives_the_same_bytes() {
    let bench = Bench::new("same", SMALL);
    assert_eq!(bench.runs_and_found("one"), (12, 0));
    assert_eq!(bench.runs_and_found("two"), (12, 0));
    same(&bench.results("one"), &bench.results("two"));
    let before = bench.results("one");
    assert_eq!(bench.runs_and_found("one"), (12, 12), "nothing is done again");
    same(&before, &bench.results("one"));
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.folder.join("one/sweep.json")).unwrap()).unwrap();
    assert_eq!((&manifest["seeds"], &manifest["runs"]), (&serde_json::json!([1, 2, 3]), &12.into()));
}

#[test]
fn a_changed_file_does_what_is_new() {
    let bench = Bench::new("changed", SMALL);
    assert_eq!(bench.runs_and_found("out"), (12, 0));
    fs::write(bench.folder.join("small.toml"), SMALL.replace("[0.5, 0.8]", "[0.5, 0.8, 0.9]")).unwrap();
    assert_eq!(bench.runs_and_found("out"), (18, 12));
    fs::write(bench.folder.join("small.toml"), SMALL.replace("2000", "2001")).unwrap();
    assert_eq!(bench.runs_and_found("out"), (12, 0));
}

#[test]
fn a_trace_that_changed_is_another_workload() {
    let bench = Bench::new("trace", &SMALL.replace("dist = \"exponential:mean=5000\"", "trace = \"t.csv\""));
    let trace = |size: u64| {
        let lines = (0..50).map(|n| format!("{}.0,{},200\n", n, size + n % 7)).collect::<String>();
        fs::write(bench.folder.join("t.csv"), format!("epoch_s,size_bytes,status\n{lines}")).unwrap();
    };
    fs::write(
        bench.folder.join("small.toml"),
        SMALL.replace("jobs = 2000\ndist = \"exponential:mean=5000\"", "trace = \"t.csv\""),
    )
    .unwrap();
    trace(1000);
    assert_eq!(bench.runs_and_found("out"), (12, 0));
    assert_eq!(bench.runs_and_found("out"), (12, 12));
    trace(1001);
    assert_eq!(bench.runs_and_found("out"), (12, 0));
}

/// Large enough to be caught in the middle.
fn large() -> String {
    SMALL.replace("replications = 3", "replications = 20").replace("jobs = 2000", "jobs = 20000")
}

#[test]
fn a_killed_sweep_goes_on_where_it_was() {
    let bench = Bench::new("kill", &large());
    let mut child = bench.start("cut", 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = bench.kept("cut");
    assert!((3..80).contains(&kept), "{kept} runs were kept");
    assert_eq!(bench.runs_and_found("cut"), (80, kept));
    assert_eq!(bench.runs_and_found("whole"), (80, 0));
    same(&bench.results("cut"), &bench.results("whole"));
}

#[test]
fn ctrl_c_stops_and_says_how_far_it_came() {
    let bench = Bench::new("interrupt", &large());
    let child = bench.start("out", 3);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("weirlab: interrupted: ") && said.contains(" of 80 runs are kept"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let kept = bench.kept("out");
    assert_eq!(bench.runs_and_found("out"), (80, kept));
}

#[test]
fn every_mistake_is_said_before_anything_runs() {
    let bench = Bench::new("mistakes", SMALL);
    fs::write(bench.folder.join("empty.csv"), "epoch_s,size_bytes,status\n").unwrap();
    let dist = "exponential:mean=5000";
    let no_jobs = "jobs = 2000\ndist = \"exponential:mean=5000\"";
    for (from, to, said) in [
        ("[0.5, 0.8]", "[0.5, 1.2]", "rho: no policy has a steady state"),
        ("[0.5, 0.8]", "[0.5, -1]", "rho: "),
        ("[0.5, 0.8]", "[0.5, nan]", "grid.rho: `NaN` is not a finite number"),
        ("\"srpt\"", "\"sprt\"", "policy: unknown policy `sprt`"),
        (dist, "exponential:mean=nan", "dist: mean is `nan`"),
        (dist, "exponential:mean=-5", "dist: mean is -5"),
        (dist, "bounded-pareto:alpha=1.1,min=100,max=inf", "dist: max is missing or infinite"),
        (no_jobs, "trace = \"none.csv\"", "trace: none.csv is not there: name the file with --trace"),
        (no_jobs, "trace = \"empty.csv\"", "trace: empty.csv: "),
        (dist, "trace:empty.csv", "dist: empty.csv: "),
        ("jobs = 2000", "jobbs = 2000", "jobbs: unknown field `jobbs`"),
        ("jobs = 2000", "jobs = \"many\"", "jobs: invalid type"),
        ("replications = 3", "replications = 10000\nseed = 1", "grid: 2 policy x 2 rho x 10000"),
        ("replications", "replicatons", "unknown field `replicatons`"),
        ("\"queue\"", "\"fluid\"", "model: unknown variant `fluid`"),
    ] {
        let text = SMALL.replacen(from, to, 1);
        // Ten thousand replications of two loads are too few to be too many.
        let text = if to.contains("10000") { text.replace("[0.5, 0.8]", "[0.5, 0.6, 0.8]") } else { text };
        let said = said.replace("2 rho", "3 rho");
        fs::write(bench.folder.join("small.toml"), text).unwrap();
        let output = bench.sweep("out");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{to}: {text}");
        assert!(text.starts_with("weirlab: small.toml:") && text.contains(&said), "{to}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!bench.folder.join("out").exists(), "{to}: nothing may be made");
    }
}

#[test]
fn the_other_command_is_named() {
    let bench = Bench::new("other", SMALL);
    fs::write(bench.folder.join("lab.toml"), "question = \"x\"\n[[run]]\nname = \"a\"\n").unwrap();
    for (args, said) in [
        (&["run", "small.toml"][..], "small.toml:1: it has a [grid]: that is an experiment for weirlab sweep"),
        (&["sweep", "lab.toml"], "lab.toml: it has [[run]] and no [grid]: that is an experiment for weirlab run"),
    ] {
        let output = bench.command(args).output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("weirlab: {said}\n"));
        assert_eq!(output.status.code(), Some(1));
    }
    let usage = bench.command(&["sweep", "small.toml", "--jobs-parallel", "0"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn a_misspelt_picture_is_said_before_anything_runs() {
    let bench = Bench::new("misspelt", &format!("{SMALL}[plot]\ny = [\"respnse_time_ms\"]\n"));
    let output = bench.sweep("out");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("small.toml: plot.y: it has no `respnse_time_ms`, only ") && said.lines().count() == 1,
        "{said}"
    );
    assert!(!output.status.success() && !bench.folder.join("out").exists(), "nothing is written");
}

#[test]
fn fewer_replications_are_some_of_the_same() {
    let bench = Bench::new("fewer", SMALL);
    let args = ["sweep", "small.toml", "--json", "--out", "out", "--replications", "2"];
    assert!(bench.command(&args).output().unwrap().status.success());
    assert_eq!(bench.kept("out"), 8);
    assert_eq!(bench.runs_and_found("out"), (12, 8));
}
