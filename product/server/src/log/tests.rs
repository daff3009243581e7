use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::lane::Writer;
use super::logs::Logs;
use super::said::Said;
use super::sink::Complaints;
use super::teller::Teller;
use super::*;
use crate::files::temporary::Folder;
use crate::threads::Threads;

fn entry(target: &[u8]) -> Entry<'_> {
    Entry {
        remote: "198.18.0.7:4711".parse().unwrap(),
        unix_s: 0,
        method: b"GET",
        target,
        version: (1, 1),
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

fn combined(path: &Path) -> LogConfig {
    LogConfig { path: Some(path.into()), format: Format::Combined }
}

/// Logs whose threads have not been started: the test does their work when it says so.
struct Bench {
    writers: RefCell<BTreeMap<usize, (Writer, SyncSender<()>)>>,
    teller: Teller,
    running: SyncSender<()>,
    logs: Logs,
    said: Said,
}

impl Bench {
    fn new() -> Bench {
        let said = Said::default();
        let ((logs, running), teller) = Logs::with(Complaints(Box::new(said.clone())), ERRORS_MAX);
        Bench { logs, teller, running, writers: RefCell::default(), said }
    }

    fn open(&self, path: &Path) -> std::io::Result<Arc<Log>> {
        self.logs.open_by(&combined(path), &mut |number, writer| {
            let (running, ended): (_, Receiver<()>) = sync_channel(0);
            self.writers.borrow_mut().insert(number, (writer, running));
            Ok(ended)
        })
    }

    /// All writers write what they have.
    fn drain(&self) {
        self.writers.borrow_mut().values_mut().for_each(|(writer, _)| writer.drain());
    }

    fn write(&self, ends: &mut AccessLog, log: &Arc<Log>, target: &str) {
        ends.write(log, &entry(target.as_bytes()));
        ends.send();
        self.drain();
    }

    fn open_files(&self) -> usize {
        self.logs.lanes().iter().map(|lane| lane.shared.open().len()).sum()
    }

    /// What is said by the end of the teller, and of all else.
    fn ended(self) -> Vec<String> {
        let Bench { logs, teller, running, writers, said } = self;
        drop(writers);
        let teller = std::thread::spawn(move || {
            let _running = running;
            teller.run();
        });
        drop(logs);
        teller.join().unwrap();
        said.lines()
    }
}

/// The targets of the lines in a log.
fn targets(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(' ').nth(6).unwrap_or(line).to_string()).collect()
}

#[test]
fn lines_of_all_ends_are_written_by_the_time_the_logs_are_gone() {
    let folder = Folder::new();
    let path = folder.put("log", "a line of before\n");
    let threads = Threads::start(None, || {}).unwrap();
    let logs = Logs::start(&threads).unwrap();
    let log = logs.open(&combined(&path), &threads).unwrap();
    let (mut first, mut second) = (logs.handle(), logs.handle());
    first.write(&log, &entry(b"/1"));
    second.write(&log, &entry(b"/2"));
    drop((first, second));
    drop(logs);
    let mut targets = targets(&path);
    targets[1..].sort();
    assert_eq!(targets, ["a line of before", "/1", "/2"]);
}

#[test]
fn lines_are_sent_at_once_when_idle_and_together_under_load() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let path = folder.path("log");
    let (log, mut end) = (bench.open(&path).unwrap(), bench.logs.handle());
    let start = Nanos::from_secs(5);
    let written = || {
        bench.drain();
        targets(&path).len()
    };
    assert_eq!(end.flush(start), None);
    end.write(&log, &entry(b"/1"));
    assert_eq!(end.flush(start), None);
    assert_eq!(written(), 1);
    end.write(&log, &entry(b"/2"));
    assert_eq!(end.flush(start + Nanos(1)), Some(start + FLUSH_AFTER));
    end.write(&log, &entry(b"/3"));
    assert_eq!(written(), 1);
    assert_eq!(end.flush(start + FLUSH_AFTER), None);
    assert_eq!(written(), 3);
    for _ in 0..=FLUSH_BYTES / 60 {
        end.write(&log, &entry(b"/long"));
    }
    assert!(end.buffered < FLUSH_BYTES && written() > 3);
}

