//! The memory budget: how much memory the process may use, and how it is divided.
//!
//! Workers share no counter for it: connections are distributed evenly over them, and so is the memory for connections.

mod host;

use std::path::Path;

/// The minimum budget, which is enough for the program with its caches and a few hundred connections.
pub const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// The divisor of the default budget: half of the memory of the host or the cgroup. The rest is for the page cache,
/// from which files are sent.
const DEFAULT_PART: u64 = 2;
/// The minimum of the default budget.
const DEFAULT_BYTES_MIN: u64 = 64 << 20;

/// The memory of a server without connections (program, threads and tables). In a release build, 8 to 9.3 MB are
/// resident.
const PROGRAM_BYTES: u64 = 12 << 20;
/// The divisor of the budget that gives the part for files in memory. The next constants are those for coded forms of
/// files with their encoders, and for lines on their way to the logs. All have limits of their own as well.
const CACHES_PART: u64 = 8;
const CODED_PART: u64 = 16;
const LOGS_PART: u64 = 16;
/// The divisor of the connections' memory that gives the part for bytes that were read and have not been sent.
const READS_PART: u64 = 4;

/// The divisor of the connections' memory that gives the part left for them while a password is verified.
const LEFT_BY_LOGINS_PART: u64 = 4;

/// The maximum memory of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    pub bytes: u64,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The operator set `limits.memory`.
    Asked,
    /// A share of the memory of the machine.
    Machine,
    /// A share of the memory that a cgroup permits, if that is less than the machine's.
    Cgroup,
}

impl MemoryLimit {
    /// Returns the requested budget, or the default on this host.
    pub fn new(asked: Option<u64>) -> MemoryLimit {
        match asked {
            Some(bytes) => MemoryLimit { bytes: bytes.max(MEMORY_BYTES_MIN), origin: Origin::Asked },
            None => MemoryLimit::of_host(Path::new("/"), Some(host::kernel_bytes())),
        }
    }

    /// Returns the default budget. A systemd unit may hide /proc/meminfo (ProcSubset); the value of sysinfo(2) is used
    /// then.
    fn of_host(root: &Path, kernel: Option<u64>) -> MemoryLimit {
        let (machine, cgroup) = (host::machine_bytes(root).or(kernel), host::cgroup_bytes(root));
        let is_cgroup = cgroup.is_some_and(|cgroup| machine.is_none_or(|machine| cgroup < machine));
        let origin = if is_cgroup { Origin::Cgroup } else { Origin::Machine };
        let whole = machine.into_iter().chain(cgroup).min().unwrap_or(0);
        MemoryLimit { bytes: (whole / DEFAULT_PART).max(DEFAULT_BYTES_MIN), origin }
    }

    /// The maximum bytes of files in memory and listings, per worker.
    pub fn caches_bytes(&self, workers: usize) -> u64 {
        self.bytes / CACHES_PART / workers.max(1) as u64
    }

    /// The maximum bytes of coded forms of files, and of the encoders that make them.
    pub fn coded_bytes(&self) -> u64 {
        self.bytes / CODED_PART
    }

    /// The maximum bytes of lines on their way to the logs.
    pub fn logs_bytes(&self) -> u64 {
        self.bytes / LOGS_PART
    }

    /// The maximum bytes of files that were read for connections and have not been sent. It is a part of the
    /// connections' memory.
    pub fn reads_bytes(&self) -> u64 {
        self.connections_bytes(0, 1) / READS_PART
    }

    /// The maximum memory of connections, per worker, while a password is verified, which takes `logins_bytes`.
    /// Connections keep their minimum, because otherwise no client would be admitted.
    pub fn connections_bytes(&self, logins_bytes: u64, workers: usize) -> u64 {
        let others = PROGRAM_BYTES + self.caches_bytes(1) + self.coded_bytes() + self.logs_bytes();
        let left = self.bytes - others;
        left.saturating_sub(logins_bytes).max(left / LEFT_BY_LOGINS_PART) / workers.max(1) as u64
    }

