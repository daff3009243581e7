//! Clients that hold memory and do not read, and one that does.

use http2::testing::{CONTINUATION, HEADERS, SETTINGS, block, frame, hello, request};

use super::pauses::PROXIED;
use super::*;
use crate::event_loop::shortage::STALLED_LOOKS;

const STREAMS: u32 = 20;

impl Bench {
    /// A client that has requested much, and reads nothing of it.
    fn stall(&mut self, streams: u32) -> Client {
        let shut = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let requests = (0..streams).flat_map(|at| request(2 * at + 1, "/a", &[]));
        let said: Vec<u8> = http2::PREFACE.iter().copied().chain(shut).chain(requests).collect();
        let mut client = self.connect();
        let before = self.worker.responder.connections.streams();
        client.stream.write_all(&said).unwrap();
        while self.worker.responder.connections.streams() < before + streams as usize {
            self.turn();
        }
        client
    }

    /// Runs this many sweeps, as after as many seconds.
    fn sweeps(&mut self, count: u8) {
        for _ in 0..count {
            self.worker.responder.timers.hasten_sweep();
            self.turn();
        }
    }

    fn has_room_for(&mut self, bytes: u64) {
        self.worker.responder.service.admission.memory().set_bytes_max(bytes);
    }

    /// Checks the counted memory against the memory in use.
    fn check_held(&mut self) {
        self.worker.check_memory().unwrap();
    }
}

#[test]
fn near_the_budget_the_costliest_stalled_connection_ends_and_no_other() {
    let mut bench = Bench::new("shortage", "srpt");
    let mut honest = bench.connect();
    // It is not idle.
    honest.send(&[HEAD, &HEAD[..9]].concat());
    bench.turn_until(&mut honest, 1);
    let _small = bench.stall(2);
    let _large = bench.stall(STREAMS);
    bench.check_held();
    let held_bytes = bench.worker.responder.connections.account().bytes();
    // Nearly used up, without room for another connection.
    bench.has_room_for(held_bytes * 10 / 9 - (1 << 10));
    let mut newcomer = bench.connect();
    newcomer.send(HEAD);
    bench.sweeps(1);
    assert_eq!(
        (bench.worker.responder.connections.streams(), newcomer.responses()),
        (2 + STREAMS as usize, 0),
        "not yet"
    );
    bench.sweeps(STALLED_LOOKS);
    while bench.worker.responder.connections.streams() > 2 {
        bench.turn();
    }
    bench.check_held();
    honest.send(&HEAD[9..]);
    bench.turn_until(&mut honest, 2);
    bench.turn_until(&mut newcomer, 1);
    assert_eq!(bench.worker.responder.connections.streams(), 2, "the costliest was enough");
}

#[test]
fn when_all_is_used_those_that_do_not_read_end_at_once() {
    let mut bench = Bench::new("shortage-full", "srpt");
    let _stalled = bench.stall(STREAMS);
    bench.has_room_for(bench.worker.responder.connections.account().bytes());
    while bench.worker.responder.connections.streams() > 0 {
        bench.turn();
    }
    bench.check_held();
}

