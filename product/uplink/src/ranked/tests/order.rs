//! Who is sent before whom, how fast, and who loses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::pair::{Flow, Mark, Pair, wait_for};
use super::*;

/// What fills a frame of 1514 bytes.
const FULL: usize = 1464;

/// Of SYN-ACKs and the like.
const CONTROL: u32 = 16;

/// Sends full frames until it is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn new(number: u32, rank: u32) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let flow = Flow::new(number, rank);
            // Some 400 packets, so that a sender who is late leaves no gap.
            flow.room(512 << 10);
            let count = (0..).take_while(|_| !stopped.load(Ordering::Relaxed));
            count.for_each(|nth| flow.send(nth, FULL));
        });
        Flood { stop, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn count(marks: &[Mark], flow: u32) -> usize {
    marks.iter().filter(|mark| mark.flow == flow).count()
}

#[test]
fn of_two_floods_the_lower_rank_has_the_link() {
    with_ranked(|| {
        let pair = Pair::new();
        let ranked = install(&pair.sender, rate("10mbit"), FLOWS_MAX_DEFAULT).unwrap();
        let _worse = Flood::new(2, 4_000_000_000);
        while pair.next().flow != 2 {}
        let _better = Flood::new(1, 100_000);
        while pair.next().flow != 1 {}
        let marks = pair.take(3000);
        let stats = ranked.stats().unwrap();
        println!("better {} of {}; {stats:?}", count(&marks, 1), marks.len());
        assert!(count(&marks, 1) * 1000 >= marks.len() * 990, "better {} of {}", count(&marks, 1), marks.len());
        // The guard's share, which is not zero: the worse flow waits longest.
        assert!(count(&marks, 2) >= 3, "worse {}", count(&marks, 2));
        assert!(stats.guard_bytes > 0 && stats.guard_bytes < stats.bytes / 300, "{stats:?}");
    });
}

#[test]
fn equal_ranks_share_evenly() {
    with_ranked(|| {
        let pair = Pair::new();
        install(&pair.sender, rate("10mbit"), FLOWS_MAX_DEFAULT).unwrap();
        let _floods = [1, 2, 3].map(|number| Flood::new(number, 5000));
        let mut is_seen = [false; 4];
        while is_seen[1..] != [true; 3] {
            is_seen[pair.next().flow as usize] = true;
        }
        let marks = pair.take(1500);
        let counts = [1, 2, 3].map(|flow| count(&marks, flow));
        assert!(counts.iter().all(|count| (400..=600).contains(count)), "{counts:?}");
    });
}

/// Two floods: responses have most of the link, other traffic a fifth at least, and more while a busy machine leaves the
/// responses' queue empty; beside the flood another flow of other traffic, as ssh would be, has its turn.
#[test]
fn other_traffic_has_its_share_and_takes_turns() {
    with_ranked(|| {
        let pair = Pair::new();
        install(&pair.sender, rate("10mbit"), FLOWS_MAX_DEFAULT).unwrap();
        let _other = Flood::new(1, 0);
        while pair.next().flow != 1 {}
        let _responses = Flood::new(2, 5000);
        while pair.next().flow != 2 {}
        let marks = pair.take(1500);
        let counts = [1, 2].map(|flow| count(&marks, flow));
        println!("other {}, responses {}", counts[0], counts[1]);
        assert!((200..=700).contains(&counts[0]), "{counts:?}");
        // The kernel hashes a flow to one of 16 queues: of four not all are in the flood's.
        let few = [3, 4, 5, 6].map(|number| Flow::new(number, 6));
        few.iter().for_each(|flow| flow.send(0, 100));
        let marks = pair.take(400);
        let before = marks.iter().filter(|mark| mark.flow > 2).count();
        assert!(before >= 1, "none of {few} came", few = few.len());
    });
}

/// This thread and those it makes. A packet waits at the receiving end of a cable on the processor that sent it, so what two of
/// them have in hand changes places there when one stands still, after the qdisc let it go in order.
fn stay_on_one_processor() {
    // SAFETY: a set of processors is plain bits, of which none set is the empty set; the call only reads it.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(status, 0);
}

#[test]
fn a_flow_is_never_reordered_whatever_its_ranks() {
    with_ranked(|| {
        stay_on_one_processor();
        let pair = Pair::new();
        let mut ranked = install(&pair.sender, rate("10mbit"), FLOWS_MAX_DEFAULT).unwrap();
        // Else every packet worse than the other flow's would wait for 75 KB of those.
        ranked.set(Settings { guard_permille: 300, ..ranked.settings.clone() }).unwrap();
        let other = Flood::new(2, 3000);
        let flow = Flow::new(1, CONTROL);
        let sent = std::thread::spawn(move || {
            for nth in 0..2000u32 {
                // Control, 1000 … 6000 more in an order without pattern: Knuth's multiplicative hash.
                flow.rank(CONTROL + nth.wrapping_mul(2_654_435_761) % 7 * 1000);
                flow.send(nth, 100);
            }
            flow
        });
        let _flow = sent.join().unwrap();
        drop(other);
        let arrived: Vec<u32> = pair.rest().into_iter().filter(|mark| mark.flow == 1).map(|mark| mark.nth).collect();
        let reordered: Vec<_> = arrived.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
        assert!(reordered.is_empty(), "{reordered:?}");
        // A machine that stands still loses packets at the receiving end, which holds a thousand; that is no reordering.
        assert!(arrived.len() > 1000, "{} of 2000 arrived", arrived.len());
    });
}

/// Stops the link, queues, and lets go: what arrives then is in the order the qdisc made, exactly.
#[test]
fn ten_thousand_flows_leave_in_the_order_of_their_ranks() {
    with_ranked(|| {
        let pair = Pair::new();
        let mut ranked = install(&pair.sender, rate("1kbit"), FLOWS_MAX_DEFAULT).unwrap();
        ranked.set(Settings { guard_permille: 0, ..ranked.settings.clone() }).unwrap();
        let flow = Flow::unconnected();
        let _timed = super::cost::Timed::new();
        const FLOWS: u32 = 10_000;
        // The first occupies the link for half a second and more by itself.
        flow.rank(CONTROL + 1);
        flow.send_as(0, 0);
        for number in 1..=FLOWS {
            flow.rank(CONTROL + 2 + number.wrapping_mul(7919) % FLOWS);
            flow.send_as(number, 0);
        }
        let stats = ranked.stats().unwrap();
        assert_eq!((stats.dropped_full, stats.dropped_flow, stats.dropped_memory), (0, 0, 0), "{stats:?}");
        // Two of 10,000 addresses may have one hash.
        assert!(stats.flows_peak > FLOWS - 10, "{stats:?}");
        // Not faster than the receiving side takes packets in: the cable holds a thousand.
        ranked.set_rate(rate("4mbit")).unwrap();
        let marks = pair.take(FLOWS as usize + 1);
        let ranks: Vec<u32> = marks[1..].iter().map(|mark| mark.flow.wrapping_mul(7919) % FLOWS).collect();
        let out_of_order = ranks.windows(2).filter(|pair| pair[0] > pair[1]).count();
        // A shared hash is a shared queue; what left before the link was stopped for good came first.
        assert!(out_of_order <= 6, "{out_of_order}");
        assert_eq!(ranked.stats().unwrap().flows, 0);
        super::cost::print("10,000 flows");
    });
}

#[test]
fn flows_beyond_the_bound_share_a_queue_and_all_arrive() {
    with_ranked(|| {
        let pair = Pair::new();
        let mut ranked = install(&pair.sender, rate("1kbit"), 100).unwrap();
        let flow = Flow::unconnected();
        flow.rank(900);
        (0..300).for_each(|number| flow.send_as(number, 0));
        let stats = ranked.stats().unwrap();
        assert_eq!(stats.flows_peak, 101, "{stats:?}");
        assert!((190..=200).contains(&stats.excess_packets), "{stats:?}");
        ranked.set_rate(rate("10mbit")).unwrap();
        let mut flows: Vec<u32> = pair.take(300).iter().map(|mark| mark.flow).collect();
        flows.sort_unstable();
        assert!(flows.into_iter().eq(0..300));
    });
}

#[test]
fn when_full_the_worst_ranks_lose_and_control_never() {
    with_ranked(|| {
        let pair = Pair::new();
        let mut ranked = install(&pair.sender, rate("1kbit"), FLOWS_MAX_DEFAULT).unwrap();
        ranked.set(Settings { packets_max: 50, ..ranked.settings.clone() }).unwrap();
        let flows =
            [Flow::new(1, 4_000_000_000), Flow::new(2, 4_000_000_000), Flow::new(3, 1000), Flow::new(4, CONTROL)];
        flows.iter().for_each(|flow| flow.room(16 << 20));
        (0..100).for_each(|nth| flows[0].send(nth, 100));
        (0..10).for_each(|nth| flows[1].send(nth, 100));
        (0..20).for_each(|nth| flows[2].send(nth, 100));
        (0..10).for_each(|nth| flows[3].send(nth, 100));
        let stats = ranked.stats().unwrap();
        assert_eq!((stats.backlog_packets, stats.dropped_flow, stats.dropped_memory), (50, 0, 0), "{stats:?}");
        ranked.set_rate(rate("10mbit")).unwrap();
        wait_for("the qdisc is empty", || ranked.stats().unwrap().flows == 0);
        let marks = pair.rest();
        let counts = [1, 2, 3, 4].map(|flow| count(&marks, flow));
        println!("{counts:?} {stats:?}");
        assert_eq!((counts[2], counts[3]), (20, 10), "{counts:?}");
        // The two worst share what is left, by the longest one's loss: the newcomer is not shut out.
        assert!((8..=10).contains(&counts[1]) && counts[0] >= 10, "{counts:?}");
        assert_eq!(stats.dropped_full as usize, 140 - marks.len());
    });
}

#[test]
fn the_rate_is_held_and_changed_live() {
    with_ranked(|| {
        let pair = Pair::new();
        let mut ranked = install(&pair.sender, rate("10mbit"), FLOWS_MAX_DEFAULT).unwrap();
        let _flood = Flood::new(1, 7);
        let mut mbit_per_s = |text: &str| {
            ranked.set_rate(rate(text)).unwrap();
            pair.forget();
            pair.take(100);
            let (start, before) = (Instant::now(), ranked.stats().unwrap().bytes);
            pair.take(1000);
            let bytes = ranked.stats().unwrap().bytes - before;
            bytes as f64 * 8e-6 / start.elapsed().as_secs_f64()
        };
        let measured = ["10mbit", "20mbit", "5mbit"].map(&mut mbit_per_s);
        println!("sent {measured:.3?} Mbit/s at 10, 20 and 5");
        // Never faster, but for what was read a packet too late. How much slower is a matter of the machine's timers.
        for (measured, wanted) in measured.into_iter().zip([10.0, 20.0, 5.0]) {
            assert!(measured > 0.0 && measured < 1.03 * wanted, "{measured} of {wanted}");
        }
    });
}

#[test]
fn a_queue_that_empties_and_fills_again_goes_on() {
    with_ranked(|| {
        let pair = Pair::new();
        let ranked = install(&pair.sender, rate("10mbit"), FLOWS_MAX_DEFAULT).unwrap();
        let flow = Flow::new(1, 5);
        for nth in 0..50 {
            flow.send(nth, 10);
            assert_eq!(pair.next(), Mark { flow: 1, nth });
        }
        wait_for("the qdisc is empty", || ranked.stats().unwrap().flows == 0);
        assert_eq!(ranked.stats().unwrap().backlog_bytes, 0);
    });
}
