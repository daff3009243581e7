//! One sender, with its packets and acknowledgements made by hand.

use super::*;
use crate::packet::tcp::{Acked, Sender, Settings};

const RTT: Nanos = Nanos::from_millis(100);

/// Returns a sender with more than ten segments written, a round trip from the handshake, and the first window sent at
/// 1 s.
fn sending(settings: &Settings) -> Sender {
    let mut sender = Sender::new(settings);
    sender.sample(RTT);
    sender.write(Nanos::from_secs(1), 100_000, false, settings);
    assert_eq!(send(&mut sender, Nanos::from_secs(1), settings), (0, 10));
    sender
}

/// Sends all permitted segments. Returns the number of retransmissions, and of first transmissions.
fn send(sender: &mut Sender, now: Nanos, settings: &Settings) -> (u32, u32) {
    let (mut again, mut first) = (0, 0);
    while let Some(segments) = sender.poll(now, settings) {
        let count = segments.bytes.div_ceil(settings.segment_bytes);
        if segments.again {
            again += count
        } else {
            first += count
        }
        sender.sent(now, segments, settings);
        sender.dequeued(segments.bytes);
    }
    (again, first)
}

fn settings(undoes: bool) -> Settings {
    let tcp = Tcp { gso_segments: 1, tail_loss_probe: false, undoes, ..Tcp::default() };
    tcp.settings()
}

fn acked(segments: u64, echo: Nanos) -> Acked {
    Acked { upto: segments * 1448, block: (0, 0), echo }
}

#[test]
fn a_needless_timeout_is_undone_when_a_timestamp_tells() {
    let late = Nanos::from_secs(2);
    for (undoes, window) in [(true, 11), (false, 2)] {
        let settings = settings(undoes);
        let mut sender = sending(&settings);
        // Smoothed 100 ms, variance 50 ms: 300 ms after the last segment.
        assert_eq!(sender.alarm_at(), Some(Nanos::from_millis(1300)));
        assert!(sender.on_alarm(Nanos::from_millis(1300), &settings).is_none());
        assert_eq!((sender.window_segments(), send(&mut sender, Nanos::from_millis(1300), &settings)), (1, (1, 0)));
        // The original transmission arrives after all.
        sender.on_ack(late, acked(1, Nanos::from_secs(1)), &settings);
        assert_eq!(sender.window_segments(), window, "undoes: {undoes}");
        let next = send(&mut sender, late, &settings);
        assert_eq!(next, if undoes { (0, 2) } else { (2, 0) }, "undoes: {undoes}");
    }
}

#[test]
fn a_real_timeout_is_not_undone() {
    let settings = settings(true);
    let mut sender = sending(&settings);
    let lost_at = Nanos::from_millis(1300);
    sender.on_alarm(lost_at, &settings);
    send(&mut sender, lost_at, &settings);
    sender.on_ack(lost_at + RTT, acked(1, lost_at), &settings);
    assert_eq!((sender.window_segments(), send(&mut sender, lost_at + RTT, &settings)), (2, (2, 0)));
}

#[test]
fn three_acknowledgements_above_a_hole_send_it_again_and_reduce_once() {
    let settings = settings(true);
    let mut sender = sending(&settings);
    let now = Nanos::from_millis(1100);
    for above in 1..=9 {
        let block = (1448, 1448 * (above + 1));
        sender.on_ack(now, Acked { upto: 0, block, echo: Nanos::ZERO }, &settings);
        // Two new ones left before, so eight are in flight. A window of seven has no room, but the retransmission is
        // sent.
        let resent = send(&mut sender, now, &settings);
        assert_eq!(resent.0, u32::from(above == 3), "{above}");
    }
    assert_eq!(sender.window_segments(), 7);
    sender.on_ack(now + RTT, acked(10, now), &settings);
    assert_eq!(sender.window_segments(), 7);
}

#[test]
fn a_full_queue_of_the_hosts_own_slows_down_and_waits_for_an_acknowledgement() {
    let settings = settings(true);
    let mut sender = Sender::new(&settings);
    sender.sample(RTT);
    sender.write(Nanos::ZERO, 10_000, true, &settings);
    assert!(sender.poll(Nanos::ZERO, &settings).is_some());
    sender.refused(Nanos::ZERO);
    // Nothing is in flight, so only the timer wakes it: 100 ms and at least 200 more.
    assert_eq!((sender.window_segments(), sender.alarm_at()), (7, Some(Nanos::from_millis(300))));
    sender.on_alarm(Nanos::from_millis(300), &settings);
    assert_eq!(send(&mut sender, Nanos::from_millis(300), &settings), (0, 7));
    assert_eq!(sender.window_segments(), 7, "it was no timeout");
}
