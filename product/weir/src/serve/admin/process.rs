//! The `process_*` metrics of the Prometheus client libraries, read from the kernel.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Dir, Mode, OFlags, open};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The files that are read for each answer. They are opened at the start, because the user to which weir switches may
/// not be permitted to open them.
#[derive(Debug)]
pub struct Process {
    /// `/proc/self/statm`; `None` without /proc.
    memory: Option<File>,
    /// `/proc/self/stat`.
    stat: Option<File>,
    /// `/proc/self/fd`.
    descriptors: Option<RefCell<Dir>>,
    /// The start of the process in seconds since 1970.
    started_s: f64,
}

/// The figures of the process. A figure is `None` if the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    pub cpu_s: f64,
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    /// The maximum; also `None` if there is no limit.
    pub virtual_bytes_max: Option<u64>,
    pub threads: Option<u64>,
    pub open_descriptors: Option<u64>,
    /// The maximum; also `None` if there is no limit.
    pub descriptors_max: Option<u64>,
    /// The start of the process in seconds since 1970.
    pub started_s: f64,
}

impl Process {
    /// Opens the files. Must be called at the start of the process, because it records the start time.
    pub fn open() -> Process {
        let folder = open("/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        Process {
            memory: File::open("/proc/self/statm").ok(),
            stat: File::open("/proc/self/stat").ok(),
            descriptors: folder.and_then(Dir::new).ok().map(RefCell::new),
            started_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        }
    }

    pub fn figures(&self) -> Figures {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let [virtual_bytes, resident_bytes] = self.pages().map(|pages| Some(pages? * page_size() as u64));
        Figures {
            cpu_s: used.tv_sec as f64 + used.tv_nsec as f64 / 1e9,
            resident_bytes,
            virtual_bytes,
            virtual_bytes_max: getrlimit(Resource::As).current,
            threads: self.threads(),
            open_descriptors: self.descriptors.as_ref().and_then(|folder| count(&mut folder.borrow_mut())),
            descriptors_max: getrlimit(Resource::Nofile).current,
            started_s: self.started_s,
        }
    }

    /// The pages of memory, virtual and resident (proc_pid_statm(5)).
    fn pages(&self) -> [Option<u64>; 2] {
        let text = self.memory.as_ref().map(read).unwrap_or_default();
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        [(); 2].map(|()| words.next().flatten())
    }

    /// The number of threads (proc_pid_stat(5)). The second field, the name in brackets, may contain spaces.
    fn threads(&self) -> Option<u64> {
        const BEHIND_THE_NAME: usize = 17;
        let text = self.stat.as_ref().map(read)?;
        text.rsplit_once(')')?.1.split_whitespace().nth(BEHIND_THE_NAME)?.parse().ok()
    }
}

/// Reads a short file of /proc from its start.
fn read(file: &File) -> String {
    let mut text = [0; 1024];
    let read = file.read_at(&mut text, 0).unwrap_or(0);
    String::from_utf8_lossy(&text[..read]).into_owned()
}

/// Counts the descriptors in a folder, leaving out the names `.` and `..`.
fn count(folder: &mut Dir) -> Option<u64> {
    folder.rewind();
    let names = folder.by_ref().collect::<Result<Vec<_>, _>>().ok()?;
    Some(names.iter().filter(|name| !name.file_name().to_bytes().starts_with(b".")).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_follow_the_process() {
        let process = Process::open();
        let before = process.figures();
        let files: Vec<File> = (0..20).map(|_| File::open("/proc/self/statm").unwrap()).collect();
        let pages = vec![1u8; 64 << 20];
        let after = process.figures();
        assert!(pages.iter().all(|byte| *byte == 1) && files.len() == 20);
        // Other tests of this program may open and close files meanwhile; none opens a hundred.
        let opened = after.open_descriptors.unwrap() as i64 - before.open_descriptors.unwrap() as i64;
        assert!((-80..=120).contains(&opened), "{opened}");
        assert!(after.resident_bytes.unwrap() >= 64 << 20 && after.virtual_bytes > after.resident_bytes, "{after:?}");
        assert!(process.figures().cpu_s > before.cpu_s, "it has counted bytes since");
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        assert!(process.figures().threads.unwrap() >= 2, "this thread and the other");
        drop(stop);
        let _ = other.join();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 3600.0..=now).contains(&after.started_s), "{after:?}");
    }
}
