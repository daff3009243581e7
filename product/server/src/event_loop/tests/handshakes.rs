use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection};

use super::*;
use crate::connection::HANDSHAKE_TIMEOUT;
use crate::event_loop::budget::HANDSHAKES_PER_TURN_MAX;
use crate::sites::{Certificate, Https};

impl Bench {
    /// A bench whose clients speak TLS.
    pub(super) fn secured(name: &str) -> Bench {
        Bench::new(name, "srpt").with_tls(vec!["localhost".into()])
    }

    /// Paced so slowly that a flight takes tens of milliseconds; the certificate has enough names to make the flight a
    /// job.
    fn paced(name: &str) -> Bench {
        Bench::slow(name).with_tls(many_hosts())
    }

    fn slow(name: &str) -> Bench {
        Bench::with(name, "srpt", Pace::of_line("1mbit".parse().unwrap()), |root| root)
    }

    fn with_tls(self, hosts: Vec<String>) -> Bench {
        self.with_tls_logged(hosts, None)
    }

    fn with_tls_logged(mut self, hosts: Vec<String>, log: Option<Arc<Log>>) -> Bench {
        let bench = &mut self;
        let certificate = Some(Certificate::Development(hosts));
        let https = Https { certificate, ..Https::default() };
        let site = SiteConfig { https, ..SiteConfig::alone(bench.folder.clone(), Options::default()) };
        bench.worker.responder.service.handler.serve(open(&[site], true, log).served());
        bench.worker.acceptor.first_mut().is_secure = true;
        self
    }

    /// Returns whether a flight is under way after this turn.
    fn is_in_flight(&self) -> bool {
        self.worker.responder.connections.iter().any(|(_, conn)| conn.channel.is_in_flight)
    }

    fn turn_until_in_flight(&mut self) {
        while !self.is_in_flight() {
            self.turn();
        }
    }
}

fn many_hosts() -> Vec<String> {
    (0..99).map(|number| format!("a-long-name-of-a-host-{number}.example.org")).collect()
}

/// A TLS client that never blocks.
struct Secret {
    stream: TcpStream,
    tls: ClientConnection,
    received: Vec<u8>,
}

