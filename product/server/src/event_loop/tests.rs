//! A worker whose turns the test runs one by one, with kernel sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

use sched::policy::PolicySpec;
use sched::{Pace, Scheduler};
use units::Nanos;

use super::*;
use crate::answer::Handler;
use crate::clients::{ClientLimits, Clients};
use crate::connection_places::Places;
use crate::disk::Pool;
use crate::files::{Cache, CacheLimits, Lookups, Options, Root};
use crate::logging::{Format, Log, LogConfig, Logs};
use crate::send::{Limit, Link, Order};
use crate::sites::{Current, SiteConfig, Wanted};
use crate::threads::Threads;
use crate::upstream::UpstreamPlaces;

const FILE: &[u8] = b"hello";
/// A request whose response the tests do not check, short enough that no turn ends because of it.
const HEAD: &str = "HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n";

struct Bench {
    worker: Worker,
    pool: Arc<Pool>,
    address: std::net::SocketAddr,
    folder: PathBuf,
    _logs: Logs,
    _threads: Threads,
}

/// A client that never blocks.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

fn open(sites: &[SiteConfig], is_secure: bool, log: Option<Arc<Log>>) -> Current {
    let access_log = log.as_ref().map(|_| LogConfig { path: None, format: Format::Json });
    let open_log = |_: &LogConfig| Ok(log.clone().expect("the server has one"));
    let wanted = Wanted {
        sites,
        classes: None,
        access_log: access_log.as_ref(),
        open_log: &open_log,
        acme: None,
        may_lack: false,
    };
    Current::open(&wanted, is_secure, Default::default(), 1 << 30).unwrap()
}

/// A configuration of one site for all hosts.
fn current(log: Option<Arc<Log>>) -> Arc<Current> {
    let sites = [SiteConfig::alone(".".into(), Options::default())];
    Arc::new(open(&sites, false, log))
}

fn log_in(folder: &std::path::Path) -> LogConfig {
    LogConfig { path: Some(folder.join("log.json")), format: Format::Json }
}

fn order(policy: &PolicySpec, pace: Pace) -> Order {
    match pace.rate {
        Some(_) => Order::Pace,
        None if policy.is_fair() => Order::Arrival,
        None => Order::Turn,
    }
}

fn transmitter(policy: &PolicySpec, pace: Pace, patience: crate::limits::Patience) -> Transmitter {
    let built = policy.build();
    let is_memoryless = !built.follows_jobs() && !built.needs_path();
    let mut transmitter = Transmitter::new(Link::new(Scheduler::new(built, pace), None), patience);
    transmitter.order = order(policy, pace);
    transmitter.is_direct = is_memoryless && transmitter.order != Order::Marks;
    transmitter
}

impl Bench {
    /// Creates a bench with a folder of this name.
    fn new(name: &str, policy: &str) -> Bench {
        Bench::with(name, policy, Pace::UNLIMITED, |root| root)
    }

    fn with(name: &str, policy: &str, pace: Pace, change: impl FnOnce(Root) -> Root) -> Bench {
        Bench::logging(name, policy, pace, change, false)
    }

