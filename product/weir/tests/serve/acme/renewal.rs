//! Renewals, suggested by the authority and caused by a clock that is moved.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustix::process::Signal;

use super::{said, serve, serve_under, site, state};
use crate::common::pebble::{Pebble, Settings};
use crate::common::{PATIENCE, Server, wait_until};

/// The requests of all clients together, and the requests of one connection.
const REQUESTS: usize = 10_000;
const PER_CONNECTION: usize = 25;
const CLIENTS: usize = 4;

fn times_said(server: &Server, part: &str) -> usize {
    server.stderr().iter().filter(|line| line.contains(part)).count()
}

const IN_FORCE: &str = "a certificate for a.test is in force";

/// Each request is answered, on connections from before, during and after.
#[test]
fn no_request_fails_while_a_certificate_is_renewed() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let server = serve(&site, &pebble, &state(&site), &["a.test"], &["--client-connections", "0"]);
    said(&server, IN_FORCE);
    let (trust, sent) = (pebble.trust(), AtomicUsize::new(0));
    let mut old = trust.connect(pebble.tls, "a.test");
    assert_eq!(old.get("/a.txt").1, b"files of the site");
    let leaf = |client: &crate::common::tls::TlsClient| client.stream.conn.peer_certificates().unwrap()[0].to_vec();
    let (before, since) = (leaf(&old), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while sent.load(Ordering::Relaxed) < REQUESTS || times_said(&server, IN_FORCE) < 2 {
                    assert!(since.elapsed() < 2 * PATIENCE, "no renewal: {:#?}", server.stderr());
                    let mut client = trust.connect(pebble.tls, "a.test");
                    for _ in 0..PER_CONNECTION {
                        assert_eq!(client.get("/a.txt").1, b"files of the site");
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        wait_until("some requests", || sent.load(Ordering::Relaxed) > REQUESTS / 10);
        pebble.wants_renewed(&state(&site).join("acme/a.test.pem"));
        server.signal(Signal::HUP);
    });
    println!("{} requests, {:?}", sent.into_inner(), server.stderr());
    assert_eq!(old.get("/a.txt").1, b"files of the site", "a connection from before");
    // A client that resumes no session gets the certificate.
    let mut new = pebble.trust().connect(pebble.tls, "a.test");
    assert_eq!(new.get("/a.txt").1, b"files of the site");
    assert_ne!(leaf(&new), before);
    server.assert_alive();
}

/// While the server runs its clock is moved forward by eight days: a certificate of ten days is renewed.
#[test]
fn a_clock_that_goes_ahead_is_noticed() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    if !std::path::Path::new(library).exists() {
        return println!("SKIPPED: there is no libfaketime (package faketime)");
    }
    let site = site();
    let Some(mut pebble) = Pebble::start(&site, &Settings { validity_s: 10 * 86_400, ..Settings::default() }) else {
        return;
    };
    let state = state(&site);
    std::fs::create_dir_all(state.join("acme")).unwrap();
    // In a folder that the sandbox lets the server read.
    let clock = state.join("acme/clock");
    std::fs::write(&clock, "+0d\n").unwrap();
    let [preload, file] = [format!("LD_PRELOAD={library}"), format!("FAKETIME_TIMESTAMP_FILE={}", clock.display())];
    let under = ["env", &preload, &file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"];
    let server = serve_under(&under, &site, &pebble, (&state, &["a.test"]), &[]);
    said(&server, "a certificate for a.test is in force, for 9 days");
    // The authority has forgotten the account.
    pebble.stop();
    pebble.change(Settings::default());
    pebble.start_again();
    std::fs::write(&clock, "+8d\n").unwrap();
    said(&server, "a certificate for a.test is in force, for 81 days");
    server.assert_alive();
}
