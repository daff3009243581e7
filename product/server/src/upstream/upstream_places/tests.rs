use std::collections::HashMap;
use std::thread;

use config::UpstreamVersion;
use rustix::event::epoll::EventFlags;
use sched::upstream_queue::{RELEASES_PER_OLDEST, WAITING_MAX};
use units::Nanos;

use super::*;
use crate::poll::Poll;
use crate::upstream::EndpointAddress;

/// The exchange with this number; each is on a separate connection.
fn id(number: u64) -> ExchangeId {
    ExchangeId::new(number, 0)
}

fn endpoint(name: &str) -> Endpoint {
    Endpoint { version: UpstreamVersion::Http1, address: EndpointAddress::Unix(name.into()) }
}

fn loops(count: usize) -> (Vec<Arc<Wake>>, Vec<LoopPlaces>) {
    let wakes: Vec<_> = (0..count).map(|_| Arc::new(Wake::new().unwrap())).collect();
    let all = Arc::new(UpstreamPlaces::new(&wakes));
    (wakes, (0..count).map(|number| all.of_loop(number)).collect())
}

fn at(since: u64) -> Turn {
    Turn { since: Nanos(since), ..Turn::default() }
}

/// Bounds of this many places; one client may have all of them.
fn all(requests: u32) -> Bounds {
    Bounds::halves(requests).of_client(requests)
}

fn is_woken(wake: &Wake) -> bool {
    rustix::io::read(wake, &mut [0; 8]).is_ok()
}

#[test]
fn one_count_is_for_all_loops_and_places_go_to_those_that_came_first() {
    let (wakes, loops) = loops(2);
    let places = loops[0].of(&endpoint("/a"));
    assert!(Arc::ptr_eq(&places, &loops[1].of(&endpoint("/a"))));
    let begin = |number: usize, since, exchange| loops[number].begin(&places, all(2), at(since), id(exchange));
    assert_eq!([begin(0, 0, 7), begin(1, 0, 7)], [Begun::Taken; 2]);
    assert_eq!([begin(1, 1, 8), begin(0, 2, 9)], [Begun::Waits(0), Begun::Waits(1)]);
    assert_eq!(places.load(), 4);
    let mut own = Vec::new();
    loops[0].end(&places, 0, &mut own);
    assert!(own.is_empty() && is_woken(&wakes[1]) && !is_woken(&wakes[0]));
    let mut handed = Vec::new();
    loops[1].take_handed(&mut handed);
    let names: Vec<_> = handed.iter().map(|handed| (handed.exchange.token(), handed.ticket, handed.client)).collect();
    assert_eq!(names, [(8, 0, 0)]);
    assert_eq!(begin(0, 3, 10), Begun::Waits(2), "a place that was handed is taken");
    loops[0].end(&places, 0, &mut own);
    assert_eq!((own[0].exchange.token(), own.len(), is_woken(&wakes[0])), (9, 1, false));
    places.leave(0, 2);
    (0..2).for_each(|_| loops[1].end(&places, 0, &mut own));
    assert_eq!((places.load(), own.len()), (0, 1));
    let weak = Arc::downgrade(&places);
    drop((places, own, handed));
    loops[0].of(&endpoint("/b"));
    assert!(weak.upgrade().is_none() && lock(&loops[0].all.by_endpoint).len() == 1, "nobody has it any more");
}

