use std::fs;
use std::path::Path;

use record::{Outcome, Run};

use super::*;
use crate::config::{Config, Limits, Listen};
use crate::files::temporary::Folder;
use crate::log::said::Said;
use crate::{DrainChoice, DrainKind, DrainOptions};

const ORIGIN: Nanos = Nanos::from_secs(100);

/// A response of 1,000 bytes that arrived so many milliseconds after the beginning, and took five.
fn row(arrival_ms: u64, opens: bool) -> Row {
    let at = |ms: u64| (ORIGIN + Nanos::from_millis(ms)).0;
    let record = JobRecord {
        job: JobRecord::UNNUMBERED,
        size_bytes: 1000,
        head_bytes: 200,
        arrival_ns: at(arrival_ms),
        start_ns: None,
        first_byte_ns: Some(at(arrival_ms + 1)),
        end_ns: at(arrival_ms + 5),
        body_bytes: 1000,
        status: 200,
        outcome: Outcome::Complete,
        attempts: 1,
        group: 0,
        client: None,
        ahead_bytes: None,
    };
    Row { record, opens }
}

fn about(path: &Path, uplink: Option<&str>) -> About {
    let listen: std::net::SocketAddr = "[::1]:8080".parse().unwrap();
    let options = DrainOptions {
        classes: None,
        kind: DrainKind::Auto,
        policy: "srpt".parse().unwrap(),
        client_share: Default::default(),
        guard_permille: 10,
        foreign_permille: 500,
        uplink: uplink.unwrap_or("off").parse().unwrap(),
        kept: vec![],
    };
    let records = RecordsConfig {
        path: path.into(),
        command: vec!["weir".into(), "serve".into()],
        version: "1.2.3".into(),
        commit: "abc".into(),
    };
    let config = Config {
        sites: vec![crate::sites::SiteConfig::alone("/".into(), Default::default())],
        passed: vec![],
        listen: vec![Listen { address: listen, is_secure: false, has_http3: false }],
        privileges: Default::default(),
        watchdog: None,
        backlog: 1,
        workers: 3,
        keeper: None,
        drain: DrainChoice::find(&options, listen).unwrap(),
        assigned: None,
        limits: Limits::default(),
        access_log: None,
        records: None,
    };
    About::new(&records, &config, listen)
}

/// A recorder whose thread has not been started: `Writer::run` does its work when the test says so.
fn recorder_to(path: &Path, messages_max: usize) -> (Recorder, Writer, Said) {
    let said = Said::default();
    let output = thread::begin(path).unwrap();
    let parts = Writer::parts(output, Complaints(Box::new(said.clone())), about(path, Some("10mbit")), ORIGIN);
    let (recorder, writer) = Recorder::with(parts, messages_max);
    (recorder, writer, said)
}

/// Ends as a server does: workers first.
fn finish(recorder: Recorder, writer: Writer) -> Result<(), FileError> {
    let messages = recorder.messages.clone();
    drop(recorder);
    let stop = std::thread::spawn(move || messages.send(Message::Stop).unwrap());
    let written = writer.run();
    stop.join().unwrap();
    written
}

/// Rows that arrived at these milliseconds, written by the time this returns.
fn write(recorder: &mut Recorder, writer: &mut Writer, arrivals_ms: &[u64]) {
    arrivals_ms.iter().for_each(|&arrival_ms| recorder.write(Nanos::ZERO, row(arrival_ms, true)));
    recorder.send();
    while let Ok(message) = writer.received.try_recv() {
        writer.handle(message);
    }
}

fn arrivals(run: &Run) -> Vec<u64> {
    run.records.iter().map(|record| record.arrival_ns / 1_000_000).collect()
}

