//! Limits what the process may open and call once it listens, with the kernel's own means: Landlock for files, a
//! seccomp filter for system calls. Neither needs a privilege, neither can be undone, and a kernel that has only one of
//! them still provides that one.
//!
//! Both apply to a thread and are inherited, so this runs before there is another thread. System calls are refused by a
//! list of dangerous ones, not permitted by a list of needed ones: the calls that the allocator, the threads and the
//! TLS library of another build make are not known, and a server that dies at an unlisted call would be worse than the
//! gap.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
    sock_filter,
};

/// The newest Landlock ABI that is requested. The crate leaves out what an older kernel does not support.
const KNOWN: ABI = ABI::V6;

/// The folders that the process may access.
#[derive(Debug, Default)]
pub struct Reach {
    pub reads: Vec<PathBuf>,
    pub writes: Vec<PathBuf>,
}

/// Returns the folder of a file, in which the file may be replaced, and the folder of its target if it is a symlink.
/// Anything but a regular file, such as `/dev/null`, is itself returned.
pub fn folders_of(file: &Path) -> Vec<PathBuf> {
    if file.metadata().is_ok_and(|found| !found.is_file()) {
        return vec![file.into()];
    }
    let own = file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let folders = [own.map(Into::into), file.canonicalize().ok().and_then(|file| file.parent().map(PathBuf::from))];
    let folders: Vec<PathBuf> = folders.into_iter().flatten().filter_map(|folder| below_root(&folder)).collect();
    if folders.is_empty() { vec![file.into()] } else { folders }
}

/// Returns the folder unless it is the root of the file system.
pub fn below_root(folder: &Path) -> Option<PathBuf> {
    let is_root = folder.components().all(|part| part == Component::RootDir);
    (!is_root).then(|| folder.into())
}

/// The oldest ABI that restricts TCP connections (Linux 6.7).
const OF_CONNECTIONS: ABI = ABI::V4;

/// Rights that remain under a restriction of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// True if TCP connections to other programs are permitted.
    pub connects: bool,
}

/// Restricts access to files. Returns the other rights that remain; `None` if the kernel has no Landlock. `connects`
/// permits TCP connections to upstreams. Paths that do not exist or cannot be opened remain inaccessible.
pub fn restrict_files(reach: &Reach, connects: bool) -> Result<Option<Granted>, String> {
    let restricted = || -> Result<Option<Granted>, RulesetError> {
        let ruleset = Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?;
        // A reload may name upstreams at other ports.
        let refused = if connects { AccessNet::BindTcp.into() } else { AccessNet::from_all(KNOWN) };
        let ruleset = ruleset.handle_access(refused)?.scope(Scope::from_all(KNOWN))?;
        let mut ruleset = ruleset.create()?;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let write = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile;
        for (paths, access) in [(&reach.reads, read), (&reach.writes, write)] {
            paths.iter().for_each(|path| allow(&mut ruleset, path, access));
        }
        let status = ruleset.restrict_self()?;
        let restricts_connections = matches!(status.landlock, LandlockStatus::Available { effective_abi, .. } if effective_abi >= OF_CONNECTIONS);
        let granted = Granted { connects: connects || !restricts_connections };
        Ok((status.ruleset != RulesetStatus::NotEnforced).then_some(granted))
    };
    restricted().map_err(|error| error.to_string())
}

fn allow(ruleset: &mut landlock::RulesetCreated, path: &Path, access: BitFlags<AccessFs>) {
    let Ok(opened) = PathFd::new(path) else { return };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    // A pipe cannot be named here, but is not refused either.
    let _ = ruleset.add_rule(PathBeneath::new(opened, access));
}

/// Newer variants of the refused calls, by number, because the C library does not define all of them. The numbers are
/// the same on every processor: fchmodat2 (Linux 6.6), setxattrat and removexattrat (6.13), open_tree_attr (6.15),
/// file_setattr (6.17).
const REFUSED_BY_NUMBER: [libc::c_long; 5] = [452, 463, 466, 467, 469];

