//! Tests of what the share between clients promises, checked against its plainest statement: a scan of all jobs at
//! every step.

use proptest::prelude::*;
use sched::policy::{ClientShare, ClientTraits, NAMES, Network, PolicySpec};
use sched::{Arrival, JobId, Pace, Precedence, Scheduler, Size, Why};
use units::Nanos;
use units::wire::Framing;

const PARTS: u64 = 16;

fn shared(spec: &str, allowance_bytes: u64) -> Scheduler {
    let share = ClientShare { allowance_bytes, idle_bytes_per_s: 1_000_000_000 };
    Scheduler::new(spec.parse::<PolicySpec>().unwrap().build_shared(share), Pace::UNLIMITED)
}

fn job(client: u32, bytes: u64) -> Arrival {
    Arrival { framing: Framing::ETHERNET.with_segment(1), client, ..Arrival::of(Size::Known(bytes)) }
}

/// A fixed number of responses of one size in progress, for each client.
struct Closed {
    scheduler: Scheduler,
    /// Client and size, by slot.
    owners: Vec<(u32, u64)>,
    /// Bytes, by client.
    had: Vec<u64>,
    grant_bytes: u64,
}

impl Closed {
    fn new(scheduler: Scheduler, clients: &[(usize, u64)], grant_bytes: u64) -> Closed {
        let mut closed = Closed { scheduler, owners: Vec::new(), had: vec![0; clients.len()], grant_bytes };
        for (client, &(count, bytes)) in (0..).zip(clients) {
            (0..count).for_each(|_| closed.arrive(client, bytes));
        }
        closed
    }

    fn arrive(&mut self, client: u32, bytes: u64) {
        let id = self.scheduler.arrive(Nanos::ZERO, job(client, bytes));
        self.owners.resize(self.owners.len().max(id.slot() + 1), (0, 0));
        self.owners[id.slot()] = (client, bytes);
    }

    /// Serves the next grant; returns the client served.
    fn serve(&mut self) -> u32 {
        let grant = self.scheduler.poll_grant(Nanos::ZERO).expect("somebody always waits");
        let (client, bytes) = self.owners[grant.job.slot()];
        let sent = grant.bytes_max.min(self.grant_bytes);
        self.had[client as usize] += sent;
        if self.scheduler.on_sent(Nanos::ZERO, grant.job, sent).is_departed() {
            self.arrive(client, bytes);
        }
        client
    }
}

/// A job as seen by the reference.
#[derive(Debug, Clone, Copy)]
struct Live {
    id: JobId,
    client: usize,
    left: u64,
    is_ready: bool,
    /// The clock at its arrival, at its last sent bytes, or when it became ready.
    turn: u64,
}

/// The definition, by scans.
struct Reference {
    live: Vec<Live>,
    /// Tag and weight, by client.
    accounts: Vec<(u64, u64)>,
    /// The clients below this number are of one network.
    networked: usize,
    clock: u64,
    carry: u64,
    allowance: u64,
}

impl Reference {
    /// The parts by which a client is ahead of its allowance.
    fn beyond(&self, client: usize) -> Option<u64> {
        self.accounts[client].0.checked_sub(self.clock + self.allowance).filter(|beyond| *beyond > 0)
    }

    fn first(&self) -> Option<JobId> {
        let place = |job: &Live| match self.allowance / PARTS {
            allowance if job.left > allowance => {
                ((1u64 << job.left.ilog2()).max(allowance + 1), job.turn, job.id.slot())
            }
            _ => (job.left, job.id.number, job.id.slot()),
        };
        let best_of = |client: usize| {
            let jobs = self.live.iter().filter(|job| job.is_ready && job.client == client);
            jobs.min_by_key(|job| place(job))
        };
        let offered = (0..self.accounts.len()).filter_map(best_of);
        let rank = |job: &Live| (job.left * PARTS).min(self.allowance) + self.beyond(job.client).unwrap_or(0);
        let (ahead, within): (Vec<&Live>, Vec<&Live>) = offered.partition(|job| self.beyond(job.client).is_some());
        let within = within.into_iter().min_by_key(|job| (job.left, job.id.number));
        let ahead = ahead.into_iter().min_by_key(|job| (rank(job), job.client));
        within.into_iter().chain(ahead).min_by_key(|job| rank(job)).map(|job| job.id)
    }

