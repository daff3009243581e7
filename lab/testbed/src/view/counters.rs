//! Counters that the kernel provides as text in /proc, read through files that stay open.
//!
//! The crate `procfs`, which reads other parts of /proc here, does not support netstat and sockstat, requires groups in
//! snmp that only some kernels have, and would read all lines of stat ten times a second instead of one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Cell;

/// The maximum bytes read of a file in /proc; these files have some kilobytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The counters of TCP in one namespace.
pub(super) struct Protocol {
    netstat: Text,
    snmp: Text,
    sockstat: Text,
}

/// The name of the column, and the group and counter in /proc/net/netstat.
const NETSTAT: [(&str, &str); 6] = [
    ("aborts_on_timeout_total", "TCPAbortOnTimeout"),
    ("listen_drops_total", "ListenDrops"),
    ("listen_overflows_total", "ListenOverflows"),
    ("syn_queue_full_drops_total", "TCPReqQFullDrop"),
    ("syn_queue_full_cookies_total", "TCPReqQFullDoCookies"),
    ("syn_cookies_sent_total", "SyncookiesSent"),
];

impl Protocol {
    /// Opens the counters of the calling thread's namespace, for any reading thread. `/proc/net` would be the process's
    /// namespace.
    pub(super) fn open() -> io::Result<Protocol> {
        let open = |name: &str| Text::open(&format!("/proc/thread-self/net/{name}"));
        Ok(Protocol { netstat: open("netstat")?, snmp: open("snmp")?, sockstat: open("sockstat")? })
    }

    pub(super) fn read(&mut self, row: &mut Vec<Cell>) {
        let sockstat = self.sockstat.read();
        row.push(("connections_time_wait".into(), sockstat.and_then(|text| sockets(text, "tw"))));
        row.push(("connections_orphaned".into(), sockstat.and_then(|text| sockets(text, "orphan"))));
        let netstat = self.netstat.read();
        for (column, name) in NETSTAT {
            row.push((column.into(), netstat.and_then(|text| counter(text, "TcpExt:", name))));
        }
        let resent = self.snmp.read().and_then(|text| counter(text, "Tcp:", "RetransSegs"));
        row.push(("retransmitted_segments_total".into(), resent));
    }
}

/// Parses a counter of a group. One line begins with the group and names the counters; the next has their values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|word| word == name)?;
    values.split(' ').nth(at)?.parse().ok()
}

/// Parses a line such as `TCP: inuse 5 orphan 3 tw 1798 alloc 6 mem 0`.
fn sockets(sockstat: &str, kind: &str) -> Option<u64> {
    let mut words = sockstat.lines().find_map(|line| line.strip_prefix("TCP: "))?.split(' ');
    words.find(|word| *word == kind)?;
    words.next()?.parse().ok()
}

/// The load of the machine's processors.
pub(super) struct Machine {
    stat: Text,
}

/// The unit of the times in /proc/stat: USER_HZ, 100 on every architecture.
const TICK_US: u64 = 10_000;

impl Machine {
    pub(super) fn open() -> io::Result<Machine> {
        Ok(Machine { stat: Text::open("/proc/stat")? })
    }

    pub(super) fn read(&mut self, row: &mut Vec<Cell>) {
        let times = self.stat.read().and_then(processor_times);
        let names = ["machine_busy_us_total", "machine_nice_us_total", "machine_idle_us_total"];
        for (at, name) in names.into_iter().enumerate() {
            row.push((name.into(), times.map(|times| times[at])));
        }
    }
}

/// The times spent busy, busy at lower priority, and idle, from the line for all processors: user, nice, system, idle,
/// waiting for a disk, interrupts, soft interrupts, stolen by the host (proc_stat(5)).
fn processor_times(stat: &str) -> Option<[u64; 3]> {
    let ticks: Vec<u64> = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().flat_map(str::parse).collect();
    let [user, nice, system, idle, disk, interrupts, soft, stolen, ..] = ticks[..] else { return None };
    Some([user + system + interrupts + soft + stolen, nice, idle + disk].map(|ticks| ticks * TICK_US))
}

/// A file of /proc, whose content the kernel creates at every reading from its beginning.
struct Text {
    file: File,
    bytes: Vec<u8>,
}

impl Text {
    fn open(path: &str) -> io::Result<Text> {
        Ok(Text { file: File::open(path)?, bytes: vec![0; TEXT_BYTES_MAX] })
    }

    fn read(&mut self) -> Option<&str> {
        let mut length = 0;
        while length < TEXT_BYTES_MAX {
            match self.file.read_at(&mut self.bytes[length..], length as u64).ok()? {
                0 => break,
                more => length += more,
            }
        }
        std::str::from_utf8(&self.bytes[..length]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 22 3\nIpExt: A ListenDrops\nIpExt: 4 5\n";
        assert_eq!(counter(text, "TcpExt:", "ListenDrops"), Some(22));
        assert_eq!(counter(text, "IpExt:", "ListenDrops"), Some(5));
        assert_eq!(counter(text, "TcpExt:", "C"), None);
        assert_eq!(counter("TcpExt: A\n", "TcpExt:", "A"), None);
    }

    #[test]
    fn finds_sockets_of_a_kind() {
        let text = "sockets: used 7\nTCP: inuse 5 orphan 3 tw 1798 alloc 6 mem 0\nUDP: inuse 2 mem 0\n";
        assert_eq!(
            (sockets(text, "tw"), sockets(text, "orphan"), sockets("UDP: tw 2\n", "tw")),
            (Some(1798), Some(3), None)
        );
    }

    #[test]
    fn every_counter_is_in_this_kernel() {
        let mut row = vec![];
        Protocol::open().unwrap().read(&mut row);
        Machine::open().unwrap().read(&mut row);
        assert_eq!(row.len(), NETSTAT.len() + 6);
        assert!(row.iter().all(|(_, value)| value.is_some()), "{row:?}");
    }

    #[test]
    fn lower_priority_is_not_busy() {
        let stat = "cpu  1 20 3 400 5 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(processor_times(stat), Some([250_000, 200_000, 4_050_000]));
        assert_eq!(processor_times("cpu  1 2 3\n"), None);
    }
}
