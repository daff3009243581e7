use super::*;
use std::fs;
use std::path::Path;

use crate::files::temporary::Folder;
use crate::log::said::Said;

fn entry(target: &'static [u8]) -> Entry<'static> {
    Entry {
        remote: "198.18.0.7:4711".parse().unwrap(),
        unix_s: 0,
        method: b"GET",
        target,
        minor_version: 1,
        status: 200,
        body_bytes: 0,
        ahead_bytes: None,
        referer: None,
        user_agent: None,
        response_time: Nanos::ZERO,
        outcome: "complete",
        reason: None,
    }
}

/// A log whose thread has not been started: `Logger::run` does its work when the test says so.
fn log_to(path: &Path, messages_max: usize) -> (AccessLog, Logger, Said) {
    let said = Said::default();
    let output = Output::open(&Target::File(path.into())).unwrap();
    let formatter = Some(Formatter::new(Format::Combined));
    let (log, logger) = AccessLog::with(output, formatter, messages_max, Box::new(said.clone()));
    (log, logger, said)
}

/// The targets of the lines in a log.
fn targets(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(' ').nth(6).unwrap_or(line).to_string()).collect()
}

#[test]
fn lines_of_all_handles_are_written_by_the_time_the_guard_is_gone() {
    let folder = Folder::new();
    let path = folder.path("log");
    fs::write(&path, "a line of before\n").unwrap();
    let threads = Threads::start(None, || {}).unwrap();
    let (mut first, guard) = AccessLog::open(Target::File(path.clone()), Format::Combined, &threads).unwrap();
    let mut second = first.clone();
    first.write(&entry(b"/1"));
    second.write(&entry(b"/2"));
    drop(first);
    drop(second);
    drop(guard);
    let mut targets = targets(&path);
    targets[1..].sort();
    assert_eq!(targets, ["a line of before", "/1", "/2"]);
}

#[test]
fn lines_are_sent_at_once_when_idle_and_together_under_load() {
    let folder = Folder::new();
    let (mut log, logger, _) = log_to(&folder.path("log"), 8);
    let start = Nanos::from_secs(5);
    assert_eq!(log.flush(start), None);
    log.write(&entry(b"/1"));
    assert_eq!(log.flush(start), None);
    log.write(&entry(b"/2"));
    assert_eq!(log.flush(start + Nanos(1)), Some(start + FLUSH_AFTER));
    log.write(&entry(b"/3"));
    assert_eq!(log.flush(start + FLUSH_AFTER), None);
    let sent = || logger_messages(&logger);
    assert_eq!(sent(), [1, 2]);
    for _ in 0..=FLUSH_BYTES / 60 {
        log.write(&entry(b"/long"));
    }
    assert!(log.buffer.len() < FLUSH_BYTES && sent().len() == 1);
}

/// Lines in each message sent.
fn logger_messages(logger: &Logger) -> Vec<usize> {
    let lines = |message| match message {
        Message::Lines(bytes) => String::from_utf8(bytes).unwrap().lines().count(),
        other => panic!("{other:?}"),
    };
    logger.received.try_iter().map(lines).collect()
}

#[test]
fn a_full_channel_loses_lines_and_counts_them() {
    let folder = Folder::new();
    let path = folder.path("log");
    let (mut log, logger, said) = log_to(&path, 2);
    for (turn, target) in [b"/1", b"/2", b"/3", b"/4"].into_iter().enumerate() {
        log.write(&entry(target));
        log.write(&entry(target));
        log.flush(Nanos::from_secs(turn as u64));
    }
    log.error("nobody reads this");
    drop(log);
    logger.run();
    assert_eq!(targets(&path), ["/1", "/1", "/2", "/2"]);
    assert_eq!(said.lines(), ["weir: access log: 4 lines lost", "weir: error log: 1 lines lost"]);
}

