use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::{LeftOut, Run};
use uplink::congestion;

use crate::folder::{Claim, finished};
use crate::one_run::{PORT, one_run};
use crate::server::check_installed;
use crate::virtual_time::{self, Machines};
use crate::{
    Attach, Experiment, Folder, Interrupt, LabError, Limits, Link, Network, Qdisc, RunSpec, Site, find_program,
    remove_leftovers,
};

/// A point of an experiment, and the settings for its runs.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    pub experiment: &'a Experiment,
    /// The displayed name: `000-fig3 rho-0.8`.
    pub title: String,
    /// The sizes of all files that will be requested.
    pub sizes: &'a BTreeSet<u64>,
    /// The folder for the results, created if missing. Each run gets a folder in it.
    pub out: PathBuf,
    pub programs: &'a Programs,
    /// True if runs that need something this machine lacks are left out; otherwise the experiment is refused.
    pub skip_missing: bool,
    /// The duration of the jobs on a link that is always busy.
    pub lasts: Duration,
    /// The digest of each run's conditions, see [`crate::Point::digest`].
    pub digests: BTreeMap<String, String>,
    /// Additional entries for the manifests.
    pub environment: BTreeMap<String, String>,
    /// The command line of `weirlab` that repeats this experiment, without the runs and points. A machine in virtual
    /// time uses it.
    pub again: Vec<String>,
}

/// Our own programs; others are found in PATH.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `None` if there is no `weir`, which matters only to runs that need it.
    pub weir: Option<PathBuf>,
    pub weirlab: PathBuf,
}

/// The plans to be carried out, and their settings.
pub struct Order<'a> {
    /// The folders of the plans' results.
    pub folders: &'a [Folder<'a>],
    pub plans: &'a [Plan<'a>],
    /// The folder in which the served files are created.
    pub site: &'a Path,
    /// Returns the reason why a run may not be used, if any.
    pub judge: &'a (dyn Fn(&Run) -> Option<String> + Sync),
    /// The machines, if the clock is virtual; `None` to run here, on the real clock.
    pub machines: Option<Machines>,
}

/// The result of a plan.
#[derive(Debug, Default)]
pub struct Conducted {
    /// The folders of the finished runs, including those finished earlier, in the order of the experiment.
    pub runs: Vec<PathBuf>,
    pub skipped: Vec<Skipped>,
    /// Runs in machines that did not finish, while others did.
    pub failed: Vec<Skipped>,
}

/// A run that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub reason: String,
}

/// A run to be carried out.
#[derive(Clone)]
struct Task<'a> {
    plan: &'a Plan<'a>,
    spec: &'a RunSpec,
    /// The number of its plan.
    point: usize,
}

/// Carries out all unfinished runs of all plans, one after another, and returns the results of each plan.
///
/// Before the first run it determines what the runs lack on this machine. A lack is an error, or with `skip_missing`
/// the run is left out. Everything created is removed except the results; the runs finished before an error stay in
/// their folders.
pub fn conduct(order: &Order<'_>, interrupt: &Interrupt) -> Result<Vec<Conducted>, LabError> {
    if let Some(machines) = &order.machines {
        return virtual_time::conduct(order, machines, interrupt);
    }
    let (tasks, mut conducted) = survey(order, interrupt)?;
    let skipped: usize = conducted.iter().map(|point| point.skipped.len()).sum();
    if !tasks.is_empty() || skipped > 0 {
        announce(order, &tasks);
        let _claims = order.folders.iter().map(Folder::claim).collect::<Result<Vec<Claim>, LabError>>()?;
        keep_left_out(order, &conducted)?;
        if skipped == order.plans.iter().map(|plan| plan.experiment.runs().len()).sum::<usize>() {
            return Err(LabError::NothingLeft);
        }
        if !tasks.is_empty() {
            let sizes = order.plans.iter().flat_map(|plan| plan.sizes).copied().collect();
            let folders = order.plans.iter().flat_map(|plan| plan.experiment.load.folders()).collect();
            let site = Site::create(order.site, &sizes)?.with_folders(&folders, &sizes)?;
            let ended = all(order, &tasks, &site, interrupt);
            // The error that ended the experiment is reported first: a full disk, for example, also prevents this
            // write.
            let kept = keep_left_out(order, &conducted);
            ended.and(kept)?;
        }
    }
    for (plan, conducted) in order.plans.iter().zip(&mut conducted) {
        conducted.runs = kept_runs(plan);
    }
    Ok(conducted)
}

/// The folders of the finished runs of a plan, in the order of the experiment.
pub(crate) fn kept_runs(plan: &Plan<'_>) -> Vec<PathBuf> {
    let folders = plan.experiment.runs().map(|spec| plan.out.join(&spec.name));
    folders.filter(|folder| finished(folder).is_some()).collect()
}

