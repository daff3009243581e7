//! Marked packets, with a kernel in memory: TCP small queues below every socket, strict priorities below those, and a
//! link that takes one packet at a time.

use crate::body::Body;
use crate::connection::{ChannelKind, End, Opening, Outgoing};
use crate::net::{Sink, Status};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::rc::Rc;

use proptest::prelude::*;
use sched::{Pace, Scheduler, policy};
use units::memory::Account;
use units::wire::Framing;

use super::*;

/// The number of packets that TCP lets a connection have in the host's own queues.
const PACKETS_BELOW_MAX: usize = 2;
const SEGMENT: u64 = 1448;
const BURST: u64 = 2 * SEGMENT;

#[derive(Default)]
struct Kernel {
    /// Each packet is its connection and its sequence number.
    bands: Vec<VecDeque<(usize, u64)>>,
    flows: Vec<Flow>,
    /// The band of every packet that left, by connection.
    left: Vec<(usize, usize)>,
}

#[derive(Default)]
struct Flow {
    /// Every priority it was given.
    priorities: Vec<u32>,
    unsent: u64,
    unsent_max: u64,
    below: usize,
    packets_sent: u64,
    packets_left: u64,
    overtakings: u64,
    waits_for_room: bool,
}

impl Kernel {
    /// Sends what TCP would.
    fn push(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        while flow.unsent > 0 && flow.below < PACKETS_BELOW_MAX {
            let priority = *flow.priorities.last().expect("marked before the first byte");
            flow.unsent -= flow.unsent.min(SEGMENT);
            flow.below += 1;
            flow.packets_sent += 1;
            self.bands[priority as usize].push_back((at, flow.packets_sent));
        }
    }

    /// Sends one packet; returns its connection.
    fn leave(&mut self) -> Option<usize> {
        let band = self.bands.iter().position(|band| !band.is_empty())?;
        let (at, number) = self.bands[band].pop_front()?;
        let flow = &mut self.flows[at];
        flow.below -= 1;
        flow.packets_left += 1;
        flow.overtakings += u64::from(number != flow.packets_left);
        self.left.push((at, band));
        self.push(at);
        Some(at)
    }
}

#[derive(Clone)]
struct KernelSocket {
    kernel: Rc<RefCell<Kernel>>,
    at: usize,
}

impl Sink for KernelSocket {
    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.send(&all, more)
    }

    fn send(&self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        let mut kernel = self.kernel.borrow_mut();
        kernel.flows[self.at].unsent += bytes.len() as u64;
        kernel.push(self.at);
        Ok(bytes.len())
    }

    fn send_file(&self, _file: &File, _offset: u64, _count: usize) -> io::Result<usize> {
        unreachable!("no files here")
    }

    fn cork(&self, _is_corked: bool) {}

    fn finish(&self) {}

    fn reset(&self) {
        unreachable!("no body ends by the connection's end")
    }
}

impl Socket for KernelSocket {
    type Tcp = KernelSocket;
    type Quic = crate::net::Flow;

    fn tcp(&self) -> Option<&KernelSocket> {
        Some(self)
    }

    fn quic(&mut self) -> Option<&mut crate::net::Flow> {
        None
    }

    fn status(&self) -> Status {
        Status::default()
    }

    fn has_room(&self) -> bool {
        let flow = &mut self.kernel.borrow_mut().flows[self.at];
        flow.waits_for_room = flow.unsent >= flow.unsent_max;
        !flow.waits_for_room
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        Some(self.kernel.borrow().flows[self.at].below as u64)
    }

    fn set_priority(&mut self, priority: u32) {
        self.kernel.borrow_mut().flows[self.at].priorities.push(priority);
    }
}

struct Bench {
    transmitter: Transmitter<KernelSocket>,
    kernel: Rc<RefCell<Kernel>>,
    burst: u64,
}

const NOW: Nanos = Nanos::from_secs(1);

