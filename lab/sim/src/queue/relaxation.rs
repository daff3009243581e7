//! Whether a run outlasts the memory of its queue.
//!
//! A queue that was long stays long for about λE\[S²\] / (1 - rho)², the relaxation time of the reflected Brownian motion that
//! M/G/1 tends to (Whitt, "Planning queueing simulations", Management Science 1989, plans runs by it). A run of a few of
//! them cannot tell from its own jobs how unlike another run would be: those that saw no long busy period look short of
//! memory and are just the ones whose mean is too small. So here, where load and sizes are known, the length of the run
//! decides first whether it may have an interval, and only then what its jobs show.

use workload::Job;

use super::{Arrivals, Config};
use crate::Summary;

/// In runs of more than 260 intervals of 99 % covered the mean in 97 to 100 % (exponential sizes, FCFS, PS and SRPT, rho 0.8 and 0.95, 100 to
/// 400 runs of each); in runs of 140, where batches looked long enough, in 87 to 89 %.
const RELAXATIONS_MIN: f64 = 200.0;

/// The summary, without intervals where the run was too short for any.
pub(super) fn judged(summary: Summary, config: &Config, rho_offered: f64) -> Summary {
    if !config.clients.closed.is_empty() {
        return summary.without_intervals(
            "closed clients keep the link full: the load of the others does not say what it remembers".into(),
        );
    }
    let (rho, scatter) = match &config.arrivals {
        Arrivals::Poisson { sizes, load } => (load.mean_rho(), sizes.moment(2) / sizes.mean().powi(2)),
        Arrivals::Replay(jobs) => (rho_offered, scatter(jobs)),
        // There are never more jobs than clients: batches tell how long that is remembered.
        Arrivals::WebStone { .. } => return summary,
        Arrivals::Pages(_) => {
            return summary.without_intervals("requests of a page depend on one another: compare several seeds".into());
        }
    };
    if rho >= 1.0 {
        let reason = format!("at a load of {rho:.3} there is no steady state, and a mean depends on where one stops");
        return summary.without_intervals(reason);
    }
    let memory_jobs = rho * rho * scatter / (1.0 - rho).powi(2);
    let jobs_min = RELAXATIONS_MIN * memory_jobs;
    if summary.jobs as f64 >= jobs_min {
        return summary;
    }
    let reason = format!(
        "the queue remembers {memory_jobs:.0} jobs at this load and these sizes, so that {} are too few: {jobs_min:.1e} are \
         needed",
        summary.jobs
    );
    summary.without_intervals(reason)
}

/// E[size²] / E[size]².
fn scatter(jobs: &[Job]) -> f64 {
    let sum: f64 = jobs.iter().map(|job| job.size_bytes as f64).sum();
    let squares: f64 = jobs.iter().map(|job| (job.size_bytes as f64).powi(2)).sum();
    jobs.len() as f64 * squares / (sum * sum).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hooks;
    use crate::queue::{Horizon, run};

    fn config(policy: &str, dist: &str, rho: f64, jobs: u64, seed: u64) -> Config {
        let load = workload::LoadProfile::constant(rho).unwrap();
        let arrivals = Arrivals::Poisson { sizes: dist.parse().unwrap(), load };
        let base = Config::new(policy, "10mbit".parse().unwrap(), arrivals, Horizon::Jobs(jobs));
        Config { warm_up_jobs: jobs / 10, seed, ..base }
    }

    fn summary(config: &Config) -> Summary {
        run(config, Hooks::none()).unwrap().summary
    }

    /// Of 60 seeds how many runs have an interval, and how many of those cover the mean that theory has for FCFS of
    /// exponential sizes and for PS of any.
    fn covering(policy: &str, dist: &str, rho: f64, jobs: u64) -> (usize, usize) {
        let mean_bytes = dist.parse::<workload::Distribution>().unwrap().mean();
        let mean_ms = mean_bytes * 8.0 / 10e6 * 1e3 / (1.0 - rho);
        let found = (1..=60).filter_map(|seed| summary(&config(policy, dist, rho, jobs, seed)).response_time_ms.ci99);
        let found: Vec<[f64; 2]> = found.collect();
        (found.len(), found.iter().filter(|[low, high]| (*low..=*high).contains(&mean_ms)).count())
    }

    /// 99 % should cover; 57 of 60 is more than three standard errors below.
    #[test]
    fn an_interval_covers_the_mean_of_theory() {
        for (policy, dist, rho, jobs) in [
            ("fcfs", "exponential:mean=5000", 0.8, 20_000),
            ("ps", "exponential:mean=5000", 0.5, 20_000),
            ("ps", "bounded-pareto:alpha=1.5,min=500,max=1e5", 0.5, 20_000),
        ] {
            let (there, covering) = covering(policy, dist, rho, jobs);
            assert!(there >= 30 && covering + there / 20 >= there, "{policy}, {dist}, {rho}: {covering} of {there}");
        }
    }

    /// Where batch means of any run cover in 2 to 40 of 60.
    #[test]
    fn a_run_too_short_has_none_and_says_why() {
        for (policy, dist, rho) in [
            ("fcfs", "exponential:mean=5000", 0.95),
            ("fcfs", "exponential:mean=5000", 0.99),
            ("ps", "bounded-pareto:alpha=1.1,min=100,max=1e7", 0.8),
            ("ps", "bounded-pareto:alpha=1.1,min=100,max=1e7", 0.95),
        ] {
            assert_eq!(covering(policy, dist, rho, 20_000).0, 0, "{policy}, {dist}, {rho}");
        }
        let said = summary(&config("fcfs", "exponential:mean=5000", 0.95, 2000, 1)).no_interval.unwrap();
        assert!(said.contains("remembers 722 jobs") && said.contains("2000 are too few: 1.4e5 are needed"), "{said}");
    }

    #[test]
    fn an_overload_has_no_mean_to_be_sure_of() {
        let jobs =
            (0..1000).map(|n| Job { arrival: units::Nanos(n * 100), size_bytes: 100 + n % 7, client: None }).collect();
        let usual = config("fcfs", "exponential:mean=5000", 0.5, 1, 1);
        let over = Config { arrivals: Arrivals::Replay(jobs), warm_up_jobs: 0, horizon: Horizon::AllOfReplay, ..usual };
        let said = summary(&over).no_interval.unwrap();
        assert!(said.contains("there is no steady state"), "{said}");
    }
}
