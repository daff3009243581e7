//! Measures the queue ahead by round trips, and remembers them per client: a connection that starts while a queue
//! stands never sees a shorter round trip.
//!
//! A client is an address (or its prefix), given as a hash. Its shortest round trip of the last minute or two is its
//! base. Round trips also vary by themselves (jitter, delayed acknowledgements, the client's own access link); the size
//! of this variation is learned while there is no queue that could cause it.

use units::Nanos;

use super::Estimator;

/// The maximum number of clients remembered, at 64 bytes each.
pub const CLIENTS_MAX: usize = 4096;
/// The number of clients per set of the table; the one seen least recently is evicted.
const WAYS: usize = 4;
/// The minimum age of the window whose shortest round trip is the base; the maximum is twice this. After that time a
/// path that became longer is accepted as such.
const BASE_WINDOW: Nanos = Nanos::from_secs(60);
/// The divisor that weights a new deviation in the mean.
const NOISE_GAIN: u64 = 8;

/// Our load when a round trip was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// We sent at the full pace: the queue may be ours.
    Full,
    /// We sent at the full pace, and clients known before saw no queue, or only a queue with this delay or less.
    Unqueued { delay: Nanos },
    /// We sent so little that no queue can be ours.
    Light,
}

/// The bounds of the delay of the queue that all clients share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DelayBounds {
    /// The growth of the client's round trip since it became known; less than the delay if it began in a queue.
    pub at_least: Nanos,
    /// The client's whole delay, which is an upper bound: a queue that all clients share delays this client too.
    pub at_most: Nanos,
    pub kind: Kind,
    /// The part of `at_least` by which round trips vary by themselves.
    pub noise: Nanos,
}

/// The source of a round trip's measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A handshake. Each is an independent measurement.
    Handshake,
    /// Data. The kernel smooths the value, so each resembles the one before.
    Data,
    /// A vague measurement ([`super::Look::is_vague`]).
    Vague,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Trip {
    pub rtt: Nanos,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy)]
struct Client {
    key: u64,
    seen_at: Nanos,
    /// The minimum round trips of the previous window and of the current one.
    least: [Nanos; 2],
    window_began: Nanos,
    /// The mean by which round trips exceed the base, without the delay of a short queue: first of clear round trips,
    /// then of vague ones.
    noise: [Nanos; 2],
    /// True if a round trip was measured that no queue of ours can have delayed.
    is_known: bool,
}

/// The round trips of clients, in a table of fixed size.
#[derive(Debug, Default)]
pub(super) struct Clients {
    sets: Vec<[Option<Client>; WAYS]>,
}

impl Clients {
    /// Returns the client's shortest recent round trip; zero if none was seen.
    pub fn base(&self, key: u64) -> Nanos {
        let set = self.sets.get((key % self.sets.len().max(1) as u64) as usize);
        let found = set.and_then(|set| set.iter().flatten().find(|client| client.key == key));
        found.map_or(Nanos::ZERO, Client::base)
    }

    pub fn on_round_trip(&mut self, now: Nanos, key: u64, trip: Trip, load: Load) -> DelayBounds {
        let Trip { rtt, kind } = trip;
        let client = self.client(now, key, rtt);
        client.see(now, trip, load);
        let above = rtt - client.base();
        let at_most = if client.is_known { above } else { rtt };
        let noise = client.noise[usize::from(kind == Kind::Vague)];
        let noise = noise + noise;
        DelayBounds { at_least: above - noise, at_most, kind, noise }
    }

    /// Records an earlier round trip. It becomes the shortest if it is shorter. It is not evidence of a queue now, but
    /// makes the client known.
    pub fn on_base(&mut self, now: Nanos, key: u64, rtt: Nanos) {
        let client = self.client(now, key, rtt);
        client.least[1] = client.least[1].min(rtt);
        client.is_known = true;
    }

    fn client(&mut self, now: Nanos, key: u64, rtt: Nanos) -> &mut Client {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; CLIENTS_MAX / WAYS];
        }
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(key % count) as usize];
        let found = set.iter().position(|place| place.is_some_and(|client| client.key == key));
        let oldest = || (0..WAYS).min_by_key(|way| set[*way].map_or(Nanos::ZERO, |client| client.seen_at));
        let way = found.or_else(oldest).expect("a set has places");
        if found.is_none() {
            set[way] = None;
        }
        set[way].get_or_insert(Client {
            key,
            seen_at: now,
            least: [rtt; 2],
            window_began: now,
            noise: [Nanos::ZERO; 2],
            is_known: false,
        })
    }
}

impl Client {
    fn base(&self) -> Nanos {
        self.least[0].min(self.least[1])
    }

