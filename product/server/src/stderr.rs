//! The lines of the error log on standard error. Each line has a timestamp, unless they go to the systemd journal,
//! which adds its own.

use std::env;
use std::io;
use std::sync::OnceLock;
use std::time::SystemTime;

use rustix::fs::fstat;

/// Formats a line with its newline: `2026-11-27T01:02:03.456Z weir: text`, or `weir: text` for the journal.
pub fn line(text: &str) -> String {
    let text = units::plain(text);
    if is_journal() { format!("weir: {text}\n") } else { format!("{} weir: {text}\n", time(SystemTime::now())) }
}

/// Formats the time in UTC (RFC 3339), with milliseconds.
fn time(now: SystemTime) -> String {
    let ms = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_millis();
    let iso = http::HttpDate::new(now).iso();
    format!("{}.{ms:03}Z", &iso[..19])
}

/// Returns true if standard error is the stream that systemd has connected to the journal (systemd.exec(5)). The result
/// may change, because a successor takes over the stream of the process before it.
fn is_journal() -> bool {
    static STREAM: OnceLock<Option<(u64, u64)>> = OnceLock::new();
    let stream = STREAM.get_or_init(|| stream(&env::var("JOURNAL_STREAM").ok()?));
    let own = || fstat(io::stderr()).ok().map(|found| (found.st_dev, found.st_ino));
    stream.is_some() && *stream == own()
}

/// Parses the device and inode of `JOURNAL_STREAM`.
fn stream(text: &str) -> Option<(u64, u64)> {
    let (device, inode) = text.split_once(':')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_in_utc_with_milliseconds() {
        assert_eq!(time(SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_255_200_007)), "2026-11-21T10:00:00.007Z");
    }

    #[test]
    fn the_stream_of_the_journal_is_a_device_and_an_inode() {
        let read = ["8:12345", "8", "8:", "x:1", "8:1:2"].map(stream);
        assert_eq!(read, [Some((8, 12345)), None, None, None, None]);
    }
}
