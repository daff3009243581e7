//! Clients that were never seen without a queue, because responses have waited since they came: their whole round trip
//! may be the queue's delay.

use super::*;

const EVERY_MS: u64 = 50;
const PACE: u64 = 9_841_135;

/// A line that carries every pace, and two clients behind it.
struct Line {
    estimator: Estimator,
    at_ms: u64,
    charged: u64,
    slowest: u64,
    notices: Vec<Notice>,
}

impl Line {
    /// Runs for a second with round trips of this length.
    fn run(&mut self, rtt: Option<Nanos>) {
        let until_ms = self.at_ms + 1000;
        while self.at_ms < until_ms {
            self.at_ms += EVERY_MS;
            let now = Nanos::from_millis(self.at_ms);
            let bytes = self.estimator.pace.unwrap_or_default() * EVERY_MS / 8000;
            self.charged += bytes;
            for client in [1, 2, 1, 2] {
                let look = Look { rtt, sent_bytes: bytes / 4, delivered_bytes: bytes / 4, ..Look::default() };
                self.estimator.on_look(now, self.charged, || client, look);
            }
            self.notices.extend(self.estimator.judge(now, self.charged).and_then(|change| change.notice));
            self.slowest = self.slowest.min(self.estimator.pace.unwrap_or_default());
        }
    }
}

/// A cut has emptied a queue of 14 ms before clients 30 ms away. No round trip of these clients is less than half of
/// its former length. None is longer than the shortest; or all are, by the three or four packets that leave at once,
/// which is less than counts as a queue.
#[test]
fn the_path_of_clients_never_seen_without_a_queue_is_no_queue_of_others() {
    let after = [(None, 30), (Some(30), 34)];
    for (cuts, (first_ms, after_ms)) in (1..=CUTS_MAX).flat_map(|cuts| after.map(|after| (cuts, after))) {
        let mut estimator = Estimator::new("auto".parse().unwrap());
        estimator.pace = Some(PACE);
        let mut line = Line { estimator, at_ms: 0, charged: 10 * EMPTY_BYTES, slowest: PACE, notices: vec![] };
        line.run(None);
        line.run(first_ms.map(Nanos::from_millis));
        line.estimator.change(Nanos::from_millis(line.at_ms), line.charged, Some(PACE), None);
        let signal = Signal::Delay(Nanos::from_millis(44));
        line.estimator.trial = Some(Trial { pace_before: Some(PACE), signal, arrived: true, cuts, unqueued: 0 });
        (0..3).for_each(|_| line.run(Some(Nanos::from_millis(after_ms))));
        assert_eq!(line.slowest, PACE, "{cuts} cuts: {:?}", line.notices);
        let is_others = line.notices.iter().any(|notice| matches!(notice, Notice::Others { .. }));
        assert!(!is_others, "{cuts} cuts: {:?}", line.notices);
    }
}
