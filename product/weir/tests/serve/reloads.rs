//! `weir reload` of every setting that it can change, during requests and responses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use crate::common::{Hosted, content, get, run_to_end, wait_until, whole};
use crate::local_networks::received_meanwhile;

const SMALL: usize = 1 << 10;
const MEDIUM: usize = 64 << 10;
/// A size beyond the buffers of two sockets.
const HUGE: usize = 16 << 20;

impl Hosted {
    /// Replaces the file and reloads it. Returns whether it is used, and the output of `weir reload`.
    fn reload(&self, text: &str) -> (bool, String) {
        self.rewrite(text);
        self.reload_as_it_is()
    }

    fn reload_as_it_is(&self) -> (bool, String) {
        let output = run_to_end(&["reload", "--pid", &self.server.pid().to_string()]);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code() == Some(0), said)
    }

    fn uplink(&self) -> Value {
        let output = run_to_end(&["status", "--json", "--pid", &self.server.pid().to_string()]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["uplink"].clone()
    }
}

#[test]
fn limits_hold_for_what_comes_after_the_reload() {
    let hosted = Hosted::new(&[SMALL], "");
    let mut client = hosted.server.connect();
    assert_eq!(client.get("/size-1024").status, 200);
    let (is_used, said) = hosted.reload("[limits]\nclient_requests = 1\n[timeouts]\nidle = '5s'");
    let file = hosted.site.outside("weir.toml").display().to_string();
    let lines: Vec<&str> = said.lines().collect();
    assert!(is_used && lines.len() == 3, "{said}");
    assert_eq!(lines[0], format!("limits.client_requests 0 → 1 ({file}:2)"));
    assert_eq!(lines[1], format!("timeouts.idle 75s → 5s ({file}:4)"));
    let refused = (0..100).find(|_| client.get("/size-1024").status == 429);
    assert!(refused.is_some(), "one in a second");

    assert!(hosted.reload("[limits]\nclient_connections = 1").0);
    assert_eq!(client.get("/size-1024").status, 200);
    let mut second = hosted.server.connect();
    second.try_send(get("/size-1024"));
    second.assert_gone();
    assert!(hosted.reload("").0);
    assert_eq!(hosted.server.connect().get("/size-1024").status, 200);
}

/// The connections that are open stay on the line.
#[test]
fn a_network_named_anew_is_local_for_new_connections() {
    let hosted = Hosted::new(&[HUGE], "[uplink]\nrate = '1mbit'");
    let path = format!("/size-{HUGE}");
    let mut line = hosted.server.connect();
    line.send(get(&path));
    line.head();
    let (is_used, said) = hosted.reload("[uplink]\nrate = '1mbit'\nlocal_networks = ['127.0.0.0/8']");
    assert!(is_used && said.contains("uplink.local_networks"), "{said}");
    let line_bytes = received_meanwhile(&mut line, &mut hosted.server.connect(), &path, HUGE);
    assert!(line_bytes < HUGE / 4, "{line_bytes} bytes over a line of 1 Mbit/s");
}

#[test]
fn a_rate_told_anew_is_the_pace() {
    let hosted = Hosted::new(&[SMALL, HUGE], "[uplink]\nrate = '8mbit'");
    let mut download = hosted.ask(HUGE);
    download.wait_for_first_byte();
    let before = hosted.uplink();
    let (is_used, said) = hosted.reload("[uplink]\nrate = '600mbit'");
    assert!(is_used && said.starts_with("uplink.rate 8mbit → 600mbit ("), "{said}");
    let after = hosted.uplink();
    assert_ne!(before, after);
    assert!(after.to_string().contains("588"), "98 % of what is told: {after}");
    assert!(download.response().body == content(HUGE));
}

