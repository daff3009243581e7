//! Tests of what classes promise: priorities, weights, guaranteed and maximum rates, concurrent responses.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sched::classes::{ByClass, ClassSpec, ClassTable};
use sched::policy::{ClientShare, ClientTraits, Order};
use sched::{Arrival, ConnectionId, Guard, JobId, Pace, Precedence, Scheduler, Sharing, Size, Why};
use units::wire::Framing;
use units::{Nanos, Rate};

/// A link of one byte per microsecond.
const LINK: u64 = 8_000_000;

fn rate(bits_per_s: u64) -> Rate {
    Rate::from_bits_per_s(bits_per_s).unwrap()
}

fn plain() -> ClassSpec {
    ClassSpec::plain("c", Order::Srpt)
}

fn table(classes: &[ClassSpec]) -> ClassTable {
    ClassTable { classes: classes.to_vec(), slot_sharing: Sharing::Own }
}

/// A scheduler of the link with these classes, in simulated time.
struct Link {
    scheduler: Scheduler,
    now: Nanos,
    /// Class and size, by slot.
    jobs: Vec<(u16, u64)>,
    /// Bytes, by class.
    had: Vec<u64>,
    /// The lateness of the caller's wake-ups, in turn.
    late: Vec<Nanos>,
    wakes: usize,
}

const SEGMENT_BYTES: u64 = 1000;

fn framing() -> Framing {
    Framing::ETHERNET.with_segment(SEGMENT_BYTES)
}

impl Link {
    fn new(table: &ClassTable) -> Link {
        let policy = ByClass::new("classes".into(), &table.classes, None, Some(rate(LINK)));
        let scheduler = Scheduler::new(Box::new(policy), Pace::of_line(rate(LINK))).with_classes(table);
        let (now, had) = (Nanos::from_secs(1), vec![0; table.classes.len()]);
        // A waiting loop wakes a little late.
        Link { scheduler, now, jobs: Vec::new(), had, late: vec![Nanos::from_micros(10)], wakes: 0 }
    }

    fn arrive(&mut self, class: u16, bytes: u64) -> JobId {
        let arrival = Arrival { class, framing: framing(), ..Arrival::of(Size::Known(bytes)) };
        let id = self.scheduler.arrive(self.now, arrival);
        self.jobs.resize(self.jobs.len().max(id.slot() + 1), (0, 0));
        self.jobs[id.slot()] = (class, bytes);
        id
    }

    fn arrive_on(&mut self, connection: ConnectionId, class: u16, bytes: u64) -> Option<JobId> {
        let arrival = Arrival { class, ..Arrival::of(Size::Known(bytes)) };
        let id = self.scheduler.arrive_on(self.now, connection, arrival, Precedence::default())?;
        self.jobs.resize(self.jobs.len().max(id.slot() + 1), (0, 0));
        self.jobs[id.slot()] = (class, bytes);
        Some(id)
    }

    fn change(&mut self, live: &mut Vec<JobId>, blocked: &mut BTreeSet<u64>, at: usize, change: Change) {
        let at = at % live.len();
        let id = live[at];
        match change {
            Change::Block => {
                blocked.insert(id.number);
                self.scheduler.on_wait(id, Why::Connection);
            }
            Change::Writable => {
                blocked.remove(&id.number);
                self.scheduler.on_wait_over(self.now, id, Why::Connection);
            }
            Change::Abort => {
                live.remove(at);
                self.scheduler.on_end(id);
            }
        }
    }

    /// Serves the next grant, whenever it is due. Returns its job, its class, and whether it departed.
    fn serve(&mut self) -> Option<(JobId, u16, bool)> {
        for _ in 0..1000 {
            let Some(grant) = self.scheduler.poll_grant(self.now) else {
                let at = self.scheduler.poll_timeout()?;
                self.wakes += 1;
                self.now = at.max(self.now) + self.late[self.wakes % self.late.len()];
                continue;
            };
            let class = self.jobs[grant.job.slot()].0;
            self.had[usize::from(class)] += grant.bytes_max;
            let is_departed = self.scheduler.on_sent(self.now, grant.job, grant.bytes_max).is_departed();
            return Some((grant.job, class, is_departed));
        }
        panic!("it has been asked to wait a thousand times")
    }

