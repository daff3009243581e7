//! Each acknowledged byte is reported once, whether it is acknowledged during a response, after its last byte, or
//! without a job.

use super::super::line_feedback::{Observer, Script};
use super::*;
use sched::line::{Bounds, Change, Look, Notice};
use units::wire::bytes_of;

const SEGMENT: u64 = 1448;
const INTERVAL: Nanos = Nanos::from_millis(100);

/// A bench whose estimator is a script: due at each look.
fn bench(rate: Option<&str>) -> Bench {
    let mut bench = Bench::new("srpt", rate);
    bench.transmitter.link.observer = Some(Observer::new(Bounds::default()));
    script(&mut bench).is_due = true;
    bench
}

fn script(bench: &mut Bench) -> &mut Script {
    bench.transmitter.link.observer.as_mut().unwrap().script.get_or_insert_default()
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

fn depart(bench: &mut Bench) {
    bench.drive();
    assert!(bench.transmitter.departures().count() > 0, "one departs");
}

fn dispatch(bench: &mut Bench, at: usize, bytes: u64) {
    bench.dispatch_on(at, Outgoing::new(vec![0; bytes as usize], Body::default(), End::Open));
}

/// Sends without a job.
fn send_now(bench: &mut Bench, at: usize, bytes: u64) {
    let outgoing = Outgoing::new(vec![0; bytes as usize], Body::default(), End::Open);
    let (sent, direct) = bench.transmitter.send_now(bench.now.get(), bench.single(at, outgoing), u64::MAX);
    assert!(sent == bytes && matches!(direct, Direct::Sent(_)), "{direct:?}");
}

fn listed(bench: &Bench) -> usize {
    bench.transmitter.link.unacknowledged.len()
}

/// A round trip later no look used to follow, and a small response revealed nothing.
#[test]
fn what_is_acknowledged_behind_the_end_is_told() {
    for rate in [Some("10mbit"), None] {
        let mut bench = bench(rate);
        let socket = acking(&bench, 'A');
        let at = bench.open(&socket);
        dispatch(&mut bench, at, SEGMENT);
        depart(&mut bench);
        assert_eq!((delivered(&mut bench), listed(&bench)), (0, 1), "{rate:?}");
        ack_all(&socket);
        pass(&mut bench, INTERVAL);
        assert_eq!(delivered(&mut bench), bytes_of(SEGMENT, SEGMENT), "{rate:?}");
        assert_eq!((listed(&bench), bench.transmitter.poll_timeout()), (0, None));
    }
}

/// A reload behind a shaper: the look that was due used to stay due, and the event loop spun.
#[test]
fn nothing_is_due_any_more_where_the_queue_can_be_read() {
    use super::super::queue_gauge::{Gauge, Queue, Queued};
    struct Empty;
    impl Queue for Empty {
        fn name(&self) -> &str {
            "fake0"
        }

        fn read(&mut self) -> std::io::Result<Queued> {
            Ok(Queued::default())
        }

        fn find(&mut self) -> std::io::Result<Option<units::Rate>> {
            Ok("10mbit".parse().ok())
        }
    }
    let mut bench = bench(Some("10mbit"));
    let socket = acking(&bench, 'A');
    let at = bench.open(&socket);
    dispatch(&mut bench, at, SEGMENT);
    depart(&mut bench);
    assert!(bench.transmitter.poll_timeout().is_some());
    bench.transmitter.link.gauge = Some(Gauge::new(Box::new(Empty), "10mbit".parse().unwrap(), None));
    pass(&mut bench, Nanos::from_secs(1));
    let now = bench.now.get();
    assert!(bench.transmitter.poll_timeout().is_none_or(|at| at > now) && bench.transmitter.is_idle(now));
}

#[test]
fn over_several_responses_each_byte_is_told_once() {
    for rate in [Some("10mbit"), None] {
        let mut bench = bench(rate);
        let socket = acking(&bench, 'A');
        let at = bench.open(&socket);
        for round in 0..12 {
            match round % 3 {
                0 => send_now(&mut bench, at, 2 * SEGMENT),
                _ => {
                    dispatch(&mut bench, at, 3 * SEGMENT);
                    depart(&mut bench);
                }
            }
            // Some is acknowledged before the next response, some after it, and some not until the end.
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
        bench.transmitter.close(bench.now.get(), at);
        let sent = socket.sent.get().0;
        assert_eq!(delivered(&mut bench), bytes_of(sent, SEGMENT), "{rate:?}");
        assert_eq!(listed(&bench), 0);
    }
}

/// Bytes that left without a job used to be charged to no account, and an estimator would have seen more delivered than sent.
#[test]
fn what_is_sent_without_a_job_is_charged() {
    let mut bench = bench(None);
    let socket = acking(&bench, 'A');
    let at = bench.open(&socket);
    send_now(&mut bench, at, 1000);
    let syn_ack_and_payload = socket.framing.syn_ack_bytes + bytes_of(1000, SEGMENT);
    assert_eq!(bench.transmitter.link.scheduler().pacer().ledger().charged_bytes(), syn_ack_and_payload);
    send_now(&mut bench, at, 1000);
    assert_eq!(
        bench.transmitter.link.scheduler().pacer().ledger().charged_bytes(),
        syn_ack_and_payload + bytes_of(1000, SEGMENT)
    );
    // A job settles the connection's account: nothing is charged twice.
    dispatch(&mut bench, at, 1000);
    depart(&mut bench);
    assert_eq!(
        bench.transmitter.link.scheduler().pacer().ledger().charged_bytes(),
        syn_ack_and_payload + 2 * bytes_of(1000, SEGMENT)
    );
}

/// The rest of a response that began without a job.
#[test]
fn what_was_sent_before_there_was_a_job_is_charged_once() {
    let mut bench = bench(None);
    let socket = acking(&bench, 'A');
    // TCP holds one of the two: what was charged for it is refunded, so it had to be charged before.
    socket.window.set(SEGMENT);
    socket.room.set(2 * SEGMENT);
    let job = bench.begin_now(&socket, 3 * SEGMENT);
    let charged = |bench: &Bench| bench.transmitter.link.scheduler().pacer().ledger().charged_bytes();
    assert_eq!(charged(&bench), socket.framing.syn_ack_bytes + bytes_of(SEGMENT, SEGMENT));
    socket.room.set(u64::MAX);
    socket.window.set(u64::MAX);
    socket.let_out(SEGMENT);
    let at = bench.connection(job);
    depart(&mut bench);
    bench.transmitter.close(bench.now.get(), at);
    assert_eq!(charged(&bench), socket.framing.syn_ack_bytes + bytes_of(3 * SEGMENT, SEGMENT));
}

/// Each look is a system call: any number of small responses costs no more than a fixed number of looks.
#[test]
fn while_the_rate_is_searched_small_responses_cost_few_looks() {
    let mut bench = bench(None);
    let sockets: Vec<FakeSocket> = (0..2000).map(|_| acking(&bench, 'A')).collect();
    let opened: Vec<usize> = sockets.iter().map(|socket| bench.open(socket)).collect();
    let asked = || sockets.iter().map(|socket| socket.asked.get()).sum::<u64>();
    for _ in 0..10 {
        let before = asked();
        for (at, socket) in opened.iter().zip(&sockets) {
            send_now(&mut bench, *at, 1000);
            ack_all(socket);
        }
        pass(&mut bench, INTERVAL);
        assert!((1..=2 * 64).contains(&(asked() - before)), "{}", asked() - before);
        assert!(listed(&bench) <= 1024);
    }
    // All have their turn in the end, those with the fewest looks first.
    for _ in 0..1024 / 32 {
        pass(&mut bench, INTERVAL);
    }
    assert!(sockets[..1024].iter().all(|socket| socket.asked.get() > 0));
    assert_eq!((listed(&bench), bench.transmitter.poll_timeout()), (0, None));
}

/// A full socket reveals the capacity of the line.
#[test]
fn while_the_rate_is_searched_full_sockets_are_looked_at_always() {
    let mut bench = bench(None);
    let sockets: Vec<FakeSocket> = (0..100).map(|_| acking(&bench, 'A')).collect();
    for socket in &sockets {
        socket.room.set(SEGMENT);
        let at = bench.open(socket);
        dispatch(&mut bench, at, 4 * SEGMENT);
    }
    while bench.transmitter.link.scheduler.poll_timeout().is_some() {
        bench.transmitter.run(&|| bench.now.get());
    }
    sockets.iter().for_each(ack_all);
    pass(&mut bench, INTERVAL);
    assert_eq!(delivered(&mut bench), 100 * bytes_of(SEGMENT, SEGMENT));
    assert_eq!(listed(&bench), 0, "all is acknowledged");
}

#[test]
fn a_client_that_is_gone_is_forgotten() {
    let mut bench = bench(Some("10mbit"));
    let (gone, stuck) = (acking(&bench, 'G'), acking(&bench, 'S'));
    let opened = [&gone, &stuck].map(|socket| bench.open(socket));
    dispatch(&mut bench, opened[0], SEGMENT);
    depart(&mut bench);
    stuck.room.set(SEGMENT);
    dispatch(&mut bench, opened[1], 4 * SEGMENT);
    bench.drive();
    assert_eq!(listed(&bench), 2);
    for _ in 0..60 {
        pass(&mut bench, INTERVAL);
    }
    // Neither keeps an idle server awake.
    assert_eq!((listed(&bench), bench.transmitter.poll_timeout()), (0, None));
}

/// The status is empty, as TCP_INFO's on a socket other than TCP, or on an old kernel.
#[test]
fn a_socket_that_says_nothing_tells_nothing() {
    let mut bench = bench(None);
    let socket = bench.socket('A', u64::MAX);
    socket.is_counted.set(false);
    let at = bench.open(&socket);
    send_now(&mut bench, at, 1000);
    pass(&mut bench, INTERVAL);
    bench.transmitter.close(bench.now.get(), at);
    assert_eq!((delivered(&mut bench), listed(&bench)), (0, 0));
    assert_eq!(bench.transmitter.poll_timeout(), None);
}

/// Connections leave the list from its middle, and their places are taken by others.
#[test]
fn many_under_way_are_each_known_once() {
    let mut bench = bench(Some("1gbit"));
    let sockets: Vec<FakeSocket> = ('A'..'U').map(|name| acking(&bench, name)).collect();
    for (nth, socket) in sockets.iter().enumerate() {
        socket.room.set(SEGMENT);
        let at = bench.open(socket);
        dispatch(&mut bench, at, (2 + nth as u64 % 3) * SEGMENT);
    }
    bench.drive();
    assert_eq!(listed(&bench), sockets.len());
    for (at, socket) in sockets.iter().enumerate().rev().filter(|(at, _)| at % 3 == 0) {
        ack_all(socket);
        bench.transmitter.close(bench.now.get(), at);
    }
    assert_eq!(listed(&bench), sockets.len() - 7);
    for (at, socket) in sockets.iter().enumerate().filter(|(at, _)| at % 3 == 1) {
        socket.room.set(u64::MAX);
        bench.transmitter.on_writable(bench.now.get(), at);
        bench.drive();
    }
    sockets.iter().for_each(ack_all);
    pass(&mut bench, INTERVAL);
    let sent: u64 = sockets.iter().map(|socket| bytes_of(socket.sent.get().0, SEGMENT)).sum();
    assert_eq!((delivered(&mut bench), listed(&bench)), (sent, 0));
}

/// Uploads used to be unknown to the estimator, which took their queue for that of others.
#[test]
fn what_clients_send_is_reported() {
    let mut bench = bench(None);
    let socket = bench.socket('A', 0);
    let at = bench.open(&socket);
    let Transmitter { own, connections } = &mut bench.transmitter;
    own.link.note_received(&connections[at], 1000);
    own.link.note_received(&connections[at], 500);
    assert_eq!(script(&mut bench).received_bytes, 1500);
}

/// Returns true if the next turn reports to the estimator that no response waits.
fn is_idle(bench: &mut Bench) -> bool {
    script(bench).idle = 0;
    pass(bench, INTERVAL);
    script(bench).idle > 0
}

/// A silent WebSocket used to count as a backlog. Then each interval proved the line's rate, and loopback was found to
/// carry 1 Mbit/s, which was what one client asked for.
#[test]
fn a_program_that_is_silent_is_no_backlog() {
    let mut bench = bench(None);
    let socket = acking(&bench, 'A');
    let at = bench.open(&socket);
    let pipe = Body::from(Pipe::new(http::Length::Unknown, &units::memory::Account::default()));
    let body = pipe.delimited(http::http1::Delimiter::Close);
    bench.dispatch_on(at, Outgoing::new(vec![0; 100], body, End::Open));
    bench.drive();
    assert_eq!((socket.sent.get().0, bench.transmitter.link.scheduler().jobs().len()), (100, 1), "it is under way");
    assert!(is_idle(&mut bench));
}

#[test]
fn a_full_socket_is_a_backlog_until_all_of_it_is_acknowledged() {
    let mut bench = bench(None);
    let socket = acking(&bench, 'A');
    socket.room.set(10 * SEGMENT);
    let at = bench.open(&socket);
    dispatch(&mut bench, at, 100 * SEGMENT);
    bench.drive();
    assert_eq!((listed(&bench), is_idle(&mut bench)), (1, false));
    assert!(!is_idle(&mut bench), "nothing was acknowledged");
    // A client that takes no more has acknowledged what was sent.
    ack_all(&socket);
    pass(&mut bench, INTERVAL);
    assert_eq!((listed(&bench), is_idle(&mut bench)), (0, true));
}

#[test]
fn a_rate_that_is_found_is_paced_at_and_said() {
    let mut bench = bench(None);
    assert!(bench.transmitter.link.is_paced() && bench.transmitter.link.is_searching());
    let socket = acking(&bench, 'A');
    let rate: Rate = "9.42mbit".parse().unwrap();
    script(&mut bench).change = Some(Change { pace: Some(rate), notice: Some(Notice::Found { rate }) });
    let at = bench.open(&socket);
    dispatch(&mut bench, at, 100 * SEGMENT);
    bench.drive();
    pass(&mut bench, INTERVAL);
    assert!(bench.transmitter.link.is_paced() && !bench.transmitter.link.is_searching());
    assert_eq!(bench.transmitter.link.scheduler().pacer().pace().rate, Some(rate));
    let said: Vec<String> = bench.transmitter.link.notices().map(|notice| notice.to_string()).collect();
    assert_eq!(said, ["uplink 9.42 Mbit/s: found, pacing by it"]);
    let second = acking(&bench, 'B');
    let at = bench.open(&second);
    dispatch(&mut bench, at, 100 * SEGMENT);
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
        bench.transmitter.link.observer = Some(Observer::new(Bounds { most, ..Bounds::default() }));
        let notice = pace.map(|rate| Notice::Found { rate });
        *script(&mut bench) = Script { is_due: true, change: Some(Change { pace, notice }), ..Script::default() };
        let socket = acking(&bench, 'A');
        let at = bench.open(&socket);
        dispatch(&mut bench, at, SEGMENT);
        depart(&mut bench);
        pass(&mut bench, INTERVAL);
        assert!(
            bench.transmitter.link.observer.as_ref().unwrap().script.as_ref().unwrap().change.is_none(),
            "it was told"
        );
        assert_eq!(bench.transmitter.link.scheduler().pacer().pace().rate, kept_to);
        assert_eq!(
            bench.transmitter.link.notices().count(),
            usize::from(most.is_some()),
            "no line says that it is paced"
        );
    }
}

/// The information that the end of a connection reveals of the line is not worth a system call each if thousands end.
#[test]
fn while_the_rate_is_searched_not_every_end_is_looked_at() {
    let mut bench = bench(None);
    for _ in 0..1000 {
        let socket = acking(&bench, 'A');
        let at = bench.open(&socket);
        send_now(&mut bench, at, SEGMENT);
        bench.transmitter.close(bench.now.get(), at);
    }
    let looks = looks(&mut bench).len();
    // The first is spent before an interval begins.
    assert!((1..=65).contains(&looks), "{looks}");
}
