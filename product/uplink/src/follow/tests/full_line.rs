//! An attach to an interface whose line has been full for ten seconds.

use super::World;

/// Four downloads of one client have filled the line's queue, and another client fetches a small file again and again.
#[test]
fn the_rate_of_a_line_that_is_full_is_found() {
    for (rtt_ms, are_forwarded) in [(5, false), (30, false), (100, false), (5, true), (30, true), (100, true)] {
        let mut world = World::new(None, 4, rtt_ms, |_| 10.0);
        (world.begins_ms, world.fetch_every_ms, world.are_forwarded) = (10_000, Some(200), are_forwarded);
        let world = world.run(40);
        let queue = |from, to| World::mean(&world.queues_ms, from, to);
        let (pace, most) =
            (World::mean(&world.paces, 14, 40), world.paces[13_000..].iter().copied().fold(0.0, f64::max));
        let case = format!(
            "{rtt_ms} {are_forwarded}: pace {pace}, at most {most}, queue {} then {}",
            queue(5, 10),
            queue(14, 40)
        );
        assert!(queue(5, 10) > 60.0, "{case}");
        assert!((9.6..10.1).contains(&pace) && most < 12.5 && queue(14, 40) < 11.0, "{case}");
    }
}
