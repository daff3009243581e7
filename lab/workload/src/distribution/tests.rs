use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

const SPECS: &[&str] = &[
    "deterministic:size=5000",
    "exponential:mean=5000",
    "bounded-pareto:alpha=1.1,min=100,max=1e7",
    "bounded-pareto:alpha=2,min=100,max=1e6",
    "lognormal:mu=7,sigma=1.5",
    "hyperexponential:p=0.9,mean1=1000,mean2=40000",
    "surge",
];

fn all() -> Vec<Distribution> {
    let parsed = SPECS.iter().map(|spec| spec.parse().unwrap());
    parsed.chain([Distribution::empirical(&[700, 20, 20, 5, 1000]).unwrap()]).collect()
}

/// The trapezium rule over quantiles, as an independent computation of a moment.
fn moment_by_quantiles(sizes: &Distribution, k: u32, to: f64) -> f64 {
    let steps = 200_000;
    (0..steps)
        .map(|step| sizes.quantile((f64::from(step) + 0.5) / f64::from(steps)))
        .filter(|&x| x <= to)
        .map(|x| x.powi(k as i32) / f64::from(steps))
        .sum()
}

#[test]
fn moments_agree_with_sums_over_quantiles() {
    for sizes in all() {
        let x = sizes.quantile(0.7);
        for k in 0..=2 {
            let (exact, summed) = (sizes.partial_moment(k, x), moment_by_quantiles(&sizes, k, x));
            assert!((exact / summed - 1.0).abs() < 1e-4, "{sizes:?}: order {k}: {exact} against {summed}");
        }
        let (exact, summed) = (sizes.mean(), moment_by_quantiles(&sizes, 1, f64::INFINITY));
        assert!((exact / summed - 1.0).abs() < 5e-3, "{sizes:?}: mean {exact} against {summed}");
    }
}

#[test]
fn a_quantile_undoes_the_cdf() {
    for sizes in all() {
        for u in [0.001, 0.1, 0.5, 0.9, 0.999] {
            let x = sizes.quantile(u);
            assert!(sizes.cdf(x) >= u - 1e-9, "{sizes:?} at {u}");
            assert!(sizes.cdf(x * (1.0 - 1e-9)) <= u + 1e-9, "{sizes:?} at {u}");
        }
    }
}

#[test]
fn samples_follow_the_cdf() {
    let draws = 100_000;
    for sizes in all() {
        let (sampler, mut rng) = (sizes.sampler(), ChaCha8Rng::seed_from_u64(7));
        let sampled: Vec<u64> = (0..draws).map(|_| sampler.sample(&mut rng)).collect();
        for u in [0.1, 0.5, 0.9, 0.99] {
            let x = sizes.quantile(u).round();
            let found = sampled.iter().filter(|&&size| size as f64 <= x).count() as f64 / f64::from(draws);
            // Rounding adds up to half a byte to the sizes below x; five standard errors.
            let (least, most) = (sizes.cdf(x - 0.5), sizes.cdf(x + 0.5));
            let error = 5.0 * (0.25 / f64::from(draws)).sqrt();
            assert!((least - error..=most + error).contains(&found), "{sizes:?} at {u}: {found}");
        }
    }
}

#[test]
fn a_sample_is_the_quantile_of_its_number() {
    // Except for a hyperexponential, whose number first chooses a branch.
    for sizes in all().iter().filter(|sizes| !matches!(sizes, Distribution::Hyperexponential { .. })) {
        let (sampler, mut rng) = (sizes.sampler(), ChaCha8Rng::seed_from_u64(11));
        let mut numbers = rng.clone();
        for _ in 0..2000 {
            let right = sizes.quantile(crate::sizes::unit(&mut numbers));
            let found = sampler.sample(&mut rng) as f64;
            assert!((found - right.max(1.0)).abs() <= 0.5 + 1e-9 * right, "{sizes:?}: {found}, not {right}");
        }
    }
}

#[test]
fn observed_sizes_are_drawn_as_often_as_observed() {
    // Clusters and gaps, so that the guide table has steps with many sizes and steps with none.
    let observed: Vec<u64> = (0..1000).map(|at: u64| if at < 900 { 7 } else { at * at }).chain([3, 3, 1]).collect();
    let sizes = Distribution::empirical(&observed).unwrap();
    let (sampler, mut rng) = (sizes.sampler(), ChaCha8Rng::seed_from_u64(12));
    let mut drawn = std::collections::BTreeMap::<u64, f64>::new();
    let draws = 400_000;
    for _ in 0..draws {
        *drawn.entry(sampler.sample(&mut rng)).or_default() += 1.0;
    }
    for atom in sizes.atoms() {
        let share = observed.iter().filter(|&&size| size as f64 == atom).count() as f64 / observed.len() as f64;
        let expected = share * f64::from(draws);
        let found = drawn.get(&(atom as u64)).copied().unwrap_or(0.0);
        assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{atom}: {found}, expected {expected}");
    }
}

#[test]
fn known_moments() {
    let of = |spec: &str| spec.parse::<Distribution>().unwrap();
    let close = |found: f64, right: f64| assert!((found / right - 1.0).abs() < 1e-9, "{found}, not {right}");
    close(of("exponential:mean=3").moment(3), 6.0 * 27.0);
    close(of("lognormal:mu=1,sigma=0.5").mean(), (1.125f64).exp());
    close(of("bounded-pareto:alpha=1,min=1,max=2").mean(), 2.0 * 2f64.ln());
    close(of("hyperexponential:p=0.25,mean1=4,mean2=8").moment(2), 2.0 * (0.25 * 16.0 + 0.75 * 64.0));
    close(Distribution::empirical(&[1, 2, 3]).unwrap().moment(2), 14.0 / 3.0);
}

