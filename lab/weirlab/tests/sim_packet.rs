//! `weirlab sim --model packet` as its users see it.

use std::process::{Command, Output};

use serde_json::Value;

fn sim(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weirlab"))
        .args(["sim", "--model", "packet"])
        .args(args.split_whitespace())
        .output()
        .unwrap()
}

fn json(args: &str) -> Value {
    let output = sim(&format!("{args} --json"));
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_flag_reaches_the_model() {
    let base = "--policy fair --dist exponential:mean=5000 --rho 0.5 --seconds 5";
    let plain = json(base);
    for flags in [
        "--shaping paced",
        "--bottleneck fifo:5",
        "--shaper wire",
        "--tcp 2003",
        "--initial-window 2 --rtt 50ms",
        "--mtu 536",
        "--gso-segments 2",
        "--rtt 10ms --jitter 5ms",
        "--loss 0.05",
        "--loss-back 0.05",
        "--wans 50ms/10ms/0.005,100ms/20ms/0.01",
        "--per-connection 5",
        "--workers 1",
        "--syn-queue 1 --initial-rto 500ms --rtt 20ms",
        "--abort-after 5ms --retries 2",
    ] {
        let mut found = json(&format!("{base} {flags}"));
        for key in ["spec", "cpu_seconds", "jobs_per_second", "peak_rss_bytes"] {
            found[key] = plain[key].clone();
        }
        assert_ne!(found, plain, "{flags}");
    }
}

#[test]
fn a_mistake_is_one_line_that_names_its_field() {
    let base = "--policy srpt --dist exponential:mean=5000 --rho 0.5 --seconds 1";
    for (flags, says) in [
        ("--drain paced", "`--drain` is gone: write --shaping"),
        ("--shaping full", "--shaping: unknown value `full`; expected one of off, paced, bands"),
        ("--shaping bands", "shaping `bands` needs a policy with bands"),
        ("--bottleneck fifo:x", "--bottleneck: `fifo:x`"),
        ("--bottleneck red", "--bottleneck: unknown value `red`; expected fifo"),
        ("--shaper tbf", "--shaper: unknown value `tbf`; expected wire"),
        ("--tcp vegas", "--tcp: unknown value `vegas`; expected one of linux, router, 2003"),
        ("--rtt 10", "--rtt: `10` is not a duration"),
        ("--loss -0.1", "loss of -0.1 is out of range"),
        ("--loss nan", "loss of NaN is out of range"),
        ("--wans 50ms/0.1", "--wans: `50ms/0.1` is no path"),
        ("--retries 2", "--retries: nobody tries again"),
        ("--mtu 60", "--mtu: 60 is out of range"),
        ("--per-connection 0", "per_connection of 0"),
        ("--chunk 1000", "--chunk: it belongs to --model queue"),
        ("--rho -1", "--rho:"),
    ] {
        let base = if flags.starts_with("--rho") { base.replace("--rho 0.5", "") } else { base.into() };
        let output = sim(&format!("{base} {flags}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{flags}: {said}");
        assert!(said.contains(says), "{flags}: {said}");
    }
    let output = sim("--policy srpt --dist exponential:mean=5000 --rho 0.5");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--seconds: arrivals have no end"));
}
