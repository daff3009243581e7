//! The deadlines of clients, and pauses of the process: minutes in which it did not run make nobody late.

use http2::testing::{DATA, END_HEADERS, HEADERS, block, frame, hello, wide};

use super::*;
use crate::connection::{CLOSING_PERIOD, Connection, HANDSHAKE_TIMEOUT, Task};
use crate::net::Transport;

/// Longer than each of the timeouts.
const PAUSE: Nanos = Nanos::from_secs(120);
const UPLOAD: &str = "/.well-known/nq/upload";
pub(super) const PROXIED: &str = "/proxied";

type Conn = Connection<Transport<Os>>;

/// A wait for a client.
struct Wait {
    name: &'static str,
    is_secure: bool,
    /// The bytes that the client sends before it is silent.
    said: Vec<u8>,
    is_on: fn(&Conn) -> bool,
    timeout: Nanos,
}

fn waits() -> Vec<Wait> {
    let limits = Limits::default();
    let open = |name, said: &str, is_on, timeout| Wait { name, is_secure: false, said: said.into(), is_on, timeout };
    let on_stream = |path| {
        let fields = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", path)];
        [hello(), wide(), frame(HEADERS, END_HEADERS, 1, &block(&fields)), frame(DATA, 0, 1, b"hello")].concat()
    };
    let post = |path| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhello");
    let is_receiving = |conn: &Conn| conn.protocol.exchanges().any(|one| matches!(one.task, Task::Receiving(_)));
    let is_passed_on = |conn: &Conn| conn.protocol.exchanges().any(|one| matches!(one.task, Task::PassedOn(_)));
    vec![
        open("idle", HEAD, |conn| conn.has_answered && conn.is_idle(), limits.idle_timeout),
        open("head", "GET /a HTTP/1.1\r\nHos", |conn| conn.has_request_part(), limits.head_timeout),
        open("dropped upload", &post("/a"), |conn| conn.has_request_part(), limits.body_timeout),
        open("upload", &post(UPLOAD), is_receiving, limits.body_timeout),
        Wait { said: on_stream(UPLOAD), ..open("upload on a stream", "", is_receiving, limits.body_timeout) },
        open("proxied upload", &post(PROXIED), is_passed_on, limits.body_timeout),
        Wait { said: on_stream(PROXIED), ..open("proxied upload on a stream", "", is_passed_on, limits.body_timeout) },
        Wait { is_secure: true, ..open("handshake", "", |conn| conn.channel.is_handshaking, HANDSHAKE_TIMEOUT) },
        open("closing", "nonsense\r\n\r\n", |conn| conn.is_lingering(), CLOSING_PERIOD),
    ]
}

impl Bench {
    pub(super) fn receiving(name: &str) -> Bench {
        Bench::proxying(name, "127.0.0.1:9")
    }

    /// A bench that passes requests of this path on to an upstream.
    pub(super) fn proxying(name: &str, upstream: &str) -> Bench {
        let mut bench = Bench::new(name, "srpt");
        let mut site = SiteConfig::alone(bench.folder.clone(), Options::default());
        site.answers.responsiveness = true;
        // The beginning of a body is gathered before a connection is made.
        let proxy = config::Proxy::of_all(vec![config::UpstreamAddress::new(upstream).unwrap()]);
        site.answers.proxies = vec![config::Proxy { path: config::Pattern::of_path(PROXIED).unwrap(), ..proxy }];
        bench.worker.responder.service.handler.serve(open(&[site], false, None).served());
        bench
    }

    fn is_on(&self, wait: &Wait) -> bool {
        self.worker.responder.connections.iter().any(|(_, conn)| (wait.is_on)(conn))
    }

    /// Lets time pass before the sweep: a pause, if the loop was to run at once.
    fn sweep_after(&mut self, span: Nanos, timeout: Option<Nanos>) {
        let timers = &mut self.worker.responder.timers;
        timers.advance(timers.now() + span, timeout);
        for at in self.worker.responder.connections.slots(|_| true) {
            self.worker.look_at(at);
        }
    }
}

#[test]
fn a_deadline_of_each_kind_survives_a_pause_and_is_met_without_one() {
    for wait in waits() {
        let name = format!("pause-{}", wait.name.replace(' ', "-"));
        let mut bench = if wait.is_secure { Bench::secured(&name) } else { Bench::receiving(&name) };
        let mut stream = TcpStream::connect(bench.address).unwrap();
        stream.write_all(&wait.said).unwrap();
        while !bench.is_on(&wait) {
            bench.turn();
        }
        bench.sweep_after(PAUSE, Some(Nanos::ZERO));
        assert!(bench.is_on(&wait), "{}: late because of a pause", wait.name);
        bench.sweep_after(wait.timeout, None);
        assert!(!bench.is_on(&wait), "{}: never late", wait.name);
    }
}
