//! `weirlab load` as a user or the lab runs it, with a small server in the test.

#[path = "../common/mod.rs"]
mod common;
mod scarcity;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use common::{Folder, text};
use record::{Outcome, PageRecord, Run};
use serde_json::Value;

/// A server on its own threads, which end with the test: each connection gets one response of the requested size.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let (mut head, mut byte) = (String::new(), [0]);
    while !head.ends_with("\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0].into()),
            _ => return,
        }
    }
    let name = head.split(' ').nth(1).and_then(|path| path.strip_prefix("/files/"));
    // A customer's files are in a folder.
    let name = name.and_then(|name| name.rsplit('/').next());
    let size = name.and_then(|name| name.strip_suffix(".bin")?.parse::<usize>().ok());
    let status = if size.is_some() { "200 OK" } else { "404 Not Found" };
    let size = size.unwrap_or(0);
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
    // The client may have left; the error is ignored.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'x'; size]));
}

/// A folder for this test with a trace of four jobs.
fn with_trace(test: &str) -> Folder {
    let folder = Folder::new(test);
    let trace = "epoch_s,size_bytes,status\n0.0,100,200\n0.1,20000,200\n0.2,300,200\n0.5,40,200\n";
    std::fs::write(folder.file("trace.csv"), trace).unwrap();
    folder
}

fn load(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weirlab"));
    command.arg("load").args(words);
    command
}

fn run(words: &[&str]) -> Output {
    load(words).output().unwrap()
}

/// The exit status and the single line on standard error.
fn refused(words: &[&str]) -> (Option<i32>, String) {
    let output = run(words);
    let said = text(&output.stderr);
    assert!(output.stdout.is_empty() && said.starts_with("weirlab: ") && said.lines().count() == 1, "{said}");
    (output.status.code(), said)
}

#[test]
fn records_and_prints_what_came_of_every_job() {
    let folder = with_trace("all");
    let url = format!("http://{}/files/", server());
    let (trace, out) = (folder.file("trace.csv"), folder.file("run"));
    let words = ["--trace", &trace, "--rho", "0.5", "--uplink", "10mbit", "--json", "--out", &out];
    let labels = ["--name", "n", "--policy", "srpt", "--shaping", "paced", "--seed", "7"];
    let output = run(&[&[url.as_str()][..], &words, &labels].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "quiet with --json");

    let printed: Value = serde_json::from_slice(&output.stdout).expect("one object and nothing else");
    assert_eq!((&printed["jobs"], &printed["outcomes"]["complete"]), (&4.into(), &4.into()));
    assert!(["mean", "p50", "p90", "p99", "max"].iter().all(|name| printed["response_time_ms"][name].is_f64()));
    assert!(["p50", "p99", "max"].iter().all(|name| printed["lateness_ms"][name].is_f64()));
    assert!((printed["rho_measured"].as_f64().unwrap() - 0.5).abs() < 1e-6);
    assert!(printed["beat_wire_time"].is_u64());

    let Run { manifest, records, .. } = Run::read(out.as_ref()).unwrap();
    assert_eq!((manifest.name.as_str(), manifest.server.as_str()), ("n", "unknown"));
    assert_eq!((manifest.policy.as_str(), manifest.shaping.as_str(), manifest.seed), ("srpt", "paced", 7));
    assert_eq!((manifest.link_bps, manifest.rho, manifest.per_connection), (10_000_000, 0.5, 1));
    assert!(manifest.client_cpu.is_some() && manifest.lateness_ns_p99.is_some());
    let seen: Vec<_> = records.iter().map(|record| (record.size_bytes, record.body_bytes, record.outcome)).collect();
    assert_eq!(seen, [100, 20000, 300, 40].map(|size| (size, size, Outcome::Complete)));
}

