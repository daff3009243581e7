//! The programs of a trial: the times of responses, and packets that bypass the bands.

use super::*;

/// Returns the sizes of the responses that ended since the last call.
fn sizes(meter: &Meter) -> Vec<u64> {
    let mut sizes = Vec::new();
    meter
        .read(|Response { begun, ended, bytes }| {
            assert!(begun < ended && ended <= now() && begun + units::Nanos::from_secs(60) > ended);
            sizes.push(bytes);
        })
        .unwrap();
    sizes
}

fn at_tcx(test: impl FnOnce(&Site, Meter) + Send + 'static) {
    with(wanted(Policy::Psjf), |site| match Hook::of_new(&site.interface).unwrap() {
        Hook::Tcx => test(site, Meter::start(&site.interface).unwrap()),
        Hook::Clsact => println!("SKIPPED: this kernel has no TCX"),
    });
}

#[test]
fn each_response_is_measured_once_from_its_request_to_its_end() {
    at_tcx(|site, meter| {
        assert!(is_tried(&site.interface).unwrap());
        let bytes = [500, 50_000, 700].map(|body_bytes| plain(body_bytes).len() as u64);
        let mut pair = Pair::new("127.0.0.1");
        for body_bytes in [500, 50_000, 700] {
            pair.answer(&[&plain(body_bytes)]);
            drained(&pair.server);
        }
        // The last response is not over until something follows it.
        assert_eq!(sizes(&meter), bytes[..2]);
        assert!(meter.acked_bytes().unwrap() >= bytes[2]);
        drop(pair);
        let mut other = Pair::new("::1");
        other.answer(&[&plain(900)]);
        drained(&other.server);
        assert_eq!(sizes(&meter), bytes[2..]);
        // One response is still being sent, and one has ended and was followed by nothing.
        other.answer(&[&[1; 2000]]);
        let mut last = Vec::new();
        let missed = meter.finish(|response| last.push(response.bytes)).unwrap();
        assert_eq!((last[0], missed.lost), (plain(900).len() as u64, 0), "{last:?}");
        assert_eq!(last.len() as u64 + missed.unfinished, 2, "{last:?}");
        assert!(!is_tried(&site.interface).unwrap());
    });
}

/// The second connection is from the same port of the client: no state of the previous connection is left.
#[test]
fn a_connection_with_the_ports_of_an_earlier_one_is_measured_anew() {
    at_tcx(|_, meter| {
        let listener = TcpListener::bind(("127.0.0.1", PORT)).unwrap();
        let bytes = [500, 90_000].map(|body_bytes| plain(body_bytes).len() as u64);
        // One socket for both connections. A process that another test starts holds a copy of every socket for a moment,
        // and the port of a closed socket stays taken for that long.
        let client = bound(("127.0.0.1", 40_000));
        for (nth, body_bytes) in [500, 90_000].into_iter().enumerate() {
            rustix::net::connect(&client, &address(("127.0.0.1", PORT))).unwrap();
            let mut pair = Pair { server: listener.accept().unwrap().0, client: client.try_clone().unwrap() };
            pair.answer(&[&plain(body_bytes)]);
            drained(&pair.server);
            pair.server.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(pair.client.read(&mut [0]).unwrap(), 0);
            // Resets the connection; the socket keeps its port.
            rustix::net::connect_unspec(&client).unwrap();
            assert_eq!(sizes(&meter), [bytes[nth]]);
        }
        assert_eq!(meter.acked_bytes().unwrap(), bytes.iter().sum::<u64>());
    });
}

#[test]
fn without_the_order_packets_pass_the_bands_by() {
    at_tcx(|site, meter| {
        let tree = tree::find(&site.interface).unwrap().unwrap();
        let mut pair = Pair::new("127.0.0.1");
        let in_bands = |pair: &mut Pair| {
            let packets = || tree.stats().unwrap().iter().skip(2).map(|band| band.packets).sum::<u64>();
            let before = packets();
            pair.answer(&[&plain(50_000)]);
            drained(&pair.server);
            packets() - before
        };
        assert!(in_bands(&mut pair) > 0);
        meter.turn(false).unwrap();
        assert_eq!(in_bands(&mut pair), 0);
        meter.turn(true).unwrap();
        assert!(in_bands(&mut pair) > 0);
        meter.turn(false).unwrap();
        // This has the effect of killing the process. A command that another test starts holds copies of the programs
        // for a moment.
        drop(meter);
        let deadline = now() + units::Nanos::from_secs(10);
        while is_tried(&site.interface).unwrap() {
            assert!(now() < deadline, "the trial has not ended with its programs");
        }
        assert!(in_bands(&mut pair) > 0);
    });
}

#[test]
fn there_is_no_trial_without_a_classifier() {
    in_own_network(|| {
        let said = Meter::start(&lo()).map(drop).unwrap_err().to_string();
        assert!(said.starts_with("lo has no classifier at TCX"), "{said}");
    });
}
