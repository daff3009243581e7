//! The files in /run/weir that record the state that `down` must restore, and their removal when their network
//! namespace ends.
//!
//! A file is named after the number of its namespace and the number of the interface in it, which are valid for as long
//! as the tree could exist. A namespace that ends takes its tree along and leaves the file, without any notification
//! from the kernel. Every `up` or `down` of any interface therefore removes the files of namespaces that no longer
//! exist.
//!
//! A namespace exists as long as a thread is in it, a file system holds it (`ip netns`), or a process has it open. All
//! of these are searched for in /proc. If anything there cannot be read, or not all processes are visible, nothing is
//! removed: a superfluous file costs some bytes until the next restart, but a missing file costs the qdisc that must be
//! restored. Only process 1 may be unreadable, as in sandboxes: it is in the first namespace, and so are other
//! processes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::device::Device;
use crate::{Error, Interface};

/// The folder of the files; it disappears at a restart of the machine, as the trees do.
pub(crate) const FOLDER: &str = "/run/weir";
/// The prefixes of the file names: `replaced` in `replaced-4026531840-2`.
const KINDS: [&str; 8] = ["replaced", "segments", "upper", "attached", "line", "classes", "change", "gain"];
/// The suffix of a file that is being written, after the number of the writing process.
const UNFINISHED: &str = "new";
/// The number of the first PID namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO): all processes are visible from
/// it.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Returns the path of the file of this kind for an interface of the calling thread's namespace.
pub(crate) fn path(kind: &str, interface: &Interface) -> io::Result<PathBuf> {
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(Path::new(FOLDER).join(format!("{kind}-{namespace}-{}", interface.index)))
}

/// Returns the text of a file of ours without its first word, if that word identifies this interface.
pub(crate) fn read(path: &Path, interface: &Interface) -> Option<String> {
    of_interface(&fs::read_to_string(path).ok()?, interface)
}

/// Returns the text of a file without its first word, if that word identifies this interface.
pub(crate) fn of_interface(text: &str, interface: &Interface) -> Option<String> {
    let (whose, rest) = text.trim_end_matches('\n').split_once(' ')?;
    identity(interface).ok()?.is_of(whose).then(|| rest.to_string())
}

/// Returns the text of a file of this interface.
pub(crate) fn text(interface: &Interface, rest: &str) -> io::Result<String> {
    Ok(format!("{} {rest}\n", identity(interface)?))
}

/// Writes the file so that a kill leaves either the old file or the whole new one, and at most a file that [`sweep`]
/// removes.
pub(crate) fn write(path: &Path, interface: &Interface, rest: &str) -> io::Result<()> {
    let text = text(interface, rest)?;
    let new = path.with_extension(format!("{}.{UNFINISHED}", std::process::id()));
    let write = || {
        fs::create_dir_all(FOLDER)?;
        fs::write(&new, &text)?;
        fs::rename(&new, path)
    };
    // Drops the error number: a refusal by the kernel would otherwise be taken for a missing capability.
    write().map_err(|error| {
        // Usually there is no such file.
        let _ = fs::remove_file(&new);
        io::Error::new(error.kind(), said(path, &error))
    })
}

/// Returns the error of a file of this kind, with its path and the remedy.
pub(crate) fn unusable(kind: &str, interface: &Interface, error: io::Error) -> Error {
    match (error.raw_os_error(), path(kind, interface)) {
        // Our own texts contain the path.
        (None, _) | (_, Err(_)) => Error::new(error.to_string()),
        (_, Ok(path)) => Error::new(said(&path, &error)),
    }
}

/// Returns a text about a file that cannot be written, with the remedy.
fn said(path: &Path, error: &io::Error) -> String {
    let cure = match error.kind() {
        ErrorKind::PermissionDenied => format!("run as root, or give {FOLDER} to this user"),
        ErrorKind::ReadOnlyFilesystem => format!("make {FOLDER} writable, where weir records what it must restore"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("make room: see `df {FOLDER}`"),
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            format!("{FOLDER} must be a folder: remove the file of this name")
        }
        ErrorKind::IsADirectory => "a folder has that name: remove it".to_string(),
        _ => format!("weir records in {FOLDER} what it must restore: see `ls -ld {FOLDER}`"),
    };
    format!("cannot write {}: {error}; {cure}", path.display())
}

/// The identity of an interface apart from its number, which another may get later: its name, and its device's address,
/// which stays when it is renamed.
struct Identity {
    name: String,
    address: String,
}

impl Identity {
    /// Compares with a text such as `eth0/02fc00000001`; files of earlier versions have only `eth0`.
    fn is_of(&self, text: &str) -> bool {
        let (name, address) = text.split_once('/').unwrap_or((text, ""));
        name == self.name || (self.has_address() && address == self.address)
    }

    /// Returns true if the address identifies the device: the address of loopback is zeros, and a tunnel has none.
    fn has_address(&self) -> bool {
        self.address.bytes().any(|digit| digit != b'0')
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.address)
    }
}

