use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use super::{Files, Sequence};
use crate::synthetic::unit;
use crate::{Arrival, Trace};

/// 000's open variant: this many requests of the sequence, at Poisson times with a mean rate of one a second.
/// [`crate::schedule`] stretches them to a load.
pub fn trace(files: &Files, requests: usize, seed: u64) -> Trace {
    let mut times = ChaCha8Rng::seed_from_u64(seed);
    // The sequence has stream 0.
    times.set_stream(1);
    let mut at = Nanos::ZERO;
    let arrivals = Sequence::new(files.clone(), seed).take(requests).map(|size_bytes| {
        let arrival = Arrival { at, size_bytes, client: None };
        at += Nanos((-(1.0 - unit(&mut times)).ln() * 1e9) as u64);
        arrival
    });
    Trace { arrivals: arrivals.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surge::ServerModel;

    #[test]
    fn arrivals_are_poisson_and_sizes_those_of_the_sequence() {
        let files = Files::matched(&ServerModel::HARCHOL_2003);
        let trace = trace(&files, 20_000, 1);
        assert!(trace.arrivals.iter().map(|arrival| arrival.size_bytes).eq(Sequence::new(files, 1).take(20_000)));
        let gaps: Vec<f64> = trace.arrivals.windows(2).map(|two| (two[1].at - two[0].at).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.04, "{mean} s");
        let longer = gaps.iter().filter(|&&gap| gap > 1.0).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1f64).exp()).abs() < 0.015, "{longer} are longer than the mean");
    }
}
