//! Selects the congestion control of a network namespace.
//!
//! A namespace other than the first may select only algorithms listed in `net.ipv4.tcp_allowed_congestion_control`, and
//! that list applies to the whole machine. Changing the machine's default and letting the namespace inherit it would
//! change every connection opened elsewhere in the meantime; adding to the list changes no connection. The algorithm is
//! therefore added to the list only while the namespaces select it, under a lock against other processes that do the
//! same, and then the list is restored. A file in /run/weir holds the original list until then: the next call, or
//! `scripts/put-back.sh`, restores it after a SIGKILL.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;

use crate::Error;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// The congestion control of the calling thread's namespace.
pub const CHOSEN: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const FOLDER: &str = "/run/weir";
/// A file of two lines: the original list, and the list that we set.
const KEPT: &str = "/run/weir/allowed-congestion-control";

/// Calls `choose` while `wanted` is in the list of allowed algorithms; `choose` writes it to [`CHOSEN`] inside the
/// namespaces. Must be called in the first namespace, the only one in which the list can be written.
pub fn while_allowed<T, E: From<Error>>(wanted: &str, choose: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    check(wanted)?;
    let _allowed = Allowed::add(wanted)?;
    choose()
}

/// Returns an error if this kernel does not have the algorithm.
pub fn check(wanted: &str) -> Result<(), Error> {
    let available = read(AVAILABLE).map_err(|error| Error::kernel(AVAILABLE, error))?;
    match lists(&available, wanted) {
        true => Ok(()),
        false => {
            Err(Error::new(format!("congestion control `{wanted}` is not in this kernel, which has: {available}")))
        }
    }
}

/// An algorithm added to the allowed list. Dropping it restores the list and then releases the lock.
struct Allowed {
    before: Option<String>,
    _lock: File,
}

impl Allowed {
    fn add(wanted: &str) -> Result<Allowed, Error> {
        let add = || {
            let lock = File::open(ALLOWED)?;
            lock.lock()?;
            put_back_leftover()?;
            let before = read(ALLOWED)?;
            if lists(&before, wanted) {
                return Ok(Allowed { before: None, _lock: lock });
            }
            let set = format!("{before} {wanted}");
            fs::create_dir_all(FOLDER)?;
            fs::write(KEPT, format!("{before}\n{set}\n"))?;
            let allowed = Allowed { before: Some(before), _lock: lock };
            fs::write(ALLOWED, set)?;
            Ok(allowed)
        };
        add().map_err(|error: io::Error| {
            Error::kernel(&format!("adding `{wanted}` to net.ipv4.tcp_allowed_congestion_control"), error)
        })
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        match fs::write(ALLOWED, before) {
            Ok(()) => drop(fs::remove_file(KEPT)),
            Err(error) => eprintln!("weir: cannot restore `{before}` in {ALLOWED}: {error}"),
        }
    }
}

/// Restores the list after a process that was killed before it could do so, unless the list has been changed since.
fn put_back_leftover() -> io::Result<()> {
    let Ok(kept) = fs::read_to_string(KEPT) else { return Ok(()) };
    if let Some((before, set)) = kept.trim_end().split_once('\n')
        && words(set) == words(&read(ALLOWED)?)
    {
        fs::write(ALLOWED, before)?;
    }
    fs::remove_file(KEPT)
}

fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

fn lists(list: &str, name: &str) -> bool {
    words(list).contains(name)
}

/// Splits a list into a set, because the kernel lists the names in its own order.
fn words(list: &str) -> BTreeSet<&str> {
    list.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::skip;

    #[test]
    fn an_unknown_algorithm_is_refused_before_anything_changes() {
        let refused: Result<(), Error> = while_allowed("no-such", || panic!("must not be called"));
        let said = refused.unwrap_err().to_string();
        assert!(said.starts_with("congestion control `no-such` is not in this kernel, which has: "), "{said}");
    }

    #[test]
    fn names_are_whole_words() {
        assert!(lists("reno bbr cubic", "bbr"));
        assert!(!lists("reno bbr2", "bbr"));
        assert!(!lists("", "cubic"));
    }

    /// The machine's own list, under the lock: the algorithms allowed in the meantime, and the state that a killed
    /// process leaves.
    #[test]
    fn the_list_is_as_it_was_also_after_a_kill() {
        if !rustix::process::geteuid().is_root() {
            return skip("changing net.ipv4.tcp_allowed_congestion_control needs root");
        }
        let available = read(AVAILABLE).unwrap();
        let Some(wanted) = words(&available).into_iter().find(|name| !lists(&read(ALLOWED).unwrap(), name)) else {
            return println!("SKIPPED: every algorithm of this machine is allowed already");
        };
        let before = {
            let allowed = Allowed::add(wanted).unwrap();
            assert!(lists(&read(ALLOWED).unwrap(), wanted));
            allowed.before.clone().unwrap()
        };
        // Killed in between: the list and the file stay, the lock disappears with the process.
        let mut killed = Allowed::add(wanted).unwrap();
        killed.before = None;
        assert!(lists(&read(ALLOWED).unwrap(), wanted));
        drop(killed);
        let after: Result<String, Error> =
            while_allowed("reno", || read(ALLOWED).map_err(|error| Error::kernel("reading", error)));
        assert_eq!(words(&after.unwrap()), words(&before));
    }
}
