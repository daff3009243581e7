//! The program in the kernel: loads it with its settings, attaches it, and finds its maps again by its number.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, ObjectBuilder, TC_EGRESS, TcHook};

use super::filter::{self, HANDLE, NAME, NAME_ARRIVING, PRIORITY};
use super::settings::{ClientBy, Settings};
use super::tcx::{self, Side};
use crate::constants::SETTINGS_BYTES;
use crate::{Error, Interface};

/// The object file of the program; empty if there was no clang at build time.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classify.bpf.o"));
/// The program for a kernel without JIT. There it cannot call the kernel function that detects empty queues.
static OBJECT_INTERPRETED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classify-interpreted.bpf.o"));
/// The oldest kernel with all required helpers: bpf_loop is from 5.17. The empty queue of a connection is detected only
/// since 6.2 (bpf_cast_to_kern_ctx); before that, a connection moves to a better band only when it has no
/// unacknowledged data.
const LINUX_MIN: &str = "5.17";
/// The name ".rodata.settings" as the kernel truncates it (BPF_OBJ_NAME_LEN).
pub const SETTINGS_MAP: &str = ".rodata.setting";
pub const COUNTERS_MAP: &str = "weir_counters";
pub const SIZES_MAP: &str = "weir_sizes";
const FLOWS_MAP: &str = "weir_flows";
const TRACKED_MAP: &str = "weir_tracked";
pub const PATHS_MAP: &str = "weir_paths";
const HANDSHAKES_MAP: &str = "weir_handshakes";
pub const PROXIED_MAP: &str = "weir_proxied";
pub const PUT_MAP: &str = ".data.weir_put";
const MAPS_MAX: usize = 16;
/// The number of open files that is enough for every command.
const FILES: u32 = 1024;
const OPENING: &str = "opening the classifier";
/// The privilege for opening programs by number, which is needed to find them again. Loading programs does not require
/// it.
const BY_NUMBER: &str = "root or CAP_SYS_ADMIN (in addition to CAP_BPF and CAP_PERFMON)";

/// The program of an interface, in the kernel.
pub struct Program {
    fd: OwnedFd,
    /// The program for packets from clients; `None` if this program was opened by its number alone.
    arriving: Option<OwnedFd>,
    maps: Vec<(String, MapHandle)>,
    pub facts: Facts,
}

/// The kernel's information about a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    pub id: u32,
    /// Instructions after the kernel's rewriting.
    pub instructions: u32,
    /// Instructions that the verifier processed.
    pub verified_instructions: u32,
    /// The number of runs. The kernel counts them only while the sysctl kernel.bpf_stats_enabled is 1.
    pub runs: u64,
    pub run_time_ns: u64,
}

impl Program {
    /// Loads the program. The state of connections and the sizes seen so far are taken over from `earlier`.
    pub fn load(settings: &[u8], earlier: Option<&Program>) -> Result<Program, Error> {
        if OBJECT.is_empty() {
            return Err(Error::missing(
                "this weir was built without clang and has no BPF programs: build it with clang 15 or newer",
            ));
        }
        // The verifier's output would fill the screen; the error contains its conclusion.
        libbpf_rs::set_print(None);
        // Inside a container or a namespace, no setting shows whether the kernel has a JIT, so both programs are tried.
        // If both are refused, the first error is the relevant one.
        let fd = load_object(OBJECT, settings, earlier)
            .or_else(|error| load_object(OBJECT_INTERPRETED, settings, earlier).map_err(|_| error));
        let (fd, arriving) = fd.map_err(refused)?;
        let program = Program { arriving: Some(arriving), ..Program::of(fd)? };
        // What is attached is found again by its number, and by its name, so both are checked first.
        match has_name(program.facts.id, NAME)? {
            true => Ok(program),
            false => {
                Err(Error::missing(format!("this kernel keeps no names of programs (it needs Linux {LINUX_MIN})")))
            }
        }
    }

