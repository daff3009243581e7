//! Message streams through the proxy: WebSocket, server-sent events, long polls, endless chunks; over each protocol,
//! with and without TLS, paced and unpaced. A message must reach the other side as soon as the links allow; the server
//! may add a few milliseconds. A message that the server leaves in the kernel, to be sent with the next one, arrives
//! 200 ms late.

use std::rc::Rc;

use units::Nanos;

use super::application::{Ask, Fault, Framing};
use super::client::{Client, Engine, Habits, Http1, Http2, Http3, Request, Tunnel, WebSocket};
use super::datagrams::quic_seed;
use super::files::{Site, stages_of};
use super::plan::{Http3Plan, Plan, UpstreamPlan};
use super::planted::{self, plant};
use super::random::Random;
use super::server::Server;
use super::wire::WireSettings;
use super::world::World;
use crate::stages::staging::Staging;

/// The delay of each link, one way.
const DELAY: Nanos = Nanos::from_millis(10);
/// The maximum time a message spends in the server. It also crosses two links.
const ADDED_MAX: Nanos = Nanos::from_millis(5);
/// Writes closer together than this are one message.
const PAUSE_MIN: Nanos = Nanos::from_millis(100);
/// A message is not timed if the next one follows within this time: the kernel may hold back its end for 200 ms.
const TIMED_FOR: Nanos = Nanos::from_millis(240);
/// The time to wait for the last message.
const LAST_FOR: Nanos = Nanos::from_secs(1);
/// The minimum number of messages of each kind that must be timed.
const TIMED_MIN: usize = 3;
/// The number of requests of a polling client.
const POLLS: usize = 6;
const UPLINK_BYTES_PER_S: u64 = 2_500_000;
const STEPS_MAX: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http1Tls,
    Http2,
    Http2Tls,
    Http3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    WebSocket,
    /// Ended by its application with the connection (RFC 9112 section 6.3).
    Events,
    /// A chunked body whose last chunk never arrives.
    Endless,
    /// The length is announced before the messages.
    Announced,
    LongPoll,
}

const PROTOCOLS: [Protocol; 5] =
    [Protocol::Http1, Protocol::Http1Tls, Protocol::Http2, Protocol::Http2Tls, Protocol::Http3];
const KINDS: [Kind; 5] = [Kind::WebSocket, Kind::Events, Kind::Endless, Kind::Announced, Kind::LongPoll];
/// Files that arrive in forty messages, of 500 bytes and of 1,638: less than a segment, and more than one.
const FILES: [usize; 2] = [4, 5];
/// The response to a poll, 1,000 bytes.
const POLLED_FILE: usize = 3;

/// A link that only adds a delay.
const LINK: WireSettings = WireSettings {
    delay: DELAY,
    rate_bytes_per_s: 100_000_000,
    piece_bytes: 65_536,
    window_bytes: 1 << 20,
    send_buffer_bytes: 1 << 20,
    unsent_bytes_max: usize::MAX,
    inbox_bytes_max: 256 << 10,
};

const UPSTREAMS: UpstreamPlan = UpstreamPlan {
    endpoints: 1,
    requests_max: 1_000,
    connect_timeout: Nanos::from_secs(5),
    read_timeout: Nanos::from_secs(10),
    refused_permille: 0,
    closes_idle: false,
    health: None,
};

/// A plan without failures.
fn plan(uplink_bytes_per_s: Option<u64>, protocol: Protocol) -> Plan {
    Plan {
        uplink_bytes_per_s,
        call_ns_max: 2_000,
        wake_ns_max: 10_000,
        unsent_bytes_max: if uplink_bytes_per_s.is_some() { Plan::QUIET.unsent_bytes_max } else { usize::MAX },
        disk_takes_max: Nanos::from_millis(1),
        upstreams: Some(UPSTREAMS),
        http3: (protocol == Protocol::Http3).then_some(Http3Plan::QUIET),
        link: Some(LINK),
        ..Plan::QUIET
    }
}