/// Heads of 60 KB that never end: without a bound a thousand of them are 60 MB.
#[test]
fn when_all_is_used_heads_that_are_not_whole_end_the_largest_first() {
    let mut bench = Bench::new("shortage-heads", "srpt");
    let part = |bytes: usize| format!("GET /a HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(bytes));
    let begin = |bench: &mut Bench, bytes: usize| {
        let mut client = bench.connect();
        let before = bench.worker.responder.connections.account().bytes();
        client.send(&part(bytes));
        while bench.worker.responder.connections.account().bytes() < before + bytes as u64 {
            bench.turn();
        }
        client
    };
    let mut small = begin(&mut bench, 1_000);
    let _large: Vec<Client> = (0..3).map(|nth| begin(&mut bench, 30_000 + nth)).collect();
    bench.check_held();
    let held_bytes = bench.worker.responder.connections.account().bytes();
    bench.has_room_for(held_bytes);
    while bench.worker.responder.connections.len() == 4 {
        bench.turn();
    }
    bench.check_held();
    assert!(bench.worker.responder.connections.account().bytes() < held_bytes);
    small.send("\r\n\r\n");
    bench.turn_until(&mut small, 1);
}

/// The seconds in which a newcomer is let in although others hold the memory.
const NEWCOMER_SECONDS: u8 = 5;
/// The connections of the client that holds it.
const HOLDERS: usize = 8;

impl Bench {
    /// Makes clients hold bytes, then lets a new client arrive, and checks that it is served in time.
    fn let_newcomer_in(&mut self, said: &[u8], held_bytes_min: u64) {
        let account = self.worker.responder.connections.account().clone();
        let mut holders = Vec::new();
        for _ in 0..HOLDERS {
            let (mut client, before) = (self.connect(), account.bytes());
            client.stream.write_all(said).unwrap();
            while account.bytes() < before + held_bytes_min {
                self.turn();
            }
            holders.push(client);
        }
        self.check_held();
        let bytes_max = account.bytes() * 10 / 9 - (1 << 10);
        self.has_room_for(bytes_max);
        // The newcomer speaks no TLS, whatever the others do.
        self.worker.acceptor.first_mut().is_secure = false;
        let mut newcomer = self.connect();
        newcomer.send(HEAD);
        for _ in 0..NEWCOMER_SECONDS {
            self.sweeps(1);
            assert!(account.bytes() <= bytes_max);
        }
        for _ in 0..500 {
            self.turn();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(newcomer.responses(), 1, "it is not let in");
        let left = self.worker.responder.connections.len();
        assert!((2..=HOLDERS).contains(&left), "{left} connections are left: no more ended than had to");
        self.check_held();
    }
}

#[test]
fn uploads_that_nobody_takes_make_way_for_a_newcomer() {
    let mut bench = Bench::receiving("shortage-uploads");
    let head = format!("POST {PROXIED} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    bench.let_newcomer_in(&[head.as_bytes(), &[b'x'; 60_000]].concat(), 60_000);
}

#[test]
fn requests_behind_one_that_waits_for_its_upstream_make_way_for_a_newcomer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut bench = Bench::proxying("shortage-pipelined", &silent.local_addr().unwrap().to_string());
    let head = format!("GET {PROXIED} HTTP/1.1\r\nHost: a\r\n\r\n");
    bench.let_newcomer_in((head + &HEAD.repeat(1_500)).as_bytes(), 30_000);
}

/// Heads in a HEADERS frame and CONTINUATION frames, of which the last is to come.
#[test]
fn header_blocks_that_are_not_whole_make_way_for_a_newcomer() {
    let mut bench = Bench::new("shortage-blocks", "srpt");
    let field = |name: u8| [&[0, 1, name, 127, 0x99, 0x74][..], &[b'y'; 15_000]].concat();
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a")];
    let begun = [
        hello(),
        frame(HEADERS, 0, 1, &[block(&fields), field(b'a')].concat()),
        frame(CONTINUATION, 0, 1, &field(b'b')),
    ]
    .concat();
    bench.let_newcomer_in(&begun, 30_000);
}

/// One handshake message in several records, of which the last is to come.
#[test]
fn hellos_that_are_not_whole_make_way_for_a_newcomer_and_long_ones_end() {
    let mut bench = Bench::secured("shortage-hellos");
    let record = |content: &[u8]| [&[0x16, 3, 1][..], &(content.len() as u16).to_be_bytes(), content].concat();
    let begin = [&[1, 0, 0xfd, 0xe8][..], &[b'z'; 15_996]].concat();
    let mut long = bench.connect();
    long.stream.write_all(&[record(&begin), record(&[b'z'; 16_000]), record(&[b'z'; 16_000])].concat()).unwrap();
    long.stream.set_nonblocking(true).unwrap();
    while long.stream.read(&mut [0; 100]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
        bench.turn();
    }
    assert!(bench.worker.responder.connections.is_empty(), "a hello of 48 KB");
    bench.let_newcomer_in(&record(&begin), 25_000);
}
