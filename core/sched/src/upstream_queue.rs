//! The places at an upstream, one for each request that it may process at the same time, and the requests that wait for
//! a place.
//!
//! A client gets at most its share of the places and of the waiting requests: half, unless the operator configures
//! otherwise. Waiting clients take turns: a client that sends a thousand requests waits for its own places, and no
//! other client waits behind it. Among the clients whose turn it is, the class with the lowest priority number goes
//! first, then the request whose route takes the upstream the least time. The requests of one client are ordered in the
//! same way within its turn. Every request is eventually started.

use hashbrown::HashMap;
use units::Nanos;

/// The maximum number of requests that wait for one upstream, not counting those in progress.
pub const WAITING_MAX: usize = 1024;
/// One release in this many goes to the request that has waited longest. Therefore a request behind `n` others is
/// started after at most `RELEASES_PER_OLDEST` (n + 1) releases, while its client has less than its share.
pub const RELEASES_PER_OLDEST: u32 = 32;

/// The properties that order a request among the waiting ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Turn {
    /// The priority of the request's class; a lower number goes first.
    pub priority: u8,
    /// The time that the upstream is expected to need for it.
    pub service: Nanos,
    /// The time at which the request started to wait.
    pub since: Nanos,
    /// The request's client.
    pub client: u32,
}

/// The maximum numbers of requests in progress, of one client's requests in progress, and of one client's waiting
/// requests. A request has the bounds of its site; several sites may share an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub requests: u32,
    pub of_client: u32,
    pub waiting_of_client: u32,
}

/// The outcome of a request for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    Taken,
    /// The request gets a place later, from [`Places::begin_next`].
    Waits,
    /// The maximum number of requests are already waiting, in total or for this client.
    Full,
}

/// The places at one upstream. At most [`WAITING_MAX`] requests wait. Each has a distinct name; the smaller name goes
/// first if all else is equal.
#[derive(Debug)]
pub struct Places<T> {
    /// The clients that have a place or a waiting request.
    clients: HashMap<u32, Client<T>>,
    under_way: u32,
    waiting: usize,
    /// The current round of turns. Clients that start to wait join the next one.
    round: u64,
    /// The number of releases since the last one that went to the request that had waited longest.
    releases: u32,
}

#[derive(Debug)]
struct Client<T> {
    under_way: u32,
    /// The waiting requests, in no order.
    waiting: Vec<Waiter<T>>,
    /// The round in which the client has its next turn.
    round: u64,
}

#[derive(Debug)]
struct Waiter<T> {
    turn: Turn,
    bounds: Bounds,
    name: T,
}

impl Bounds {
    /// Makes bounds of this many requests in progress. One client may have half of the places and half of the waiting
    /// requests.
    pub fn halves(requests: u32) -> Bounds {
        Bounds { requests, of_client: requests.div_ceil(2), waiting_of_client: WAITING_MAX as u32 / 2 }
    }

    /// Returns the bounds with `of_client` places for one client. Its share of the waiting requests changes in
    /// proportion.
    pub fn of_client(self, of_client: u32) -> Bounds {
        let part = u64::from(of_client) * WAITING_MAX as u64 / u64::from(self.requests.max(1));
        let waiting_of_client = part.clamp(1, WAITING_MAX as u64) as u32;
        Bounds { of_client, waiting_of_client, ..self }
    }
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places { clients: HashMap::new(), under_way: 0, waiting: 0, round: 0, releases: 0 }
    }
}

impl<T: Copy + Ord> Places<T> {
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Gives a request a place, or queues it.
    pub fn begin(&mut self, turn: Turn, bounds: Bounds, name: T) -> Begun {
        let (under_way, waiting, next_round) = (self.under_way, self.waiting, self.round + 1);
        let new = || Client { under_way: 0, waiting: Vec::new(), round: next_round };
        let client = self.clients.entry(turn.client).or_insert_with(new);
        let begun = if client.may_begin(under_way, bounds) {
            client.under_way += 1;
            self.under_way += 1;
            Begun::Taken
        } else if waiting < WAITING_MAX && client.waiting.len() < bounds.waiting_of_client as usize {
            if client.waiting.is_empty() {
                client.round = next_round;
            }
            client.waiting.push(Waiter { turn, bounds, name });
            self.waiting += 1;
            Begun::Waits
        } else {
            Begun::Full
        };
        if begun == Begun::Full {
            self.forget_unused(turn.client);
        }
        begun
    }

