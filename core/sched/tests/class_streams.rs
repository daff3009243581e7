//! Tests of classes on connections of several responses: a client's wishes decide within a class, never between two.

use proptest::prelude::*;
use sched::classes::{ByClass, ClassSpec, ClassTable};
use sched::policy::Order;
use sched::{Arrival, ConnectionId, Guard, JobId, Pace, Precedence, Scheduler, Sharing, Size, WaitBound};
use units::wire::Framing;
use units::{Nanos, Rate};

/// A link of one byte per microsecond.
const LINK: u64 = 8_000_000;
const SEGMENT_BYTES: u64 = 1000;

fn rate(bits_per_s: u64) -> Rate {
    Rate::from_bits_per_s(bits_per_s).unwrap()
}

fn plain() -> ClassSpec {
    ClassSpec::plain("c", Order::Srpt)
}

fn framing() -> Framing {
    Framing::ETHERNET.with_segment(SEGMENT_BYTES)
}

fn urgency(urgency: u8) -> Precedence {
    Precedence { urgency, is_incremental: false }
}

/// A grant: its instant, its class, and its bytes.
type Given = (Nanos, u16, u64);

/// A scheduler of the link with these classes, in simulated time.
struct Link {
    scheduler: Scheduler,
    now: Nanos,
    /// Classes, by slot.
    classes: Vec<u16>,
}

impl Link {
    fn new(classes: &[ClassSpec], guard: Guard) -> Link {
        let table = ClassTable { classes: classes.to_vec(), slot_sharing: Sharing::Own };
        let policy = ByClass::new("classes".into(), classes, None, Some(rate(LINK)));
        let scheduler =
            Scheduler::new(Box::new(policy), Pace::of_line(rate(LINK))).with_classes(&table).with_guard(guard);
        Link { scheduler, now: Nanos::from_secs(1), classes: vec![0; 1000] }
    }

    fn open(&mut self) -> ConnectionId {
        self.scheduler.open(framing())
    }

    /// Adds a response of this class, on a connection or with one of its own.
    fn arrive(&mut self, on: Option<ConnectionId>, class: u16, bytes: u64, wish: Precedence) -> JobId {
        let arrival = Arrival { class, framing: framing(), ..Arrival::of(Size::Known(bytes)) };
        let id = match on {
            Some(on) => self.scheduler.arrive_on(self.now, on, arrival, wish).unwrap(),
            None => self.scheduler.arrive(self.now, arrival),
        };
        self.classes[id.slot()] = class;
        id
    }

    /// Serves the next grant, whenever it is due; also returns whether its job departed.
    fn serve(&mut self) -> Option<(Given, bool)> {
        for _ in 0..1000 {
            let Some(grant) = self.scheduler.poll_grant(self.now) else {
                let at = self.scheduler.poll_timeout()?;
                self.now = at.max(self.now + Nanos::from_micros(10));
                continue;
            };
            let given = (self.now, self.classes[grant.job.slot()], grant.bytes_max);
            let progress = self.scheduler.on_sent(self.now, grant.job, grant.bytes_max);
            return Some((given, progress.is_departed()));
        }
        panic!("it has been asked to wait a thousand times")
    }

    /// The shares of the bytes that classes get in this time, if these responses never end.
    fn parts(&mut self, span: Nanos) -> Vec<f64> {
        let (end, mut had) = (self.now + span, vec![0; 8]);
        while self.now < end {
            let ((_, class, bytes), _) = self.serve().unwrap();
            had[usize::from(class)] += bytes;
        }
        let whole = LINK as f64 / 8e9 * span.0 as f64 * SEGMENT_BYTES as f64 / framing().packet_bytes() as f64;
        had.into_iter().map(|bytes| bytes as f64 / whole).collect()
    }
}

/// The shares of the link of two classes whose responses share a connection; the first is marked as the most urgent.
fn parts_of(first: ClassSpec, second: ClassSpec) -> [f64; 2] {
    let mut link = Link::new(&[first, second], Guard::default());
    let connection = link.open();
    link.arrive(Some(connection), 0, u64::MAX, urgency(0));
    link.arrive(Some(connection), 1, u64::MAX, urgency(3));
    let parts = link.parts(Nanos::from_secs(10));
    [parts[0], parts[1]]
}

fn assert_near(got: [f64; 2], expected: [f64; 2]) {
    assert!((0..2).all(|at| (got[at] - expected[at]).abs() < 0.01), "{got:?}, expected {expected:?}");
}

#[test]
fn a_class_at_its_maximum_rate_holds_no_other_stream_up() {
    assert_near(parts_of(ClassSpec { greatest: Some(rate(LINK / 10)), ..plain() }, plain()), [0.1, 0.9]);
}

#[test]
fn no_urgency_goes_before_a_class_priority() {
    assert_near(parts_of(ClassSpec { priority: 1, ..plain() }, plain()), [0.0, 1.0]);
}

#[test]
fn no_urgency_takes_the_share_of_another_class() {
    assert_near(parts_of(plain(), ClassSpec { weight: 3, ..plain() }), [0.25, 0.75]);
    assert_near(parts_of(plain(), ClassSpec { guaranteed: Some(rate(LINK / 5 * 3)), ..plain() }), [0.4, 0.6]);
}