impl Kind {
    fn is_asked_for(self, ask: &Ask, file: usize) -> bool {
        let is_plain = ask.method == "GET" && ask.status == 200 && ask.interim == 0 && !ask.closes;
        let is_stream = ask.pieces == 40 && ask.pause > TIMED_FOR && ask.file == file;
        let has_no_fault = ask.fault.is_none();
        is_plain
            && ask.is_tunnel == (self == Kind::WebSocket)
            && match self {
                Kind::WebSocket => has_no_fault && ask.tunnel_bytes == 100_000,
                Kind::Events => has_no_fault && is_stream && ask.framing == Framing::Close,
                Kind::Announced => has_no_fault && is_stream && ask.framing == Framing::Length,
                Kind::Endless => {
                    is_stream
                        && ask.fault == Some(Fault::StalledBody)
                        && ask.framing == Framing::Chunked
                        && ask.cut_permille > 400
                }
                Kind::LongPoll => has_no_fault && ask.thinks > TIMED_FOR && ask.pieces == 1 && ask.file == POLLED_FILE,
            }
    }

    /// The requests of one client.
    fn requests(self, file: usize, site: &Site, random: &mut Random) -> Vec<Request> {
        let count = if self == Kind::LongPoll { POLLS } else { 1 };
        let ask = |_| Ask::find(site, random, |ask| self.is_asked_for(ask, file));
        (0..count).map(ask).map(|ask| Request::of_ask(ask, &UPSTREAMS)).collect()
    }
}

/// The times at which one end sent, with the number of bytes, and at which the other received.
struct Way {
    said: Vec<(Nanos, u64)>,
    heard: Vec<Nanos>,
}

/// The length of a message, and the time from the sending of its last byte to its arrival; `None` if nothing arrived
/// before the next message.
type Message = (u64, Option<Nanos>);

impl Way {
    /// The messages that no other message followed at once.
    fn messages(&self) -> Vec<Message> {
        let bursts: Vec<_> = self.said.chunk_by(|one, next| next.0 - one.0 < PAUSE_MIN).collect();
        let begins = bursts.iter().skip(1).map(|next| next[0].0).chain([Nanos::MAX]);
        let heard = |(burst, next_at): (&&[(Nanos, u64)], Nanos)| {
            let (ended_at, bytes) = (burst[burst.len() - 1].0, burst.iter().map(|(_, bytes)| bytes).sum());
            // After the last message comes the end of the stream.
            let until = next_at.min(ended_at + LAST_FOR);
            let heard = self.heard.iter().filter(|at| **at > ended_at && **at < until).max();
            (next_at - ended_at > TIMED_FOR).then_some((bytes, heard.map(|last| *last - ended_at)))
        };
        bursts.iter().zip(begins).filter_map(heard).collect()
    }
}

/// Runs a stream; returns an error if a message is late.
fn judge(protocol: Protocol, kind: Kind, file: usize, uplink: Option<u64>, site: &Rc<Site>) -> Result<(), String> {
    let plan = plan(uplink, protocol);
    let server = Server::new(plan.clone(), Random::new(1), Rc::clone(site));
    let world = Rc::clone(&server.world);
    {
        let peers = &mut world.borrow_mut().peers;
        let client = client(protocol, kind, file, &plan, site);
        (peers.clients[0], peers.datagrams.clients) = match client {
            Asking::Stream(client) => (Some(*client), Vec::new()),
            Asking::Datagrams(client) => (None, vec![Some(*client)]),
        };
    }
    let ran = server.run(STEPS_MAX);
    let carried = |bytes: u64| uplink.map_or(Nanos::ZERO, |rate| Nanos(bytes * 1_000_000_000 / rate));
    for way in ways(&world.borrow(), kind) {
        let messages = way.messages();
        let is_late = |(bytes, delay): &&Message| {
            delay.is_none_or(|delay| delay > Nanos(2 * DELAY.0) + ADDED_MAX + carried(*bytes))
        };
        match messages.iter().find(is_late) {
            Some(late) => return Err(format!("of {} messages one took {late:?}; {ran:?}", messages.len())),
            None if messages.len() < TIMED_MIN => return Err(format!("{} messages; {ran:?}", messages.len())),
            None => {}
        }
    }
    ran.map(|_| ())
}

/// The direction to the client; for a tunnel, also the direction from the client.
fn ways(world: &World, kind: Kind) -> Vec<Way> {
    let clients = world.peers.clients.iter().flatten().map(|client| (&client.said_at, &client.heard_at));
    let datagrams = world.peers.datagrams.clients.iter().flatten().map(|client| (&client.said_at, &client.heard_at));
    let (said_at, heard_at) = clients.chain(datagrams).next().expect("there is one client");
    let said = world.said_upstream();
    let echoed_at: Vec<Nanos> = said.iter().map(|(at, _)| *at).collect();
    let down = Way { said, heard: heard_at.clone() };
    if kind != Kind::WebSocket {
        return vec![down];
    }
    // Before its tunnel is open, a client sends other data.
    let opened_at = *echoed_at.first().unwrap_or(&Nanos::MAX);
    let said = said_at.iter().filter(|at| **at > opened_at).map(|at| (*at, 0)).collect();
    vec![down, Way { said, heard: echoed_at }]
}

