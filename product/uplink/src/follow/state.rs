//! The file in /run/weir that records that the rate of an interface is followed, the rate found, and the process.
//!
//! A lock on the file ensures that there is a single follower, and shows whether it is alive: a killed process has no
//! lock. A command that attaches with a rate, or detaches, removes the file, and the follower then ends. So the
//! follower writes only to the file that it has locked, and never creates one.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use sched::line::{Bounds, Limit, Status};
use units::{Nanos, Rate};

use crate::tree::leftovers;
use crate::{Error, Interface};

/// The prefix of the file names.
const KIND: &str = "line";
/// The prefix of files that are locked while an interface is changed.
const CHANGE: &str = "change";
/// The maximum size of a file that is read.
const BYTES_MAX: u64 = 4096;
const NONE: &str = "-";
/// The maximum time to wait for another process that is changing the interface. The next constant is the interval
/// between checks.
const CHANGING_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The record of an interface whose rate is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    pub status: Status,
    /// The process that follows now; `None` if there is none.
    pub process: Option<u32>,
}

/// The right to follow an interface's line. Dropping it ends the right; the file stays.
#[derive(Debug)]
pub struct Lock {
    file: File,
    interface: Interface,
}

impl Lock {
    /// Takes the right if the rate is to be followed. If another process has the right, returns that process.
    pub fn take(interface: &Interface) -> Result<Result<Lock, u32>, Error> {
        take(interface).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(format!(
                "another command detached {}, or gave it a rate, meanwhile: run this again",
                interface.name
            )),
            _ => leftovers::unusable(KIND, interface, error),
        })
    }

    /// Returns false if the file was removed or replaced, because the interface was detached or given a rate.
    pub fn is_valid(&self) -> bool {
        let number = |about: io::Result<std::fs::Metadata>| about.ok().map(|about| (about.dev(), about.ino()));
        let Ok(path) = leftovers::path(KIND, &self.interface) else { return false };
        number(self.file.metadata()) == number(std::fs::metadata(path))
    }

    /// Records the state of the search.
    pub fn write(&self, status: &Status) -> io::Result<()> {
        let words = words(status, unix_now(), std::process::id());
        write_in_place(&self.file, &self.interface, &words)
    }
}

/// The exclusive right to attach, detach or change the rate of an interface. Dropping it ends the right.
#[derive(Debug)]
pub struct Changing {
    _file: File,
}

/// Waits for the right. Must not be called by a process that already has it.
pub fn changing(interface: &Interface) -> Result<Changing, Error> {
    let name = &interface.name;
    let open = || {
        std::fs::create_dir_all(leftovers::FOLDER)?;
        let path = leftovers::path(CHANGE, interface)?;
        OpenOptions::new().create(true).append(true).open(path)
    };
    let file = open().map_err(|error| leftovers::unusable(CHANGE, interface, error))?;
    let until = Instant::now() + CHANGING_MAX;
    while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        if Instant::now() >= until {
            let seconds = CHANGING_MAX.as_secs();
            return Err(Error::new(format!(
                "another weir has been changing {name} for {seconds} s: end it (`ps -C weir`), and run this again"
            )));
        }
        sleep(LOOK_EVERY);
    }
    Ok(Changing { _file: file })
}

/// Records that the rate of an interface must be followed. Returns false if that was recorded already.
pub fn mark(interface: &Interface) -> Result<bool, Error> {
    make(interface).map_err(|error| leftovers::unusable(KIND, interface, error))
}

fn make(interface: &Interface) -> io::Result<bool> {
    let path = leftovers::path(KIND, interface)?;
    // The file is missing, or belongs to an earlier interface with this number.
    let is_new = leftovers::read(&path, interface).is_none();
    if is_new {
        leftovers::write(&path, interface, &words(&Status::default(), unix_now(), std::process::id()))?;
    }
    Ok(is_new)
}

fn take(interface: &Interface) -> io::Result<Result<Lock, u32>> {
    let path = leftovers::path(KIND, interface)?;
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Ok(Lock { file, interface: interface.clone() })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Err(parsed(&path, interface).map_or(0, |(_, process)| process))),
        Err(error) => Err(error.into()),
    }
}

fn write_in_place(mut file: &File, interface: &Interface, words: &str) -> io::Result<()> {
    let text = leftovers::text(interface, words)?;
    file.seek(SeekFrom::Start(0))?;
    // The text is written in one call, so that a reader sees one state or the other.
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

/// Returns the record; `None` if the rate is configured or nothing is attached.
pub fn read(interface: &Interface) -> Option<Followed> {
    let path = leftovers::path(KIND, interface).ok()?;
    let (status, process) = parsed(&path, interface)?;
    let file = File::open(&path).ok()?;
    let is_locked = flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK);
    Some(Followed { status, process: is_locked.then_some(process) })
}

