//! One machine in virtual time: it runs a command, is watched from outside, and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use procfs::{Current, Meminfo};

use super::bounds::Bounds;
use super::console;
use super::kernel::find_random;
use crate::namespace::{is_dead, owner};
use crate::proc_stat::started;
use crate::program::{POLL_EVERY, Program};
use crate::{Interrupt, LabError, Place, tool};

const INIT: &str = include_str!("init.sh");
/// Further words for the kernel. On a processor without a double-word compare-and-exchange, such as this one, the
/// kernel has memory for a BPF program's storage only from caches with checks (kmalloc_nolock in mm/slub.c).
const BOOT: &str = "root=/dev/root rootfstype=hostfs hostfs=/ ro time-travel=inf-cpu seccomp=auto con=null con0=null,fd:1 \
    loglevel=7 slab_debug=F,kmalloc-*";
/// The kernel's random numbers also depend on its command line, which therefore names no folder of this machine.
/// Folders are relative to the one in which the machine is started.
const FOLDERS: [&str; 3] = ["init=/proc/self/cwd/init", "uml_dir=.", "umid=machine"];
/// The start of the clock in a run with a seed, in nanoseconds since 1970: 1 January 2030, after the host's files were
/// written. The kernel's random numbers, and TCP's sequence numbers, also depend on the instant.
const BEGINS_UNIX_NS: u64 = 1_893_456_000_000_000_000;
/// The variable that the library of [`find_random`] reads.
const SEED: &str = "WEIRLAB_SEED";
/// The prefix of the folders of machines, before `PID-START-NUMBER`.
const PREFIX: &str = "weirlab-machine-";
const RESULTS: &str = "results";
/// The folder of results as the command sees it; files written anywhere else are lost.
pub(super) const RESULTS_INSIDE: &str = "/run/results";
/// The folder of the machine's memory, which is a file; it must not be on a disk.
const MEMORY_FOLDER: &str = "/dev/shm";
/// The interval at which the machine's processor time is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The number of lines of the machine's output that an error quotes.
const TAIL_LINES: usize = 3;

/// The task of a machine.
pub(super) struct Task<'a> {
    pub(super) kernel: &'a Path,
    /// The command; the files that it writes to [`RESULTS_INSIDE`] are kept.
    pub(super) command: &'a [String],
    /// The seed of its random numbers. Without one, it uses the host's random numbers and clock.
    pub(super) seed: Option<u64>,
    pub(super) bounds: Bounds,
}

/// How a command ended.
pub(super) struct Ended {
    pub(super) status: i32,
    pub(super) out: String,
    pub(super) err: String,
    pub(super) virtual_seconds: u64,
    folder: Folder,
}

/// The folder of a machine: its console, its task, its results, and how it ended. It is removed when dropped.
struct Folder(PathBuf);

impl Ended {
    /// The folder of the files that the command kept; it is removed when this is dropped.
    pub(super) fn results(&self) -> PathBuf {
        self.folder.file(RESULTS)
    }
}

