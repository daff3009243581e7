//! The maximum number of open files. A shell's maximum may be lower than a service's, and it limits the number of
//! connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the maximum for processes started from now on to that of the process `old`, if that is higher. Returns a
/// sentence if this is not permitted.
pub fn take_over(old: u32) -> Option<String> {
    let own = getrlimit(Resource::Nofile);
    let wanted = maximum(&std::fs::read_to_string(format!("/proc/{old}/limits")).ok()?)?;
    // An unlimited maximum is the highest.
    if own.maximum.is_none_or(|own| wanted.is_some_and(|wanted| own >= wanted)) {
        return None;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted });
    let number = |maximum: Option<u64>| maximum.map_or("any number of".to_string(), |maximum| maximum.to_string());
    raised.err().map(|_| {
        format!(
            "the new process may open {} files, the old one {}, so it takes fewer connections; raise ulimit -Hn, or run weir upgrade as root",
            number(own.maximum),
            number(wanted),
        )
    })
}

/// Returns the maximum number of open files according to the text of /proc/PID/limits; `Some(None)` if it is unlimited.
fn maximum(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hard_limit_is_read() {
        let text = |hard: &str| format!("Max processes   9  9  processes\nMax open files   1024   {hard}   files\n");
        assert_eq!(maximum(&text("4096")), Some(Some(4096)));
        assert_eq!(maximum(&text("unlimited")), Some(None));
        assert_eq!((maximum(&text("many")), maximum("Max processes 9 9")), (None, None));
        let own = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(maximum(&own), Some(getrlimit(Resource::Nofile).maximum));
    }
}