    /// Opens the program with this number.
    pub fn open(id: u32) -> Result<Program, Error> {
        Program::of(libbpf_rs::Program::fd_from_id(id).map_err(|error| failure(OPENING, BY_NUMBER, error))?)
    }

    /// Adds the program for packets from clients with this number, so that [`Program::attach`] attaches both.
    pub fn with_arriving(self, id: Option<u32>) -> Result<Program, Error> {
        let arriving = id.map(libbpf_rs::Program::fd_from_id).transpose();
        Ok(Program { arriving: arriving.map_err(|error| failure(OPENING, BY_NUMBER, error))?, ..self })
    }

    fn of(fd: OwnedFd) -> Result<Program, Error> {
        let (facts, ids) = info(fd.as_fd()).map_err(|error| Error::kernel(OPENING, error))?;
        let mut maps = Vec::new();
        for id in ids {
            let map = MapHandle::from_map_id(id).map_err(|error| failure(OPENING, BY_NUMBER, error))?;
            maps.push((map.name().to_string_lossy().into_owned(), map));
        }
        Ok(Program { fd, arriving: None, maps, facts })
    }

    /// Attaches the program to the interface's egress, replacing an earlier one of ours. If the kernel has TCX, it
    /// becomes the first program there, together with the program for packets from clients. Otherwise it becomes a
    /// filter of the clsact, which is created if necessary.
    pub fn attach(&self, interface: &Interface) -> Result<(), Error> {
        let doing = format!("attaching the classifier to {}", interface.name);
        let there = tcx::programs(interface.index).map_err(|error| Error::kernel(&doing, error))?;
        if let Some(there) = there {
            if !there.contains(&self.facts.id) {
                tcx::attach_first(Side::Leaving, self.fd.as_fd(), interface.index)
                    .map_err(|error| Error::kernel(&doing, error))?;
            }
            let arriving = self.arriving.as_ref().map(|arriving| arriving_first(arriving.as_fd(), interface, &doing));
            detach_arriving(interface, arriving.transpose()?)?;
            return self.detach_but(interface, Some(self.facts.id));
        }
        let mut hook = hook(self.fd.as_fd(), interface);
        hook.create().map_err(|error| failure(&doing, "root or CAP_NET_ADMIN", error))?;
        hook.replace(true).attach().map_err(|error| failure(&doing, "root or CAP_NET_ADMIN", error))?;
        Ok(())
    }

    /// Detaches all our programs from the interface. The program by which the others are found is detached last.
    pub fn detach(&self, interface: &Interface) -> Result<(), Error> {
        detach_arriving(interface, None)?;
        self.detach_but(interface, None)
    }

    fn detach_but(&self, interface: &Interface, kept: Option<u32>) -> Result<(), Error> {
        let doing = format!("detaching the classifier from {}", interface.name);
        let there = filter::look(interface)?;
        for id in there.at_tcx.into_iter().filter(|id| Some(*id) != kept) {
            let program = libbpf_rs::Program::fd_from_id(id).map_err(|error| failure(&doing, BY_NUMBER, error))?;
            tcx::detach(Side::Leaving, program.as_fd(), interface.index)
                .map_err(|error| Error::kernel(&doing, error))?;
        }
        if there.at_clsact.is_some() {
            let detached = hook(self.fd.as_fd(), interface).detach();
            detached.map_err(|error| failure(&doing, "root or CAP_NET_ADMIN", error))?;
        }
        Ok(())
    }

    pub fn settings(&self) -> Result<Option<Vec<u8>>, Error> {
        let Some(map) = self.map(SETTINGS_MAP) else { return Ok(None) };
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(|error| failure("reading the classifier's settings", "root or CAP_BPF", error))?;
        Ok(value.filter(|bytes| bytes.len() == SETTINGS_BYTES))
    }

