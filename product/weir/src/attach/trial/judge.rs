//! Evaluates a trial: how long responses took with and without the order, and whether the difference is more than
//! chance.
//!
//! Responses in the same slice share a queue, so the observation is a slice, not a response. Neighbouring slices have a
//! similar load, so they are compared in pairs. The quotient of two sums over all pairs gives each response the same
//! weight. Its error is estimated by the jackknife, which leaves out one pair at a time, with Student's t.

use ::uplink::classify::Response;
use units::{Nanos, Rate};

use super::slices::PAIRS_MIN;

/// The maximum size of a response that counts as small.
pub const SMALL_BYTES: u64 = 100_000;
/// The minimum number of small responses with the order, and without it; fewer prove nothing.
const SMALL_MIN: u64 = 30;
const LARGE_MIN: u64 = 5;
/// Two full packets: the time for which a response waits in the shaper even without other responses is about as long.
const MATTERS_BYTES: u64 = 2 * 1514;
const MATTERS_MIN: Nanos = Nanos::from_millis(1);
/// One response in this many counts as one of the largest.
const LARGE_PARTS: usize = 100;

/// A slice that is over.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    pub is_ordered: bool,
    pub span: (Nanos, Nanos),
    /// The span in which responses must begin to count as small ones. Larger responses take longer than a switch
    /// affects them.
    pub counted: (Nanos, Nanos),
    /// The bytes that clients acknowledged in the counted part of the slice. The next field is the length of that part.
    pub carried_bytes: u64,
    pub carried_in: Nanos,
}

/// With the order, and without.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    over: [f64; 2],
    under: [f64; 2],
    counts: [u64; 2],
}

/// The sums of two slices: over small responses, over the largest responses, and of the bytes carried.
pub type Pair = [Sums; 3];

/// A quantity with and without the order, and the 95 % interval of their quotient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    pub with: f64,
    pub without: f64,
    pub low: f64,
    pub high: f64,
}

impl Compared {
    pub fn factor(&self) -> f64 {
        self.with / self.without
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    Helps,
    NoGain,
    Worse,
    TooFew,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Mean time of small responses, in seconds.
    pub small: Option<Compared>,
    /// Seconds per byte of the largest responses.
    pub largest: Option<Compared>,
    /// Bytes per second.
    pub carried: Option<Compared>,
    /// Small responses, with the order and without.
    pub small_counts: [u64; 2],
    pub largest_counts: [u64; 2],
    /// The minimum size of the largest responses. The next field is the number of all responses that count. Both are 0
    /// if several trials are combined.
    pub largest_bytes: u64,
    pub responses: u64,
    /// The minimum difference of small responses' times that matters.
    pub matters: Nanos,
}

impl Judgement {
    pub fn of(responses: &[Response], slices: &[Slice], rate: Rate) -> Judgement {
        let Summed { pairs, largest_bytes, responses } = Summed::of(responses, slices);
        Judgement { largest_bytes, responses, ..Judgement::of_pairs(&pairs, rate) }
    }

    pub fn of_pairs(pairs: &[Pair], rate: Rate) -> Judgement {
        let [small, largest, carried] = [0, 1, 2].map(|nth| pairs.iter().map(|pair| pair[nth]).collect::<Vec<_>>());
        Judgement {
            small: compare(&small, SMALL_MIN),
            largest: compare(&largest, LARGE_MIN),
            carried: compare(&carried, 1),
            small_counts: counts(&small),
            largest_counts: counts(&largest),
            largest_bytes: 0,
            responses: 0,
            matters: rate.time_for(MATTERS_BYTES).max(MATTERS_MIN),
        }
    }

    pub fn conclusion(&self) -> Conclusion {
        match self.small {
            None => Conclusion::TooFew,
            Some(small) if small.without * (1.0 - small.high) > self.matters.as_secs_f64() => Conclusion::Helps,
            Some(small) if small.without * (small.low - 1.0) > self.matters.as_secs_f64() => Conclusion::Worse,
            Some(_) => Conclusion::NoGain,
        }
    }

