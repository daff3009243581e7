//! Requests that announce themselves: a SYN-ACK that leaves is a request that comes.
//!
//! On a new connection a response waits twice. Its SYN-ACK waits for the packet on the line, which nobody can help. But while the
//! SYN-ACK leaves, the link seems free, the next packet of a long response is handed down, and the request, which comes when the
//! SYN-ACK has arrived, waits for all of that too: 0.73 ms of a mean of 8.8 at 10 Mbit/s and a load of 0.8. So where clients are near,
//! the next packet of a long response is held until the request can be here.
//!
//! Who hands down bytes is not told of handshakes: the kernel answers a SYN by itself. But the interface counts what it sends, and
//! packets that we did not hand down are SYN-ACKs and acknowledgements, of known and different lengths.
//!
//! Holding leaves the link idle when nobody comes, so it is bounded: by the shortest handshake seen lately, none where that is
//! long beside a grant, and in all by [`IDLE_PERMILLE`] of the link.

use units::wire::Framing;
use units::{Nanos, Rate};

/// What an interface has sent so far, as it counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passed {
    pub bytes: u64,
    pub packets: u64,
}

/// Of the link's time so much may be lost to those who did not come, in thousandths.
const IDLE_PERMILLE: u64 = 5;
/// Not used before, no more than this can be lost at once.
const CREDIT_MAX: Nanos = Nanos::from_millis(1);
/// From the arrival of a request to its response being ready: an event loop, a parser and another thread.
const HANDOVER: Nanos = Nanos::from_micros(50);
/// So many SYN-ACKs between two looks are a flood, and nobody is waited for.
const CROWD: u64 = 8;
/// Handshakes of which the shortest counts; then the count begins again.
const HANDSHAKES: u32 = 64;

#[derive(Debug, Default)]
pub(crate) struct Heralds {
    last: Option<Passed>,
    own: Own,
    /// Of the newest connection.
    framing: Framing,
    /// SYN-ACKs seen at the last look whose requests had not come. Near clients ask before the next, others are not waited for.
    waiting: u64,
    /// A request came while another was waited for too.
    is_interrupted: bool,
    /// Requests that came since the last look.
    came: u64,
    handshakes: Handshakes,
    /// Time of the link that may still be lost, in thousandths of a nanosecond.
    credit: u64,
    hold: Option<Hold>,
}

/// What was handed down and was not seen to pass yet.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    payload_bytes: u64,
    segments: u64,
    hand_downs: u64,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    /// When the SYN-ACKs will have left: what follows is lost.
    idle_at: Nanos,
    until: Nanos,
}

/// The shortest of the last [`HANDSHAKES`] to twice as many.
#[derive(Debug, Default)]
struct Handshakes {
    count: u32,
    least: Option<Nanos>,
    before: Option<Nanos>,
}

impl Handshakes {
    fn on_round_trip(&mut self, rtt: Nanos) {
        if self.count == HANDSHAKES {
            (self.count, self.before, self.least) = (0, self.least, None);
        }
        self.count += 1;
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    fn least(&self) -> Option<Nanos> {
        self.least.into_iter().chain(self.before).min()
    }
}

impl Own {
    /// As an interface may count it: packet by packet, or as it was handed down.
    fn as_passed(&self, header_bytes: u64) -> [Passed; 2] {
        [self.segments, self.hand_downs]
            .map(|packets| Passed { bytes: self.payload_bytes + packets * header_bytes, packets })
    }
}

impl Heralds {
    /// A response is ready, on a connection of this framing.
    pub fn on_arrival(&mut self, now: Nanos, framing: Framing) {
        if framing.has_syn_ack() {
            self.framing = framing;
        }
        self.came += 1;
        self.is_interrupted = self.hold.is_some();
        self.end_hold(now);
    }

    /// The round trip of a handshake, from the SYN-ACK to the request.
    pub fn on_handshake(&mut self, rtt: Nanos) {
        self.handshakes.on_round_trip(rtt);
    }

    /// Of those seen lately.
    pub fn shortest_handshake(&self) -> Option<Nanos> {
        self.handshakes.least()
    }

    /// Bytes were handed down in one piece, and take this time of the link.
    pub fn on_sent(&mut self, payload_bytes: u64, segment_bytes: u64, takes: Nanos) {
        if payload_bytes > 0 {
            self.own.payload_bytes += payload_bytes;
            self.own.segments += payload_bytes.div_ceil(segment_bytes);
            self.own.hand_downs += 1;
        }
        self.credit = (self.credit + takes.0 * IDLE_PERMILLE).min(CREDIT_MAX.0 * 1000);
    }

    /// The counters of the interface, when a grant could be made that takes the link for `grant_for`; all that is below us has left
    /// at `idle_at`.
    pub fn on_passed(&mut self, now: Nanos, passed: Passed, idle_at: Nanos, link: Rate, grant_for: Nanos) {
        self.count(passed);
        let is_announced = (1..CROWD).contains(&self.waiting) && self.hold.is_none();
        let Some(rtt) = self.shortest_handshake().filter(|_| is_announced) else { return };
        let syn_ack_for = link.time_for(self.framing.syn_ack_bytes);
        let idle_at = idle_at.max(now) + Nanos(syn_ack_for.0 * self.waiting);
        let until = idle_at + (rtt - syn_ack_for) + HANDOVER;
        let (lost, limit) = (until - idle_at, Nanos(grant_for.0 / 4));
        if lost <= limit && Nanos(self.credit / 1000) >= lost {
            self.hold = Some(Hold { idle_at, until });
        }
    }