#[test]
fn another_policy_ranks_what_waits() {
    let first = "[uplink]\nrate = '2mbit'\nstarvation_share = '0%'\npolicy = 'fcfs'";
    let hosted = Hosted::new(&[MEDIUM, HUGE], first);
    let mut download = hosted.ask(HUGE);
    download.wait_for_first_byte();
    let mut page = hosted.ask(MEDIUM);
    page.assert_silent();
    let (is_used, said) = hosted.reload(&first.replace("fcfs", "srpt"));
    assert!(is_used && said.starts_with("uplink.policy fcfs → srpt ("), "{said}");
    assert!(page.response().body == content(MEDIUM));
    download.reset();
}

/// A download continues unchanged, and the new file is not used.
#[test]
fn what_cannot_be_changes_nothing() {
    let hosted = Hosted::new(&[SMALL, HUGE], "");
    let mut download = hosted.ask(HUGE);
    download.wait_for_first_byte();
    let right = whole(&hosted.site, "[limits]\nclient_requests = 1");
    let wrong = [
        ("[server]\nuser = 'nobody'\n".to_string(), "server.user "),
        ("[limits]\nclient_requests = 1\n[server]\naccess_log = '/none/of/that/name'".into(), "cannot open access log"),
        ("[limits]\nclient_requests = 1\n[uplink]\nrate = '0mbit'".into(), ":4:8: uplink.rate `0mbit`"),
    ];
    for (text, reason) in wrong {
        let (is_used, said) = hosted.reload(&text);
        assert!(!is_used && said.contains(reason) && said.contains("stays in force"), "{said}");
    }
    // A file that is half written, and one cut off in its first line.
    for bytes in [right.len() / 2, 9] {
        std::fs::write(hosted.site.outside("weir.toml"), &right[..bytes]).unwrap();
        let (is_used, said) = hosted.reload_as_it_is();
        assert!(!is_used && said.contains("stays in force"), "{said}");
    }
    let mut client = hosted.server.connect();
    (0..5).for_each(|_| assert_eq!(client.get("/size-1024").status, 200, "without a limit"));
    assert!(download.response().body == content(HUGE));
}

/// The log and the command name the place of each mistake, as `weir check` does.
#[test]
fn a_refused_reload_names_the_place_of_each_mistake() {
    let hosted = Hosted::new(&[SMALL], "");
    let file = hosted.site.outside("weir.toml").display().to_string();
    let right = whole(&hosted.site, "[server]\naccess_log = '-'");
    let sites = "hosts = ['a']\nerror_root = 'none-of-that-name'\n[[site.error_page]]\nstatus = 404\nfile = '/404.html'\n\
        [[site]]\nhosts = ['b']\nroot = 'none-of-that-name'\n[[site]]\nhosts = ['c']\nroot = '.'\ncert = 'no.pem'\nkey = 'no.key'\n";
    std::fs::write(hosted.site.outside("weir.toml"), format!("{right}{sites}")).unwrap();
    let (is_used, said) = hosted.reload_as_it_is();
    let places = [
        format!("{file}:9:1: error page `"),
        format!("{file}:14:8: cannot serve `"),
        format!("{file}:18:8: cannot read `"),
        format!("{file}:19:7: cannot read `"),
    ];
    for place in places {
        assert!(!is_used && said.contains(&place), "{place}: {said}");
        let is_logged = |line: &String| line.contains(&format!("weir: {place}"));
        wait_until(&place, || hosted.server.stderr().iter().any(is_logged));
    }
    let log_missing = format!("[server]\naccess_log = '{}'", hosted.site.outside("none/a.log").display());
    let (_, said) = hosted.reload(&log_missing);
    assert!(said.contains(&format!("{file}:2:14: server.access_log: cannot open access log")), "{said}");
    assert_eq!(hosted.server.connect().get("/size-1024").status, 200);
}

