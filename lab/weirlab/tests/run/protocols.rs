//! Other servers over TLS, HTTP/2 and HTTP/3: they use the protocols that the lab configures.

use std::collections::BTreeSet;

use crate::bench::{Bench, may_test, stderr};

/// Each installed server with its protocol. A missing server is left out and named, unless all are required.
const RUNS: [(&str, &str); 7] = [
    ("nginx-https", "server = \"nginx\"\ntls = true"),
    ("nginx-h2", "server = \"nginx\"\ntls = true\nh2 = 6"),
    ("nginx-cleartext", "server = \"nginx\"\nh2 = 100\nclient_connections = 1"),
    ("h2o-h2", "server = \"h2o\"\ntls = true\nh2 = 100"),
    ("h2o-cleartext", "server = \"h2o\"\nh2 = 100"),
    ("caddy-h2", "server = \"caddy\"\ntls = true\nh2 = 100"),
    ("caddy-h3", "server = \"caddy\"\ntls = true\nh3 = 100"),
];

#[test]
fn peers_speak_what_a_run_says() {
    let Some(_alone) = may_test() else { return };
    let runs = RUNS.map(|(name, keys)| format!("[[run]]\nname = \"{name}\"\n{keys}\n")).concat();
    let top = "question = \"\"\nlink = \"10mbit\"\nwire = false\nrho = 0.5\nseconds = 2\nper_connection = 50\n";
    let bench = Bench::new("protocols", &format!("{top}{runs}"));
    let all_required = std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() == Ok("1");
    let args: &[&str] = if all_required { &["--json"] } else { &["--skip-missing", "--json"] };
    let output = bench.run(args);
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = summary["runs"].as_array().unwrap();
    let skipped = record::LeftOut::read(&bench.out()).unwrap().reasons;
    skipped.iter().for_each(|(name, why)| println!("SKIPPED: {name}: {why}"));
    let made = runs.iter().map(|run| run["name"].as_str().unwrap()).chain(skipped.keys().map(String::as_str));
    assert_eq!(made.collect::<BTreeSet<_>>(), RUNS.map(|(name, _)| name).into(), "{summary}");
    assert!(skipped.keys().all(|name| !all_required && !name.starts_with("nginx")), "{skipped:?}");
    for run in runs {
        assert_eq!(run["completed"], summary["jobs"], "{run}");
        let name = run["name"].as_str().unwrap();
        let environment = record::Run::read(&bench.out().join(name)).unwrap().manifest.environment;
        let said = environment.get("protocol").map(String::as_str);
        let wanted = match name {
            "nginx-https" => "HTTP/1.1 over TLS",
            "nginx-h2" => "HTTP/2 over TLS, up to 6 streams on a connection",
            "caddy-h3" => "HTTP/3, up to 100 streams on a connection",
            name if name.ends_with("-h2") => "HTTP/2 over TLS, up to 100 streams on a connection",
            _ => "HTTP/2, up to 100 streams on a connection",
        };
        assert_eq!(said, Some(wanted), "{name}");
    }
}
