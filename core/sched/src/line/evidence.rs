//! Collects the observations of one interval: the evidence about the queue that all clients share.

use units::Nanos;

use super::clients::{DelayBounds, Kind};

/// The maximum number of clients distinguished in one interval; the first ones count.
const VOTERS_MAX: usize = 16;
/// The minimum number of round trips that prove anything.
const SAMPLES_MIN: u32 = 2;

#[derive(Debug, Clone, Copy)]
struct Voter {
    client: u64,
    /// The minimum delay of the queue according to this client's round trips. Vague ones count only if there are no
    /// others. `None` before the first round trip.
    at_least: Option<Nanos>,
    is_vague: bool,
    handshakes: Handshakes,
    lost_bytes: u64,
}

/// The round trips of handshakes: their number, their smallest excess over the minimum, and their variation.
#[derive(Debug, Clone, Copy, Default)]
struct Handshakes {
    count: u32,
    at_least: Nanos,
    noise: Nanos,
}

/// The lowest upper bound of the delay, with the time `seen_at` at which its round trip ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Least {
    pub delay: Nanos,
    pub seen_at: Nanos,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    voters: Vec<Voter>,
    samples: u32,
    least: Option<Least>,
    /// For the round trips that are not vague: their number and lowest upper bound.
    clear: (u32, Option<Least>),
    rtt_max: Nanos,
}

impl Evidence {
    pub fn clear(&mut self) {
        self.voters.clear();
        (self.samples, self.least, self.clear, self.rtt_max) = (0, None, (0, None), Nanos::ZERO);
    }

    pub fn on_round_trip(&mut self, now: Nanos, client: u64, rtt: Nanos, bounds: DelayBounds) {
        self.samples += 1;
        self.rtt_max = self.rtt_max.max(rtt);
        let seen = Least { delay: bounds.at_most, seen_at: now };
        let is_less = |least: &Option<Least>| least.is_none_or(|least| seen.delay < least.delay);
        if is_less(&self.least) {
            self.least = Some(seen);
        }
        if bounds.kind != Kind::Vague {
            let (samples, least) = self.clear;
            self.clear = (samples + 1, if is_less(&least) { Some(seen) } else { least });
        }
        if let Some(voter) = self.voter(client) {
            voter.see(bounds);
        }
    }

    pub fn on_lost(&mut self, client: u64, bytes: u64) {
        if let Some(voter) = self.voter(client) {
            voter.lost_bytes += bytes;
        }
    }

    /// Returns the maximum delay of the shared queue; `None` if there were too few round trips.
    pub fn delay(&self) -> Option<Least> {
        let (samples, least) = if self.is_clear() { self.clear } else { (self.samples, self.least) };
        least.filter(|_| samples >= SAMPLES_MIN)
    }

    /// Returns whether enough round trips are not vague, so that the vague ones are ignored.
    fn is_clear(&self) -> bool {
        self.clear.0 >= SAMPLES_MIN
    }

    /// Returns whether round trips that are not vague show that the queue is no longer than this.
    pub fn is_gone(&self, threshold: Nanos) -> bool {
        self.is_clear() && self.clear.1.is_some_and(|least| least.delay <= threshold)
    }

    /// Returns the shortest delay so far; `None` before the first round trip.
    pub fn least(&self) -> Option<Nanos> {
        self.clear.1.or(self.least).map(|least| least.delay)
    }

    /// Returns whether handshakes were among the round trips.
    pub fn has_handshakes(&self) -> bool {
        self.voters.iter().any(|voter| voter.handshakes.count > 0)
    }

    /// Returns whether a queue longer than this delays all clients: no client saw less, and at least two clients, or
    /// the only one, always saw more. A single client among others may be behind a slow link of its own.
    pub fn is_queued(&self, threshold: Nanos) -> bool {
        let is_counted = |voter: &&Voter| !(self.is_clear() && voter.are_all_vague());
        let votes = self.voters.iter().filter(is_counted).filter_map(Voter::at_least);
        let (all, queued) = votes.fold((0, 0), |(all, queued), least| (all + 1, queued + u32::from(least > threshold)));
        self.delay().is_some_and(|least| least.delay > threshold) && queued >= 1 && (queued >= 2 || all == 1)
    }

