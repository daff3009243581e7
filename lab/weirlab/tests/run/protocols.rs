//! Servers of others over TLS and HTTP/2: what the lab writes for them is what they speak.

use crate::bench::{Bench, may_test, stderr};

/// Each server that is installed, as it is to be asked; what is not is left out.
const RUNS: [(&str, &str); 6] = [
    ("nginx-https", "server = \"nginx\"\ntls = true"),
    ("nginx-h2", "server = \"nginx\"\ntls = true\nh2 = 6"),
    ("nginx-cleartext", "server = \"nginx\"\nh2 = 100\nclient_connections = 1"),
    ("h2o-h2", "server = \"h2o\"\ntls = true\nh2 = 100"),
    ("h2o-cleartext", "server = \"h2o\"\nh2 = 100"),
    ("caddy-h2", "server = \"caddy\"\ntls = true\nh2 = 100"),
];

#[test]
fn peers_speak_what_a_run_says() {
    let Some(_alone) = may_test() else { return };
    let runs = RUNS.map(|(name, keys)| format!("[[run]]\nname = \"{name}\"\n{keys}\n")).concat();
    let top = "question = \"\"\nlink = \"10mbit\"\nrho = 0.5\nseconds = 2\nper_connection = 50\n";
    let bench = Bench::new("protocols", &format!("{top}{runs}"));
    let output = bench.run(&["--skip-missing", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = summary["runs"].as_array().unwrap();
    assert!(runs.len() >= 3, "of nginx: {summary}");
    for run in runs {
        assert_eq!(run["completed"], summary["jobs"], "{run}");
        let name = run["name"].as_str().unwrap();
        let environment = record::Run::read(&bench.out().join(name)).unwrap().manifest.environment;
        let said = environment.get("protocol").map(String::as_str);
        let wanted = match name {
            "nginx-https" => "HTTP/1.1 over TLS",
            "nginx-h2" => "HTTP/2 over TLS, up to 6 streams on a connection",
            name if name.ends_with("-h2") => "HTTP/2 over TLS, up to 100 streams on a connection",
            _ => "HTTP/2, up to 100 streams on a connection",
        };
        assert_eq!(said, Some(wanted), "{name}");
    }
}
