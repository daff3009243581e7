use super::*;
use crate::sites::{Certificate, Https};
use crate::worker::secure::HANDSHAKES_PER_TURN_MAX;

impl Bench {
    /// Its clients speak TLS.
    pub(super) fn secured(name: &str) -> Bench {
        let mut bench = Bench::new(name, "srpt");
        let certificate = Some(Certificate::Development(vec!["localhost".into()]));
        let https = Https { certificate, ..Https::default() };
        let site = SiteConfig { https, ..SiteConfig::alone(bench.folder.clone(), Options::default()) };
        bench.worker.parts.replier.serve(open(&[site], true).served());
        bench.worker.parts.listeners[0].is_secure = true;
        bench
    }
}

/// Connections that have said something in their handshakes.
fn begun(worker: &Worker) -> usize {
    let has_begun = |conn: &&Conn| !crate::transmit::lock(conn.secure.as_ref().unwrap()).is_untouched();
    worker.conns.iter().map(|(_, conn)| conn).filter(has_begun).count()
}

/// A flood of handshakes is spread over turns; others have theirs between.
#[test]
fn a_turn_has_few_handshakes() {
    let mut bench = Bench::secured("handshakes");
    bench.worker.parts.places = Arc::new(Places::new(64, &[Arc::clone(&bench.worker.parts.wake)]));
    let mut clients: Vec<Client> = (0..HANDSHAKES_PER_TURN_MAX + 4).map(|_| bench.connect()).collect();
    // The beginning of a client's first flight.
    clients.iter_mut().for_each(|client| client.stream.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap());
    while bench.worker.conns.len() < clients.len() {
        let before = begun(&bench.worker);
        bench.turn();
        assert!(begun(&bench.worker) - before <= HANDSHAKES_PER_TURN_MAX);
    }
    for _ in 0..3 {
        bench.turn();
    }
    assert_eq!(begun(&bench.worker), clients.len());
}
