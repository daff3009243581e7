//! The initial retransmission timeout: the time that TCP waits for the first answer of a handshake before it
//! retransmits. It is 1 s since RFC 6298, and 3 s in the kernels of the papers (RFC 1122). No setting of Linux changes
//! it, but a BPF program of a control group can (BPF_SOCK_OPS_TIMEOUT_INIT, Linux 4.13), for the SYNs of connections
//! that programs in the group open and for the SYN-ACKs of connections that they accept.
//!
//! The program is seven instructions with the timeout as a constant, so it is written here in binary form: it needs
//! neither compiler nor libbpf, and is part of every build. It is attached by a link (Linux 5.7), which disappears with
//! the process that holds it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_getres};

use crate::Error;

/// linux/bpf.h: commands, program type, attach type, and the operation handled.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_SOCK_OPS: u32 = 13;
const BPF_CGROUP_SOCK_OPS: u32 = 3;
const TIMEOUT_INIT: i32 = 1;
/// Offsets in `struct bpf_sock_ops`.
const OP_AT: i16 = 0;
const REPLY_AT: i16 = 4;
/// The reply to all other operations: the kernel's default.
const DEFAULT: i32 = -1;
/// The maximum timeout that the kernel allows (TCP_RTO_MAX).
const LONGEST: Duration = Duration::from_secs(120);

/// Keeps the timeout set; dropping it restores the kernel's default.
#[derive(Debug)]
pub struct InitialRto {
    _links: Vec<OwnedFd>,
}

impl InitialRto {
    /// Sets the timeout for programs in these control groups, given by their folders in the version 2 hierarchy.
    pub fn set(cgroups: &[&Path], timeout: Duration) -> Result<InitialRto, Error> {
        let failed = |error: io::Error| Error::kernel("setting the initial retransmission timeout by BPF", error);
        let program = load(jiffies(timeout)).map_err(failed)?;
        let links = cgroups.iter().map(|cgroup| {
            let folder =
                rustix::fs::open(*cgroup, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            link(&program, &folder)
        });
        Ok(InitialRto { _links: links.collect::<io::Result<_>>().map_err(failed)? })
    }
}

/// Converts to kernel ticks, of which there are 100 to 1000 per second: the resolution of the kernel's coarse clocks.
/// Rounds up, to at least one.
fn jiffies(timeout: Duration) -> i32 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let tick_ns = (tick.tv_sec as u128 * 1_000_000_000 + tick.tv_nsec as u128).max(1);
    timeout.min(LONGEST).as_nanos().div_ceil(tick_ns).max(1) as i32
}

