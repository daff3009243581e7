//! Requests that are on their way, seen in the interface's counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sched::Passed;

use super::super::{Counters, Outlet};
use super::*;

/// What an interface has sent: our full packets, and others' of 74 bytes.
#[derive(Clone, Default)]
struct Interface(Arc<[AtomicU64; 2]>);

impl Interface {
    fn send(&self, full: u64, syn_acks: u64) {
        self.0[0].fetch_add(full, Ordering::Relaxed);
        self.0[1].fetch_add(syn_acks, Ordering::Relaxed);
    }
}

impl Counters for Interface {
    fn passed(&mut self) -> io::Result<Passed> {
        let [full, syn_acks] = [0, 1].map(|at| self.0[at].load(Ordering::Relaxed));
        Ok(Passed { bytes: full * 1514 + syn_acks * 74, packets: full + syn_acks })
    }
}

/// A response of which twenty packets have left, on a connection whose handshake took so long, and when its next may.
fn begun(interface: &Interface, handshake: Nanos) -> (Bench, Nanos) {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let outlet = Outlet::new(Box::new(interface.clone()));
    bench.transmitter = bench.transmitter.with_outlet(Some(outlet));
    let socket = bench.socket('L', u64::MAX);
    socket.path.set(Path { rtt: Some(handshake), ..Path::default() });
    bench.dispatch(&socket, 100_000);
    let mut due_at = bench.now.get();
    while bench.journal.borrow().len() < 20 {
        let sent = bench.journal.borrow().len();
        bench.now.set(due_at);
        due_at = bench.transmitter.run(&|| bench.now.get()).unwrap();
        interface.send((bench.journal.borrow().len() - sent) as u64, 0);
    }
    (bench, due_at)
}

/// It was granted a packet each time the link fell idle, whoever was about to ask.
#[test]
fn a_long_response_is_held_for_a_request_that_follows_its_syn_ack() {
    for (handshake, syn_acks, waits) in [(60, 1, true), (60, 0, false), (2_000, 1, false)] {
        let interface = Interface::default();
        let (mut bench, due_at) = begun(&interface, Nanos::from_micros(handshake));
        interface.send(0, syn_acks);
        bench.now.set(due_at);
        let sent = bench.journal.borrow().len();
        let again_at = bench.transmitter.run(&|| bench.now.get()).unwrap();
        assert_eq!(bench.journal.borrow().len() == sent, waits, "{handshake} {syn_acks}");
        if waits {
            bench.now.set(due_at + Nanos::from_micros(60));
            let small = bench.socket('S', u64::MAX);
            bench.dispatch(&small, 500);
            bench.drive();
            assert_eq!(bench.order(), "LSL");
        } else {
            assert!(again_at - due_at > Nanos::from_millis(1), "a packet's time");
        }
    }
}
