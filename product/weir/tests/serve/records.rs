//! Records of responses: a row for each, however it ends, in the format that the laboratory reads.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use record::{JobRecord, Outcome, Run};
use rustix::process::Signal;

use crate::common::{Client, Server, Site, WRITE_PATHS, get, run_to_end, wait_until};

const LARGE: usize = 8 << 20;

fn site() -> Site {
    Site::of_sizes(&[10, 100_000, LARGE])
}

/// A folder of a run, and its file.
fn folder(site: &Site, name: &str) -> (PathBuf, String) {
    let folder = site.outside(name);
    fs::create_dir(&folder).unwrap();
    let file = folder.join("records.csv").display().to_string();
    (folder, file)
}

/// Ends the server; its rows are in order of arrival.
fn stop(server: &Server, folder: &Path) -> Run {
    server.signal(Signal::TERM);
    assert_eq!(server.exit_status().code(), Some(0), "{:?}", server.stderr());
    let complaints: Vec<String> = server.stderr().into_iter().filter(|line| line.contains("records")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let run = Run::read(folder).unwrap();
    for (number, record) in run.records.iter().enumerate() {
        assert_eq!((record.job, record.start_ns, record.attempts), (number as u64, None, 1));
        assert!(record.arrival_ns <= record.end_ns && record.first_byte_ns <= Some(record.end_ns), "{record:?}");
    }
    run
}

/// Status, bytes of body asked for and sent, outcome.
fn what(record: &JobRecord) -> (u16, u64, u64, Outcome) {
    (record.status, record.size_bytes, record.body_bytes, record.outcome)
}

fn complete(status: u16, bytes: u64) -> (u16, u64, u64, Outcome) {
    (status, bytes, bytes, Outcome::Complete)
}

#[test]
fn every_response_has_its_row_and_the_run_its_manifest() {
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let (folder, file) = folder(&site, &format!("run-{number}"));
        let server = Server::start(&site, &[path, &["--records", &file, "--workers", "2"]].concat());
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
        let Run { manifest, records, .. } = stop(&server, &folder);
        let seen: Vec<_> = records.iter().map(what).collect();
        let wrong = (404, absent, absent, Outcome::Wrong);
        let served = [complete(200, 10), complete(200, 100_000), complete(200, 0), complete(206, 20), wrong];
        assert_eq!(seen[..5], served, "{path:?}");
        let left = &records[5];
        assert_eq!((seen.len(), left.status, left.outcome), (6, 200, Outcome::Reset), "{path:?}");
        assert!(left.size_bytes == LARGE as u64 && left.body_bytes < left.size_bytes && left.head_bytes > 0);
        assert!(records.iter().all(|record| record.first_byte_ns.is_some()));
        assert!(records.windows(2).all(|pair| pair[0].arrival_ns <= pair[1].arrival_ns));
        assert!(manifest.is_of_server() && manifest.void.is_none());
        let is_paced = path[1] == "paced";
        let link_bps = if path[3] == "100mbit" { 100_000_000 } else { 0 };
        let expected = if is_paced { ("paced", "srpt", link_bps) } else { ("off", path[3], 0) };
        assert_eq!((manifest.drain.as_str(), manifest.policy.as_str(), manifest.link_bps), expected);
        assert!(manifest.command.contains(&file) && manifest.environment["rows_written"] == "6");
        assert_eq!((manifest.environment["connections"].as_str(), manifest.per_connection), ("3", 2));
    }
}

#[test]
fn ipv6_is_recorded_alike() {
    if let Err(error) = TcpListener::bind("[::1]:0") {
        println!("SKIPPED: no IPv6 here: {error}");
        return;
    }
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let (folder, file) = folder(&site, &format!("run-{number}"));
        let server = Server::start_at("[::1]:0", &site, &[path, &["--records", &file]].concat());
        let mut kept = server.connect();
        // The second is asked for before the first is answered.
        kept.send(get("/size-100000") + &get("/size-10"));
        assert_eq!((kept.response().body.len(), kept.response().body.len()), (100_000, 10));
        let run = stop(&server, &folder);
        assert_eq!(run.records.iter().map(what).collect::<Vec<_>>(), [complete(200, 100_000), complete(200, 10)]);
        let [first, second] = &run.records[..] else { unreachable!() };
        assert!(second.arrival_ns >= first.arrival_ns && second.first_byte_ns >= Some(first.end_ns), "{path:?}");
        assert!(run.manifest.environment["listen"].starts_with("[::1]:"));
    }
}

/// A reader that takes nothing, and a stop that does not wait for it.
#[test]
fn what_the_stop_cuts_is_incomplete() {
    let site = site();
    for (number, path) in WRITE_PATHS.into_iter().enumerate() {
        let (folder, file) = folder(&site, &format!("run-{number}"));
        let server = Server::start(&site, &[path, &["--records", &file, "--stop-timeout", "200ms"]].concat());
        let mut slow = Client::connect_narrow(server.address);
        slow.send(get(&format!("/size-{LARGE}")));
        assert_eq!(slow.head().0, 200);
        let run = stop(&server, &folder);
        let [record] = &run.records[..] else { panic!("{path:?}: {:?}", run.records) };
        assert_eq!((record.status, record.outcome), (200, Outcome::Incomplete), "{path:?}");
        assert!(record.body_bytes < LARGE as u64 && record.end_ns - record.arrival_ns >= 200_000_000, "{record:?}");
    }
}

/// The old file keeps what it had, the new one is a run of its own.
#[test]
fn a_signal_opens_the_file_anew() {
    for signal in [Signal::HUP, Signal::USR1] {
        let site = site();
        let (folder, file) = folder(&site, "run");
        let server = Server::start(&site, &["--records", &file, "--workers", "1"]);
        assert_eq!(server.connect().get("/size-10").status, 200);
        let old = folder.join("records.csv.1");
        let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default().lines().count();
        wait_until("the row", || lines(file.as_ref()) == 2);
        fs::rename(&file, &old).unwrap();
        server.signal(signal);
        wait_until("a new file", || lines(file.as_ref()) == 1);
        assert_eq!(server.connect().get("/size-100000").status, 200);
        let run = stop(&server, &folder);
        assert_eq!(run.records.iter().map(what).collect::<Vec<_>>(), [complete(200, 100_000)]);
        assert_eq!((lines(&old), run.manifest.environment["file_reopened"].as_str()), (2, "1"));
    }
}

#[test]
fn what_cannot_be_recorded_is_told_at_the_start() {
    let site = site();
    let dir = site.served().display().to_string();
    let (run, file) = folder(&site, "run");
    let missing = site.outside("missing/records.csv").display().to_string();
    let columns = run.join("records.parquet").display().to_string();
    fs::write(run.join("manifest.json"), "{}").unwrap();
    for (file, mentions) in
        [(missing.as_str(), "No such file"), ("/dev/full", "No space left"), (&columns, ".csv"), (&file, "another run")]
    {
        let output = run_to_end(&["serve", &dir, "--listen", "127.0.0.1:0", "--records", file]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len(), said.lines().count()), (Some(1), 0, 1), "{said}");
        let folder = Path::new(file).parent().unwrap().display().to_string();
        assert!(said.starts_with("weir: ") && said.contains(mentions) && said.contains(&folder), "{said}");
    }
}
