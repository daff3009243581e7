//! What a setting does, by simulation: the shaping that serves, behind one link, once for each seed.

use cli::Failure;
use config::Objective;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use record::JobRecord;
use sched::policy::Order;
use sim::Hooks;
use sim::queue::{Arrivals, CLASSES, ClassOf, Config, Horizon, Wire, run};
use stats::{Interval, interval_95};
use units::{Nanos, Rate};
use workload::{Job, LoadProfile, Scaling, Trace, schedule};

use super::candidate::Candidate;
use super::class::Planned;

/// What all simulations have in common.
pub struct Bench {
    pub classes: Vec<Planned>,
    pub trace: Trace,
    /// To which the trace is stretched.
    pub link: Rate,
    pub rho: f64,
    pub order: Order,
    pub class_of: ClassOf,
}

/// The jobs of a seed.
pub struct Seeded {
    seed: u64,
    jobs: Vec<Job>,
}

/// How an objective is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// Of the responses that it is about; the mean over the seeds, with 95 %.
    pub met: Interval,
    /// The share of misses over the share it allows.
    pub burn: f64,
}

/// A setting and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub candidate: Candidate,
    /// Of the classes with objectives, in their order.
    pub kept: Vec<Kept>,
    /// Mean slowdown of the classes without objectives, or of all where each has one.
    pub others: Interval,
    /// Even the low ends of all intervals are within the objectives.
    pub meets: bool,
}

impl Judged {
    /// Of the objective that is missed most.
    pub fn burn_max(&self) -> f64 {
        self.kept.iter().map(|kept| kept.burn).fold(0.0, f64::max)
    }
}

/// One simulation, by class.
#[derive(Debug, Clone, Default)]
struct Seen {
    responses: u64,
    missed: u64,
    jobs: u64,
    slowdown_sum: f64,
}

impl Bench {
    /// The trace at its load. Each seed deals the classes anew, and the sizes too, unless a client keeps its own.
    pub fn seeded(&self, seeds: impl IntoIterator<Item = u64>) -> Result<Vec<Seeded>, Failure> {
        let load = LoadProfile::constant(self.rho).map_err(|error| Failure::Usage(format!("--rho: {error}")))?;
        let scaling = Scaling { load, link: self.link, seconds: None, per_connection: 1, repeat: None };
        let of_seed = |seed| {
            let mut trace = self.trace.clone();
            if self.class_of == ClassOf::Job {
                let mut sizes: Vec<u64> = trace.arrivals.iter().map(|arrival| arrival.size_bytes).collect();
                sizes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
                trace.arrivals.iter_mut().zip(sizes).for_each(|(arrival, size)| arrival.size_bytes = size);
            }
            let jobs = schedule(&trace, &scaling)?.jobs;
            Ok(Seeded { seed, jobs })
        };
        seeds.into_iter().map(of_seed).collect()
    }

    /// All of these, on a link of this rate, as many at a time as there are processors.
    pub fn judge_all(&self, candidates: &[Candidate], seeds: &[Seeded], link: Rate) -> Result<Vec<Judged>, Failure> {
        candidates.par_iter().map(|candidate| self.judge(candidate, seeds, link)).collect()
    }

    pub fn judge(&self, candidate: &Candidate, seeds: &[Seeded], link: Rate) -> Result<Judged, Failure> {
        let seen: Vec<Vec<Seen>> =
            seeds.iter().map(|seeded| self.simulate(candidate, seeded, link)).collect::<Result<_, _>>()?;
        let aimed = self.classes.iter().enumerate();
        let aimed = aimed.filter_map(|(at, class)| Some((at, class.objective.as_ref()?)));
        let kept: Vec<(Kept, bool)> =
            aimed.map(|(at, objective)| self.kept(at, objective, &seen)).collect::<Result<_, _>>()?;
        let all_aim = self.classes.iter().all(|class| class.objective.is_some());
        let of_others = |seen: &Vec<Seen>| {
            let others = seen.iter().zip(&self.classes).filter(|(_, class)| all_aim || class.objective.is_none());
            let (sum, jobs) =
                others.fold((0.0, 0), |(sum, jobs), (seen, _)| (sum + seen.slowdown_sum, jobs + seen.jobs));
            sum / (jobs.max(1)) as f64
        };
        let others = interval(&seen.iter().map(of_others).collect::<Vec<_>>());
        let meets = kept.iter().all(|(_, meets)| *meets);
        let kept = kept.into_iter().map(|(kept, _)| kept).collect();
        Ok(Judged { candidate: candidate.clone(), kept, others, meets })
    }

    /// And whether the objective is met.
    fn kept(&self, at: usize, objective: &Objective, seen: &[Vec<Seen>]) -> Result<(Kept, bool), Failure> {
        let met = |seen: &Vec<Seen>| match &seen[at] {
            Seen { responses: 0, jobs, .. } => {
                let name = &self.classes[at].name;
                let said = match jobs {
                    0 => "it has no request: give it a larger share, or more --jobs",
                    _ => "none of its responses is within its objective's size",
                };
                Err(Failure::Failed(format!("class {name}: {said}")))
            }
            Seen { responses, missed, .. } => Ok(1.0 - *missed as f64 / *responses as f64),
        };
        let met = interval(&seen.iter().map(met).collect::<Result<Vec<f64>, _>>()?);
        let wanted = f64::from(objective.permille) / 1000.0;
        let burn = (1.0 - met.mean) / (1.0 - wanted);
        Ok((Kept { met, burn }, met.mean - met.half_width >= wanted))
    }

    fn simulate(&self, candidate: &Candidate, seeded: &Seeded, link: Rate) -> Result<Vec<Seen>, Failure> {
        let config = Config {
            wire: Wire::Tcp,
            class_shares: self.classes.iter().map(|class| class.share).collect(),
            class_of: self.class_of,
            class_table: Some(candidate.table(&self.classes, &self.order, link)),
            seed: seeded.seed,
            ..Config::new(CLASSES, link, Arrivals::Replay(seeded.jobs.clone()), Horizon::AllOfReplay)
        };
        let mut seen = vec![Seen::default(); self.classes.len()];
        let mut record = |job: JobRecord| {
            let class = job.group as usize;
            seen[class].add(&job, self.classes[class].objective.as_ref(), link);
        };
        run(&config, Hooks { record: Some(&mut record), progress: None })?;
        Ok(seen)
    }
}

impl Seen {
    fn add(&mut self, job: &JobRecord, objective: Option<&Objective>, link: Rate) {
        let took = Nanos(job.end_ns) - Nanos(job.arrival_ns);
        let alone = link.time_for(Wire::Tcp.response_bytes(job.size_bytes));
        self.jobs += 1;
        self.slowdown_sum += took.0 as f64 / alone.0.max(1) as f64;
        if let Some(objective) = objective
            && objective.size_bytes_max.is_none_or(|most| job.size_bytes <= most)
        {
            self.responses += 1;
            self.missed += u64::from(took > Nanos::from(objective.under));
        }
    }
}

/// Of one value alone nothing is known.
fn interval(values: &[f64]) -> Interval {
    let alone = Interval { mean: values.first().copied().unwrap_or(0.0), half_width: f64::INFINITY };
    interval_95(values).unwrap_or(alone)
}