/// One log is as full as another may be empty; a line goes where its site says, in its format.
#[test]
fn each_log_has_its_lines_in_its_format() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let paths: Vec<_> = (0..3).map(|at| folder.path(at.to_string())).collect();
    let logs: Vec<_> = paths.iter().map(|path| bench.open(path).unwrap()).collect();
    assert!(Arc::ptr_eq(&logs[0], &bench.open(&paths[0]).unwrap()), "a log in use is the same");
    let json = LogConfig { path: Some(paths[0].clone()), format: Format::Json };
    let json = bench.logs.open_by(&json, &mut |_, _| unreachable!("it is of the same disk")).unwrap();
    let mut end = bench.logs.handle();
    for turn in 0..10 {
        end.write(&logs[turn % 3], &entry(format!("/{turn}").as_bytes()));
    }
    end.send();
    end.write(&json, &entry(b"/j"));
    end.send();
    bench.drain();
    assert_eq!(targets(&paths[1]), ["/1", "/4", "/7"]);
    assert_eq!(targets(&paths[2]), ["/2", "/5", "/8"]);
    let first = fs::read_to_string(&paths[0]).unwrap();
    assert!(first.lines().count() == 5 && first.contains("\"target\":\"/j\""), "{first}");
}

#[test]
fn a_full_channel_loses_lines_and_counts_them_for_each_log() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let logs: Vec<_> = (0..12).map(|at| bench.open(&folder.path(format!("{at:02}"))).unwrap()).collect();
    let mut end = bench.logs.handle();
    for _ in 0..MESSAGES_MAX {
        end.write(&logs[0], &entry(b"/kept"));
        end.send();
    }
    logs.iter().for_each(|log| end.write(log, &entry(b"/lost")));
    end.write(&logs[3], &entry(b"/lost"));
    end.send();
    (0..=ERRORS_MAX).for_each(|_| end.error("nobody reads this"));
    bench.drain();
    assert_eq!(targets(&folder.path("00")), ["/kept"; MESSAGES_MAX]);
    assert_eq!(targets(&folder.path("03")), [""; 0]);
    let said = bench.ended();
    let (lost, told): (Vec<_>, Vec<_>) = said.into_iter().partition(|line| line.ends_with(" lost"));
    assert_eq!(told, vec!["weir: nobody reads this"; ERRORS_MAX - 1]);
    let (named, counted): (Vec<_>, Vec<_>) = lost.into_iter().partition(|line| line.contains("access log /"));
    assert!(named.len() == 10 && counted[0].starts_with("weir: 2 other access logs: "), "{named:?} {counted:?}");
    let number = |line: &String| line.rsplit(": ").next().unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(named.iter().chain(&counted[..1]).map(number).sum::<u64>(), 13);
    assert_eq!(counted[1..], ["weir: error log: 2 lines lost"]);
}

/// 500 connections of 100 streams each ended at once, and 621 lines were lost.
#[test]
fn a_burst_is_kept_while_the_disk_is_slow() {
    const LINES: usize = 50_000;
    let (folder, bench) = (Folder::new(), Bench::new());
    let path = folder.path("log");
    let (log, mut end) = (bench.open(&path).unwrap(), bench.logs.handle());
    let target = format!("/{}", "x".repeat(1000));
    (0..LINES).for_each(|_| end.write(&log, &entry(target.as_bytes())));
    end.send();
    bench.drain();
    assert_eq!((targets(&path).len(), log.queue.bytes()), (LINES, 0));
    drop((end, log));
    assert_eq!(bench.ended(), [""; 0]);
}

#[test]
fn lines_for_a_disk_that_hangs_are_bounded_and_counted() {
    const LINES: usize = 20_000;
    let (folder, bench) = (Folder::new(), Bench::new());
    let path = folder.path("log");
    let (log, mut end) = (bench.open(&path).unwrap(), bench.logs.handle());
    let target = format!("/{}", "x".repeat(8000));
    for _ in 0..LINES {
        end.write(&log, &entry(target.as_bytes()));
        assert!(log.queue.bytes() <= QUEUED_BYTES_MAX);
    }
    end.send();
    bench.drain();
    let lost = LINES - targets(&path).len();
    assert!((1..LINES).contains(&lost) && log.queue.bytes() == 0, "{lost}");
    drop((end, log));
    assert_eq!(bench.ended(), [format!("weir: access log {}: {lost} lines lost", path.display())]);
}

