//! Clients that have sent part of a request, when places are short: such a connection used to be taken for idle, and
//! closed for a newcomer.

use http2::testing::{hello, request, wide};

use super::over_http2::Asking;
use super::*;

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

impl Bench {
    /// Checks that its only connection is not idle and has a minute for the rest of its request, and is idle after
    /// that.
    fn check_part(&mut self, send_rest: impl FnOnce()) {
        (0..20).for_each(|_| self.turn());
        let limits = &self.worker.responder.limits;
        let (_, conn) = self.worker.responder.connections.iter().next().unwrap();
        assert!(!conn.is_idle() && conn.deadline() <= self.worker.responder.timers.client_now() + limits.head_timeout);
        assert!(!self.worker.responder.give_up_idle(Nanos::ZERO), "half a request is here");
        let answered = |bench: &Bench| {
            bench.worker.responder.connections.iter().all(|(_, conn)| conn.has_answered && conn.is_idle())
        };
        send_rest();
        while !answered(self) {
            self.turn();
        }
        while !self.worker.responder.give_up_idle(Nanos::ZERO) {
            self.turn();
        }
        assert!(self.worker.responder.connections.is_empty());
    }
}

#[test]
fn a_part_of_a_record_is_not_idle() {
    for (protocol, said) in [("http/1.1", REQUEST.to_vec()), ("h2", [hello(), wide(), request(1, "/a", &[])].concat())]
    {
        let mut bench = Bench::secured("part-record");
        let mut client = Asking::over(&mut bench, protocol, &said);
        let mut record = Vec::new();
        client.tls.write_tls(&mut record).unwrap();
        let (first, rest) = record.split_at(record.len() / 2);
        client.stream.write_all(first).unwrap();
        bench.check_part(|| client.stream.write_all(rest).unwrap());
    }
}

#[test]
fn a_part_of_a_header_block_is_not_idle() {
    for kept_bytes in [1, 5, 12] {
        let mut bench = Bench::new("part-headers", "srpt");
        let mut stream = TcpStream::connect(bench.address).unwrap();
        let said = [hello(), wide(), request(1, "/a", &[])].concat();
        let (first, rest) = said.split_at(said.len() - kept_bytes);
        stream.write_all(first).unwrap();
        bench.check_part(|| stream.write_all(rest).unwrap());
    }
}

/// It has no more time than the head of an HTTP/1.1 request.
#[test]
fn a_part_has_its_time() {
    let mut bench = Bench::new("part-late", "srpt");
    let mut stream = TcpStream::connect(bench.address).unwrap();
    stream.write_all(&[hello(), wide(), request(1, "/a", &[])].concat()).unwrap();
    let is_answered =
        |bench: &Bench| bench.worker.responder.connections.iter().any(|(_, conn)| conn.has_answered && conn.is_idle());
    while !is_answered(&bench) {
        bench.turn();
    }
    let next = request(3, "/a", &[]);
    stream.write_all(&next[..next.len() - 1]).unwrap();
    while is_answered(&bench) {
        bench.turn();
    }
    let head_timeout = bench.worker.responder.limits.head_timeout;
    let (_, conn) = bench.worker.responder.connections.iter().next().unwrap();
    assert!(conn.deadline() <= bench.worker.responder.timers.client_now() + head_timeout);
    bench.worker.responder.timers.set_to(conn.deadline());
    bench.worker.sweep();
    let (_, conn) = bench.worker.responder.connections.iter().next().unwrap();
    assert!(conn.is_lingering());
}

/// Acknowledgements of a body in small parts were charged when its connection ended, all at once: every response of
/// others waited until the link would have carried them.
#[test]
fn acknowledgements_are_charged_as_they_leave() {
    const PARTS: usize = 400;
    const PACKETS_BYTES_MAX: u64 = 2 * 1514;
    let pace = Pace { rate: units::Rate::from_bits_per_s(10_000_000), ..Pace::UNLIMITED };
    let mut bench = Bench::with("acknowledged", "srpt", pace, |root| root);
    let charged = |bench: &Bench| bench.worker.responder.transmitter.link.scheduler().pacer().ledger().charged_bytes();
    let mut client = bench.connect();
    client.stream.set_nodelay(true).unwrap();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nX: ");
    for _ in 0..PARTS {
        client.send("x");
        bench.turn();
    }
    let before_end = charged(&bench);
    drop(client);
    while !bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    let at_end = charged(&bench) - before_end;
    assert!(before_end > PACKETS_BYTES_MAX && at_end <= PACKETS_BYTES_MAX, "{before_end}, then {at_end} bytes");
}
