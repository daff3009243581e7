use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use record::Run;

use crate::one_run::one_run;
use crate::{Experiment, Interrupt, LabError, Network, Server, Site, find_program, remove_leftovers};

/// What to do and with what.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub experiment: &'a Experiment,
    /// Sizes of all the files that will be asked for.
    pub sizes: &'a BTreeSet<u64>,
    /// Folder for the results, made if missing; each run gets a folder in it.
    pub out: &'a Path,
    pub programs: &'a Programs,
}

/// Our own programs; the others are found in PATH.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `None` when there is none, which only matters to runs that need it.
    pub weir: Option<PathBuf>,
    pub weirlab: PathBuf,
}

/// Does every run of an experiment, one after the other, on the same jobs, and gives them in that order.
///
/// Everything made is removed, the results excepted; the runs finished before an error stay in their folders.
pub fn conduct(plan: &Plan<'_>, interrupt: &Interrupt) -> Result<Vec<Run>, LabError> {
    check_needs(plan)?;
    std::fs::create_dir_all(plan.out).map_err(|e| LabError::path(plan.out, e))?;
    let site = Site::create(&plan.out.join("www"), plan.sizes)?;
    let (count, mut finished) = (plan.experiment.runs().len(), vec![]);
    for (number, spec) in plan.experiment.runs().enumerate() {
        eprintln!("run {} of {count}: {}, {} s", number + 1, spec.name, plan.experiment.seconds);
        let run = one_run(plan, spec, site.folder(), interrupt).map_err(|cause| LabError::Run {
            name: spec.name.clone(),
            cause: Box::new(cause),
            kept: finished.len(),
            out: plan.out.into(),
        })?;
        finished.push(run);
    }
    Ok(finished)
}

/// Finds what is missing before the first minute is spent, and removes what a killed experiment left.
fn check_needs(plan: &Plan<'_>) -> Result<(), LabError> {
    let needs = |server| plan.experiment.runs().any(|run| run.server == server);
    if needs(Server::Weir) && plan.programs.weir.is_none() {
        return Err(LabError::Missing { program: "weir".into() });
    }
    let mut tools = vec!["setpriv"];
    if needs(Server::Nginx) {
        tools.push("nginx");
    }
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