#[test]
fn a_full_disk_is_told_once_and_again_when_over() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let (path, disk, other) = (folder.path("log"), folder.path("disk"), folder.path("other"));
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let (log, intact, mut end) = (bench.open(&path).unwrap(), bench.open(&other).unwrap(), bench.logs.handle());
    end.write(&log, &entry(b"/1"));
    bench.write(&mut end, &log, "/2");
    bench.write(&mut end, &log, "/3");
    bench.write(&mut end, &intact, "/of another");
    assert_eq!(targets(&other), ["/of"]);

    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&disk, &path).unwrap();
    bench.logs.reopen();
    bench.write(&mut end, &log, "/4");
    assert_eq!(targets(&disk), ["/4"]);
    let name = path.display();
    let said = bench.ended();
    assert!(
        said[0].starts_with(&format!("weir: access log: cannot write {name}: No space left on device (os error 28)"))
    );
    assert_eq!(said[1..], [format!("weir: access log: writing {name} again, 3 lines lost")]);
}

#[test]
fn a_line_torn_by_a_full_disk_is_ended_before_the_next() {
    // A pipe takes 64 KiB and then, not blocking, fails as a disk does that fills in the middle of a line.
    let (folder, bench) = (Folder::new(), Bench::new());
    let flags = rustix::pipe::PipeFlags::NONBLOCK;
    let (reader, writer) = rustix::pipe::pipe_with(flags).unwrap();
    let log = bench.open(&folder.path("pipe")).unwrap();
    log.sink().output.file = Some(File::from(writer));
    let line = [b'a'; 99].into_iter().chain([b'\n']).collect::<Vec<u8>>();
    let batch = |bytes| Batch { log: Arc::clone(&log), bytes, lines: 700 };
    log.queue.send(vec![batch(line.repeat(700))]).unwrap();
    bench.drain();
    let mut reader = File::from(reader);
    let mut read = vec![0; 1 << 17];
    let taken = reader.read(&mut read).unwrap();
    assert_eq!(taken % 100, 36, "the pipe was expected to take 65,536 bytes");
    log.queue.send(vec![batch(b"next\n".to_vec())]).unwrap();
    bench.drain();
    let taken = reader.read(&mut read).unwrap();
    assert_eq!(&read[..taken], b"\nnext\n");
    let said = bench.ended();
    assert!(said[0].contains("cannot write") && said[1].ends_with("again, 45 lines lost"), "{said:?}");
}

#[test]
fn reopening_follows_a_rotation_and_survives_a_failure() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let path = folder.path("log");
    let (log, mut end) = (bench.open(&path).unwrap(), bench.logs.handle());
    bench.write(&mut end, &log, "/1");
    fs::rename(&path, folder.path("log.1")).unwrap();
    bench.write(&mut end, &log, "/2");
    bench.logs.reopen();
    bench.write(&mut end, &log, "/3");
    fs::rename(&path, folder.path("log.2")).unwrap();
    fs::create_dir(&path).unwrap();
    bench.logs.reopen();
    bench.write(&mut end, &log, "/4");
    assert_eq!(targets(&folder.path("log.1")), ["/1", "/2"]);
    assert_eq!(targets(&folder.path("log.2")), ["/3", "/4"]);
    let said = bench.ended();
    assert!(said.len() == 1 && said[0].contains("cannot reopen"), "{said:?}");
}

