//! Carries out the runs of an order, each in its own machine, several machines at a time.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use record::{LeftOut, Manifest, Run};

use super::bounds::Bounds;
use super::kernel::{find_kernel, find_random};
use super::machine::{self, Ended, RESULTS_INSIDE};
use crate::conduct::{due_runs, keep_left_out, kept_runs};
use crate::folder::{Claim, Folder};
use crate::{Conducted, Interrupt, LabError, Order, Plan, RunSpec, Skipped, tool};

/// The machines of runs in virtual time.
#[derive(Debug, Clone)]
pub struct Machines {
    kernel: PathBuf,
    bounds: Bounds,
    /// The maximum number at a time.
    parallel: usize,
}

impl Machines {
    /// Returns the requested number of machines, or otherwise one for each processor, but no more than fit into the
    /// free memory.
    pub fn new(parallel: Option<usize>) -> Result<Machines, LabError> {
        let (kernel, bounds) = (find_kernel()?, Bounds::from_environment()?);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let room = usize::try_from(machine::free_mib() / bounds.memory_mib).unwrap_or(usize::MAX);
        let parallel = parallel.unwrap_or(processors).min(room).max(1);
        Ok(Machines { kernel, bounds, parallel })
    }
}

/// A run to be carried out, and its result.
struct Outcome {
    point: usize,
    run: String,
    ended: Result<(), Failed>,
}

enum Failed {
    Skipped(String),
    Failed(LabError),
}

/// Carries out every unfinished run, and returns the results of each plan.
pub fn conduct(order: &Order<'_>, machines: &Machines, interrupt: &Interrupt) -> Result<Vec<Conducted>, LabError> {
    order.folders.iter().try_for_each(Folder::check)?;
    let due = due_runs(order);
    let mut conducted: Vec<Conducted> = order.plans.iter().map(|_| Conducted::default()).collect();
    if !due.is_empty() {
        let _claims = order.folders.iter().map(Folder::claim).collect::<Result<Vec<Claim>, LabError>>()?;
        eprintln!("{} runs to do in virtual time, {} at once", due.len(), machines.parallel.min(due.len()));
        let outcomes = all(order, machines, due, interrupt);
        interrupt.check()?;
        note(order, outcomes, &mut conducted)?;
        keep_left_out(order, &conducted)?;
    }
    for (plan, conducted) in order.plans.iter().zip(&mut conducted) {
        conducted.runs = kept_runs(plan);
    }
    Ok(conducted)
}

fn all(order: &Order<'_>, machines: &Machines, due: Vec<(usize, &RunSpec)>, interrupt: &Interrupt) -> Vec<Outcome> {
    let (count, due) = (due.len(), Mutex::new(VecDeque::from(due)));
    let outcomes = Mutex::new(vec![]);
    let next = || due.lock().unwrap_or_else(|poison| poison.into_inner()).pop_front();
    let work = || {
        while let Some((point, spec)) = next().filter(|_| interrupt.check().is_ok()) {
            let plan = &order.plans[point];
            let began = Instant::now();
            let done = one(plan, spec, machines, interrupt);
            let mut outcomes = outcomes.lock().unwrap_or_else(|poison| poison.into_inner());
            let (number, name) = (outcomes.len() + 1, &spec.name);
            let said = match &done {
                Ok(virtual_s) => format!("{virtual_s} virtual seconds in {:.1}", began.elapsed().as_secs_f64()),
                Err(Failed::Skipped(reason)) => format!("skipped: {reason}"),
                Err(Failed::Failed(error)) => format!("failed: {error}"),
            };
            eprintln!("{number} of {count}: {} {name}: {said}", plan.title);
            outcomes.push(Outcome { point, run: name.clone(), ended: done.map(drop) });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..machines.parallel {
            scope.spawn(work);
        }
    });
    outcomes.into_inner().unwrap_or_else(|poison| poison.into_inner())
}

