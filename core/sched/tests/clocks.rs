//! Clocks that stand or jump, and a client with many connections: every job departs once, and no sum of times wraps.

use proptest::prelude::*;
use sched::policy::{ByClient, ClientShare};
use sched::{Arrival, Guard, Pace, Progress, Scheduler, Size, policy};
use units::{Nanos, Rate};

/// The last instant to which a step goes: 146 years.
const LAST: Nanos = Nanos(1 << 62);

/// No time at all, times between an instruction and a century, and a step to the last instant.
fn step() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        4 => Just(Nanos::ZERO),
        2 => (0u64..10_000_000).prop_map(Nanos),
        1 => prop::sample::select(vec![1u64, 3600, 86_400, 3_200_000_000]).prop_map(Nanos::from_secs),
        1 => Just(LAST),
    ]
}

fn scheduler(name: &str, rate: Option<Rate>, has_shares: bool) -> Scheduler {
    let order = policy::parse(name).unwrap();
    let order = if has_shares { Box::new(ByClient::new(order, ClientShare::of_link(rate))) } else { order };
    Scheduler::new(order, rate.map_or(Pace::UNLIMITED, Pace::of_line)).with_guard(Guard::new(10))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The clock steps as drawn while jobs arrive and are sent. Then it follows the scheduler's timeouts.
    #[test]
    fn no_step_of_the_clock_ends_the_order(
        name in prop::sample::select(policy::NAMES.to_vec()),
        bits_per_s in prop::option::of(prop::sample::select(vec![64_000u64, 10_000_000, 10_000_000_000])),
        has_shares in any::<bool>(),
        steps in prop::collection::vec((step(), 1u64..100_000, 0u32..3), 1..40),
    ) {
        let rate = bits_per_s.and_then(Rate::from_bits_per_s);
        let mut scheduler = scheduler(name, rate, has_shares);
        let (mut now, mut departed) = (Nanos::ZERO, 0);
        let mut send = |scheduler: &mut Scheduler, now| {
            let grant = scheduler.poll_grant(now)?;
            departed += usize::from(scheduler.on_sent(now, grant.job, grant.bytes_max) == Progress::Departed);
            Some(())
        };
        for (by, bytes, client) in &steps {
            now = Nanos(now.0 + by.0).min(LAST);
            scheduler.arrive(now, Arrival { client: *client, ..Arrival::of(Size::Known(*bytes)) });
            // A clock that stands gives no more than what may be sent at one instant.
            for _ in 0..5 {
                send(&mut scheduler, now);
            }
        }
        let mut without = 0;
        while !scheduler.jobs().is_empty() {
            let due = scheduler.poll_timeout().expect("somebody is ready").max(now);
            without = if send(&mut scheduler, due).is_some() { 0 } else { without + 1 };
            prop_assert!(without < 3, "nothing is sent at {due:?}");
            now = due;
        }
        prop_assert_eq!(departed, steps.len());
    }
}

/// Before another client's response is sent, a client with a million connections gets as many bytes as that response
/// has, and three allowances, at most: the same as with a few connections.
#[test]
fn a_million_connections_of_a_client_count_once() {
    const CONNECTIONS: u64 = 1_000_000;
    let share = ClientShare { allowance_bytes: 3_000_000, ..ClientShare::of_link(Rate::from_bits_per_s(10_000_000)) };
    let order = Box::new(ByClient::new(policy::parse("srpt").unwrap(), share));
    let mut scheduler = Scheduler::new(order, Pace::UNLIMITED);
    let arrival = |client, bytes| Arrival { client, ..Arrival::of(Size::Known(bytes)) };
    for _ in 0..CONNECTIONS {
        scheduler.arrive(Nanos::ZERO, arrival(0, 10_000));
    }
    let other = scheduler.arrive(Nanos::ZERO, arrival(1, 300_000));
    let mut others_bytes = 0;
    while scheduler.jobs().get(other).is_some() {
        let grant = scheduler.poll_grant(Nanos::ZERO).expect("the link is free");
        others_bytes += if grant.job == other { 0 } else { grant.bytes_max };
        let _ = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max);
    }
    assert!((300_000..=3 * share.allowance_bytes + 310_000).contains(&others_bytes), "{others_bytes}");
}
