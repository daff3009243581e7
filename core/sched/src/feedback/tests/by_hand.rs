//! Epoch by epoch: which evidence leads to which pace, on a line whose answers are made up.

use super::super::*;

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const CEILING: u64 = 10_000_000;
const FULL: u64 = 1000;
/// Two packets at [`CEILING`] and 4 ms.
const THRESHOLD: Nanos = Nanos(4_000_000 + 2_422_400);

/// Two clients on paths of the same length, who see the same queue.
struct Hand {
    feedback: Feedback,
    now: Nanos,
    charged: u64,
    base: Nanos,
}

impl Hand {
    fn new(ceiling: u64, base: Nanos) -> Hand {
        let feedback = Feedback::new(rate(ceiling));
        Hand { feedback, now: Nanos::ZERO, charged: 0, base }
    }

    /// Where the clients are known and all of the pace has been used for a while.
    fn busy() -> Hand {
        let mut hand = Hand::new(CEILING, MS(10));
        assert!(hand.go(300, 10, Nanos::ZERO).is_empty() && hand.go(300, FULL, Nanos::ZERO).is_empty());
        hand
    }

    /// Uses this much of the pace for so many milliseconds, while the queue is so long. Gives when the pace changed, from now,
    /// in milliseconds.
    fn go(&mut self, ms: u64, used_permille: u64, queue: Nanos) -> Vec<(u64, Change)> {
        let mut changes = vec![];
        for ms in 1..=ms {
            self.now += MS(1);
            self.charged += self.feedback.rate * used_permille / 8_000_000;
            if self.now.0.is_multiple_of(MS(10).0) {
                let rtt = self.base + queue;
                (1..=2).for_each(|client| self.feedback.on_round_trip(self.now, self.charged, client, rtt));
            }
            changes.extend(self.feedback.poll(self.now, self.charged).map(|change| (ms, change)));
        }
        changes
    }

    /// The same, for when only the pace matters.
    fn paces(&mut self, ms: u64, used_permille: u64, queue: Nanos) -> Vec<(u64, u64)> {
        let changes = self.go(ms, used_permille, queue);
        changes.into_iter().map(|(at, change)| (at, change.rate.bits_per_s())).collect()
    }
}

/// In 100 ms, of which it was 30 behind at the end, the line carried 70 ms of the pace: it is left to empty its queue at half of
/// that, and has 98.5 % of it then.
#[test]
fn a_cut_goes_to_what_the_line_carried_when_its_queue_is_gone() {
    let mut hand = Hand::busy();
    let changes = hand.go(100, FULL, MS(30));
    let notice = Notice::Fell { signal: Signal::Delay(MS(30)), from: rate(CEILING), to: rate(6_895_000) };
    assert_eq!(changes, [(100, Change { rate: rate(3_500_000), notice: Some(notice) })]);
    assert!(hand.feedback.history.is_empty(), "what was seen at another pace says nothing of this one");
    // It was 30 ms long 90 ms ago and grew by 3 in 7; at half of the rate it takes twice as long.
    assert_eq!(hand.paces(400, FULL, Nanos::ZERO), [(2 * (30 + 90 * 3 / 7) + 2, 6_895_000)]);
}

/// A short queue has to be there twice, a long one once.
#[test]
fn a_long_queue_is_acted_on_at_once() {
    let long = Nanos(4 * THRESHOLD.0);
    for (queue, cut_at) in [(THRESHOLD, None), (MS(20), Some(200)), (long, Some(200)), (long + Nanos(1), Some(100))] {
        let first = Hand::busy().go(200, FULL, queue).first().map(|change| change.0);
        assert_eq!(first, cut_at, "{queue:?}");
    }
    // What was no queue in the epoch before does not count.
    let mut hand = Hand::busy();
    assert!(hand.go(100, FULL, THRESHOLD).is_empty() && hand.go(100, FULL, MS(20)).is_empty());
    assert_eq!(hand.go(100, FULL, MS(20)).len(), 1);
}

/// Round trips tell of a queue when they end: what they say just behind a drain is from before.
#[test]
fn a_new_pace_is_not_judged_by_round_trips_from_before() {
    let mut hand = Hand::new(CEILING, MS(200));
    assert!(hand.go(600, 10, Nanos::ZERO).is_empty() && hand.go(600, FULL, Nanos::ZERO).is_empty());
    assert_eq!(hand.go(100, FULL, MS(30)).len(), 1);
    while hand.go(1, FULL, MS(30)).is_empty() {}
    assert_eq!(hand.go(450, FULL, MS(30)), []);
    assert_eq!(hand.go(1000, FULL, Nanos::ZERO), []);
    assert!(hand.feedback.trial.is_none(), "it was right");
}

