//! Sizes near powers of two, at which sums and products overflow: whatever a peer announces for a response, the order
//! continues, and every job departs once.

use proptest::prelude::*;
use sched::policy::{ByClient, ClientShare};
use sched::{Arrival, Guard, JobId, Overrun, Pace, Precedence, Progress, Scheduler, Sent, Size, policy};
use units::{Nanos, Rate};

/// Sizes near 2^31, 2^32, 2^53, 2^63 and 2^64.
fn size() -> impl Strategy<Value = u64> {
    let near = (prop::sample::select(vec![31u32, 32, 53, 63, 64]), -70_000i128..70_000);
    let number = near.prop_map(|(exponent, by)| ((1i128 << exponent) + by).clamp(1, u64::MAX.into()) as u64);
    prop_oneof![4 => number, 1 => 1u64..100_000, 1 => Just(u64::MAX)]
}

/// A policy, a pace, and one connection for all jobs or one for each.
fn bench() -> impl Strategy<Value = (&'static str, bool, Option<u64>, bool)> {
    (
        prop::sample::select(policy::NAMES.to_vec()),
        any::<bool>(),
        prop::option::of(prop::sample::select(vec![1u64, 10_000_000, 10_000_000_000_000])),
        any::<bool>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_size_ends_the_order(
        (name, shares, bits_per_s, is_carried) in bench(),
        sizes in prop::collection::vec((size(), any::<bool>(), 0u32..3), 1..12),
        known in size(),
    ) {
        let rate = bits_per_s.and_then(Rate::from_bits_per_s);
        let order = policy::parse(name).unwrap();
        let order = if shares { Box::new(ByClient::new(order, ClientShare::of_link(rate))) } else { order };
        let mut scheduler = Scheduler::new(order, rate.map_or(Pace::UNLIMITED, Pace::of_line)).with_guard(Guard::new(10));
        let mut now = Nanos::from_secs(1);
        let connection = is_carried.then(|| scheduler.open(Arrival::of(Size::Known(1)).framing));
        let mut jobs: Vec<JobId> = Vec::new();
        for (bytes, is_known, client) in sizes {
            let size = if is_known { Size::Known(bytes) } else { Size::AtLeast(bytes) };
            let arrival = Arrival { client, ..Arrival::of(size) };
            jobs.push(match connection {
                Some(on) => scheduler.arrive_on(now, on, arrival, Precedence::default()).unwrap(),
                None => scheduler.arrive(now, arrival),
            });
        }
        for _ in 0..200 {
            if let Some(grant) = scheduler.poll_grant(now) {
                prop_assert!(grant.bytes_max > 0);
                let left = scheduler.jobs().get(grant.job).unwrap().known_left();
                let sent = grant.bytes_max.min(1 << 21);
                let progress = scheduler.on_sent(now, grant.job, sent);
                prop_assert_eq!(progress == Progress::Departed, left == Some(sent));
            }
            now = scheduler.poll_timeout().unwrap_or(now).max(now);
            prop_assert!(scheduler.jobs().left_bytes() >= jobs.iter().filter_map(|id| scheduler.jobs().get(*id)?.known_left()).max().unwrap_or(0));
        }
        for id in &jobs {
            if let Some(attained) = scheduler.jobs().get(*id).filter(|job| job.known().is_none()).map(|job| job.attained) {
                prop_assert_eq!(scheduler.on_size(*id, Size::Known(known)).is_ok(), known > attained);
            }
            scheduler.on_end(*id);
        }
        prop_assert!(scheduler.jobs().is_empty() && scheduler.poll_grant(now).is_none());
    }

    /// A response that is longer than its size is ended; the others are sent as if it had been right.
    #[test]
    fn a_response_beyond_its_size_ends_alone(
        (name, shares, bits_per_s, is_carried) in bench(),
        sizes in prop::collection::vec(1u64..10_000, 2..8),
        wrong in any::<prop::sample::Index>(),
        beyond in prop_oneof![1u64..2000, Just(u64::MAX)],
    ) {
        let rate = bits_per_s.and_then(Rate::from_bits_per_s);
        let order = policy::parse(name).unwrap();
        let order = if shares { Box::new(ByClient::new(order, ClientShare::of_link(rate))) } else { order };
        let mut scheduler = Scheduler::new(order, rate.map_or(Pace::UNLIMITED, Pace::of_line)).with_guard(Guard::new(10));
        let connection = is_carried.then(|| scheduler.open(Arrival::of(Size::Known(1)).framing));
        let mut now = Nanos::from_secs(1);
        let jobs: Vec<JobId> = sizes.iter().map(|bytes| match connection {
            Some(on) => scheduler.arrive_on(now, on, Arrival::of(Size::Known(*bytes)), Precedence::default()).unwrap(),
            None => scheduler.arrive(now, Arrival::of(Size::Known(*bytes))),
        }).collect();
        let wrong = jobs[wrong.index(jobs.len())];
        let (mut whole, mut overrun) = (0, None);
        while !scheduler.jobs().is_empty() {
            now = scheduler.poll_timeout().expect("somebody is ready").max(now);
            let grant = scheduler.poll_grant(now).expect("the link is free");
            let job = scheduler.jobs().get(grant.job).unwrap();
            let (size_bytes, had) = (job.known().unwrap(), job.attained);
            let sent = if grant.job == wrong { job.remaining().saturating_add(beyond) } else { grant.bytes_max };
            let carried_bytes = sent.min(1 << 20);
            match scheduler.on_sent(now, grant.job, Sent { content_bytes: sent, carried_bytes }) {
                Progress::Remains => {}
                Progress::Departed => whole += 1,
                Progress::Overrun(found) => {
                    prop_assert_eq!(found, Overrun { size_bytes, found_bytes: had.saturating_add(sent) });
                    prop_assert_eq!(overrun.replace(grant.job), None);
                }
            }
        }
        prop_assert_eq!((whole, overrun), (jobs.len() - 1, Some(wrong)));
    }
}

#[test]
fn a_size_that_was_had_already_is_refused_and_changes_nothing() {
    let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNLIMITED);
    let id = scheduler.arrive(Nanos::ZERO, Arrival::of(Size::AtLeast(100)));
    let _ = scheduler.on_sent(Nanos::ZERO, id, 111);
    for size_bytes in [1, 108, 111] {
        let refused = scheduler.on_size(id, Size::Known(size_bytes)).unwrap_err();
        assert_eq!(refused, Overrun { size_bytes, found_bytes: 111 });
        assert_eq!(refused.to_string(), format!("a response of {size_bytes} bytes has 111"));
        assert_eq!(scheduler.jobs().get(id).and_then(|job| job.known()), None);
    }
    assert_eq!(scheduler.on_size(id, Size::Known(112)), Ok(()));
    assert_eq!(scheduler.on_sent(Nanos::ZERO, id, 1), Progress::Departed);
}