/// The unfinished runs, each with the number of its plan.
pub(crate) fn due_runs<'a>(order: &Order<'a>) -> Vec<(usize, &'a RunSpec)> {
    let all =
        (0..).zip(order.plans).flat_map(|(point, plan)| plan.experiment.runs().map(move |spec| (point, plan, spec)));
    let due = all.filter(|(_, plan, spec)| !is_finished(plan, spec));
    due.map(|(point, _, spec)| (point, spec)).collect()
}

/// Records in every folder which of its runs are missing and why, because a printed message is gone when the results
/// are read.
pub(crate) fn keep_left_out(order: &Order<'_>, conducted: &[Conducted]) -> Result<(), LabError> {
    for folder in order.folders {
        let reasons = order.plans.iter().zip(conducted).filter_map(|(plan, conducted)| {
            let point = plan.out.strip_prefix(folder.path).ok()?;
            let skipped = conducted.skipped.iter().map(|run| (&run.name, run.reason.clone()));
            let failed = conducted.failed.iter().map(|run| (&run.name, format!("it failed: {}", run.reason)));
            Some(skipped.chain(failed).map(|(run, why)| (point.join(run).display().to_string(), why)))
        });
        LeftOut::add(folder.path, reasons.flatten())?;
    }
    Ok(())
}

/// Determines the runs to be carried out, and the results of the plans so far.
fn survey<'a>(order: &Order<'a>, interrupt: &Interrupt) -> Result<(Vec<Task<'a>>, Vec<Conducted>), LabError> {
    order.folders.iter().try_for_each(Folder::check)?;
    let task = |(point, spec)| Task { plan: &order.plans[point], spec, point };
    let mut tasks: Vec<Task<'_>> = due_runs(order).into_iter().map(task).collect();
    let mut conducted: Vec<Conducted> = order.plans.iter().map(|_| Conducted::default()).collect();
    if !tasks.is_empty() {
        check_needs(order.plans)?;
        tasks = feasible(tasks, &mut conducted, interrupt)?;
    }
    Ok((tasks, conducted))
}

fn announce(order: &Order<'_>, tasks: &[Task<'_>]) {
    let all: usize = order.plans.iter().map(|plan| plan.experiment.runs().len()).sum();
    let kept = all - due_runs(order).len();
    if kept > 0 {
        eprintln!("{kept} of {all} runs are finished and kept");
    }
    eprintln!("{} runs to do", tasks.len());
}

/// Carries out these runs, until one fails or a stop is requested.
fn all(order: &Order<'_>, tasks: &[Task<'_>], site: &Site, interrupt: &Interrupt) -> Result<(), LabError> {
    for (number, Task { plan, spec, .. }) in (1..).zip(tasks) {
        eprintln!("run {number} of {}: {} {}", tasks.len(), plan.title, spec.name);
        let ended = one_run(plan, spec, site.folder(), interrupt);
        let ended = ended.and_then(|mut run| judge(order, &mut run, &plan.out.join(&spec.name)));
        if let Some(reason) = ended.map_err(|cause| failed(plan, spec, cause))? {
            eprintln!("void: {} {}: {reason}", plan.title, spec.name);
        }
    }
    Ok(())
}

fn failed(plan: &Plan<'_>, spec: &RunSpec, cause: LabError) -> LabError {
    let kept = kept_runs(plan).len();
    LabError::Run { name: spec.name.clone(), cause: Box::new(cause), kept, out: plan.out.clone() }
}

fn is_finished(plan: &Plan<'_>, spec: &RunSpec) -> bool {
    finished(&plan.out.join(&spec.name)).is_some()
}

/// Returns the reason why the run may not be used, and records it in the manifest, so that later readers need not judge
/// again.
fn judge(order: &Order<'_>, run: &mut Run, folder: &Path) -> Result<Option<String>, LabError> {
    let void = (order.judge)(run);
    if run.manifest.void != void {
        run.manifest.void.clone_from(&void);
        Run::write_manifest(folder, &run.manifest).map_err(|e| LabError::path(folder, io::Error::other(e)))?;
    }
    Ok(void)
}