#[test]
fn a_full_disk_is_told_once_and_again_when_over() {
    let folder = Folder::new();
    let (path, disk) = (folder.path("log"), folder.path("disk"));
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let (mut log, mut logger, said) = log_to(&path, 16);
    let mut turn = |targets: &[&'static [u8]], log: &mut AccessLog| {
        targets.iter().for_each(|target| log.write(&entry(target)));
        log.send();
        while let Ok(message) = logger.received.try_recv() {
            logger.handle(message);
        }
    };
    turn(&[b"/1", b"/2"], &mut log);
    turn(&[b"/3"], &mut log);
    let said_full = format!("weir: access log: cannot write {}: No space left on device (os error 28)", path.display());
    assert!(said.lines().len() == 1 && said.lines()[0].starts_with(&said_full), "{:?}", said.lines());

    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&disk, &path).unwrap();
    log.reopen();
    turn(&[b"/4"], &mut log);
    assert_eq!(said.lines()[1..], [format!("weir: access log: writing {} again, 3 lines lost", path.display())]);
    assert_eq!(targets(&disk), ["/4"]);
}

#[test]
fn a_line_torn_by_a_full_disk_is_ended_before_the_next() {
    // A pipe takes 64 KiB and then, not blocking, fails as a disk does that fills in the middle of a line.
    let folder = Folder::new();
    let path = folder.path("pipe");
    let pipe_flags = rustix::pipe::PipeFlags::NONBLOCK;
    let (reader, writer) = rustix::pipe::pipe_with(pipe_flags).unwrap();
    let (_log, mut logger, said) = log_to(&path, 4);
    logger.sink.output.file = Some(fs::File::from(writer));
    let line = [b'a'; 99].into_iter().chain([b'\n']).collect::<Vec<u8>>();
    logger.handle(Message::Lines(line.repeat(700)));
    assert!(said.lines()[0].contains("cannot write"), "{:?}", said.lines());
    let mut reader = fs::File::from(reader);
    let mut read = vec![0; 1 << 17];
    let taken = io::Read::read(&mut reader, &mut read).unwrap();
    assert_eq!(taken % 100, 36, "the pipe was expected to take 65,536 bytes");
    logger.handle(Message::Lines(b"next\n".to_vec()));
    let taken = io::Read::read(&mut reader, &mut read).unwrap();
    assert_eq!(&read[..taken], b"\nnext\n");
    assert!(said.lines()[1].ends_with("again, 45 lines lost"), "{:?}", said.lines());
}

#[test]
fn reopening_follows_a_rotation_and_survives_a_failure() {
    let folder = Folder::new();
    let path = folder.path("log");
    let (mut log, mut logger, said) = log_to(&path, 16);
    let mut turn = |target: &'static [u8], log: &mut AccessLog| {
        log.write(&entry(target));
        log.send();
        while let Ok(message) = logger.received.try_recv() {
            logger.handle(message);
        }
    };
    turn(b"/1", &mut log);
    fs::rename(&path, folder.path("log.1")).unwrap();
    turn(b"/2", &mut log);
    log.reopen();
    turn(b"/3", &mut log);
    fs::rename(&path, folder.path("log.2")).unwrap();
    fs::create_dir(&path).unwrap();
    log.reopen();
    turn(b"/4", &mut log);
    assert_eq!(targets(&folder.path("log.1")), ["/1", "/2"]);
    assert_eq!(targets(&folder.path("log.2")), ["/3", "/4"]);
    assert!(said.lines().len() == 1 && said.lines()[0].contains("cannot reopen"), "{:?}", said.lines());
}

#[test]
fn without_an_access_log_errors_are_still_told() {
    let said = Said::default();
    let (mut log, logger) = AccessLog::with(Output::open(&Target::Off).unwrap(), None, 4, Box::new(said.clone()));
    log.write(&entry(b"/1"));
    assert_eq!(log.flush(Nanos::ZERO), None);
    log.error("a\nb");
    drop(log);
    logger.run();
    assert_eq!(said.lines(), ["weir: a\\nb"]);
}

#[test]
fn a_folder_as_log_is_refused() {
    let folder = Folder::new();
    let threads = Threads::start(None, || {}).unwrap();
    assert!(AccessLog::open(Target::File(folder.path(".")), Format::Json, &threads).is_err());
}