    /// Logs every response if `is_logged`.
    fn logging(name: &str, policy: &str, pace: Pace, change: impl FnOnce(Root) -> Root, is_logged: bool) -> Bench {
        let folder = std::env::temp_dir().join(format!("weir-worker-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a"), FILE).unwrap();
        let root = change(Root::open(&folder, Options::default()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (threads, wake) = (Threads::start(None, || {}).unwrap(), Arc::new(Wake::new().unwrap()));
        let logs = Logs::start(&threads, false).unwrap();
        let (pool, woken) = (Pool::new(), Arc::clone(&wake));
        let (limits, policy): (Limits, PolicySpec) = (Limits::default(), policy.parse().unwrap());
        let log = is_logged.then(|| logs.open(&log_in(&folder)).unwrap());
        let current = current(log);
        let cache = Cache::new(root.into(), CacheLimits::per_worker(1));
        let lookups = Lookups::new(Arc::clone(&pool), move || woken.set());
        let places = Arc::new(Places::new(16, &[Arc::clone(&wake)]));
        let transmitter = transmitter(&policy, pace, limits.patience);
        let parts = Parts {
            listeners: vec![std::os::fd::OwnedFd::from(listener).into()],
            admission: Admission::new(0, places, Arc::new(Clients::new(limits.clients(256))), u64::MAX, &limits),
            handler: Handler::new(cache, lookups, current),
            journal: Journal::new(logs.handle(), Arc::default(), None),
            transmitter,
            limits,
            setup: Setup {
                number: 0,
                upstream_places: Arc::new(UpstreamPlaces::new(&[Arc::clone(&wake)])).of_loop(0),
                wake,
                stop: Arc::default(),
                changes: Arc::default(),
            },
        };
        let worker = Worker::new(Os::new().unwrap(), parts);
        Bench { worker: worker.unwrap(), pool, address, folder, _logs: logs, _threads: threads }
    }

    /// Sets the number of places, and the limits of a client.
    fn admit(&mut self, places: usize, of_client: ClientLimits) {
        let setup = &self.worker.responder.setup;
        let places = Arc::new(Places::new(places, &[Arc::clone(&setup.wake)]));
        let clients = Arc::new(Clients::new(of_client));
        self.worker.responder.service.admission =
            Admission::new(0, places, clients, u64::MAX, &self.worker.responder.limits);
    }

    fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).unwrap(), received: Vec::new() }
    }

    /// Runs turns until a client has this many responses.
    fn turn_until(&mut self, client: &mut Client, responses: usize) {
        while client.responses() < responses {
            self.turn();
            std::thread::yield_now();
        }
        assert_eq!(client.responses(), responses);
    }

    fn turn(&mut self) {
        self.worker.responder.net.wait(Some(Nanos::ZERO)).unwrap();
        self.worker.begin_turn(None);
        self.worker.turn();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Client {
    fn received(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The number of responses received so far.
    fn responses(&mut self) -> usize {
        self.stream.set_nonblocking(true).unwrap();
        match self.stream.read_to_end(&mut self.received) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => panic!("the connection ended: {other:?}"),
        }
        self.received.windows(8).filter(|bytes| bytes == b"HTTP/1.1").count()
    }
}

mod handshakes;
mod http3;
mod logged;
mod lookups;
mod memory;
mod newcomers;
mod over_http2;
mod parts;
mod pauses;
mod producing;
mod reordered;
mod shortage;
mod stages;

/// The flood used to be answered to its end first, however much more of it arrived meanwhile.
#[test]
fn a_flood_of_requests_leaves_others_their_turn() {
    const REQUESTS: usize = 2000;
    for policy in ["fair", "srpt"] {
        let mut bench = Bench::new(&format!("flood-{policy}"), policy);
        let mut flood = bench.connect();
        flood.send(&HEAD.repeat(REQUESTS));
        let mut other = bench.connect();
        other.send(HEAD);
        let mut turns = 0;
        while other.responses() == 0 {
            bench.turn();
            turns += 1;
        }
        let answered = flood.responses();
        assert!(turns <= 3, "{policy}: answered after {turns} turns");
        assert!(answered <= turns * 64, "{policy}: behind {answered} of the flood's, in {turns} turns");
        // No response is lost.
        for _ in 0..2 * REQUESTS {
            bench.turn();
        }
        assert_eq!(flood.responses(), REQUESTS, "{policy}");
        assert!(bench.worker.responder.connections.queued() == 0);
    }
}

/// A connection whose socket takes all is sent 2 MiB and one more response in a turn; a turn with another
/// connection's request is no longer.
#[test]
fn a_flood_of_large_responses_leaves_others_their_turn() {
    const FILE_BYTES: usize = 64 << 10;
    const TURN_BYTES: usize = (2 << 20) + FILE_BYTES + (32 << 10);
    let mut bench = Bench::new("flood-large", "fair");
    std::fs::write(bench.folder.join("large"), vec![b'x'; FILE_BYTES]).unwrap();
    let mut flood = bench.connect();
    socket2::SockRef::from(&flood.stream).set_recv_buffer_size(16 << 20).unwrap();
    flood.send(&"GET /large HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200));
    let (mut received, mut most) = (0, 0);
    while received < 200 * FILE_BYTES {
        let mut other = bench.connect();
        other.send(HEAD);
        let mut turns = 0;
        while other.responses() == 0 {
            bench.turn();
            turns += 1;
            flood.responses();
            most = most.max(flood.received.len());
            received += std::mem::take(&mut flood.received).len();
        }
        assert!(turns <= 3, "answered after {turns} turns");
    }
    assert!((1 << 20..=TURN_BYTES).contains(&most), "{most} bytes in a turn");
}

/// A connection whose response was completely handed to its socket is idle, and used to be closed for the next client:
/// what its own client sent after that reset it, and the rest of the response was lost.
#[test]
fn a_response_that_is_still_in_its_socket_keeps_its_connection() {
    const BYTES: usize = 40_000;
    let mut bench = Bench::new("in-socket", "srpt");
    std::fs::write(bench.folder.join("large"), vec![b'x'; BYTES]).unwrap();
    let of_client = Limits::default().clients(16);
    bench.admit(1, of_client);
    // Its window is so small that the rest stays with the server.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&bench.address.into()).unwrap();
    let mut first = Client { stream: socket.into(), received: Vec::new() };
    first.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    while bench.worker.responder.connections.iter().all(|(_, conn)| !conn.has_answered)
        || !bench.worker.responder.transmitter.link.scheduler().jobs().is_empty()
    {
        bench.turn();
    }
    let mut second = bench.connect();
    second.send(HEAD);
    for _ in 0..50 {
        bench.turn();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    first.send("G");
    while first.received.len() < BYTES {
        first.responses();
        bench.turn();
    }
    drop(first);
    bench.turn_until(&mut second, 1);
}

/// Deadlines count only the time in which the worker could receive, also if the pause was in the middle
/// of a turn, after a response.
#[test]
fn a_pause_in_a_turn_makes_nobody_late() {
    let mut bench = Bench::with("pause-turn", "srpt", Pace::of_line("1gbit".parse().unwrap()), |root| root);
    let mut asking = bench.connect();
    asking.send("GET /a");
    while bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    let left = |bench: &Bench| {
        let deadline = bench.worker.responder.connections.iter().next().unwrap().1.deadline();
        deadline - bench.worker.responder.timers.client_now()
    };
    let pause = Nanos::from_secs(70);
    let mut client = bench.connect();
    client.send(HEAD);
    while client.responses() == 0 {
        bench.worker.responder.net.wait(Some(Nanos::ZERO)).unwrap();
        bench.worker.begin_turn(None);
        bench.worker.responder.timers.set(bench.worker.responder.timers.now() - pause);
        bench.worker.turn();
    }
    assert!(bench.worker.responder.connections.len() == 2 && left(&bench) >= pause);
}

/// Everything that no response covers is charged when the connection ends: the SYN-ACK, and the acknowledgement of the client's
/// FIN, which the kernel sends by itself or with our own FIN.
#[test]
fn what_a_connection_sent_is_booked_when_it_ends() {
    let mut bench = Bench::with("booked", "srpt", Pace::of_line("1gbit".parse().unwrap()), |root| root);
    let client = bench.connect();
    while bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    let at = bench.worker.responder.connections.iter().next().unwrap().0;
    let framing = bench.worker.responder.connections[at].delivery.framing();
    let charged = |bench: &Bench| bench.worker.responder.transmitter.link.scheduler().pacer().ledger().charged_bytes();
    assert_eq!(charged(&bench), 0);
    drop(client);
    while !bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    let booked = [1, 2].map(|segments| framing.syn_ack_bytes + segments * framing.header_bytes);
    assert!(booked.contains(&charged(&bench)), "{}", charged(&bench));
    bench.turn();
    assert!(booked.contains(&charged(&bench)), "booked once");
}

/// A paced worker that is reading sends what is due between two connections, and keeps its order and its clock.
#[test]
fn a_paced_worker_sends_while_it_reads() {
    let mut bench = Bench::with("paced", "srpt", Pace::of_line("1gbit".parse().unwrap()), |root| root);
    let mut clients: Vec<Client> = (0..8).map(|_| bench.connect()).collect();
    for client in &mut clients {
        client.send(&HEAD.repeat(20));
    }
    let mut last = bench.worker.responder.timers.now();
    for client in &mut clients {
        while client.responses() < 20 {
            bench.turn();
            assert!(
                bench.worker.responder.timers.now() >= last
                    && bench.worker.responder.timers.now() >= bench.worker.responder.timers.turn_began_at()
            );
            last = bench.worker.responder.timers.now();
        }
        assert_eq!(client.responses(), 20);
    }
    assert!(
        bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO)
            && bench.worker.responder.transmitter.link.scheduler().pacer().ledger().charged_bytes() > 0
    );
}

/// A client that resets its connection while its response waits removes its own job and no other.
#[test]
fn a_reset_frees_the_job() {
    let mut bench = Bench::with("reset", "srpt", Pace::of_line("1gbit".parse().unwrap()), |root| root);
    std::fs::write(bench.folder.join("large"), vec![b'x'; 8 << 20]).unwrap();
    let (mut leaves, mut stays) = (bench.connect(), bench.connect());
    leaves.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    while leaves.responses() == 0 {
        bench.turn();
    }
    assert!(!bench.worker.responder.transmitter.link.scheduler().jobs().is_empty());
    // With bytes unread, the close is a reset.
    drop(leaves);
    stays.send(HEAD);
    while stays.responses() == 0 || bench.worker.responder.connections.len() > 1 {
        bench.turn();
    }
    assert!(bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO));
}

/// Whatever path its responses take, a client's account has all of their bytes within a second, and when its
/// connections have ended.
#[test]
fn what_a_client_was_sent_is_booked() {
    const BYTES: usize = 300_000;
    let line = Pace::of_line("1gbit".parse().unwrap());
    for (policy, pace) in [("fair", Pace::UNLIMITED), ("srpt", Pace::UNLIMITED), ("srpt", line)] {
        let mut bench = Bench::with("accounts", policy, pace, |root| root);
        std::fs::write(bench.folder.join("large"), vec![b'x'; BYTES]).unwrap();
        let mut clients = [bench.connect(), bench.connect()];
        for client in &mut clients {
            client.send(&(HEAD.repeat(2) + "GET /large HTTP/1.1\r\nHost: a\r\n\r\n"));
            while client.responses() < 3 || client.received.len() < BYTES + 300 {
                bench.turn();
            }
        }
        let sent: usize = clients.iter().map(|client| client.received.len()).sum();
        // What was sent a moment ago counts a little less.
        let booked = |bench: &Bench, connections: u32| {
            let busiest =
                bench.worker.responder.service.admission.clients().busiest(bench.worker.responder.timers.now());
            assert_eq!((busiest.len(), busiest[0].connections), (1, connections), "{policy}");
            let bytes = busiest[0].bytes as usize;
            assert!((sent - sent / 20..=sent).contains(&bytes), "{policy}: {bytes} of {sent}");
        };
        bench.worker.responder.timers.hasten_sweep();
        bench.worker.sweep();
        booked(&bench, 2);
        drop(clients);
        while !bench.worker.responder.connections.is_empty() {
            bench.turn();
        }
        booked(&bench, 0);
    }
}

/// Bytes sent straight into the socket count too, and the next response waits as a job, on any connection.
#[test]
fn a_client_beyond_its_rate_waits_on_every_path() {
    const BYTES: usize = 300_000;
    for policy in ["fair", "srpt"] {
        let mut bench = Bench::with("rate", policy, Pace::UNLIMITED, |root| root);
        std::fs::write(bench.folder.join("large"), vec![b'x'; BYTES]).unwrap();
        let limits = Limits { client_rate_max: "8kbit".parse().ok(), ..Limits::default() };
        let clients = Arc::new(Clients::new(limits.clients(16)));
        let places = Arc::new(Places::new(16, &[Arc::clone(&bench.worker.responder.setup.wake)]));
        bench.worker.responder.service.admission = Admission::new(0, places, Arc::clone(&clients), u64::MAX, &limits);
        let scheduler = Scheduler::new(policy.parse::<PolicySpec>().unwrap().build(), Pace::UNLIMITED);
        bench.worker.responder.transmitter = Transmitter::new(Link::new(scheduler, None), limits.patience);
        bench.worker.responder.transmitter.limit = Limit::new(Some(clients));
        let mut first = bench.connect();
        first.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        while first.received.len() < BYTES {
            first.responses();
            bench.turn();
        }
        let mut second = bench.connect();
        second.send(HEAD);
        while bench.worker.responder.transmitter.link.scheduler().jobs().is_empty() {
            bench.turn();
        }
        (0..10).for_each(|_| bench.turn());
        // Some four minutes.
        let wait = bench.worker.responder.transmitter.poll_timeout(&bench.worker.responder.connections).unwrap()
            - bench.worker.responder.timers.now();
        assert!(wait > Nanos::from_secs(120) && second.responses() == 0, "{policy}: {wait:?}");
    }
}

#[test]
fn a_client_is_refused_what_is_too_much() {
    let mut bench = Bench::new("refused", "fair");
    let limits = Limits { client_requests_per_s_max: 2, client_connections_max: Some(1), ..Limits::default() };
    bench.admit(16, limits.clients(16));
    let mut client = bench.connect();
    client.send(&HEAD.repeat(3));
    bench.turn_until(&mut client, 3);
    let statuses: Vec<String> =
        client.received().lines().filter(|line| line.starts_with("HTTP")).map(String::from).collect();
    assert_eq!(statuses, ["HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests"]);
    let mut second = bench.connect();
    let read = loop {
        bench.turn();
        second.stream.set_nonblocking(true).unwrap();
        match second.stream.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => break other,
        }
    };
    assert!(matches!(read, Ok(0)), "{read:?}");
    assert_eq!(bench.worker.responder.connections.len(), 1);
    let admission = &bench.worker.responder.service.admission;
    assert_eq!((0..).take_while(|_| admission.take_place()).count(), 15, "the refused one has given its place back");
}

/// Apart from its kernel socket and its memory account: its slots in two tables, and no buffer.
#[test]
fn an_idle_connection_takes_few_bytes() {
    let bytes = [crate::connection::CONNECTION_BYTES];
    assert!(bytes.iter().sum::<usize>() <= 368, "{bytes:?}");
}