    /// Describes the conclusion in a sentence.
    pub fn said(&self, seconds: u64) -> String {
        let Some(small) = &self.small else {
            let count = self.small_counts.iter().sum::<u64>();
            return format!("{count} responses up to 100 KB in {seconds} s: too few to say; run longer");
        };
        let verdict = match self.conclusion() {
            Conclusion::Helps => "the order helps",
            Conclusion::Worse => "the order makes it worse",
            Conclusion::NoGain | Conclusion::TooFew => "no gain shown",
        };
        let [without, with, low, high] =
            [small.without, small.with, small.without * small.low, small.without * small.high].map(ms);
        let times = |compared: &Option<Compared>| match compared {
            Some(it) => format!("{:.2} × ({:.2} to {:.2})", it.factor(), it.low, it.high),
            None => "too few to say".to_string(),
        };
        format!(
            "{verdict}: responses up to 100 KB: {without} → {with} ms ({low} to {high}), largest 1 % {}, bytes carried {}",
            times(&self.largest),
            times(&self.carried)
        )
    }
}

/// The sums of a trial.
pub struct Summed {
    pub pairs: Vec<Pair>,
    largest_bytes: u64,
    responses: u64,
}

impl Summed {
    /// Leaves out a slice without a partner.
    pub fn of(responses: &[Response], slices: &[Slice]) -> Summed {
        let slices = &slices[..slices.len() / 2 * 2];
        let counted: Vec<(usize, &Response)> =
            responses.iter().filter_map(|response| Some((slice_of(slices, response)?, response))).collect();
        let largest_bytes = largest_bytes(counted.iter().map(|(_, response)| response.bytes).collect());
        let mut pairs = vec![Pair::default(); slices.len() / 2];
        for (nth, response) in &counted {
            let seconds = Nanos(response.ended.0.saturating_sub(response.begun.0)).as_secs_f64();
            let [small, largest, _] = &mut pairs[nth / 2];
            let side = usize::from(!slices[*nth].is_ordered);
            if response.bytes <= SMALL_BYTES {
                small.add(side, seconds, 1.0);
            } else if response.bytes >= largest_bytes {
                largest.add(side, seconds, response.bytes as f64);
            }
        }
        for (nth, slice) in slices.iter().enumerate() {
            let side = usize::from(!slice.is_ordered);
            pairs[nth / 2][2].add(side, slice.carried_bytes as f64, slice.carried_in.as_secs_f64());
        }
        Summed { pairs, largest_bytes, responses: counted.len() as u64 }
    }
}

impl Sums {
    /// Returns the sums as six numbers. The next function does the reverse.
    pub fn numbers(&self) -> [f64; 6] {
        let ([a, b], [c, d], [e, f]) = (self.over, self.under, self.counts);
        [a, b, c, d, e as f64, f as f64]
    }

    pub fn of_numbers([a, b, c, d, e, f]: [f64; 6]) -> Sums {
        Sums { over: [a, b], under: [c, d], counts: [e as u64, f as u64] }
    }

