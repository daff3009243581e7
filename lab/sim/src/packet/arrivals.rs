//! Jobs for the packet model. rho counts the bytes that the model will put on the wire, so that the same rho means the
//! same load here and in the laboratory.

use units::{Nanos, Rate, wire};
use workload::{Distribution, Job, LoadProfile};

use crate::queue::{Poisson, Wire};

/// Endless Poisson arrivals that load the link according to the profile. The same seed gives the jobs of the `queue`
/// model.
pub fn poisson(
    sizes: &Distribution,
    load: LoadProfile,
    link: Rate,
    per_connection: u32,
    seed: u64,
) -> impl Iterator<Item = Job> + use<> {
    let shared = wire::CONNECTION_BYTES as f64 * (1.0 - 1.0 / f64::from(per_connection.max(1)));
    let mean_bytes = Wire::Tcp.mean_bytes(sizes) - shared;
    let service_ns = mean_bytes * 8e9 / link.bits_per_s() as f64;
    Poisson::new(sizes, load, service_ns, seed).map(|request| Job {
        arrival: request.at,
        size_bytes: request.size_bytes,
        client: None,
    })
}

/// The jobs of a schedule made for a load of 1, at another load: each gap is scaled by the profile's load at that time.
pub fn at_load(full: Vec<Job>, load: LoadProfile) -> impl Iterator<Item = Job> {
    let (mut before, mut at) = (Nanos::ZERO, Nanos::ZERO);
    full.into_iter().map(move |job| {
        at = load.after(at, (job.arrival - before).0 as f64);
        before = job.arrival;
        Job { arrival: at, ..job }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_arrivals_offer_the_load_asked_for() {
        let sizes: Distribution = "exponential:mean=5000".parse().unwrap();
        let link: Rate = "10mbit".parse().unwrap();
        for per_connection in [1, 5] {
            let load = LoadProfile::constant(0.8).unwrap();
            let jobs: Vec<Job> = poisson(&sizes, load, link, per_connection, 1).take(50_000).collect();
            let responses: u64 = jobs.iter().map(|job| workload::wire_bytes(job.size_bytes)).sum();
            let bytes = responses + 50_000 / u64::from(per_connection) * wire::CONNECTION_BYTES;
            let rho = link.time_for(bytes).as_secs_f64() / jobs.last().unwrap().arrival.as_secs_f64();
            assert!((rho / 0.8 - 1.0).abs() < 0.02, "{rho}");
        }
    }

    #[test]
    fn a_schedule_is_bent_to_the_profile() {
        let full = [0, 2, 4, 10].map(|s| Job { arrival: Nanos::from_secs(s), size_bytes: s, client: None }).to_vec();
        let bent: Vec<Job> = at_load(full, "10,10,0.4,1.6".parse().unwrap()).collect();
        let seconds: Vec<u64> = bent.iter().map(|job| job.arrival.0 / 1_000_000_000).collect();
        // 4 s of work in the first ten seconds; the next 6 s of work take 3.75 s.
        assert_eq!(seconds, [0, 5, 10, 13]);
    }
}