    /// Serves for this time, with another response in place of each that departs.
    fn run(&mut self, span: Nanos) {
        let end = self.now + span;
        while self.now < end {
            let Some((id, class, is_departed)) = self.serve() else { return };
            if is_departed {
                self.arrive(class, self.jobs[id.slot()].1);
            }
        }
    }

    /// Payload per second of each class while the link is busy.
    fn rates(classes: &[ClassSpec], load: &[u16]) -> Vec<f64> {
        let mut link = Link::new(&table(classes));
        for class in load {
            link.arrive(*class, 50_000);
        }
        link.run(Nanos::from_secs(20));
        let goodput = LINK as f64 / 8.0 * 20.0 * SEGMENT_BYTES as f64 / framing().packet_bytes() as f64;
        link.had.iter().map(|bytes| *bytes as f64 / goodput).collect()
    }
}

fn assert_near(got: &[f64], expected: &[f64]) {
    let near = got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 0.01);
    assert!(near && got.len() == expected.len(), "{got:?}, expected {expected:?}");
}

#[test]
fn the_least_priority_number_has_the_link() {
    let classes = [ClassSpec { priority: 1, ..plain() }, plain(), ClassSpec { priority: 2, ..plain() }];
    assert_near(&Link::rates(&classes, &[0, 1, 2]), &[0.0, 1.0, 0.0]);
    assert_near(&Link::rates(&classes, &[0, 2]), &[1.0, 0.0, 0.0]);
}

#[test]
fn weights_divide_a_priority() {
    let of = |weight| ClassSpec { weight, ..plain() };
    assert_near(&Link::rates(&[of(3), of(1), of(1)], &[0, 1, 2]), &[0.6, 0.2, 0.2]);
    // Not by the number of responses, and nothing is kept for classes that have none.
    assert_near(&Link::rates(&[of(3), of(1), of(1)], &[0, 1, 1, 1, 1]), &[0.75, 0.25, 0.0]);
    assert_near(&Link::rates(&[of(1000), of(1)], &[0, 1]), &[0.999, 0.001]);
}

/// A class that had nothing to send is not compensated: it joins at the others' position, at its own weight.
#[test]
fn an_idle_class_saves_nothing_up() {
    for (weights, expected) in [([1, 1], 0.5), ([3, 1], 0.25), ([1, 3], 0.75)] {
        let mut link = Link::new(&table(&weights.map(|weight| ClassSpec { weight, ..plain() })));
        link.arrive(0, 50_000);
        link.run(Nanos::from_secs(5));
        let before = link.had.clone();
        link.arrive(1, 50_000);
        link.run(Nanos::from_secs(2));
        let [first, second] = [0, 1].map(|class| (link.had[class] - before[class]) as f64);
        let share = second / (first + second);
        assert!((share - expected).abs() < 0.01, "{weights:?}: {share}");
    }
}

#[test]
fn a_class_past_the_last_is_the_last() {
    let mut link = Link::new(&table(&[plain(), ClassSpec { priority: 1, ..plain() }]));
    let [past, first] =
        [200, 0].map(|class| link.scheduler.arrive(link.now, Arrival { class, ..Arrival::of(Size::Known(100)) }));
    assert_eq!(link.scheduler.poll_grant(link.now).unwrap().job, first);
    link.scheduler.on_end(first);
    assert_eq!(link.scheduler.poll_grant(link.now).unwrap().job, past);
}

/// The guard's share goes to a job that waits, even in the last class.
#[test]
fn the_guard_works_beside_classes() {
    let last = ClassSpec { priority: 1, ..plain() };
    let table = table(&[plain(), last]);
    let policy = ByClass::new("classes".into(), &table.classes, None, Some(rate(LINK)));
    // One byte per grant, and enough time between grants that the pace does not matter.
    let pace = Pace { grant_for: Nanos::ZERO, ..Pace::of_line(rate(LINK)) };
    let mut scheduler = Scheduler::new(Box::new(policy), pace).with_classes(&table).with_guard(Guard::new(100));
    let job =
        |size, class| Arrival { framing: Framing::ETHERNET.with_segment(1), class, ..Arrival::of(Size::Known(size)) };
    let waiting = scheduler.arrive(Nanos(0), job(5000, 1));
    scheduler.arrive(Nanos(0), job(4000, 0));
    let mut to_waiting = 0;
    for tick in 1..=1000 {
        let now = Nanos::from_secs(2 * tick);
        let grant = scheduler.poll_grant(now).unwrap();
        to_waiting += u64::from(grant.job == waiting);
        let _ = scheduler.on_sent(now, grant.job, 1);
    }
    // A tenth, minus the byte still owed.
    assert!((99..=100).contains(&to_waiting), "{to_waiting}");
}

