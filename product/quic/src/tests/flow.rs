//! Requests and responses.

use http2::{Event, Source, Stop, Supply};

use super::rig::*;
use crate::Settings;
use crate::testing::{Client, Windows};

#[test]
fn a_request_and_its_answer() {
    let mut rig = Rig::connected();
    let stream = rig.client.request("/a?b", &[("accept", "*/*")]);
    rig.run();
    let [Event::Request { stream: of, request: Ok(request) }] = &rig.events[..] else { panic!("a request") };
    let view = request.view();
    let all: [(&[u8], &[u8]); 2] = [(b"host", b"localhost"), (b"accept", b"*/*")];
    assert_eq!((*of, view.target, view.all().collect::<Vec<_>>()), (stream, &b"/a?b"[..], all.to_vec()));
    rig.answer(stream, 10_000);
    rig.run();
    let response = rig.client.response(stream);
    assert_eq!(response.field(":status"), Some("200"));
    assert_eq!(response.field("server"), Some("weir"));
    assert_eq!(response.field("content-length"), Some("10000"));
    assert_eq!((response.body, response.is_whole), (counted(10_000), true));
    assert_eq!(rig.closed(), [stream]);
    assert_eq!(rig.session().host().as_deref(), Some("localhost"));
    assert_eq!(rig.session().waiting_bytes(), 0);
    assert!(rig.session().path().rtt.is_some_and(|rtt| rtt >= units::Nanos(2 * DELAY.0)));
}

#[test]
fn a_response_without_a_body() {
    let mut rig = Rig::connected();
    let stream = rig.client.request("/", &[]);
    rig.run();
    rig.answer(stream, 0);
    rig.run();
    let response = rig.client.response(stream);
    assert_eq!((response.field(":status"), response.body.len(), response.is_whole), (Some("200"), 0, true));
    assert_eq!(rig.closed(), [stream]);
}

#[test]
fn our_control_stream_begins_with_settings() {
    let rig = Rig::connected();
    let [control] = &rig.client.server_streams()[..] else { panic!("one stream of the server's") };
    assert_eq!(control.bytes, [0, 4, 9, 1, 0, 6, 0x80, 1, 0, 0, 7, 0]);
    assert!(!control.is_whole);
}

#[test]
fn it_does_so_once_where_the_handshake_begins_with_two_datagrams() {
    let mut rig = Rig::new();
    rig.client = Client::of_long_hello(rig.now, SERVER.parse().unwrap(), "localhost", Windows::default());
    rig.drain_client();
    assert_eq!(rig.to_server.len(), 2);
    rig.connect();
    let [control] = &rig.client.server_streams()[..] else { panic!("one stream of the server's") };
    assert_eq!(control.bytes, [0, 4, 9, 1, 0, 6, 0x80, 1, 0, 0, 7, 0]);
}

/// A large body that counts how much of it was read, and how much taken.
struct Large {
    read: usize,
    taken: usize,
}

impl Source for Large {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        into.resize(into.len() + bytes_max, 0);
        self.read += bytes_max;
        Supply::More
    }

    fn advance(&mut self, bytes: usize) {
        self.taken += bytes;
    }
}

#[test]
fn a_stalled_connection_holds_little_whatever_its_streams() {
    const WINDOW: u32 = 64;
    let mut rig = Rig::with(&Settings::default(), Windows { stream: WINDOW, ..Windows::default() });
    rig.connect();
    rig.client.is_deaf = true;
    let streams: Vec<u32> = (0..100).map(|_| rig.client.request("/", &[])).collect();
    rig.run();
    let mut bodies = Large { read: 0, taken: 0 };
    for &stream in &streams {
        assert!(rig.session().respond(stream, &head(None), true));
        assert_eq!(rig.session().write(stream, 64 << 10, &mut bodies).stop, Stop::StreamWindow);
        rig.make(64 << 10);
    }
    assert!(bodies.taken > 0 && bodies.taken < streams.len() * WINDOW as usize, "{}", bodies.taken);
    assert!(bodies.read <= 64 << 10, "{} bytes were read", bodies.read);
    let kept: usize = rig
        .session()
        .streams
        .open
        .iter()
        .filter_map(|open| open.reply.as_ref())
        .map(|reply| reply.heads.capacity())
        .sum();
    assert!(kept <= 64 << 10, "{kept} bytes are kept");
}