impl Task<'_> {
    /// Starts a machine, lets it carry out this task, and returns how it ended.
    pub(super) fn run(&self, interrupt: &Interrupt) -> Result<Ended, LabError> {
        check_memory(self.bounds.memory_mib)?;
        let folder = Folder::make()?;
        self.write_to(&folder.0)?;
        let words = self.machine_words(&folder.0)?;
        let mut machine = Program::start(Place::Here, "the machine", &words, &folder.file("console"))?;
        self.watch(&mut machine, &folder, interrupt)?;
        folder.ended(self.bounds.memory_mib)
    }

    fn write_to(&self, folder: &Path) -> Result<(), LabError> {
        let results = folder.join(RESULTS);
        fs::create_dir(&results).map_err(|e| LabError::path(&results, e))?;
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        let here = std::env::current_dir().map_err(|e| LabError::io("the current folder", e))?;
        let command = format!("cd {} && exec {}\n", quoted(&here.display().to_string()), words.join(" "));
        for (name, text) in [("init", INIT), ("command", &command)] {
            let file = folder.join(name);
            fs::write(&file, text).map_err(|e| LabError::path(&file, e))?;
        }
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.join("init"), executable).map_err(|e| LabError::path(folder, e))
    }

    fn machine_words(&self, folder: &Path) -> Result<Vec<String>, LabError> {
        let kernel = std::path::absolute(self.kernel).map_err(|e| LabError::path(self.kernel, e))?;
        let mut words =
            vec!["env".into(), "-C".into(), folder.display().to_string(), format!("TMPDIR={MEMORY_FOLDER}")];
        let random = self.seed.zip(find_random(&kernel));
        if let Some((seed, library)) = &random {
            words.extend([format!("LD_PRELOAD={}", library.display()), format!("{SEED}={seed}")]);
        }
        words.extend([kernel.display().to_string(), format!("mem={}M", self.bounds.memory_mib)]);
        words.extend(FOLDERS.into_iter().chain(BOOT.split_whitespace()).map(String::from));
        if random.is_some() {
            words.push(format!("time-travel-start={BEGINS_UNIX_NS}"));
        }
        Ok(words)
    }

    /// Waits until the machine ends. Ends it if its clock stands still while it computes.
    fn watch(&self, machine: &mut Program, folder: &Folder, interrupt: &Interrupt) -> Result<(), LabError> {
        let (mut beats, mut moved_at, mut looked) = (0, Duration::ZERO, Duration::ZERO);
        while machine.poll_exit()?.is_none() {
            interrupt.check()?;
            std::thread::sleep(POLL_EVERY);
            looked += POLL_EVERY;
            if looked < LOOK_EVERY {
                continue;
            }
            looked = Duration::ZERO;
            let (now, cpu) = (folder.beats(), machine.cpu()?);
            if now != beats {
                (beats, moved_at) = (now, cpu);
            } else if cpu.saturating_sub(moved_at) > self.bounds.stuck_after {
                return Err(LabError::Spins {
                    program: folder.running(),
                    at_s: beats,
                    cpu_s: self.bounds.stuck_after.as_secs(),
                });
            }
        }
        Ok(())
    }
}