#[test]
fn a_guarantee_holds_below_any_priority() {
    let last = |bits| ClassSpec { priority: 9, guaranteed: Some(rate(bits)), ..plain() };
    assert_near(&Link::rates(&[plain(), last(LINK / 5)], &[0, 1]), &[0.8, 0.2]);
    // With a competing class it has its turns too, and these count for it.
    let own = ClassSpec { guaranteed: Some(rate(LINK / 5)), ..plain() };
    assert_near(&Link::rates(&[plain(), own.clone()], &[0, 1]), &[0.5, 0.5]);
    assert_near(&Link::rates(&[ClassSpec { weight: 9, ..plain() }, own], &[0, 1]), &[0.8, 0.2]);
}

#[test]
fn guarantees_beyond_the_link_are_scaled_down() {
    let of = |bits| ClassSpec { guaranteed: Some(rate(bits)), ..plain() };
    let rates = Link::rates(&[of(3 * LINK), of(LINK)], &[0, 1]);
    // If neither is due, they take turns.
    assert!((rates[0] - 0.75).abs() < 0.02 && (rates[1] - 0.25).abs() < 0.02, "{rates:?}");
}

#[test]
fn a_slower_line_keeps_guarantees() {
    let mut link =
        Link::new(&table(&[plain(), ClassSpec { priority: 1, guaranteed: Some(rate(LINK / 8)), ..plain() }]));
    link.scheduler.set_pace(link.now, Some(rate(LINK / 4)));
    for class in 0..2 {
        link.arrive(class, 50_000);
    }
    link.run(Nanos::from_secs(20));
    let part = link.had[1] as f64 / (link.had[0] + link.had[1]) as f64;
    assert!((part - 0.5).abs() < 0.01, "{part}");
}

#[test]
fn a_greatest_rate_holds_on_an_idle_link() {
    let capped = ClassSpec { greatest: Some(rate(LINK / 10)), ..plain() };
    let packets = SEGMENT_BYTES as f64 / framing().packet_bytes() as f64;
    let rates = Link::rates(std::slice::from_ref(&capped), &[0, 0]);
    assert!((rates[0] - 0.1).abs() < 0.001, "{rates:?} {packets}");
    assert_near(&Link::rates(&[capped.clone(), plain()], &[0, 1]), &[0.1, 0.9]);
    // The priority does not matter.
    assert_near(&Link::rates(&[capped, ClassSpec { priority: 3, ..plain() }], &[0, 0, 1]), &[0.1, 0.9]);
}

/// A class just below its share reaches its maximum, although it is never behind the others for long.
#[test]
fn a_greatest_rate_below_the_share_is_reached() {
    for (weight, permille, part) in [(1, 240, 0.24), (1, 100, 0.1), (3, 490, 0.49)] {
        let capped = ClassSpec { weight, greatest: Some(rate(LINK).permille(permille)), ..plain() };
        let rates = Link::rates(&[capped, plain(), plain(), plain()], &[0, 0, 1, 2, 3]);
        assert!((rates[0] - part).abs() < 0.005, "{rates:?}, expected {part}");
    }
}