/// Half of a queue is as good as none: more of the same would take too much.
#[test]
fn a_cut_that_halves_the_queue_was_right() {
    for (left, cuts) in [(15, 0), (16, 1)] {
        let mut hand = Hand::busy();
        hand.go(100, FULL, MS(30));
        // Not at full pace, so that no new queue is ours.
        let paces = hand.paces(1000, 600, MS(left));
        assert_eq!(paces[1..].iter().filter(|pace| pace.1 < 6_895_000 / 2).count(), cuts, "{left}: {paces:?}");
    }
}

/// Two round trips of 50 ms and an epoch behind the drain it is judged again, and no later.
#[test]
fn a_new_pace_is_judged_when_round_trips_tell_of_it() {
    let mut hand = Hand::busy();
    hand.go(100, FULL, MS(40));
    while hand.go(1, FULL, MS(40)).is_empty() {}
    hand.go(199, FULL, Nanos::ZERO);
    assert!(matches!(hand.feedback.phase, Phase::Settling { .. }));
    hand.go(1, FULL, Nanos::ZERO);
    assert!(matches!(hand.feedback.phase, Phase::Free));
}

/// On a slow line a packet or two are no queue that round trips could tell.
#[test]
fn an_epoch_is_as_long_as_thirty_two_packets_take() {
    let mut hand = Hand::new(100_000, MS(10));
    hand.go(32 * 1514 * 8 / 100, 10, Nanos::ZERO);
    assert!(hand.feedback.history.is_empty());
    hand.go(1, 10, Nanos::ZERO);
    assert_eq!(hand.feedback.history.len(), 1);
}

/// Three cuts that change nothing, then the old pace again, for longer each time.
#[test]
fn a_queue_that_no_cut_shortens_is_left_to_others() {
    let mut hand = Hand::busy();
    for seconds in [10, 20, 40, 80, 160, 160] {
        let began_at = hand.now;
        let (mut changes, mut cuts) = (vec![], 0);
        while changes.len() < 7 && hand.now < began_at + Nanos::from_secs(10) {
            for (_, change) in hand.go(1, FULL, MS(30)) {
                changes.push((hand.now - began_at, change.notice));
                cuts += u32::from(change.rate.bits_per_s() < CEILING / 2);
            }
        }
        let lasts = Nanos::from_secs(seconds);
        let foreign = Notice::Foreign { signal: Signal::Delay(MS(30)), rate: rate(CEILING), lasts };
        assert_eq!((changes[0].0, changes[6].1, cuts), (MS(100), Some(foreign), 3));
        assert_eq!(hand.feedback.rate(), rate(CEILING));
        // A quiet time, so that nobody takes the queue for the path's own ways; all but the last epoch of the whole.
        assert_eq!(hand.go(seconds * 1000 - 5400, 10, Nanos::ZERO), []);
        assert_eq!(hand.go(300, FULL, Nanos::ZERO), []);
        assert_eq!(hand.go(5000, FULL, MS(30)), []);
    }
}

/// Where the line carries all that we send, and there is a queue all the same.
#[test]
fn a_cut_takes_a_hundredth_at_least() {
    let mut feedback = Feedback::new(rate(CEILING));
    let [from, to] = [(200, 100_000), (300, 225_000)].map(|passed| epoch(899, true, passed, Some(passed)));
    feedback.history.extend([from, to]);
    assert_eq!(feedback.carried(), Some(CEILING));
    feedback.cut(MS(300), 0, Signal::Delay(MS(30)));
    let then = CEILING * 99 / 100 * 985 / 1000;
    assert!(matches!(feedback.phase, Phase::Draining { then: is, .. } if is == then), "{:?}", feedback.phase);
}

/// A line that carries next to nothing: a pace that crawled would never find out that it is better again.
#[test]
fn no_cut_goes_below_a_sixty_fourth() {
    let mut hand = Hand::new(64_000_064, MS(10));
    hand.feedback.rate = 1_200_000;
    hand.feedback.cut(MS(100), 0, Signal::Loss(400));
    assert!(matches!(hand.feedback.phase, Phase::Draining { then: 985_000, .. }), "{:?}", hand.feedback.phase);
}

/// Longer round trips than are remembered: what the line carried is not known. After three looks it is nine tenths.
#[test]
fn a_queue_too_long_to_be_measured_is_cut_by_a_tenth() {
    let mut hand = Hand::busy();
    assert!(hand.go(3000, FULL, Nanos::ZERO).is_empty());
    let paces = hand.paces(300, FULL, Nanos::from_secs(3));
    assert_eq!(paces, [(300, CEILING * 9 / 10 / 2)]);
    assert!(matches!(hand.feedback.phase, Phase::Draining { then: 8_865_000, .. }), "{:?}", hand.feedback.phase);
}

