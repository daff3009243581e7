use super::*;

fn queue(sizes: &str, rho: f64) -> Mg1 {
    // A byte takes a microsecond.
    Mg1::new(sizes.parse().unwrap(), rho, "8mbit".parse().unwrap()).unwrap()
}

fn close(found: f64, right: f64, tolerance: f64, what: &str) {
    assert!((found / right - 1.0).abs() < tolerance, "{what}: {found}, not {right}");
}

const SMOOTH: &[&str] = &[
    "exponential:mean=5000",
    "bounded-pareto:alpha=1.1,min=100,max=1e7",
    "bounded-pareto:alpha=1.5,min=100,max=1e7",
    "lognormal:mu=7,sigma=1.5",
    "hyperexponential:p=0.9,mean1=1000,mean2=40000",
    "surge",
];

#[test]
fn the_panels_hold_all_jobs_and_all_bytes() {
    for sizes in SMOOTH.iter().chain(&["lognormal:mu=7,sigma=4", "lognormal:mu=7,sigma=0.01"]) {
        let sizes: Distribution = sizes.parse().unwrap();
        let edges = quadrature::edges(&sizes, &[]);
        close(quadrature::expectation(&sizes, &edges, |_| 1.0), 1.0, 1e-10, "jobs");
        close(quadrature::expectation(&sizes, &edges, |x| x), sizes.mean(), 1e-10, "bytes");
    }
}

fn responses(queue: &Mg1, policies: &[&str]) -> Vec<f64> {
    policies.iter().map(|policy| queue.solve(&policy.parse().unwrap()).response_ms() * 1e3).collect()
}

/// Mean response times under SRPT, PSJF and LAS in bytes, printed by benches/theory-oracle/oracle.py.
const ORACLE: &[(&str, f64, [f64; 3])] = &[
    // mpmath. For mean 1, line-solver 3.0.8 has 1.425372, 1.531383, 2; 2.352771, 2.658897, 5; 5.540986, 6.264755, 20.
    ("exponential:mean=5000", 0.5, [1.425372664 * 5e3, 1.531383283 * 5e3, 2.0 * 5e3]),
    ("exponential:mean=5000", 0.8, [2.35277327 * 5e3, 2.658896822 * 5e3, 5.0 * 5e3]),
    ("exponential:mean=5000", 0.95, [5.541011021 * 5e3, 6.26475714 * 5e3, 20.0 * 5e3]),
    ("hyperexponential:p=0.9,mean1=1000,mean2=40000", 0.5, [6919.041807, 7331.868438, 9044.153886]),
    ("hyperexponential:p=0.9,mean1=1000,mean2=40000", 0.8, [11080.57335, 12367.09582, 21203.17191]),
    ("hyperexponential:p=0.9,mean1=1000,mean2=40000", 0.95, [24754.88413, 27992.76552, 81593.36749]),
    ("bounded-pareto:alpha=1.1,min=100,max=1e7", 0.5, [1045.954109, 1073.506276, 1166.346114]),
    ("bounded-pareto:alpha=1.1,min=100,max=1e7", 0.8, [1538.320738, 1624.447516, 1961.155449]),
    ("bounded-pareto:alpha=1.1,min=100,max=1e7", 0.95, [2567.605423, 2818.422758, 4221.978713]),
    ("bounded-pareto:alpha=1.5,min=100,max=1e7", 0.5, [419.134546, 438.5453246, 513.1757736]),
    ("bounded-pareto:alpha=1.5,min=100,max=1e7", 0.8, [629.1546052, 680.2076865, 928.7190392]),
    ("bounded-pareto:alpha=1.5,min=100,max=1e7", 0.95, [1046.516483, 1156.699212, 1828.035455]),
    ("lognormal:mu=7,sigma=1.5", 0.5, [4741.159106, 4975.390373, 5875.522173]),
    ("lognormal:mu=7,sigma=1.5", 0.8, [7265.290449, 7956.151349, 11643.97897]),
    ("lognormal:mu=7,sigma=1.5", 0.95, [13426.01519, 15106.39234, 29992.62037]),
];

#[test]
fn agrees_with_the_oracle_to_nine_digits() {
    for (sizes, rho, right) in ORACLE {
        for (found, right) in responses(&queue(sizes, *rho), &["srpt", "psjf", "las"]).into_iter().zip(right) {
            close(found, *right, 1e-9, &format!("{sizes} at {rho}"));
        }
    }
}