    /// Until when the next packet of a long response is held.
    pub fn held_until(&self) -> Option<Nanos> {
        self.hold.map(|hold| hold.until)
    }

    /// Whether it is held now. Those who have not come by the end are not waited for again.
    pub fn holds(&mut self, now: Nanos) -> bool {
        if self.hold.is_some_and(|hold| now >= hold.until) {
            self.end_hold(now);
            self.waiting = 0;
        }
        self.hold.is_some()
    }

    fn end_hold(&mut self, now: Nanos) {
        if let Some(hold) = self.hold.take() {
            let lost = now.min(hold.until) - hold.idle_at;
            self.credit = self.credit.saturating_sub(lost.0 * 1000);
        }
    }

    /// Finds out how many SYN-ACKs passed since the last look.
    fn count(&mut self, passed: Passed) {
        let Some(last) = self.last.replace(passed) else {
            (self.own, self.came) = (Own::default(), 0);
            return;
        };
        let since =
            Passed { bytes: passed.bytes.wrapping_sub(last.bytes), packets: passed.packets.wrapping_sub(last.packets) };
        let all_left = self.own.as_passed(self.framing.header_bytes);
        let (syn_acks, has_left) = match all_left.iter().find_map(|own| self.syn_acks(since, *own)) {
            Some(syn_acks) => (syn_acks, true),
            // Or ours waits for a token, or for a window.
            None => match self.syn_acks(since, Passed::default()) {
                Some(syn_acks) => (syn_acks, false),
                None => (0, true),
            },
        };
        if has_left {
            self.own = Own::default();
        }
        let before = if std::mem::take(&mut self.is_interrupted) { self.waiting } else { 0 };
        let left = (self.waiting + syn_acks).saturating_sub(std::mem::take(&mut self.came));
        self.waiting = left.min(before + syn_acks);
    }