/// What we never filled we cannot have made long, nor what we filled for a moment.
#[test]
fn a_queue_is_ours_if_most_of_the_pace_was_used() {
    for (first, then, is_ours) in [(850, 850, false), (FULL, 650, true), (950, 400, false)] {
        let mut hand = Hand::busy();
        // A burst of a tenth of a second, and a queue that grows little by little from then on.
        let mut changes = hand.go(100, first, MS(7));
        for ms in 8..18 {
            changes.extend(hand.go(100, then, MS(ms)));
        }
        assert_eq!(!changes.is_empty(), is_ours, "{first} {then}: {changes:?}");
    }
}

/// After two seconds by steps of 0.5, 1, 2 and 4 % each half second; an eighth as fast where there may be no room.
#[test]
fn the_pace_rises_while_there_is_room() {
    let risen = |used_permille, queue| {
        let mut hand = Hand::busy();
        hand.go(100, FULL, MS(30));
        while !matches!(hand.feedback.phase, Phase::Free) || hand.feedback.trial.is_some() {
            hand.go(1, FULL, Nanos::ZERO);
        }
        hand.paces(20_000, used_permille, queue)
    };
    let clear = risen(FULL, Nanos::ZERO);
    let rates: Vec<u64> = clear.iter().map(|pace| pace.1).collect();
    assert_eq!(rates[..4], [6_929_475, 6_998_769, 7_138_744, 7_424_293]);
    assert_eq!(rates.last(), Some(&CEILING));
    assert!((2000..2200).contains(&clear[0].0) && (500..=600).contains(&(clear[1].0 - clear[0].0)), "{clear:?}");
    for (used_permille, queue) in [(600, Nanos::ZERO), (FULL, MS(6))] {
        let unclear = risen(used_permille, queue);
        assert!((15_000..18_000).contains(&unclear[0].0), "{used_permille} {queue:?}: {unclear:?}");
    }
}

/// Looking for room again and again is no news: that the pace is back is said once, half a minute after the last cut.
#[test]
fn the_return_to_the_ceiling_is_told_once() {
    let mut hand = Hand::busy();
    hand.go(100, FULL, MS(30));
    let cut_at = hand.now;
    let changes = hand.go(60_000, FULL, Nanos::ZERO);
    let told: Vec<_> = changes.iter().filter_map(|(at, change)| change.notice.map(|notice| (*at, notice))).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(matches!(told[0].1, Notice::Rose { rate, ceiling } if rate == ceiling), "{told:?}");
    assert!((30_000..30_200).contains(&told[0].0), "{told:?} after {cut_at:?}");
}

/// A pace that comes back little by little is told when it is a quarter higher, and at its end.
#[test]
fn a_long_way_up_is_told_in_between() {
    let mut hand = Hand::busy();
    hand.go(100, FULL, MS(30));
    let changes = hand.go(100_000, 600, Nanos::ZERO);
    let told: Vec<u64> =
        changes.iter().filter_map(|(_, change)| change.notice.and(Some(change.rate.bits_per_s()))).collect();
    assert!(told.len() == 2 && told[1] == CEILING && (8_618_751..8_970_000).contains(&told[0]), "{told:?}");
}

#[test]
fn a_cut_to_nearly_the_same_pace_is_no_news() {
    let mut feedback = Feedback::new(rate(CEILING));
    let mut is_told = |then| feedback.tell(Signal::Loss(10), then).is_some();
    assert!(is_told(9_500_000), "the first always is");
    assert!(!is_told(9_975_000 - 1) && !is_told(9_025_000 + 1) && is_told(9_025_000), "a twentieth less");
}

/// Three packets are an accident on any line, four of several clients are not; nor is anything a sign of a full line where
/// less than half of the pace was used.
#[test]
fn losses_are_a_reason_if_they_are_several_under_a_load() {
    for (packets, used_permille, is_cut) in [(3, FULL, false), (4, FULL, true), (40, 500, true), (40, 499, false)] {
        let mut hand = Hand::new(800_000, MS(10));
        assert!(hand.go(1212, 10, Nanos::ZERO).is_empty());
        while hand.feedback.loss_window.began != hand.now {
            hand.go(1, used_permille, Nanos::ZERO);
        }
        (1..=2).for_each(|client| hand.feedback.on_lost(client, packets * PACKET_BYTES));
        let changes = hand.go(1500, used_permille, Nanos::ZERO);
        assert_eq!(!changes.is_empty(), is_cut, "{packets} {used_permille}: {changes:?}");
    }
}

