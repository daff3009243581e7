//! The access log: one line per response, with what really happened, and never a delay of responses.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::common::{Client, LogLine, Server, Site, WRITE_PATHS, get, on_every_path, read_log, wait_until};

const LARGE: usize = 4 << 20;

/// Requests, and the log line of each without its time.
const CASES: [(&str, &str); 12] = [
    ("GET /a HTTP/1.1\r\nHost: a\r\n\r\n", r#""GET /a HTTP/1.1" 200 5 "-" "-""#),
    (
        "GET /a?x=1 HTTP/1.1\r\nHost: a\r\nReferer: http://b/\r\nUser-Agent: test/1\r\n\r\n",
        r#""GET /a?x=1 HTTP/1.1" 200 5 "http://b/" "test/1""#,
    ),
    ("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n", r#""HEAD /a HTTP/1.1" 200 0 "-" "-""#),
    ("GET /empty HTTP/1.1\r\nHost: a\r\n\r\n", r#""GET /empty HTTP/1.1" 200 0 "-" "-""#),
    ("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=1-3\r\n\r\n", r#""GET /a HTTP/1.1" 206 3 "-" "-""#),
    ("GET /a HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", r#""GET /a HTTP/1.1" 304 0 "-" "-""#),
    ("GET /size-4194304 HTTP/1.1\r\nHost: a\r\n\r\n", r#""GET /size-4194304 HTTP/1.1" 200 4194304 "-" "-""#),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", r#""OPTIONS * HTTP/1.1" 204 0 "-" "-""#),
    ("GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: \"x\\\x1b\r\n\r\n", r#""GET /a HTTP/1.1" 400 "#),
    ("GET /a\x7f\"b HTTP/1.1\r\n\r\n", r#""GET /a\x7F\x22b HTTP/1.1" 400 "#),
    ("\x16\x03\x01\x02\r\n\r\n", r#""\x16\x03\x01\x02" 400 "#),
    ("GET /a HTTP/1.0\r\n\r\n", r#""GET /a HTTP/1.0" 200 5 "-" "-""#),
];

fn site() -> Site {
    let site = Site::of_sizes(&[LARGE]);
    site.write("a", b"hello");
    site.write("empty", b"");
    site
}

fn lines(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_string).collect()
}

/// Sends a request and takes the whole response.
fn ask(server: &Server, request: &str) {
    let mut client = server.connect();
    client.send(request);
    client.finish();
    client.rest();
}

#[test]
fn combined_lines_are_exact() {
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let log = site.outside(&format!("log-{number}"));
        let server = Server::start(&site, &[path, &["--access-log", log.to_str().unwrap()]].concat());
        for (at, (request, expected)) in CASES.into_iter().enumerate() {
            ask(&server, request);
            wait_until("the line", || lines(&log).len() > at);
            let line = lines(&log).pop().unwrap();
            let (before, rest) = line.split_once('[').unwrap();
            let (time, said) = rest.split_once("] ").unwrap();
            assert_eq!(before, "127.0.0.1 - - ");
            assert!(time.len() == 26 && time.ends_with(" +0000"), "not a time: {time}");
            assert!(
                said == expected || (expected.ends_with("400 ") && said.starts_with(expected)),
                "{request}: {said}"
            );
        }
        assert_eq!(lines(&log).len(), CASES.len(), "more lines than responses");
    }
}

#[test]
fn json_lines_are_exact() {
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let log = site.outside(&format!("log-{number}"));
        let args = ["--access-log", log.to_str().unwrap(), "--log-format", "json"];
        let server = Server::start(&site, &[path, &args].concat());
        ask(&server, "GET /a?x=\"\\ HTTP/1.1\r\nHost: a\r\nUser-Agent: t\"\\\u{e9}\r\n\r\n");
        wait_until("the line", || lines(&log).len() == 1);
        let line = lines(&log).remove(0);
        let (start, rest) = line.split_once("\"first_byte_ms\":").unwrap();
        let (_, end) = rest.split_once("\"connection_reused\":false,").unwrap();
        let (time, start) = start.strip_prefix("{\"start_time\":\"").unwrap().split_at(30);
        assert!(
            time.ends_with('Z') && time[10..].starts_with('T') && time[19..].starts_with('.'),
            "not a time: {time}"
        );
        let expected = r#"","remote_addr":"127.0.0.1","method":"GET","uri":"/a?x=\"\\","host":"a","protocol":"HTTP/1.1","status":200,"content_length":5,"head_bytes":"#;
        let head = start.strip_prefix(expected).and_then(|rest| rest.strip_suffix(",\"body_bytes\":5,")).unwrap();
        assert!(head.parse::<usize>().unwrap() > 50, "{line}");
        // With an order over time, clients share the link, and this one has received half of its response beyond its
        // share. Until there is a rate, bytes sent immediately are not a share of anything.
        let ahead = end.strip_prefix("\"client_over_share_bytes\":").and_then(|rest| rest.split_once(','));
        assert_eq!(ahead.is_some(), path.contains(&"paced"), "{line}");
        assert!(
            ahead.is_none_or(|(bytes, _)| if path.contains(&"auto") {
                bytes == "0"
            } else {
                (100..200).contains(&bytes.parse().unwrap())
            }),
            "{line}"
        );
        let end = ahead.map_or(end, |(_, rest)| rest);
        assert_eq!(end, "\"outcome\":\"complete\",\"user_agent\":\"t\\\"\\\\\u{e9}\"}");
    }
}

/// Requests that are refused before their site is known are in the log of the default site if the server has none.
#[test]
fn refused_requests_are_in_the_log_of_the_default_site() {
    let site = Site::with(&[("a", b"hello")]);
    let logs = ["log-0", "log-1"].map(|name| site.outside(name));
    let own = |host: &str, rest: &str, log: &Path| {
        let (root, log) = (site.served().display().to_string(), log.display());
        format!("[[site]]\nhosts = ['{host}']\n{rest}root = '{root}'\naccess_log = '{log}'\n")
    };
    let sites = [own("other", "", &logs[0]), own("a", "default = true\n", &logs[1])].concat();
    let file = site.outside("weir.toml");
    fs::write(&file, format!("[[listener]]\naddress = '127.0.0.1:0'\n{sites}")).unwrap();
    let server = Server::run(&file);
    let long = "c".repeat(70_000);
    for (request, status) in [
        ("GET /a HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n", " 400 "),
        (&*format!("GET /a HTTP/1.1\r\nHost: a\r\nCookie: {long}\r\n\r\n"), " 431 "),
        (&*format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), " 414 "),
        ("GET /a HTTP/1.1\r\nHost: other\r\n\r\n", ""),
    ] {
        ask(&server, request);
        wait_until("the line", || {
            status.is_empty() || lines(&logs[1]).last().is_some_and(|line| line.contains(status))
        });
    }
    wait_until("the other site's line", || lines(&logs[0]).len() == 1);
    assert_eq!(lines(&logs[1]).len(), 3);
}

/// A refusal's line contains the received bytes, as far as they are known, and the reason.
#[test]
fn a_refused_request_is_logged_with_its_reason() {
    let cases = [
        (
            "GET /a?x HTTP/1.1\r\n\r\n",
            r#""method":"GET","uri":"/a?x","protocol":"HTTP/1.1","status":400,"#,
            "no host field",
        ),
        (
            "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nGET /d HTTP/1.1\r\n",
            r#""method":"POST","uri":"/c","protocol":"HTTP/1.1","status":400,"#,
            "malformed chunk size",
        ),
        ("GET /a\u{202e}b HTTP/2.0\r\n\r\n", r#""request":"GET /a\u202eb HTTP/2.0","status":"#, ""),
    ];
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let log = site.outside(&format!("log-{number}"));
        let args = ["--access-log", log.to_str().unwrap(), "--log-format", "json"];
        let server = Server::start(&site, &[path, &args].concat());
        for (at, (request, said, reason)) in cases.into_iter().enumerate() {
            ask(&server, request);
            wait_until("the line", || lines(&log).len() > at);
            let line = lines(&log).pop().unwrap();
            assert!(line.contains(said), "{request}: {line}");
            assert!(line.contains(&format!("\"reason\":\"{reason}")), "{request}: {line}");
        }
    }
}

/// A server that logs in JSON, and its log.
fn start_in_json(site: &Site, name: &str, address: &str, words: &[&str]) -> (Server, PathBuf) {
    let log = site.outside(&format!("{name}.json"));
    let words = [words, &["--access-log", log.to_str().unwrap(), "--log-format", "json"]].concat();
    (Server::start_at(address, site, &words), log)
}

/// Ends the server and reads its log.
fn stop(server: &Server, log: &Path) -> Vec<LogLine> {
    server.signal(Signal::TERM);
    assert_eq!(server.exit_status().code(), Some(0), "{:?}", server.stderr());
    let lines = read_log(log).unwrap();
    for line in &lines {
        assert!(line.first_byte_ms <= Some(line.duration_ms), "{line:?}");
    }
    lines
}

/// Returns status, requested bytes of body, sent bytes of body, outcome.
fn what(line: &LogLine) -> (u16, u64, u64, &str) {
    (line.status, line.content_length, line.body_bytes, &line.outcome)
}

fn complete(status: u16, bytes: u64) -> (u16, u64, u64, &'static str) {
    (status, bytes, bytes, "complete")
}

/// The bytes that a client took before it left are counted, not the requested ones.
#[test]
fn the_log_has_what_was_sent() {
    let site = Site::of_sizes(&[10, 100_000, LARGE]);
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let words = [path, &["--workers", "2"]].concat();
        let (server, log) = start_in_json(&site, &format!("run-{number}"), "127.0.0.1:0", &words);
        let mut kept = server.connect();
        assert_eq!(kept.get("/size-10").status, 200);
        assert_eq!(kept.get("/size-100000").status, 200);
        kept.send("HEAD /size-100000 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(kept.response_to_head().status, 200);
        kept.send("GET /size-100000 HTTP/1.1\r\nHost: a\r\nRange: bytes=5-24\r\n\r\n");
        assert_eq!(kept.response().body.len(), 20);
        let absent = server.connect().get("/absent").body.len() as u64;
        let mut leaving = Client::connect_narrow(server.address);
        leaving.send(get(&format!("/size-{LARGE}")));
        assert_eq!(leaving.head().0, 200);
        leaving.reset();
        let lines = stop(&server, &log);
        let seen: Vec<_> = lines.iter().map(what).collect();
        let found = [complete(200, 10), complete(200, 100_000), complete(200, 0), complete(206, 20)];
        let served = [&found[..], &[complete(404, absent)]].concat();
        assert_eq!(seen[..5], served, "{path:?}");
        let left = &lines[5];
        assert_eq!((seen.len(), left.status, left.outcome.as_str()), (6, 200, "reset"), "{path:?}");
        assert!(left.content_length == LARGE as u64 && left.body_bytes < left.content_length);
        assert!(lines.iter().all(|line| line.first_byte_ms.is_some() && line.head_bytes > 0));
        assert_eq!(lines.iter().filter(|line| !line.connection_reused).count(), 3, "{path:?}");
        assert!(lines.iter().all(|line| line.class.is_none()));
    }
}

#[test]
fn a_pipeline_over_ipv6_is_logged_alike() {
    if let Err(error) = TcpListener::bind("[::1]:0") {
        println!("SKIPPED: no IPv6 here: {error}");
        return;
    }
    let site = Site::of_sizes(&[10, 100_000]);
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let (server, log) = start_in_json(&site, &format!("ipv6-{number}"), "[::1]:0", path);
        let mut kept = server.connect();
        // The second is requested before the first is answered.
        kept.send(get("/size-100000") + &get("/size-10"));
        assert_eq!((kept.response().body.len(), kept.response().body.len()), (100_000, 10));
        let read = stop(&server, &log);
        assert_eq!(read.iter().map(what).collect::<Vec<_>>(), [complete(200, 100_000), complete(200, 10)]);
        assert!(lines(&log).iter().all(|line| line.contains("\"remote_addr\":\"::1\"")), "{path:?}");
    }
}

/// A reader takes nothing, and the stop does not wait for it.
#[test]
fn what_the_stop_cuts_is_incomplete() {
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let words = [path, &["--shutdown-timeout", "200ms"]].concat();
        let (server, log) = start_in_json(&site, &format!("stop-{number}"), "127.0.0.1:0", &words);
        let mut slow = Client::connect_narrow(server.address);
        slow.send(get(&format!("/size-{LARGE}")));
        assert_eq!(slow.head().0, 200);
        let read = stop(&server, &log);
        let [line] = &read[..] else { panic!("{path:?}: {read:?}") };
        assert_eq!((line.status, line.outcome.as_str()), (200, "incomplete"), "{path:?}");
        assert!(line.body_bytes < LARGE as u64 && line.duration_ms >= 200.0, "{line:?}");
    }
}

#[test]
fn every_request_of_a_pipeline_has_its_line() {
    const REQUESTS: usize = 2000;
    let site = site();
    on_every_path(&site, &["--access-log", "-"], |server| {
        let mut client = server.connect();
        client.send((0..REQUESTS).map(|number| get(&format!("/a?{number}"))).collect::<String>());
        (0..REQUESTS).for_each(|_| assert_eq!(client.response().text(), "hello"));
        wait_until("all lines", || server.stdout().len() == REQUESTS);
        for (number, line) in server.stdout().iter().enumerate() {
            assert!(line.contains(&format!("\"GET /a?{number} HTTP/1.1\" 200 5 ")), "{number}: {line}");
        }
    });
}

/// Under a umask of 0, which supervisors have, all users could otherwise write it.
#[test]
fn a_new_log_is_for_its_user_and_group() {
    let site = Site::with(&[("a", b"hello")]);
    let (log, before) = (site.outside("access.log"), site.outside("access.log.1"));
    let under = ["sh", "-c", "umask 0; exec \"$0\" \"$@\""];
    let server = Server::start_under(&under, "127.0.0.1:0", &site, &["--access-log", log.to_str().unwrap()]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&log), 0o640);
    fs::rename(&log, &before).unwrap();
    server.signal(Signal::USR1);
    wait_until("it is opened again", || log.exists());
    assert_eq!((mode(&log), mode(&before)), (0o640, 0o640));
}

/// SIGUSR1 is the signal for log rotation in nginx; earlier it ended the server.
#[test]
fn a_signal_opens_the_log_anew() {
    for signal in [Signal::HUP, Signal::USR1] {
        let site = site();
        let (log, old) = (site.outside("log"), site.outside("log.1"));
        let server = Server::start(&site, &["--access-log", log.to_str().unwrap()]);
        ask(&server, &get("/a?before"));
        wait_until("the first line", || lines(&log).len() == 1);
        fs::rename(&log, &old).unwrap();
        ask(&server, &get("/a?between"));
        wait_until("a line in the renamed file", || lines(&old).len() == 2);
        server.signal(signal);
        wait_until("a new file", || log.exists());
        ask(&server, &get("/a?after"));
        wait_until("a line in the new file", || lines(&log).len() == 1);
        assert!(lines(&log)[0].contains("/a?after"));
        assert_eq!(lines(&old).len(), 2);
        server.assert_alive();
    }
}

/// The disk is full: the server continues, and reports it once.
#[test]
fn a_full_disk_stops_nobody() {
    let site = site();
    on_every_path(&site, &["--access-log", "/dev/full"], |server| {
        for _ in 0..3 {
            let mut client = server.connect();
            (0..20).for_each(|_| assert_eq!(client.get("/a").text(), "hello"));
        }
        wait_until("a line about it", || !server.stderr().is_empty());
        let said = server.stderr();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("weir: access log: cannot write /dev/full: No space left on device"), "{said:?}");
    });
}

/// All lines are written before the end.
#[test]
fn nothing_is_lost_at_the_end() {
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let log = site.outside(&format!("log-{number}"));
        let server = Server::start(&site, &[path, &["--access-log", log.to_str().unwrap()]].concat());
        let mut client = server.connect();
        (0..100).for_each(|_| assert_eq!(client.get("/a").text(), "hello"));
        server.signal(Signal::TERM);
        assert_eq!(server.exit_status().code(), Some(0));
        assert_eq!(lines(&log).len(), 100);
    }
}
