//! What is acknowledged is told once, whenever it is: under way, behind the last byte, and without a job.

use super::super::line_feedback::{Observer, Script};
use super::*;
use sched::line::{Bounds, Change, Look, Notice};
use units::wire::bytes_of;

const SEGMENT: u64 = 1448;
const INTERVAL: Nanos = Nanos::from_millis(100);

/// A bench whose estimator is a script: due at each look.
fn bench(rate: Option<&str>) -> Bench {
    let mut bench = Bench::new("srpt", rate);
    bench.transmitter.observer = Some(Observer::new(Bounds::default()));
    script(&mut bench).is_due = true;
    bench
}

fn script(bench: &mut Bench) -> &mut Script {
    bench.transmitter.observer.as_mut().unwrap().script.get_or_insert_default()
}

fn looks(bench: &mut Bench) -> Vec<Look> {
    script(bench).looks.iter().map(|(_, look)| *look).collect()
}

fn delivered(bench: &mut Bench) -> u64 {
    looks(bench).iter().map(|look| look.delivered_bytes).sum()
}

/// A socket whose bytes are acknowledged when the test says so.
fn acking(bench: &Bench, name: char) -> FakeSocket {
    let socket = bench.socket(name, u64::MAX);
    socket.is_acking.set(true);
    socket.path.set(Path { rtt: Some(Nanos::from_millis(20)), ..Path::default() });
    socket
}

fn ack_all(socket: &FakeSocket) {
    socket.acked.set(socket.sent.get().0);
}

fn pass(bench: &mut Bench, span: Nanos) {
    bench.now.set(bench.now.get() + span);
    bench.transmitter.run(&|| bench.now.get());
}

/// The connection's state behind its response.
fn depart(bench: &mut Bench) -> PipeState {
    bench.drive();
    let departures: Vec<_> = bench.transmitter.departures().collect();
    departures.into_iter().next_back().and_then(|departure| departure.pipe).expect("one departs")
}

fn dispatch(bench: &mut Bench, socket: &FakeSocket, bytes: u64, pipe: PipeState) {
    let outgoing = Outgoing::new(vec![0; bytes as usize], Body::default(), End::Open);
    let (owner, socket) = (socket.name as u64, socket.clone());
    let client = owner as u32;
    let dispatch = Dispatch { owner, socket, client, outgoing, sent_bytes: 0, class: 0, pipe, secure: None };
    bench.transmitter.dispatch(bench.now.get(), dispatch);
}

fn send_aside(bench: &mut Bench, socket: &FakeSocket, pipe: &mut PipeState, carried_bytes: u64) {
    send_aside_as(bench, socket.name as u64, socket, pipe, carried_bytes);
}

fn send_aside_as(bench: &mut Bench, owner: u64, socket: &FakeSocket, pipe: &mut PipeState, carried_bytes: u64) {
    socket.send(&vec![0; carried_bytes as usize], false).unwrap();
    let aside = Aside { owner, socket, client: owner as u32, pipe, carried_bytes };
    bench.transmitter.on_sent_aside(bench.now.get(), aside, carried_bytes);
}

/// A round trip later nobody looked, and a small response told nothing.
#[test]
fn what_is_acknowledged_behind_the_end_is_told() {
    for rate in [Some("10mbit"), None] {
        let mut bench = bench(rate);
        let socket = acking(&bench, 'A');
        dispatch(&mut bench, &socket, SEGMENT, PipeState::new(socket.framing));
        depart(&mut bench);
        assert_eq!((delivered(&mut bench), bench.transmitter.unacknowledged.counts()), (0, (1, 0)), "{rate:?}");
        ack_all(&socket);
        pass(&mut bench, INTERVAL);
        assert_eq!(delivered(&mut bench), bytes_of(SEGMENT, SEGMENT), "{rate:?}");
        assert_eq!((bench.transmitter.unacknowledged.counts(), bench.transmitter.poll_timeout()), ((0, 0), None));
    }
}

