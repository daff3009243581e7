//! `weir status`: the service of each class, its objective, and sleeping responses.

use std::io::BufRead;

use serde_json::Value;

use crate::common::{Client, Server, Site, Upstream, answer, content, get, run_to_end, wait_until, weir_under};

const SMALL: usize = 1 << 10;
/// A size beyond the buffers of two sockets.
const HUGE: usize = 16 << 20;

const CLASSES: &str = "\
[uplink]
shaping = \"off\"
[[class]]
name = \"strict\"
objective = \"p90 of responses <= 64KiB under 1ns\"
[[class.rule]]
path = \"/size-1024\"
[[class]]
name = \"slow\"
max_concurrent_requests = 1
objective = \"p99 of responses under 1000s\"
[[class.rule]]
path = \"/size-16777216\"
";

fn start(site: &Site, text: &str) -> Server {
    let text =
        format!("{text}\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n", site.served().display());
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    Server::run(&site.outside("weir.toml"))
}

fn ask(server: &Server, size: usize) -> Client {
    let mut client = server.connect();
    client.send(get(&format!("/size-{size}")));
    client
}

fn status(server: &Server, words: &[&str]) -> String {
    let pid = server.pid().to_string();
    let output = run_to_end(&[&["status", "--pid", &pid], words].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The classes in order.
fn classes(server: &Server) -> Vec<Value> {
    let told: Value = serde_json::from_str(&status(server, &["--json"])).unwrap();
    told["classes"].as_array().unwrap().clone()
}

#[test]
fn a_class_has_its_responses_and_its_sleepers_counted() {
    let site = Site::of_sizes(&[SMALL, HUGE]);
    let server = start(&site, CLASSES);
    let mut first = ask(&server, HUGE);
    first.wait_for_first_byte();
    let mut second = ask(&server, HUGE);
    second.assert_silent();
    for _ in 0..3 {
        assert!(ask(&server, SMALL).response().body == content(SMALL));
    }
    wait_until("three responses to be counted", || classes(&server)[0]["responses"] == 3);
    let [strict, slow, others] = &classes(&server)[..] else { panic!("three classes") };
    let minute = &strict["objective"]["last_minute"];
    assert_eq!((&minute["responses"], &minute["missed"]), (&3.into(), &3.into()));
    assert_eq!(minute["burn"], 10.0, "all of them over a tenth");
    assert_eq!((&slow["running"], &slow["asleep"], &slow["responses"]), (&1.into(), &1.into(), &0.into()));
    assert!(slow["asleep_s_max"].as_f64().is_some_and(|seconds| seconds > 0.0), "{slow}");
    assert_eq!((&others["name"], &others["objective"]), (&"others".into(), &Value::Null));
    assert!(first.response().body == content(HUGE) && second.response().body == content(HUGE));
    wait_until("both to be counted", || classes(&server)[1]["responses"] == 2);
    let slow = &classes(&server)[1];
    assert_eq!((&slow["objective"]["since_start"]["met_percent"], &slow["asleep"]), (&100.0.into(), &0.into()));
    assert!(slow["bytes"].as_u64().is_some_and(|bytes| bytes > 2 * HUGE as u64), "{slow}");
    let table = status(&server, &[]);
    let line = table.lines().find(|line| line.starts_with("strict ")).unwrap();
    assert!(line.ends_with("p90 of responses <= 64KiB under 1ns") && line.contains("0.0 % of 3, burn 10.0"), "{table}");
}

/// Pipelined responses that leave together are counted separately.
#[test]
fn pipelined_responses_are_counted_each() {
    let site = Site::of_sizes(&[SMALL]);
    let server = start(&site, CLASSES);
    let mut client = server.connect();
    (0..5).for_each(|_| client.send(get("/size-1024")));
    (0..5).for_each(|_| assert!(client.response().body == content(SMALL)));
    wait_until("five to be counted", || classes(&server)[0]["objective"]["since_start"]["missed"] == 5);
}

#[test]
fn a_server_without_classes_says_so() {
    let site = Site::of_sizes(&[SMALL]);
    let server = Server::start(&site, &["--shaping", "off"]);
    let said = status(&server, &[]);
    assert!(
        said.starts_with("uplink not searched: nothing is paced\n") && said.contains("--admin 127.0.0.1:9180"),
        "{said}"
    );
    let told: Value = serde_json::from_str(&status(&server, &["--json"])).unwrap();
    assert!(
        told["classes"] == serde_json::json!([])
            && told["uplink"].is_null()
            && told["responses"] == serde_json::json!([]),
        "{told}"
    );
    let output = run_to_end(&["status", "--pid", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("`weir status` without --pid"), "{said}");
}

#[test]
fn a_server_that_searches_its_rate_says_so() {
    let site = Site::of_sizes(&[SMALL]);
    let server = Server::start(&site, &[]);
    assert!(ask(&server, SMALL).response().body == content(SMALL));
    let said = status(&server, &[]);
    let expected = "uplink rate not found yet: no congestion seen so far, so responses are not paced\n";
    assert!(said.starts_with(expected), "{said}");
    let told: Value = serde_json::from_str(&status(&server, &["--json"])).unwrap();
    assert_eq!((&told["uplink"]["rate_bits_per_s"], &told["uplink"]["limit"]), (&Value::Null, &Value::Null));
    let server = Server::start(&site, &["--uplink", "2mbit..20mbit"]);
    let told: Value = serde_json::from_str(&status(&server, &["--json"])).unwrap();
    assert_eq!(told["uplink"]["least_bits_per_s"], 2_000_000);
}

#[test]
fn the_uplink_of_a_server_is_watched_until_it_ends() {
    let site = Site::of_sizes(&[SMALL]);
    let server = Server::start(&site, &[]);
    let pid = server.pid().to_string();
    let output = run_to_end(&["status", "--watch", "--pid", &pid, "--seconds", "2"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.lines().count() == 2, "{said}");
    assert!(said.lines().all(|line| line.starts_with("rate not found yet  pace none")), "{said}");
    let file = site.outside("pid");
    std::fs::write(&file, &pid).unwrap();
    let mut watching = weir_under(&[]);
    let words = ["status", "--watch", "--pid-file", &file.display().to_string(), "--json"];
    watching.args(words).stdout(std::process::Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    let mut lines = std::io::BufReader::new(watching.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["rate_bits_per_s"], Value::Null);
    drop(server);
    assert!(lines.all(|line| line.is_ok()) && watching.wait().unwrap().success());
    let output = run_to_end(&["status", "--watch", "--pid", &pid]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn what_was_learned_of_the_responses_of_upstreams() {
    let upstream = Upstream::start(|asked, socket| {
        let bytes = if asked.path() == "/last" { 5 } else { 3000 };
        answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes(), &content(bytes)])
    });
    let mut command = weir_under(&[]);
    command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(command);
    let said = status(&server, &["--routes"]);
    assert!(said.contains("has passed no requests on") && said.lines().count() == 1, "{said}");
    let mut client = server.connect();
    for number in 0..20 {
        client.send(get(&format!("/items/{number}")));
        assert!(client.response().body == content(3000));
    }
    client.send(get("/last"));
    assert!(client.response().body == content(5));
    let told: Value = serde_json::from_str(&status(&server, &["--routes", "--json"])).unwrap();
    let [all, items, last] = &told["routes"].as_array().unwrap()[..] else { panic!("three routes: {told}") };
    assert_eq!((&all["finished"], &items["finished"], &last["finished"]), (&21.into(), &20.into(), &1.into()));
    assert_eq!((&items["aborted"], &items["predicted"], &told["known"]), (&0.into(), &4.into(), &3.into()));
    assert!(items["route"].as_str().unwrap().ends_with(" GET /items/* 2xx - -"), "{items}");
    let median = items["median_bytes"].as_u64().unwrap();
    assert!((2048..4096).contains(&median) && items["p99_bytes"].as_u64().unwrap() >= median, "{items}");
    assert_eq!(items["below_p99_percent"], 100.0);
    assert!(items["service_ms"].is_number() && last["service_ms"].is_null(), "{told}");
    let table = status(&server, &["--routes"]);
    assert!(
        table.lines().nth(2).is_some_and(|line| line.starts_with("20 ") && line.contains(" GET /items/* ")),
        "{table}"
    );
}

/// A minute has to pass; in virtual time this takes no time.
#[test]
fn a_missed_objective_is_told_in_the_error_log() {
    use crate::common::in_virtual_time;
    if in_virtual_time(a_missed_objective_is_told_in_the_error_log) {
        return;
    }
    let site = Site::of_sizes(&[SMALL]);
    let server = start(&site, CLASSES);
    (0..4).for_each(|_| assert!(ask(&server, SMALL).response().body == content(SMALL)));
    let said = "weir: class strict: 100.0 % of 4 responses of up to 64KiB over 1ns in the last minute, 10 % allowed (burn 10.0)";
    wait_until("the line", || server.stderr().iter().any(|line| line == said));
    assert!(!server.stderr().iter().any(|line| line.contains("class slow")), "{:?}", server.stderr());
}
