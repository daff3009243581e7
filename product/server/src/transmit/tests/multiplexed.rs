//! Connections with several responses at once: what is true of a connection is true once, whatever it carries.

use sched::Precedence;

use super::*;

const SEGMENT: u64 = 1_448;

impl Bench {
    fn open(&mut self, socket: &FakeSocket) -> PipeId {
        let (owner, pipe) = (socket.name as u64, PipeState::new(socket.framing));
        self.transmitter.open(self.now.get(), owner, socket.clone(), owner as u32, pipe)
    }

    fn dispatch_on(&mut self, pipe: PipeId, bytes: u64, urgency: u8) -> JobId {
        let outgoing = Outgoing::new(vec![urgency; bytes as usize], Body::default(), End::Open);
        let precedence = Precedence { urgency, ..Precedence::default() };
        self.transmitter
            .dispatch_on(self.now.get(), pipe, Stream { number: 0, outgoing, class: 0, precedence })
            .unwrap()
    }

    fn close(&mut self, socket: &FakeSocket, pipe: PipeId) {
        let state = self.transmitter.detach(self.now.get(), pipe);
        if self.transmitter.is_paced() {
            self.transmitter.on_closed(self.now.get(), state.close(&socket.status()));
        }
    }

    fn departed(&mut self) -> Vec<(JobId, Option<Failure>)> {
        self.transmitter.departures().map(|departure| (departure.job, departure.failure)).collect()
    }
}

/// Ten responses used to be charged ten times for what TCP sent again once.
#[test]
fn what_tcp_sends_again_is_charged_once_for_all_responses() {
    let charged = |responses: u64| {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let socket = bench.socket('A', u64::MAX);
        let pipe = bench.open(&socket);
        let before = bench.transmitter.drain().ledger().charged_bytes();
        for _ in 0..responses {
            bench.dispatch_on(pipe, 20 * SEGMENT / responses, 3);
        }
        socket.let_out(u64::MAX);
        socket.retransmitted.set(5 * SEGMENT);
        bench.drive();
        socket.let_out(u64::MAX);
        bench.close(&socket, pipe);
        assert_eq!(socket.received.borrow().len() as u64, 20 * SEGMENT);
        bench.transmitter.drain().ledger().charged_bytes() - before
    };
    assert_eq!(charged(1), 25 * (SEGMENT + 66));
    assert_eq!(charged(10), charged(1));
}

/// The client's wishes order its own responses; between connections the policy does.
#[test]
fn responses_leave_by_urgency_within_a_connection_and_by_policy_between_them() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let (shared, other) = (bench.socket('A', u64::MAX), bench.socket('B', u64::MAX));
    let pipe = bench.open(&shared);
    let late = bench.dispatch_on(pipe, SEGMENT, 7);
    let soon = bench.dispatch_on(pipe, 4 * SEGMENT, 1);
    let small = bench.dispatch(&other, 2 * SEGMENT);
    bench.drive();
    let order: Vec<JobId> = bench.departed().into_iter().map(|(job, _)| job).collect();
    assert_eq!(order, [small, soon, late], "the urgent one is what its connection offers, however large");
    let received = shared.received.borrow();
    assert!(received[..4 * SEGMENT as usize].iter().all(|&b| b == 1) && received[4 * SEGMENT as usize..] == [7; 1_448]);
}

#[test]
fn a_full_socket_holds_all_its_responses_up_and_nobody_elses() {
    let mut bench = Bench::new("srpt", None);
    let (shared, other) = (bench.socket('A', 0), bench.socket('B', u64::MAX));
    let pipe = bench.open(&shared);
    let jobs = [bench.dispatch_on(pipe, 1_000, 3), bench.dispatch_on(pipe, 2_000, 3)];
    let free = bench.dispatch(&other, 1_000_000);
    bench.drive();
    assert!(matches!(bench.departed()[..], [(job, None)] if job == free));
    assert_eq!(shared.writes.borrow().len(), 1, "the second is not tried");
    shared.room.set(u64::MAX);
    bench.transmitter.on_pipe_writable(bench.now.get(), pipe);
    bench.drive();
    assert_eq!(bench.departed().into_iter().map(|(job, _)| job).collect::<Vec<_>>(), jobs);
}

