//! The admin listener: a page, metrics and health, only for this machine.

use std::net::SocketAddr;

use serde_json::Value;

use crate::common::{Client, Response, Server, Site, get, run_to_end, wait_until, weir_under};

/// The address in the line printed at the start.
pub fn admin_of(server: &Server) -> SocketAddr {
    let address = || {
        let lines = server.stderr();
        let line = lines.iter().find_map(|line| line.split_once("what it does: http://"))?;
        line.1.split('/').next()?.parse().ok()
    };
    wait_until("the line of the admin listener", || address().is_some());
    address().unwrap()
}

pub fn ask(admin: SocketAddr, path: &str, host: &str) -> Response {
    let mut client = Client::connect(admin);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response()
}

#[test]
fn it_shows_what_was_served_and_how_it_was_compared() {
    let site = Site::of_sizes(&[1000, 200_000]);
    let server = Server::start(&site, &["--admin", "127.0.0.1:0", "--uplink", "80mbit"]);
    let (admin, mut client) = (admin_of(&server), server.connect());
    for target in ["/size-1000", "/size-200000", "/none"] {
        client.get(target);
    }
    let counted = |said: &str| {
        let labels = |size: &str, status: &str| {
            format!(
                "weir_http_responses_total{{site=\"default\",class=\"\",protocol=\"HTTP/1.1\",size_class=\"{size}\",status=\"{status}\"}} 1"
            )
        };
        [labels("le_10kB", "2xx"), labels("le_1MB", "2xx"), labels("le_10kB", "4xx")]
            .iter()
            .all(|line| said.contains(line))
    };
    wait_until("three to be counted", || counted(ask(admin, "/metrics", "localhost").text()));
    let metrics = ask(admin, "/metrics", "localhost:9180");
    assert_eq!(metrics.field("Content-Type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(
        metrics.text().contains("weir_fair_share_responses_total{size_class=\"le_1MB\"} ")
            && metrics.text().ends_with("# EOF\n")
    );
    let told: Value = serde_json::from_str(ask(admin, "/status", "[::1]").text()).unwrap();
    assert_eq!(told["sizes"][2]["compared"], 1, "{told}");
    assert!(ask(admin, "/", "127.0.0.1").text().starts_with("<!DOCTYPE html>"));
    assert_eq!(
        [("/healthz"), ("/readyz")].map(|path| ask(admin, path, "localhost").text().to_owned()),
        ["ok\n", "ready\n"]
    );
    let pid = server.pid().to_string();
    let top = run_to_end(&["top", "--pid", &pid]);
    let said = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(top.status.success() && said.contains("up to 1 MB") && said.contains("\ndefault  3"), "{said}");
}

/// The value of a metric, with its labels as they are written.
fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {metrics}"))
}

#[test]
fn it_tells_of_the_process_of_connections_and_of_certificates() {
    let site = Site::of_sizes(&[1000]);
    let server = Server::start(&site, &["--admin", "127.0.0.1:0", "--tls-self-signed", "--connections", "50"]);
    let admin = admin_of(&server);
    let metrics = || ask(admin, "/metrics", "localhost").text().to_string();
    assert_eq!([value(&metrics(), "weir_connections"), value(&metrics(), "weir_connections_max")], [0.0, 50.0]);
    let clients = [(); 3].map(|()| server.connect());
    wait_until("three connections", || value(&metrics(), "weir_connections") == 3.0);
    drop(clients);
    wait_until("no connection", || value(&metrics(), "weir_connections") == 0.0);
    let (now, metrics) = (std::time::SystemTime::now(), metrics());
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(value(&metrics, "weir_certificate_not_after_timestamp_seconds{site=\"default\"}") > now, "{metrics}");
    let started = value(&metrics, "process_start_time_seconds");
    assert!(started <= now && started > now - 600.0, "{started} {now}");
    // The sandbox hides nothing of the process from the process itself.
    for (name, least) in [
        ("process_open_fds", 10.0),
        ("process_max_fds", 50.0),
        ("process_resident_memory_bytes", 1e6),
        ("process_virtual_memory_bytes", 1e6),
        ("process_cpu_seconds_total", 1e-6),
    ] {
        assert!(value(&metrics, name) >= least, "{name}: {metrics}");
    }
}

