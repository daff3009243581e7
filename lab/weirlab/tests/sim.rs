//! `weirlab sim` as its users see it: the program, its JSON, its exit statuses.

mod common;

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use common::{Folder, text};

fn sim(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weirlab")).arg("sim").args(args.split_whitespace()).output().unwrap()
}

fn json(args: &str) -> Value {
    let output = sim(&format!("{args} --json"));
    assert!(output.status.success(), "{args}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path} in {value}"))
}

const MM1: &str = "--model queue --rho 0.8 --dist exponential:mean=5000 --link 10mbit --jobs 100000 --seed 1";

#[test]
fn json_says_what_was_asked_for() {
    let found = json(&format!("{MM1} --policy srpt"));
    assert_eq!(found["jobs"], 100_000);
    let mean = number(&found, "/response_time_ms/mean");
    // M/M/1 under SRPT at this load: 9.41 ms, against 20 ms first come first served.
    assert!((8.5..10.5).contains(&mean), "{mean}");
    let [p50, p99, max] = ["p50", "p99", "max"].map(|name| number(&found, &format!("/response_time_ms/{name}")));
    assert!(p50 < p99 && p99 < max);
    for path in ["/slowdown_mean", "/jobs_per_second", "/peak_rss_bytes", "/jobs_in_system/mean", "/cpu_seconds"] {
        assert!(number(&found, path) > 0.0, "{path}");
    }
    assert_eq!(found["service"], "fluid");
}

#[test]
fn the_same_seed_says_the_same() {
    let of = |seed| {
        let mut found = json(&format!("--policy ps --rho 0.5 --dist exponential:mean=5000 --jobs 5000 --seed {seed}"));
        for measured in ["jobs_per_second", "cpu_seconds", "peak_rss_bytes"] {
            found.as_object_mut().unwrap().remove(measured).unwrap();
        }
        found
    };
    assert_eq!(of(3), of(3));
    assert_ne!(of(3)["response_time_ms"], of(4)["response_time_ms"]);
}

#[test]
fn the_shipped_trace_replays_to_its_end() {
    let found = json("--policy srpt --trace synthetic --rho 0.8");
    assert_eq!((found["jobs"].as_u64(), found["incomplete"].as_u64()), (Some(30_000), Some(0)));
    let on_the_wire = json("--policy srpt --trace synthetic --rho 0.8 --wire tcp");
    assert!((number(&on_the_wire, "/rho_offered") - 0.8).abs() < 0.01, "{}", on_the_wire["rho_offered"]);
    assert_eq!(json("--policy srpt --trace synthetic --rho 1.4 --jobs 1000")["jobs"], 1000);
}

#[test]
fn lines_of_a_trace_that_cannot_be_read_are_told() {
    let folder = Folder::new("bad");
    let [bad, empty] = [("bad.csv", "1,5\nx,6\n2,7\n"), ("empty.csv", "1,5,404\n2,0,200\n")].map(|(name, lines)| {
        fs::write(folder.file(name), lines).unwrap();
        folder.file(name)
    });
    let output = sim(&format!("--policy srpt --rho 0.5 --trace {bad}"));
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("1 bad line, first line 2: the time is not"), "{said}");
    let why = "none of its 2 requests has a body and status 200";
    refused(&format!("--policy srpt --rho 0.5 --trace {empty}"), 1, why);
}

/// 004: of a link that is always full A has 15 of 18 parts if B has three slots, and sleeping clients do not interfere.
#[test]
fn webstones_clients_have_slots() {
    let common = "--policy ps --webstone WA --class A:15 --class B:15 --jobs 20000";
    let (free, slots) = (json(common), json(&format!("{common} --slots A:15,B:3 --sharing own")));
    let faster = number(&free, "/A/latency_weighted_ms") / number(&slots, "/A/latency_weighted_ms");
    assert!((faster / (30.0 / 18.0) - 1.0).abs() < 0.05, "A is {faster} times as fast");
    let all = ["/per_s", "/A/per_s", "/B/per_s"].map(|path| number(&slots, path));
    assert!(
        (all[0] - all[1] - all[2]).abs() < 1e-6 && (all[0] / number(&free, "/per_s") - 1.0).abs() < 0.02,
        "{all:?}"
    );
    assert_eq!(json(&format!("{common} --slots A:15,B:3 --sharing none"))["A"], free["A"]);
}