impl Bench {
    /// Bands cut at these sizes, which the kernel numbers from 1.
    fn new(cuts: &[u64], burst: u64) -> Bench {
        let names: Vec<String> = cuts.iter().map(|cut| format!("{cut}B")).collect();
        let policy = policy::parse(&format!("srpt-bands:{}", names.join(","))).unwrap();
        let priorities: Vec<u32> = (1..=cuts.len() as u32 + 1).collect();
        let kernel = Kernel { bands: vec![VecDeque::new(); cuts.len() + 2], ..Kernel::default() };
        let patience = Patience { rate_bytes_per_s_min: 1000, window: Nanos::from_secs(10) };
        let marker =
            Marker { bands: Bands { priorities: priorities.into(), raise: Raise::default() }, burst_bytes: burst };
        let transmitter = Transmitter::new(Link::new(Scheduler::new(policy, Pace::UNLIMITED), None), patience);
        let mut transmitter = transmitter;
        transmitter.marker = Some(marker);
        Bench { transmitter, kernel: Rc::new(RefCell::new(kernel)), burst }
    }

    /// Adds a response on a connection of its own; returns the connection.
    fn dispatch(&mut self, bytes: u64) -> usize {
        let mut kernel = self.kernel.borrow_mut();
        let at = kernel.flows.len();
        kernel.flows.push(Flow { unsent_max: self.burst, ..Flow::default() });
        drop(kernel);
        let (token, socket) = (at as u64, KernelSocket { kernel: Rc::clone(&self.kernel), at });
        let opening = Opening {
            token,
            socket,
            kind: ChannelKind::Tcp,
            client: at as u32,
            peer: ([198, 18, 0, 1], 80).into(),
            framing: Framing::ETHERNET,
            session: None,
            account: Account::default(),
        };
        self.transmitter.connections.open(NOW, at, opening);
        self.dispatch_on(at, bytes);
        at
    }

    fn dispatch_on(&mut self, at: usize, bytes: u64) {
        let outgoing = Outgoing::new(vec![0; bytes as usize], Body::default(), End::Open);
        let exchange = self.transmitter.connections[at].exchange_id(0);
        self.transmitter.dispatch(NOW, Dispatch::single(exchange, outgoing, 0)).unwrap();
    }

    fn run(&mut self) {
        for _ in 0..10_000 {
            if self.transmitter.run(&|| NOW).is_none() {
                return;
            }
        }
        panic!("the transmitter does not come to rest");
    }

    /// Advances by the time of one packet: everything that can be is handed down, and one packet leaves. Returns false
    /// if none is left.
    fn step(&mut self) -> bool {
        self.run();
        let Some(at) = self.kernel.borrow_mut().leave() else { return false };
        let flow = &mut self.kernel.borrow_mut().flows[at];
        if flow.waits_for_room && flow.unsent * 2 < flow.unsent_max {
            self.transmitter.on_writable(NOW, at);
        }
        true
    }

    fn drive(&mut self) {
        while self.step() {}
    }

    /// The bands in which a connection's packets left, each run once.
    fn path(&self, at: usize) -> Vec<usize> {
        let mut bands: Vec<usize> =
            self.kernel.borrow().left.iter().filter(|(flow, _)| *flow == at).map(|(_, band)| *band).collect();
        bands.dedup();
        bands
    }

    fn overtakings(&self, at: usize) -> u64 {
        self.kernel.borrow().flows[at].overtakings
    }
}

/// On a busy link some of it is always queued, and it stays in its initial band.
#[test]
fn a_response_is_marked_once_on_a_busy_link() {
    let mut bench = Bench::new(&[4_000, 20_000, 100_000], BURST);
    let large = bench.dispatch(300_000);
    let small = bench.dispatch(3_000);
    bench.drive();
    let marks = |at: usize| bench.kernel.borrow().flows[at].priorities.clone();
    assert_eq!((marks(small), marks(large)), (vec![1], vec![4]));
    assert_eq!(bench.transmitter.departures().map(|departure| departure.sent_bytes).sum::<u64>(), 303_000);
}