    /// Frees the place of a request of this client. The caller must then call [`Places::begin_next`].
    pub fn end(&mut self, client: u32) {
        self.under_way -= 1;
        if let Some(own) = self.clients.get_mut(&client) {
            own.under_way -= 1;
            if own.is_unused() {
                self.clients.remove(&client);
            }
        }
    }

    /// Gives a place to the next waiting request and returns its name; `None` if no waiting request may start.
    pub fn begin_next(&mut self) -> Option<T> {
        let is_oldests = self.releases + 1 >= RELEASES_PER_OLDEST;
        let under_way = self.under_way;
        let waiting =
            self.clients.iter().flat_map(|(of, client)| client.waiting.iter().map(move |one| (*of, client, one)));
        let ready = waiting.filter(|(_, client, one)| client.may_begin(under_way, one.bounds));
        let next = if is_oldests {
            ready.min_by_key(|(_, _, one)| (one.turn.since, one.name))
        } else {
            ready.min_by_key(|(_, client, one)| {
                (one.turn.priority, client.round, one.turn.service, one.turn.since, one.name)
            })
        };
        let (of, name) = next.map(|(of, _, one)| (of, one.name))?;
        let client = self.clients.get_mut(&of).expect("it was found");
        if !is_oldests {
            self.round = self.round.max(client.round);
            client.round = self.round + 1;
        }
        client.take(|one| *one == name);
        client.under_way += 1;
        self.waiting -= 1;
        self.under_way += 1;
        self.releases = if is_oldests { 0 } else { self.releases + 1 };
        Some(name)
    }

    /// Removes a waiting request of this client by name; returns false if there was none.
    pub fn leave(&mut self, client: u32, is_it: impl Fn(&T) -> bool) -> bool {
        let has_left = self.clients.get_mut(&client).is_some_and(|client| client.take(is_it));
        self.waiting -= usize::from(has_left);
        self.forget_unused(client);
        has_left
    }

    fn forget_unused(&mut self, client: u32) {
        if self.clients.get(&client).is_some_and(Client::is_unused) {
            self.clients.remove(&client);
        }
    }
}

impl<T> Client<T> {
    fn is_unused(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty()
    }

    fn may_begin(&self, under_way: u32, bounds: Bounds) -> bool {
        under_way < bounds.requests && self.under_way < bounds.of_client
    }

