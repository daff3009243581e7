//! The memory of the machine, and the limits that cgroups impose (proc(5), cgroups(7)).

use std::fs;
use std::path::Path;

/// Reads `MemTotal` of /proc/meminfo.
pub fn machine_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the memory of the machine according to sysinfo(2), which works without /proc.
pub fn kernel_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(info.mem_unit.into())
}

/// Returns the lowest limit of the process's cgroup and those above it, in both cgroup versions. A limit that exceeds
/// `u64` is ignored; the caller ignores limits above the machine's memory.
pub fn cgroup_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    text.lines().filter_map(|line| of_hierarchy(root, line)).min()
}

/// Reads the limit of one hierarchy. A line is `ID:CONTROLLERS:PATH`; for cgroup v2 it lists no controllers.
fn of_hierarchy(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (mounts, name): (&[&str], _) = match controllers {
        "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        }
        _ => return None,
    };
    // In a container the path may be the host's; then only the root is there.
    let cgroups = Path::new(path.trim_start_matches('/')).ancestors();
    let files = cgroups.flat_map(|cgroup| mounts.iter().map(move |mount| root.join(mount).join(cgroup).join(name)));
    files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
pub mod testing {
    use super::*;

    pub fn root(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("weir-memory-{}-{name}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        root
    }

    pub fn write(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{root, write};
    use super::*;

    #[test]
    fn the_least_limit_up_to_the_root_counts() {
        let root = root("cgroups");
        assert_eq!((machine_bytes(&root), cgroup_bytes(&root)), (None, None));
        write(&root, "proc/self/cgroup", "0::/system.slice/weir.service\n");
        write(&root, "sys/fs/cgroup/system.slice/weir.service/memory.max", "max\n");
        assert_eq!(cgroup_bytes(&root), None, "no limit");
        write(&root, "sys/fs/cgroup/system.slice/memory.max", "500\n");
        assert_eq!(cgroup_bytes(&root), Some(500));
        write(&root, "sys/fs/cgroup/system.slice/weir.service/memory.max", "400\n");
        assert_eq!(cgroup_bytes(&root), Some(400));
        // Cgroup v1 and v2 together, and a path that does not exist here.
        write(&root, "proc/self/cgroup", "5:cpu,memory:/docker/a\n4:cpuset:/b\n0::/system.slice/weir.service\n");
        write(&root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "300\n");
        assert_eq!(cgroup_bytes(&root), Some(300));
        for text in ["", "MemTotal: x kB", "MemTotal: 18446744073709551615 kB"] {
            write(&root, "proc/meminfo", text);
            assert_eq!(machine_bytes(&root), None, "{text}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