/// Two connections that are always written to: all packets belong to the better one (000 section 3.2).
#[test]
fn the_better_of_two_floods_has_the_link() {
    let mut bench = Bench::new(&[5_000_000], BURST);
    let worse = bench.dispatch(8_000_000);
    let better = bench.dispatch(4_000_000);
    for _ in 0..1000 {
        bench.step();
    }
    let left = bench.kernel.borrow().left.iter().filter(|(flow, _)| *flow == better).count();
    assert!(left >= 990, "{left} of 1000");
    bench.drive();
    assert_eq!(bench.kernel.borrow().flows[worse].packets_left, 8_000_000_u64.div_ceil(SEGMENT));
}

/// The flow that starved the measured prototype's promoting bands: its packets wait in the worse band, the link belongs
/// to the others, and by the bytes handed down it belongs in the better one. Promoted at once, it overtakes itself.
#[test]
fn a_starved_flow_that_is_promoted_does_not_overtake_itself() {
    let mut bench = Bench::new(&[20_000], BURST);
    let starved = bench.dispatch(24_000);
    for turn in 0..400 {
        // The others have all of the first 100 packets' time, then half of it.
        if turn < 100 || turn % 2 == 0 {
            bench.dispatch(SEGMENT);
        }
        bench.step();
    }
    bench.drive();
    assert_eq!(bench.overtakings(starved), 0);
    assert_eq!(bench.kernel.borrow().flows[starved].packets_left, 24_000_u64.div_ceil(SEGMENT));
    assert_eq!(bench.transmitter.departures().filter(|departure| departure.failure.is_none()).count(), 251);
}

/// It is promoted as soon as nothing of it is below, within a response and between two.
#[test]
fn what_has_nothing_queued_is_promoted() {
    let mut bench = Bench::new(&[20_000, 100_000], BURST);
    let at = bench.dispatch(130_000);
    // A window so small that the link has sent it all before more may be sent.
    for _ in 0..100 {
        bench.run();
        while bench.kernel.borrow_mut().leave().is_some() {}
        bench.transmitter.on_writable(NOW, at);
    }
    assert_eq!(bench.path(at), [3, 2, 1]);
    assert_eq!(bench.transmitter.departures().count(), 1);
    bench.dispatch_on(at, 30_000);
    bench.drive();
    assert_eq!(bench.path(at), [3, 2, 1, 2]);
    assert_eq!(bench.overtakings(at), 0);
}

/// The packets are not sent, which is not the reader's fault.
#[test]
fn a_starved_reader_is_not_given_up() {
    let mut bench = Bench::new(&[20_000], BURST);
    let starved = bench.dispatch(100_000);
    bench.run();
    for second in 2..100 {
        bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    assert_eq!(bench.transmitter.departures().count(), 0);
    // Once they are sent, it is.
    while bench.kernel.borrow_mut().leave().is_some() {}
    for second in 100..=111 {
        bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    assert_eq!(
        bench.transmitter.departures().map(|departure| departure.exchange.slot()).collect::<Vec<_>>(),
        [starved]
    );
}

proptest! {
    /// Marks are as few as there are bands, none repeats the one before, and none is missing at the first byte, which
    /// [`Kernel::push`] checks; no connection overtakes itself.
    #[test]
    fn marks_are_few(sizes in prop::collection::vec(1u64..200_000, 1..8)) {
        let mut bench = Bench::new(&[2_000, 10_000, 50_000], BURST);
        for &size in &sizes {
            bench.dispatch(size);
            bench.step();
        }
        bench.drive();
        for flow in &bench.kernel.borrow().flows {
            prop_assert!((1..=4).contains(&flow.priorities.len()), "{:?}", flow.priorities);
            prop_assert!(flow.priorities.windows(2).all(|two| two[0] != two[1]));
            prop_assert_eq!(flow.overtakings, 0);
        }
        prop_assert_eq!(bench.transmitter.departures().filter(|d| d.failure.is_none()).count(), sizes.len());
    }
}
