//! Responses together with other traffic that fills the link by itself, like a backup or HTTP/3: both continue.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;

use crate::floods::{OnDrop, connect, count, drain, flood, listen, look_until, priority, show};
use crate::network::Network;
use crate::virtual_time::in_virtual_time;

/// A time limit that is reached only if a response stalls.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which the server checks whether the test is over.
const TURN: Duration = Duration::from_millis(100);
const FETCHES: usize = 30;
const SMALL_BYTES: usize = 3000;
const LARGE_BYTES: usize = 300_000;
/// An unlisted port: other traffic.
const OTHER: &str = "198.18.60.1:9000";
const RESPONSES: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 60, 1)), 80);

#[test]
fn one_bulk_transfer_from_another_port_stops_no_response() {
    if in_virtual_time(one_bulk_transfer_from_another_port_stops_no_response) {
        return;
    }
    beside_other_traffic(|network, is_over, scope| {
        let listener = network.cable.at_server(|| TcpListener::bind(OTHER).unwrap());
        let receiver = network.cable.at_client(|| TcpStream::connect(OTHER).unwrap());
        let sender = listener.accept().unwrap().0;
        scope.spawn(|| flood(sender, is_over));
        scope.spawn(|| drain(receiver, is_over));
    });
}

#[test]
fn a_flood_of_datagrams_stops_no_response() {
    if in_virtual_time(a_flood_of_datagrams_stops_no_response) {
        return;
    }
    beside_other_traffic(|network, is_over, scope| {
        let socket = network.cable.at_server(|| UdpSocket::bind("198.18.60.1:443").unwrap());
        socket.connect("198.18.60.2:9").unwrap();
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                // The receiver's host refuses some packets; it waits for room in the queue.
                let _ = socket.send(&[0; 1400]);
            }
        });
    });
}

/// The bands that `weir attach` creates by default, with traffic that it does not know.
fn beside_other_traffic(
    start: impl for<'scope> FnOnce(&'scope Network, &'scope AtomicBool, &'scope std::thread::Scope<'scope, '_>),
) {
    let Some(network) = Network::new() else { return };
    let attached = network.weir("attach uplink --port 80 --rate 10mbit");
    if !attached.status.success() {
        // A build without clang has no programs.
        let why = String::from_utf8_lossy(&attached.stderr).into_owned();
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
        return println!("SKIPPED: {why}");
    }
    let is_over = AtomicBool::new(false);
    let listener = network.cable.at_server(|| TcpListener::bind(RESPONSES).unwrap());
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        start(&network, &is_over, scope);
        scope.spawn(|| respond(&listener, &is_over));
        look_until(&network, |bands| count(&bands[1], "packets") >= 100);
        for nth in 0..FETCHES {
            let body_bytes = if nth % 10 == 9 { LARGE_BYTES } else { SMALL_BYTES };
            network.cable.at_client(|| fetch(body_bytes));
        }
        let before = show(&network);
        look_until(&network, |bands| count(&bands[1], "packets") >= count(&before[1], "packets") + 100);
    });
}

/// A server without Weir: each connection requests a number of bytes and gets them.
fn respond(listener: &TcpListener, is_over: &AtomicBool) {
    // accept(2) takes the timeout of reads.
    SockRef::from(listener).set_read_timeout(Some(TURN)).unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let Ok((mut connection, _)) = listener.accept() else { continue };
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut request = [0; 8];
        if connection.read_exact(&mut request).is_err() {
            return;
        }
        let body_bytes = u64::from_ne_bytes(request) as usize;
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n").into_bytes();
        response.resize(response.len() + body_bytes, b'x');
        // The client notices the missing bytes.
        let _ = connection.write_all(&response);
    }
}

fn fetch(body_bytes: usize) {
    let mut connection = TcpStream::connect_timeout(&RESPONSES, PATIENCE).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(&(body_bytes as u64).to_ne_bytes()).unwrap();
    let mut response = Vec::new();
    connection.read_to_end(&mut response).unwrap();
    assert!(response.len() > body_bytes, "{} of {body_bytes}", response.len());
}

/// The bands of other traffic and of the best responses.
const BANDS: [usize; 2] = [1, 2];
/// The packets of each band before the first window, by which time TCP has found its own window.
const SETTLING_PACKETS: u64 = 200;
const WINDOW_PACKETS: u64 = 1000;
/// The maximum number of packets between two checks; after more, a band may have run empty unnoticed.
const UNSEEN_PACKETS_MAX: u64 = WINDOW_PACKETS / 2;
/// Windows before giving up; those on a starved machine may be void.
const WINDOWS_MAX: usize = 20;

/// Other traffic gets its fifth of the link, even if responses would fill it.
#[test]
fn other_traffic_has_its_share_and_no_more() {
    if in_virtual_time(other_traffic_has_its_share_and_no_more) {
        return;
    }
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 10mbit");
    let bands = show(&network);
    let listener = listen(&network, priority(&bands[0]));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        // Enough connections of each that neither band runs empty on a busy machine.
        for band in [2, 1].repeat(8) {
            let (sender, receiver) = connect(&network, &listener);
            SockRef::from(&sender).set_priority(if band == 1 { 0 } else { priority(&bands[band]) }).unwrap();
            scope.spawn(|| flood(sender, &is_over));
            scope.spawn(|| drain(receiver, &is_over));
        }
        let [other, responses] = sent_in_a_window(&network);
        let permille = other * 1000 / (other + responses);
        assert!((150..=300).contains(&permille), "{other} packets of other traffic, {responses} of responses");
    });
}

/// The packets of [`BANDS`] in a window in which both always had packets waiting. A band that runs empty rightly gives
/// its share to the other.
fn sent_in_a_window(network: &Network) -> [u64; 2] {
    (0..WINDOWS_MAX).find_map(|_| sent_unless_void(network)).unwrap_or_else(|| {
        panic!("void, each of {WINDOWS_MAX} windows: a band ran empty, or {UNSEEN_PACKETS_MAX} packets left unseen; is the machine busy?")
    })
}

/// `None` if a check in the window found a band empty, or came too late.
fn sent_unless_void(network: &Network) -> Option<[u64; 2]> {
    let both_wait = |bands: &[Value]| BANDS.iter().all(|band| count(&bands[*band], "backlog_packets") > 0);
    let packets = |bands: &[Value]| BANDS.map(|band| count(&bands[band], "packets"));
    let before = look_until(network, |bands| both_wait(bands) && packets(bands).iter().all(|n| *n > SETTLING_PACKETS));
    let sent = |bands: &[Value]| {
        let (before, now) = (packets(&before), packets(bands));
        [now[0] - before[0], now[1] - before[1]]
    };
    let (seen, is_void) = (Cell::new(0), Cell::new(false));
    let after = look_until(network, |bands| {
        let all: u64 = sent(bands).iter().sum();
        is_void.set(!both_wait(bands) || all - seen.replace(all) > UNSEEN_PACKETS_MAX);
        is_void.get() || all >= WINDOW_PACKETS
    });
    (!is_void.get()).then(|| sent(&after))
}
