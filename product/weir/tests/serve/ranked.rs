//! Responses told to the classifier, and ordered by the ranked queue: on kernels that have queueing disciplines in BPF.

use uplink::tree::{self, Kind, Plan};
use uplink::{Interface, classify};

use crate::common::{Cable, SERVER, Server, Site, content, get, run_to_end};

/// A cable with a ranked queue at the server's end and a classifier for its port; `None` where that cannot be.
fn ranked(rate: &str) -> Option<Cable> {
    let cable = Cable::lay()?;
    let made = cable.at_server(|| {
        let interface = Interface::by_name("uplink").unwrap();
        tree::up(&interface, &Plan::new(Kind::Ranked, rate.parse().unwrap()), false)
    });
    if let Err(error) = made {
        assert!(error.is_missing(), "{error}");
        println!("SKIPPED: {error}");
        return None;
    }
    let attach = ["attach", "uplink", "--port", "80", "--policy", "srpt", "--no-watch"];
    let output = cable.at_server(|| run_to_end(&attach));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(cable)
}

#[test]
fn every_response_is_told_and_the_smaller_overtakes() {
    const LARGE: usize = 400_000;
    const SMALL: usize = 30_000;
    let Some(cable) = ranked("2mbit") else { return };
    let site = Site::of_sizes(&[LARGE, SMALL]);
    let unprivileged = ["--shaping", "ranked", "--user", "65534", "--group", "65534"];
    for args in [&["--shaping", "ranked"][..], &["--shaping", "auto"], &unprivileged] {
        let told = sizes_told(&cable);
        let server = cable.at_server(|| Server::start_at(SERVER, &site, args));
        assert!(server.stdout()[0].contains("(shaping ranked, policy srpt: "), "{:?}", server.stdout());
        let connect = || cable.at_client(|| crate::common::Client::connect(cable.address()));
        let (mut large, mut small) = (connect(), connect());
        large.send(get(&format!("/size-{LARGE}")));
        large.wait_for_first_byte();
        let large = std::thread::spawn(move || large.response().body);
        // A connection tells its responses one by one.
        for _ in 0..3 {
            assert!(small.get(&format!("/size-{SMALL}")).body == content(SMALL));
        }
        assert!(!large.is_finished(), "the large one came first");
        assert!(large.join().unwrap() == content(LARGE));
        assert_eq!(sizes_told(&cable) - told, 4);
        server.assert_alive();
    }
}

fn sizes_told(cable: &Cable) -> u64 {
    let attached = cable.at_server(|| classify::find(&Interface::by_name("uplink").unwrap()).unwrap().unwrap());
    assert_eq!(attached.counters.sizes_read, 0, "{:?}", attached.counters);
    attached.counters.sizes_told
}

#[test]
fn a_classifier_of_something_else_is_told() {
    let Some(cable) = ranked("2mbit") else { return };
    let site = Site::new();
    let dir = site.served().display().to_string();
    for (args, said) in [
        (
            &["--listen", "198.18.60.1:81"][..],
            "uplink has a classifier for other ports; run `weir attach uplink --port 81",
        ),
        (
            &["--listen", SERVER, "--policy", "las"],
            "uplink has a classifier with another policy; run `weir attach uplink",
        ),
    ] {
        let args = [&["serve", &dir, "--shaping", "ranked"], args].concat();
        let output = cable.at_server(|| run_to_end(&args));
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains(said) && told.lines().count() == 1, "{told}");
    }
    let detached = cable.at_server(|| run_to_end(&["attach", "--detach", "uplink"]));
    assert!(detached.status.success());
    // What is not set up is not taken, but its rate is known.
    let server = cable.at_server(|| Server::start_at(SERVER, &site, &[]));
    assert!(server.stdout()[0].contains("(shaping paced at 98 % of 2mbit, policy srpt: rate of the ranked queue"));
}
