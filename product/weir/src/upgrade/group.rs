//! The control group (cgroups(7)) by which a service manager identifies the processes of a service.

use std::path::PathBuf;

/// Moves this process, and the processes that it starts later, into the control group of another process. Returns
/// whether that worked.
pub fn join(pid: u32) -> bool {
    let own = std::process::id();
    let Some(wanted) = of(pid) else { return false };
    let now = of(own).unwrap_or_default();
    for line in wanted.iter().filter(|line| !now.contains(line)) {
        for place in places(line) {
            // The hierarchy is mounted at one of these places.
            let _ = std::fs::write(place, own.to_string());
        }
    }
    of(own).as_ref() == Some(&wanted)
}

/// Returns the lines `ID:CONTROLLERS:PATH` of /proc/PID/cgroup for version 2, and for the hierarchy that systemd adds
/// to version 1.
fn of(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    Some(text.lines().filter(|line| !places(line).is_empty()).map(str::to_owned).collect())
}

/// The files to which a process number may be written.
fn places(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let mounts: &[&str] = match controllers {
        "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
        "name=systemd" => &["/sys/fs/cgroup/systemd"],
        _ => &[],
    };
    mounts.iter().map(|mount| PathBuf::from(format!("{mount}{path}/cgroup.procs"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hierarchies_of_a_service_manager_count() {
        let unit = "/system.slice/weir.service";
        assert_eq!(
            places(&format!("0::{unit}")),
            [
                PathBuf::from(format!("/sys/fs/cgroup{unit}/cgroup.procs")),
                PathBuf::from(format!("/sys/fs/cgroup/unified{unit}/cgroup.procs"))
            ]
        );
        let systemd = [PathBuf::from(format!("/sys/fs/cgroup/systemd{unit}/cgroup.procs"))];
        assert_eq!(places(&format!("9:name=systemd:{unit}")), systemd);
        for other in ["4:memory:/x", "2:cpu,cpuacct:/", "", "9"] {
            assert!(places(other).is_empty(), "{other}");
        }
        assert!(join(std::process::id()), "where it is");
        assert!(!join(u32::MAX), "no such process");
    }
}