#[test]
fn rows_of_all_workers_are_a_run_that_reads_back() {
    let folder = Folder::new();
    let path = folder.path("records.csv");
    let threads = Threads::start(None, || {}).unwrap();
    threads.expect_ends();
    let (mut first, finisher) = Recorder::start(path.clone(), about(&path, Some("10mbit")), ORIGIN, &threads).unwrap();
    let mut second = first.clone();
    // They end in another order than they arrive.
    second.write(ORIGIN, row(7, true));
    first.write(ORIGIN, row(5, true));
    first.write(ORIGIN, row(9, false));
    drop((first, second));
    finisher.finish().unwrap();
    let run = Run::read(&folder.path("")).unwrap();
    assert_eq!(arrivals(&run), [5, 7, 9]);
    let times = |record: &JobRecord| (record.job, record.first_byte_ns, record.end_ns, record.start_ns);
    assert_eq!(times(&run.records[1]), (1, Some(8_000_000), 12_000_000, None));
    let manifest = run.manifest;
    assert!(manifest.is_of_server() && manifest.void.is_none());
    assert_eq!((manifest.server.as_str(), manifest.drain.as_str()), ("weir", "paced"));
    assert_eq!((manifest.policy.as_str(), manifest.link_bps, manifest.commit.as_str()), ("srpt", 10_000_000, "abc"));
    assert_eq!(manifest.command, ["weir", "serve"]);
    assert_eq!(manifest.per_connection, 2, "three on two connections");
    assert!(manifest.seconds > 0.0 && manifest.rho > 0.0 && manifest.server_cpu.is_some());
    let said = |name: &str| manifest.environment[name].as_str();
    assert_eq!((said("rows_written"), said("rows_lost_in_queue"), said("listen")), ("3", "0", "[::1]:8080"));
}

/// What came, in wire bytes of responses and connections, over what the link carries.
#[test]
fn the_load_is_what_came() {
    let mut tally = manifest::Tally::new(ORIGIN);
    (0..10).for_each(|number| tally.add(&row(number, number % 5 == 0)));
    let manifest = about(Path::new("r.csv"), Some("10mbit")).manifest(&tally, (0, 0), ORIGIN + Nanos::from_secs(2));
    // 1,200 bytes in one segment of 1,266, and 206 for each connection, in two seconds of 1.25 MB each.
    assert!((manifest.rho - (10.0 * 1266.0 + 2.0 * 206.0) / 2.5e6).abs() < 1e-12, "{}", manifest.rho);
    assert_eq!((manifest.per_connection, manifest.seconds), (5, 2.0));
}

#[test]
fn a_link_that_is_not_known_is_no_link() {
    let tally = manifest::Tally::new(ORIGIN);
    let manifest = about(Path::new("r.csv"), None).manifest(&tally, (0, 0), ORIGIN + Nanos::from_secs(2));
    assert_eq!((manifest.link_bps, manifest.rho, manifest.drain.as_str()), (0, 0.0, "off"));
    assert_eq!(manifest.per_connection, 1, "of none at least one, as readers expect");
}

#[test]
fn rows_are_sent_together_and_wait_a_second_at_most() {
    let folder = Folder::new();
    let (mut recorder, writer, _) = recorder_to(&folder.path("records.csv"), 8);
    let _writer = &writer;
    let now = Nanos::from_secs(500);
    assert_eq!(recorder.flush(now), None);
    recorder.write(now, row(1, true));
    assert_eq!(recorder.flush(now), Some(now + FLUSH_AFTER));
    recorder.write(now + Nanos(5), row(2, true));
    assert_eq!(recorder.flush(now + FLUSH_AFTER - Nanos(1)), Some(now + FLUSH_AFTER));
    assert_eq!(recorder.rows.len(), 2);
    assert_eq!(recorder.flush(now + FLUSH_AFTER), None);
    (0..ROWS_PER_MESSAGE as u64 - 1).for_each(|number| recorder.write(now, row(number, true)));
    assert_eq!(recorder.rows.len(), ROWS_PER_MESSAGE - 1);
    recorder.write(now, row(0, true));
    assert!(recorder.rows.is_empty() && recorder.flush(now).is_none());
}

/// The disk stands still: who serves goes on, what is lost is counted, and the run says that it is not whole.
#[test]
fn a_full_queue_loses_rows_and_counts_them() {
    let folder = Folder::new();
    let (mut recorder, writer, said) = recorder_to(&folder.path("records.csv"), 2);
    for number in 0..4 {
        recorder.write(Nanos::ZERO, row(number, true));
        recorder.write(Nanos::ZERO, row(number + 10, true));
        recorder.send();
    }
    recorder.lose(1);
    finish(recorder, writer).unwrap();
    let run = Run::read(&folder.path("")).unwrap();
    assert_eq!(arrivals(&run), [0, 1, 10, 11]);
    assert_eq!(run.manifest.void.as_deref(), Some("5 of 9 rows were lost"));
    assert_eq!(run.manifest.environment["rows_lost_in_queue"], "5");
    let told = "weir: records: 5 of 9 rows lost: 5 for want of room in memory, 0 that could not be written";
    assert_eq!(said.lines(), [told]);
}

