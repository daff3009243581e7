use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use record::Run;

use crate::one_run::{PORT, one_run};
use crate::server::check_installed;
use crate::{
    Attach, Experiment, Interrupt, LabError, Link, Network, Qdisc, RunSpec, Site, Wan, find_program, remove_leftovers,
};

/// What to do and with what.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub experiment: &'a Experiment,
    /// Sizes of all the files that will be asked for.
    pub sizes: &'a BTreeSet<u64>,
    /// Folder for the results, made if missing; each run gets a folder in it.
    pub out: &'a Path,
    pub programs: &'a Programs,
    /// Whether to leave out runs that need what this machine lacks, instead of refusing the experiment.
    pub skip_missing: bool,
}

/// Our own programs; the others are found in PATH.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `None` when there is none, which only matters to runs that need it.
    pub weir: Option<PathBuf>,
    pub weirlab: PathBuf,
}

/// What came of an experiment.
#[derive(Debug)]
pub struct Conducted {
    /// Those done, in the order of the experiment.
    pub runs: Vec<Run>,
    pub skipped: Vec<Skipped>,
}

/// A run that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub reason: String,
}

/// Does every run of an experiment, one after the other, on the same jobs, and gives them in that order.
///
/// What a run lacks on this machine is found before the first one: it is an error, or with `skip_missing` the run is left
/// out. Everything made is removed, the results excepted; the runs finished before an error stay in their folders.
pub fn conduct(plan: &Plan<'_>, interrupt: &Interrupt) -> Result<Conducted, LabError> {
    check_needs(plan)?;
    let (specs, skipped) = feasible(plan, interrupt)?;
    std::fs::create_dir_all(plan.out).map_err(|e| LabError::path(plan.out, e))?;
    let site = Site::create(&plan.out.join("www"), plan.sizes)?;
    let (count, mut runs) = (specs.len(), vec![]);
    for (number, spec) in specs.into_iter().enumerate() {
        eprintln!("run {} of {count}: {}, {} s", number + 1, spec.name, plan.experiment.seconds);
        let run = one_run(plan, spec, site.folder(), interrupt).map_err(|cause| LabError::Run {
            name: spec.name.clone(),
            cause: Box::new(cause),
            kept: runs.len(),
            out: plan.out.into(),
        })?;
        runs.push(run);
    }
    Ok(Conducted { runs, skipped })
}

/// The runs this machine can do, and those to be skipped; an error where one is missing and may not be skipped.
fn feasible<'a>(plan: &Plan<'a>, interrupt: &Interrupt) -> Result<(Vec<&'a RunSpec>, Vec<Skipped>), LabError> {
    let (mut specs, mut skipped, mut rehearsed) = (vec![], vec![], vec![]);
    for spec in plan.experiment.runs() {
        interrupt.check()?;
        match rehearse(plan, spec, &mut rehearsed) {
            Ok(()) => specs.push(spec),
            Err(cause) if plan.skip_missing => {
                eprintln!("skipping run {}: {cause}", spec.name);
                skipped.push(Skipped { name: spec.name.clone(), reason: cause.to_string() });
            }
            Err(cause) => return Err(LabError::Lacks { run: spec.name.clone(), cause: Box::new(cause) }),
        }
    }
    if specs.is_empty() { Err(LabError::NothingLeft) } else { Ok((specs, skipped)) }
}

/// What decides how a run's link is built.
type LinkKey = (Qdisc, Vec<String>, Option<Attach>, Vec<String>);

/// Looks for the run's server, and builds its link once where it is more than the shaper and FIFO that every kernel has:
/// no list of what a kernel offers is as sure as the attempt.
fn rehearse(plan: &Plan<'_>, spec: &RunSpec, rehearsed: &mut Vec<LinkKey>) -> Result<(), LabError> {
    let weir = plan.programs.weir.as_deref();
    check_installed(spec.server, weir)?;
    let qdisc = plan.experiment.qdisc_of(spec);
    let key = (qdisc, spec.qdisc_flags.clone(), spec.attach, spec.attach_flags.clone());
    let is_plain = qdisc == Qdisc::Fifo && plan.experiment.wan != Wan::Netem;
    let is_everywhere = is_plain && !plan.experiment.limits.concern_kernel();
    if is_everywhere || rehearsed.contains(&key) {
        return Ok(());
    }
    let link = Link::build(plan.experiment, spec, weir)?;
    link.attach(plan.experiment, spec, PORT, weir)?;
    rehearsed.push(key);
    Ok(())
}

/// Finds what every run needs before the first minute is spent, and removes what a killed experiment left.
fn check_needs(plan: &Plan<'_>) -> Result<(), LabError> {
    let mut tools = vec!["setpriv"];
    if plan.experiment.network != Network::Loopback {
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::NotRoot);
        }
        tools.extend(["ip", "tc", "ethtool"]);
    }
    for tool in tools {
        find_program(tool)?;
    }
    if plan.experiment.network != Network::Loopback {
        for name in remove_leftovers()? {
            eprintln!("removed namespace {name}, left by an experiment that was killed");
        }
    }
    Ok(())
}
