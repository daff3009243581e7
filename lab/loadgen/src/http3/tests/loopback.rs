//! Whole runs over UDP against the server of these tests, on a thread of its own.

use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use units::Nanos;
use workload::{Job, Scheduled};

use super::rig::plan_of;
use super::server::{Act, Limits, NO_ERROR, Request, Server, answer, head_bytes};
use crate::clock::Clock;
use crate::{Outcome, Patience, Plan, run};

/// Long enough for a slow machine; a test that waits this long has failed.
const PATIENT: Nanos = Nanos::from_secs(60);
/// The time that the server waits for a datagram before it checks whether it must end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A server that runs until it is asked to end.
struct Running {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Server>,
}

impl Running {
    fn start(limits: Limits, script: impl FnMut(Request) -> Vec<Act> + Send + 'static) -> Running {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (address, is_over) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let server = Server::new(limits, script);
        let thread = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || serve(server, &socket, &is_over)
        });
        Running { address, is_over, thread }
    }

    fn end(self) -> Server {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn serve(mut server: Server, socket: &UdpSocket, is_over: &AtomicBool) -> Server {
    let (clock, mut datagram) = (Clock::start(), vec![0; 65_536]);
    socket.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    loop {
        match socket.recv_from(&mut datagram) {
            Ok((bytes, from)) => server.receive(clock.now(), from, &datagram[..bytes]),
            // All datagrams that had arrived were read.
            Err(_) if is_over.load(Ordering::Relaxed) => return server,
            Err(_) => {}
        }
        server.on_time(clock.now());
        while let Some((to, datagram)) = server.transmit(clock.now()) {
            // The client may have left; the error is ignored.
            let _ = socket.send_to(&datagram, to);
        }
    }
}

fn plan(target: SocketAddr, streams: u32) -> Plan {
    Plan { target, host: "localhost".into(), grace: PATIENT, ..plan_of(streams) }
}

/// Runs jobs of these sizes, a millisecond apart, the last of them later.
fn go(plan: &Plan, sizes: &[u64], last_later: Nanos) -> Outcome {
    let job = |(n, &size_bytes)| Job { arrival: Nanos::from_millis(n), size_bytes, client: None };
    let mut jobs: Vec<Job> = (0..).zip(sizes).map(job).collect();
    jobs.last_mut().unwrap().arrival += last_later;
    let outcome = run(plan, &mut Scheduled::new(&jobs), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(outcome.records.len(), jobs.len());
    outcome
}

fn outcomes(outcome: &Outcome) -> Vec<&'static str> {
    outcome.records.iter().map(|record| record.outcome.name()).collect()
}

fn answers(request: Request) -> Vec<Act> {
    assert_eq!(request.authority, "localhost");
    answer(request.stream, request.size)
}

#[test]
fn every_byte_of_every_job_comes() {
    let server = Running::start(Limits::default(), answers);
    let sizes: Vec<u64> = (0..200).map(|n| [10, 1_000, 30_000, 0, 400_000][n % 5]).collect();
    let outcome = go(&plan(server.address, 6), &sizes, Nanos::ZERO);
    for (record, &size) in outcome.records.iter().zip(&sizes) {
        let seen = (record.outcome.name(), record.status, record.body_bytes, record.head_bytes);
        assert_eq!(seen, ("complete", 200, size, head_bytes(size)));
        assert!(record.arrival_ns <= record.start_ns.unwrap() && record.start_ns < record.first_byte_ns);
        assert!(record.first_byte_ns.unwrap() <= record.end_ns);
    }
    let server = server.end();
    assert_eq!((server.requests, server.connections), (200, outcome.connections_peak));
    assert_eq!(server.closed, vec![NO_ERROR; server.connections], "none was refused or left alone");
}

#[test]
fn a_connection_that_is_closed_and_a_stream_that_is_reset_are_resets() {
    let server = Running::start(Limits::default(), |request: Request| match request.connection {
        0 => vec![Act::Close(0x100)],
        _ => vec![Act::Reset(request.stream, 0x102)],
    });
    assert_eq!(outcomes(&go(&plan(server.address, 1), &[10; 2], Nanos::from_secs(1))), ["reset", "reset"]);
    assert_eq!(server.end().requests, 2);
}

#[test]
fn where_nobody_listens_jobs_are_refused() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(outcomes(&go(&plan(nobody, 6), &[10; 3], Nanos::ZERO)), ["refused"; 3]);
}

/// The socket of the server is closed, and the kernel reports that.
#[test]
fn a_server_that_has_gone_is_a_reset_and_later_a_refusal() {
    let server = Running::start(Limits::default(), |_| vec![]);
    let (plan, jobs) = (plan(server.address, 6), [10, 10]);
    let job = |(n, size_bytes)| Job { arrival: Nanos::from_secs(n), size_bytes, client: None };
    let jobs: Vec<Job> = (0..).zip(jobs).map(job).collect();
    let mut server = Some(server);
    let outcome = run(&plan, &mut Scheduled::new(&jobs), |progress| {
        if progress.elapsed > Nanos::from_millis(500)
            && let Some(server) = server.take()
        {
            assert_eq!(server.end().requests, 1);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(outcomes(&outcome.unwrap()), ["reset", "reset"]);
}

#[test]
fn a_run_ends_by_itself_where_a_server_answers_nothing() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = Plan { grace: Nanos::from_millis(300), ..plan(silent.local_addr().unwrap(), 6) };
    assert_eq!(outcomes(&go(&plan, &[10; 3], Nanos::ZERO)), ["incomplete"; 3]);
    let patience = Patience { abort_after: Nanos::from_millis(50), retries: 1 };
    let outcome = go(&Plan { patience: Some(patience), ..plan }, &[10; 3], Nanos::ZERO);
    assert_eq!(outcomes(&outcome), ["aborted"; 3]);
}