    /// Returns the 64-bit words of one entry, each summed over all processors.
    pub fn sums(&self, map: &str, entry: u32) -> Result<Vec<u64>, Error> {
        let Some(map) = self.map(map) else { return Ok(Vec::new()) };
        let values = map.lookup_percpu(&entry.to_ne_bytes(), MapFlags::ANY);
        let values = values
            .map_err(|error| failure("reading the classifier's counters", "root or CAP_BPF", error))?
            .unwrap_or_default();
        let mut sums = vec![0u64; map.value_size() as usize / 8];
        for value in &values {
            for (sum, word) in sums.iter_mut().zip(value.chunks_exact(8)) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(word.try_into().expect("chunks of 8")));
            }
        }
        Ok(sums)
    }

    pub fn map(&self, name: &str) -> Option<&MapHandle> {
        self.maps.iter().find(|(found, _)| found == name).map(|(_, map)| map)
    }
}

/// Converts the error of a load.
fn refused(error: libbpf_rs::Error) -> Error {
    // The error of the library hides the system's error number.
    let is = |errno: i32| format!("{error:#}").contains(&std::io::Error::from_raw_os_error(errno).to_string());
    let doing = "loading the classifier";
    match error.kind() {
        ErrorKind::PermissionDenied if !is_privileged() => Error::NotAllowed {
            doing: doing.into(),
            needs: "root or CAP_SYS_ADMIN and CAP_NET_ADMIN",
            cause: error.into(),
        },
        _ if is(libc::EMFILE) => {
            Error::other(format!("{doing}: a limit of this process: run `ulimit -n {FILES}` before"), error)
        }
        _ if is(libc::ENFILE) || is(libc::ENOMEM) => Error::other(doing, error),
        _ => Error::Missing {
            lacks: format!("this kernel does not take the classifier (it needs Linux {LINUX_MIN} with BTF)"),
            cause: Some(error.into()),
        },
    }
}

/// Attaches the program for packets from clients, unless it is attached already, and returns its number.
fn arriving_first(program: BorrowedFd<'_>, interface: &Interface, doing: &str) -> Result<u32, Error> {
    let attach = || {
        let id = raw_info(program, &mut [])?.id;
        let there = tcx::programs_at(Side::Arriving, interface.index)?;
        if !there.is_some_and(|there| there.contains(&id)) {
            tcx::attach_first(Side::Arriving, program, interface.index)?;
        }
        Ok(id)
    };
    attach().map_err(|error| Error::kernel(doing, error))
}

/// Detaches our programs for incoming packets, except `kept` if it is given.
pub fn detach_arriving(interface: &Interface, kept: Option<u32>) -> Result<(), Error> {
    let doing = format!("detaching the classifier from {}", interface.name);
    for id in filter::look(interface)?.arriving.into_iter().filter(|id| Some(*id) != kept) {
        let program = libbpf_rs::Program::fd_from_id(id).map_err(|error| failure(&doing, BY_NUMBER, error))?;
        tcx::detach(Side::Arriving, program.as_fd(), interface.index).map_err(|error| Error::kernel(&doing, error))?;
    }
    Ok(())
}

/// The maximum number of attempts to load programs. The next constant is the pause between two attempts.
const LOADS_MAX: usize = 5;
const LOAD_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Loads the programs of an object file into the kernel: the classifier, and the program for packets from clients. The
/// kernel aborts a verification while a signal is pending (EAGAIN); libbpf then retries five times without a pause.
fn load_object(
    object: &[u8],
    settings: &[u8],
    earlier: Option<&Program>,
) -> Result<(OwnedFd, OwnedFd), libbpf_rs::Error> {
    for _ in 1..LOADS_MAX {
        match load_once(object, settings, earlier) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOAD_AGAIN_AFTER),
            loaded => return loaded,
        }
    }
    load_once(object, settings, earlier)
}

