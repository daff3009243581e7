//! Lines whose rate changes or must be found, in virtual time: the files that such runs leave next to their records.

use std::fs;

use record::Run;

use crate::bench::stderr;
use crate::virtual_time::{VirtualBench, has_weir};

/// A line of 4 Mbit/s that is configured too high, behind a router.
const LINE: &str = r#"question = "what is left of a line"
link = "4mbit"
rho = 1.3
seconds = 4
network = "router"
gso_max_segs = 1
congestion_control = "cubic"
grace = "1s"
[[client]]
name = "far"
rtt = "30ms"
"#;

const SLOWER: &str = r#"[[rate_change]]
at = "1s"
to = "2mbit"
over = "2s"
[[run]]
name = "both"
server = "weir"
policy = "srpt"
shaping = "paced"
told = "3mbit"
"#;

fn run(name: &str, more: &str) -> Option<(VirtualBench, Run)> {
    let bench = VirtualBench::new(name, &format!("{LINE}{more}"))?;
    if !has_weir() {
        return None;
    }
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let folder = fs::read_dir(bench.bench.out()).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap();
    let run = Run::read(&folder.path()).unwrap();
    Some((bench, run))
}

/// A distant client by netem: a handshake and a request take two round trips, and lost packets are retransmitted.
const FAR: &str = r#"question = "who is far away"
link = "10mbit"
rho = 0.3
seconds = 3
[[client]]
name = "near"
share = 2
[[client]]
name = "far"
rtt = "60ms"
loss = 0.02
[[run]]
name = "only"
server = "nginx"
"#;

#[test]
fn far_clients_wait_longer_and_the_manifest_says_why() {
    let Some(bench) = VirtualBench::new("far", FAR) else { return };
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let run = Run::read(&bench.bench.out().join("only")).unwrap();
    let said = &run.manifest.environment;
    assert_eq!(said["wan_paths"], "far=198.18.24.0/21,rtt=60ms,jitter=0s,shape=normal,loss=0.02,ways=both");
    assert!(said["wan_counted"].contains("delay 30ms loss 2%"), "{}", said["wan_counted"]);
    let of_group = |group| run.records.iter().filter(move |record| record.group == group);
    let least = |group| of_group(group).map(|record| record.response_time()).min().unwrap();
    assert!(of_group(0).count() > of_group(1).count() && least(1) >= units::Nanos::from_millis(120));
    assert!(least(0) < units::Nanos::from_millis(60), "{:?}", least(0));
    bench.assert_nothing_left();
}

#[test]
fn the_rates_of_a_line_that_changes_are_kept() {
    let Some((bench, run)) = run("slower", SLOWER) else { return };
    assert_eq!(run.manifest.environment["told"], "3mbit");
    let out = bench.bench.out().join("both");
    let rates = fs::read_to_string(out.join("line.csv")).unwrap();
    assert_eq!(rates.lines().count(), 2 + 4, "the link's, and one every 500 ms for 2 s: {rates}");
    bench.assert_nothing_left();
}