/// Records that the rate is configured from now on, or that nothing is attached. A follower then ends.
pub fn forget(interface: &Interface) -> Result<(), Error> {
    let remove = || std::fs::remove_file(leftovers::path(KIND, interface)?);
    match remove() {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(leftovers::unusable(KIND, interface, error)),
        _ => Ok(()),
    }
}

fn parsed(path: &Path, interface: &Interface) -> Option<(Status, u32)> {
    let mut text = String::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    status(&leftovers::of_interface(&text, interface)?, unix_now())
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns `PROCESS RATE PACE CONFIRMED INTERVALS LIMIT`; a rate that is not known is `-`.
fn words(status: &Status, unix_s: u64, process: u32) -> String {
    let rate = |rate: Option<Rate>| rate.map_or(NONE.to_string(), |rate| rate.bits_per_s().to_string());
    let limit = match status.limit {
        Limit::Unknown => "unknown",
        Limit::Line => "line",
        Limit::Others => "others",
        Limit::Ceiling => "ceiling",
    };
    let confirmed = unix_s.saturating_sub(status.age.0 / 1_000_000_000);
    let (found, pace) = (rate(status.rate), rate(status.pace));
    format!("{process} {found} {pace} {confirmed} {} {limit}", status.busy_intervals)
}

fn status(words: &str, unix_s: u64) -> Option<(Status, u32)> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let [process, found, pace, confirmed, busy_intervals, limit] = words[..] else { return None };
    let rate = |word: &str| match word {
        NONE => Some(None),
        word => Rate::from_bits_per_s(word.parse().ok()?).map(Some),
    };
    let limit = match limit {
        "line" => Limit::Line,
        "others" => Limit::Others,
        "ceiling" => Limit::Ceiling,
        _ => Limit::Unknown,
    };
    // A clock that was set back gives an age of zero.
    let age = Duration::from_secs(unix_s.saturating_sub(confirmed.parse().ok()?));
    let status = Status {
        bounds: Bounds::default(),
        rate: rate(found)?,
        pace: rate(pace)?,
        age: Nanos::from_secs(age.as_secs()),
        busy_intervals: busy_intervals.parse().ok()?,
        limit,
    };
    Some((status, process.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, is_true_soon, run};

    fn found() -> Status {
        Status {
            rate: "9420kbit".parse().ok(),
            pace: "9200kbit".parse().ok(),
            age: Nanos::from_secs(12),
            busy_intervals: 340,
            limit: Limit::Line,
            ..Status::default()
        }
    }

    #[test]
    fn a_state_is_read_back_older() {
        for known in [found(), Status::default(), Status { limit: Limit::Others, ..found() }] {
            let words = words(&known, 1000, 77);
            let age = Nanos::from_secs(known.age.0 / 1_000_000_000 + 30);
            assert_eq!(status(&words, 1030), Some((Status { age, ..known }, 77)), "{words}");
        }
        assert_eq!(status(&words(&found(), 1000, 77), 500).unwrap().0.age, Nanos::ZERO);
        for broken in ["", "77 - - 1 2", "x - - 1 2 line", "77 0 - 1 2 line", "77 - - 1 2 line 3"] {
            assert_eq!(status(broken, 1000), None, "{broken}");
        }
    }

    #[test]
    fn one_process_follows_and_a_detach_ends_its_right() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            let interface = Interface::by_name("weir0").unwrap();
            assert_eq!(read(&interface), None);
            assert!(Lock::take(&interface).unwrap_err().to_string().contains("another command detached weir0"));
            assert_eq!([(); 2].map(|()| mark(&interface).unwrap()), [true, false]);
            let lock = Lock::take(&interface).unwrap().unwrap();
            assert_eq!(Lock::take(&interface).unwrap().map(drop), Err(std::process::id()));
            lock.write(&found()).unwrap();
            assert_eq!(read(&interface).unwrap().process, Some(std::process::id()));
            drop(lock);
            assert!(is_true_soon(|| read(&interface).unwrap().process.is_none()));
            // The rate found by a killed process stays.
            let left = read(&interface).unwrap();
            assert_eq!((left.process, left.status.rate), (None, found().rate));
            let lock = Lock::take(&interface).unwrap().unwrap();
            assert!(lock.is_valid());
            forget(&interface).unwrap();
            assert!(!lock.is_valid() && read(&interface).is_none());
            lock.write(&found()).unwrap();
            assert_eq!(read(&interface), None, "a follower makes no file");
            mark(&interface).unwrap();
            let _other = Lock::take(&interface).unwrap().unwrap();
            assert!(!lock.is_valid());
            forget(&interface).unwrap();
        });
    }
}