fn load_once(
    object: &[u8],
    settings: &[u8],
    earlier: Option<&Program>,
) -> Result<(OwnedFd, OwnedFd), libbpf_rs::Error> {
    let mut object = ObjectBuilder::default().open_memory(object)?;
    let share = Settings::from_bytes(settings).and_then(|settings| settings.share);
    let reads_headers = share.is_some_and(|share| share.client_by == ClientBy::Proxy);
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.contains(".rodata.settings") || name == SETTINGS_MAP {
            map.set_initial_value(settings)?;
        }
        if let (FLOWS_MAP | TRACKED_MAP | PATHS_MAP | HANDSHAKES_MAP | PUT_MAP | SIZES_MAP, Some(handle)) =
            (name.as_str(), earlier.and_then(|earlier| earlier.map(&name)))
        {
            map.reuse_fd(handle.as_fd())?;
        }
        if name == PROXIED_MAP {
            let is_whole = |handle: &&MapHandle| handle.max_entries() == map.max_entries();
            match earlier.and_then(|earlier| earlier.map(PROXIED_MAP)).filter(is_whole) {
                _ if !reads_headers => map.set_max_entries(1)?,
                Some(handle) => map.reuse_fd(handle.as_fd())?,
                None => {}
            }
        }
    }
    let object = object.load()?;
    let program = |name: &str| {
        let program = object.progs().find(|program| program.name() == name);
        let program = program.ok_or_else(|| std::io::Error::other("the classifier is not in its object file"))?;
        Ok::<_, libbpf_rs::Error>(program.as_fd().try_clone_to_owned()?)
    };
    Ok((program(NAME)?, program(NAME_ARRIVING)?))
}

fn hook(program: BorrowedFd<'_>, interface: &Interface) -> TcHook {
    let mut hook = TcHook::new(program);
    // The kernel's interface numbers are positive `int`s.
    hook.ifindex(interface.index as i32).attach_point(TC_EGRESS).handle(HANDLE).priority(PRIORITY);
    hook
}

fn failure(doing: &str, needs: &'static str, error: libbpf_rs::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => Error::NotAllowed { doing: doing.into(), needs, cause: error.into() },
        _ => Error::other(doing, error),
    }
}

/// Converts the error of a request about the programs at an interface.
pub fn unlisted(doing: &str, error: std::io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Error::missing(format!(
            "{doing}: there is no system call `bpf`: this kernel was built without it, or a container's filter hides it; run weir on the host"
        )),
        Some(libc::EPERM) if is_privileged() => Error::NotAllowed {
            doing: doing.into(),
            needs: "CAP_NET_ADMIN, and in a container a filter that lets the system call `bpf` pass",
            cause: error.into(),
        },
        _ => Error::kernel(doing, error),
    }
}

/// Returns true if the process has CAP_SYS_ADMIN, which even root may lack. The kernel reports the same error number
/// for a rejection by the verifier and for a missing privilege.
fn is_privileged() -> bool {
    let held = rustix::thread::capabilities(None);
    held.is_ok_and(|held| held.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}

/// Returns true if the program with this number has this name; false if the program no longer exists.
pub fn has_name(id: u32, name: &str) -> Result<bool, Error> {
    let program = match libbpf_rs::Program::fd_from_id(id) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        program => program.map_err(|error| failure(OPENING, BY_NUMBER, error))?,
    };
    let info = raw_info(program.as_fd(), &mut []).map_err(|error| Error::kernel(OPENING, error))?;
    Ok(info.name.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0).eq(name.bytes()))
}

/// Returns the kernel's information about a program, and the numbers of its maps.
pub fn info(program: BorrowedFd<'_>) -> std::io::Result<(Facts, Vec<u32>)> {
    let mut ids = [0u32; MAPS_MAX];
    let info = raw_info(program, &mut ids)?;
    let facts = Facts {
        id: info.id,
        instructions: info.xlated_prog_len / 8,
        verified_instructions: info.verified_insns,
        runs: info.run_cnt,
        run_time_ns: info.run_time_ns,
    };
    Ok((facts, ids[..(info.nr_map_ids as usize).min(MAPS_MAX)].to_vec()))
}

#[cfg(test)]
pub fn runs(program: BorrowedFd<'_>) -> u64 {
    raw_info(program, &mut []).unwrap().run_cnt
}

