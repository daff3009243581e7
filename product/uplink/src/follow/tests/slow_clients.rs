//! Clients with a slow link of their own, and clients that have gone: their bytes stay long, and no queue of the line
//! is the reason.

use super::World;

fn check(case: &str, world: &World) {
    let queue = |from, to| World::mean(&world.queues_ms, from, to);
    let most = world.paces[12_000..].iter().copied().fold(0.0, f64::max);
    let pace = World::mean(&world.paces, 12, 60);
    let case = format!("{case}: pace {pace}, at most {most}, queue {}", queue(12, 60));
    assert!((9.3..10.5).contains(&pace) && most < 12.0 && queue(12, 60) < 11.0, "{case}");
}

#[test]
fn a_client_behind_a_slow_link_delays_nobody_else() {
    for (rtt_ms, are_forwarded) in [(5, false), (30, false), (100, false), (5, true), (30, true)] {
        for link in [0.3, 1.0, 2.0] {
            let mut world = World::new(None, 5, rtt_ms, |_| 10.0);
            (world.own_link, world.are_forwarded) = (Some(link), are_forwarded);
            world.flows[0].window = 200;
            check(&format!("{rtt_ms} {are_forwarded} {link}"), &world.run(60));
        }
    }
}

#[test]
fn a_client_that_vanishes_leaves_no_queue() {
    for (rtt_ms, are_forwarded) in [(5, false), (30, false), (5, true), (30, true)] {
        let mut world = World::new(None, 5, rtt_ms, |_| 10.0);
        (world.own_link, world.gone_at_ms, world.are_forwarded) = (Some(3.0), 20_000, are_forwarded);
        world.flows[0].window = 200;
        check(&format!("{rtt_ms} {are_forwarded}"), &world.run(60));
    }
}