#[test]
fn over_several_responses_each_byte_is_told_once() {
    for rate in [Some("10mbit"), None] {
        let mut bench = bench(rate);
        let socket = acking(&bench, 'A');
        let mut pipe = PipeState::new(socket.framing);
        for round in 0..12 {
            match round % 3 {
                0 => send_aside(&mut bench, &socket, &mut pipe, 2 * SEGMENT),
                _ => {
                    dispatch(&mut bench, &socket, 3 * SEGMENT, pipe);
                    pipe = depart(&mut bench);
                }
            }
            // Some is acknowledged before the next response, some behind it, and some not until the end.
            match round % 4 {
                0 => ack_all(&socket),
                1 => socket.acked.set(socket.sent.get().0 - SEGMENT),
                _ => {}
            }
            if round % 2 == 0 {
                pass(&mut bench, INTERVAL);
            }
        }
        ack_all(&socket);
        bench.transmitter.on_end(bench.now.get(), 'A' as u64, &socket, 0, pipe);
        let sent = socket.sent.get().0;
        assert_eq!(delivered(&mut bench), bytes_of(sent, SEGMENT), "{rate:?}");
        assert_eq!(bench.transmitter.unacknowledged.counts(), (0, 0));
    }
}

/// What left without a job was charged to nobody, and an estimator would have seen more delivered than sent.
#[test]
fn what_is_sent_aside_is_charged() {
    let mut bench = bench(None);
    let socket = acking(&bench, 'A');
    let mut pipe = PipeState::new(socket.framing);
    send_aside(&mut bench, &socket, &mut pipe, 1000);
    let syn_ack_and_payload = socket.framing.syn_ack_bytes + bytes_of(1000, SEGMENT);
    assert_eq!(bench.transmitter.drain().ledger().charged_bytes(), syn_ack_and_payload);
    send_aside(&mut bench, &socket, &mut pipe, 1000);
    assert_eq!(bench.transmitter.drain().ledger().charged_bytes(), syn_ack_and_payload + bytes_of(1000, SEGMENT));
    // A job settles the connection's account: nothing is charged twice.
    dispatch(&mut bench, &socket, 1000, pipe);
    depart(&mut bench);
    assert_eq!(bench.transmitter.drain().ledger().charged_bytes(), syn_ack_and_payload + 2 * bytes_of(1000, SEGMENT));
}

/// The rest of a response that began without a job.
#[test]
fn what_was_sent_before_there_was_a_job_is_charged_once() {
    let mut bench = bench(None);
    let socket = acking(&bench, 'A');
    // TCP keeps one of the two: what was charged for it is given back, which had to be charged before.
    socket.window.set(SEGMENT);
    socket.send(&[0; 2 * SEGMENT as usize], false).unwrap();
    let rest = Outgoing::new(vec![0; SEGMENT as usize], Body::default(), End::Open);
    bench.dispatch_rest(&socket, rest, 2 * SEGMENT);
    let charged = |bench: &Bench| bench.transmitter.drain().ledger().charged_bytes();
    assert_eq!(charged(&bench), socket.framing.syn_ack_bytes + bytes_of(SEGMENT, SEGMENT));
    socket.window.set(u64::MAX);
    socket.let_out(SEGMENT);
    let pipe = depart(&mut bench);
    bench.transmitter.on_end(bench.now.get(), 'A' as u64, &socket, 0, pipe);
    assert_eq!(charged(&bench), socket.framing.syn_ack_bytes + bytes_of(3 * SEGMENT, SEGMENT));
}

/// Each look is a system call: as many small responses as there may be cost no more than so many.
#[test]
fn while_the_rate_is_searched_small_responses_cost_few_looks() {
    let mut bench = bench(None);
    let sockets: Vec<FakeSocket> = (0..1000).map(|_| acking(&bench, 'A')).collect();
    let mut pipes = vec![PipeState::new(Framing::ETHERNET); sockets.len()];
    let asked = || sockets.iter().map(|socket| socket.asked.get()).sum::<u64>();
    for _ in 0..10 {
        let before = asked();
        for (at, (socket, pipe)) in sockets.iter().zip(&mut pipes).enumerate() {
            send_aside_as(&mut bench, at as u64, socket, pipe, 1000);
            ack_all(socket);
        }
        pass(&mut bench, INTERVAL);
        assert!((1..=2 * 64).contains(&(asked() - before)), "{}", asked() - before);
        assert!(bench.transmitter.unacknowledged.counts().0 <= 256);
    }
    // All have their turn in the end.
    for _ in 0..10 {
        pass(&mut bench, INTERVAL);
    }
    assert_eq!((bench.transmitter.unacknowledged.counts(), bench.transmitter.poll_timeout()), ((0, 0), None));
}