/// Returns the runs that this machine can carry out. Others are recorded as skipped, or are an error if that is not
/// allowed.
fn feasible<'a>(
    tasks: Vec<Task<'a>>,
    conducted: &mut [Conducted],
    interrupt: &Interrupt,
) -> Result<Vec<Task<'a>>, LabError> {
    let (mut kept, mut rehearsed) = (vec![], Rehearsed::default());
    for task in tasks {
        interrupt.check()?;
        match rehearse(task.plan, task.spec, &mut rehearsed) {
            Ok(()) => kept.push(task),
            Err(cause) if task.plan.skip_missing => {
                conducted[task.point].skipped.push(Skipped { name: task.spec.name.clone(), reason: cause });
            }
            Err(cause) => return Err(LabError::Lacks { run: task.spec.name.clone(), cause }),
        }
    }
    for (reason, runs) in &rehearsed.refused {
        eprintln!("skipping {}: {reason}", runs.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    }
    Ok(kept)
}

/// The conditions that determine how a run's link is built.
type LinkKey = (Qdisc, Vec<String>, Attached, bool, Option<Limits>);
type Attached = (Option<Attach>, Vec<String>, bool);

/// Links that were built once as a test, and the results.
#[derive(Default)]
struct Rehearsed {
    links: Vec<(LinkKey, Result<(), String>)>,
    /// The names of the refused runs, by the reason.
    refused: BTreeMap<String, BTreeSet<String>>,
}

/// Checks the run's server and congestion control, and builds its link once if it is more than the shaper and FIFO of
/// every kernel: no list of a kernel's features is as reliable as the attempt.
fn rehearse(plan: &Plan<'_>, spec: &RunSpec, rehearsed: &mut Rehearsed) -> Result<(), String> {
    let weir = plan.programs.weir.as_deref();
    let qdisc = plan.experiment.qdisc_of(spec);
    let limits = &plan.experiment.limits;
    let needs_netem = plan.experiment.wire || plan.experiment.clients().any(|group| !group.path.is_plain());
    let is_everywhere = qdisc == Qdisc::Fifo && !needs_netem && !limits.concern_kernel();
    let kernel_limits = limits.concern_kernel().then(|| limits.clone());
    let attached = (spec.attach, spec.attach_flags.clone(), spec.container);
    let key = (qdisc, spec.qdisc_flags.clone(), attached, needs_netem, kernel_limits);
    let known = rehearsed.links.iter().find(|(known, _)| *known == key).map(|(_, outcome)| outcome.clone());
    let attempt = || -> Result<(), LabError> {
        let link = Link::build(plan.experiment, spec, weir)?;
        link.attach(plan.experiment, spec, PORT, weir).map(drop)
    };
    let has_congestion_control = || match plan.experiment.network {
        Network::Loopback => Ok(()),
        Network::Namespaces | Network::Router => Ok(congestion::check(&plan.experiment.congestion_control)?),
    };
    let needs = check_installed(spec, weir).and_then(|()| has_congestion_control());
    let outcome = match (needs, known) {
        (Err(missing), _) => Err(missing.to_string()),
        (Ok(()), _) if is_everywhere => Ok(()),
        (Ok(()), Some(known)) => known,
        (Ok(()), None) => {
            let outcome = attempt().map_err(|e| e.to_string());
            rehearsed.links.push((key, outcome.clone()));
            outcome
        }
    };
    outcome.inspect_err(|reason| {
        rehearsed.refused.entry(reason.clone()).or_default().insert(spec.name.clone());
    })
}

/// Checks the needs of every run before any time is spent, and removes the remains of a killed experiment.
fn check_needs(plans: &[Plan<'_>]) -> Result<(), LabError> {
    let mut tools = vec!["setpriv"];
    let is_shaped = plans.iter().any(|plan| plan.experiment.network != Network::Loopback);
    if is_shaped {
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::NotRoot);
        }
        tools.extend(["ip", "tc", "ethtool"]);
    }
    for tool in tools {
        find_program(tool)?;
    }
    if is_shaped {
        for name in remove_leftovers()? {
            eprintln!("removed namespace {name}, left by an experiment that was killed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_run_is_void_is_written_into_its_manifest() {
        let manifest = record::Manifest { server_cpu: Some(0.75), ..record::Manifest::new("a") };
        let mut run = Run { manifest, records: vec![], pages: vec![] };
        let folder = std::env::temp_dir().join(format!("weir-judged-{}", std::process::id()));
        run.write(&folder).unwrap();
        let busy = |run: &Run| run.manifest.server_cpu.map(|cpu| format!("the server used {cpu} of a core"));
        let order = |judge| Order { folders: &[], plans: &[], site: &folder, judge, machines: None };
        assert_eq!(judge(&order(&|_| None), &mut run, &folder).unwrap(), None);
        let said = judge(&order(&busy), &mut run, &folder).unwrap();
        let kept = Run::read(&folder).unwrap().manifest.void;
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((said.as_deref(), &kept), (Some("the server used 0.75 of a core"), &said));
    }
}