#[test]
fn a_profile_alternates_and_a_horizon_cuts() {
    let found = json("--policy srpt --profile W1 --dist exponential:mean=5000 --seconds 500");
    assert!((number(&found, "/rho_offered") - 0.7).abs() < 0.03, "{}", found["rho_offered"]);
    assert_eq!(number(&found, "/simulated_s"), 500.0);
    let over = json("--policy fcfs --rho 1.5 --dist exponential:mean=5000 --seconds 100");
    assert!(number(&over, "/incomplete") > 1000.0);
}

#[test]
fn the_load_is_that_of_whole_bytes() {
    for (dist, wire) in
        [("exponential:mean=1", "plain"), ("exponential:mean=1", "tcp"), ("lognormal:mu=0,sigma=1", "plain")]
    {
        let args = format!("--policy fcfs --rho 0.8 --dist {dist} --wire {wire} --jobs 100000");
        let offered = number(&json(&args), "/rho_offered");
        assert!((offered / 0.8 - 1.0).abs() < 0.015, "{args}: {offered}");
        let said = text(&sim(&args).stderr);
        assert!(said.contains("sizes are whole bytes, at least 1: those drawn have a mean of "), "{args}: {said}");
    }
    assert!(
        text(&sim(MM1).stderr).is_empty() || !text(&sim(&format!("{MM1} --policy ps")).stderr).contains("whole bytes")
    );
}

#[test]
fn a_run_without_jobs_is_no_result() {
    for args in [
        "--policy srpt --rho 0.5 --dist exponential:mean=5000 --seconds 0.000001",
        "--policy srpt --rho 0.5 --dist exponential:mean=5000 --seconds 1 --warm-up 100000",
        "--policy srpt --trace synthetic --rho 0.5 --warm-up 30000",
        "--model packet --policy fair --rho 0.5 --dist exponential:mean=5000 --seconds 0.000001",
    ] {
        let output = sim(args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{args}: {said}");
        assert!(said.starts_with("weirlab: no job was counted (") && said.trim_end().lines().count() == 1, "{said}");
    }
}

#[test]
fn mistakes_are_one_line_that_names_the_field() {
    let fine = "--policy srpt --dist exponential:mean=5000";
    for (args, status, said) in [
        (format!("{fine} --rho 1.2"), 2, "--rho: no policy has a steady state at a load of 1.2"),
        (format!("{fine} --rho nan"), 2, "--rho: a load of NaN"),
        (format!("{fine} --rho -0.5"), 2, "--rho: a load of -0.5"),
        (fine.into(), 2, "--rho: write the load"),
        (format!("{fine} --rho 0.5 --jobs 0"), 2, "--jobs: "),
        (format!("{fine} --rho 0.5 --seconds -1"), 2, "--seconds: "),
        (format!("{fine} --rho 0.5 --seconds 1 --jobs 1"), 2, "--seconds: "),
        (format!("{fine} --rho 0.5 --chunk 0"), 2, "--chunk: "),
        (format!("{fine} --rho 0.5 --link 10"), 2, "--link: "),
        (format!("{fine} --rho 0.5 --classes 1,2"), 2, "--classes: "),
        (format!("{fine} --profile W11"), 2, "--profile: "),
        ("--model server --policy srpt --link 10mbit".into(), 2, "--link: it belongs to --model queue or packet"),
        ("--model server --policy srpt --wire tcp".into(), 2, "--wire: it belongs to --model queue or packet"),
        ("--policy srpt --rho 0.5".into(), 2, "--dist: "),
        ("--policy srpt --rho 0.5 --dist exponential:mean=-1".into(), 2, "--dist: "),
        ("--policy srpt --rho 0.5 --dist bounded-pareto:alpha=0.9,min=1,max=inf".into(), 2, "--dist: "),
        ("--policy sprt --rho 0.5 --dist exponential:mean=5000".into(), 2, "--policy: unknown policy `sprt`"),
        ("--policy srpt --rho 0.5 --trace /nonexistent.csv".into(), 1, "/nonexistent.csv: "),
        ("--policy srpt --rho 0.5 --dist trace:/nonexistent.csv".into(), 1, "/nonexistent.csv: "),
    ] {
        refused(&args, status, said);
    }
}

#[test]
fn mistakes_about_clients_name_the_field() {
    for (args, status, said) in [
        ("--policy ps --webstone WA", 2, "--webstone: nobody asks: write --class A:15"),
        ("--policy ps --webstone WC --class A:1", 2, "--webstone: `WC` is no workload of WebStone"),
        ("--policy ps --webstone WA --class A:1 --slots B:1", 2, "--slots: `B:1` does not say the slots of each class"),
        ("--policy ps --webstone WA --class A:1 --slots A:1 --sharing all", 2, "--sharing: `all` is no way to share"),
        ("--policy ps --webstone WA --class A:1 --buffer 8KB", 2, "--buffer: there are no slots"),
        ("--policy srpt --model server --webstone WA --class A:1", 2, "--webstone: it belongs to --model queue"),
        ("--model packet --policy srpt --slots 9", 2, "--slots: it belongs to --model queue"),
    ] {
        refused(args, status, said);
    }
}

/// The exit status and the single line on standard error.
fn refused(args: &str, status: i32, said: &str) {
    let output = sim(args);
    let found = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args}: {found}");
    assert!(found.contains(said) && found.trim_end().lines().count() == 1, "{args}: {found}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_is_too_much_is_refused_with_its_limit() {
    let outgrown = "than the 36 years that a run may";
    refused("--policy srpt-bands:17 --rho 0.5 --dist exponential:mean=5000", 2, "--policy: bands `17`: write 1 to 16");
    let pebibyte = "--policy srpt --rho 0.5 --dist deterministic:size=1125899906842624";
    refused(pebibyte, 2, "--dist: sizes of 1.126e15 bytes");
    refused(pebibyte, 2, outgrown);
    let lognormal = "--rho 0.5 --dist lognormal:mu=30,sigma=6 --jobs 1000";
    refused(&format!("--policy srpt {lognormal}"), 2, outgrown);
    refused(&format!("--model packet --policy fair {lognormal}"), 2, outgrown);
}

const CLASSES: &str = "\
[uplink]
rate = \"10mbit\"
[[class]]
name = \"paid\"
[[class.rule]]
path = \"/paid/*\"
[[class]]
name = \"free\"
priority = 1
[[class.rule]]
path = \"*\"
[[site]]
root = \"www\"
";

/// The classes of a file replace the policy: the first has the link to itself, as if the others did not exist.
#[test]
fn the_classes_of_a_file_are_simulated() {
    let folder = Folder::new("classes");
    let file = folder.file("weir.toml");
    fs::write(&file, CLASSES).unwrap();
    let load = "--rho 0.8 --dist exponential:mean=5000 --jobs 20000 --classes 0.5,0.5 --chunk 1460";
    let of_file = json(&format!("{load} --class-table {file}"));
    let [paid, free] = [0, 1].map(|class| number(&of_file, &format!("/by_class/{class}/response_time_ms_mean")));
    // Preemptive priority: at a load of 0.4 srpt takes less than first come, first served, 4 ms / (1 - 0.4).
    assert!(paid < 4.0 / 0.6 && free > 2.0 * paid, "{paid} ms, {free} ms");
    assert_eq!(of_file["spec"]["policy"], "classes");
    let output = sim(&format!("{load} --class-table {file} --policy srpt"));
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("cannot be used with"));
    fs::write(&file, "[[site]]\nroot = \"r\"\n").unwrap();
    let output = sim(&format!("{load} --class-table {file}"));
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("expected a [[class]] table"));
}

