//! The shortest round trip among recent handshakes, which shows whether a client is near.

use units::Nanos;

/// The number of handshakes in a window. Then a new window begins.
const HANDSHAKES: u32 = 64;

/// The shortest round trip of the last 64 to 128 handshakes ([`HANDSHAKES`] to twice as many).
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    count: u32,
    least: Option<Nanos>,
    before: Option<Nanos>,
}

impl Handshakes {
    /// Records the time from a SYN-ACK to the request that followed.
    pub fn on_round_trip(&mut self, rtt: Nanos) {
        if self.count == HANDSHAKES {
            (self.count, self.before, self.least) = (0, self.least, None);
        }
        self.count += 1;
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    pub fn shortest(&self) -> Option<Nanos> {
        self.least.into_iter().chain(self.before).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_recent_ones_counts_and_older_ones_are_forgotten() {
        let mut handshakes = Handshakes::default();
        assert_eq!(handshakes.shortest(), None);
        let (near, far) = (Nanos::from_micros(60), Nanos::from_millis(50));
        [far, near, far].into_iter().for_each(|rtt| handshakes.on_round_trip(rtt));
        (3..2 * HANDSHAKES).for_each(|_| handshakes.on_round_trip(far));
        assert_eq!(handshakes.shortest(), Some(near), "it is among those before");
        handshakes.on_round_trip(far);
        assert_eq!(handshakes.shortest(), Some(far));
    }
}
