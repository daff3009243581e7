//! A control group for each side of the link. It provides the CPU time and the waiting time of all its processes in one
//! file each, instead of one per process, of which Apache has 350. A BPF program attached to it applies to the sockets
//! of all these processes.
//!
//! No controller is needed: the kernel counts CPU time (`cpu.stat`) and waits (`cpu.pressure`) of every group of
//! version 2.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::process::{MountInfos, Process};

/// A group created here, which is removed when dropped. Its processes must have ended by then.
#[derive(Debug)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Creates the group `name`; `None` if there is no hierarchy of version 2, or none that we may write to.
    pub(crate) fn create(name: &str) -> Option<Cgroup> {
        let folder = hierarchy()?.join(name);
        fs::create_dir(&folder).ok()?;
        Some(Cgroup { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The words before a command that put it and its children into the group.
    pub(crate) fn prefix(&self) -> Vec<String> {
        let processes = self.folder.join("cgroup.procs").display().to_string();
        ["sh", "-c", "echo $$ >\"$0\" && exec \"$@\"", &processes].map(String::from).into()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove_folder(&self.folder);
    }
}

/// Removes the group of this name that a killed experiment has left.
pub(crate) fn remove(name: &str) {
    if let Some(hierarchy) = hierarchy() {
        remove_folder(&hierarchy.join(name));
    }
}

fn remove_folder(folder: &Path) {
    if folder.exists()
        && let Err(error) = fs::remove_dir(folder)
    {
        eprintln!("weirlab: cannot remove {}: {error}", folder.display());
    }
}

/// The CPU time that the group in this folder has used so far.
pub(crate) fn used(folder: &Path) -> Option<Duration> {
    let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    line.trim().parse().ok().map(Duration::from_micros)
}

/// The total time for which a process of the group was ready to run and had no processor; `None` if the kernel does not
/// count it (it needs CONFIG_PSI, and on some systems `psi=1` at boot).
pub(crate) fn waited(folder: &Path) -> Option<Duration> {
    waited_in(&fs::read_to_string(folder.join("cpu.pressure")).ok()?)
}

fn waited_in(pressure: &str) -> Option<Duration> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok().map(Duration::from_micros)
}

/// Returns the folder in which the hierarchy of version 2 is mounted.
fn hierarchy() -> Option<PathBuf> {
    hierarchy_in(Process::myself().and_then(|process| process.mountinfo()).ok()?)
}

fn hierarchy_in(mounts: MountInfos) -> Option<PathBuf> {
    mounts.into_iter().find(|mount| mount.fs_type == "cgroup2").map(|mount| mount.mount_point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    #[test]
    fn finds_version_2_among_the_mounts() {
        let mounts = "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let found = |mounts: &str| hierarchy_in(MountInfos::from_read(mounts.as_bytes()).unwrap());
        assert_eq!(found(mounts).unwrap(), Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(found("1 0 0:1 / / rw - ext4 /dev/cgroup2 rw\n"), None);
    }

    #[test]
    fn reads_waits() {
        let pressure = "some avg10=0.00 avg60=1.53 avg300=6.36 total=10482\nfull avg10=0.00 avg60=0.00 total=7\n";
        assert_eq!(waited_in(pressure), Some(Duration::from_micros(10_482)));
        assert_eq!(waited_in(""), None);
    }
}
