//! Uploads: clients that send fill the queue in front of the server, which the acknowledgements of all clients pass.

use super::*;

/// The delay of a queue that an upload keeps between half full and full: it grows for three seconds, then empties as
/// fast as its line carries.
fn filled(from: f64, until: f64, most_ms: f64) -> Box<dyn Fn(f64) -> f64> {
    Box::new(move |at| {
        if !(from..until).contains(&at) {
            return 0.0;
        }
        let (into, half_ms) = ((at - from) % 3.0, most_ms / 2.0);
        let falls = into * 1000.0 - (3000.0 - half_ms);
        half_ms + if falls > 0.0 { half_ms - falls } else { half_ms * into / 3.0 }
    })
}

/// A line of 10 Mbit/s each way whose clients send as fast as it carries between these seconds.
fn uploading(rtt_ms: f64, from: f64, until: f64, most_ms: f64) -> World {
    let mut world = World::of("auto", 10.0);
    world.clients = vec![Path { rtt_ms, ..LAN }; 3];
    world.back_ms = filled(from, until, most_ms);
    world.received = Box::new(move |at| if (from..until).contains(&at) { 9.5 * MBIT } else { 0.0 });
    world
}

/// The least mean rate of two seconds, in Mbit/s.
fn least_rate(outcome: &Outcome) -> f64 {
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64 / MBIT;
    outcome.rates.chunks(2000).map(mean).fold(f64::INFINITY, f64::min)
}

/// Each was cut to two thirds as a trial and blamed on others, and the pace then rose beyond the line: our own queue was
/// 120 ms long most of the time, and the least rate 6.0 to 7.1 Mbit/s.
#[test]
fn an_upload_neither_cuts_the_pace_nor_hides_a_queue() {
    for rtt_ms in [1.0, 30.0] {
        for (from, until) in [(20.0, 120.0), (0.0, 120.0), (40.0, 60.0)] {
            let mut world = uploading(rtt_ms, from, until, 120.0);
            let outcome = world.run(120.0, 20.0);
            let share = outcome.delivered_bits / (100.0 * 10.0 * MBIT);
            assert!(share >= 0.95, "{rtt_ms} {from}: {share} {:?}", world.notices);
            assert!(outcome.median_delay_ms() < 1.5, "{rtt_ms} {from}: {} ms", outcome.median_delay_ms());
            assert!(least_rate(&outcome) > 9.0, "{rtt_ms} {from}: {}", least_rate(&outcome));
        }
    }
}

/// Arrivals and losses show it, though no round trip does.
#[test]
fn a_line_that_falls_during_an_upload_is_followed() {
    for rtt_ms in [1.0, 30.0] {
        let mut world = uploading(rtt_ms, 20.0, 120.0, 120.0);
        world.line = Box::new(|at| if at < 40.0 { 10.0 * MBIT } else { 4.0 * MBIT });
        let outcome = world.run(100.0, 60.0);
        let share = outcome.delivered_bits / (40.0 * 4.0 * MBIT);
        assert!(share >= 0.85, "{rtt_ms}: {share} {:?}", world.notices);
        assert!(outcome.median_delay_ms() < 10.0, "{rtt_ms}: {} ms", outcome.median_delay_ms());
    }
}

/// Clients may send much without a queue in front of the server: the line is then found as ever.
#[test]
fn an_upload_without_a_queue_changes_nothing() {
    let mut world = uploading(30.0, 0.0, 120.0, 0.0);
    let outcome = world.run(120.0, 20.0);
    let share = outcome.delivered_bits / (100.0 * 10.0 * MBIT);
    assert!(share >= 0.93, "{share} {:?}", world.notices);
    assert!(outcome.median_delay_ms() < 3.0, "{} ms", outcome.median_delay_ms());
}
