//! Floods that aim at the parts behind a proxy: its application's numbers and places, and the memory of responses that
//! no client reads. All connections of one flood come from one address, and the honest client's from another.

use std::net::Shutdown;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::application::{ENDLESS, ENDLESS_HEAD, KEPT, SLOW, TUNNEL, UPLOAD};
use super::floods::{Attack, HELD, MEMORY, STREAMS, Tally, get, opening, read_frames};
use super::server::Server;

/// The bytes of one step of a slow body, 700 per second, which is above the minimum rates of all servers here.
const SLOW_BYTES: usize = 70;
const SLOW_EVERY: Duration = Duration::from_millis(100);
const UPLOAD_BYTES: usize = 100_000;
/// The number of clients that leave.
const LEAVING: u32 = 1300;
/// The maximum connections with stalled streams: 1.2 GB of bodies.
const STALLED_MAX: u32 = 200;
const ENDLESS_TIMES: u32 = 20;
const HEADERS: u8 = 1;

/// The concurrent requests that the application gets: Weir's default, and a small number.
const MANY: u32 = 256;
const FEW: u32 = 4;

const fn proxied(name: &'static str, what: &'static str, run: fn(&Server, u32, &mut Tally), places: u32) -> Attack {
    Attack { name, what, run, places: Some(places), memory: None }
}

pub const ATTACKS: [Attack; 9] = [
    proxied("up-length", "an application that answers with lengths of 2^64 - 1 and 2^64 - 16", up_length, MANY),
    Attack {
        memory: Some(MEMORY),
        ..proxied("up-memory", "zero window, 100 GETs of proxied 60 KB each, held", up_memory, MANY)
    },
    proxied("up-post-4", "6 POSTs of 700 bytes a second for 4 places", up_post, FEW),
    proxied("up-post-256", "384 POSTs of 700 bytes a second for 256 places", up_post, MANY),
    proxied("up-socket-4", "6 idle WebSockets for 4 places", up_socket, FEW),
    proxied("up-socket-256", "384 idle WebSockets for 256 places", up_socket, MANY),
    proxied("up-get-4", "24 GETs of 2 s each for 4 places", up_get, FEW),
    proxied("up-get-256", "1,536 GETs of 2 s each for 256 places", up_get, MANY),
    proxied("up-leave", "1,300 GETs of 2 s each, closed at once", up_leave, MANY),
];

fn request(method: &str, path: &str, fields: &str) -> Vec<u8> {
    format!("{method} /{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes()
}

/// Sends requests for which any answer is right. Only the end of the server is a fault.
fn up_length(server: &Server, _: u32, tally: &mut Tally) {
    for path in [ENDLESS, ENDLESS_HEAD] {
        tally.each(server.http1(), ENDLESS_TIMES, |tally, stream| {
            tally.send(stream, &request("GET", path, ""))?;
            super::floods::drain(stream)
        });
        tally.each(server.http2(), ENDLESS_TIMES, |tally, stream| {
            tally.send(stream, &[super::floods::opening_wide(), get(1, path)].concat())?;
            // The stream waits until the server answers, resets it or ends.
            let _ = read_frames(stream, HEADERS, 1);
            Ok(())
        });
    }
}

fn up_memory(server: &Server, connections: u32, tally: &mut Tally) {
    let requests = (0..STREAMS).flat_map(|at| get(2 * at + 1, KEPT));
    let bytes: Vec<u8> = opening().into_iter().chain(requests).collect();
    tally.each(server.http2(), connections.min(STALLED_MAX), |tally, stream| tally.send(stream, &bytes));
    sleep(HELD);
}

/// Returns one and a half times the number of places.
fn wanted(server: &Server) -> u32 {
    server.places() + server.places() / 2
}

fn up_post(server: &Server, _: u32, tally: &mut Tally) {
    let head = request("POST", UPLOAD, &format!("Content-Length: {UPLOAD_BYTES}\r\n"));
    tally.each(server.http1(), wanted(server), |tally, stream| tally.send(stream, &head));
    let until = Instant::now() + HELD;
    while Instant::now() < until {
        let mut streams = std::mem::take(&mut tally.held);
        streams.retain_mut(|stream| {
            let is_held = tally.send(stream, &[b'x'; SLOW_BYTES]).is_ok();
            tally.given_up += u32::from(!is_held);
            is_held
        });
        tally.held = streams;
        sleep(SLOW_EVERY);
    }
}

fn up_socket(server: &Server, _: u32, tally: &mut Tally) {
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let upgrade = request("GET", TUNNEL, fields);
    tally.each(server.http1(), wanted(server), |tally, stream| tally.send(stream, &upgrade));
    sleep(HELD);
}

fn up_get(server: &Server, _: u32, tally: &mut Tally) {
    let get = request("GET", SLOW, "");
    tally.each(server.http1(), 6 * server.places(), |tally, stream| tally.send(stream, &get));
    sleep(HELD);
}

/// Ends the connection after each request, without a reset, because no unread data has arrived.
fn up_leave(server: &Server, _: u32, tally: &mut Tally) {
    let get = request("GET", SLOW, "");
    tally.each(server.http1(), LEAVING, |tally, stream| {
        tally.send(stream, &get)?;
        stream.shutdown(Shutdown::Both)
    });
    tally.held.clear();
    sleep(HELD);
}