    fn on_sent(&mut self, id: JobId, bytes: u64) {
        let waits = |client: usize| self.live.iter().any(|job| job.is_ready && job.client == client);
        let weights = (0..self.accounts.len()).filter(|&client| waits(client)).map(|at| self.accounts[at].1);
        let (count, weight) = weights.fold((0u64, 0u64), |(count, sum), weight| (count + 1, sum + weight));
        let of_network = (0..self.networked).filter(|&client| waits(client)).count() as u64;
        let surplus = of_network.saturating_sub(10);
        let (count, weight) = (count - surplus, weight - surplus);
        let clients = if count > 10 { weight * count.max(30) / 10 } else { weight } + 1;
        let at = self.live.iter().position(|job| job.id == id).unwrap();
        let client = self.live[at].client;
        if self.beyond(client).is_some() {
            self.clock = self.clock.max(self.accounts[client].0.saturating_sub(2 * self.allowance));
        }
        let (tag, own) = &mut self.accounts[self.live[at].client];
        let times = if client < self.networked { of_network.max(10) } else { 10 };
        *tag = (*tag).max(self.clock) + (bytes * PARTS * times / 10).div_ceil(*own);
        let total = bytes * PARTS + self.carry;
        self.clock += total / clients;
        self.carry = total % clients;
        self.live[at].left -= bytes;
        self.live[at].turn = self.clock;
        if self.live[at].left == 0 {
            self.live.remove(at);
        }
    }
}

impl Reference {
    fn network(&self, client: u32) -> Network {
        if (client as usize) < self.networked { Network::of_hash(3) } else { Network::NONE }
    }

