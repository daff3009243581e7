//! A scheduler above a line that serialises: what stands in front of a new response.

use sched::{Arrival, Correction, Pace, Scheduler, Size, Why, policy};
use units::Nanos;

/// A full packet at 10 Mbit/s.
const PACKET_FOR: Nanos = Nanos(1_211_200);
const NOW: Nanos = Nanos::from_secs(1);

fn scheduler(name: &str) -> Scheduler {
    Scheduler::new(policy::parse(name).unwrap(), Pace::of_line("10mbit".parse().unwrap()))
}

/// Hands down whatever may be; returns when to come again, from `NOW`.
fn pump(scheduler: &mut Scheduler, now: Nanos) -> Option<Nanos> {
    while let Some(grant) = scheduler.poll_grant(now) {
        let _ = scheduler.on_sent(now, grant.job, grant.bytes_max);
    }
    scheduler.poll_timeout().map(|at| at - NOW)
}

/// Earlier there were two, which stayed below until the queue was empty, so nothing could overtake the second.
#[test]
fn after_a_pause_one_packet_is_handed_down() {
    let mut scheduler = scheduler("srpt");
    let job = scheduler.arrive(NOW, Arrival::of(Size::Known(100_000)));
    assert_eq!(pump(&mut scheduler, NOW), Some(PACKET_FOR));
    assert_eq!(scheduler.jobs().get(job).unwrap().attained, 1448);
    // A reader that takes no bytes for a second is a pause too.
    scheduler.on_wait(job, Why::Connection);
    scheduler.on_wait_over(NOW + NOW, job, Why::Connection);
    assert_eq!(pump(&mut scheduler, NOW + NOW), Some(NOW + PACKET_FOR));
}

/// Time in which a job waited and the caller was late is not lost to the line: it catches up, being a little faster
/// than the pace.
#[test]
fn what_we_are_late_by_is_caught_up() {
    let mut scheduler = scheduler("srpt");
    scheduler.arrive(NOW, Arrival::of(Size::Known(100_000)));
    pump(&mut scheduler, NOW);
    let late = NOW + PACKET_FOR + Nanos::from_micros(500);
    assert_eq!(pump(&mut scheduler, late), Some(Nanos(2 * PACKET_FOR.0)));
}

#[test]
fn a_line_of_which_we_were_told_is_paced_below_its_rate() {
    let pace = Pace::blind("10mbit".parse().unwrap());
    assert_eq!((pace.rate, pace.ahead), ("9.8mbit".parse().ok(), Nanos::ZERO));
}

const NEAR: Nanos = Nanos::from_micros(59);

/// Below a token bucket twenty acknowledgements stood on the wire as a packet, and no reading showed it.
#[test]
fn the_acknowledgement_of_a_near_client_s_end_is_waited_for_even_where_the_queue_is_read() {
    for (handshake, wire_bytes, waits) in
        [(NEAR, 66, true), (NEAR, 1514, false), (Nanos::from_millis(2), 66, false), (Nanos::from_millis(1), 66, true)]
    {
        let mut scheduler = scheduler("srpt");
        scheduler.pacer_mut().on_handshake(handshake);
        scheduler.arrive(NOW, Arrival::of(Size::Known(100_000)));
        scheduler.pacer_mut().on_foreseen(NOW, wire_bytes, true);
        assert_eq!(scheduler.poll_timeout().unwrap() > NOW, waits, "{handshake:?} {wire_bytes}");
        // Charges for bytes that never arrive are refunded.
        scheduler.pacer_mut().on_closed(NOW, Correction { charge_bytes: 0, refund_bytes: wire_bytes }, true);
        assert!(scheduler.poll_grant(NOW).is_some());
    }
}
