//! `weirlab theory` as a user runs it: figures, mistakes, exit status.

use std::process::{Command, Output};

use serde_json::Value;

fn theory(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weirlab")).arg("theory").args(args).output().unwrap()
}

/// The words after `mg1`, split at blanks.
fn mg1(words: &str) -> Output {
    let args: Vec<&str> = ["mg1"].into_iter().chain(words.split_whitespace()).collect();
    theory(&args)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn close(found: &Value, right: f64) {
    let found = found.as_f64().unwrap();
    assert!((found / right - 1.0).abs() < 1e-6, "{found}, not {right}");
}

/// The line on standard error of a command that must end with status 2.
fn refused(output: Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty() && said.lines().count() == 1 && said.starts_with("weirlab: "), "{said}");
    said
}

#[test]
fn one_object_with_the_mean_response_time_and_slowdown() {
    let found = json(mg1("--policy srpt --rho 0.8 --dist exponential:mean=5000 --link 10mbit --json"));
    // 4 ms alone on the link; M/M/1 under SRPT at 0.8 takes 2.35277327 times as long (lab/theory/src/mg1/tests.rs).
    close(&found["response_time_ms"], 4.0 * 2.35277327);
    close(&found["lambda_per_s"], 200.0);
    close(&found["size_mean_bytes"], 5000.0);
    assert!(found["slowdown_mean"].as_f64().unwrap() > 1.0);
    assert_eq!((found["policy"].as_str(), found["link_bps"].as_u64()), (Some("srpt"), Some(10_000_000)));
}

#[test]
fn one_size_alone() {
    let words = "--policy fair --rho 0.5 --dist bounded-pareto:alpha=1.1,min=100,max=1e7 --at-size 1MB --json";
    let found = json(mg1(words));
    close(&found["response_time_ms"], 1600.0);
    close(&found["slowdown_mean"], 2.0);
    close(&found["at_size_bytes"], 1e6);
}