/// A class is not owed the bytes that its maximum rate kept from it: without a maximum, or once its maximum is above its
/// share, it has its share and no more.
#[test]
fn a_class_at_its_greatest_rate_saves_nothing_up() {
    let capped = ClassSpec { greatest: Some(rate(LINK / 10)), ..plain() };
    let last = ClassSpec { priority: 9, guaranteed: Some(rate(LINK / 5)), ..capped.clone() };
    let without = |class: &ClassSpec| ClassSpec { greatest: None, ..class.clone() };
    for (class, slower, expected) in [(&capped, 1, 0.5), (&capped, 8, 0.5), (&last, 1, 0.2)] {
        let mut link = Link::new(&table(&[class.clone(), plain()]));
        for class in [0, 0, 1, 1] {
            link.arrive(class, 50_000);
        }
        link.run(Nanos::from_secs(15));
        match slower {
            1 => link.scheduler.replace_classes(link.now, &[without(class), plain()]),
            _ => link.scheduler.set_pace(link.now, Some(rate(LINK / slower))),
        }
        let before = link.had.clone();
        link.run(Nanos::from_secs(2));
        let [of_class, of_other] = [0, 1].map(|class| (link.had[class] - before[class]) as f64);
        let part = of_class / (of_class + of_other);
        assert!((part - expected).abs() < 0.02, "{class:?}, a line {slower} times slower: {part}");
    }
}

/// A busy host wakes late, by no more than the sender makes up for elsewhere.
#[test]
fn a_greatest_rate_is_reached_on_a_busy_host() {
    let mut link = Link::new(&table(&[ClassSpec { greatest: Some(rate(LINK / 5)), ..plain() }]));
    link.late = [0, 12, 3, 19, 7, 1, 15].map(Nanos::from_millis).to_vec();
    link.arrive(0, 50_000);
    link.arrive(0, 50_000);
    link.run(Nanos::from_secs(20));
    let goodput = LINK as f64 / 8.0 * 20.0 * SEGMENT_BYTES as f64 / framing().packet_bytes() as f64;
    let part = link.had[0] as f64 / goodput;
    assert!((part - 0.2).abs() < 0.001, "{part}");
}

#[test]
fn the_order_within_a_class_is_its_own() {
    let mut link = Link::new(&table(&[plain(), ClassSpec::plain("b", Order::Fcfs)]));
    let ids = [(0, 9000), (0, 3000), (1, 9000), (1, 3000)].map(|(class, bytes)| link.arrive(class, bytes));
    let mut ends = Vec::new();
    while let Some((id, _, is_departed)) = link.serve() {
        ends.extend(is_departed.then_some(id));
    }
    let place = |id| ends.iter().position(|end| *end == id).unwrap();
    assert!(place(ids[1]) < place(ids[0]) && place(ids[2]) < place(ids[3]));
}

/// Classes that differ only in their slots share the link by response, as the paper's do: three of B next to fifteen of
/// A have a sixth.
#[test]
fn pooled_classes_share_by_response() {
    let of = |slots| ClassSpec { concurrent_max: Some(slots), is_pooled: true, ..ClassSpec::plain("c", Order::Fair) };
    let load: Vec<u16> = (0..30).map(|nth| nth % 2).collect();
    assert_near(&Link::rates(&[of(15), of(3)], &load), &[15.0 / 18.0, 3.0 / 18.0]);
    // In addition to them, a class with its own share, and one pool for each priority.
    let own = ClassSpec { is_pooled: false, ..of(30) };
    assert_near(&Link::rates(&[of(15), own, of(15)], &[0, 1, 2, 2, 2]), &[0.125, 0.5, 0.375]);
    let low = ClassSpec { priority: 1, ..of(15) };
    assert_near(&Link::rates(&[low.clone(), of(15), low], &[0, 1, 2]), &[0.0, 1.0, 0.0]);
}

/// A client that splits its download has no more of its class than the other, and takes nothing of another class.
#[test]
fn clients_share_a_class() {
    let table = table(&[plain(), plain()]);
    let share = ClientShare { allowance_bytes: 10_000, idle_bytes_per_s: LINK / 8 };
    let policy = ByClass::new("classes".into(), &table.classes, Some(share), Some(rate(LINK)));
    let mut scheduler = Scheduler::new(Box::new(policy), Pace::UNLIMITED).with_classes(&table);
    (0..3).for_each(|client| scheduler.on_client(client, ClientTraits::default()));
    let (mut had, mut owners) = ([0u64; 3], vec![0; 64]);
    let arrive = |scheduler: &mut Scheduler, owners: &mut [u32], client: u32| {
        let arrival = Arrival {
            client,
            class: u16::from(client == 2),
            ..Arrival::of(Size::Known(5_000 + u64::from(client) * 40_000))
        };
        let id = scheduler.arrive(Nanos::ZERO, arrival);
        owners[id.slot()] = client;
    };
    (0..20).for_each(|_| arrive(&mut scheduler, &mut owners, 0));
    (1..3).for_each(|client| arrive(&mut scheduler, &mut owners, client));
    for _ in 0..20_000 {
        let grant = scheduler.poll_grant(Nanos::ZERO).unwrap();
        let (client, bytes) = (owners[grant.job.slot()], grant.bytes_max.min(1448));
        had[client as usize] += bytes;
        if scheduler.on_sent(Nanos::ZERO, grant.job, bytes).is_departed() {
            arrive(&mut scheduler, &mut owners, client);
        }
    }
    let all = had.iter().sum::<u64>() as f64;
    let parts = had.map(|bytes| bytes as f64 / all);
    assert!((parts[2] - 0.5).abs() < 0.01 && (parts[1] - 0.25).abs() < 0.03, "{parts:?}");
    assert!(scheduler.order().policy().ahead_bytes(0).is_some_and(|bytes| bytes > 5_000));
    scheduler.on_client(0, ClientTraits::default());
    assert_eq!(scheduler.order().policy().ahead_bytes(0), Some(0), "another client of that number");
}