    /// Does the same to both, and compares their decisions.
    fn step(&mut self, scheduler: &mut Scheduler, step: Step) {
        match step {
            Step::Arrive { client, bytes } => {
                let id = scheduler.arrive(Nanos::ZERO, job(client, bytes));
                self.live.push(Live { id, client: client as usize, left: bytes, is_ready: true, turn: self.clock });
            }
            Step::Serve { bytes } => {
                let first = scheduler.poll_grant(Nanos::ZERO).map(|grant| grant.job);
                assert_eq!(first, self.first());
                if let Some(id) = first {
                    let bytes = bytes.min(scheduler.jobs().get(id).unwrap().remaining());
                    self.on_sent(id, bytes);
                    let _ = scheduler.on_sent(Nanos::ZERO, id, bytes);
                }
            }
            Step::Block { nth } if !self.live.is_empty() => {
                let at = nth % self.live.len();
                let live = &mut self.live[at];
                live.is_ready = !live.is_ready;
                if live.is_ready {
                    live.turn = self.clock;
                    scheduler.on_wait_over(Nanos::ZERO, live.id, Why::Connection);
                } else {
                    scheduler.on_wait(live.id, Why::Connection);
                }
            }
            Step::Abort { nth } if !self.live.is_empty() => {
                let at = nth % self.live.len();
                scheduler.on_end(self.live.remove(at).id);
            }
            Step::Client { client, weight } => {
                scheduler.on_client(client, ClientTraits { weight, network: self.network(client) });
                self.accounts[client as usize] = (0, weight.into());
            }
            Step::Block { .. } | Step::Abort { .. } => {}
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Arrive {
        client: u32,
        bytes: u64,
    },
    Serve {
        bytes: u64,
    },
    Block {
        nth: usize,
    },
    Abort {
        nth: usize,
    },
    /// A new client gets the number.
    Client {
        client: u32,
        weight: u8,
    },
}

/// The maximum numbers of clients that do not form a crowd, in total and in one network.
const CLIENTS: u32 = 18;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sizes = prop_oneof![4 => 1u64..30, 1 => 30u64..400];
    let step = prop_oneof![
        6 => (0..CLIENTS, sizes).prop_map(|(client, bytes)| Step::Arrive { client, bytes }),
        12 => (1u64..12).prop_map(|bytes| Step::Serve { bytes }),
        3 => any::<usize>().prop_map(|nth| Step::Block { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Abort { nth }),
        1 => (0..CLIENTS, 1u8..=4).prop_map(|(client, weight)| Step::Client { client, weight }),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn the_order_is_that_of_the_definition(steps in steps(), allowance in 0u64..60, networked in 0..=CLIENTS) {
        let mut scheduler = shared("srpt", allowance);
        let mut reference = Reference {
            live: Vec::new(),
            accounts: vec![(0, 1); CLIENTS as usize],
            networked: networked as usize,
            clock: 0,
            carry: 0,
            allowance: allowance * PARTS,
        };
        for client in 0..CLIENTS {
            let network = reference.network(client);
            scheduler.on_client(client, ClientTraits { network, ..ClientTraits::default() });
        }
        for step in steps {
            reference.step(&mut scheduler, step);
            for live in &reference.live {
                let ahead = reference.accounts[live.client].0.saturating_sub(reference.clock) / PARTS;
                prop_assert_eq!(scheduler.order().policy().ahead_bytes(live.client as u32), Some(ahead));
            }
        }
    }

    /// If each job has a client of its own, and none is ahead beyond its allowance, every decision is the policy's.
    #[test]
    fn within_the_share_the_order_is_the_policys(
        jobs in prop::collection::vec((1u64..200, 0u16..3, 1u64..20), 1..40),
        name in prop::sample::select(NAMES),
    ) {
        let mut plain = Scheduler::new(sched::policy::parse(name).unwrap(), Pace::UNLIMITED);
        let mut shared = shared(name, 1 << 40);
        let mut arrivals = (0..).zip(&jobs);
        loop {
            let next = arrivals.next();
            if let Some((client, &(bytes, class, _))) = next {
                let arrival = Arrival { class, ..job(client, bytes) };
                prop_assert_eq!(plain.arrive(Nanos::ZERO, arrival), shared.arrive(Nanos::ZERO, arrival));
            }
            let sent = next.map_or(7, |(_, job)| job.2);
            let (one, other) = (plain.poll_grant(Nanos::ZERO), shared.poll_grant(Nanos::ZERO));
            prop_assert_eq!(one, other, "{}", name);
            match one {
                Some(grant) => {
                    let sent = sent.min(grant.bytes_max);
                    prop_assert_eq!(plain.on_sent(Nanos::ZERO, grant.job, sent), shared.on_sent(Nanos::ZERO, grant.job, sent));
                }
                None if next.is_none() => break,
                None => {}
            }
        }
        prop_assert!(shared.jobs().is_empty());
    }

    /// Clients that always wait: each gets `1 / (k + 1)` of the link, minus `k` allowances once, whatever the others
    /// do.
    #[test]
    fn nobody_who_waits_goes_without(
        clients in prop::collection::vec((1usize..40, 1u64..3000), 2..20),
        allowance in 1u64..200,
        name in prop::sample::select(vec!["srpt", "psjf", "las", "fsp", "fair", "fcfs"]),
    ) {
        const GRANT: u64 = 10;
        let mut closed = Closed::new(shared(name, allowance), &clients, GRANT);
        let k = clients.len() as u64;
        for _ in 0..3000 {
            closed.serve();
            let all: u64 = closed.had.iter().sum();
            for (client, had) in closed.had.iter().enumerate() {
                let owed = (all / (k + 1)).saturating_sub(k * (allowance + GRANT));
                prop_assert!(*had >= owed, "client {client} has had {had} of {all}");
            }
        }
    }

    /// A client of many responses and one of a single large response: they differ by at most three times the allowance
    /// and a grant, in an order that is not by size by twice the allowance. The allowance is a grant or more: clients with less than half of one take turns, and a client whose
    /// responses are shorter than a grant has the shorter turns.
    #[test]
    fn splitting_gains_nothing_beyond_the_allowance(count in 1usize..500, bytes in 1u64..2000, allowance in 10u64..500) {
        const GRANT: u64 = 10;
        for (name, allowances) in [("srpt", 3), ("psjf", 3), ("fair", 2), ("fcf", 2)] {
            let mut closed = Closed::new(shared(name, allowance), &[(count, bytes), (1, 1 << 40)], GRANT);
            for _ in 0..2000 {
                closed.serve();
                let [splitter, other] = closed.had[..] else { unreachable!() };
                prop_assert!(splitter.abs_diff(other) <= allowances * allowance + GRANT, "{name}: {splitter} and {other}");
            }
        }
    }
}

/// The amount held against a client is bounded, however long it had the link to itself; so is what a new client gains
/// by it: twice the allowance; three times with small responses while the other client has a large one.
#[test]
fn a_newcomer_goes_first_for_three_allowances_at_most() {
    const GRANT: u64 = 10;
    for (alone_bytes, newcomer_bytes, bound) in
        [(5_000, 100, 3000), (1_000_000, 100, 3000), (5_000, 1 << 30, 2000), (1_000_000, 1 << 30, 2000)]
    {
        let mut closed = Closed::new(shared("srpt", 1000), &[(1, 1 << 40), (0, 0)], GRANT);
        while closed.had[0] < alone_bytes {
            closed.serve();
        }
        closed.arrive(1, newcomer_bytes);
        while closed.serve() == 1 {}
        assert!((bound - 100..=bound + GRANT).contains(&closed.had[1]), "after {alone_bytes}: {}", closed.had[1]);
    }
}

/// Clients who ask for small responses without end do not keep a larger one of a visitor waiting once each has had three allowances, though each
/// has its share of the link and no more.
#[test]
fn a_crowd_does_not_keep_a_visitor_waiting() {
    const GRANT: u64 = 10;
    const CROWD: u32 = 40;
    let mut closed =
        Closed::new(shared("srpt", 1000), &[[(6, 10); CROWD as usize].as_slice(), &[(0, 0)]].concat(), GRANT);
    let before = u64::from(CROWD) * 1000 * 3;
    while closed.had.iter().sum::<u64>() < before {
        closed.serve();
    }
    closed.arrive(CROWD, 900);
    let visitor = CROWD as usize;
    while closed.had[visitor] < 900 {
        closed.serve();
    }
    let beside = closed.had[..visitor].iter().sum::<u64>() - before;
    assert!(beside <= 900, "{beside} bytes of the crowd went before 900 of the visitor");
}

/// The owner of a network has ten allowances, and not one for each of its addresses: a visitor's larger response waits for 30 of a crowd of 100
/// addresses at most, and for 100 and more of a crowd of 100 networks.
#[test]
fn a_crowd_of_one_network_has_ten_allowances() {
    const ALLOWANCE: u64 = 1000;
    const CROWD: u32 = 100;
    let before_the_visitor = |network: fn(u32) -> Network| {
        let mut scheduler = shared("srpt", ALLOWANCE);
        for client in 0..CROWD {
            let network = network(client);
            scheduler.on_client(client, ClientTraits { network, ..ClientTraits::default() });
        }
        let mut closed = Closed::new(scheduler, &[[(6, 10); CROWD as usize].as_slice(), &[(1, 900)]].concat(), 10);
        let visitor = CROWD as usize;
        while closed.had[visitor] < 900 {
            closed.serve();
        }
        closed.had[..visitor].iter().sum::<u64>() / ALLOWANCE
    };
    let (of_one, of_many) =
        (before_the_visitor(|_| Network::of_hash(7)), before_the_visitor(|at| Network::of_hash(at.into())));
    assert!((5..=30).contains(&of_one) && of_many >= 100, "{of_one} and {of_many}");
}

/// Two downloads of one client advance together, and so do another client's; a small response waits for none of them.
#[test]
fn long_downloads_of_a_client_take_turns() {
    const GRANT: u64 = 10;
    let mut scheduler = shared("srpt", 1000);
    let arrive = |scheduler: &mut Scheduler, client, bytes| scheduler.arrive(Nanos::ZERO, job(client, bytes));
    let downloads = [(0, 20_000), (0, 30_000), (1, 20_000), (1, 30_000)];
    let ids = downloads.map(|(client, bytes)| arrive(&mut scheduler, client, bytes));
    for _ in 0..4000 / GRANT {
        let job = scheduler.poll_grant(Nanos::ZERO).unwrap().job;
        let _ = scheduler.on_sent(Nanos::ZERO, job, GRANT);
    }
    for (id, (_, bytes)) in ids.into_iter().zip(downloads) {
        let had = bytes - scheduler.jobs().get(id).unwrap().remaining();
        assert!((500..=1500).contains(&had), "{had} of {bytes}");
    }
    let small = arrive(&mut scheduler, 0, 500);
    assert_eq!(scheduler.poll_grant(Nanos::ZERO).map(|grant| grant.job), Some(small));
}

#[test]
fn clients_that_want_more_than_there_is_share_by_weight() {
    let mut closed = Closed::new(shared("srpt", 1000), &[(3, 500), (1, 70), (2, 90_000)], 10);
    closed.scheduler.on_client(0, ClientTraits { weight: 3, ..ClientTraits::default() });
    for _ in 0..100_000 {
        closed.serve();
    }
    let shares = [3u64, 1, 1].map(|weight| 1_000_000 * weight / 5);
    for (had, share) in closed.had.iter().zip(shares) {
        assert!(had.abs_diff(share) < 5000, "{:?}", closed.had);
    }
}

#[test]
fn an_idle_link_forgives() {
    let mut scheduler = shared("srpt", 100);
    let greedy = scheduler.arrive(Nanos::ZERO, job(0, 1000));
    let _ = scheduler.on_sent(Nanos::ZERO, greedy, 400);
    assert_eq!(scheduler.order().policy().ahead_bytes(0), Some(200), "half of it, and twice the allowance at most");
    scheduler.on_wait(greedy, Why::Connection);
    // A byte takes a nanosecond.
    scheduler.on_wait_over(Nanos(150), greedy, Why::Connection);
    assert_eq!(scheduler.order().policy().ahead_bytes(0), Some(50));
    // Time in which a client waits forgives nothing.
    scheduler.arrive(Nanos(150), job(1, 10));
    scheduler.on_wait(greedy, Why::Connection);
    scheduler.on_wait_over(Nanos(9999), greedy, Why::Connection);
    assert_eq!(
        (scheduler.order().policy().ahead_bytes(0), scheduler.order().policy().ahead_bytes(1)),
        (Some(50), Some(0))
    );
}

/// The client has the last band in the kernel, too.
#[test]
fn a_client_ahead_has_the_last_band() {
    let mut scheduler = shared("srpt-bands:1000,50000", 100);
    let job = scheduler.arrive(Nanos::ZERO, job(0, 1100));
    assert_eq!(scheduler.order().band(scheduler.jobs(), job), 1);
    let _ = scheduler.on_sent(Nanos::ZERO, job, 600);
    assert_eq!(
        (scheduler.order().policy().ahead_bytes(0), scheduler.order().band(scheduler.jobs(), job)),
        (Some(300), 2)
    );
}

#[test]
fn streams_of_a_connection_are_one_client() {
    let mut scheduler = shared("srpt", 100);
    let connection = scheduler.open(Framing::ETHERNET.with_segment(1));
    let on = |scheduler: &mut Scheduler, bytes| {
        scheduler.arrive_on(Nanos::ZERO, connection, job(0, bytes), Precedence::default()).unwrap()
    };
    let streams = [300, 200, 100].map(|bytes| on(&mut scheduler, bytes));
    let other = scheduler.arrive(Nanos::ZERO, job(1, 1000));
    let mut order = Vec::new();
    for _ in 0..3 {
        let id = scheduler.poll_grant(Nanos::ZERO).unwrap().job;
        let left = scheduler.jobs().get(id).unwrap().remaining();
        assert!(scheduler.on_sent(Nanos::ZERO, id, left).is_departed());
        order.push(id);
    }
    assert_eq!(order, [streams[2], streams[1], other], "200 of 300 bytes are ahead of a third");
}