#[test]
fn a_disk_that_is_full_from_some_row_on_is_told_and_counted() {
    let folder = Folder::new();
    let (path, disk) = (folder.path("records.csv"), folder.path("disk.csv"));
    let (mut recorder, mut writer, said) = recorder_to(&path, 8);
    write(&mut recorder, &mut writer, &[1]);
    fs::rename(&path, folder.path("records.csv.1")).unwrap();
    // Its head does not fit either, so the old file is kept.
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    recorder.reopen();
    write(&mut recorder, &mut writer, &[2]);
    assert!(said.lines().len() == 1 && said.lines()[0].contains("records: cannot reopen"), "{:?}", said.lines());
    writer.parts.sink.output.file = Some(fs::File::options().append(true).open("/dev/full").unwrap());
    write(&mut recorder, &mut writer, &[3, 4]);
    write(&mut recorder, &mut writer, &[5]);
    assert!(said.lines().len() == 2 && said.lines()[1].contains("No space left"), "{:?}", said.lines());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&disk, &path).unwrap();
    recorder.reopen();
    write(&mut recorder, &mut writer, &[6]);
    finish(recorder, writer).unwrap();
    let run = Run::read(&folder.path("")).unwrap();
    assert_eq!(arrivals(&run), [6]);
    assert_eq!(run.manifest.void, None, "of the file that is here nothing is missing");
    let told = "weir: records: 3 of 6 rows lost: 0 for want of room in memory, 3 that could not be written";
    assert_eq!(
        said.lines()[2..],
        [format!("weir: records: writing {} again, 3 lines lost", path.display()), told.into()]
    );
}

#[test]
fn a_rotation_begins_a_file_of_its_own() {
    let folder = Folder::new();
    let (path, old) = (folder.path("records.csv"), folder.path("records.csv.1"));
    let (mut recorder, mut writer, _) = recorder_to(&path, 8);
    write(&mut recorder, &mut writer, &[1, 2]);
    fs::rename(&path, &old).unwrap();
    write(&mut recorder, &mut writer, &[3]);
    recorder.reopen();
    write(&mut recorder, &mut writer, &[4]);
    // Nothing was moved away this time: it goes on where it was.
    recorder.reopen();
    write(&mut recorder, &mut writer, &[5]);
    finish(recorder, writer).unwrap();
    let run = Run::read(&folder.path("")).unwrap();
    assert_eq!(arrivals(&run), [4, 5]);
    assert_eq!(run.manifest.environment["file_reopened"], "2");
    let lines = fs::read_to_string(&old).unwrap();
    assert!(lines.starts_with("job,size_bytes,") && lines.lines().count() == 4, "{lines}");
}

#[test]
fn what_cannot_be_written_is_refused_at_the_start() {
    let folder = Folder::new();
    let said = |path: &Path| thread::begin(path).unwrap_err().to_string();
    let missing = folder.path("missing/records.csv");
    assert!(said(&missing).contains(&missing.display().to_string()) && said(&missing).contains("No such file"));
    assert!(said(Path::new("/dev/full")).contains("/dev/full`: No space left"));
    assert!(said(&folder.path("")).contains("directory"), "{}", said(&folder.path("")));
    assert!(said(&folder.path("r.parquet")).ends_with("name a file that ends in .csv"));
    let rows = folder.put("rows.csv", [&record::text_head()[..], b"1,2\n"].concat());
    assert!(said(&rows).contains("hold another run"));
    let head = folder.put("head.csv", &record::text_head()[..7]);
    thread::begin(&head).unwrap();
    assert_eq!(fs::read(&head).unwrap(), record::text_head());
    folder.put("run/manifest.json", "{}");
    assert!(said(&folder.path("run/records.csv")).contains("holds another run"));
}

/// As where the disk with the manifest's folder is gone.
#[test]
fn a_manifest_that_cannot_be_written_is_told() {
    let folder = Folder::new();
    let path = folder.put("run/records.csv", "");
    let (recorder, writer, _) = recorder_to(&path, 8);
    fs::remove_dir_all(folder.path("run")).unwrap();
    let error = RecordsError::Manifest(finish(recorder, writer).unwrap_err()).to_string();
    assert!(error.contains("run/manifest.json: No such file"), "{error}");
}

/// A thread that waits for its disk is not waited for without end, be its channel full or its last write never done.
#[test]
fn a_disk_that_stands_still_does_not_keep_the_server() {
    for room in [0, 1] {
        let (messages, _received) = sync_channel(room);
        let (_tell, ended) = sync_channel(1);
        let finisher = Finisher { messages, ended, path: "r.csv".into() };
        let late = finisher.finish_within(Duration::from_millis(20)).unwrap_err().to_string();
        assert!(late.contains("`r.csv`: not all written after 20ms"), "{late}");
    }
}
