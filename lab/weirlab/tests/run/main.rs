//! `weirlab run` as a user calls it: mistakes are reported, a real run gives one object, and an interrupted one leaves
//! nothing.

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod lines;
mod points;
mod protocols;
mod trouble;
mod virtual_time;

use std::fs;
use std::path::Path;
use std::process::Command;

use bench::{Bench, has_site, is_root, may_test, namespaces_of, processes_in, send, stderr, wait_until};

pub(crate) const TWO_RUNS: &str = r#"question = "does the lab work"
link = "10mbit"
wire = false
rho = 0.5
seconds = 2
[[run]]
name = "first"
server = "nginx"
[[run]]
name = "second"
server = "nginx"
"#;

#[test]
fn mistakes_are_said_in_one_line() {
    let bench = Bench::new("mistakes", &TWO_RUNS.replace("rho", "rhoo"));
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("weirlab: small.toml:4: unknown field `rhoo`"), "{}", stderr(&output));

    let bench = Bench::new("only", TWO_RUNS);
    let output = bench.run(&["--only", "third"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "weirlab: there is no run `third`; the runs are first, second\n");

    let output = bench.run(&["--rho", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`0` is not a load"), "{}", stderr(&output));
    assert!(!bench.out().exists());
}

#[test]
fn without_root_it_says_to_use_sudo() {
    let bench = Bench::new("sudo", TWO_RUNS);
    let output = if is_root() {
        // As the user nobody; a copy, because nobody may not have access to the build folder.
        let copy = bench.folder.join("weirlab");
        fs::copy(env!("CARGO_BIN_EXE_weirlab"), &copy).unwrap();
        let mut command = bench.command(Path::new("setpriv"), &[]);
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups"]).arg(copy).args(args).current_dir(&bench.folder);
        command.output().unwrap()
    } else {
        bench.run(&[])
    };
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "weirlab: making network namespaces needs root: use sudo\n");
}

/// A qdisc that this kernel lacks, or, if it has all of them, an impossible tree: found before any run, or skipped.
#[test]
fn what_a_run_lacks_is_said_before_any_run_or_skipped() {
    let Some(_alone) = may_test() else { return };
    let lacking = "name = \"second\"\nserver = \"nginx\"\nqdisc = \"bands\"\nqdisc_flags = [\"--no-such-flag\"]";
    let bench = Bench::new("lacking", &TWO_RUNS.replace("name = \"second\"\nserver = \"nginx\"", lacking));
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.starts_with("weirlab: run `second`: qdisc `bands` cannot be had here: "), "{said}");
    assert!(
        said.ends_with("nothing was run, --skip-missing leaves such runs out\n") && !bench.out().exists(),
        "{said}"
    );

    let output = bench.run(&["--skip-missing", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((summary["runs"].as_array().unwrap().len(), &summary["runs"][0]["name"]), (1, &"first".into()));
    assert_eq!(summary["skipped"][0]["name"], "second");
    assert!(summary["skipped"][0]["reason"].as_str().unwrap().starts_with("qdisc `bands` cannot be had here: "));

    let kept = |name: &str| record::LeftOut::read(&bench.out()).unwrap().reasons.get(name).cloned();
    assert_eq!(kept("second").as_deref(), summary["skipped"][0]["reason"].as_str(), "a report can still say why");
    assert_eq!(kept("first"), None);

    let nope = TWO_RUNS.replace("seconds = 2", "seconds = 2\ncongestion_control = \"nope\"");
    let other = Bench::new("nope", &nope);
    let said = stderr(&other.run(&[]));
    assert!(said.contains("congestion control `nope` is not in this kernel") && !other.out().exists(), "{said}");

    let output = bench.run(&["--skip-missing", "--only", "second"]);
    assert!(stderr(&output).ends_with("weirlab: every run lacks something on this machine: nothing was run\n"));
}

#[test]
fn a_real_run_gives_one_object_and_leaves_only_results() {
    let Some(_alone) = may_test() else { return };
    let bench = Bench::new("real", TWO_RUNS);
    let child = bench.command(Path::new(env!("CARGO_BIN_EXE_weirlab")), &["--json", "--seed", "7"]).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["experiment"], "small");
    for (run, name) in summary["runs"].as_array().unwrap().iter().zip(["first", "second"]) {
        assert_eq!((run["name"].as_str(), run["server"].as_str()), (Some(name), Some("nginx")));
        assert_eq!((run["completed"].as_u64(), run["incomplete"].as_u64()), (summary["jobs"].as_u64(), Some(0)));
        let manifest = record::Run::read(&bench.out().join(name)).unwrap().manifest;
        assert_eq!((manifest.seed, manifest.seconds), (7, 2.0));
        // The bodies and their headers passed the bottleneck.
        assert!(manifest.wire_bytes > run["bytes"].as_u64(), "{manifest:?}");
        assert_eq!(manifest.environment["tcp_congestion_control"], "cubic");
        assert!(manifest.environment["qdisc"].contains("pfifo") && manifest.server_cpu.is_some());
    }
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
    assert_eq!(processes_in(&bench.out()), Vec::<String>::new());
    assert!(!has_site(&bench.out()));
}

#[test]
fn interrupted_it_keeps_what_is_finished_and_leaves_nothing_else() {
    let Some(_alone) = may_test() else { return };
    for signal in ["INT", "TERM"] {
        let bench = Bench::new(signal, TWO_RUNS);
        let child = bench.command(Path::new(env!("CARGO_BIN_EXE_weirlab")), &[]).spawn().unwrap();
        let pid = child.id();
        wait_until("the second run is under load", || bench.out().join("second/load.log").exists());
        // Server and client.
        assert_eq!(namespaces_of(pid).len(), 2);
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains("weirlab: run `second`: interrupted; finished before it"),
            "{}",
            stderr(&output)
        );
        assert!(record::Run::read(&bench.out().join("first")).is_ok());
        assert_eq!(namespaces_of(pid), Vec::<String>::new());
        assert_eq!(processes_in(&bench.out()), Vec::<String>::new());
        assert!(!has_site(&bench.out()));
    }
}

#[test]
fn what_a_killed_experiment_left_is_removed_by_the_next() {
    let Some(_alone) = may_test() else { return };
    let bench = Bench::new("killed", TWO_RUNS);
    let mut child = bench.command(Path::new(env!("CARGO_BIN_EXE_weirlab")), &[]).spawn().unwrap();
    let pid = child.id();
    wait_until("the first run is under load", || bench.out().join("first/load.log").exists());
    send("KILL", &child);
    child.wait().unwrap();
    wait_until("the kernel has ended its programs", || processes_in(&bench.out()).is_empty());
    // Server and client.
    assert_eq!(namespaces_of(pid).len(), 2);
    let next = Bench::new("next", TWO_RUNS);
    assert!(next.run(&["--seconds", "1", "--only", "first"]).status.success());
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
}
