//! Detects whether a thread waits for storage, by the system call that the kernel reports for the thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::thread::Pid;

/// The maximum length of the line that the kernel reports: a number, six arguments, two pointers.
const LINE_BYTES_MAX: usize = 256;

/// The system calls that read files and folders. A wait in any other call is not caused by the disk.
const OF_STORAGE: [libc::c_long; 10] = [
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_preadv2,
    libc::SYS_sendfile,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_getdents64,
    libc::SYS_close,
];

/// Opens the file that shows the system call of a thread of this process.
pub fn open(thread: Pid) -> io::Result<File> {
    File::open(format!("/proc/self/task/{}/syscall", thread.as_raw_nonzero()))
}

/// Returns true if the thread is in a system call on storage. Reads `call` or, without it, a file opened now. Returns
/// false if the kernel does not report the call, or the thread is gone.
pub fn is_waited_for(thread: Option<Pid>, call: Option<&File>) -> bool {
    let mut line = [0; LINE_BYTES_MAX];
    let read = match (call, thread) {
        (Some(call), _) => call.read_at(&mut line, 0),
        (None, Some(thread)) => open(thread).and_then(|call| call.read_at(&mut line, 0)),
        (None, None) => return false,
    };
    read.is_ok_and(|count| is_of_storage(&String::from_utf8_lossy(&line[..count])))
}

/// Parses `NUMBER ARGUMENT...`, or `running`.
fn is_of_storage(line: &str) -> bool {
    let number = line.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number: libc::c_long| OF_STORAGE.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_on_files_are_waiting_for_storage() {
        assert!(is_of_storage(&format!("{} 0x3 0x7f50 0x20000", libc::SYS_sendfile)));
        assert!(!is_of_storage(&format!("{} 0x3 0x7f50", libc::SYS_futex)));
        assert!(!is_of_storage("running\n") && !is_of_storage("-1 0x7ffe 0x7f50\n") && !is_of_storage(""));
    }

    /// A pipe stands in for the disk: only the system call counts.
    #[test]
    fn a_thread_in_a_read_waits_for_storage_and_one_in_a_lock_does_not() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let reading = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            std::io::Read::read(&mut &reader, &mut [0]).unwrap()
        });
        let id = told.recv().ok();
        let kept = id.map(|id| open(id).unwrap());
        while !is_waited_for(id, None) || !is_waited_for(None, kept.as_ref()) {
            std::thread::yield_now();
        }
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            held.recv()
        });
        assert!(!is_waited_for(told.recv().ok(), None));
        drop((writer, hold));
        assert_eq!(reading.join().unwrap(), 0);
        assert!(waiting.join().unwrap().is_err());
        assert!(!is_waited_for(id, None) && !is_waited_for(None, kept.as_ref()), "a thread that is gone");
    }
}