fn raw_info(program: BorrowedFd<'_>, ids: &mut [u32]) -> std::io::Result<libbpf_sys::bpf_prog_info> {
    // SAFETY: `bpf_prog_info` holds only integers, for which all zeros is a valid value.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { MaybeUninit::zeroed().assume_init() };
    info.map_ids = ids.as_mut_ptr() as u64;
    info.nr_map_ids = ids.len() as u32;
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `bytes` to `info`, and at most `nr_map_ids` numbers to `ids`; both outlive the
    // call.
    let status = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut bytes) };
    if status < 0 {
        return Err(std::io::Error::from_raw_os_error(-status));
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::class::{CLASSES_MAX, Cgroup, Class, Classes, RULES_MAX, Rule};
    use crate::classify::settings::{CUTS_MAX, Policy, Settings, Share};
    use crate::constants::BANDS_MAX;
    use crate::testing::skip;
    use crate::tree::{Before, ClassShare};

    #[test]
    fn a_limit_of_the_process_is_none_of_the_kernel() {
        let said = |errno| refused(libbpf_rs::Error::from_raw_os_error(errno)).to_string();
        let limit = said(libc::EMFILE);
        assert!(limit.contains("run `ulimit -n 1024` before: Too many open files"), "{limit}");
        assert!(said(libc::ENOMEM).starts_with("loading the classifier: Cannot allocate memory"));
        assert!(said(libc::EINVAL).starts_with("this kernel does not take the classifier"));
    }

    /// The setting that shows whether there is a JIT is hidden in a namespace, and therefore in a container.
    #[test]
    fn only_the_program_for_interpreters_calls_nothing_of_the_kernel_s() {
        let calls = |object: &[u8]| object.windows(20).any(|text| text == b"bpf_cast_to_kern_ctx");
        assert!(!calls(OBJECT_INTERPRETED));
        assert_eq!(calls(OBJECT), !OBJECT.is_empty());
    }

    /// Makes the maximum number of classes and rules, each rule with all conditions.
    fn full_classes() -> Classes {
        let rule = |class: usize| Rule {
            class,
            port: Some(80),
            network: Some(("2001:db8::".parse().unwrap(), 32 + class as u8 * 6)),
            dscp: Some(class as u8),
            mark: Some(class as u32),
            cgroup: Some(Cgroup { path: "a/b".into(), id: 7 }),
        };
        let class = Class { name: "a".into(), share: ClassShare::default() };
        Classes { all: vec![class; CLASSES_MAX], rules: (0..RULES_MAX).map(|nth| rule(nth % CLASSES_MAX)).collect() }
    }

    /// A kernel with a JIT accepts the program for interpreters too.
    #[test]
    fn the_verifier_takes_both_programs_under_every_policy() {
        for (policy, (classes, client_by)) in Policy::ALL.into_iter().flat_map(|policy| {
            [(Classes::default(), ClientBy::Mark), (full_classes(), ClientBy::Proxy)].map(|rest| (policy, rest))
        }) {
            // Code that is only needed for clients must not be missing without them.
            let share = (policy != Policy::Las).then_some(Share {
                allowance_bytes: 1 << 20,
                link_bytes_per_s: 1 << 20,
                v4_bits: 32,
                v6_bits: 56,
                client_by,
                behind_band: 15,
                behind_bands: 1,
            });
            let settings = Settings {
                policy,
                made_clsact: false,
                made_tree: false,
                has_uploads: true,
                cuts: (1..=CUTS_MAX as u64).collect(),
                priorities: [0; BANDS_MAX],
                ports: vec![80],
                share,
                classes,
                before: Before::default(),
            };
            for object in [OBJECT, OBJECT_INTERPRETED] {
                if object.is_empty() {
                    return skip("this was built without clang");
                }
                match load_object(object, &settings.to_bytes(), None) {
                    Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_privileged() => {
                        return skip("loading a program needs root");
                    }
                    loaded => drop(loaded.unwrap()),
                }
            }
        }
    }
}