#[test]
fn fcfs_and_ps_are_the_textbooks() {
    for sizes in SMOOTH {
        for rho in [0.1, 0.8, 0.99] {
            let queue = queue(sizes, rho);
            let mean = queue.mean_size_bytes();
            let wait = rho / mean * queue.sizes.moment(2) / (2.0 * (1.0 - rho));
            let found = responses(&queue, &["fcfs", "ps"]);
            close(found[0], mean + wait, 1e-9, sizes);
            close(found[1], mean / (1.0 - rho), 1e-9, sizes);
            close(queue.solve(&Policy::Ps).slowdown_mean(), 1.0 / (1.0 - rho), 2e-6, sizes);
            close(queue.lambda_per_s() * mean / 1e6, rho, 1e-12, sizes);
        }
    }
}

#[test]
fn no_order_beats_srpt() {
    for sizes in SMOOTH {
        for rho in [0.3, 0.8, 0.99] {
            let found = responses(
                &queue(sizes, rho),
                &["srpt", "psjf", "las", "ps", "fcfs", "srpt-bands:1000,4000,16000,64000"],
            );
            assert!(found[1..].iter().all(|other| *other >= found[0]), "{sizes} at {rho}: {found:?}");
        }
    }
}

#[test]
fn bands_lie_between_fcfs_and_srpt() {
    for sizes in SMOOTH {
        let queue = queue(sizes, 0.8);
        let [fcfs, srpt] = responses(&queue, &["fcfs", "srpt"])[..] else { panic!("two policies") };
        let quantile = |cut: i32| queue.sizes.quantile(1.0 - 0.97f64.powi(cut));
        let bands = |every: usize| {
            let cuts = (1..800).step_by(every).skip(1).map(quantile).collect();
            queue.solve(&Policy::SrptBands(cuts)).response_ms() * 1e3
        };
        close(bands(800), fcfs, 1e-12, "one band is FCFS");
        let coarse_to_fine = [fcfs, bands(256), bands(64), bands(16), bands(1), srpt];
        assert!(coarse_to_fine.is_sorted_by(|a, b| a > b), "{sizes}: {coarse_to_fine:?}");
        close(coarse_to_fine[4], srpt, 3e-3, "800 bands are nearly SRPT");
    }
}

#[test]
fn atoms_come_near_the_density_they_are_taken_from() {
    for sizes in ["exponential:mean=5000", "lognormal:mu=7,sigma=1.5"] {
        let smooth: Distribution = sizes.parse().unwrap();
        let drawn: Vec<u64> =
            (0..20_000).map(|at| smooth.quantile((f64::from(at) + 0.5) / 2e4).round().max(1.0) as u64).collect();
        let atoms = Mg1::new(Distribution::empirical(&drawn).unwrap(), 0.8, "8mbit".parse().unwrap()).unwrap();
        for policy in ["srpt", "psjf", "las", "ps", "srpt-bands:1000,4000,16000,64000"] {
            let policy = policy.parse().unwrap();
            let (smooth, atoms) = (queue(sizes, 0.8), atoms.clone());
            let (smooth, atoms) = (smooth.solve(&policy), atoms.solve(&policy));
            close(atoms.response_ms(), smooth.response_ms(), 2e-2, sizes);
            close(atoms.slowdown_mean(), smooth.slowdown_mean(), 2e-2, sizes);
            close(atoms.response_ms_at(3000.0), smooth.response_ms_at(3000.0), 1e-2, sizes);
        }
    }
}

#[test]
fn equal_sizes_make_srpt_and_psjf_first_come_first_served() {
    let queue = queue("deterministic:size=1000", 0.8);
    let found = responses(&queue, &["fcfs", "srpt", "psjf", "srpt-bands:1000,4000,16000,64000", "las"]);
    // Pollaczek–Khinchine: 1000 (1 + 0.8 / 0.4). LAS: all jobs of a busy period leave at its end, 1000 (0.8 / 0.08 + 1
    // / 0.2).
    for (found, right) in found.into_iter().zip([3000.0, 3000.0, 3000.0, 3000.0, 15_000.0]) {
        close(found, right, 1e-12, "equal sizes");
    }
    close(queue.solve(&Policy::Srpt).slowdown_mean(), 3.0, 1e-12, "slowdown");
}