    /// How many of the packets that are not ours are SYN-ACKs, if the others are acknowledgements; `None` if that cannot be.
    fn syn_acks(&self, since: Passed, own: Passed) -> Option<u64> {
        let packets = since.packets.checked_sub(own.packets)?;
        let bytes = since.bytes.checked_sub(own.bytes)?;
        let longer = bytes.checked_sub(packets.checked_mul(self.framing.header_bytes)?)?;
        let by = self.framing.syn_ack_bytes - self.framing.header_bytes;
        (longer.is_multiple_of(by) && longer / by <= packets).then_some(longer / by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing::ETHERNET;
    const NOW: Nanos = Nanos::from_secs(1);
    /// What a full packet takes at 10 Mbit/s.
    const GRANT_FOR: Nanos = Nanos(1_211_200);
    const SYN_ACK_FOR: Nanos = Nanos(59_200);

    struct Bench {
        heralds: Heralds,
        passed: Passed,
    }

    impl Bench {
        /// Where the shortest handshake took so long on top of its SYN-ACK's time, and a second was used.
        fn new(turnaround: Nanos) -> Bench {
            let mut heralds = Heralds { framing: FRAMING, ..Heralds::default() };
            heralds.on_handshake(SYN_ACK_FOR + turnaround + Nanos::from_millis(3));
            heralds.on_handshake(SYN_ACK_FOR + turnaround);
            heralds.on_sent(0, FRAMING.segment_bytes, Nanos::from_secs(1));
            let mut bench = Bench { heralds, passed: Passed::default() };
            bench.look(0, 0);
            bench
        }

        /// So much more has passed; gives until when is held.
        fn look(&mut self, bytes: u64, packets: u64) -> Option<Nanos> {
            self.passed.bytes += bytes;
            self.passed.packets += packets;
            self.heralds.on_passed(NOW, self.passed, NOW, "10mbit".parse().unwrap(), GRANT_FOR);
            self.heralds.held_until().map(|until| until - NOW)
        }

        fn send(&mut self, payload_bytes: u64) {
            self.heralds.on_sent(payload_bytes, FRAMING.segment_bytes, Nanos::ZERO);
        }
    }

    #[test]
    fn a_syn_ack_holds_the_link_until_its_request_can_be_here() {
        let near = Nanos::from_micros(100);
        assert_eq!(Bench::new(near).look(74, 1), Some(SYN_ACK_FOR + near + HANDOVER));
        assert_eq!(Bench::new(near).look(2 * 74 + 66, 3), Some(SYN_ACK_FOR + SYN_ACK_FOR + near + HANDOVER));
        assert_eq!(Bench::new(near).look(66, 1), None, "an acknowledgement announces nobody");
        assert_eq!(Bench::new(near).look(0, 0), None);
    }

    #[test]
    fn what_we_handed_down_is_told_from_a_syn_ack_however_it_is_counted() {
        for (bytes, packets) in [(2 * 1514, 2), (2 * 1448 + 66, 1)] {
            let mut bench = Bench::new(Nanos::ZERO);
            bench.send(2 * 1448);
            assert_eq!(bench.look(bytes, packets), None, "{packets}");
            bench.send(2 * 1448);
            assert!(bench.look(bytes + 74, packets + 1).is_some(), "{packets}");
        }
    }

    #[test]
    fn what_waits_below_is_remembered() {
        let mut bench = Bench::new(Nanos::ZERO);
        bench.send(1448);
        assert_eq!(bench.look(66, 1), None);
        assert!(bench.look(1514 + 74, 2).is_some());
    }

    /// Others' packets are no sign, and do not stay in the way of later ones.
    #[test]
    fn what_cannot_be_ours_announces_nobody() {
        let mut bench = Bench::new(Nanos::ZERO);
        assert_eq!(bench.look(1514, 1), None);
        assert_eq!(bench.look(100, 1), None);
        assert!(bench.look(74, 1).is_some());
    }

    #[test]
    fn who_has_come_is_not_waited_for() {
        let mut bench = Bench::new(Nanos::ZERO);
        bench.heralds.on_arrival(NOW, FRAMING);
        assert_eq!(bench.look(74, 1), None, "came before its SYN-ACK was seen");
        assert!(bench.look(2 * 74, 2).is_some());
        bench.heralds.on_arrival(NOW, FRAMING);
        assert_eq!(bench.heralds.held_until(), None);
        assert!(bench.look(0, 0).is_some(), "one of two");
        bench.heralds.on_arrival(NOW, FRAMING);
        assert_eq!(bench.look(0, 0), None);
    }

    /// One of those seen before came, so the new one is still to come; it did not count as the new one's.
    #[test]
    fn who_comes_late_is_not_taken_for_the_next() {
        let mut bench = Bench::new(Nanos::ZERO);
        bench.heralds.credit = 0;
        assert_eq!(bench.look(74, 1), None, "nothing to lose");
        bench.heralds.on_arrival(NOW, FRAMING);
        bench.heralds.credit = CREDIT_MAX.0 * 1000;
        assert!(bench.look(74, 1).is_some());
    }

    #[test]
    fn a_flood_announces_nobody_now_or_later() {
        let mut bench = Bench::new(Nanos::ZERO);
        assert_eq!(bench.look(CROWD * 74, CROWD), None);
        assert_eq!(bench.look(0, 0), None);
        let few = Bench::new(Nanos::ZERO).look((CROWD - 1) * 74, CROWD - 1).unwrap();
        assert_eq!(few, Nanos(SYN_ACK_FOR.0 * (CROWD - 1)) + HANDOVER);
        assert_eq!(bench.look(74, 1), Some(SYN_ACK_FOR + HANDOVER), "those of before are not waited for");
    }

    #[test]
    fn who_does_not_come_is_waited_for_once() {
        let mut bench = Bench::new(Nanos::ZERO);
        let until = NOW + bench.look(74, 1).unwrap();
        assert!(bench.heralds.holds(until - Nanos(1)));
        assert!(!bench.heralds.holds(until));
        assert_eq!(bench.look(0, 0), None);
    }

    #[test]
    fn far_clients_are_not_waited_for() {
        let limit = Nanos(GRANT_FOR.0 / 4);
        assert!(Bench::new(limit - HANDOVER).look(74, 1).is_some());
        assert_eq!(Bench::new(limit - HANDOVER + Nanos(1)).look(74, 1), None);
        let mut bench = Bench::new(Nanos::ZERO);
        (0..2 * HANDSHAKES).for_each(|_| bench.heralds.on_handshake(Nanos::from_millis(50)));
        assert_eq!(bench.look(74, 1), None, "near ones came long ago");
        assert_eq!(Bench { heralds: Heralds::default(), passed: Passed::default() }.look(74, 1), None);
    }

    /// Whoever sends SYNs and asks nothing costs five thousandths of the link.
    #[test]
    fn only_so_much_of_the_link_is_lost() {
        let mut bench = Bench::new(Nanos::ZERO);
        let mut holds = 0;
        while let Some(until) = bench.look(74, 1) {
            assert!(!bench.heralds.holds(NOW + until));
            holds += 1;
        }
        assert_eq!(holds, CREDIT_MAX.0 / HANDOVER.0);
        let used = Nanos(HANDOVER.0 * 1000 / IDLE_PERMILLE);
        bench.heralds.on_sent(0, FRAMING.segment_bytes, used - Nanos(1));
        assert_eq!(bench.look(74, 1), None);
        bench.heralds.on_sent(0, FRAMING.segment_bytes, Nanos(1));
        assert!(bench.look(74, 1).is_some());
    }

    /// While the SYN-ACK leaves nothing is lost.
    #[test]
    fn who_comes_at_once_costs_nothing() {
        let mut bench = Bench::new(Nanos::ZERO);
        for _ in 0..100 {
            assert!(bench.look(74, 1).is_some());
            bench.heralds.on_arrival(NOW + SYN_ACK_FOR, FRAMING);
        }
    }
}
