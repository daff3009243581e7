use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why an experiment could not be read, prepared or finished.
#[derive(Debug)]
pub enum LabError {
    /// The experiment file is wrong at this line.
    Experiment { file: PathBuf, line: usize, reason: String },
    /// Namespaces need root.
    NotRoot,
    /// A program that is needed is not installed.
    Missing { program: String },
    /// A tool such as `ip` or `tc` failed: the command and what it said.
    Tool { command: String, said: String },
    /// The qdisc of a run cannot be built, most often because this kernel lacks it.
    Qdisc { name: &'static str, cause: Box<LabError> },
    /// A limit of the experiment cannot be had here.
    Limit { key: &'static str, reason: String },
    /// `weir attach` failed.
    Attach { cause: Box<LabError> },
    /// A run needs what this machine lacks; found before anything ran.
    Lacks { run: String, cause: String },
    /// Every run was skipped, for lack of what it needs.
    NothingLeft,
    /// A program of the experiment failed: which, how it ended, and the end of its log.
    Program { name: String, ended: String, log: PathBuf, tail: String },
    /// A file, folder or kernel setting could not be read or written.
    Io { what: String, source: io::Error },
    /// The kernel lacks or refuses something.
    Kernel { cause: uplink::Error },
    /// The output of a program could not be understood.
    Output { what: String, reason: String },
    /// The folder for the results has a run of something else.
    OtherExperiment { run: PathBuf, reason: &'static str },
    /// Another experiment has its results there, right now.
    Taken { folder: PathBuf },
    /// There is no kernel for virtual time where it was looked for.
    NoVirtualKernel { file: PathBuf, place: String },
    /// A variable of the environment has a value that it cannot have.
    Variable { name: &'static str, value: String, wanted: String },
    /// A program in a machine of virtual time computes without end, so that its clock stands still.
    Spins { program: String, at_s: u64, cpu_s: u64 },
    /// A machine of virtual time needed more memory than it had; a program in it was ended for that.
    MachineMemory { mib: u64, killed: String },
    /// This host has not the memory for a machine of virtual time.
    HostMemory { mib: u64, free_mib: u64, folder: PathBuf },
    /// A machine of virtual time ended without a result.
    Machine { said: String },
    /// The experiment failed in its machine of virtual time.
    Inside { said: String },
    /// SIGINT or SIGTERM came.
    Interrupted,
    /// A run of the experiment did not finish; the finished ones are kept.
    Run { name: String, cause: Box<LabError>, kept: usize, out: PathBuf },
}

impl LabError {
    pub(crate) fn io(what: impl fmt::Display, source: io::Error) -> LabError {
        LabError::Io { what: what.to_string(), source }
    }

    pub(crate) fn path(path: &Path, source: io::Error) -> LabError {
        LabError::io(path.display(), source)
    }
}

impl From<record::FileError> for LabError {
    fn from(error: record::FileError) -> LabError {
        LabError::path(error.path(), io::Error::other(error.reason()))
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Experiment { file, line, reason } => write!(f, "{}:{line}: {reason}", file.display()),
            LabError::NotRoot => write!(f, "making network namespaces needs root: use sudo"),
            LabError::Missing { program } => write!(f, "the program `{program}` is not found: {}", how_to_get(program)),
            LabError::Tool { command, said } => write!(f, "`{command}` failed: {said}"),
            LabError::Qdisc { name: "netem", cause } => {
                write!(f, "qdisc `netem` cannot be had here: {cause}; --virtual has it, wire = false needs no wire")
            }
            LabError::Qdisc { name, cause } => write!(f, "qdisc `{name}` cannot be had here: {cause}"),
            LabError::Limit { key, reason } => write!(f, "limits: {key}: {reason}"),
            LabError::Attach { cause } => write!(f, "weir attach: {cause}"),
            LabError::Lacks { run, cause } => {
                write!(f, "run `{run}`: {cause}; nothing was run, --skip-missing leaves such runs out")
            }
            LabError::NothingLeft => write!(f, "every run lacks something on this machine: nothing was run"),
            LabError::Program { name, ended, log, tail } => {
                write!(f, "{name} {ended}; {} ends with: {tail}", log.display())
            }
            LabError::Io { what, source } => write!(f, "{what}: {source}"),
            LabError::Kernel { cause } => write!(f, "{cause}"),
            LabError::Output { what, reason } => write!(f, "cannot understand {what}: {reason}"),
            LabError::OtherExperiment { run, reason } => {
                write!(f, "--out: {} is of another experiment: {reason}; name another folder", run.display())
            }
            LabError::Taken { folder } => write!(f, "--out: another weirlab is at work in {}", folder.display()),
            LabError::Interrupted => write!(f, "interrupted"),
            LabError::Run { name, cause, kept, out } => {
                write!(f, "run `{name}`: {cause}; finished before it and kept in {}: {kept}", out.display())
            }
            of_machine => of_machine.fmt_machine(f),
        }
    }
}

impl std::error::Error for LabError {}

impl LabError {
    /// Returns what can be wrong with a machine in virtual time.
    fn fmt_machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::NoVirtualKernel { file, place } => write!(
                f,
                "--virtual: no kernel for virtual time in {place}: {} is missing; build it with `scripts/setup.sh virtual`",
                file.display()
            ),
            LabError::Variable { name, value, wanted } => write!(f, "{name} is `{value}`: {wanted} is expected"),
            LabError::Spins { program, at_s, cpu_s } => write!(
                f,
                "{program} spins: the virtual clock stood still at {at_s} s for {cpu_s} s of computing, so the machine was \
                 ended; where no time passes a program has to sleep"
            ),
            LabError::MachineMemory { mib, killed } => {
                write!(
                    f,
                    "the machine ran out of its {mib} MiB of memory, and its kernel ended `{killed}`: make the run \
                     shorter, or name more with WEIRLAB_MACHINE_MIB"
                )
            }
            LabError::HostMemory { mib, free_mib, folder } => write!(
                f,
                "a machine in virtual time may use {mib} MiB of memory in {}, and {free_mib} MiB are free: run fewer at once",
                folder.display()
            ),
            LabError::Machine { said } => write!(f, "the machine in virtual time ended without a result: {said}"),
            LabError::Inside { said } => write!(f, "in virtual time: {said}"),
            _ => Ok(()),
        }
    }
}

impl From<uplink::Error> for LabError {
    fn from(cause: uplink::Error) -> LabError {
        LabError::Kernel { cause }
    }
}

/// Returns the source of a program: ours are built, the others are packages of Debian.
fn how_to_get(program: &str) -> String {
    let package = match program {
        "weir" => return "build it with `cargo build --release -p weir`, or put it in PATH".into(),
        "ip" | "tc" => "iproute2",
        "setpriv" => "util-linux",
        "apache2" | "mod_mpm_prefork.so" => "apache2-bin",
        other => other,
    };
    format!("install it with `apt install {package}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_a_missing_program_comes_from() {
        let said = |program: &str| LabError::Missing { program: program.into() }.to_string();
        assert_eq!(said("tc"), "the program `tc` is not found: install it with `apt install iproute2`");
        assert!(
            said("apache2").ends_with("`apt install apache2-bin`") && said("caddy").ends_with("`apt install caddy`")
        );
        assert!(said("weir").contains("cargo build"));
    }

    #[test]
    fn a_failed_run_says_what_is_kept() {
        let cause = Box::new(LabError::Interrupted);
        let error = LabError::Run { name: "weir-off".into(), cause, kept: 1, out: "runs/x".into() };
        assert_eq!(error.to_string(), "run `weir-off`: interrupted; finished before it and kept in runs/x: 1");
    }
}
