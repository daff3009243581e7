//! Chooses the congestion control of a namespace.
//!
//! A namespace other than the first may only choose what `net.ipv4.tcp_allowed_congestion_control` lists, and that
//! list belongs to the whole machine. Changing the machine's default and letting the namespace inherit it would change
//! every connection opened elsewhere meanwhile; adding to the list changes nobody's connections, so we add to it for
//! the instant in which the namespaces choose, under a lock against other experiments, and put it back. Killed in that
//! instant (SIGKILL), we leave one more algorithm allowed.

use std::fs::{self, File};
use std::io;

use crate::LabError;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
pub(crate) const CHOSEN: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Calls `choose`, which writes `wanted` to [`CHOSEN`] inside the namespaces, while that is allowed.
pub(crate) fn while_allowed(wanted: &str, choose: impl FnOnce() -> Result<(), LabError>) -> Result<(), LabError> {
    check(wanted)?;
    let lock = File::open(ALLOWED).map_err(|e| LabError::io(ALLOWED, e))?;
    lock.lock().map_err(|e| LabError::io(ALLOWED, e))?;
    let before = read(ALLOWED)?;
    if lists(&before, wanted) {
        return choose();
    }
    fs::write(ALLOWED, format!("{before} {wanted}")).map_err(|e| LabError::io(ALLOWED, e))?;
    let _restore = Restore(before);
    choose()
}

/// An error where this kernel has no such algorithm.
pub(crate) fn check(wanted: &str) -> Result<(), LabError> {
    let available = read(AVAILABLE)?;
    match lists(&available, wanted) {
        true => Ok(()),
        false => Err(LabError::Congestion { wanted: wanted.into(), available }),
    }
}

/// Puts the list back when dropped.
struct Restore(String);

impl Drop for Restore {
    fn drop(&mut self) {
        if let Err(error) = fs::write(ALLOWED, &self.0) {
            eprintln!("weirlab: cannot put `{}` back into {ALLOWED}: {error}", self.0);
        }
    }
}

fn read(path: &str) -> Result<String, LabError> {
    let text: io::Result<String> = fs::read_to_string(path);
    text.map(|text| text.trim().to_owned()).map_err(|e| LabError::io(path, e))
}

fn lists(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_algorithm_is_refused_before_anything_changes() {
        let said = while_allowed("no-such", || panic!("must not be called")).unwrap_err().to_string();
        assert!(said.starts_with("congestion control `no-such` is not in this kernel, which has: "), "{said}");
    }

    #[test]
    fn names_are_whole_words() {
        assert!(lists("reno bbr cubic", "bbr"));
        assert!(!lists("reno bbr2", "bbr"));
        assert!(!lists("", "cubic"));
    }
}