/// Ranks that grow as a job is served are close to their closed form by default, and the chosen chunk is reported.
#[test]
fn a_rank_that_grows_has_small_chunks_and_says_so() {
    let las = json(&format!("{MM1} --policy las"));
    let sent = json(&format!("{MM1} --policy rank:sent"));
    assert_eq!((&sent["service"], &sent["response_time_ms"]), (&las["service"], &las["response_time_ms"]));
    let twice = json(&format!("{MM1} --policy rank:sent*2"));
    let bytes = twice["service"]["chunk_bytes"].as_u64().unwrap();
    assert!((95..=100).contains(&bytes), "{bytes}");
    let [las, twice] = [&las, &twice].map(|found| number(found, "/response_time_ms/mean"));
    assert!((twice / las - 1.0).abs() < 0.02, "{twice} for {las}");
    let said = text(&sim(&format!("{MM1} --policy rank:sent*2")).stderr);
    assert!(said.contains(&format!("service is in chunks of {bytes} bytes (--chunk)")), "{said}");
}

/// The load of the tests of the packet model.
const PACKET: &str = "--model packet --dist exponential:mean=5000";

#[test]
fn every_flag_reaches_the_packet_model() {
    let base = format!("{PACKET} --policy fair --rho 0.5 --seconds 5");
    let plain = json(&base);
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
fn a_mistake_about_packets_is_one_line_that_names_its_field() {
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
        let rho = if flags.starts_with("--rho") { "" } else { "--rho 0.5" };
        refused(&format!("{PACKET} --policy srpt --seconds 1 {rho} {flags}"), 2, says);
    }
    refused(&format!("{PACKET} --policy srpt --rho 0.5"), 2, "--seconds: arrivals have no end");
}