#[test]
fn it_tells_how_upstreams_are() {
    // The address no longer has a listener.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = weir_under(&[]);
    command.args(["proxy", &gone.to_string(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let server = Server::spawn(command);
    let admin = admin_of(&server);
    let name = |metric: &str| format!("{metric}{{upstream=\"{gone}\"}}");
    let metrics = ask(admin, "/metrics", "localhost");
    assert_eq!(value(metrics.text(), &name("weir_upstream_healthy")), 1.0, "nothing was asked of it yet");
    assert_eq!(value(metrics.text(), &name("weir_upstream_requests")), 0.0);
    wait_until("it to be found down", || {
        assert_eq!(server.connect().get("/").status, 502);
        value(ask(admin, "/metrics", "localhost").text(), &name("weir_upstream_healthy")) == 0.0
    });
}

#[test]
fn others_are_refused() {
    let site = Site::of_sizes(&[1000]);
    let server = Server::start(&site, &["--admin", "127.0.0.1:0"]);
    let admin = admin_of(&server);
    // A page of another site whose name leads here.
    assert_eq!(ask(admin, "/status", "attacker.example").status, 421);
    assert_eq!(ask(admin, "/other", "localhost").status, 404);
    let mut client = Client::connect(admin);
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let refused = client.response();
    assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD")));
    let mut client = Client::connect(admin);
    client.send("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((client.response_to_head().field("content-length"), client.rest().len()), (Some("3"), 0));
    // Clients that have sent half of a request are waited for concurrently.
    let halves: Vec<Client> = (0..200)
        .map(|_| {
            let mut half = Client::connect(admin);
            half.send("GET / HTTP/1.1\r\n");
            half
        })
        .collect();
    assert_eq!(ask(admin, "/healthz", "LOCALHOST").text(), "ok\n");
    drop(halves);
    let mut served = server.connect();
    served.send(get("/size-1000"));
    assert_eq!(served.response().body.len(), 1000);
    let refused = run_to_end(&["serve", &site.served().display().to_string(), "--admin", "0.0.0.0:9180"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("expected a loopback address"), "{said}");
}

/// Any process of this machine may request the page and the figures.
#[test]
fn it_tells_no_client_and_no_path() {
    const HUGE: usize = 16 << 20;
    let site = Site::of_sizes(&[HUGE]);
    let log = site.outside("log");
    let server = Server::start(&site, &["--admin", "127.0.0.1:0", "--access-log", &log.display().to_string()]);
    let (admin, mut client) = (admin_of(&server), Client::connect_narrow(server.address));
    client.send(get("/size-16777216?<script>secret"));
    client.wait_for_first_byte();
    let told = || -> Value { serde_json::from_str(ask(admin, "/status", "localhost").text()).unwrap() };
    wait_until("the response", || told()["under_way"]["responses"][0]["waits_for"] == "client");
    let told = told();
    assert_eq!((&told["under_way"]["count"], &told["clients"]), (&1.into(), &Value::Null));
    let row = &told["under_way"]["responses"][0];
    assert!(row["left_bytes"].as_u64().is_some_and(|left| left > 0) && row.get("client").is_none(), "{row}");
    for path in ["/status", "/history", "/metrics", "/"] {
        let answer = ask(admin, path, "localhost");
        assert!(!answer.text().contains("secret") && !answer.text().contains("127.0.0.1"), "{path}");
    }
    let page = ask(admin, "/", "localhost");
    assert!(page.field("Content-Security-Policy").is_some_and(|policy| policy.starts_with("default-src 'none'")));
}

fn status(admin: SocketAddr) -> Value {
    serde_json::from_str(ask(admin, "/status", "localhost").text()).unwrap()
}

/// A download takes hours; earlier its bytes counted at its end.
#[test]
fn bytes_count_while_their_response_runs_and_once() {
    const HUGE: usize = 16 << 20;
    for uplink in ["800mbit", "off"] {
        let site = Site::of_sizes(&[HUGE]);
        let server = Server::start(&site, &["--admin", "127.0.0.1:0", "--uplink", uplink]);
        let (admin, mut client) = (admin_of(&server), Client::connect_narrow(server.address));
        client.send(get("/size-16777216"));
        client.wait_for_first_byte();
        let sum = |key: &str| -> u64 {
            let rows = status(admin)["responses"].as_array().unwrap().clone();
            rows.iter().filter_map(|row| row[key].as_u64()).sum()
        };
        wait_until("bytes of a response under way", || sum("bytes") > 0);
        assert_eq!(sum("responses"), 0, "{uplink}");
        let part = sum("bytes");
        client.response();
        wait_until("the response's end", || sum("responses") == 1);
        let (all, head_max) = (sum("bytes"), 1000);
        assert!(part < HUGE as u64 && (HUGE as u64..HUGE as u64 + head_max).contains(&all), "{uplink}: {part}, {all}");
    }
}

/// Only its client delayed the response, by reading nothing for three seconds: in turns it would have taken as long.
#[test]
fn a_slow_client_is_not_the_order_s_fault() {
    const LARGE: usize = 8 << 20;
    let site = Site::of_sizes(&[LARGE]);
    let server = Server::start(&site, &["--admin", "127.0.0.1:0", "--uplink", "800mbit"]);
    let (admin, mut client) = (admin_of(&server), Client::connect_narrow(server.address));
    client.send(get("/size-8388608"));
    client.wait_for_first_byte();
    std::thread::sleep(std::time::Duration::from_secs(3));
    client.response();
    wait_until("it to be compared", || status(admin)["sizes"][3]["turns"] == 1);
    let told = status(admin);
    assert!(told["sizes"][3]["compared_s"].as_f64().is_some_and(|seconds| seconds > 3.0), "{told}");
    let differs_s = ["more_s", "less_s"].map(|key| told["order"][key].as_f64().unwrap());
    assert!(differs_s.iter().all(|seconds| *seconds < 1.0), "{differs_s:?}: {told}");
}

/// The first sample is taken after ten seconds.
#[test]
fn the_server_keeps_what_it_did() {
    let site = Site::of_sizes(&[1000]);
    let server = Server::start(&site, &["--admin", "127.0.0.1:0", "--uplink", "80mbit"]);
    let (admin, mut client) = (admin_of(&server), server.connect());
    let history = || -> Value { serde_json::from_str(ask(admin, "/history", "localhost").text()).unwrap() };
    assert_eq!((&history()["every_s"], &history()["samples"]), (&10.into(), &serde_json::json!([])));
    client.get("/size-1000");
    wait_until("a sample", || history()["samples"].as_array().is_some_and(|samples| !samples.is_empty()));
    let sample = &history()["samples"][0];
    assert!(sample["leaving_bits_per_s"].as_f64().is_some_and(|bits| bits > 0.0), "{sample}");
    assert!(sample["small_s"].is_number() && sample["pace_bits_per_s"].is_number(), "{sample}");
}