enum Asking {
    Stream(Box<Client>),
    Datagrams(Box<Http3>),
}

/// A client that requests such a stream.
fn client(protocol: Protocol, kind: Kind, file: usize, plan: &Plan, site: &Site) -> Asking {
    let random = &mut Random::new(1);
    let requests = kind.requests(file, site, random);
    if protocol == Protocol::Http3 {
        return Asking::Datagrams(Box::new(Http3::of(requests.into(), quic_seed(random), plan)));
    }
    let tunnel = || Ask::find(site, &mut Random::new(1), |ask| kind.is_asked_for(ask, file));
    let habits = Habits { is_wide: true, cancels: None, pings: false };
    let engine = match (protocol, kind) {
        (Protocol::Http1 | Protocol::Http1Tls, Kind::WebSocket) => Engine::Tunnel(Tunnel::of(tunnel(), &UPSTREAMS)),
        (Protocol::Http1 | Protocol::Http1Tls, _) => Engine::Http1(Http1::new(requests, 1, Nanos::ZERO)),
        (_, Kind::WebSocket) => Engine::WebSocket(WebSocket::of(tunnel(), &UPSTREAMS)),
        _ => Engine::Http2(Http2::new(requests, 1, Nanos::ZERO, habits, false)),
    };
    let is_secure = matches!(protocol, Protocol::Http1Tls | Protocol::Http2Tls);
    Asking::Stream(Box::new(Client::of(engine, is_secure, plan)))
}

/// All streams: kind, file, and the rate of the uplink, `None` if not paced.
fn streams() -> impl Iterator<Item = (Kind, usize, Option<u64>)> {
    let uplinks = [None, Some(UPLINK_BYTES_PER_S)];
    let of_files = KINDS.into_iter().flat_map(|kind| FILES.map(|file| (kind, file)));
    // Neither a tunnel nor a poll depends on the file.
    let each = of_files.filter(|(kind, file)| *file == FILES[0] || !matches!(kind, Kind::WebSocket | Kind::LongPoll));
    each.flat_map(move |(kind, file)| uplinks.map(|uplink| (kind, file, uplink)))
}

#[test]
fn messages_of_streams_leave_at_once() {
    let site = Rc::new(Site::new());
    let mut wrong = Vec::new();
    for protocol in PROTOCOLS {
        for (kind, file, uplink) in streams() {
            if let Err(why) = judge(protocol, kind, file, uplink, &site) {
                wrong.push(format!("{kind:?} over {protocol:?}, file {file}, paced {}: {why}", uplink.is_some()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A stage that keeps bytes back is flushed when its source pauses.
#[test]
fn messages_pass_through_stages_at_once() {
    let site = Rc::new(Site::new());
    let _staging = Staging::new(stages_of);
    for protocol in PROTOCOLS {
        for (kind, file, uplink) in streams() {
            let judged = judge(protocol, kind, file, uplink, &site);
            assert!(judged.is_ok(), "{kind:?} over {protocol:?}, file {file}, paced {}: {judged:?}", uplink.is_some());
        }
        plant(Some(planted::Fault::KeptByStage));
        let judged = judge(protocol, Kind::Events, FILES[0], None, &site);
        plant(None);
        assert!(judged.is_err(), "over {protocol:?}");
    }
}

/// The server once held back the end of what had arrived over HTTP/1.1, with TLS on a paced uplink: messages took 200
/// ms longer.
#[test]
fn messages_that_the_kernel_keeps_are_late() {
    let site = Rc::new(Site::new());
    for protocol in [Protocol::Http1, Protocol::Http1Tls] {
        for (kind, file, uplink) in streams().filter(|(kind, _, uplink)| *kind != Kind::LongPoll && uplink.is_some()) {
            plant(Some(planted::Fault::HeldTail));
            let judged = judge(protocol, kind, file, uplink, &site);
            plant(None);
            assert!(judged.is_err(), "{kind:?} over {protocol:?}, file {file}, paced {}", uplink.is_some());
        }
    }
}