    fn see(&mut self, now: Nanos, trip: Trip, load: Load) {
        let rtt = trip.rtt;
        self.seen_at = now;
        if now - self.window_began > BASE_WINDOW {
            self.least = [self.least[1], rtt];
            self.window_began = now;
        }
        self.least[1] = self.least[1].min(rtt);
        self.is_known |= load != Load::Full;
        let queue = match load {
            Load::Full => None,
            Load::Unqueued { delay } => Some(delay),
            Load::Light => Some(Nanos::ZERO),
        };
        if let Some(queue) = queue {
            let excess = rtt - self.base() - queue;
            let noise = &mut self.noise[usize::from(trip.kind == Kind::Vague)];
            *noise = Nanos((noise.0 * (NOISE_GAIN - 1) + excess.0) / NOISE_GAIN);
        }
    }
}

impl Estimator {
    /// Records the shortest round trip that the kernel has measured on a connection of this client since its handshake.
    /// Without it, the base of a connection that is first read while there is a queue would include the queue, and a
    /// client whose load never falls would stay unknown.
    pub fn on_base(&mut self, now: Nanos, client: u64, rtt: Nanos) {
        self.clients.on_base(now, client, rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn seen(clients: &mut Clients, ms: u64, key: u64, rtt_ms: u64, load: Load) -> (u64, u64) {
        let trip = Trip { rtt: MS(rtt_ms), kind: Kind::Data };
        let DelayBounds { at_least, at_most, .. } = clients.on_round_trip(MS(ms), key, trip, load);
        (at_least.0 / 1_000_000, at_most.0 / 1_000_000)
    }

    #[test]
    fn a_known_client_tells_the_queue_and_a_new_one_only_bounds_it() {
        let mut clients = Clients::default();
        assert_eq!(seen(&mut clients, 0, 1, 20, Load::Light), (0, 0));
        assert_eq!(seen(&mut clients, 10, 1, 50, Load::Full), (30, 30));
        assert_eq!(seen(&mut clients, 20, 2, 70, Load::Full), (0, 70));
        // The client was in a queue when it came, and is known now.
        assert_eq!(seen(&mut clients, 30, 2, 40, Load::Unqueued { delay: MS(0) }), (0, 0));
        assert_eq!(seen(&mut clients, 40, 2, 70, Load::Full), (30, 30));
    }

    #[test]
    fn a_shorter_round_trip_of_before_is_the_base() {
        let mut clients = Clients::default();
        assert_eq!(seen(&mut clients, 0, 1, 70, Load::Full), (0, 70));
        clients.on_base(MS(1), 1, MS(20));
        clients.on_base(MS(2), 1, MS(60));
        assert_eq!((clients.base(1), seen(&mut clients, 3, 1, 70, Load::Full)), (MS(20), (50, 50)));
    }

    #[test]
    fn variation_under_a_light_load_is_no_queue() {
        let mut clients = Clients::default();
        for ms in 0..100 {
            seen(&mut clients, ms, 1, 20 + ms % 2 * 10, Load::Light);
        }
        let (at_least, at_most) = seen(&mut clients, 101, 1, 30, Load::Full);
        assert_eq!((at_least, at_most), (0, 10));
    }

    #[test]
    fn what_vague_round_trips_vary_by_hides_no_queue_from_others() {
        let mut clients = Clients::default();
        let mut at_least = |ms: u64, rtt_ms: u64, kind: Kind, load: Load| {
            clients.on_round_trip(MS(ms), 1, Trip { rtt: MS(rtt_ms), kind }, load).at_least.0 / 1_000_000
        };
        for ms in 0..100 {
            at_least(ms, 20 + ms % 2 * 10, Kind::Vague, Load::Light);
            at_least(ms, 20, Kind::Data, Load::Light);
        }
        assert_eq!([Kind::Data, Kind::Vague].map(|kind| at_least(101, 28, kind, Load::Full)), [8, 0]);
    }

    #[test]
    fn a_longer_path_is_believed_after_two_windows() {
        let mut clients = Clients::default();
        seen(&mut clients, 0, 1, 20, Load::Light);
        assert_eq!(seen(&mut clients, 61_000, 1, 50, Load::Full).1, 30);
        assert_eq!(seen(&mut clients, 122_000, 1, 50, Load::Full).1, 0);
    }

    #[test]
    fn a_base_is_kept_for_a_whole_window() {
        let mut clients = Clients::default();
        seen(&mut clients, 0, 1, 20, Load::Light);
        let queues = [60_000, 119_000, 120_000].map(|ms| seen(&mut clients, ms, 1, 50, Load::Full).1);
        assert_eq!(queues, [30, 30, 30]);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_least_recent() {
        let mut clients = Clients::default();
        let sets = (CLIENTS_MAX / WAYS) as u64;
        for turn in 0..=WAYS as u64 {
            seen(&mut clients, turn, 7 + turn * sets, 20, Load::Light);
        }
        assert_eq!(clients.sets.iter().flatten().flatten().count(), WAYS);
        // The first client is new again, the second is not.
        assert_eq!(seen(&mut clients, 10, 7 + sets, 50, Load::Full), (30, 30));
        assert_eq!(seen(&mut clients, 11, 7, 50, Load::Full), (0, 50));
    }
}
