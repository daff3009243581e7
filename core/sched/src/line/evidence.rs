//! The observations of one interval, and what they prove about the queue that all clients share.

use units::Nanos;

use super::clients::DelayBounds;

/// Clients distinguished in one interval; of more, the first count.
const VOTERS_MAX: usize = 16;
/// Fewer round trips than this prove nothing.
const SAMPLES_MIN: u32 = 2;

#[derive(Debug, Clone, Copy)]
struct Voter {
    client: u64,
    /// The minimum delay of the queue by its round trips; `None` before the first of them.
    at_least: Option<Nanos>,
    lost_bytes: u64,
}

/// The lowest upper bound of the delay, from a round trip that ended at `seen_at`.
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
    rtt_max: Nanos,
}

impl Evidence {
    pub fn clear(&mut self) {
        self.voters.clear();
        (self.samples, self.least, self.rtt_max) = (0, None, Nanos::ZERO);
    }

    pub fn on_round_trip(&mut self, now: Nanos, client: u64, rtt: Nanos, bounds: DelayBounds) {
        self.samples += 1;
        self.rtt_max = self.rtt_max.max(rtt);
        if self.least.is_none_or(|least| bounds.at_most < least.delay) {
            self.least = Some(Least { delay: bounds.at_most, seen_at: now });
        }
        if let Some(voter) = self.voter(client) {
            voter.at_least = Some(voter.at_least.map_or(bounds.at_least, |least| least.min(bounds.at_least)));
        }
    }

    pub fn on_lost(&mut self, client: u64, bytes: u64) {
        if let Some(voter) = self.voter(client) {
            voter.lost_bytes += bytes;
        }
    }

    /// The maximum delay of the shared queue; `None` if there were too few round trips.
    pub fn delay(&self) -> Option<Least> {
        self.least.filter(|_| self.samples >= SAMPLES_MIN)
    }

    /// Returns whether a queue longer than this delays all clients: none saw less, and two clients, or the only one,
    /// saw more all the time. A single client among others may be behind a slow link of its own.
    pub fn is_queued(&self, threshold: Nanos) -> bool {
        let votes = self.voters.iter().filter_map(|voter| voter.at_least);
        let (all, queued) = votes.fold((0, 0), |(all, queued), least| (all + 1, queued + u32::from(least > threshold)));
        self.delay().is_some_and(|least| least.delay > threshold) && queued >= 1 && (queued >= 2 || all == 1)
    }

    /// Returns whether two clients, or the only one, meet a queue or losses, whatever others meet: each may have a
    /// queue of its own.
    pub fn is_congested(&self, threshold: Nanos) -> bool {
        let is_met = |voter: &&Voter| voter.lost_bytes > 0 || voter.at_least.is_some_and(|least| least > threshold);
        let met = self.voters.iter().filter(is_met).count();
        met >= 2 || met == 1 && self.voters.len() == 1
    }

    /// Bytes lost; with several clients, without those of the client that lost most, because its own path may lose
    /// them.
    pub fn lost_by_all_bytes(&self) -> u64 {
        let losses = self.voters.iter().map(|voter| voter.lost_bytes);
        let (all, most) = (losses.clone().sum::<u64>(), losses.max().unwrap_or(0));
        if self.voters.len() > 1 { all - most } else { all }
    }

    /// The number of round trips seen.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// The longest round trip seen.
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
        self.voters.push(Voter { client, at_least: None, lost_bytes: 0 });
        self.voters.last_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn evidence(samples: &[(u64, u64, u64)]) -> Evidence {
        let mut evidence = Evidence::default();
        for (client, at_least, at_most) in samples {
            let bounds = DelayBounds { at_least: MS(*at_least), at_most: MS(*at_most) };
            evidence.on_round_trip(MS(0), *client, MS(100), bounds);
        }
        evidence
    }

    #[test]
    fn everybody_has_to_be_delayed() {
        assert!(evidence(&[(1, 30, 30), (1, 30, 30)]).is_queued(MS(5)));
        assert!(evidence(&[(1, 30, 30), (2, 25, 40)]).is_queued(MS(5)));
        // A client that is not delayed, known or not, is proof.
        assert!(!evidence(&[(1, 30, 30), (2, 30, 30), (3, 0, 4)]).is_queued(MS(5)));
        // A single client among strangers may have a slow link.
        assert!(!evidence(&[(1, 30, 30), (2, 0, 90), (3, 0, 80)]).is_queued(MS(5)));
        // Ordinary variation is no queue; nor is a single look.
        assert!(!evidence(&[(1, 0, 30), (1, 0, 30)]).is_queued(MS(5)));
        assert!(!evidence(&[(1, 30, 30)]).is_queued(MS(5)));
    }

    #[test]
    fn a_delay_of_the_threshold_is_no_queue() {
        assert!(!evidence(&[(1, 5, 6), (1, 5, 6)]).is_queued(MS(5)));
        assert!(!evidence(&[(1, 6, 6), (2, 6, 6), (3, 0, 5)]).is_queued(MS(5)));
        assert!(evidence(&[(1, 6, 6), (2, 6, 6), (3, 0, 6)]).is_queued(MS(5)));
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