fn identity(interface: &Interface) -> io::Result<Identity> {
    let address = Device::of(interface)?.map(|device| device.address).unwrap_or_default();
    let address = address.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Identity { name: interface.name.clone(), address })
}

/// Removes the files of a namespace that is being deleted, by the number of its file in /run/netns.
pub fn forget_namespace(number: u64) {
    remove(&files().into_iter().filter(|file| file.namespace == number).collect::<Vec<_>>());
}

/// Returns the interfaces of the calling thread's namespace that have a file of this kind, by number and name.
pub(crate) fn interfaces(kind: &str) -> io::Result<Vec<Interface>> {
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    let start = format!("{kind}-{namespace}-");
    let interface = |file: Kept| {
        let index = file.path.file_name()?.to_str()?.strip_prefix(&start)?.parse().ok()?;
        let text = fs::read_to_string(&file.path).ok()?;
        let name = text.split([' ', '/']).next()?.to_string();
        Some(Interface { index, name })
    };
    Ok(files().into_iter().filter_map(interface).collect())
}

/// Removes the files for an interface that no longer exists.
#[cfg(feature = "bpf")]
pub(crate) fn forget_interface(interface: &Interface) {
    for path in KINDS.iter().filter_map(|kind| path(kind, interface).ok()) {
        let _ = fs::remove_file(path);
    }
}

/// Removes the files of namespaces that no longer exist, and those that a killed process had begun to write. Files that
/// cannot be checked or removed stay.
pub(crate) fn sweep() {
    remove_unfinished();
    let files = files();
    let mut gone: BTreeSet<u64> = files.iter().map(|file| file.namespace).collect();
    if take_out_living(&mut gone).is_ok() {
        remove(&files.into_iter().filter(|file| gone.contains(&file.namespace)).collect::<Vec<_>>());
    }
}

fn remove_unfinished() {
    if !has_all_processes().unwrap_or(false) {
        return;
    }
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let is_left = |process: u32| !Path::new("/proc").join(process.to_string()).exists();
        if entry.file_name().to_str().and_then(unfinished_by).is_some_and(is_left) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the process that writes a file with this name: `attached-4026531840-2.4711.new`.
fn unfinished_by(name: &str) -> Option<u32> {
    let (name, ending) = name.split_once('.')?;
    namespace_of(name)?;
    ending.strip_suffix(UNFINISHED)?.strip_suffix('.')?.parse().ok()
}

/// Returns true if all processes are visible from here.
fn has_all_processes() -> io::Result<bool> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino() == FIRST_PID_NAMESPACE)
}

/// A file in [`FOLDER`] that records state of a tree.
struct Kept {
    path: PathBuf,
    namespace: u64,
    written: Option<SystemTime>,
}

fn files() -> Vec<Kept> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return vec![] };
    let kept = |entry: fs::DirEntry| {
        let namespace = namespace_of(entry.file_name().to_str()?)?;
        let written = entry.metadata().ok()?.modified().ok();
        Some(Kept { path: entry.path(), namespace, written })
    };
    entries.flatten().filter_map(kept).collect()
}

fn namespace_of(name: &str) -> Option<u64> {
    let (kind, rest) = name.split_once('-')?;
    let (namespace, index) = rest.split_once('-')?;
    let is_ours = KINDS.contains(&kind) && index.parse::<u32>().is_ok();
    is_ours.then(|| namespace.parse().ok()).flatten()
}

fn remove(files: &[Kept]) {
    for file in files {
        // A file written since then is for a new namespace with an old number.
        if fs::metadata(&file.path).is_ok_and(|now| now.modified().ok() == file.written) {
            let _ = fs::remove_file(&file.path);
        }
    }
}

/// Removes from `numbers` the numbers of existing network namespaces. Returns an error if not everything could be
/// examined.
fn take_out_living(numbers: &mut BTreeSet<u64>) -> io::Result<()> {
    // Usually the mounts of `ip netns` and our own namespace account for all of them.
    take_out_of_process(numbers, Path::new("/proc/self"))?;
    if numbers.is_empty() {
        return Ok(());
    }
    if !has_all_processes()? {
        return Err(io::Error::other("not all processes are seen from here"));
    }
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if is_process && !numbers.is_empty() {
            match take_out_of_process(numbers, &entry.path()) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied && entry.file_name() == "1" => {}
                outcome => outcome?,
            }
        }
    }
    Ok(())
}

/// Removes the numbers of namespaces that a process is in, has open, or sees mounted.
fn take_out_of_process(numbers: &mut BTreeSet<u64>, process: &Path) -> io::Result<()> {
    let mounts = if_there(fs::read_to_string(process.join("mountinfo")))?.unwrap_or_default();
    numbers.retain(|number| !mounts.contains(&format!("net:[{number}]")));
    for folder in ["task", "fd"] {
        for entry in if_there(fs::read_dir(process.join(folder)))?.into_iter().flatten() {
            let Some(entry) = if_there(entry)? else { continue };
            let link = if folder == "task" { entry.path().join("ns/net") } else { entry.path() };
            if let Some(number) = if_there(fs::read_link(link))?.as_deref().and_then(number_of) {
                numbers.remove(&number);
            }
        }
    }
    Ok(())
}