/// Records the outcomes. Returns a single error if every run failed: then the host or the experiment is at fault.
fn note(order: &Order<'_>, outcomes: Vec<Outcome>, conducted: &mut [Conducted]) -> Result<(), LabError> {
    let is_any_done = outcomes.iter().any(|outcome| outcome.ended.is_ok());
    for Outcome { point, run: name, ended } in outcomes {
        let plan = &order.plans[point];
        match ended {
            Ok(()) => {}
            Err(Failed::Skipped(reason)) => conducted[point].skipped.push(Skipped { name, reason }),
            Err(Failed::Failed(cause)) if !is_any_done => {
                let kept = kept_runs(plan).len();
                return Err(LabError::Run { name, cause: Box::new(cause), kept, out: plan.out.clone() });
            }
            Err(Failed::Failed(cause)) => {
                conducted[point].failed.push(Skipped { name, reason: cause.to_string() });
            }
        }
    }
    if is_any_done || order.plans.iter().any(|plan| !kept_runs(plan).is_empty()) {
        return Ok(());
    }
    Err(LabError::NothingLeft)
}

/// Carries out one run and returns the virtual seconds for which its machine existed.
fn one(plan: &Plan<'_>, spec: &RunSpec, machines: &Machines, interrupt: &Interrupt) -> Result<u64, Failed> {
    let point = plan.environment.get("point").map_or("", String::as_str);
    let task = machine::Task {
        kernel: &machines.kernel,
        command: &again(plan, spec, point),
        seed: Some(plan.experiment.load.seed),
        bounds: machines.bounds,
    };
    let began = Instant::now();
    let ended = task.run(interrupt).map_err(Failed::Failed)?;
    let inner = Path::new(point).join(&spec.name);
    if let Some(reason) = left_out(&ended, &inner) {
        return Err(Failed::Skipped(reason));
    }
    if ended.status != 0 {
        return Err(Failed::Failed(LabError::Inside { said: last_line(&ended.err) }));
    }
    let randomness = if find_random(&machines.kernel).is_some() { "of the seed" } else { "the host's" };
    let more =
        [("randomness", randomness.into()), ("machine_real_seconds", format!("{:.1}", began.elapsed().as_secs_f64()))];
    keep(&ended.results().join(&inner), &plan.out.join(&spec.name), more).map_err(Failed::Failed)?;
    Ok(ended.virtual_seconds)
}

/// The command that carries out this one run in a machine.
fn again(plan: &Plan<'_>, spec: &RunSpec, point: &str) -> Vec<String> {
    let mut words = vec![plan.programs.weirlab.display().to_string()];
    words.extend(plan.again.iter().cloned());
    words.extend(["--only".into(), spec.name.clone(), "--out".into(), RESULTS_INSIDE.into()]);
    if !point.is_empty() {
        words.extend(["--points".into(), point.into()]);
    }
    if plan.skip_missing {
        words.push("--skip-missing".into());
    }
    words
}

/// Returns the reason why the run was left out in its machine, if it was.
fn left_out(ended: &Ended, run: &Path) -> Option<String> {
    let reasons = LeftOut::read(&ended.results()).ok()?.reasons;
    reasons.get(&run.display().to_string()).cloned()
}

/// The last line of weirlab's output, which states why it failed.
fn last_line(err: &str) -> String {
    let line = err.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    tool::one_line(line.trim_start_matches("weirlab: "))
}

/// Moves a finished run to its folder on the host. The manifest is moved last, because it marks a run as finished.
fn keep(from: &Path, to: &Path, more: [(&str, String); 2]) -> Result<(), LabError> {
    let mut manifest: Manifest = Run::read_manifest(from)?;
    fs::create_dir_all(to).map_err(|e| LabError::path(to, e))?;
    for entry in fs::read_dir(from).map_err(|e| LabError::path(from, e))?.flatten() {
        // The folders in it contain state of the server that is no longer needed.
        if entry.path().is_file() && entry.file_name() != Run::MANIFEST {
            fs::copy(entry.path(), to.join(entry.file_name())).map_err(|e| LabError::path(&entry.path(), e))?;
        }
    }
    manifest.environment.extend(more.map(|(key, value)| (key.into(), value)));
    Ok(Run::write_manifest(to, &manifest)?)
}
