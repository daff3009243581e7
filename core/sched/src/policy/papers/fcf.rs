//! Fastest connection first: among the jobs with fewer than beta · m bytes to send, where m is the smallest remainder
//! of all jobs, the job whose connection has the highest throughput.
//!
//! Murta & Corlassoli, "Fastest connection first: a new scheduling policy for web servers", 2002, with beta = 2. It
//! does not rank jobs but picks one from the queue, and looks at all jobs below the limit. Good if responses wait for
//! their clients' connections, because the fast ones are soon done. Bad for slow clients, and for the delay at the
//! server, which is lower under SRPT. With beta 1 it is SRPT; with a large beta, only throughput decides.
//!
//! The throughput is measured if possible, or else computed as congestion window / round-trip time. If these are
//! unknown too it is zero, so that the connection comes after all others, by size, until its path is known. The
//! remainder of a job of unknown size counts as the bytes it has attained. The job with m bytes left can always be
//! chosen, and equal throughputs go by remaining bytes, then by arrival.

use std::collections::BTreeMap;

use crate::policy::unknown_rank;
use crate::scheduler::run_queue::Key;
use crate::{Job, Path, Paths, Policy};

pub struct Fcf {
    name: String,
    beta_permille: u32,
    /// The slots and throughputs of the ready jobs, ordered by remaining bytes.
    ready: BTreeMap<Key, (u32, u64)>,
    /// The key of each slot in `ready`.
    keys: Vec<Option<Key>>,
    paths: Paths,
}

impl Fcf {
    /// The paper's beta, in thousandths.
    pub const BETA_PERMILLE: u32 = 2000;

    /// Creates the policy; `name` is the spec. Panics if `beta_permille` is below 1000, because then no job would be
    /// left to choose.
    pub fn new(name: String, beta_permille: u32) -> Fcf {
        assert!(beta_permille >= 1000, "beta of {beta_permille} / 1000");
        Fcf { name, beta_permille, ready: BTreeMap::new(), keys: Vec::new(), paths: Paths::default() }
    }
}

impl Policy for Fcf {
    fn name(&self) -> &str {
        &self.name
    }

    fn first(&self) -> Option<u32> {
        let m = self.ready.first_key_value()?.0.rank;
        let bound = u128::from(m) * u128::from(self.beta_permille);
        let is_small = |remaining: u64| remaining == m || u128::from(remaining) * 1000 < bound;
        let small = self.ready.iter().take_while(|(key, _)| is_small(key.rank)).map(|(_, job)| *job);
        small.reduce(|best, job| if job.1 > best.1 { job } else { best }).map(|(slot, _)| slot)
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let rank = job.known_left().unwrap_or_else(|| unknown_rank(job));
        self.dequeue(slot, job);
        let key = Key { rank, number: job.number };
        self.keys.resize(self.keys.len().max(slot as usize + 1), None);
        self.keys[slot as usize] = Some(key);
        self.ready.insert(key, (slot, throughput(self.paths.of(slot))));
    }

    fn dequeue(&mut self, slot: u32, _job: &Job) {
        if let Some(key) = self.keys.get_mut(slot as usize).and_then(Option::take) {
            self.ready.remove(&key);
        }
    }

    fn needs_path(&self) -> bool {
        true
    }

    fn on_path(&mut self, slot: u32, path: &Path) {
        self.paths.set(slot, path);
    }
}

/// The throughput of a path, in bits per second; 0 if unknown.
fn throughput(path: &Path) -> u64 {
    let window = || {
        let rtt = path.rtt?.0.max(1);
        Some(path.cwnd_bytes?.saturating_mul(8_000_000_000) / rtt)
    };
    path.throughput_bps.or_else(window).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use proptest::prelude::*;
    use units::Nanos;

    #[test]
    fn a_window_per_round_trip_is_a_throughput() {
        let path = Path { rtt: Some(Nanos::from_millis(100)), cwnd_bytes: Some(12_500), throughput_bps: None };
        assert_eq!(throughput(&path), 1_000_000);
        assert_eq!(throughput(&Path { throughput_bps: Some(5), ..path }), 5);
        assert_eq!(throughput(&Path { rtt: None, ..path }), 0);
    }

    proptest! {
        /// The pick equals the pick of the paper's two searches of the whole queue.
        #[test]
        fn agrees_with_two_searches(
            jobs in prop::collection::vec((1u64..60, prop::option::of(0u64..6)), 1..40),
            beta_permille in 1000u32..5000,
        ) {
            let mut fcf = Fcf::new(String::new(), beta_permille);
            for (slot, &(remaining, throughput_bps)) in jobs.iter().enumerate() {
                let job = Job { number: slot as u64, ..Job::of_size(Size::Known(remaining)) };
                fcf.on_path(slot as u32, &Path { throughput_bps, ..Path::default() });
                fcf.enqueue(slot as u32, &job);
            }
            let mut left: Vec<(usize, u64, u64)> =
                jobs.iter().enumerate().map(|(slot, job)| (slot, job.0, job.1.unwrap_or(0))).collect();
            while let Some(m) = left.iter().map(|job| job.1).min() {
                let is_small = |remaining: u64| remaining == m || remaining * 1000 < m * u64::from(beta_permille);
                let small = left.iter().filter(|job| is_small(job.1));
                let (slot, ..) = *small.min_by_key(|job| (u64::MAX - job.2, job.1, job.0)).unwrap();
                prop_assert_eq!(fcf.first(), Some(slot as u32));
                fcf.dequeue(slot as u32, &Job::of_size(Size::Known(1)));
                left.retain(|job| job.0 != slot);
            }
            prop_assert_eq!(fcf.first(), None);
        }
    }
}
