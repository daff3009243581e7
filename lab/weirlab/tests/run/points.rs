//! Experiments with points, and experiments that continue after an interruption.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::bench::{Bench, has_site, may_test, send, stderr, wait_until};

const POINTS: &str = r#"question = "does the lab work"
link = "10mbit"
wire = false
seconds = 2
[vary]
rho = [0.3, 0.5]
[[run]]
name = "first"
server = "nginx"
[[run]]
name = "second"
server = "nginx"
"#;

fn json(stdout: &[u8]) -> Value {
    serde_json::from_slice(stdout).unwrap()
}

fn written(folder: &Path) -> SystemTime {
    fs::metadata(folder.join("manifest.json")).unwrap().modified().unwrap()
}

#[test]
fn points_are_not_done_again() {
    let Some(_alone) = may_test() else { return };
    let bench = Bench::new("points", POINTS);
    let output = bench.run(&["--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("4 runs to do\nrun 1 of 4: small rho-0.3 first\n"), "{}", stderr(&output));
    let summary = json(&output.stdout);
    assert_eq!(summary["experiment"], "small");
    for (point, rho) in summary["points"].as_array().unwrap().iter().zip([0.3, 0.5]) {
        assert_eq!((&point["point"], &point["values"]["rho"]), (&format!("rho-{rho}").into(), &rho.into()));
        assert_eq!((point["rho"].as_f64(), point["runs"].as_array().unwrap().len()), (Some(rho), 2));
        let runs = ["first", "second"].map(|run| bench.out().join(format!("rho-{rho}/{run}")));
        let [first, second] = runs.map(|run| record::Run::read(&run).unwrap());
        let asked = |run: &record::Run| -> Vec<(u64, u64)> {
            run.records.iter().map(|record| (record.arrival_ns, record.size_bytes)).collect()
        };
        assert_eq!(asked(&first), asked(&second), "the same jobs under all runs of a point");
    }
    assert!(bench.out().join("experiment.toml").is_file() && !has_site(&bench.out()));

    // One of the four is deleted: only that one is repeated.
    let (lost, kept) = (bench.out().join("rho-0.5/first"), bench.out().join("rho-0.3/first"));
    let before = written(&kept);
    fs::remove_file(lost.join("manifest.json")).unwrap();
    let output = bench.run(&["--json"]);
    let said = stderr(&output);
    assert!(said.contains("3 of 4 runs are finished and kept\n1 runs to do\n"), "{said}");
    assert!(lost.join("manifest.json").is_file() && written(&kept) == before);
    assert_eq!(json(&output.stdout)["points"].as_array().unwrap().len(), 2);

    let other = bench.run(&["--seed", "2"]);
    let want = "is of another experiment: it was made of other settings or other jobs; name another folder\n";
    assert!(!other.status.success() && stderr(&other).ends_with(want), "{}", stderr(&other));
}

#[test]
fn interrupted_it_goes_on_with_what_is_missing() {
    let Some(_alone) = may_test() else { return };
    let bench = Bench::new("go-on", POINTS);
    let program = Path::new(env!("CARGO_BIN_EXE_weirlab"));
    let child = bench.command(program, &["--points", "rho-0.3"]).spawn().unwrap();
    wait_until("the second run is under load", || bench.out().join("rho-0.3/second/load.log").exists());
    send("INT", &child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let output = bench.run(&["--points", "rho-0.3"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 of 2 runs are finished and kept"), "{}", stderr(&output));
}

#[test]
fn several_experiments_have_a_folder_each() {
    let Some(_alone) = may_test() else { return };
    let bench = Bench::new("several", POINTS);
    fs::write(bench.folder.join("other.toml"), POINTS.replace("[vary]\nrho = [0.3, 0.5]", "rho = 0.4")).unwrap();
    let output = bench.run(&["other.toml", "--seconds", "1", "--only", "first", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<Value> = output.stdout.split(|byte| *byte == b'\n').take(2).map(json).collect();
    assert_eq!((&lines[0]["experiment"], &lines[1]["experiment"]), (&"small".into(), &"other".into()));
    assert!(bench.out().join("small/rho-0.3/first/manifest.json").is_file());
    assert!(bench.out().join("other/first/manifest.json").is_file() && !has_site(&bench.out()));

    let output = bench.run(&["small.toml"]);
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(2), "weirlab: two experiments are named small: rename one\n")
    );
}