/// It says what the line carries.
#[test]
fn while_the_rate_is_searched_full_sockets_are_looked_at_always() {
    let mut bench = bench(None);
    let sockets: Vec<FakeSocket> = (0..100).map(|_| acking(&bench, 'A')).collect();
    for (at, socket) in sockets.iter().enumerate() {
        socket.room.set(SEGMENT);
        let outgoing = Outgoing::new(vec![0; 4 * SEGMENT as usize], Body::default(), End::Open);
        let pipe = PipeState::new(socket.framing);
        let (owner, socket) = (at as u64, socket.clone());
        let dispatch = Dispatch { owner, socket, client: 0, outgoing, sent_bytes: 0, class: 0, pipe, secure: None };
        bench.transmitter.dispatch(bench.now.get(), dispatch);
    }
    while bench.transmitter.drain.poll_timeout().is_some() {
        bench.transmitter.run(&|| bench.now.get());
    }
    sockets.iter().for_each(ack_all);
    pass(&mut bench, INTERVAL);
    assert_eq!(delivered(&mut bench), 100 * bytes_of(SEGMENT, SEGMENT));
    assert_eq!(bench.transmitter.unacknowledged.counts(), (0, 0), "all is acknowledged");
}

#[test]
fn a_client_that_is_gone_is_forgotten() {
    let mut bench = bench(Some("10mbit"));
    let (gone, stuck) = (acking(&bench, 'G'), acking(&bench, 'S'));
    dispatch(&mut bench, &gone, SEGMENT, PipeState::new(gone.framing));
    depart(&mut bench);
    stuck.room.set(SEGMENT);
    dispatch(&mut bench, &stuck, 4 * SEGMENT, PipeState::new(stuck.framing));
    bench.drive();
    assert_eq!(bench.transmitter.unacknowledged.counts(), (1, 1));
    for _ in 0..60 {
        pass(&mut bench, INTERVAL);
    }
    // Neither keeps an idle server awake.
    assert_eq!((bench.transmitter.unacknowledged.counts(), bench.transmitter.poll_timeout()), ((0, 0), None));
}

/// As TCP_INFO does on a socket that is none of TCP's, or on an old kernel.
#[test]
fn a_socket_that_says_nothing_tells_nothing() {
    let mut bench = bench(None);
    let socket = bench.socket('A', u64::MAX);
    socket.is_counted.set(false);
    let mut pipe = PipeState::new(socket.framing);
    send_aside(&mut bench, &socket, &mut pipe, 1000);
    pass(&mut bench, INTERVAL);
    bench.transmitter.on_end(bench.now.get(), 'A' as u64, &socket, 0, pipe);
    assert_eq!((delivered(&mut bench), bench.transmitter.unacknowledged.counts()), (0, (0, 0)));
    assert_eq!(bench.transmitter.poll_timeout(), None);
}

/// Pipes leave the list from its middle, and their places are taken by others.
#[test]
fn many_under_way_are_each_known_once() {
    let mut bench = bench(Some("1gbit"));
    let sockets: Vec<FakeSocket> = ('A'..'U').map(|name| acking(&bench, name)).collect();
    for (at, socket) in sockets.iter().enumerate() {
        socket.room.set(SEGMENT);
        dispatch(&mut bench, socket, (2 + at as u64 % 3) * SEGMENT, PipeState::new(socket.framing));
    }
    bench.drive();
    assert_eq!(bench.transmitter.unacknowledged.counts(), (0, sockets.len()));
    for (at, socket) in sockets.iter().enumerate().rev().filter(|(at, _)| at % 2 == 0) {
        socket.room.set(u64::MAX);
        let job = bench.transmitter.sendings.jobs().into_iter().find(|job| {
            let at = bench.transmitter.sendings[*job].pipe();
            bench.transmitter.pipes[at].owner == socket.name as u64
        });
        bench.transmitter.on_writable(bench.now.get(), job.unwrap_or_else(|| panic!("{at} is under way")));
        bench.drive();
    }
    assert_eq!(bench.transmitter.unacknowledged.counts(), (10, 10));
    sockets.iter().for_each(ack_all);
    pass(&mut bench, INTERVAL);
    let sent: u64 = sockets.iter().map(|socket| bytes_of(socket.sent.get().0, SEGMENT)).sum();
    assert_eq!((delivered(&mut bench), bench.transmitter.unacknowledged.counts()), (sent, (0, 0)));
}