impl Folder {
    fn make() -> Result<Folder, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir();
        remove_leftovers(&parent);
        let folder = parent.join(format!("{PREFIX}{}-{}", owner(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&folder).map_err(|e| LabError::path(&folder, e))?;
        Ok(Folder(folder))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.file(name)).unwrap_or_default()).into_owned()
    }

    /// The virtual seconds since it began.
    fn beats(&self) -> u64 {
        fs::metadata(self.file("beat")).map_or(0, |file| file.len())
    }

    /// The program that has the processor, as reported by the kernel.
    fn running(&self) -> String {
        let asked = console::ask(&self.file("machine/mconsole"), &self.file("reply"), "sysrq p");
        let said = format!("{} {}", asked.unwrap_or_default(), self.text("console"));
        running_in(&said).unwrap_or_else(|| "a program".into())
    }

    fn ended(self, memory_mib: u64) -> Result<Ended, LabError> {
        let (console, err) = (self.text("console"), self.text("err"));
        if let Some(killed) = out_of_memory(&console) {
            return Err(LabError::MachineMemory { mib: memory_mib, killed });
        }
        let Ok(status) = self.text("status").trim().parse() else {
            let said = if err.trim().is_empty() { &console } else { &err };
            return Err(LabError::Machine { said: tail(said) });
        };
        Ok(Ended { status, out: self.text("out"), err, virtual_seconds: self.beats(), folder: self })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("weirlab: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Removes the folders that killed processes left.
fn remove_leftovers(parent: &Path) {
    for folder in fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
        let Some([pid, start, _]) =
            name.map(|name| name.split('-').collect::<Vec<_>>()).as_deref().and_then(|p| p.first_chunk()).copied()
        else {
            continue;
        };
        if is_dead(pid, start, started) {
            // Another experiment that starts now may have removed it first.
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// Checks that this host has the memory that a machine may need.
fn check_memory(mib: u64) -> Result<(), LabError> {
    let free_mib = free_mib();
    if free_mib >= mib {
        return Ok(());
    }
    Err(LabError::HostMemory { mib, free_mib, folder: MEMORY_FOLDER.into() })
}

/// The maximum memory of this host that machines may use.
pub(super) fn free_mib() -> u64 {
    let room = rustix::fs::statvfs(MEMORY_FOLDER).map_or(0, |found| found.f_bavail * found.f_frsize / (1 << 20));
    let free = Meminfo::current().ok().and_then(|memory| available_mib(&memory));
    free.map_or(room, |free| room.min(free))
}

fn available_mib(memory: &Meminfo) -> Option<u64> {
    memory.mem_available.map(|bytes| bytes / (1 << 20))
}

/// Parses `Pid: 57, comm: python3 Not tainted ...` from a program's registers, or `CPU: 0 UID: 0 PID: 57 Comm: python3
/// Not tainted ...` from the kernel's.
fn running_in(said: &str) -> Option<String> {
    let (_, rest) = said.rsplit_once("comm: ").or_else(|| said.rsplit_once("Comm: "))?;
    rest.split_whitespace().next().map(|name| format!("`{name}`"))
}

/// Parses `Out of memory: Killed process 57 (python3) ...`
fn out_of_memory(console: &str) -> Option<String> {
    let (_, rest) = console.split_once("Out of memory: Killed process ")?;
    let (_, name) = rest.split_once('(')?;
    name.split_once(')').map(|(name, _)| name.to_owned())
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    tool::one_line(&lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    #[test]
    fn words_come_back_from_the_shell_as_they_were() {
        let words = ["plain", "two words", "it's", "$HOME `id` \\ \"", "", "*"];
        let line = words.map(quoted).join(" ");
        let said = tool::run_words(&["sh", "-c", &format!("printf '%s\\n' {line}")]).unwrap();
        assert_eq!(said.lines().collect::<Vec<_>>(), words);
    }

    #[test]
    fn the_kernel_names_who_spins_and_who_was_ended() {
        let said = "sysrq: Show Regs\nCPU: 0 UID: 0 PID: 57 Comm: python3 Not tainted 7.2.12 #5 VOLUNTARY\n";
        assert_eq!(running_in(said).unwrap(), "`python3`");
        let said = "sysrq: Show Regs\n\0\n\0Pid: 106, comm: weir Not tainted 7.2.12\n\0RIP: 0000:0x0\n\0";
        assert_eq!(running_in(said).unwrap(), "`weir`");
        assert_eq!(running_in("sysrq: Show Regs"), None);
        let console = "[ 3.1] Out of memory: Killed process 61 (weir) total-vm:3145728kB";
        assert_eq!(out_of_memory(console).unwrap(), "weir");
        assert_eq!(out_of_memory("fine"), None);
    }

    #[test]
    fn what_a_host_has_left_is_read() {
        // The fields of every kernel.
        let names = "MemTotal MemFree Buffers Cached SwapCached Active Inactive SwapTotal SwapFree Dirty Writeback Mapped \
            Slab Committed_AS VmallocTotal VmallocUsed VmallocChunk";
        let lines: String = names.split_whitespace().map(|name| format!("{name}:  100 kB\n")).collect();
        let available = |more: &str| available_mib(&Meminfo::from_read(format!("{lines}{more}").as_bytes()).unwrap());
        assert_eq!((available("MemAvailable:    2048000 kB\n"), available("")), (Some(2000), None));
        assert!(Meminfo::from_read("".as_bytes()).is_err());
    }

    #[test]
    fn folders_of_the_dead_are_removed_and_of_the_living_kept() {
        let parent = std::env::temp_dir().join(format!("weir-machines-{}", std::process::id()));
        let (dead, own) = (format!("{PREFIX}99999999-1-0"), format!("{PREFIX}{}-0", owner()));
        for name in [dead.as_str(), &own, "weirlab-machine-x", "other"] {
            fs::create_dir_all(parent.join(name)).unwrap();
        }
        remove_leftovers(&parent);
        let left = |name: &str| parent.join(name).exists();
        assert!(!left(&dead) && left(&own) && left("weirlab-machine-x") && left("other"));
        fs::remove_dir_all(parent).unwrap();
    }
}
