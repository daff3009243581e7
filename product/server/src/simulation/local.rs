//! Clients in the server's own network, which are not reached over the uplink. Their downloads must neither delay a
//! response on the line nor wait for the line, whatever the protocols of both.

use std::rc::Rc;

use units::{Nanos, Rate};

use super::client::{Client, Engine, Habits, Http1, Http2, Http3, Request};
use super::datagrams::quic_seed;
use super::files::Site;
use super::plan::{Http3Plan, Plan};
use super::random::Random;
use super::server::Server;
use super::wire::WireSettings;

/// The rate of the line: 1 Mbit/s.
const UPLINK_BYTES_PER_S: u64 = 125_000;
/// The rate of the path to each client, far above the uplink's: 800 Mbit/s.
const PATH_BYTES_PER_S: u64 = 100_000_000;
/// The index of a file of 1,000,000 bytes. The next constant is for one of 20,000 bytes.
const LARGE: usize = 8;
const PAGE: usize = 4;
/// The requests of a local client, one after the other.
const DOWNLOADS: [usize; 8] = [LARGE; 8];
/// The requests of a client on the line, one after the other: 160 ms each.
const PAGES: [usize; 6] = [PAGE; 6];
/// The requests of a client on the line from which the rate is found, one after the other: 8 s each.
const LONG: [usize; 8] = [LARGE; 8];
/// The maximum time that a local client may need for its downloads, which would take 64 s on the line.
const LOCAL_FOR_MAX: Nanos = Nanos::from_secs(1);
const STEPS_MAX: u64 = 1_000_000;
/// The maximum delay of a response on the line by local downloads: the time of the server's system calls for them.
const LATER_MAX: Nanos = Nanos::from_millis(1);
/// The maximum relative difference of the found rate, whose intervals end at other times.
const MOVED_MAX: f64 = 0.02;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http1Tls,
    Http2,
    Http2Tls,
    Http3,
}

const PROTOCOLS: [Protocol; 5] =
    [Protocol::Http1, Protocol::Http1Tls, Protocol::Http2, Protocol::Http2Tls, Protocol::Http3];

const LINK: WireSettings = WireSettings {
    delay: Nanos::from_micros(500),
    rate_bytes_per_s: PATH_BYTES_PER_S,
    piece_bytes: 65_536,
    window_bytes: 1 << 20,
    send_buffer_bytes: 1 << 20,
    unsent_bytes_max: usize::MAX,
    inbox_bytes_max: 256 << 10,
};

/// Two TCP clients and two HTTP/3 clients. If `is_named`, the first of each is in a network that the server knows as
/// local.
fn plan(is_named: bool, is_searched: bool) -> Plan {
    Plan {
        clients: 2,
        arrivals_over: Nanos::from_millis(1),
        uplink_bytes_per_s: Some(UPLINK_BYTES_PER_S),
        http3: Some(Http3Plan { clients: 2, ..Http3Plan::QUIET }),
        link: Some(LINK),
        is_searched,
        local_clients: usize::from(is_named),
        ..Plan::QUIET
    }
}

/// A client and its requests; the first of its transport is the local one.
#[derive(Debug, Clone, Copy)]
struct Asking {
    protocol: Protocol,
    files: &'static [usize],
    is_local: bool,
}

/// The outcome of a run: the times at which bytes arrived at the local client and at the other, and the rate found for
/// the line.
struct Heard {
    local: Vec<Nanos>,
    line: Vec<Nanos>,
    found: Option<Rate>,
}

fn client(asking: Asking, plan: &Plan) -> Client {
    let requests: Vec<Request> = asking.files.iter().map(|file| Request::of_whole(*file)).collect();
    let habits = Habits { is_wide: true, cancels: None, pings: false };
    let engine = match asking.protocol {
        Protocol::Http2 | Protocol::Http2Tls => Engine::Http2(Http2::new(requests, 1, Nanos::ZERO, habits, false)),
        _ => Engine::Http1(Http1::new(requests, 1, Nanos::ZERO)),
    };
    Client::of(engine, matches!(asking.protocol, Protocol::Http1Tls | Protocol::Http2Tls), plan)
}