/// However many logs there are: each has all its lines, in their order.
#[test]
fn few_of_many_files_are_open() {
    const LOGS: usize = OPEN_MAX + 50;
    let (folder, bench) = (Folder::new(), Bench::new());
    let paths: Vec<_> = (0..LOGS).map(|at| folder.path(at.to_string())).collect();
    let logs: Vec<_> = paths.iter().map(|path| bench.open(path).unwrap()).collect();
    assert_eq!(bench.open_files(), OPEN_MAX);
    let mut end = bench.logs.handle();
    for turn in 0..3 {
        for log in &logs {
            end.write(log, &entry(format!("/{turn}").as_bytes()));
        }
        end.send();
        bench.drain();
        assert_eq!(bench.open_files(), OPEN_MAX);
    }
    // The one written last is open, whatever comes between.
    for log in &logs[..OPEN_MAX] {
        bench.write(&mut end, &logs[LOGS - 1], "/between");
        bench.write(&mut end, log, "/3");
        assert!(logs[LOGS - 1].sink().is_open());
    }
    for path in &paths[..OPEN_MAX] {
        assert_eq!(targets(path), ["/0", "/1", "/2", "/3"]);
    }
    assert_eq!(bench.ended(), [""; 0]);
}

/// A log that no site has any more stays open for the responses that began there, and no longer.
#[test]
fn a_log_is_closed_behind_its_last_line() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let path = folder.path("log");
    let of_site = bench.open(&path).unwrap();
    let of_response = Arc::clone(&of_site);
    Log::release([of_site]);
    bench.drain();
    assert_eq!(bench.open_files(), 1);
    let mut end = bench.logs.handle();
    end.write(&of_response, &entry(b"/late"));
    drop(of_response);
    end.send();
    bench.drain();
    assert_eq!((targets(&path), bench.open_files()), (vec!["/late".to_string()], 0));
    let again = bench.open(&path).unwrap();
    bench.write(&mut end, &again, "/again");
    Log::release([again]);
    bench.drain();
    assert_eq!((targets(&path).len(), bench.open_files()), (2, 0));
}

/// A pipe whose reader reads nothing keeps its own thread busy, and no other log waits.
#[test]
fn what_waits_for_a_reader_has_a_thread_of_its_own() {
    let folder = Folder::new();
    let (pipe, file) = (folder.path("pipe"), folder.path("file"));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let threads = Threads::start(None, || {}).unwrap();
    let logs = Logs::start(&threads).unwrap();
    let refused = logs.open(&combined(&pipe), &threads).unwrap_err();
    assert_eq!(refused.to_string(), "nobody reads this pipe");
    let reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let [slow, quick] = [&pipe, &file].map(|path| logs.open(&combined(path), &threads).unwrap());
    let mut end = logs.handle();
    let target = vec![b'a'; 4000];
    (0..100).for_each(|_| end.write(&slow, &entry(&target)));
    (0..3).for_each(|_| end.write(&quick, &entry(b"/quick")));
    end.send();
    while targets(&file).len() < 3 {
        std::thread::yield_now();
    }
    // Its pipe is full before its lines are written, and it waits with its sink in hand.
    while slow.sink.try_lock().is_ok() {
        std::thread::yield_now();
    }
    drop(reader);
    drop((end, logs));
    assert_eq!(targets(&file), ["/quick"; 3]);
}

#[test]
fn devices_beyond_the_lanes_share_the_last() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let mut readers = Vec::new();
    let lanes: Vec<usize> = (0..LANES_MAX + 2)
        .map(|at| {
            let path = folder.path(at.to_string());
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
            readers.push(File::options().read(true).write(true).open(&path).unwrap());
            bench.open(&path).unwrap().lane
        })
        .collect();
    assert_eq!(lanes[..LANES_MAX], (0..LANES_MAX).collect::<Vec<_>>());
    assert_eq!(lanes[LANES_MAX..], [LANES_MAX - 1; 2]);
}

#[test]
fn without_a_log_errors_are_still_told() {
    let bench = Bench::new();
    let mut end = bench.logs.handle();
    assert_eq!(end.flush(Nanos::ZERO), None);
    end.error("a\nb");
    drop(end);
    assert_eq!(bench.ended(), ["weir: a\\nb"]);
}

#[test]
fn a_folder_as_log_is_refused() {
    let (folder, bench) = (Folder::new(), Bench::new());
    assert!(bench.open(&folder.path(".")).is_err());
    assert_eq!(bench.open_files(), 0);
}
