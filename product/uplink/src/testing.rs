//! What privileged tests need: a network of their own, that ends with them.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::tree::forget_namespace;

/// A namespace by its number. Dropped, nothing that a tree in it would put back is kept any more.
struct Forgotten(u64);

impl Drop for Forgotten {
    fn drop(&mut self) {
        forget_namespace(self.0);
    }
}

/// Runs a test on a thread with a network of its own, which ends with it. Without the privilege for that it says that it
/// was skipped, or fails where `WEIR_REQUIRE_PRIVILEGED=1` says that the privilege has to be there.
pub fn in_own_network(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: no memory is touched; the thread's view of the network changes, and only this thread's.
        let is_alone = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        if is_alone {
            // Also when the test fails.
            let _forgotten = Forgotten(std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
            test();
        }
        is_alone
    });
    if !thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        skip("making a network namespace needs root");
    }
}

/// A test's own programs in the kernel; `None`, and that it was skipped is said, where they cannot be there. An object is empty
/// without clang.
#[cfg(feature = "bpf")]
pub fn loaded(object: &[u8]) -> Option<libbpf_rs::Object> {
    use libbpf_rs::{ErrorKind, ObjectBuilder};

    if object.is_empty() {
        skip("this was built without clang");
        return None;
    }
    match ObjectBuilder::default().open_memory(object).and_then(|object| object.load()) {
        Ok(object) => Some(object),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            skip("running a program in the kernel needs root or CAP_BPF");
            None
        }
        Err(error) => panic!("{error:#}"),
    }
}

/// Says that a test was skipped, and why; fails where nothing may be skipped.
pub fn skip(why: &str) {
    assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
    println!("SKIPPED: {why}");
}

/// Runs a command, which has to succeed.
pub fn run(command: &str) {
    let mut words = command.split_whitespace();
    let status = Command::new(words.next().unwrap()).args(words).status().unwrap();
    assert!(status.success(), "{command}");
}