impl Secret {
    /// Sends its first flight, and its request once there are keys.
    fn connect(bench: &Bench, config: &Arc<ClientConfig>) -> Secret {
        let stream = TcpStream::connect(bench.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut tls = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost").unwrap()).unwrap();
        tls.writer().write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut client = Secret { stream, tls, received: Vec::new() };
        client.talk();
        client
    }

    /// Sends and receives what it can; returns whether the server has ended the connection.
    fn talk(&mut self) -> bool {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.stream).is_ok() {}
        let mut wire = [0; 4096];
        match self.stream.read(&mut wire) {
            Ok(0) => return true,
            Ok(bytes) => {
                let mut wire = &wire[..bytes];
                while !wire.is_empty() {
                    self.tls.read_tls(&mut wire).unwrap();
                    self.tls.process_new_packets().unwrap();
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        let _ = self.tls.reader().read_to_end(&mut self.received);
        false
    }

    fn has_answer(&self) -> bool {
        self.received.ends_with(FILE)
    }
}

fn config(versions: &[&'static rustls::SupportedProtocolVersion]) -> Arc<ClientConfig> {
    Arc::new(tls::testing::client_config(versions))
}

/// The number of handshaking connections that have sent something.
fn begun(worker: &mut Worker) -> usize {
    let connections = worker.responder.connections.iter();
    connections.filter(|(_, connection)| !connection.session.as_ref().unwrap().is_untouched()).count()
}

/// A flood of handshakes is spread over turns; other connections get their turns in between.
#[test]
fn a_turn_has_few_handshakes() {
    let mut bench = Bench::secured("handshakes");
    bench.admit(64, Limits::default().clients(256));
    let mut clients: Vec<Client> = (0..HANDSHAKES_PER_TURN_MAX + 4).map(|_| bench.connect()).collect();
    // The beginning of a client's first flight.
    clients.iter_mut().for_each(|client| client.stream.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap());
    while bench.worker.responder.connections.len() < clients.len() {
        let before = begun(&mut bench.worker);
        bench.turn();
        assert!(begun(&mut bench.worker) - before <= HANDSHAKES_PER_TURN_MAX);
    }
    for _ in 0..3 {
        bench.turn();
    }
    assert_eq!(begun(&mut bench.worker), clients.len());
}

/// It is not logged: the only line is for the request after it.
#[test]
fn a_long_flight_is_a_job_and_no_response() {
    for (name, versions) in [("flight-1.2", [&TLS12]), ("flight-1.3", [&TLS13])] {
        let bench = Bench::slow(name);
        let (log, path) = (bench._logs.open(&log_in(&bench.folder)).unwrap(), bench.folder.join("log.json"));
        let mut bench = bench.with_tls_logged(many_hosts(), Some(log));
        let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
        let config = config(&versions);
        // The second resumes the session of the first: what it is sent is short, and leaves at once.
        for has_flight in [true, false] {
            let mut client = Secret::connect(&bench, &config);
            let mut was_in_flight = false;
            while !client.has_answer() {
                bench.turn();
                was_in_flight |= bench.is_in_flight();
                assert!(!client.talk(), "the connection ended");
            }
            assert_eq!(was_in_flight, has_flight, "{name}");
            while !bench.worker.responder.connections.is_empty() {
                let _ = client.stream.shutdown(std::net::Shutdown::Both);
                bench.turn();
            }
            let expected = if has_flight { 1 } else { 2 };
            while lines() < expected {
                bench.turn();
            }
            assert_eq!(lines(), expected);
        }
        assert!(bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO));
    }
}

/// The shortest possible flight with a certificate: the link has no room for all of many at once, and those of resumed
/// sessions leave at once.
#[test]
fn a_short_flight_with_a_certificate_is_a_job() {
    let mut bench = Bench::with("flight-short", "srpt", Pace::of_line("1mbit".parse().unwrap()), |root| root)
        .with_tls(vec!["localhost".into()]);
    bench.admit(64, Limits::default().clients(256));
    let config = config(&[&TLS13]);
    for is_full in [true, false] {
        let mut clients: Vec<Secret> = (0..8).map(|_| Secret::connect(&bench, &config)).collect();
        let mut was_in_flight = false;
        while !clients.iter().all(Secret::has_answer) {
            bench.turn();
            was_in_flight |= bench.is_in_flight();
            assert!(!clients.iter_mut().any(Secret::talk), "a connection ended");
        }
        assert_eq!(was_in_flight, is_full);
    }
}

/// Also under a policy that only orders within a turn.
#[test]
fn without_a_pace_a_flight_leaves_at_once() {
    let mut bench =
        Bench::new("flight-off", "srpt").with_tls((0..200).map(|n| format!("host-{n}.example.org")).collect());
    let mut client = Secret::connect(&bench, &config(&[&TLS13]));
    while !client.has_answer() {
        bench.turn();
        assert!(!bench.is_in_flight() && !client.talk());
    }
}

/// A flight leaves nothing behind when its client leaves.
#[test]
fn a_flight_that_nobody_waits_for_is_no_job() {
    let mut bench = Bench::paced("flight-reset");
    let client = Secret::connect(&bench, &config(&[&TLS13]));
    bench.turn_until_in_flight();
    socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    while !bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    assert!(bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO));
}

/// Earlier its client was cut off and had to connect again, which failed if no other process had the socket.
#[test]
fn a_client_in_its_handshake_has_its_answer_from_a_server_that_stops() {
    for versions in [[&TLS12], [&TLS13]] {
        let mut bench = Bench::paced("stop-handshake");
        let mut client = Secret::connect(&bench, &config(&versions));
        bench.turn_until_in_flight();
        assert!(!bench.worker.stop(), "it is owed an answer");
        while !client.talk() {
            bench.turn();
        }
        let received = String::from_utf8_lossy(&client.received);
        assert!(client.has_answer() && received.contains("Connection: close\r\n"), "{received}");
        drop(client);
        while !bench.worker.stop() {
            bench.turn();
        }
    }
}

/// Invalid bytes sent while the flight is under way are handled after it.
#[test]
fn what_comes_during_a_flight_is_heard_behind_it() {
    let mut bench = Bench::paced("flight-early");
    let mut client = Secret::connect(&bench, &config(&[&TLS13]));
    bench.turn_until_in_flight();
    client.stream.write_all(&[0x99; 100]).unwrap();
    let mut wire = Vec::new();
    loop {
        bench.turn();
        let mut some = [0; 4096];
        match client.stream.read(&mut some) {
            Ok(0) => break,
            Ok(bytes) => wire.extend_from_slice(&some[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    assert!(wire.len() > 3_000, "the flight came whole: {} bytes", wire.len());
    assert!(
        bench.worker.responder.connections.is_empty()
            && bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO)
    );
}

/// A client has 10 s, and its flight a minute if it waits for others.
#[test]
fn a_flight_that_waits_for_its_turn_is_not_late() {
    let mut bench = Bench::paced("flight-late");
    let _client = Secret::connect(&bench, &config(&[&TLS13]));
    bench.turn_until_in_flight();
    for (wait, conns) in [(HANDSHAKE_TIMEOUT + Nanos::from_secs(1), 1), (Nanos::from_secs(50), 0)] {
        bench.worker.responder.timers.set(bench.worker.responder.timers.now() + wait);
        let late: Vec<usize> = bench.worker.responder.connections.iter().map(|(at, _)| at).collect();
        late.into_iter().for_each(|at| bench.worker.look_at(at));
        assert_eq!(bench.worker.responder.connections.len(), conns);
    }
    assert!(bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO));
}
