use super::*;

const ALL: [Order; 9] = [
    Order::Fcfs,
    Order::Las,
    Order::Srpt,
    Order::Learned(Index::Gittins),
    Order::Learned(Index::MSerpt),
    Order::Learned(Index::Psjf),
    Order::Learned(Index::Srpt),
    Order::Estimated(Estimate::Psjf),
    Order::Estimated(Estimate::Srpt),
];

fn mix(sigma_within: f64) -> Mix {
    Mix { routes: 20, popularity: Popularity::Zipf, median_bytes: 8000.0, sigma_between: 1.5, sigma_within }
}

fn jobs(mix: Mix, count: usize, rho: f64, seed: u64) -> Vec<Job> {
    let mut jobs = mix.jobs(count, seed);
    at_load(&mut jobs, rho, seed);
    jobs
}

#[test]
fn the_link_does_the_same_work_in_every_order() {
    let jobs = jobs(mix(1.0), 3000, 0.9, 1);
    let ends = |order| {
        let outcome = run(&jobs, order, 0);
        jobs.iter().zip(&outcome.response_times).map(|(job, time)| (job.at + *time).0).max().unwrap()
    };
    // Busy periods begin and end at the same instants whatever the order.
    let expected = ends(Order::Fcfs);
    assert!(ALL.iter().all(|order| ends(*order) == expected));
    let alone = run(&jobs[..1], Order::Learned(Index::Gittins), 0);
    assert_eq!(alone.response_times, [Nanos(jobs[0].bytes)]);
}

#[test]
fn with_exact_estimates_srpt_is_srpt() {
    let jobs = jobs(mix(1.0), 3000, 0.9, 2);
    let times = |order, buffer| run(&jobs, order, buffer).response_times;
    assert_eq!(times(Order::Estimated(Estimate::Srpt), 0), times(Order::Srpt, 0));
    // And so it is where all sizes are within the buffer.
    assert_eq!(times(Order::Learned(Index::Gittins), u64::MAX), times(Order::Srpt, 0));
}

/// The order that knows most is best; learning is better than nothing, and sizes alike in a route are as good as known.
#[test]
fn what_is_known_is_worth_it() {
    let mean = |jobs: &[Job], order| run(jobs, order, 0).mean_ns(1000..jobs.len());
    let apart = jobs(mix(1.0), 20_000, 0.9, 3);
    let [fcfs, las, srpt, gittins] =
        [Order::Fcfs, Order::Las, Order::Srpt, Order::Learned(Index::Gittins)].map(|order| mean(&apart, order));
    assert!(srpt < gittins && gittins < las && las < fcfs, "{srpt} {gittins} {las} {fcfs}");
    let alike = jobs(mix(0.05), 20_000, 0.9, 3);
    let ratio = mean(&alike, Order::Learned(Index::Gittins)) / mean(&alike, Order::Srpt);
    assert!((1.0..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn the_bad_example_is_bad() {
    let mut jobs = jobs(mix(1.5), 20_000, 0.9, 4);
    Noise { sigma: 2.0 }.on(&mut jobs, 4);
    let mean = |order| run(&jobs, order, 0).mean_ns(1000..jobs.len());
    let [srpt, psjf, gittins] =
        [Order::Estimated(Estimate::Srpt), Order::Estimated(Estimate::Psjf), Order::Learned(Index::Gittins)].map(mean);
    assert!(srpt > 1.1 * psjf && psjf > 1.1 * gittins, "{srpt} {psjf} {gittins}");
}

#[test]
fn load_is_as_asked() {
    let jobs = jobs(mix(1.0), 50_000, 0.8, 5);
    let bytes: u64 = jobs.iter().map(|job| job.bytes).sum();
    let rho = bytes as f64 / jobs[jobs.len() - 1].at.0 as f64;
    assert!((0.79..0.81).contains(&rho) && jobs.is_sorted_by_key(|job| job.at), "{rho}");
    let paths: std::collections::BTreeSet<&str> = jobs.iter().map(|job| &*job.path).collect();
    assert_eq!(paths.len(), 20);
    // And that of all paths.
    assert_eq!(run(&jobs[..10_000], Order::Las, 0).routes, 21);
}

#[test]
fn an_ending_stands_for_the_type() {
    let paths = ["/a/b.gif", "/a.b/c", "/x.tar.gz?y=1.z", "/", "", "/.x"];
    assert_eq!(paths.map(ending), ["gif", "", "gz", "", "", "x"]);
}

#[test]
fn lines_of_a_trace() {
    let jobs = jobs_of_trace("/a/1.gif 200 500\n/b 304 0\n", 250).unwrap();
    assert_eq!(
        jobs.iter().map(|job| (&*job.path, job.status, job.bytes)).collect::<Vec<_>>(),
        [("/a/1.gif", 200, 750), ("/b", 304, 250)]
    );
    for wrong in ["/a 200", "/a 200 x", "/a y 1", "/a 200 1 2", ""] {
        let error = jobs_of_trace(&format!("/ok 200 1\n{wrong}\n"), 0).unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
