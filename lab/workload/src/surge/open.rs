use super::{Files, Sequence};
use crate::{Arrival, Trace, poisson_times};

/// 000's open variant: this many requests of the sequence, at Poisson times with a mean rate of one a second.
/// [`crate::schedule`] stretches them to a load.
pub fn trace(files: &Files, requests: usize, seed: u64) -> Trace {
    // The sequence has stream 0.
    let times = poisson_times(1.0, seed, 1);
    let arrivals = Sequence::new(files.clone(), seed).take(requests).zip(times);
    Trace { arrivals: arrivals.map(|(size_bytes, at)| Arrival { at, size_bytes, client: None }).collect() }
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