/// A page whose visitor downloads on the same connection leaves like any other visitor's page.
#[test]
fn a_page_does_not_wait_for_its_visitors_download() {
    let mut link = Link::new(&[plain(), ClassSpec { priority: 1, ..plain() }], Guard::default());
    let connection = link.open();
    link.arrive(None, 0, u64::MAX, urgency(3));
    link.arrive(Some(connection), 1, u64::MAX, urgency(0));
    link.arrive(Some(connection), 0, 3 * SEGMENT_BYTES, urgency(7));
    let departed = (0..9).position(|_| link.serve().unwrap().1);
    assert!(departed.is_some(), "others were served");
}

/// Room at the end of a segment does not let a class exceed its maximum rate.
#[test]
fn room_left_in_a_segment_is_for_a_class_that_may_send() {
    let capped = ClassSpec { greatest: Some(rate(LINK / 100)), ..plain() };
    let mut link = Link::new(&[capped, plain(), ClassSpec { priority: 1, ..plain() }], Guard::default());
    let connection = link.open();
    link.arrive(Some(connection), 0, u64::MAX, urgency(0));
    while !link.scheduler.order().is_idle() {
        link.serve();
    }
    let uncapped = link.arrive(Some(connection), 2, 500, urgency(0));
    let waiting =
        link.scheduler.jobs().iter().map(|(id, job, _)| (link.scheduler.is_at_class_rate(job), id == uncapped));
    assert_eq!(waiting.collect::<Vec<_>>(), [(true, false), (false, true)]);
    let filling = |link: &Link| {
        let grant = link.scheduler.order().filling(link.scheduler.jobs(), connection, 400);
        grant.map(|grant| link.classes[grant.job.slot()])
    };
    assert_eq!(filling(&link), Some(2));
    link.arrive(Some(connection), 1, 500, urgency(7));
    assert_eq!(filling(&link), Some(1));
}

/// The guard's promise holds for each class of a connection: bytes of one do not end the wait of another.
#[test]
fn the_guard_watches_each_class_of_a_connection() {
    let guard = Guard::new(10);
    let mut link = Link::new(&[plain(), ClassSpec { priority: 1, ..plain() }], guard);
    let connection = link.open();
    link.arrive(Some(connection), 0, u64::MAX, urgency(0));
    link.arrive(Some(connection), 1, u64::MAX, urgency(0));
    let bound: WaitBound = link.scheduler.wait_bound(framing()).unwrap();
    let (mut last, end) = (link.now, link.now + Nanos::from_secs(20));
    while link.now < end {
        if let ((at, 1, _), _) = link.serve().unwrap() {
            assert!(at - last <= bound.with(2), "{:?}", at - last);
            last = at;
        }
    }
    assert!(end - last <= bound.with(2), "it is starved");
    let longest = link.scheduler.order().longest_wait();
    assert!(longest > Nanos::from_secs(1) && longest <= bound.with(2), "{longest:?}");
}

/// Classes of every kind, chosen by the bits of a number.
fn classes_of(bits: u64) -> Vec<ClassSpec> {
    let class = |at: u32| {
        let bits = bits.rotate_right(at * 9);
        ClassSpec {
            priority: (bits & 1) as u8,
            weight: 1 + (bits >> 1 & 7) as u32,
            guaranteed: (bits >> 4 & 1 == 1).then(|| rate(LINK / 10)),
            greatest: (bits >> 5 & 1 == 1).then(|| rate(LINK / 4)),
            ..plain()
        }
    };
    (0..4).map(class).collect()
}

proptest! {
    /// Streams of different classes on one connection are served as if each had a connection of its own.
    #[test]
    fn a_stream_for_each_class_is_served_as_a_connection_for_each(
        bits in any::<u64>(),
        permille in prop::sample::select(vec![0, 100]),
        steps in prop::collection::vec((0..4u16, 1..9u64, 0..8u8, 0..3usize, 0..40u64), 1..80),
    ) {
        let mut given: Vec<(Vec<Given>, Nanos)> = Vec::new();
        for is_shared in [true, false] {
            let mut link = Link::new(&classes_of(bits), Guard::new(permille));
            let connection = link.open();
            let (mut live, mut all) = ([false; 4], Vec::new());
            for (class, segments, wish, grants, wait_ms) in &steps {
                if !std::mem::replace(&mut live[usize::from(*class)], true) {
                    let on = is_shared.then_some(connection);
                    link.arrive(on, *class, segments * SEGMENT_BYTES, urgency(*wish));
                }
                for _ in 0..*grants {
                    let Some((grant, is_departed)) = link.serve() else { break };
                    live[usize::from(grant.1)] &= !is_departed;
                    all.push(grant);
                }
                link.now += Nanos::from_millis(wait_ms * wait_ms);
            }
            given.push((all, link.scheduler.order().longest_wait()));
        }
        prop_assert_eq!(&given[0], &given[1]);
    }
}