#[test]
fn a_rate_that_is_found_is_paced_at_and_said() {
    let mut bench = bench(None);
    assert!(bench.transmitter.is_paced() && bench.transmitter.is_searching());
    let socket = acking(&bench, 'A');
    let rate: Rate = "9.42mbit".parse().unwrap();
    script(&mut bench).change = Some(Change { pace: Some(rate), notice: Some(Notice::Found { rate }) });
    dispatch(&mut bench, &socket, 100 * SEGMENT, PipeState::new(socket.framing));
    bench.drive();
    pass(&mut bench, INTERVAL);
    assert!(bench.transmitter.is_paced() && !bench.transmitter.is_searching());
    assert_eq!(bench.transmitter.drain().pace().rate, Some(rate));
    let said: Vec<String> = bench.transmitter.notices().map(|notice| notice.to_string()).collect();
    assert_eq!(said, ["uplink 9.42 Mbit/s: found, pacing by it"]);
    let pipe = PipeState::new(socket.framing);
    let second = acking(&bench, 'B');
    dispatch(&mut bench, &second, 100 * SEGMENT, pipe);
    let began = bench.now.get();
    bench.drive();
    assert!(bench.now.get() - began >= rate.time_for(99 * SEGMENT), "it is paced");
}

/// Loopback, a virtual network: the server's core is the limit, and waiting for the line would only cost more of it.
#[test]
fn a_line_faster_than_a_core_is_not_paced_unless_it_was_told() {
    let pace = "5gbit".parse().ok();
    for (most, kept_to) in [(None, None), ("10gbit".parse().ok(), pace)] {
        let mut bench = bench(None);
        bench.transmitter.observer = Some(Observer::new(Bounds { most, ..Bounds::default() }));
        let notice = pace.map(|rate| Notice::Found { rate });
        *script(&mut bench) = Script { is_due: true, change: Some(Change { pace, notice }), looks: vec![] };
        let socket = acking(&bench, 'A');
        dispatch(&mut bench, &socket, SEGMENT, PipeState::new(socket.framing));
        depart(&mut bench);
        pass(&mut bench, INTERVAL);
        assert!(bench.transmitter.observer.as_ref().unwrap().script.as_ref().unwrap().change.is_none(), "it was told");
        assert_eq!(bench.transmitter.drain().pace().rate, kept_to);
        assert_eq!(bench.transmitter.notices().count(), usize::from(most.is_some()), "no line says that it is paced");
    }
}

/// What the end of a connection tells of the line is not worth a system call each where thousands end.
#[test]
fn while_the_rate_is_searched_not_every_end_is_looked_at() {
    let mut bench = bench(None);
    for owner in 0..1000 {
        let socket = acking(&bench, 'A');
        let mut pipe = PipeState::new(socket.framing);
        send_aside_as(&mut bench, owner, &socket, &mut pipe, SEGMENT);
        bench.transmitter.on_end(bench.now.get(), owner, &socket, 0, pipe);
    }
    let looks = looks(&mut bench).len();
    // The first is spent before an interval begins.
    assert!((1..=65).contains(&looks), "{looks}");
}

/// The weak handle of a real socket: nothing is kept open, and what is gone is forgotten.
#[test]
fn a_tail_keeps_no_socket_open() {
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = Connection::from(std::os::fd::OwnedFd::from(listener.accept().unwrap().0));
    let mut unacknowledged = super::super::unacknowledged::Unacknowledged::new();
    let mut state = PipeState::default();
    unacknowledged.remember(Nanos::ZERO, 1, &socket, 0, &mut state, false);
    assert_eq!((socket.holders(), unacknowledged.counts()), (1, (1, 0)));
    drop(socket);
    unacknowledged.look_at_tails(Nanos(1), false, |_, _| panic!("nobody is there to be looked at"));
    assert_eq!(unacknowledged.counts(), (0, 0));
    assert_eq!(unacknowledged.take_back(1, &mut state), None);
}