/// Almeida et al. 1998, section 3.1: a class of one slot sends one response at a time, in order of arrival.
#[test]
fn a_sleeping_response_is_not_sent() {
    let mut link = Link::new(&table(&[ClassSpec { concurrent_max: Some(1), ..plain() }, plain()]));
    let [large, small] = [link.arrive(0, 9_000), link.arrive(0, 1_000)];
    let other = link.arrive(1, 500);
    let mut ends = Vec::new();
    while let Some((id, _, is_departed)) = link.serve() {
        assert!(id != small || ends.contains(&large), "it sleeps");
        ends.extend(is_departed.then_some(id));
    }
    assert_eq!((ends[0], ends.len(), ends[2]), (other, 3, small));
}

#[test]
fn a_client_that_leaves_wakes_the_next() {
    let mut link = Link::new(&table(&[ClassSpec { concurrent_max: Some(1), ..plain() }]));
    let [first, asleep, last] = [9_000, 8_000, 7_000].map(|bytes| link.arrive(0, bytes));
    link.scheduler.on_end(asleep);
    link.scheduler.on_end(first);
    assert!(link.scheduler.poll_timeout().is_some(), "somebody goes on");
    assert_eq!(link.serve().map(|(id, ..)| id), Some(last));
}

#[test]
fn preemption_puts_the_youngest_of_lower_priority_to_sleep() {
    let limited = |priority, slots| ClassSpec { priority, concurrent_max: Some(slots), ..plain() };
    let classes = ClassTable { classes: vec![limited(0, 1), limited(1, 1)], slot_sharing: Sharing::AnyUntilWanted };
    let mut link = Link::new(&classes);
    let [old, young] = [link.arrive(1, 9_000), link.arrive(1, 3_000)];
    assert_eq!(link.serve().map(|served| served.0), Some(young));
    let first = link.arrive(0, 2_000);
    let mut served: Vec<JobId> = Vec::new();
    while let Some((id, ..)) = link.serve() {
        served.push(id);
    }
    served.dedup();
    assert_eq!(served, [first, young, old], "it goes on where it was put to sleep");
}

/// A change to a job.
#[derive(Debug, Clone, Copy)]
enum Change {
    Block,
    Writable,
    Abort,
}

#[derive(Debug, Clone)]
enum Step {
    Arrive { class: u16, bytes: u64, is_carried: bool },
    Serve,
    Change(usize, Change),
    Wait(u64),
    Replace(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u16..5, 1u64..6_000, prop::bool::weighted(0.3)).prop_map(|(class, bytes, is_carried)| Step::Arrive { class, bytes, is_carried }),
        6 => Just(Step::Serve),
        3 => (0usize..100, prop::sample::select(vec![Change::Block, Change::Writable, Change::Abort]))
            .prop_map(|(at, change)| Step::Change(at, change)),
        1 => (0u64..5_000).prop_map(Step::Wait),
        1 => any::<u64>().prop_map(Step::Replace),
    ];
    prop::collection::vec(step, 1..150)
}