    /// Returns whether two clients, or the only one, see a queue or losses, regardless of the other clients. Each of
    /// these clients may have a queue of its own.
    pub fn is_congested(&self, threshold: Nanos) -> bool {
        let is_met = |voter: &&Voter| voter.lost_bytes > 0 || voter.at_least().is_some_and(|least| least > threshold);
        let met = self.voters.iter().filter(is_met).count();
        met >= 2 || met == 1 && self.voters.len() == 1
    }

    /// Returns the bytes lost. With several clients, the bytes of the client that lost most are left out, because its
    /// own path may lose them.
    pub fn lost_by_all_bytes(&self) -> u64 {
        let losses = self.voters.iter().map(|voter| voter.lost_bytes);
        let (all, most) = (losses.clone().sum::<u64>(), losses.max().unwrap_or(0));
        if self.voters.len() > 1 { all - most } else { all }
    }

    /// Returns the number of round trips seen.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the longest round trip seen.
    pub fn rtt_max(&self) -> Nanos {
        self.rtt_max
    }

    fn voter(&mut self, client: u64) -> Option<&mut Voter> {
        if let Some(at) = self.voters.iter().position(|voter| voter.client == client) {
            return Some(&mut self.voters[at]);
        }
        if self.voters.len() == VOTERS_MAX {
            return None;
        }
        self.voters.push(Voter {
            client,
            at_least: None,
            is_vague: true,
            handshakes: Handshakes::default(),
            lost_bytes: 0,
        });
        self.voters.last_mut()
    }
}

impl Voter {
    /// Records a round trip. A vague one is ignored if there are others.
    fn see(&mut self, bounds: DelayBounds) {
        let is_vague = bounds.kind == Kind::Vague;
        if is_vague && !self.is_vague {
            return;
        }
        if self.is_vague && !is_vague {
            (self.is_vague, self.at_least) = (false, None);
        }
        let at_least = match bounds.kind {
            Kind::Handshake => {
                let above = bounds.at_least + bounds.noise;
                let Handshakes { count, at_least, .. } = self.handshakes;
                let at_least = if count == 0 { above } else { at_least.min(above) };
                self.handshakes = Handshakes { count: count + 1, at_least, noise: bounds.noise };
                return;
            }
            Kind::Data | Kind::Vague => bounds.at_least,
        };
        self.at_least = Some(self.at_least.map_or(at_least, |least| least.min(at_least)));
    }

    fn are_all_vague(&self) -> bool {
        self.is_vague && self.handshakes.count == 0
    }

