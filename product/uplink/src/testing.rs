//! The environment of privileged tests: a separate network that ends with them.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::tree::forget_namespace;

/// The number of a namespace. Dropping it removes everything stored for restoring in that namespace.
struct Forgotten(u64);

impl Drop for Forgotten {
    fn drop(&mut self) {
        forget_namespace(self.0);
    }
}

/// Runs a test on a thread with a separate network, which ends with the thread. Without the required privilege it
/// reports that the test was skipped, or fails if `WEIR_REQUIRE_PRIVILEGED=1` is set.
pub fn in_own_network(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: no memory is touched; the network namespace changes only for this thread.
        let is_alone = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        if is_alone {
            // This is dropped even if the test fails.
            let _forgotten = Forgotten(std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
            test();
        }
        is_alone
    });
    if !thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        skip("making a network namespace needs root");
    }
}

/// Loads a test's own programs into the kernel. If that is impossible, reports the test as skipped and returns `None`.
/// An object is empty without clang.
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

/// Reports that a test was skipped, and why; fails if no test may be skipped.
pub fn skip(why: &str) {
    assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
    println!("SKIPPED: {why}");
}

/// Runs a command, which must succeed.
pub fn run(command: &str) {
    let mut words = command.split_whitespace();
    let status = Command::new(words.next().unwrap()).args(words).status().unwrap();
    assert!(status.success(), "{command}");
}

/// Tries a condition for a second at most until it is true. What a test closes stays open longer: a process that
/// another test starts holds copies of all descriptors until it runs its program.
pub fn is_true_soon(mut condition: impl FnMut() -> bool) -> bool {
    (0..100).any(|_| {
        let is_true = condition();
        if !is_true {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        is_true
    })
}
