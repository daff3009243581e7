use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use record::Digest;

use crate::grid::Cell;
use crate::model::{Fields, Model};
use crate::store::{RunSpec, Store};
use crate::{Plan, SweepError};

/// How soon a wish to stop is noticed.
const STOP_POLL: Duration = Duration::from_millis(50);

/// How far a sweep has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are kept, those of earlier sweeps included.
    pub done: usize,
    /// How many of them were there already.
    pub found: usize,
    pub all: usize,
}

/// How many runs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    PerCore,
    Number(usize),
}

/// Does the runs that the store does not have yet. Each is kept as soon as it is finished.
///
/// When `stop` says so, runs in flight are abandoned to their threads, which the end of the process ends; whatever they
/// still finish until then is kept. So is everything finished before a run fails. Rows of the grid are done side by side,
/// all seeds of a cell after each other, so a sweep cut short has whole cells to show.
pub fn conduct(
    plan: &Plan,
    model: &Arc<dyn Model>,
    store: &Arc<Store>,
    workers: Workers,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Progress, SweepError> {
    let runs = run_specs(plan, model.as_ref())?;
    let missing: Vec<(String, RunSpec)> = runs.into_iter().filter(|(_, run)| !store.has(run)).collect();
    let (all, found) = (plan.runs(), plan.runs() - missing.len());
    let mut state = Progress { done: found, found, all };
    progress(state);
    let pool = pool(workers)?;
    let (send, finished) = mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let count = missing.len();
    for (what, run) in missing {
        let (model, store, over, send) = (model.clone(), store.clone(), over.clone(), send.clone());
        pool.spawn_fifo(move || {
            if !over.load(Ordering::Relaxed) {
                // Nobody listens any more only when the sweep is over.
                let _ = send.send(one(model.as_ref(), &store, &what, &run));
            }
        });
    }
    let outcome = (0..count).try_for_each(|_| {
        next(&finished, stop, state)??;
        state.done += 1;
        progress(state);
        Ok(())
    });
    over.store(true, Ordering::Relaxed);
    outcome.map(|()| state)
}

/// All runs of the plan in order, each with what it is called.
pub(crate) fn run_specs(plan: &Plan, model: &dyn Model) -> Result<Vec<(String, RunSpec)>, SweepError> {
    let mut digests = BTreeMap::new();
    let mut runs = Vec::with_capacity(plan.runs());
    for cell in &plan.cells {
        runs.extend(cell_runs(plan, cell, model, &mut digests)?);
    }
    Ok(runs)
}

fn cell_runs(
    plan: &Plan,
    cell: &Cell,
    model: &dyn Model,
    digests: &mut BTreeMap<PathBuf, String>,
) -> Result<Vec<(String, RunSpec)>, SweepError> {
    let files = files(&cell.fields, model, digests)?;
    let label = plan.label(cell);
    let run = |&seed: &u64| {
        (format!("{label}, seed {seed}"), RunSpec::new(&plan.model, model.version(), &cell.fields, seed, &files))
    };
    Ok(plan.seeds.iter().map(run).collect())
}

/// What is in the files a run reads, each read once per sweep.
fn files(
    fields: &Fields,
    model: &dyn Model,
    digests: &mut BTreeMap<PathBuf, String>,
) -> Result<BTreeMap<PathBuf, String>, SweepError> {
    let mut files = BTreeMap::new();
    for path in model.files(fields) {
        if !digests.contains_key(&path) {
            let digest = Digest::of_file(&path).map_err(|e| SweepError::path(&path, e))?;
            digests.insert(path.clone(), digest.text());
        }
        // By its name alone: the same trace in another folder is the same.
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        files.insert(name, digests[&path].clone());
    }
    Ok(files)
}

fn pool(workers: Workers) -> Result<rayon::ThreadPool, SweepError> {
    let threads = match workers {
        Workers::PerCore => 0,
        Workers::Number(number) => number,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| SweepError::Run { what: "threads".into(), reason: e.to_string() })
}

/// One run; a bug of ours in it is an error of the run, since a thread of the pool could not say which run it was.
fn one(model: &dyn Model, store: &Store, what: &str, run: &RunSpec) -> Result<(), SweepError> {
    let failed = |reason: String| SweepError::Run { what: what.into(), reason };
    let measured = catch_unwind(AssertUnwindSafe(|| model.run(&run.fields, run.seed)));
    let measured = measured.map_err(|_| failed("it panicked: this is a bug".into()))?.map_err(failed)?;
    store.keep(run, &measured)
}

fn next<T>(finished: &mpsc::Receiver<T>, stop: &dyn Fn() -> bool, state: Progress) -> Result<T, SweepError> {
    loop {
        if stop() {
            return Err(SweepError::Interrupted { done: state.done, all: state.all });
        }
        match finished.recv_timeout(STOP_POLL) {
            Ok(run) => return Ok(run),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("a sender lives as long as this loop"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Folder, Formula, plan};
    use crate::{Measured, Results};

    struct Bench {
        formula: Arc<Formula>,
        store: Arc<Store>,
        _folder: Folder,
    }

    impl Bench {
        fn new(name: &str) -> Bench {
            let folder = Folder::new(name);
            let store = Arc::new(Store::open(folder.path()).unwrap());
            Bench { formula: Arc::default(), store, _folder: folder }
        }

        fn conduct(&self, plan: &Plan, stop_at: usize) -> Result<Progress, SweepError> {
            let done = AtomicBool::new(false);
            let model: Arc<dyn Model> = self.formula.clone();
            let stop = || done.load(Ordering::Relaxed);
            conduct(plan, &model, &self.store, Workers::Number(2), &stop, &mut |state| {
                done.store(state.done >= stop_at, Ordering::Relaxed);
            })
        }

        fn ran(&self) -> usize {
            self.formula.ran.load(Ordering::Relaxed)
        }

        fn results(&self) -> Results {
            Results::read(&plan(), self.formula.as_ref(), &self.store).unwrap()
        }
    }

    #[test]
    fn what_is_finished_is_not_done_again() {
        let bench = Bench::new("again");
        assert_eq!(bench.conduct(&plan(), usize::MAX).unwrap(), Progress { done: 24, found: 0, all: 24 });
        assert_eq!(bench.conduct(&plan(), usize::MAX).unwrap(), Progress { done: 24, found: 24, all: 24 });
        assert_eq!(bench.ran(), 24);
        let more = Plan { seeds: (1..=5).collect(), ..plan() };
        assert_eq!(bench.conduct(&more, usize::MAX).unwrap(), Progress { done: 30, found: 24, all: 30 });
    }

    #[test]
    fn an_interrupted_sweep_goes_on_to_the_same_results() {
        let (cut, whole) = (Bench::new("cut"), Bench::new("whole"));
        let stopped = cut.conduct(&plan(), 7).unwrap_err();
        assert!(matches!(stopped, SweepError::Interrupted { done: 7, all: 24 }), "{stopped}");
        cut.conduct(&plan(), usize::MAX).unwrap();
        whole.conduct(&plan(), usize::MAX).unwrap();
        assert_eq!(cut.results(), whole.results());
    }

    #[test]
    fn a_run_that_fails_is_named() {
        struct Broken;
        impl Model for Broken {
            fn version(&self) -> String {
                "1".into()
            }
            fn check(&self, _: &Fields) -> Result<(), String> {
                Ok(())
            }
            fn trial(&self, _: &Fields) -> Result<Measured, String> {
                Ok(Measured::default())
            }
            fn files(&self, _: &Fields) -> Vec<PathBuf> {
                Vec::new()
            }
            fn run(&self, fields: &Fields, seed: u64) -> Result<Measured, String> {
                assert!(fields["policy"] == "ps", "srpt is broken");
                if seed == 3 { Err("no luck".into()) } else { Ok(Measured::default()) }
            }
        }
        let (folder, model) = (Folder::new("fails"), Arc::new(Broken) as Arc<dyn Model>);
        let store = Arc::new(Store::open(folder.path()).unwrap());
        let said = |plan: &Plan| {
            conduct(plan, &model, &store, Workers::Number(1), &|| false, &mut |_| ()).unwrap_err().to_string()
        };
        let mut broken = plan();
        assert_eq!(said(&broken), "run policy ps, rho 0.5, seed 3: no luck");
        broken.cells.drain(..3);
        assert_eq!(said(&broken), "run policy srpt, rho 0.5, seed 1: it panicked: this is a bug");
    }
}
