use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use super::capture::Said;
use super::log_file::Complaints;
use super::logs::Logs;
use super::writer::{OPEN_MAX, QUEUED_BYTES_MAX, Writer};
use super::*;
use crate::files::temporary::Folder;
use crate::threads::Threads;

fn entry(target: &[u8]) -> Entry<'_> {
    Entry {
        remote: "198.18.0.7".parse().unwrap(),
        request: Requested {
            method: b"GET",
            target,
            version: (1, 1),
            referer: None,
            user_agent: None,
            host: None,
            user: None,
        },
        status: 200,
        sizes: Sizes { size: 0, head: 0, body: 0 },
        times: Times { logged: Duration::ZERO, arrival: Duration::ZERO, first_byte: None, response: Nanos::ZERO },
        outcome: Outcome::Complete,
        reason: None,
        connection_reused: false,
        class: None,
        passed_on: None,
        ahead_bytes: None,
    }
}

fn combined(path: &Path) -> LogConfig {
    LogConfig { path: Some(path.into()), format: Format::Combined }
}

/// Logs whose thread has not been started: the test runs its work explicitly.
struct Bench {
    writer: RefCell<Writer>,
    running: SyncSender<()>,
    logs: Logs,
    said: Said,
}

impl Bench {
    fn new() -> Bench {
        let said = Said::default();
        let (logs, writer, running) = Logs::with(Complaints { to: Box::new(said.clone()), is_sandboxed: false });
        Bench { logs, writer: RefCell::new(writer), running, said }
    }

    fn open(&self, path: &Path) -> std::io::Result<Arc<Log>> {
        self.logs.open(&combined(path))
    }

    fn drain(&self) {
        self.writer.borrow_mut().drain();
    }

    fn write(&self, ends: &mut AccessLog, log: &Arc<Log>, target: &str) {
        ends.write(log, &entry(target.as_bytes()));
        ends.send();
        self.drain();
    }

    fn open_files(&self) -> usize {
        self.logs.open_files()
    }