    /// Returns the minimum delay of the queue; `None` without round trips.
    fn at_least(&self) -> Option<Nanos> {
        let Handshakes { count, at_least, noise } = self.handshakes;
        // The more handshakes there are, the less likely it is that all are long by themselves.
        let handshakes = (count > 0).then(|| at_least - Nanos(noise.0 / u64::from(count.max(1))));
        handshakes.into_iter().chain(self.at_least).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn evidence(samples: &[(u64, u64, u64)]) -> Evidence {
        let mut evidence = Evidence::default();
        for (client, at_least, at_most) in samples {
            let bounds = DelayBounds { at_least: MS(*at_least), at_most: MS(*at_most), kind: Kind::Data, noise: MS(0) };
            evidence.on_round_trip(MS(0), *client, MS(100), bounds);
        }
        evidence
    }

    #[test]
    fn everybody_has_to_be_delayed() {
        assert!(evidence(&[(1, 30, 30), (1, 30, 30)]).is_queued(MS(5)));
        assert!(evidence(&[(1, 30, 30), (2, 25, 40)]).is_queued(MS(5)));
        // A client without delay, known or not, is proof.
        assert!(!evidence(&[(1, 30, 30), (2, 30, 30), (3, 0, 4)]).is_queued(MS(5)));
        // A single client among strangers may have a slow link.
        assert!(!evidence(&[(1, 30, 30), (2, 0, 90), (3, 0, 80)]).is_queued(MS(5)));
        // Ordinary variation is not a queue, and a single look is not evidence of one.
        assert!(!evidence(&[(1, 0, 30), (1, 0, 30)]).is_queued(MS(5)));
        assert!(!evidence(&[(1, 30, 30)]).is_queued(MS(5)));
    }

    #[test]
    fn a_delay_of_the_threshold_is_no_queue() {
        assert!(!evidence(&[(1, 5, 6), (1, 5, 6)]).is_queued(MS(5)));
        assert!(!evidence(&[(1, 6, 6), (2, 6, 6), (3, 0, 5)]).is_queued(MS(5)));
        assert!(evidence(&[(1, 6, 6), (2, 6, 6), (3, 0, 6)]).is_queued(MS(5)));
    }

    /// Vague round trips may be too long by a wait in front of the line, and too short if that wait was estimated.
    #[test]
    fn vague_round_trips_count_only_where_there_are_no_others() {
        let evidence_of = |trips: &[(bool, u64)]| {
            let mut evidence = evidence(&[]);
            for (is_vague, ms) in trips {
                let kind = if *is_vague { Kind::Vague } else { Kind::Data };
                let bounds = DelayBounds { at_least: MS(*ms), at_most: MS(ms + 1), kind, noise: MS(0) };
                [1, 2].into_iter().for_each(|client| evidence.on_round_trip(MS(0), client, MS(20), bounds));
            }
            evidence
        };
        for trips in [[(true, 0), (false, 8), (true, 0)], [(false, 8), (true, 0), (false, 8)]] {
            let evidence = evidence_of(&trips);
            assert!(evidence.is_queued(MS(5)) && !evidence.is_queued(MS(8)), "{trips:?}");
            assert_eq!(evidence.delay().map(|least| least.delay), Some(MS(9)));
        }
        assert!(evidence_of(&[(true, 8)]).is_queued(MS(5)) && !evidence_of(&[(true, 0)]).is_queued(MS(5)));
    }

    #[test]
    fn many_handshakes_show_a_queue_that_few_do_not() {
        let bounds = DelayBounds { at_least: MS(1), at_most: MS(9), kind: Kind::Handshake, noise: MS(8) };
        let is_queued = |count: usize| {
            let mut evidence = evidence(&[]);
            for _ in 0..count {
                [1, 2].into_iter().for_each(|client| evidence.on_round_trip(MS(0), client, MS(20), bounds));
            }
            evidence.is_queued(MS(5))
        };
        assert_eq!([1, 2, 3, 8].map(is_queued), [false, false, true, true]);
    }

    #[test]
    fn losses_of_one_client_among_others_are_its_own() {
        let mut evidence = evidence(&[]);
        evidence.on_lost(1, 100);
        assert_eq!(evidence.lost_by_all_bytes(), 100);
        evidence.on_lost(2, 3);
        assert_eq!(evidence.lost_by_all_bytes(), 3);
        evidence.on_lost(3, 500);
        assert_eq!(evidence.lost_by_all_bytes(), 103);
        evidence.on_lost(1, 1000);
        assert_eq!(evidence.lost_by_all_bytes(), 503);
    }

    #[test]
    fn more_clients_than_are_told_apart_change_nothing() {
        let clients = 0..10 * VOTERS_MAX as u64;
        let evidence = evidence(&clients.map(|client| (client, 30, 30)).collect::<Vec<_>>());
        assert_eq!(evidence.voters.len(), VOTERS_MAX);
        assert!(evidence.is_queued(MS(5)));
    }
}