#[test]
fn bands_by_number_and_by_hand() {
    let sizes = "--rho 0.8 --dist bounded-pareto:alpha=1.5,min=100,max=1e7 --json";
    let five = json(mg1(&format!("--policy srpt-bands:5 {sizes}")));
    let cuts: Vec<String> = five["cuts_bytes"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(cuts.len(), 4);
    let by_hand = json(mg1(&format!("--policy srpt-bands:{} {sizes}", cuts.join(","))));
    assert_eq!(five["response_time_ms"], by_hand["response_time_ms"]);
    let [srpt, fcfs] = ["srpt", "fcfs"].map(|policy| json(mg1(&format!("--policy {policy} {sizes}"))));
    let mean = |found: &Value| found["response_time_ms"].as_f64().unwrap();
    assert!(mean(&srpt) < mean(&five) && mean(&five) < mean(&fcfs));
}

#[test]
fn a_trace_is_the_distribution_of_its_sizes() {
    let file = std::env::temp_dir().join(format!("weirlab-theory-{}.csv", std::process::id()));
    std::fs::write(&file, "0,1000\n1,1000\n2,1000\n").unwrap();
    let of = |policy: &str| {
        json(mg1(&format!("--policy {policy} --rho 0.8 --dist trace:{} --link 8mbit --json", file.display())))
    };
    // Equal sizes, 1 ms each: 1 + 0.8 / (2 · 0.2) under both.
    close(&of("fcfs")["response_time_ms"], 3.0);
    close(&of("srpt")["response_time_ms"], 3.0);
    std::fs::write(&file, "").unwrap();
    let empty = mg1(&format!("--policy srpt --rho 0.8 --dist trace:{}", file.display()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!((empty.status.code(), text(&empty.stderr).lines().count()), (Some(1), 1));
    let missing = mg1("--policy srpt --rho 0.8 --dist trace:/no/such/file");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("weirlab: /no/such/file: No such file"), "{}", text(&missing.stderr));
}

#[test]
fn a_person_reads_a_table() {
    let output = mg1("--policy srpt-bands:1000,64KiB --rho 0.5 --dist exponential:mean=5000 --at-size 2000");
    let said = text(&output.stdout);
    let firsts: Vec<&str> = said.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(firsts, ["policy", "cuts", "arrivals", "response", "slowdown"], "{said}");
    assert!(said.contains("of the jobs of 2000 bytes") && said.contains("1000, 65536 bytes"), "{said}");
}

/// An expression has the closed form of the policy that it is equivalent to, whether its sizes are drawn or from a
/// trace.
#[test]
fn an_expression_is_solved() {
    let of = |policy: &str, dist: &str| {
        let words = ["mg1", "--rho", "0.8", "--dist", dist, "--policy", policy, "--json"];
        json(theory(&words))["response_time_ms"].as_f64().unwrap()
    };
    let dist = "bounded-pareto:alpha=1.5,min=100,max=1e6";
    for (policy, rank) in [("srpt", "rank:left"), ("psjf", "rank:size * 2"), ("las", "rank:sent"), ("fcfs", "rank:0")] {
        let (exact, found) = (of(policy, dist), of(rank, dist));
        assert!((found / exact - 1.0).abs() < 2e-3, "{rank}: {found} for {exact}");
    }
    // Without knowledge of sizes, no policy is better than the Gittins index, except for rounding.
    for dist in [dist, "lognormal:mu=8,sigma=0.5", "lognormal:mu=7.5,sigma=1.2", "deterministic:size=5000"] {
        let ranks = ["rank:gittins", "rank:mserpt", "rank:sent", "rank:0"].map(|rank| of(rank, dist));
        assert!(ranks.iter().all(|other| ranks[0] <= other * 1.0001), "{dist}: {ranks:?}");
    }
    let known = ["rank:left", "rank:noisy(size, 0.5)", "rank:gittins"].map(|rank| of(rank, dist));
    assert!(known.is_sorted_by(|a, b| a < b), "{known:?}");
}

#[test]
fn overload_by_turns() {
    let of = |policy: &str, profile: &str| {
        let dist = "bounded-pareto:alpha=1.1,min=100,max=1e6";
        theory(&["alternating", "--policy", policy, "--profile", profile, "--dist", dist, "--json"])
    };
    let [fair, srpt] = ["fair", "srpt"].map(|policy| json(of(policy, "W1")));
    let number = |found: &Value, name: &str| found[name].as_f64().unwrap();
    close(&fair["rho_mean"], 0.7);
    assert!(number(&fair, "backlog_jobs") > 5.0 * number(&srpt, "backlog_jobs"));
    assert!(number(&fair, "response_time_ms") > 2.0 * number(&srpt, "response_time_ms"));
    let said = refused(of("srpt", "10,10,0.9,1.2"));
    assert!(said.starts_with("weirlab: --profile: the mean load is 1.05: there is no steady state"), "{said}");
    let said = refused(of("las", "W1"));
    assert!(said.starts_with("weirlab: --policy: no approximation is known for policy `las`"), "{said}");
}

#[test]
fn mistakes_are_one_line_that_names_the_field() {
    let usual = [("--policy", "srpt"), ("--rho", "0.8"), ("--dist", "exponential:mean=5000"), ("--at-size", "1000")];
    for (flag, value, told) in [
        ("--rho", "1", "--rho: rho is 1: there is no steady state"),
        ("--rho", "NaN", "--rho: rho is NaN: it must be a number above 0 and below 1"),
        ("--rho", "-0.3", "--rho: rho is -0.3: it must be"),
        ("--dist", "exponential:mean=-5", "--dist: mean is -5"),
        ("--dist", "exponential:mean=nan", "--dist: mean is `nan`"),
        (
            "--dist",
            "bounded-pareto:alpha=0.9,min=100",
            "--dist: max is missing and alpha is 0.9, so the mean size is inf",
        ),
        ("--dist", "zipf:s=1", "--dist: unknown distribution `zipf`"),
        ("--policy", "fsp", "--policy: no closed form is known for policy `fsp`"),
        ("--policy", "random", "--policy: unknown policy `random`"),
        ("--policy", "srpt-bands:9,3", "--policy: srpt-bands:9,3: cut points are above 0 and increase"),
        ("--policy", "rank:left*rt", "--policy: rank `left*rt`, column 6: unknown name `rt`"),
        ("--policy", "rank:left*rtt", "--policy: rank `left*rtt`: no closed form is known for more than size, left"),
        ("--at-size", "0", "--at-size: no job has 0 bytes"),
    ] {
        let words = usual.map(|(usual, right)| format!("{usual} {}", if usual == flag { value } else { right }));
        let said = refused(mg1(&words.join(" ")));
        assert!(said.starts_with(&format!("weirlab: {told}")), "{said}");
    }
}