#[test]
fn impatient_users_of_two_groups_are_recorded() {
    let folder = with_trace("impatient");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/files/", listener.local_addr().unwrap());
    let (trace, out) = (folder.file("trace.csv"), folder.file("run"));
    let words = [&url, "--trace", &trace, "--rho", "0.5", "--uplink", "10mbit", "--json", "--out", &out];
    let users = ["--server", "mute", "--abort", "30ms", "--retries", "2"];
    let clients = ["--client", "near=127.0.0.7-127.0.0.9@0.5", "--client", "far=127.0.0.10@0.5", "--seed", "2"];
    let output = run(&[&words[..], &users, &clients].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&printed["outcomes"]["aborted"], &printed["attempts"]), (&4.into(), &12.into()));
    assert_eq!((&printed["groups"][0]["name"], &printed["groups"][1]["name"]), (&"near".into(), &"far".into()));

    let Run { manifest, records, .. } = Run::read(out.as_ref()).unwrap();
    assert_eq!((manifest.clients.len(), manifest.environment["retries"].as_str()), (2, "2"));
    assert!(records.iter().all(|record| record.attempts == 3 && record.response_time().as_millis_f64() >= 90.0));
}

#[test]
fn a_table_for_people() {
    let folder = with_trace("table");
    let url = format!("http://{}/files/", server());
    let output = run(&[&url, "--trace", &folder.file("trace.csv"), "--rate", "200", "--uplink", "10mbit"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.starts_with("jobs           4: 4 complete\n"), "{said}");
    assert!(["response time", "lateness", "client", "void"].iter().all(|part| said.contains(part)), "{said}");
}

/// A server without the files: the time of its errors is no result, and the table says so.
#[test]
fn wrong_answers_void_the_run() {
    let folder = with_trace("elsewhere");
    let (url, out) = (format!("http://{}/elsewhere", server()), folder.file("run"));
    let output =
        run(&[&url, "--trace", &folder.file("trace.csv"), "--rate", "200", "--uplink", "10mbit", "--out", &out]);
    let [table, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let why = format!("4 of 4 answers were wrong: status 404 came for {url}/100.bin, and not 200 with 100 bytes");
    assert_eq!((output.status.code(), said.as_str()), (Some(1), format!("weirlab: {why}\n").as_str()));
    assert!(
        table.starts_with("jobs           4: 4 wrong\n") && table.contains(&format!("void           {why}")),
        "{table}"
    );
    assert!(Run::read(out.as_ref()).unwrap().manifest.void.unwrap().starts_with(&why));
}

/// The JSON object, and the recorded run.
fn recorded(folder: &Folder, words: &[&str]) -> (Value, Run) {
    let (url, out) = (format!("http://{}/files/", server()), folder.file("run"));
    let output = run(&[&[url.as_str(), "--json", "--uplink", "10mbit", "--out", &out], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), Run::read(out.as_ref()).unwrap())
}

#[test]
fn a_profile_decides_when_jobs_come() {
    let folder = with_trace("profile");
    let trace = folder.file("even.csv");
    let lines: String = (0..50).map(|n| format!("{n},1208,200\n")).collect();
    std::fs::write(&trace, format!("epoch_s,size_bytes,status\n{lines}")).unwrap();
    // 1,720 bytes are 1.376 ms of the link: 29 of them in the first tenth of a second, 14 in the second.
    let load = ["--profile", "0.1,0.1,0.4,0.2", "--seconds", "1", "--repeat"];
    let (_, Run { manifest, records, .. }) = recorded(&folder, &[&["--trace", &trace][..], &load].concat());
    assert!((manifest.rho - 0.3).abs() < 1e-9 && manifest.environment["profile"] == load[1]);
    let early = records.iter().filter(|record| record.arrival_ns / 100_000_000 % 2 == 0).count() as f64;
    assert!((early / records.len() as f64 - 2.0 / 3.0).abs() < 0.02, "{early} of {}", records.len());
    assert!((210..=225).contains(&records.len()), "the trace is repeated: {} jobs", records.len());
}

#[test]
fn users_wait_before_they_ask_again() {
    let folder = with_trace("users");
    let (printed, Run { manifest, records, .. }) = recorded(&folder, &["--users", "20", "--seconds", "4"]);
    assert_eq!((manifest.closed.as_deref(), &printed["closed"]), (Some("20 users"), &"20 users".into()));
    assert_eq!(manifest.environment["trace"], "SURGE of 002");
    assert!(!records.is_empty() && records.iter().all(|record| record.outcome == Outcome::Complete));
    assert!(printed["rho_measured"].as_f64().unwrap() > 0.0);
}

#[test]
fn pages_are_recorded_beside_their_requests() {
    let folder = with_trace("pages");
    // A visit of one page, for whose images nobody has to scroll.
    let words = ["--pages", "--patient", "--rho", "0.8", "--seconds", "1", "--seed", "1"];
    let (_, Run { manifest, records, pages }) = recorded(&folder, &words);
    assert_eq!(
        (manifest.closed.as_deref(), manifest.environment["trace"].as_str()),
        (Some("page loads of the patient"), "visits of pages of the Web Almanac 2025")
    );
    assert!(!pages.is_empty() && records.iter().all(|record| record.client.unwrap() < pages.len() as u32));
    assert_eq!(pages.iter().map(|page| page.requests).sum::<u64>(), records.len() as u64);
    let in_order = |page: &PageRecord| page.first_view_ns <= page.with_fonts_ns && page.with_fonts_ns <= page.full_ns;
    assert!(pages.iter().all(|page| page.failed == 0 && !page.left && in_order(page)));
    let said = run(&["http://127.0.0.1:9/", "--pages", "--uplink", "10mbit", "--seconds", "1"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("--pages: how many is missing: write the load of the link, --rho 0.8"), "{said}");
    let said = run(&["http://127.0.0.1:9/", "--pages", "--uplink", "10mbit", "--rho", "0.8"]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("write --seconds too"));
}

#[test]
fn surge_is_asked_for_at_a_load() {
    let folder = with_trace("surge");
    let (printed, Run { manifest, records, .. }) = recorded(&folder, &["--surge", "--rho", "0.5", "--seconds", "2"]);
    assert_eq!((manifest.rho, &manifest.closed), (0.5, &None));
    assert!(records.len() > 20 && records.iter().all(|record| (76..=2_000_000).contains(&record.size_bytes)));
    assert!(printed["rho_measured"].as_f64().unwrap() > 0.1);
}

#[test]
fn nonsense_is_a_usage_error_in_one_line() {
    let (url, handed) = ("http://127.0.0.1:9/", r#"{"rho":1,"seconds":9}"#);
    for (words, part) in [
        (&["ftp://h/", "--rho", "0.8", "--uplink", "10mbit"][..], "`ftp://h/` is not a URL"),
        (&[url, "--rho", "0.8", "--uplink", "10mb/s"], "--uplink: `10mb/s` is not a rate"),
        (&[url, "--rho", "-1", "--uplink", "10mbit"], "--rho: "),
        (&[url, "--rho", "nan", "--uplink", "10mbit"], "--rho: "),
        (&[url, "--rate", "0", "--uplink", "10mbit"], "--rate: "),
        (&[url, "--rate", "inf", "--uplink", "10mbit"], "--rate: "),
        (&[url, "--rho", "1", "--uplink", "10mbit", "--seconds", "0"], "--seconds: "),
        (&[url, "--rho", "1", "--uplink", "10mbit", "--grace", "5"], "--grace: "),
        (&[url, "--rho", "1", "--uplink", "10mbit", "--per-connection", "0"], "--per-connection: "),
        (&[url, "--rho", "1", "--uplink", "10mbit", "--abort", "0s"], "--abort: "),
        (&[url, "--uplink", "10mbit"], "write --rho 0.8, --profile W1 or --rate 250"),
        (&[url, "--profile", "W11", "--uplink", "10mbit"], "--profile: `W11` is no load profile"),
        (&[url, "--profile", "5,0,0.2,1", "--uplink", "10mbit"], "--profile: a phase of 0 s"),
        (&[url, "--rho", "1", "--uplink", "10mbit", "--seconds", "1e9", "--repeat"], "--seconds: "),
        (&[url, "--surge=1999", "--rho", "1", "--uplink", "10mbit"], "--surge: `1999` is no model: write one of 000, "),
        (&[url, "--surge", "--rho", "1", "--uplink", "10gbit", "--seconds", "1e6"], "--seconds: "),
        (&[url, "--users", "0", "--uplink", "10mbit", "--seconds", "1"], "--users: 0 users"),
        (&[url, "--users", "5", "--uplink", "10mbit"], "--users: they ask without end: write --seconds too"),
        (&[url, "--uplink", "10mbit", "--seconds", "1"], "write --rho 0.8"),
        (&[url, "--rho", "1", "--uplink", "10mbit", "--client", "near"], "--client: `near` is no group"),
        (&[url, "--load", handed, "--uplink", "10mbit", "--seed", "4"], "'--load <JSON>' cannot be used with"),
        (&[url, "--load", r#"{"rho":1,"seconds":9,"rate":4}"#, "--uplink", "10mbit"], "unknown field `rate`"),
    ] {
        let (status, said) = refused(words);
        assert!(status == Some(2) && said.contains(part), "{status:?} {said}");
    }
}

#[test]
fn a_server_that_is_not_there_fails_at_once() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (status, said) = refused(&[&format!("http://{address}/"), "--rho", "0.8", "--uplink", "10mbit"]);
    assert!(status == Some(1) && said.contains("cannot connect") && said.contains("refused"), "{said}");
}

#[test]
fn a_server_without_http2_fails_at_once() {
    let url = format!("http://{}/files/", server());
    for words in [&["--h2", "100"][..], &["--h2", "100", "--tls"]] {
        let words = [&[url.as_str(), "--rho", "0.5", "--uplink", "10mbit"], words].concat();
        let (code, said) = refused(&words);
        assert!(code == Some(1) && said.contains("a first request over HTTP/2 ended without a response"), "{said}");
    }
    for (words, says) in [
        (["--h2", "0"], "0 streams on a connection: write 1 to 1000"),
        (["--client-connections", "0"], "0 connections of a client"),
    ] {
        let words = [&[url.as_str(), "--rho", "0.5", "--uplink", "10mbit"], &words[..]].concat();
        let (code, said) = refused(&words);
        assert!(code == Some(2) && said.contains(says), "{said}");
    }
}

/// It listens only on TCP.
#[test]
fn a_server_without_http3_fails_at_once() {
    let address = server();
    for (scheme, words, code, says) in [
        ("https", &["--h3", "100"][..], 1, "a first request over HTTP/3 ended without a response"),
        ("http", &["--h3", "100", "--tls"], 1, "leave --h3 out if it has no HTTP/3"),
        ("http", &["--h3", "100"], 2, "--h3: HTTP/3 is spoken over TLS alone: write the URL as https://HOST:PORT/"),
        ("https", &["--h3", "1001"], 2, "1001 streams on a connection: write 1 to 1000"),
        ("https", &["--h3", "6", "--h2", "6"], 2, "'--h3 <STREAMS>' cannot be used with '--h2 <STREAMS>'"),
        ("http", &["--full-handshakes"], 2, "--full-handshakes: without TLS there are none"),
    ] {
        let url = format!("{scheme}://{address}/files/");
        let (is, said) = refused(&[&[url.as_str(), "--rho", "0.5", "--uplink", "10mbit"], words].concat());
        assert!(is == Some(code) && said.contains(says), "{said}");
    }
}

#[test]
fn a_trace_that_is_not_there_is_named() {
    let (status, said) =
        refused(&["http://127.0.0.1:9/", "--trace", "/nonexistent", "--rho", "1", "--uplink", "10mbit"]);
    assert!(status == Some(1) && said.contains("/nonexistent: "), "{said}");
}

#[test]
fn a_recorded_run_is_not_written_over() {
    let folder = with_trace("twice");
    let url = format!("http://{}/files/", server());
    let (trace, out) = (folder.file("trace.csv"), folder.file("run"));
    let words = [&url, "--trace", &trace, "--rho", "0.5", "--uplink", "10mbit", "--out", &out];
    assert!(run(&words).status.success());
    let (status, said) = refused(&words);
    assert!(status == Some(2) && said.contains("already holds a run"), "{said}");
}

/// `/dev/full` represents a full disk.
#[test]
fn a_full_disk_is_said_with_the_name_of_the_file() {
    let folder = with_trace("full");
    let url = format!("http://{}/files/", server());
    let (trace, out) = (folder.file("trace.csv"), folder.file("run"));
    let words = [&url, "--trace", &trace, "--rho", "0.5", "--uplink", "10mbit", "--out", &out];
    std::fs::create_dir_all(&out).unwrap();
    let part = folder.path().join("run/.part-records.parquet");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let (status, said) = refused(&words);
    assert!(status == Some(1) && said.contains("records.parquet") && said.contains("No space left"), "{said}");
    assert!(!folder.path().join("run/manifest.json").exists() && !part.exists());
}

/// The server accepts nothing, so the first jobs are outstanding when the signal arrives, an hour before the last is
/// due.
#[test]
fn an_interrupted_run_is_written_and_void() {
    let folder = with_trace("interrupted");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::fs::write(folder.file("trace.csv"), "epoch_s,size_bytes,status\n0,100,200\n0.5,100,200\n9000000,100,200\n")
        .unwrap();
    let (trace, out) = (folder.file("trace.csv"), folder.file("run"));
    let words = [&url, "--trace", &trace, "--rho", "0.0000001", "--uplink", "10mbit", "--server", "x", "--out", &out];
    let child = load(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The probe of the server, and the first two jobs: the signal handlers have long been installed by then.
    let _accepted: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let run = Run::read(out.as_ref()).unwrap();
    assert!(run.manifest.void.unwrap().contains("interrupted after 2 of 3 jobs"));
    assert!(
        run.records.iter().all(|record| record.outcome == Outcome::Incomplete && Some(record.end_ns) > record.start_ns)
    );
}

/// Each class has as many requests in flight as it has clients, each on its own connection and from its customer's
/// folder.
#[test]
fn webstones_clients_ask_by_class() {
    let folder = with_trace("webstone");
    let (url, out) = (format!("http://{}/files/", server()), folder.file("run"));
    let words =
        ["--webstone", "WA", "--class", "A:3", "--class", "B:2=b.example", "--seconds", "1", "--uplink", "100mbit"];
    let output = run(&[&[url.as_str(), "--out", &out, "--json"], &words[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["closed"], "WebStone WA: A:3=/a/, B:2=b.example");
    let groups = found["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["A", "B"]);
    assert!(groups.iter().all(|group| group["per_s"].as_f64().unwrap() > 0.0 && group["completed"] == group["jobs"]));
    let kept = Run::read(std::path::Path::new(&out)).unwrap();
    assert_eq!(kept.manifest.clients, ["A", "B"]);
    assert!(kept.records.iter().all(|job| job.outcome == Outcome::Complete && job.size_bytes <= 115_000));
    // No client sends a request before its response: at any instant there are at most as many of a class as it has
    // clients.
    for (group, clients) in [(0, 3), (1, 2)] {
        let of_group = || kept.records.iter().filter(move |job| job.group == group);
        let under_way = |at: u64| of_group().filter(|job| job.arrival_ns <= at && at < job.end_ns).count();
        assert!(of_group().all(|job| under_way(job.arrival_ns) <= clients), "class {group}");
    }
}

#[test]
fn a_wrong_webstone_is_refused() {
    let url = "http://127.0.0.1:1/";
    for (words, expected) in [
        (&["--webstone", "WC", "--class", "A:1"][..], "`WC` is no workload of WebStone: write WA or WB"),
        (&["--webstone", "WA"], "--class: 0 classes: write 1 to 16"),
        (&["--webstone", "WA", "--class", "A:x"], "`A:x` is no class: write NAME:CLIENTS"),
        (&["--webstone", "WA", "--class", "A:1", "--class", "A:2"], "two classes are called `A`"),
        (&["--webstone", "WA", "--class", "A:1"], "--webstone: they ask without end: write --seconds too"),
    ] {
        let (status, said) = refused(&[&[url, "--uplink", "10mbit"], words].concat());
        assert!(status == Some(2) && said.contains(expected), "{words:?}: {said}");
    }
}