    fn add(&mut self, side: usize, over: f64, under: f64) {
        self.over[side] += over;
        self.under[side] += under;
        self.counts[side] += 1;
    }
}

fn counts(pairs: &[Sums]) -> [u64; 2] {
    [0, 1].map(|side| pairs.iter().map(|sums| sums.counts[side]).sum())
}

/// Formats milliseconds with two digits, which is the precision that the interval usually allows.
fn ms(seconds: f64) -> String {
    let ms = seconds * 1000.0;
    if ms < 9.95 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

/// Returns the slice in which a response is counted.
fn slice_of(slices: &[Slice], response: &Response) -> Option<usize> {
    let after = slices.partition_point(|slice| slice.span.0 <= response.begun);
    let nth = after.checked_sub(1)?;
    let Slice { span, counted, .. } = slices[nth];
    let (from, to) = if response.bytes <= SMALL_BYTES { counted } else { span };
    (from..to).contains(&response.begun).then_some(nth)
}

fn largest_bytes(mut sizes: Vec<u64>) -> u64 {
    let rank = sizes.len().div_ceil(LARGE_PARTS).max(1);
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    sizes.get(rank - 1).copied().unwrap_or(u64::MAX)
}

/// Compares the quotients with and without the order; `None` if there are too few pairs or observations.
fn compare(pairs: &[Sums], counts_min: u64) -> Option<Compared> {
    if pairs.len() < PAIRS_MIN as usize || counts(pairs).iter().any(|count| *count < counts_min) {
        return None;
    }
    let log = |left_out: Option<usize>| {
        let kept = || pairs.iter().enumerate().filter(|(nth, _)| Some(*nth) != left_out).map(|(_, sums)| sums);
        let mean = |side: usize| {
            kept().map(|sums| sums.over[side]).sum::<f64>() / kept().map(|sums| sums.under[side]).sum::<f64>()
        };
        let [with, without] = [0, 1].map(mean);
        let log = (with / without).ln();
        // Without this pair one side has nothing: the rest proves nothing.
        log.is_finite().then_some((with, without, log))
    };
    let (with, without, all) = log(None)?;
    let part: Vec<f64> = (0..pairs.len()).map(|nth| log(Some(nth)).map(|(_, _, log)| log)).collect::<Option<_>>()?;
    let count = part.len() as f64;
    let mean = part.iter().sum::<f64>() / count;
    let variance = part.iter().map(|log| (log - mean).powi(2)).sum::<f64>() * (count - 1.0) / count;
    let half = student_t(part.len() - 1) * variance.sqrt();
    Some(Compared { with, without, low: (all - half).exp(), high: (all + half).exp() })
}

/// The two-sided point of Student's t for 95 %.
fn student_t(degrees: usize) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let nth = degrees.saturating_sub(1);
    // Above ten degrees this differs by less than 0.01.
    FEW.get(nth).copied().unwrap_or(1.96 + 2.5 / (degrees as f64 - 0.4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate() -> Rate {
        "10mbit".parse().unwrap()
    }

    /// Slices of 10 s; in each, responses of these sizes and times in milliseconds, by side and pair.
    fn judged(pairs: usize, of: impl Fn(bool, usize) -> Vec<(u64, f64)>, carried: impl Fn(bool) -> u64) -> Judgement {
        let (mut slices, mut responses) = (Vec::new(), Vec::new());
        for nth in 0..pairs * 2 {
            // With the order first in every second pair.
            let is_ordered = (nth % 4 == 0) || (nth % 4 == 3);
            let from = Nanos::from_secs(100 + 10 * nth as u64);
            let to = from + Nanos::from_secs(10);
            let carried_bytes = carried(is_ordered);
            let span = (from, to);
            slices.push(Slice { is_ordered, span, counted: span, carried_bytes, carried_in: Nanos::from_secs(10) });
            for (at, (bytes, ms)) in of(is_ordered, nth / 2).into_iter().enumerate() {
                let begun = from + Nanos::from_millis(at as u64);
                responses.push(Response { begun, ended: begun + Nanos((ms * 1e6) as u64), bytes });
            }
        }
        Judgement::of(&responses, &slices, rate())
    }

    /// Twenty small responses a slice, the time of which varies by pair and response.
    fn small(mean_ms: f64, pair: usize) -> Vec<(u64, f64)> {
        (0..20).map(|nth| (3000, mean_ms * (0.5 + nth as f64 / 19.0) * [0.9, 1.0, 1.1][pair % 3])).collect()
    }

    #[test]
    fn a_gain_is_said_with_its_interval() {
        let large = |ms| vec![(2_000_000, ms); 2];
        let judged = judged(
            10,
            |is_ordered, pair| match is_ordered {
                true => [small(4.0, pair + 1), large(2000.0)].concat(),
                false => [small(44.0, pair), large(2040.0)].concat(),
            },
            |is_ordered| if is_ordered { 990 } else { 1000 },
        );
        assert_eq!(judged.conclusion(), Conclusion::Helps);
        assert_eq!(
            judged.said(60),
            "the order helps: responses up to 100 KB: 44 → 4.0 ms (3.6 to 4.4), largest 1 % 0.98 × (0.98 to 0.98), \
             bytes carried 0.99 × (0.99 to 0.99)"
        );
        assert_eq!((judged.small_counts, judged.responses), ([200, 200], 440));
    }

    #[test]
    fn a_verdict_fails_both_ways() {
        let conclusion = |with: f64, without: f64| {
            let of = |is_ordered: bool, pair| if is_ordered { small(with, pair + 1) } else { small(without, pair) };
            let judged = judged(9, of, |_| 1000);
            (judged.conclusion(), judged.said(60).split(':').next().unwrap().to_string())
        };
        assert_eq!(conclusion(10.0, 10.0), (Conclusion::NoGain, "no gain shown".into()));
        assert_eq!(conclusion(10.0, 10.2), (Conclusion::NoGain, "no gain shown".into()));
        assert_eq!(conclusion(20.0, 10.0), (Conclusion::Worse, "the order makes it worse".into()));
        assert_eq!(conclusion(5.0, 10.0), (Conclusion::Helps, "the order helps".into()));
        // Of less than two packets, in either direction.
        assert_eq!(conclusion(1.0, 3.3).0, Conclusion::NoGain);
        assert_eq!(conclusion(1.0, 5.0).0, Conclusion::Helps);
        assert_eq!(conclusion(3.3, 1.0).0, Conclusion::NoGain);
        assert_eq!(conclusion(5.0, 1.0).0, Conclusion::Worse);
    }

    /// A load that is twice as high in every other pair is no reason for doubt.
    #[test]
    fn what_a_pair_has_in_common_does_not_widen_the_interval() {
        let load = |pair: usize| if pair.is_multiple_of(2) { 1.0 } else { 2.0 };
        let of = |is_ordered: bool, pair| {
            let mean_ms = if is_ordered { 8.0 } else { 10.0 } * load(pair);
            vec![(3000, mean_ms); 20]
        };
        let compared = judged(10, of, |_| 1).small.unwrap();
        assert!((compared.factor() - 0.8).abs() < 1e-6 && compared.high - compared.low < 1e-6, "{compared:?}");
    }

    #[test]
    fn too_few_responses_are_said() {
        let of = |count: usize| move |_: bool, _: usize| vec![(3000, 4.0); count];
        let few = judged(3, of(2), |_| 1);
        assert_eq!(few.conclusion(), Conclusion::TooFew);
        assert_eq!(few.said(60), "12 responses up to 100 KB in 60 s: too few to say; run longer");
        assert_eq!(judged(3, of(9), |_| 1).conclusion(), Conclusion::TooFew);
        assert_eq!(judged(3, of(10), |_| 1).conclusion(), Conclusion::NoGain);
        // Two pairs, all responses of one side in one pair, and none at all.
        assert_eq!(judged(2, of(100), |_| 1).conclusion(), Conclusion::TooFew);
        let one_pair = |is_ordered: bool, pair| vec![(3000, 4.0); if is_ordered && pair > 0 { 0 } else { 100 }];
        assert_eq!(judged(9, one_pair, |_| 1).conclusion(), Conclusion::TooFew);
        assert_eq!(judged(9, of(0), |_| 0).conclusion(), Conclusion::TooFew);
        assert_eq!(
            Judgement::of(&[], &[], rate()).said(1),
            "0 responses up to 100 KB in 1 s: too few to say; run longer"
        );
    }

    #[test]
    fn few_large_responses_leave_the_rest_of_the_sentence() {
        let of = |_: bool, pair| [small(4.0, pair), vec![(2_000_000, 9.0); usize::from(pair == 0)]].concat();
        let said = judged(6, of, |_| 1000).said(60);
        assert!(said.ends_with("largest 1 % too few to say, bytes carried 1.00 × (1.00 to 1.00)"), "{said}");
    }

    #[test]
    fn small_responses_outside_the_counted_spans_are_left_out() {
        let seconds = |from, to| (Nanos::from_secs(from), Nanos::from_secs(to));
        let slices = [(0, 1, 3), (3, 4, 6)].map(|(start, from, to)| Slice {
            span: seconds(start, to),
            counted: seconds(from, to - 1),
            ..Slice::default()
        });
        let of = |bytes| {
            let slice = |ms| slice_of(&slices, &Response { begun: Nanos::from_millis(ms), ended: Nanos::MAX, bytes });
            [999, 1000, 1999, 2000, 3999, 4000, 5999, 6000].map(slice)
        };
        assert_eq!(of(SMALL_BYTES), [None, Some(0), Some(0), None, None, Some(1), None, None]);
        assert_eq!(of(SMALL_BYTES + 1), [Some(0), Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), None]);
    }

    #[test]
    fn the_points_of_student_s_t() {
        for (degrees, point) in [(2, 4.303), (10, 2.228), (11, 2.201), (20, 2.086), (60, 2.000)] {
            assert!((student_t(degrees) - point).abs() < 0.01, "{degrees}");
        }
    }
}