/// Which decides what round trips are taken for: a path's own ways, or a queue.
#[test]
fn a_load_is_light_below_half_of_the_pace() {
    let load = |at_ms, bytes: u64, before: &[Epoch]| {
        let mut feedback = Feedback::new(rate(CEILING));
        feedback.epoch = Span { began: MS(1000), charged_bytes: 1_000_000 };
        feedback.history.extend(before);
        feedback.load(MS(at_ms), 1_000_000 + bytes)
    };
    let used = |used_permille| epoch(used_permille, false, (0, 0), None);
    assert_eq!((load(1100, 62_499, &[]), load(1100, 62_500, &[])), (Load::Light, Load::Full));
    assert_eq!((load(1200, 124_999, &[]), load(1200, 125_000, &[])), (Load::Light, Load::Full));
    assert_eq!(load(1100, 0, &[used(500), used(499), used(499)]), Load::Light);
    assert_eq!(load(1100, 0, &[used(500), used(499)]), Load::Unqueued);
    let delayed = |delay| Epoch { delay: Some(delay), ..used(FULL) };
    let half = Nanos(THRESHOLD.0 / 2);
    assert_eq!(load(1100, 125_000, &[delayed(half)]), Load::Unqueued);
    assert_eq!(load(1100, 125_000, &[delayed(half + Nanos(1))]), Load::Full);
}

#[test]
fn half_of_the_bytes_that_could_have_left_is_half_of_the_pace() {
    assert_eq!(used_permille(8_000_000, MS(100), 50_000), 500);
    assert_eq!(used_permille(1, Nanos(1), 1), 1000, "of a byte at least");
}

/// Twice the longest round trip, since what TCP says is smoothed; but no longer than a drain.
#[test]
fn round_trips_tell_of_a_change_when_they_are_over() {
    for (rtt, lag) in [(MS(40), MS(180)), (Nanos::from_secs(50), MS(100 + 2 * 4000))] {
        let mut hand = Hand::new(CEILING, rtt);
        hand.go(20, 10, Nanos::ZERO);
        assert_eq!(hand.feedback.lag(), lag);
    }
}

/// An epoch of 100 ms that ended so long ago, with a queue or not.
fn epoch(used_permille: u64, is_queued: bool, from: (u64, u64), passed: Option<(u64, u64)>) -> Epoch {
    let span = |(ms, charged_bytes)| Span { began: MS(ms), charged_bytes };
    let delay = Some(if is_queued { MS(30) } else { Nanos::ZERO });
    Epoch { from: span(from), lasted: MS(100), lost_bytes: 0, delay, passed: passed.map(span), used_permille }
}

/// Back to where it was half of what counts as one, and through epochs in which nobody looked.
#[test]
fn a_queue_is_followed_back_to_its_beginning() {
    let half = Nanos(THRESHOLD.0 / 2);
    let mut feedback = Feedback::new(rate(CEILING));
    for delay in [Some(MS(30)), Some(half), Some(half + Nanos(1)), None, Some(MS(30))] {
        feedback.history.push_back(Epoch { delay, ..epoch(FULL, true, (0, 0), None) });
    }
    assert_eq!(feedback.queued().count(), 3);
}

/// From the first instant at which the line was surely not idle: in the queue, or before it where all of the pace was used.
#[test]
fn what_a_line_carried_is_counted_from_where_it_was_busy() {
    let carried = |epochs: &[Epoch], is_trial: bool| {
        let mut feedback = Feedback::new(rate(CEILING));
        feedback.history.extend(epochs);
        feedback.trial = is_trial.then_some(Trial { rate_before: CEILING, signal: Signal::Loss(1), cuts: 1 });
        feedback.carried()
    };
    let before = |used| epoch(used, false, (0, 0), Some((100, 0)));
    let first = |used| epoch(used, true, (100, 50_000), Some((200, 100_000)));
    let last = epoch(FULL, true, (200, 130_000), Some((300, 220_000)));
    // 220,000 bytes in 200 ms, or 120,000 in 100.
    assert_eq!(carried(&[before(FULL), first(FULL), last], false), Some(8_800_000));
    assert_eq!(carried(&[before(899), first(FULL), last], false), Some(9_600_000));
    assert_eq!(carried(&[before(FULL), first(899), last], false), Some(9_600_000));
    // With the queue our memory begins: when the pace changed the line was busy, but not behind a cut that emptied it.
    assert_eq!(carried(&[first(FULL), last], false), Some(6_800_000));
    assert_eq!(carried(&[first(FULL), last], true), Some(9_600_000));
    // A queue as long as our memory: what was before is not known.
    let long: Vec<Epoch> = (0..HISTORY_MAX as u64 - 1).map(|_| first(FULL)).chain([last]).collect();
    assert_eq!(carried(&long, false), Some(9_600_000));
    // Too short a time to tell, and nothing to tell it by.
    let soon = epoch(FULL, true, (200, 130_000), Some((259, 220_000)));
    assert_eq!(carried(&[before(899), first(FULL), soon], false), None);
    let unseen = epoch(FULL, true, (200, 130_000), None);
    assert_eq!(carried(&[before(FULL), first(FULL), unseen], false), None);
}