    /// Removes a waiting request; returns false if none matches.
    fn take(&mut self, is_it: impl Fn(&T) -> bool) -> bool {
        let at = self.waiting.iter().position(|one| is_it(&one.name));
        at.map(|at| self.waiting.swap_remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NO_SHARE: Bounds = Bounds { requests: 1, of_client: 1, waiting_of_client: WAITING_MAX as u32 };

    fn turn(priority: u8, service: u64, since: u64) -> Turn {
        Turn { priority, service: Nanos(service), since: Nanos(since), client: 0 }
    }

    fn of(client: u32, since: u64) -> Turn {
        Turn { client, ..turn(0, 0, since) }
    }

    /// Makes places for one request, which are taken.
    fn busy() -> Places<u64> {
        let mut places = Places::default();
        assert_eq!(places.begin(of(u32::MAX, 0), NO_SHARE, u64::MAX), Begun::Taken);
        places
    }

    /// Returns the names in the order in which they get the one place, which `holder` has.
    fn order(places: &mut Places<u64>, holder: u32, client_of: impl Fn(u64) -> u32) -> Vec<u64> {
        let (mut holder, mut order) = (holder, Vec::new());
        loop {
            places.end(holder);
            let Some(next) = places.begin_next() else { return order };
            holder = client_of(next);
            order.push(next);
        }
    }

    #[test]
    fn within_a_client_classes_go_first_then_the_shortest_then_the_first_to_come() {
        let mut places = busy();
        for (name, turn) in (0..).zip([turn(1, 1, 0), turn(0, 9, 1), turn(0, 5, 3), turn(0, 5, 2)]) {
            assert_eq!(places.begin(turn, NO_SHARE, name), Begun::Waits);
        }
        assert_eq!(order(&mut places, u32::MAX, |_| 0), [3, 2, 1, 0]);
        assert!(places.clients.is_empty() && places.under_way() == 0, "nothing is kept of clients that are gone");
    }

    #[test]
    fn clients_take_turns_however_many_requests_of_theirs_wait() {
        let mut places = busy();
        (0..6).for_each(|name| {
            places.begin(of(1, name), NO_SHARE, name);
        });
        (10..12).for_each(|name| {
            places.begin(of(2, name), NO_SHARE, name);
        });
        places.begin(of(3, 20), NO_SHARE, 20);
        assert_eq!(order(&mut places, u32::MAX, |name| 1 + name as u32 / 10), [0, 10, 20, 1, 11, 2, 3, 4, 5]);
    }

    /// Within a round the shorter requests go first, and a client that comes later joins the next round.
    #[test]
    fn a_round_is_of_the_clients_that_waited_when_it_began() {
        let mut places = busy();
        let mut begin =
            |client, service, name: u64| places.begin(Turn { client, ..turn(0, service, name) }, NO_SHARE, name);
        (1..4).for_each(|client| {
            begin(client, 10 - u64::from(client), u64::from(client));
        });
        begin(3, 1, 4);
        places.end(u32::MAX);
        assert_eq!(places.begin_next(), Some(4), "the shortest of a client whose turn is the shortest");
        let short = Turn { client: 9, ..turn(0, 0, 9) };
        places.begin(short, NO_SHARE, 9);
        assert_eq!(order(&mut places, 3, |name| name as u32), [2, 1, 9, 3]);
    }

    #[test]
    fn a_client_has_half_of_the_places_rounded_up_and_half_of_the_queue() {
        for (requests, half) in [(1, 1), (2, 1), (3, 2), (4, 2), (256, 128)] {
            let (mut places, bounds) = (Places::default(), Bounds::halves(requests));
            let mut begun = (0..2000).map(|name| places.begin(of(1, name), bounds, name));
            assert!(begun.by_ref().take(half as usize).all(|begun| begun == Begun::Taken), "{requests}");
            assert!(begun.by_ref().take(WAITING_MAX / 2).all(|begun| begun == Begun::Waits), "{requests}");
            assert!(begun.all(|begun| begun == Begun::Full), "{requests}");
            let other = (0..2000).map(|name| places.begin(of(2, name), bounds, 2000 + name));
            let taken = other.filter(|begun| *begun == Begun::Taken).count();
            assert_eq!((taken, places.waiting()), ((requests - half).min(half) as usize, WAITING_MAX), "{requests}");
        }
    }

    #[test]
    fn an_operator_gives_one_client_more_or_less() {
        let bounds = Bounds::halves(8).of_client(8);
        assert_eq!((bounds.of_client, bounds.waiting_of_client), (8, WAITING_MAX as u32));
        let bounds = Bounds::halves(8).of_client(2);
        assert_eq!((bounds.of_client, bounds.waiting_of_client), (2, WAITING_MAX as u32 / 4));
        assert_eq!(Bounds::halves(65_535).of_client(1).waiting_of_client, 1);
        assert_eq!(Bounds::halves(2).of_client(u32::MAX).waiting_of_client, WAITING_MAX as u32);
    }

    #[test]
    fn one_that_may_not_begin_holds_nobody_back_and_keeps_its_turn() {
        let mut places = Places::default();
        let bounds = Bounds::halves(2);
        assert_eq!(places.begin(of(1, 0), bounds, 0), Begun::Taken);
        assert_eq!(places.begin(of(1, 1), bounds, 1), Begun::Waits);
        assert_eq!(places.begin_next(), None, "its client has its share");
        assert_eq!(places.begin(of(2, 2), bounds, 2), Begun::Taken);
        places.end(2);
        assert_eq!(places.begin_next(), None);
        places.end(1);
        assert_eq!((places.begin_next(), places.waiting(), places.under_way()), (Some(1), 0, 1));
    }

    #[test]
    fn those_who_leave_make_room_and_others_do_not_leave_with_them() {
        let mut places = busy();
        (0..WAITING_MAX as u64).for_each(|name| {
            places.begin(of(1, name), NO_SHARE, name);
        });
        assert_eq!(places.begin(of(2, 0), NO_SHARE, 5000), Begun::Full);
        assert!(!places.leave(2, |name| *name == 7) && places.leave(1, |name| *name == 7));
        assert!(!places.leave(1, |name| *name == 7));
        assert_eq!(places.begin(of(2, 0), NO_SHARE, 5000), Begun::Waits);
        places.end(u32::MAX);
        assert_eq!((places.begin_next(), places.begin_next()), (Some(0), None));
    }

    /// An action of the event loop.
    #[derive(Debug, Clone, Copy)]
    enum Act {
        Begin(u32),
        EndOne,
        LeaveOne,
    }

    proptest! {
        /// The bound holds however many requests come behind it, be they shorter, of better classes or of other
        /// clients.
        #[test]
        fn nobody_waits_longer_than_is_stated(
            before in 0_u64..50,
            comes in prop::collection::vec(0_u64..4, 900),
            clients in 1_u32..4,
        ) {
            let mut places = busy();
            (0..before).for_each(|name| assert_eq!(places.begin(of(0, name), NO_SHARE, name), Begun::Waits));
            places.begin(turn(15, 1_000_000, before), NO_SHARE, before);
            let (mut next, mut releases, mut holder) = (before + 1, 0, u32::MAX);
            let client_of = |name: u64| if name <= before { 0 } else { name as u32 % clients };
            for comes in comes {
                for _ in 0..comes {
                    places.begin(Turn { client: client_of(next), ..turn(0, 1, next) }, NO_SHARE, next);
                    next += 1;
                }
                releases += 1;
                places.end(holder);
                let begun = places.begin_next().expect("some wait");
                holder = client_of(begun);
                if begun == before {
                    break;
                }
            }
            prop_assert!(releases <= u64::from(RELEASES_PER_OLDEST) * (before + 1), "{releases} behind {before}");
        }

        /// No client has more than its share, no place that a waiting request may have stays free, and between two
        /// turns of a waiting client no other client has more than two, except for the requests that have waited
        /// longest.
        #[test]
        fn shares_are_kept_and_turns_are_taken(
            requests in 1_u32..9,
            acts in prop::collection::vec(prop_oneof![
                4 => (0_u32..4).prop_map(Act::Begin),
                3 => Just(Act::EndOne),
                1 => Just(Act::LeaveOne),
            ], 1..400),
        ) {
            let (mut places, bounds) = (Places::default(), Bounds::halves(requests));
            let mut under_way: Vec<(u64, u32)> = Vec::new();
            let mut waiting: Vec<(u64, u32)> = Vec::new();
            let mut releases: Vec<u32> = Vec::new();
            for (name, act) in (0_u64..).zip(acts) {
                match act {
                    Act::Begin(client) => match places.begin(of(client, name), bounds, name) {
                        Begun::Taken => under_way.push((name, client)),
                        Begun::Waits => waiting.push((name, client)),
                        Begun::Full => prop_assert!(waiting.len() >= WAITING_MAX / 2),
                    },
                    Act::EndOne if !under_way.is_empty() => {
                        let (_, client) = under_way.swap_remove(name as usize % under_way.len());
                        places.end(client);
                        while let Some(next) = places.begin_next() {
                            let at = waiting.iter().position(|(name, _)| *name == next).expect("it waits");
                            let begun = waiting.swap_remove(at);
                            releases.push(begun.1);
                            under_way.push(begun);
                        }
                    }
                    Act::LeaveOne if !waiting.is_empty() => {
                        let (left, client) = waiting.swap_remove(name as usize % waiting.len());
                        prop_assert!(places.leave(client, |name| *name == left));
                    }
                    Act::EndOne | Act::LeaveOne => {}
                }
                prop_assert_eq!((places.under_way() as usize, places.waiting()), (under_way.len(), waiting.len()));
                let held = |client| under_way.iter().filter(|(_, of)| *of == client).count() as u32;
                prop_assert!((0..4).all(|client| held(client) <= requests.div_ceil(2)));
                let is_idle = under_way.len() < requests as usize
                    && waiting.iter().any(|(_, client)| held(*client) < requests.div_ceil(2));
                prop_assert!(!is_idle, "a place is free that somebody waits for");
            }
        }

        /// A client that always waits has its turn once in each round.
        #[test]
        fn between_two_turns_of_a_client_no_other_has_more_than_two(asks in prop::collection::vec((0_u32..5, 0_u64..9), 30..200)) {
            let mut places = busy();
            for (name, (client, service)) in (0_u64..).zip(&asks) {
                places.begin(Turn { client: *client, ..turn(0, *service, name) }, NO_SHARE, name);
            }
            let begun = order(&mut places, u32::MAX, |name| asks[name as usize].0);
            let begun: Vec<u32> = begun.into_iter().map(|name| asks[name as usize].0).collect();
            // The requests that have waited longest take no turn, and are left out.
            let turns = (0..begun.len()).filter(|at| (at + 1) % RELEASES_PER_OLDEST as usize != 0);
            let turns: Vec<u32> = turns.map(|at| begun[at]).collect();
            for client in 0..5 {
                let own: Vec<usize> = (0..turns.len()).filter(|at| turns[*at] == client).collect();
                for pair in own.windows(2) {
                    let between = &turns[pair[0] + 1..pair[1]];
                    let most = (0..5).map(|other| between.iter().filter(|of| **of == other).count()).max();
                    prop_assert!(most <= Some(2), "{between:?} between two of {client}");
                }
            }
        }
    }
}