#[test]
fn slowdown_is_finite_where_small_jobs_wait() {
    // 1 + W E[1/X] with X rounded to whole bytes, summed size by size.
    let mean = 5000.0;
    let mass = |n: f64| (-(n - 0.5).max(0.0) / mean).exp() - (-(n + 0.5) / mean).exp();
    let first = 1.0 - (-1.5f64 / mean).exp();
    let inverse = first + (2..=400_000).map(|n| mass(f64::from(n)) / f64::from(n)).sum::<f64>();
    let wait = 0.8 * mean / (1.0 - 0.8);
    let found = queue("exponential:mean=5000", 0.8).solve(&Policy::Fcfs).slowdown_mean();
    close(found, 1.0 + wait * inverse, 1e-5, "slowdown under FCFS");
}

#[test]
fn a_nearly_full_link_is_still_integrated() {
    // With panels half as wide, SRPT's mean at rho 0.9999 is the same in all digits shown.
    let queue = queue("bounded-pareto:alpha=1.1,min=100,max=1e7", 0.9999);
    let fine: Vec<f64> = (1..2000).map(|at| 100.0 * (f64::from(at) * 1e5f64.ln() / 2000.0).exp()).collect();
    let coarse = queue.solve(&Policy::Srpt).response_ms();
    let edges = quadrature::edges(&queue.sizes, &fine);
    let formula = formula::Formula::new(&queue, &Policy::Srpt, &[], &edges);
    let fine = quadrature::expectation(&queue.sizes, &edges, |x| formula.response(&queue, x)) / queue.bytes_per_ms();
    close(coarse, fine, 1e-9, "panels");
}

#[test]
fn wrong_loads_and_policies_are_told() {
    let said = |rho| Mg1::new("surge".parse().unwrap(), rho, "8mbit".parse().unwrap()).unwrap_err().to_string();
    assert_eq!(said(1.0), "rho is 1: there is no steady state, the queue grows for ever; it must be below 1");
    assert_eq!(said(f64::NAN), "rho is NaN: it must be a number above 0 and below 1");
    assert_eq!(said(-0.5), "rho is -0.5: it must be a number above 0 and below 1");
    assert!(said(f64::INFINITY).contains("no steady state") && said(0.0).contains("above 0"));
    for (policy, told) in [
        ("sprt", "unknown policy `sprt`: choose one of fcfs, ps (or fair), srpt"),
        ("fcf:2", "no closed form is known for policy `fcf:2`"),
        ("srpt-bands:0", "srpt-bands:0: write where the bands are cut"),
        ("srpt-bands:5", "srpt-bands:5: write where the bands are cut"),
        ("srpt-bands:5,4", "srpt-bands:5,4: cut points are above 0 and increase"),
        ("srpt-bands:x", "srpt-bands:x: write where the bands are cut"),
        ("srpt-bands:17", "srpt-bands:17: 1 to 16 bands; a single cut has its unit too"),
        ("srpt:5", "unknown policy `srpt:5`"),
    ] {
        let error = policy.parse::<Policy>().unwrap_err().to_string();
        assert!(error.starts_with(told), "{policy}: {error}");
    }
    let parsed = |spec| Policy::parse(spec, |count| vec![1000 * count as u64]);
    assert_eq!(
        (parsed("srpt-bands"), parsed("srpt-bands:3")),
        (Ok(Policy::SrptBands(vec![5000.0])), Ok(Policy::SrptBands(vec![3000.0])))
    );
    assert_eq!((parsed("srpt-bands:3B"), parsed("srpt")), (Ok(Policy::SrptBands(vec![3.0])), Ok(Policy::Srpt)));
    assert_eq!("srpt-bands:17B".parse(), Ok(Policy::SrptBands(vec![17.0])));
    assert_eq!("srpt-bands:1KiB,2000".parse(), Ok(Policy::SrptBands(vec![1024.0, 2000.0])));
    assert_eq!("fair".parse(), Ok(Policy::Ps));
}

type Rank<'a> = &'a dyn Fn(Served) -> f64;

const SIZE: Knows = Knows { size: true, errors: false };
const BLIND: Knows = Knows { size: false, errors: false };