/// Classes of every kind, chosen by the bits of a number.
fn classes_of(bits: u64) -> Vec<ClassSpec> {
    let class = |at: u32| {
        let bits = bits.rotate_right(at * 11);
        ClassSpec {
            priority: (bits & 1) as u8,
            weight: 1 + (bits >> 1 & 7) as u32,
            guaranteed: (bits >> 4 & 1 == 1).then(|| rate(LINK / 10)),
            greatest: (bits >> 5 & 1 == 1).then(|| rate(LINK / 4)),
            concurrent_max: (bits >> 6 & 1 == 1).then(|| 1 + (bits >> 7 & 1) as u32),
            ..plain()
        }
    };
    (0..5).map(class).collect()
}

proptest! {
    /// With one class, every decision follows its order only.
    #[test]
    fn one_class_is_its_order(jobs in prop::collection::vec((1u64..9_000, 0usize..20), 1..60), order in 0usize..4) {
        let order = [Order::Srpt, Order::Fcfs, Order::Las, Order::Fsp][order].clone();
        let table = table(&[ClassSpec::plain("c", order.clone())]);
        let policy = ByClass::new("classes".into(), &table.classes, None, Some(rate(LINK)));
        let mut classes = Scheduler::new(Box::new(policy), Pace::UNLIMITED).with_classes(&table);
        let mut alone = Scheduler::new(sched::policy::PolicySpec::from(order).build(), Pace::UNLIMITED);
        let serve = |scheduler: &mut Scheduler| {
            let grant = scheduler.poll_grant(Nanos::ZERO)?;
            let progress = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max.min(500));
            Some((grant, progress))
        };
        for (bytes, grants) in jobs {
            for scheduler in [&mut classes, &mut alone] {
                scheduler.arrive(Nanos::ZERO, Arrival::of(Size::Known(bytes)));
            }
            for _ in 0..grants {
                prop_assert_eq!(serve(&mut classes), serve(&mut alone));
            }
        }
    }

    /// Whatever arrives, waits, leaves and is reconfigured: everything that is not blocked is sent in the end.
    #[test]
    fn nobody_sleeps_for_ever(bits in any::<u64>(), sharing in 0usize..3, steps in steps()) {
        let slot_sharing = [Sharing::Own, Sharing::Any, Sharing::AnyUntilWanted][sharing];
        let mut link = Link::new(&ClassTable { classes: classes_of(bits), slot_sharing });
        let connection = link.scheduler.open(framing());
        let (mut live, mut blocked): (Vec<JobId>, BTreeSet<u64>) = Default::default();
        for step in steps {
            match step {
                Step::Arrive { class, bytes, is_carried: false } => live.push(link.arrive(class, bytes)),
                Step::Arrive { class, bytes, is_carried: true } => live.extend(link.arrive_on(connection, class, bytes)),
                Step::Serve => {
                    if let Some((id, _, is_departed)) = link.serve() {
                        prop_assert!(!blocked.contains(&id.number));
                        live.retain(|job| *job != id || !is_departed);
                    }
                }
                Step::Wait(micros) => link.now += Nanos::from_micros(micros),
                Step::Replace(bits) => link.scheduler.replace_classes(link.now, &classes_of(bits)),
                Step::Change(at, change) if !live.is_empty() => link.change(&mut live, &mut blocked, at, change),
                Step::Change(..) => {}
            }
        }
        for id in &live {
            link.scheduler.on_wait_over(link.now, *id, Why::Connection);
        }
        while let Some((id, _, is_departed)) = link.serve() {
            live.retain(|job| *job != id || !is_departed);
        }
        prop_assert!(live.is_empty() && link.scheduler.jobs().is_empty(), "{live:?} are left");
    }
}

/// The line's rate is searched only while something waits for the line.
#[test]
fn a_class_at_its_maximum_rate_leaves_the_line_idle() {
    let mut link = Link::new(&table(&[ClassSpec { greatest: "1mbit".parse().ok(), ..plain() }]));
    link.arrive(0, 900_000);
    assert!(!link.scheduler.order().is_idle());
    let begun = link.now;
    while !link.scheduler.order().is_idle() {
        assert!(link.serve().is_some() && link.now < begun + Nanos::from_secs(9), "it is never held");
    }
    assert!(link.scheduler.poll_timeout().is_some(), "it goes on later");
    assert_eq!(link.serve().map(|(.., is_departed)| is_departed), Some(false));
}
