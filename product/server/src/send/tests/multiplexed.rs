//! Connections with several responses at once: what happens to a connection counts once, whatever it carries.

use sched::Precedence;

use super::*;

const SEGMENT: u64 = 1_448;

impl Bench {
    /// An HTTP/2 connection whose client has requested this many streams.
    fn several(&mut self, socket: &FakeSocket, streams: u32) -> usize {
        let room = socket.room.replace(u64::MAX);
        let numbers: Vec<u32> = (0..streams).map(number).collect();
        let at = self.framed(socket, None, &numbers, true);
        self.drive();
        socket.room.set(room);
        socket.received.borrow_mut().clear();
        self.journal.borrow_mut().clear();
        at
    }

    fn answer(&mut self, at: usize, nth: u32, bytes: u64, urgency: u8) -> JobId {
        let outgoing = Outgoing::on_stream(super::framed::head(), vec![urgency; bytes as usize].into());
        let precedence = Precedence { urgency, ..Precedence::default() };
        let dispatch = Dispatch { precedence, ..self.on_stream(at, number(nth), outgoing) };
        self.transmitter.dispatch(self.now.get(), dispatch).unwrap()
    }

    fn departed(&mut self) -> Vec<(JobId, Option<Failure>)> {
        self.transmitter.departures().map(|departure| (departure.job, departure.failure)).collect()
    }
}

/// The number of a client's nth stream.
fn number(nth: u32) -> u32 {
    1 + 2 * nth
}

/// Ten responses used to be charged ten times for one retransmission.
#[test]
fn what_tcp_sends_again_is_charged_once_for_all_responses() {
    for responses in [1, 10] {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let socket = bench.socket('A', u64::MAX);
        let at = bench.several(&socket, responses);
        for nth in 0..responses {
            bench.answer(at, nth, 20 * SEGMENT / u64::from(responses), 3);
        }
        socket.retransmitted.set(5 * SEGMENT);
        bench.drive();
        bench.transmitter.close(bench.now.get(), at);
        let (framing, sent) = (socket.framing, socket.sent());
        let left = sent.payload_bytes + u64::from(sent.segments) * framing.header_bytes + framing.syn_ack_bytes;
        assert_eq!(bench.transmitter.link.scheduler().pacer().ledger().charged_bytes(), left, "{responses}");
    }
}

/// The client's priorities order its own responses; between connections the policy does.
#[test]
fn responses_leave_by_urgency_within_a_connection_and_by_policy_between_them() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let (shared, other) = (bench.socket('A', u64::MAX), bench.socket('B', u64::MAX));
    let at = bench.several(&shared, 2);
    let late = bench.answer(at, 0, SEGMENT, 7);
    let soon = bench.answer(at, 1, 4 * SEGMENT, 1);
    let small = bench.dispatch(&other, 2 * SEGMENT);
    bench.drive();
    let order: Vec<JobId> = bench.departed().into_iter().map(|(job, _)| job).collect();
    assert_eq!(order, [small, soon, late], "the urgent one is what its connection offers, however large");
}

#[test]
fn a_full_socket_holds_all_its_responses_up_and_nobody_elses() {
    let mut bench = Bench::new("srpt", None);
    let (shared, other) = (bench.socket('A', 0), bench.socket('B', u64::MAX));
    let at = bench.several(&shared, 2);
    shared.writes.borrow_mut().clear();
    let jobs = [bench.answer(at, 0, 1_000, 3), bench.answer(at, 1, 200_000, 3)];
    let free = bench.dispatch(&other, 1_000_000);
    bench.drive();
    assert!(matches!(bench.departed()[..], [(job, None)] if job == free));
    assert_eq!(shared.writes.borrow().len(), 1, "the second is not tried");
    shared.room.set(u64::MAX);
    bench.transmitter.on_writable(bench.now.get(), at);
    bench.drive();
    assert_eq!(bench.departed().into_iter().map(|(job, _)| job).collect::<Vec<_>>(), jobs);
}

/// A thousand bytes per second over ten seconds, of all its responses together.
#[test]
fn a_reader_is_slow_for_all_its_responses_or_for_none() {
    for (taken, ended) in [(200_000, 0), (100, 3)] {
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', 10_000);
        let at = bench.several(&socket, 3);
        for nth in 0..3 {
            bench.answer(at, nth, 1_000_000, 3);
        }
        bench.drive();
        bench.transmitter.end_all_stalled(Nanos::from_secs(11));
        socket.room.set(taken);
        bench.transmitter.on_writable(Nanos::from_secs(12), at);
        bench.drive();
        (13..=20).for_each(|second| bench.transmitter.end_all_stalled(Nanos::from_secs(second)));
        bench.transmitter.end_all_stalled(Nanos::from_secs(21) - Nanos(1));
        assert_eq!(bench.departed().len(), 0);
        bench.transmitter.end_all_stalled(Nanos::from_secs(21));
        assert_eq!(bench.departed().len(), ended, "{taken}");
    }
}