    /// Returns a line for the log if verifying a password takes more memory than the connections leave for it.
    pub fn short_for_logins(&self, logins_bytes: u64) -> Option<String> {
        let left = self.connections_bytes(0, 1);
        let taken = left - left / LEFT_BY_LOGINS_PART;
        let in_mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let missing = logins_bytes.checked_sub(taken).filter(|missing| *missing > 0)?;
        Some(format!(
            "limits.memory of {} MiB is exceeded by up to {} MiB while a password is verified: expected {} MiB, or users with \
             bcrypt or smaller Argon2 hashes",
            in_mib(self.bytes),
            in_mib(missing),
            in_mib(self.bytes + 2 * missing)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash of 19 MiB fits a budget of 64, and one of 64 does not.
    #[test]
    fn a_verification_takes_its_memory_from_connections() {
        let limit = MemoryLimit::new(Some(64 << 20));
        let (without, with) = (limit.connections_bytes(0, 2), limit.connections_bytes(19 << 20, 2));
        assert_eq!((without - with, limit.short_for_logins(19 << 20)), ((19 << 20) / 2, None));
        assert_eq!(limit.connections_bytes(64 << 20, 2), without / 4);
        let line = limit.short_for_logins(64 << 20).unwrap();
        assert!(line.starts_with("limits.memory of 64 MiB is exceeded by up to 3"), "{line}");
        let asked: u64 = line.split_once("expected ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(MemoryLimit::new(Some(asked << 20)).short_for_logins(64 << 20), None, "{line}");
        assert_eq!(limit.short_for_logins(0), None);
    }

    #[test]
    fn the_parts_fit_into_the_whole() {
        for bytes in [0, MEMORY_BYTES_MIN, 64 << 20, 1 << 30, 1 << 40] {
            let limit = MemoryLimit::new(Some(bytes));
            for workers in [1, 2, 256] {
                let connections = limit.connections_bytes(0, workers) * workers as u64;
                let others = limit.caches_bytes(1) + limit.coded_bytes() + limit.logs_bytes() + PROGRAM_BYTES;
                let parts = connections + others;
                assert!(parts <= limit.bytes && limit.bytes - parts < workers as u64, "{bytes} {workers}");
            }
            assert!(limit.connections_bytes(0, 1) >= limit.bytes / 4);
        }
    }

    #[test]
    fn the_default_is_half_of_the_least_and_at_least_64_mb() {
        let root = host::testing::root("default");
        let limit = |bytes, origin| MemoryLimit { bytes, origin };
        assert_eq!(MemoryLimit::of_host(&root, None), limit(64 << 20, Origin::Machine), "nothing is known");
        assert_eq!(MemoryLimit::of_host(&root, Some(8 << 30)), limit(4 << 30, Origin::Machine), "no /proc/meminfo");
        host::testing::write(&root, "proc/self/cgroup", "4:memory:/a\n");
        host::testing::write(&root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(
            MemoryLimit::of_host(&root, Some(8 << 30)),
            limit(4 << 30, Origin::Machine),
            "no limit of version 1"
        );
        host::testing::write(&root, "proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n");
        assert_eq!(MemoryLimit::of_host(&root, None), limit(2 << 30, Origin::Machine));
        host::testing::write(&root, "proc/self/cgroup", "0::/a\n");
        host::testing::write(&root, "sys/fs/cgroup/a/memory.max", "1073741824\n");
        assert_eq!(MemoryLimit::of_host(&root, None), limit(512 << 20, Origin::Cgroup));
        host::testing::write(&root, "sys/fs/cgroup/a/memory.max", "1048576\n");
        assert_eq!(MemoryLimit::of_host(&root, None), limit(64 << 20, Origin::Cgroup));
        std::fs::remove_dir_all(root).unwrap();
    }
}