/// Calls that a file server never makes, but that an attacker who controls it might.
#[rustfmt::skip]
const REFUSED: &[libc::c_long] = &[
    libc::SYS_bpf,
    // Other programs and their memory.
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd, libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_move_mount, libc::SYS_open_tree,
    libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_mount_setattr, libc::SYS_unshare,
    libc::SYS_setns,
    // The machine.
    libc::SYS_kexec_load, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module,
    libc::SYS_reboot, libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_acct, libc::SYS_quotactl, libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_clock_adjtime, libc::SYS_adjtimex, libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Large parts of the kernel behind one call.
    libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key, libc::SYS_userfaultfd, libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register,
    // New code: memory that is mapped as code without mmap, and a mode in which everything readable is executable.
    libc::SYS_personality, libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl,
    #[cfg(target_arch = "x86_64")] libc::SYS_uselib,
    // File operations that Landlock does not cover.
    libc::SYS_open_by_handle_at, libc::SYS_mknodat, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown,
    libc::SYS_fchownat, libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr,
    libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")] libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")] libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")] libc::SYS_chown,
    #[cfg(target_arch = "x86_64")] libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")] libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")] libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")] libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")] libc::SYS_kexec_file_load,
];

/// The socket families in use: INET for TCP and UDP, UNIX for the service manager and `weir reload`, NETLINK for
/// reading the interface's queue.
const FAMILIES: [libc::c_int; 4] = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_NETLINK];
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWTIME,
];

/// Makes the kernel refuse these calls for this thread and the threads that it starts.
pub fn refuse_calls() -> Result<(), String> {
    let refused =
        || -> Result<(), Box<dyn Error>> { programs()?.iter().try_for_each(|program| Ok(apply_filter(program)?)) };
    refused().map_err(|error| error.to_string())
}

/// Returns two filters: calls in the first appear not to exist (ENOSYS), those in the second are forbidden (EPERM).
fn programs() -> Result<[BpfProgram; 2], Box<dyn Error>> {
    let refused = REFUSED.iter().chain(&REFUSED_BY_NUMBER);
    let mut calls: BTreeMap<_, _> = refused.map(|&call| (call, Vec::new())).collect();
    let families = FAMILIES.map(|family| (0, Ne, family as u64));
    calls.insert(libc::SYS_socket, vec![rule(&families)?]);
    let is_set = |argument, bit: libc::c_int| rule(&[(argument, MaskedEq(bit as u64), bit as u64)]);
    calls.insert(libc::SYS_clone, NAMESPACES.into_iter().map(|bit| is_set(0, bit)).collect::<Result<_, _>>()?);
    // New code.
    for call in [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect] {
        calls.insert(call, vec![is_set(2, libc::PROT_EXEC)?]);
    }
    // Injecting input into the terminal that weir was started in.
    calls.insert(libc::SYS_ioctl, vec![rule(&[(1, Eq, libc::TIOCSTI)])?]);
    // A filter cannot see its arguments; a caller that finds it missing uses clone.
    let unknown = program(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
    let unknown = if cfg!(target_arch = "x86_64") { [x32_is_unknown(), unknown].concat() } else { unknown };
    Ok([unknown, program(calls, libc::EPERM)?])
}

/// Returns the start of a filter that makes x32 calls appear not to exist. They are a second set of call numbers on
/// x86-64, each with this bit, and the rest of the filter would not recognise them under those numbers. The rest of the
/// filter handles the other calls.
fn x32_is_unknown() -> BpfProgram {
    const BIT: u32 = 1 << 30;
    const NUMBER_AT: u32 = 0;
    let enosys = u32::from(SeccompAction::Errno(libc::ENOSYS.unsigned_abs()));
    let instruction = |code: u32, jf, k| sock_filter { code: code as u16, jt: 0, jf, k };
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, NUMBER_AT),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, BIT),
        instruction(libc::BPF_RET | libc::BPF_K, 0, enosys),
    ]
}