/// An instruction, as in `struct bpf_insn`.
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination and source register, four bits each, in the order of the processor's bit fields.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Assembles a program that replies with the timeout to that operation, and with [`DEFAULT`] to all others. Register 1
/// holds the context. Instruction codes are from linux/bpf_common.h.
fn program(jiffies: i32) -> [Instruction; 7] {
    const LOAD_WORD: u8 = 0x61;
    const STORE_WORD: u8 = 0x63;
    const MOVE: u8 = 0xb7;
    const JUMP_IF_NOT_EQUAL: u8 = 0x55;
    const EXIT: u8 = 0x95;
    /// The return value that makes the kernel use the program's reply.
    const ANSWERED: i32 = 1;
    let instruction = |code, to: u8, from: u8, offset, immediate| {
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        Instruction { code, registers, offset, immediate }
    };
    [
        instruction(LOAD_WORD, 2, 1, OP_AT, 0),
        instruction(MOVE, 0, 0, 0, DEFAULT),
        instruction(JUMP_IF_NOT_EQUAL, 2, 0, 1, TIMEOUT_INIT),
        instruction(MOVE, 0, 0, 0, jiffies),
        instruction(STORE_WORD, 1, 0, REPLY_AT, 0),
        instruction(MOVE, 0, 0, 0, ANSWERED),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// The beginning of `union bpf_attr` for BPF_PROG_LOAD; the rest is zero.
#[repr(C)]
#[derive(Default)]
struct LoadAttributes {
    program_type: u32,
    instructions: u32,
    instructions_at: u64,
    license_at: u64,
    log: [u32; 4],
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach_type: u32,
}

/// The beginning of `union bpf_attr` for BPF_LINK_CREATE; the rest is zero.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

fn load(jiffies: i32) -> io::Result<OwnedFd> {
    let program = program(jiffies);
    let attributes = LoadAttributes {
        program_type: BPF_PROG_TYPE_SOCK_OPS,
        instructions: program.len() as u32,
        instructions_at: program.as_ptr() as u64,
        license_at: c"GPL".as_ptr() as u64,
        name: *b"weir_rto\0\0\0\0\0\0\0\0",
        expected_attach_type: BPF_CGROUP_SOCK_OPS,
        ..LoadAttributes::default()
    };
    bpf(BPF_PROG_LOAD, &attributes)
}

fn link(program: &OwnedFd, cgroup: &OwnedFd) -> io::Result<OwnedFd> {
    let number = |fd: &OwnedFd| fd.as_raw_fd() as u32;
    let attributes =
        LinkAttributes { program: number(program), target: number(cgroup), attach_type: BPF_CGROUP_SOCK_OPS, flags: 0 };
    bpf(BPF_LINK_CREATE, &attributes)
}

/// Makes a bpf(2) call that returns a descriptor.
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `attributes`, and the memory that addresses in it point to:
    // the caller's instructions and licence, which outlive the call. It writes to neither.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, is_true_soon, run, skip};
    use std::path::PathBuf;
    use std::process::{Child, Command};

    #[test]
    fn times_are_whole_ticks_and_at_least_one() {
        assert_eq!(jiffies(Duration::ZERO), 1);
        let [one, three] = [1, 3].map(|s| jiffies(Duration::from_secs(s)));
        assert!((24..=1200).contains(&one) && (3 * one - 2..=3 * one).contains(&three), "{one} {three}");
        assert_eq!(jiffies(Duration::MAX), jiffies(LONGEST));
    }

    /// A control group that is removed with the test.
    struct Group(PathBuf);

    impl Group {
        fn create() -> Option<Group> {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
            let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
            let folder = Path::new(mount.split(' ').nth(4)?).join(format!("weir-rto-{}", std::process::id()));
            std::fs::create_dir(&folder).ok()?;
            Some(Group(folder))
        }

        /// Starts a program in the group that connects to an address that does not answer.
        fn connect(&self) -> Child {
            let script = "echo $$ >\"$0\" && exec 3<>/dev/tcp/198.18.77.2/9";
            Command::new("bash").args(["-c", script]).arg(self.0.join("cgroup.procs")).spawn().unwrap()
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir(&self.0);
        }
    }

    /// Waits for the pending connection and returns its timer as `ss` prints it: `timer:(on,59sec,0)`.
    fn timer() -> String {
        loop {
            let said = Command::new("ss").args(["-Htno", "state", "syn-sent"]).output().unwrap();
            let said = String::from_utf8(said.stdout).unwrap();
            if let Some((_, timer)) = said.split_once("timer:(on,") {
                return timer.split(',').next().unwrap().to_owned();
            }
        }
    }

    #[test]
    fn a_connection_waits_as_long_as_it_is_told() {
        in_own_network(|| {
            let Some(group) = Group::create() else { return skip("no control groups of version 2") };
            run("ip link add weir0 type veth peer name weir1");
            run("ip addr add 198.18.77.1/24 dev weir0");
            run("ip link set weir1 up");
            run("ip link set weir0 up");
            run("ip neigh add 198.18.77.2 lladdr 02:00:00:00:00:02 dev weir0");
            let observe = || {
                let mut child = group.connect();
                let timer = timer();
                child.kill().unwrap();
                child.wait().unwrap();
                timer
            };
            let set = InitialRto::set(&[&group.0], Duration::from_secs(100)).unwrap();
            assert!(observe().contains("min"));
            drop(set);
            assert!(is_true_soon(|| !observe().contains("min")), "connections still wait as long as was set");
        });
    }

    #[test]
    fn what_is_no_group_is_said() {
        in_own_network(|| {
            let said = InitialRto::set(&[Path::new("/proc")], Duration::from_secs(3)).unwrap_err().to_string();
            assert!(said.starts_with("setting the initial retransmission timeout by BPF: "), "{said}");
        });
    }
}