/// The policies with their own formulas, expressed as ranks.
#[test]
fn ranks_have_the_response_times_of_their_policies() {
    let cuts = [1000.0, 4000.0, 16_000.0, 64_000.0];
    let band = |left: f64| cuts.iter().filter(|cut| left > **cut).count() as f64;
    let ranks: [(&str, Knows, f64, Rank); 6] = [
        ("fcfs", BLIND, 1e-6, &|_| 0.0),
        ("las", BLIND, 1e-3, &|job| job.sent),
        ("las", SIZE, 1e-3, &|job| job.sent),
        ("psjf", SIZE, 1e-3, &|job| job.size),
        ("srpt", SIZE, 2e-3, &|job| job.size - job.sent),
        ("srpt-bands:1000,4000,16000,64000", SIZE, 6e-3, &|job| band(job.size - job.sent)),
    ];
    for (sizes, rho) in SMOOTH.iter().map(|sizes| (sizes, 0.9)).chain([(&"deterministic:size=1000", 0.5)]) {
        let queue = queue(sizes, rho);
        for (policy, knows, tolerance, rank) in ranks {
            let (exact, found) = (queue.solve(&policy.parse().unwrap()), queue.solve_rank(knows, &cuts, rank));
            close(found.response_ms(), exact.response_ms(), tolerance, &format!("{policy}, {sizes}"));
            let size = if rho == 0.5 { 1000.0 } else { 3000.0 };
            close(found.response_ms_at(size), exact.response_ms_at(size), 2e-3, &format!("{policy}, {sizes}"));
        }
    }
}

/// A trace's sizes are exact, and ties are served in order of arrival.
#[test]
fn ranks_of_few_sizes_are_exact() {
    let sizes = Distribution::empirical(&[100, 100, 100, 2000, 2000, 50_000]).unwrap();
    let queue = Mg1::new(sizes, 0.8, "8mbit".parse().unwrap()).unwrap();
    let ranks: [(&str, Rank); 3] =
        [("srpt", &|job| job.size - job.sent), ("psjf", &|job| job.size), ("las", &|job| job.sent)];
    for (policy, rank) in ranks {
        let (exact, found) = (queue.solve(&policy.parse().unwrap()), queue.solve_rank(SIZE, &[], rank));
        close(found.response_ms(), exact.response_ms(), 1e-9, policy);
    }
}

/// Jobs are small or huge, so a job that has sent more than the small size is huge. Up to that size jobs are served
/// first come, first served, and beyond it after all others.
#[test]
fn a_rank_that_rises_once_is_two_bands_of_service() {
    let (small, huge, rho) = (1000.0, 100_000.0, 0.8);
    let queue =
        Mg1::new(Distribution::empirical(&[1000, 1000, 1000, 1000, 100_000]).unwrap(), rho, "8mbit".parse().unwrap());
    let queue = queue.unwrap();
    let found = queue.solve_rank(BLIND, &[], &|job| if job.sent < small { 0.0 } else { 1.0 });
    // By hand, in bytes: the first parts of all jobs form an M/D/1 queue of 1000; the rest waits for all work, and for
    // the first parts.
    let lambda = rho / (0.8 * small + 0.2 * huge);
    let first = lambda * small;
    let at_small = small + lambda * small * small / (2.0 * (1.0 - first));
    let squares = 0.8 * small * small + 0.2 * huge * huge;
    let at_huge =
        lambda * squares / (2.0 * (1.0 - rho) * (1.0 - first)) + small / (1.0 - first) + (huge - small) / (1.0 - first);
    close(found.response_ms_at(small) * 1e3, at_small, 1e-9, "small");
    close(found.response_ms_at(huge) * 1e3, at_huge, 1e-9, "huge");
}

/// Priorities drawn for each job, independently of its size: a job of priority p sees the share p of the load.
#[test]
fn ranks_by_errors_alone_are_random_priorities() {
    let (queue, rho) = (queue("exponential:mean=5000", 0.8), 0.8);
    let errors = Knows { errors: true, ..BLIND };
    let found = queue.solve_rank(errors, &[], &|job| job.deviate).response_ms() * 1e3;
    let at = |p: f64| 5000.0 / (1.0 - rho * p) + rho * p * 5000.0 / (1.0 - rho * p).powi(2);
    let exact = (0..1000).map(|step| at((f64::from(step) + 0.5) / 1000.0)).sum::<f64>() / 1000.0;
    close(found, exact, 1e-2, "random priorities");
    let [with, without] = [errors, BLIND].map(|knows| queue.solve_rank(knows, &[], &|job| job.sent).response_ms());
    close(with, without, 1e-2, "errors that nobody looks at");
}
