//! Responses whose records the kernel makes: a grant leaves room for them, and the link is charged for them.

use super::*;

const SEGMENT: u64 = 1448;
const OVERHEAD: u64 = 22;

impl Bench {
    fn sealing(&self, room: u64) -> FakeSocket {
        let socket = self.socket('A', room);
        socket.overhead.set(OVERHEAD);
        socket
    }
}

#[test]
fn a_paced_record_fills_a_segment() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.sealing(u64::MAX);
    bench.dispatch(&socket, 10_000);
    bench.drive();
    let writes: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!(writes, [vec![SEGMENT - OVERHEAD; 7], vec![10_000 - 7 * (SEGMENT - OVERHEAD)]].concat());
    // None says that more follows but the last, behind which the end is said: each is a record of its own.
    let more: Vec<bool> = socket.writes.borrow().iter().flatten().map(|(_, more)| *more).collect();
    assert_eq!(more, [vec![false; 7], vec![true]].concat());
    let departure = bench.transmitter.departures().next().unwrap();
    assert_eq!((departure.sent_bytes, departure.pipe.unwrap().sent_bytes), (10_000, 10_000 + 8 * OVERHEAD));
    assert!(socket.is_finished.get());
}

/// The socket has the whole response, and no room for the alert that ends it: without that the response could be an attacker's.
#[test]
fn a_response_whose_end_could_not_be_said_is_not_over() {
    for rate in [None, Some("10mbit")] {
        let mut bench = Bench::new("srpt", rate);
        let socket = bench.sealing(u64::MAX);
        socket.deaf.set(2);
        let job = bench.dispatch(&socket, 10_000);
        for _ in 0..2 {
            bench.drive();
            assert_eq!((bench.transmitter.departures().count(), socket.is_finished.get()), (0, false));
            assert_eq!(socket.received.borrow().len(), 10_000);
            bench.transmitter.on_writable(bench.now.get(), job);
        }
        bench.drive();
        assert_eq!(bench.transmitter.departures().next().unwrap().sent_bytes, 10_000);
        assert!(socket.is_finished.get());
    }
}