#[test]
fn survival_and_density_are_of_the_same_distribution() {
    for sizes in all() {
        for u in [0.01, 0.3, 0.7, 0.95, 0.999] {
            let x = sizes.quantile(u);
            assert!((sizes.survival(x) + sizes.cdf(x) - 1.0).abs() < 1e-12, "{sizes:?} at {x}");
            let step = 1e-5 * x;
            let slope = (sizes.cdf(x + step) - sizes.cdf(x - step)) / (2.0 * step);
            if sizes.atoms().is_empty() {
                assert!((sizes.density(x) / slope - 1.0).abs() < 1e-5, "{sizes:?} at {x}");
            }
        }
        assert_eq!((sizes.survival(-1.0), sizes.density(-1.0)), (1.0, 0.0));
        assert!(sizes.jumps().is_sorted());
    }
    // Far beyond the range in which 1 - cdf differs from 0.
    let far = |spec: &str, x: f64| spec.parse::<Distribution>().unwrap().survival(x);
    assert!((far("exponential:mean=1", 100.0) / (-100f64).exp() - 1.0).abs() < 1e-12);
    assert!((far("lognormal:mu=1,sigma=1", 13f64.exp()) / 1.776_482_112_077_678e-33 - 1.0).abs() < 1e-9);
}

#[test]
fn wrong_texts_name_the_field() {
    let said = |text: &str| text.parse::<Distribution>().unwrap_err().to_string();
    assert!(said("normal:mean=1").starts_with("unknown distribution `normal`"));
    assert!(said("pareto:alpha=0.9,min=1").contains("mean size is infinite"));
    assert!(said("exponential").starts_with("exponential needs the field `mean`"));
    assert!(said("exponential:mean=5,max=2").starts_with("exponential has no field `max`"));
    assert_eq!(said("exponential:mean=5,mean=6"), "exponential has the field `mean` twice: write it once");
    assert_eq!(said("exponential:mean=NaN"), "mean is `NaN`, which is not a number");
    assert_eq!(said("exponential:mean=-5"), "mean is -5: it must be 1 byte to 1 PiB");
    assert!(said("bounded-pareto:alpha=0.9,min=1").contains("mean size is infinite"));
    assert!(said("bounded-pareto:alpha=1.1,min=1,max=inf").contains("give a max"));
    assert_eq!(said("bounded-pareto:alpha=1.1,min=10,max=10"), "max is 10: it must be above min");
    assert_eq!(said("lognormal:mu=7,sigma=0"), "sigma is 0: it must be above 0 and at most 6");
    assert_eq!(said("hyperexponential:p=1,mean1=1,mean2=2"), "p is 1: it must be between 0 and 1");
    assert!(Distribution::empirical(&[]).unwrap_err().to_string().starts_with("the trace has no sizes"));
    assert!(Distribution::empirical(&[0, 4]).unwrap_err().to_string().contains("a size of 0 bytes"));
}

proptest! {
    /// Partial moments never decrease, and end at the moment.
    #[test]
    fn partial_moments_are_monotone(x in 0.0f64..2e7, more in 0.0f64..1e6, k in 0u32..=3) {
        for sizes in all() {
            let (at, later) = (sizes.partial_moment(k, x), sizes.partial_moment(k, x + more));
            prop_assert!(at <= later * (1.0 + 1e-12) && later <= sizes.moment(k) * (1.0 + 1e-12));
        }
    }
}

/// 000 describes its SURGE workload as 76 B to 2 MB, with a mean of 13,727 B and a tail of 1.1; the shipped trace's
/// sizes are a third of that.
#[test]
fn surge_of_the_papers_is_not_the_shipped_traces() {
    let mean = |spec: &str| spec.parse::<Distribution>().unwrap().mean();
    let (shipped, papers) = (mean("surge"), mean("surge:murta-2002"));
    assert!((4_000.0..4_600.0).contains(&shipped), "{shipped}");
    assert!((papers / 13_727.0 - 1.0).abs() < 0.05, "{papers}");
    assert!("surge:murta".parse::<Distribution>().is_err());
}

/// Computed by hand for a mean of 1: 1 + e^-1.5 + e^-2.5 + ..., a geometric series.
#[test]
fn the_mean_of_whole_bytes_is_that_of_what_is_drawn() {
    let tiny: Distribution = "exponential:mean=1".parse().unwrap();
    let by_hand = 1.0 + (-1.5f64).exp() / (1.0 - (-1f64).exp());
    assert!((tiny.mean_drawn() / by_hand - 1.0).abs() < 1e-9, "{}", tiny.mean_drawn());
    let of = |spec: &str| spec.parse::<Distribution>().unwrap().mean_drawn();
    assert_eq!((of("deterministic:size=1.4"), of("deterministic:size=2.5")), (1.0, 3.0));
    assert!((of("exponential:mean=5000") / 5000.0 - 1.0).abs() < 1e-7, "{}", of("exponential:mean=5000"));
    for spec in ["exponential:mean=1", "lognormal:mu=0,sigma=1", "bounded-pareto:alpha=1.5,min=1,max=100"] {
        let sizes: Distribution = spec.parse().unwrap();
        let (sampler, mut rng) = (sizes.sampler(), ChaCha8Rng::seed_from_u64(13));
        let drawn: Vec<f64> = (0..200_000).map(|_| sampler.sample(&mut rng) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        let error = (variance / drawn.len() as f64).sqrt();
        assert!((mean - sizes.mean_drawn()).abs() < 4.0 * error, "{spec}: {mean}, not {}", sizes.mean_drawn());
    }
}