/// The keys that are reloaded twenty times, each with two values.
const KEYS: &[(&str, &str, &str)] = &[
    ("uplink.rate", "'400mbit'", "'300mbit..500mbit'"),
    ("uplink.policy", "'srpt'", "'fair'"),
    ("uplink.starvation_share", "'1%'", "'5%'"),
    ("uplink.other_traffic_share", "'50%'", "'0%'"),
    ("uplink.client_share", "'on'", "'20MB'"),
    ("uplink.client_weights", "['198.18.0.0/16=2']", "['198.18.0.0/16=3']"),
    ("limits.memory", "'256MiB'", "'300MiB'"),
    ("limits.spool", "'1GB'", "'2GB'"),
    ("limits.head_bytes", "'64KiB'", "'32KiB'"),
    ("limits.head_fields", "200", "100"),
    ("limits.min_request_rate", "500", "600"),
    ("limits.min_send_rate", "500", "400"),
    ("limits.min_send_rate_window", "'30s'", "'40s'"),
    ("limits.client_connections", "100", "200"),
    ("limits.client_requests", "1000000", "900000"),
    ("limits.client_rate", "'900mbit'", "'800mbit'"),
    ("timeouts.idle", "'75s'", "'60s'"),
    ("timeouts.header", "'60s'", "'70s'"),
    ("timeouts.body", "'20s'", "'25s'"),
    ("timeouts.shutdown", "'30s'", "'20s'"),
    ("server.connections", "1000", "900"),
    ("server.trusted_proxies", "['198.18.0.1']", "['198.18.0.2']"),
    ("server.log_format", "'combined'", "'json'"),
    ("server.access_log", "'weir.log'", "'other.log'"),
];

/// Returns all keys, each with its first or second value.
fn of_turn(turn: usize) -> String {
    let lines = KEYS.iter().map(|(key, first, second)| format!("{key} = {}\n", [first, second][turn % 2]));
    lines.collect()
}

#[test]
fn twenty_reloads_of_every_key_lose_no_request() {
    let hosted = Hosted::new(&[SMALL, MEDIUM, HUGE], &of_turn(0));
    let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let download = || assert!(hosted.ask(HUGE).response().body == content(HUGE));
    let on_one_connection = || {
        let mut client = hosted.server.connect();
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(client.get("/size-1024").body, content(SMALL));
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    let on_its_own = || {
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(hosted.server.connect().get("/size-65536").body, content(MEDIUM));
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let clients = [scope.spawn(download), scope.spawn(on_one_connection), scope.spawn(on_its_own)];
        for turn in 1..=20 {
            let before = answered.load(Ordering::Relaxed);
            let (is_used, said) = hosted.reload(&of_turn(turn));
            assert!(is_used, "{said}");
            for (key, ..) in KEYS {
                assert!(said.contains(&format!("{key} ")), "{key}: {said}");
            }
            wait_until("more requests", || answered.load(Ordering::Relaxed) > before + 10);
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    println!("20 reloads, {} requests answered, 0 failed, 0 refused", answered.load(Ordering::Relaxed));
    hosted.server.assert_alive();
}

#[test]
fn a_page_around_listings_is_read_again_and_a_wrong_one_changes_nothing() {
    let hosted = Hosted::new(&[SMALL], "");
    let listing_at = |page: &str| {
        hosted.site.write(".listing.html", page.as_bytes());
        let text = whole(&hosted.site, "") + "autoindex = true\nlisting_page = '/.listing.html'\n";
        std::fs::write(hosted.site.outside("weir.toml"), text).unwrap();
        let (is_used, said) = hosted.reload_as_it_is();
        let mut client = hosted.server.connect();
        assert_eq!(client.get("/.listing.html").status, 404, "it is hidden");
        (is_used, said, client.get("/").text().to_string())
    };
    let (is_used, said, listed) = listing_at("<title>Index of {{path}}</title>\n{{listing}}<p>end");
    assert!(
        is_used && listed.starts_with("<title>Index of /</title>\n<table>") && listed.ends_with("<p>end"),
        "{said}"
    );
    assert!(listed.contains("<a href=\"size-1024\">size-1024</a>"), "{listed}");
    let (is_used, said, listed) = listing_at("{{listing}}other");
    assert!(is_used && listed.starts_with("<table>") && listed.ends_with("other"), "{said}{listed}");
    let (is_used, said, same) = listing_at("\n{{listnig}}");
    assert!(!is_used && said.contains(".listing.html:2`: unknown mark {{listnig}}; expected {{listing}}"), "{said}");
    assert_eq!(same, listed);
}