    /// Drops everything but the writer's output, and returns the lines on standard error.
    fn ended(self) -> Vec<String> {
        let Bench { logs, writer, running, said } = self;
        let writer = std::thread::spawn(move || {
            let _running = running;
            writer.into_inner().run();
        });
        drop(logs);
        writer.join().unwrap();
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
    let logs = Logs::start(&threads, false).unwrap();
    let log = logs.open(&combined(&path)).unwrap();
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
fn instants_keep_their_order_unless_a_clock_is_set() {
    let mut end = Bench::new().logs.handle();
    let (second, late) = (Duration::from_secs(1_795_255_200), Duration::from_nanos(700));
    let now = Nanos::from_secs(5);
    assert_eq!(end.unix_time(now, now, second), second);
    // The other clock was read slightly later.
    assert_eq!(end.unix_time(now, now, second + late), second);
    assert_eq!(end.unix_time(now, now + Nanos(700), second), second);
    let set = second + Duration::from_secs(3600);
    assert_eq!(end.unix_time(now, now, set), set);
    assert_eq!(end.unix_time(now, now, second), second);
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

/// A log may be full while another is empty; a line goes to its site's log, in its format.
#[test]
fn each_log_has_its_lines_in_its_format() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let paths: Vec<_> = (0..3).map(|at| folder.path(at.to_string())).collect();
    let logs: Vec<_> = paths.iter().map(|path| bench.open(path).unwrap()).collect();
    assert!(Arc::ptr_eq(&logs[0], &bench.open(&paths[0]).unwrap()), "a log in use is the same");
    let json = LogConfig { path: Some(paths[0].clone()), format: Format::Json };
    let json = bench.logs.open(&json).unwrap();
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
    assert!(first.lines().count() == 5 && first.contains("\"uri\":\"/j\""), "{first}");
}

#[test]
fn a_burst_of_ends_is_kept_while_the_disk_is_busy() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let (log, mut end) = (bench.open(&folder.path("log")).unwrap(), bench.logs.handle());
    for at in 0..50_000 {
        end.write(&log, &entry(format!("/{at}").as_bytes()));
    }
    end.send();
    bench.drain();
    let expected: Vec<String> = (0..50_000).map(|at| format!("/{at}")).collect();
    assert_eq!(targets(&folder.path("log")), expected);
    assert_eq!(bench.ended(), [""; 0]);
}

#[test]
fn beyond_the_bytes_on_the_way_lines_are_lost_and_counted_for_each_log() {
    let (folder, bench) = (Folder::new(), Bench::new());
    let logs: Vec<_> = (0..12).map(|at| bench.open(&folder.path(format!("{at:02}"))).unwrap()).collect();
    let mut end = bench.logs.handle();
    let full = Batch { log: Arc::clone(&logs[0]), bytes: vec![b'\n'; QUEUED_BYTES_MAX - (1 << 10)], lines: 1 };
    logs[0].queue.send(vec![full]);
    end.write(&logs[0], &entry(b"/kept"));
    end.send();
    // Only a thread that has written something has room again.
    logs.iter().for_each(|log| end.write(log, &entry(b"/lost")));
    end.write(&logs[3], &entry(b"/lost"));
    end.send();
    (0..2).for_each(|_| end.error(&"no room for this ".repeat(100)));
    bench.drain();
    end.error("room for this");
    end.write(&logs[3], &entry(b"/again"));
    end.send();
    bench.drain();
    assert!(fs::read_to_string(folder.path("00")).unwrap().trim_start().contains(" /kept "));
    assert_eq!(targets(&folder.path("03")), ["/again"]);
    let said = bench.ended();
    let (lost, told): (Vec<_>, Vec<_>) = said.into_iter().partition(|line| line.ends_with(" lost"));
    assert_eq!(told, ["weir: room for this"]);
    let (named, counted): (Vec<_>, Vec<_>) = lost.into_iter().partition(|line| line.contains("access log /"));
    assert!(named.len() == 10 && counted[0].starts_with("weir: 2 other access logs: "), "{named:?} {counted:?}");
    let number = |line: &String| line.rsplit(": ").next().unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(named.iter().chain(&counted[..1]).map(number).sum::<u64>(), 13);
    assert_eq!(counted[1..], ["weir: error log: 2 lines lost"]);
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
    assert!(said[0].starts_with(&format!("weir: access log: cannot write {name}: No space left on device")));
    assert_eq!(said[1..], [format!("weir: access log: writing {name} again, 3 lines lost")]);
}

#[test]
fn a_line_torn_by_a_full_disk_is_ended_before_the_next() {
    // A pipe takes 64 KiB and then, being non-blocking, fails like a disk that fills up in the middle of a line.
    let (folder, bench) = (Folder::new(), Bench::new());
    let flags = rustix::pipe::PipeFlags::NONBLOCK;
    let (reader, writer) = rustix::pipe::pipe_with(flags).unwrap();
    let log = bench.open(&folder.path("pipe")).unwrap();
    log.sink().output.file = Some(File::from(writer));
    let line = [b'a'; 99].into_iter().chain([b'\n']).collect::<Vec<u8>>();
    let batch = |bytes| Batch { log: Arc::clone(&log), bytes, lines: 700 };
    log.queue.send(vec![batch(line.repeat(700))]);
    bench.drain();
    let mut reader = File::from(reader);
    let mut read = vec![0; 1 << 17];
    let taken = reader.read(&mut read).unwrap();
    assert_eq!(taken % 100, 36, "the pipe was expected to take 65,536 bytes");
    log.queue.send(vec![batch(b"next\n".to_vec())]);
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

/// Independent of how many logs there are, each has all its lines, in their order.
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

/// A log that no site names any more stays open for the responses that began there, and no longer.
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

/// A worker that writes lines waits for no reader: only the thread does, and lines without room are counted.
#[test]
fn a_pipe_that_nobody_reads_holds_up_the_thread_alone() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let threads = Threads::start(None, || {}).unwrap();
    let logs = Logs::start(&threads, false).unwrap();
    let refused = logs.open(&combined(&pipe)).unwrap_err();
    assert_eq!(refused.to_string(), "nobody reads this pipe");
    let reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let slow = logs.open(&combined(&pipe)).unwrap();
    let mut end = logs.handle();
    let target = vec![b'a'; 4000];
    (0..100).for_each(|_| end.write(&slow, &entry(&target)));
    end.send();
    // Its pipe is full before its lines are written, and it waits with its sink locked.
    while slow.sink.try_lock().is_ok() {
        std::thread::yield_now();
    }
    for _ in 0..2 * QUEUED_BYTES_MAX / target.len() {
        end.write(&slow, &entry(&target));
    }
    assert!(slow.lost.load(std::sync::atomic::Ordering::Relaxed) > 0);
    drop(reader);
    drop((end, logs));
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