/// Runs a server with these clients until they have left.
fn heard(plan: &Plan, askings: &[Asking], site: &Rc<Site>) -> Heard {
    let server = Server::new(plan.clone(), Random::new(1), Rc::clone(site));
    let world = Rc::clone(&server.world);
    let place = |asking: &Asking| usize::from(!asking.is_local);
    {
        let peers = &mut world.borrow_mut().peers;
        peers.clients = vec![None, None];
        peers.datagrams.clients = vec![None, None];
        for asking in askings {
            if asking.protocol == Protocol::Http3 {
                let requests = asking.files.iter().map(|file| Request::of_whole(*file)).collect();
                let client = Http3::of(requests, quic_seed(&mut Random::new(1)), plan);
                peers.datagrams.clients[place(asking)] = Some(client);
            } else {
                peers.clients[place(asking)] = Some(client(*asking, plan));
            }
        }
    }
    let report = server.run(STEPS_MAX).unwrap_or_else(|why| panic!("{askings:?}: {why}"));
    let asked: u64 = askings.iter().map(|asking| asking.files.len() as u64).sum();
    assert_eq!(report.answered, asked, "{askings:?}");
    let peers = &world.borrow().peers;
    let of = |at: usize| -> Vec<Nanos> {
        let stream = peers.clients[at].iter().flat_map(|client| client.heard_at.iter().copied());
        stream.chain(peers.datagrams.clients[at].iter().flat_map(|client| client.heard_at.iter().copied())).collect()
    };
    Heard { local: of(0), line: of(1), found: report.found }
}

fn took(heard: &[Nanos]) -> Nanos {
    *heard.last().expect("it was answered") - heard[0]
}

/// All pairs of protocols of the local client and of the other.
fn pairs(line_files: &'static [usize]) -> impl Iterator<Item = (Asking, Asking)> {
    PROTOCOLS.into_iter().flat_map(move |protocol| {
        let local = Asking { protocol, files: &DOWNLOADS, is_local: true };
        PROTOCOLS.map(|protocol| (local, Asking { protocol, files: line_files, is_local: false }))
    })
}

/// No byte on the line arrives later because of a local download, and the download does not wait for the line.
#[test]
fn a_local_download_does_not_delay_the_line() {
    let (site, plan) = (Rc::new(Site::new()), plan(true, false));
    for (local, line) in pairs(&PAGES) {
        let alone = heard(&plan, &[line], &site).line;
        let shared = heard(&plan, &[local, line], &site);
        assert_eq!(shared.line.len(), alone.len(), "{local:?}, {line:?}");
        let later = shared.line.iter().zip(&alone).map(|(shared, alone)| *shared - *alone).max();
        assert!(later < Some(LATER_MAX), "{local:?}, {line:?}: {later:?} later");
        assert!(took(&shared.local) < LOCAL_FOR_MAX, "{local:?}, {line:?}: {:?}", took(&shared.local));
    }
}

/// Local clients whose network is not configured are held to the line's rate.
#[test]
fn an_unnamed_local_client_is_held_at_the_rate_of_the_line() {
    let (site, plan) = (Rc::new(Site::new()), plan(false, false));
    for protocol in PROTOCOLS {
        let local = Asking { protocol, files: &DOWNLOADS, is_local: true };
        let took = took(&heard(&plan, &[local], &site).local);
        assert!(took > Nanos::from_secs(60), "{protocol:?}: {took:?}");
    }
}

/// Local downloads do not change the rate that is found by a download on the line over HTTP/1.1. The windows of the
/// client of HTTP/2 are too narrow to fill the line.
#[test]
fn a_local_download_does_not_move_the_rate_that_is_found() {
    let (site, plan) = (Rc::new(Site::new()), plan(true, true));
    for (local, line) in pairs(&LONG).filter(|(_, line)| line.protocol == Protocol::Http1) {
        let found = |askings: &[Asking]| heard(&plan, askings, &site).found.map(|rate| rate.bits_per_s());
        let (alone, shared) = (found(&[line]), found(&[local, line]));
        let moved = shared.zip(alone).map(|(shared, alone)| shared.abs_diff(alone) as f64 / alone as f64);
        assert!(moved < Some(MOVED_MAX), "{local:?}, {line:?}: {shared:?} bit/s, alone {alone:?}");
        assert!(moved.is_some(), "{line:?}: no rate is found");
    }
}