/// Parses `net:[4026531840]`, the kernel's name of a network namespace.
fn number_of(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns `None` for a file of a process that has ended in the meantime.
fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    let is_gone = |error: &io::Error| {
        // A zombie no longer has mounts, which is reported as an invalid argument.
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput)
            || error.raw_os_error() == Some(libc::ESRCH)
    };
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, is_true_soon, skip};
    use std::fs::File;

    #[test]
    fn only_our_own_files_are_known() {
        assert_eq!(namespace_of("segments-4026531840-2"), Some(4_026_531_840));
        assert_eq!(namespace_of("replaced-7-1"), Some(7));
        for other in ["segments-7", "segments-7-x", "replaced-7-1.new", "weir-7-1", "segments-x-1", ""] {
            assert_eq!(namespace_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_killed_process_had_begun_to_write_is_removed() {
        if !has_all_processes().unwrap() {
            return skip("not all processes are seen from here");
        }
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let own = std::process::id();
        let names = [format!("attached-1-4000000001.{}.new", ended.id()), format!("attached-1-4000000001.{own}.new")];
        assert_eq!(unfinished_by(&names[1]), Some(own));
        for other in ["attached-1-2", "attached-1-2.new", "other-1-2.7.new", "attached-1-2.x.new", "attached-1-2.7.old"]
        {
            assert_eq!(unfinished_by(other), None, "{other}");
        }
        let [left, written] = names.map(|name| Path::new(FOLDER).join(name));
        fs::create_dir_all(FOLDER).unwrap();
        for file in [&left, &written] {
            fs::write(file, "weir0").unwrap();
        }
        sweep();
        assert!(!left.exists() && written.exists());
        fs::remove_file(written).unwrap();
    }

    #[test]
    fn an_interface_is_known_by_its_name_or_its_address() {
        let of = |name: &str, address: &str| Identity { name: name.to_string(), address: address.to_string() };
        let eth0 = of("eth0", "02fc00000001");
        assert_eq!(eth0.to_string(), "eth0/02fc00000001");
        for same in ["eth0/02fc00000001", "eth1/02fc00000001", "eth0/02fc00000009", "eth0"] {
            assert!(eth0.is_of(same), "{same}");
        }
        for other in ["eth1/02fc00000009", "eth1", "", "/"] {
            assert!(!eth0.is_of(other), "{other}");
        }
        assert!(!of("lo", "000000000000").is_of("lo2/000000000000") && !of("tun0", "").is_of("tun1/"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_no_missing_capability() {
        let lo = Interface::by_name("lo").unwrap();
        let error = write(Path::new("/proc/self/weir"), &lo, "1").unwrap_err();
        let said = crate::Error::kernel("making the tree on lo", error).to_string();
        assert!(said.starts_with("making the tree on lo: cannot write /proc/self/weir: "), "{said}");
    }

    #[test]
    fn our_own_namespace_lives_and_number_1_does_not() {
        let own = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        let mut numbers = BTreeSet::from([own]);
        take_out_living(&mut numbers).unwrap();
        assert!(numbers.is_empty());
        if fs::metadata("/proc/self/ns/pid").unwrap().ino() == FIRST_PID_NAMESPACE && is_root() {
            numbers.insert(1);
            take_out_living(&mut numbers).unwrap();
            assert_eq!(numbers, BTreeSet::from([1]));
        }
    }

    /// The files are for an interface that no test has.
    #[test]
    fn what_a_namespace_left_is_removed_when_nobody_holds_it() {
        if fs::metadata("/proc/self/ns/pid").unwrap().ino() != FIRST_PID_NAMESPACE {
            return skip("not all processes are seen from here");
        }
        in_own_network(|| {
            let open = || File::open("/proc/thread-self/ns/net").unwrap();
            let (there, passing) = (
                open(),
                std::thread::spawn(move || {
                    // SAFETY: no memory is touched; the network namespace changes only for this thread.
                    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
                    open()
                }),
            );
            let held = passing.join().unwrap();
            let file = |number: u64| Path::new(FOLDER).join(format!("segments-{number}-4000000000"));
            let [there, held_number] = [&there, &held].map(|file| file.metadata().unwrap().ino());
            fs::create_dir_all(FOLDER).unwrap();
            for number in [there, held_number, 1] {
                fs::write(file(number), "weir0 1 1\n").unwrap();
            }
            sweep();
            assert!(!file(1).exists() && file(there).exists());
            assert!(file(held_number).exists(), "it is open");
            drop(held);
            let is_swept = is_true_soon(|| {
                sweep();
                !file(held_number).exists()
            });
            assert!(is_swept && file(there).exists());
            forget_namespace(there);
            assert!(!file(there).exists());
        });
    }

    fn is_root() -> bool {
        // SAFETY: it takes no arguments and cannot fail.
        unsafe { libc::geteuid() == 0 }
    }
}