/// The reader is not awaited if there is nothing to send.
#[test]
fn an_idle_connection_is_never_slow() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', 0);
    let at = bench.several(&socket, 1);
    let job = bench.answer(at, 0, 1_000, 3);
    bench.transmitter.abort(bench.now.get(), job, Failure::Disconnected);
    for second in [11, 30, 60] {
        bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    assert_eq!(bench.departed().len(), 1);
    bench.transmitter.close(bench.now.get(), at);
    assert!(bench.transmitter.is_idle(bench.now.get()) && bench.transmitter.connections.numbers().is_empty());
}

/// The pending output, its looks and its sent bytes do not pass to the next connection with its number.
#[test]
fn the_number_of_a_closed_connection_is_anothers() {
    for rate in [None, Some("10mbit")] {
        let mut bench = Bench::new("srpt", rate);
        let (gone, next) = (bench.socket('G', 3 * SEGMENT), bench.socket('N', u64::MAX));
        let at = bench.several(&gone, 2);
        let cut = [0, 1].map(|nth| bench.answer(at, nth, 100_000, 3));
        bench.drive();
        bench.transmitter.connections.with_engine(at, Engine::go_away);
        let now = bench.now.get();
        bench.transmitter.close(now, at);
        let departed = bench.departed();
        assert!(departed.iter().all(|(job, failure)| cut.contains(job) && failure.is_some()) && departed.len() == 2);
        let (framing, sent) = (next.framing, gone.received.borrow().len());
        let opening = Opening {
            token: token('N', at),
            socket: next.clone(),
            kind: ChannelKind::Tcp,
            client: 1,
            peer: ([198, 18, 0, 1], 80).into(),
            framing,
            session: None,
            account: Account::default(),
        };
        bench.transmitter.connections.open(now, at, opening);
        let job = bench.dispatch_on(at, Outgoing::new(vec![7; 20_000], Body::default(), End::Open));
        gone.room.set(u64::MAX);
        bench.transmitter.abort(now, cut[0], Failure::Disconnected);
        bench.drive();
        assert!(matches!(bench.departed()[..], [(ended, None)] if ended == job));
        assert_eq!((gone.received.borrow().len(), &*next.received.borrow()), (sent, &vec![7; 20_000]));
        bench.transmitter.close(bench.now.get(), at);
        assert!(bench.transmitter.is_idle(bench.now.get()) && bench.transmitter.link.unacknowledged.len() == 0);
    }
}

/// Ending one connection used to go through the responses of all: 4,000 with 100 each ended the server.
#[test]
fn a_connection_ends_at_the_cost_of_its_own_responses() {
    const STREAMS: u32 = 20;
    let costs = |others: usize| {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let sockets: Vec<FakeSocket> = (0..=others).map(|_| bench.socket('A', 0)).collect();
        let opened: Vec<usize> = sockets.iter().map(|socket| bench.several(socket, STREAMS + 1)).collect();
        for at in &opened {
            for nth in 0..STREAMS {
                bench.answer(*at, nth, 100_000, 3);
            }
        }
        bench.drive();
        let (at, socket) = (opened[others], &sockets[others]);
        let mut cost = |event: &dyn Fn(&mut Bench)| {
            let before = (bench.transmitter.sendings.looks(), socket.asked.get());
            event(&mut bench);
            (bench.transmitter.sendings.looks() - before.0, socket.asked.get() - before.1)
        };
        let later = Nanos::from_secs(30);
        let events: [&dyn Fn(&mut Bench); 5] = [
            &|bench| bench.transmitter.end_stalled(Nanos::from_secs(1), at),
            &|bench| bench.transmitter.on_writable(later, at),
            &|bench| {
                bench.answer(at, STREAMS, 1_000, 3);
            },
            &|bench| bench.transmitter.end_stalled(later, at),
            &|bench| {
                bench.transmitter.close(later, at);
            },
        ];
        let costs = events.map(&mut cost);
        assert_eq!(bench.departed().len() as u32, STREAMS + 1, "all of its own and none of the others'");
        costs
    };
    let few = costs(10);
    assert!(few.iter().all(|(looks, asked)| *looks <= 2 * u64::from(STREAMS + 1) && *asked <= 3), "{few:?}");
    assert_eq!(costs(100), few);
    assert_eq!(costs(1000), few);
}