#[test]
fn those_with_more_places_or_fewer_after_a_reload_are_not_forgotten() {
    let (_, loops) = loops(1);
    let (places, mut own) = (loops[0].of(&endpoint("/a")), Vec::new());
    let begin = |max| loops[0].begin(&places, all(max), Turn::default(), id(0));
    assert_eq!([begin(2), begin(2), begin(1), begin(9)], [Begun::Taken, Begun::Taken, Begun::Waits(0), Begun::Taken]);
    loops[0].end(&places, 0, &mut own);
    loops[0].end(&places, 0, &mut own);
    assert!(own.is_empty(), "one is under way, and no more are wanted");
    loops[0].end(&places, 0, &mut own);
    assert_eq!(own.len(), 1);
    let begin = |max| loops[0].begin(&places, all(max), Turn::default(), id(0));
    assert_eq!([begin(1), begin(3), begin(3)], [Begun::Waits(1), Begun::Taken, Begun::Taken]);
    assert_eq!([begin(3), begin(3), begin(2)], [Begun::Waits(2), Begun::Waits(3), Begun::Waits(4)]);
    loops[0].end(&places, 0, &mut own);
    assert_eq!(own.iter().map(|handed| handed.ticket).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn no_more_wait_than_may_in_all_loops_together() {
    let (_, loops) = loops(2);
    let places = loops[0].of(&endpoint("/a"));
    assert_eq!(loops[0].begin(&places, all(1), at(0), id(0)), Begun::Taken);
    let begin = |number: usize| loops[number % 2].begin(&places, all(1), at(0), id(0));
    assert!((0..WAITING_MAX).all(|number| matches!(begin(number), Begun::Waits(_))));
    assert_eq!([begin(0), begin(1)], [Begun::Full; 2]);
}

#[test]
fn half_of_the_places_are_held_in_all_loops_together() {
    let places = EndpointPlaces::default();
    assert!(!places.is_crowded(all(1)));
    places.on_held(false, true);
    places.on_held(true, true);
    assert!(places.is_crowded(all(2)) && !places.is_crowded(all(3)));
    assert!(places.is_crowded(all(3).of_client(1)), "a client has no other place");
    places.on_held(true, false);
    assert!(!places.is_crowded(all(1)));
}

/// Earlier they counted as requests, so 256 idle WebSockets of one client took all places of an upstream.
#[test]
fn tunnels_have_places_of_their_own_and_a_client_half_of_them() {
    let (_, loops) = loops(2);
    let (places, mut own) = (loops[0].of(&endpoint("/a")), Vec::new());
    let bounds = Bounds::halves(1);
    let turn = |client| Turn { client, ..Turn::default() };
    for _ in 0..2 {
        assert_eq!(loops[0].begin(&places, bounds, turn(1), id(0)), Begun::Taken);
        assert!(places.begin_tunnel(1, 4));
        loops[0].end(&places, 1, &mut own);
    }
    assert_eq!((places.begin_tunnel(1, 4), places.load()), (false, 2));
    assert!(places.begin_tunnel(2, 4) && places.begin_tunnel(2, 4) && !places.begin_tunnel(3, 4));
    assert_eq!(loops[1].begin(&places, bounds, turn(3), id(0)), Begun::Taken);
    places.end_tunnel(1);
    assert!(places.begin_tunnel(3, 4) && own.is_empty() && places.load() == 5);
}

/// The other loop may have any number of short requests.
#[test]
fn no_loop_starves() {
    let (_, loops) = loops(2);
    let (places, mut own) = (loops[0].of(&endpoint("/a")), Vec::new());
    loops[0].begin(&places, all(1), at(0), id(0));
    let before = 5;
    for since in 0..before {
        loops[0].begin(&places, all(1), at(since), id(0));
    }
    loops[1].begin(
        &places,
        all(1),
        Turn { priority: 15, service: Nanos(1 << 40), since: Nanos(before), client: 0 },
        id(1),
    );
    let (mut releases, mut handed) = (0, Vec::new());
    while handed.is_empty() {
        for _ in 0..2 {
            loops[0].begin(&places, all(1), at(100 + releases), id(0));
        }
        loops[0].end(&places, 0, &mut own);
        releases += 1;
        assert!(releases <= u64::from(RELEASES_PER_OLDEST) * (before + 1), "{releases}");
        loops[1].take_handed(&mut handed);
    }
}

/// A thread of the test below: an event loop whose requests arrive, wait, leave and end.
struct Loop {
    places: LoopPlaces,
    of: Arc<EndpointPlaces>,
    waiting: HashMap<u64, u64>,
    under_way: Vec<u64>,
    own: Vec<Handed>,
    random: u64,
    begun: u64,
}

const REQUESTS_MAX: u32 = 3;
const CLIENTS: u64 = 4;
/// A client may have two of three.
const BOUNDS: Bounds = Bounds { requests: REQUESTS_MAX, of_client: 2, waiting_of_client: WAITING_MAX as u32 / 2 };

/// Requests under way in all loops, and those of each client.
#[derive(Default)]
struct Seen {
    all: AtomicU32,
    of_client: [AtomicU32; CLIENTS as usize],
}

fn client_of(number: u64) -> u32 {
    (number % CLIENTS) as u32
}

impl Loop {
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    fn ask(&mut self, number: u64, seen: &Seen) {
        let (service, since) = (Nanos(self.random(5)), Nanos(number));
        let turn = Turn { service, since, client: client_of(number), ..Turn::default() };
        match self.places.begin(&self.of, BOUNDS, turn, id(number)) {
            Begun::Taken => self.take(number, seen),
            Begun::Waits(ticket) => drop(self.waiting.insert(number, ticket)),
            Begun::Full => panic!("fewer wait"),
        }
    }

    fn take(&mut self, number: u64, seen: &Seen) {
        assert!(seen.all.fetch_add(1, SeqCst) < REQUESTS_MAX, "more are under way than may");
        let of_client = seen.of_client[client_of(number) as usize].fetch_add(1, SeqCst);
        assert!(of_client < BOUNDS.of_client, "a client has more than its share");
        self.under_way.push(number);
        self.begun += 1;
    }

    fn end_one(&mut self, seen: &Seen) {
        let Some(number) = self.under_way.pop() else { return };
        let client = client_of(number);
        seen.of_client[client as usize].fetch_sub(1, SeqCst);
        seen.all.fetch_sub(1, SeqCst);
        self.places.end(&self.of, client, &mut self.own);
    }

    fn take_own(&mut self, seen: &Seen) {
        while let Some(handed) = self.own.pop() {
            if self.waiting.get(&handed.exchange.token()) == Some(&handed.ticket) {
                self.waiting.remove(&handed.exchange.token());
                self.take(handed.exchange.token(), seen);
            } else {
                self.places.end(&handed.places, handed.client, &mut self.own);
            }
        }
    }

    fn leave_one(&mut self) -> u64 {
        let Some(number) = self.waiting.keys().next().copied() else { return 0 };
        let ticket = self.waiting.remove(&number).unwrap();
        self.of.leave(client_of(number), ticket);
        1
    }

    /// Makes `requests` requests, with a few open at once; returns how many began and how many left.
    fn run(mut self, wake: &Wake, seen: &Seen, requests: u64) -> (u64, u64) {
        let mut poll = Poll::new().unwrap();
        poll.add(wake, 1, EventFlags::IN).unwrap();
        let (mut asked, mut left) = (0, 0);
        while asked < requests || !self.waiting.is_empty() || !self.under_way.is_empty() {
            while asked < requests && self.waiting.len() + self.under_way.len() < 8 {
                self.ask(asked, seen);
                asked += 1;
            }
            if self.random(10) == 0 {
                left += self.leave_one();
            }
            if self.random(3) > 0 {
                self.end_one(seen);
            }
            self.take_own(seen);
            // Nothing to do but wait: the place has to come.
            let is_idle = self.under_way.is_empty() && !self.waiting.is_empty();
            poll.wait(Some(if is_idle { Nanos::from_secs(100) } else { Nanos::ZERO })).unwrap();
            assert!(!is_idle || poll.left() > 0, "a wake is lost");
            while poll.take().is_some() {
                wake.clear();
                self.places.take_handed(&mut self.own);
            }
            self.take_own(seen);
        }
        (self.begun, left)
    }
}

/// No more are under way than allowed, none is lost, and in the end nothing is left.
#[test]
fn threads_share_places_and_lose_none() {
    const LOOPS: u64 = 4;
    const REQUESTS: u64 = 20_000;
    let (wakes, loops) = loops(LOOPS as usize);
    let (of, seen) = (loops[0].of(&endpoint("/a")), Seen::default());
    let counts: Vec<(u64, u64)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..LOOPS as usize)
            .map(|number| {
                let (places, of, own) = (loops[number].clone(), Arc::clone(&of), Vec::new());
                let (waiting, under_way, random) = (HashMap::new(), Vec::new(), number as u64 + 1);
                let one = Loop { places, of, waiting, under_way, own, random, begun: 0 };
                let (wake, seen) = (&wakes[number], &seen);
                scope.spawn(move || one.run(wake, seen, REQUESTS))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(counts.iter().all(|(begun, left)| begun + left == REQUESTS && *begun > 0), "{counts:?}");
    // What was handed to a request that had left can only be in a box.
    let mut own = Vec::new();
    loops.iter().for_each(|places| places.take_handed(&mut own));
    while let Some(handed) = own.pop() {
        loops[0].end(&handed.places, handed.client, &mut own);
    }
    assert_eq!((of.load(), seen.all.load(SeqCst)), (0, 0));
}
