use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why an experiment could not be read, prepared or finished.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The experiment file has a mistake in this line.
    #[error("{}:{line}: {reason}", file.display())]
    Experiment { file: PathBuf, line: usize, reason: String },
    /// Namespaces need root.
    #[error("making network namespaces needs root: use sudo")]
    NotRoot,
    /// A required program is not installed.
    #[error("the program `{program}` is not found: {}", how_to_get(program))]
    Missing { program: String },
    /// A tool such as `ip` or `tc` failed, with this command and output.
    #[error("`{command}` failed: {said}")]
    Tool { command: String, said: String },
    /// The qdisc of a run cannot be built, usually because this kernel lacks it.
    #[error("qdisc `{name}` cannot be had here: {cause}{}", instead_of(name))]
    Qdisc { name: &'static str, cause: Box<LabError> },
    /// A limit of the experiment is not available here.
    #[error("limits: {key}: {reason}")]
    Limit { key: &'static str, reason: String },
    /// `weir attach` failed.
    #[error("weir attach: {cause}")]
    Attach { cause: Box<LabError> },
    /// A run needs something that this machine lacks; found before the first run.
    #[error("run `{run}`: {cause}; nothing was run, --skip-missing leaves such runs out")]
    Lacks { run: String, cause: String },
    /// Every run was skipped because something was missing.
    #[error("every run lacks something on this machine: nothing was run")]
    NothingLeft,
    /// A program of the experiment failed: its name, how it ended, and the end of its log.
    #[error("{name} {ended}; {} ends with: {tail}", log.display())]
    Program { name: String, ended: String, log: PathBuf, tail: String },
    /// A file, folder or kernel setting could not be read or written.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    /// The kernel lacks or refuses something.
    #[error(transparent)]
    Kernel(#[from] uplink::Error),
    /// The output of a program could not be understood.
    #[error("cannot understand {what}: {reason}")]
    Output { what: String, reason: String },
    /// The folder for the results contains a run of another experiment.
    #[error("--out: {} is of another experiment: {reason}; name another folder", run.display())]
    OtherExperiment { run: PathBuf, reason: &'static str },
    /// Another experiment is writing its results there.
    #[error("--out: another weirlab is at work in {}", folder.display())]
    Taken { folder: PathBuf },
    /// There is no kernel for virtual time at the expected place.
    #[error("--virtual: no kernel for virtual time in {place}: {} is missing; build it with `scripts/setup.sh virtual`", file.display())]
    NoVirtualKernel { file: PathBuf, place: String },
    /// A variable of the environment has an invalid value.
    #[error("{name} is `{value}`: {wanted} is expected")]
    Variable { name: &'static str, value: String, wanted: String },
    /// A program in a machine of virtual time computes without end, so the machine's clock stands still.
    #[error(
        "{program} spins: the virtual clock stood still at {at_s} s for {cpu_s} s of computing, so the machine was ended; where no time \
         passes a program has to sleep"
    )]
    Spins { program: String, at_s: u64, cpu_s: u64 },
    /// A machine of virtual time needed more memory than it had, and a program in it was killed.
    #[error(
        "the machine ran out of its {mib} MiB of memory, and its kernel ended `{killed}`: make the run shorter, or name more with \
         WEIRLAB_MACHINE_MIB"
    )]
    MachineMemory { mib: u64, killed: String },
    /// This host lacks the memory for a machine of virtual time.
    #[error(
        "a machine in virtual time may use {mib} MiB of memory in {}, and {free_mib} MiB are free: run fewer at once",
        folder.display()
    )]
    HostMemory { mib: u64, free_mib: u64, folder: PathBuf },
    /// A machine of virtual time ended without a result.
    #[error("the machine in virtual time ended without a result: {said}")]
    Machine { said: String },
    /// The experiment failed in its machine of virtual time.
    #[error("in virtual time: {said}")]
    Inside { said: String },
    /// SIGINT, SIGTERM or SIGHUP was received.
    #[error("interrupted")]
    Interrupted,
    /// A run of the experiment did not finish; the finished ones are kept.
    #[error("run `{name}`: {cause}; finished before it and kept in {}: {kept}", out.display())]
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

/// The alternative to this qdisc, if there is one.
fn instead_of(qdisc: &str) -> &'static str {
    if qdisc == "netem" { "; --virtual has it, wire = false needs no wire" } else { "" }
}

/// Returns how to get a program: ours are built, the others are packages of Debian.
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