fn rule(all_of: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions =
        all_of.iter().map(|(argument, is, value)| SeccompCondition::new(*argument, Dword, is.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn program(calls: BTreeMap<libc::c_long, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram, Box<dyn Error>> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?;
    Ok(BpfProgram::try_from(filter)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::temporary::Folder;

    /// A renewed certificate, or a log after its rotation, is another file in the same folder.
    #[test]
    fn folders_of_a_file_are_its_own_and_that_of_what_it_leads_to() {
        let folder = Folder::new();
        let file = folder.put("archive/one.pem", "");
        std::fs::create_dir(folder.path("live")).unwrap();
        std::os::unix::fs::symlink("../archive/one.pem", folder.path("live/cert.pem")).unwrap();
        let archive = file.canonicalize().unwrap().parent().unwrap().to_path_buf();
        assert_eq!(folders_of(&folder.path("live/cert.pem")), [folder.path("live"), archive]);
        assert_eq!(folders_of(&folder.path("live/none")), [folder.path("live")]);
        assert_eq!(folders_of(Path::new("weir.toml")), [PathBuf::from(".")]);
        assert_eq!(folders_of(Path::new("/dev/null")), [PathBuf::from("/dev/null")]);
        assert_eq!(folders_of(Path::new("/none-at-all")), [PathBuf::from("/none-at-all")], "not everything");
    }

    const ALLOW: u32 = 0x7fff_0000;
    const EPERM: u32 = 0x5_0000 | libc::EPERM as u32;
    const ENOSYS: u32 = 0x5_0000 | libc::ENOSYS as u32;

    /// Runs a filter on a call as the kernel does: classic BPF over `struct seccomp_data` (number, architecture,
    /// instruction, arguments).
    fn verdict(program: &BpfProgram, number: libc::c_long, arguments: [u64; 6]) -> u32 {
        let architecture: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        let words = arguments.iter().flat_map(|argument| [*argument as u32, (argument >> 32) as u32]);
        let data: Vec<u32> = [number as u32, architecture, 0, 0].into_iter().chain(words).collect();
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let jump = |is_so: bool| usize::from(if is_so { jt } else { jf });
            at += 1 + match u32::from(code) {
                libc::BPF_RET => return k,
                // Load of a word at an offset.
                0x20 => {
                    value = data[k as usize / 4];
                    0
                }
                // AND with a constant.
                0x54 => {
                    value &= k;
                    0
                }
                0x05 => k as usize,
                0x15 => jump(value == k),
                0x25 => jump(value > k),
                0x35 => jump(value >= k),
                other => panic!("instruction {other:#x}"),
            };
        }
    }

    /// Refused by its older form, by a newer one, and by another number.
    #[test]
    fn what_a_server_of_files_never_does_is_refused() {
        let [unknown, forbidden] = programs().unwrap();
        let refused = |number, arguments| [&unknown, &forbidden].map(|program| verdict(program, number, arguments));
        let none = [0; 6];
        for (number, arguments) in [
            (libc::SYS_fchmodat, none),
            (452, none),
            (463, none),
            (466, none),
            (467, none),
            (469, none),
            (libc::SYS_quotactl_fd, none),
            // READ_IMPLIES_EXEC.
            (libc::SYS_personality, [0x40_0000, 0, 0, 0, 0, 0]),
            // SHM_EXEC.
            (libc::SYS_shmat, [1, 0, 0o100_000, 0, 0, 0]),
            (libc::SYS_mmap, [0, 4096, 5, 0x22, 0, 0]),
            (libc::SYS_mprotect, [0, 4096, 1 << 32 | 4, 0, 0, 0]),
            (libc::SYS_execve, none),
            (libc::SYS_socket, [libc::AF_PACKET as u64, 3, 0, 0, 0, 0]),
            (libc::SYS_clone, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]),
            (libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0]),
        ] {
            assert_eq!(refused(number, arguments), [ALLOW, EPERM], "call {number} with {arguments:x?}");
        }
        assert_eq!(refused(libc::SYS_clone3, none), [ENOSYS, ALLOW]);
        for (number, arguments) in [
            (libc::SYS_read, none),
            (libc::SYS_mmap, [0, 4096, 3, 0x22, 0, 0]),
            (libc::SYS_mprotect, [0, 4096, 1, 0, 0, 0]),
            (libc::SYS_socket, [libc::AF_INET6 as u64, 1, 0, 0, 0, 0]),
            (libc::SYS_clone, [(libc::CLONE_VM | libc::CLONE_THREAD) as u64, 0, 0, 0, 0, 0]),
            (libc::SYS_openat2, none),
        ] {
            assert_eq!(refused(number, arguments), [ALLOW, ALLOW], "call {number} with {arguments:x?}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_have_no_second_number() {
        let [unknown, _] = programs().unwrap();
        for number in [libc::SYS_read, libc::SYS_execve, 520, 545] {
            assert_eq!(verdict(&unknown, number | 1 << 30, [0; 6]), ENOSYS, "{number}");
            assert_eq!(verdict(&unknown, number, [0; 6]), ALLOW, "{number}");
        }
    }
}