/// In any state: before its first byte, in the middle, full, and with nothing on it.
#[test]
fn a_client_that_vanishes_frees_every_response() {
    for (room, rate) in [(0, None), (1_500, None), (u64::MAX, Some("10mbit"))] {
        let mut bench = Bench::new("srpt", rate);
        let socket = bench.socket('A', room);
        let pipe = bench.open(&socket);
        for bytes in [1_000, 2_000, 3_000] {
            bench.dispatch_on(pipe, bytes, 3);
        }
        let now = bench.now.get();
        bench.transmitter.run(&|| now);
        let sent = bench.departed().iter().filter(|(_, failure)| failure.is_none()).count();
        bench.close(&socket, pipe);
        let cut = bench.departed();
        assert!(cut.len() + sent == 3 && cut.iter().all(|(_, failure)| matches!(failure, Some(Failure::Disconnected))));
        assert!(bench.transmitter.is_idle(bench.now.get()) && bench.transmitter.pipes.is_empty());
        let again = bench.open(&socket);
        bench.close(&socket, again);
        assert!(bench.transmitter.is_idle(bench.now.get()) && bench.transmitter.pipes.is_empty());
    }
}

/// A thousand bytes per second over ten seconds, of all its responses together.
#[test]
fn a_reader_is_slow_for_all_its_responses_or_for_none() {
    for (taken, ended) in [(10_000, 0), (9_999, 3)] {
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', 10_000);
        let pipe = bench.open(&socket);
        for _ in 0..3 {
            bench.dispatch_on(pipe, 100_000, 3);
        }
        bench.drive();
        bench.transmitter.end_all_stalled(Nanos::from_secs(11));
        socket.room.set(taken);
        bench.transmitter.on_pipe_writable(Nanos::from_secs(12), pipe);
        bench.drive();
        bench.transmitter.end_all_stalled(Nanos::from_secs(21) - Nanos(1));
        assert_eq!(bench.departed().len(), 0);
        bench.transmitter.end_all_stalled(Nanos::from_secs(21));
        assert_eq!(bench.departed().len(), ended, "{taken}");
    }
}

/// With nothing to send nobody is waited for.
#[test]
fn an_idle_connection_is_never_slow() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', 0);
    let pipe = bench.open(&socket);
    let job = bench.dispatch_on(pipe, 1_000, 3);
    bench.drive();
    bench.transmitter.abort(bench.now.get(), job, Failure::Disconnected);
    for second in [11, 30, 60] {
        bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    assert_eq!(bench.departed().len(), 1);
    bench.close(&socket, pipe);
}

/// Ending one connection went through the responses of all: 4,000 with 100 each ended the server.
#[test]
fn a_connection_ends_at_the_cost_of_its_own_responses() {
    const STREAMS: u64 = 20;
    let costs = |others: usize| {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let sockets: Vec<FakeSocket> = (0..=others).map(|_| bench.socket('A', 0)).collect();
        let pipes: Vec<PipeId> = sockets.iter().map(|socket| bench.open(socket)).collect();
        for pipe in &pipes {
            for _ in 0..STREAMS {
                bench.dispatch_on(*pipe, 100_000, 3);
            }
        }
        bench.drive();
        let (pipe, socket) = (pipes[others], &sockets[others]);
        let mut cost = |event: &dyn Fn(&mut Bench)| {
            let before = (bench.transmitter.sendings.looks(), socket.asked.get());
            event(&mut bench);
            (bench.transmitter.sendings.looks() - before.0, socket.asked.get() - before.1)
        };
        let later = Nanos::from_secs(30);
        let events: [&dyn Fn(&mut Bench); 5] = [
            &|bench| bench.transmitter.end_stalled_on(Nanos::from_secs(1), pipe),
            &|bench| bench.transmitter.on_pipe_writable(later, pipe),
            &|bench| {
                bench.dispatch_on(pipe, 1_000, 3);
            },
            &|bench| bench.transmitter.end_stalled_on(later, pipe),
            &|bench| bench.close(socket, pipe),
        ];
        let costs = events.map(&mut cost);
        assert_eq!(bench.departed().len() as u64, STREAMS + 1, "all of its own and none of the others'");
        costs
    };
    let few = costs(10);
    assert!(few.iter().all(|(looks, asked)| *looks <= 2 * (STREAMS + 1) && *asked <= 3), "{few:?}");
    assert_eq!(costs(100), few);
    assert_eq!(costs(1000), few);
}
