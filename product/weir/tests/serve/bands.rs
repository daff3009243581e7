//! Responses in the bands of a tree on a real interface: the kernel counts the packets of each band.

use std::process::Output;

use uplink::tree::{self, CONTROL_BAND, DATA_BAND_FIRST, Kind, OTHER_BAND, Plan, Tree};
use uplink::{Counted, Interface};

use crate::common::{Cable, Client, SERVER, Server, Site, content, get, in_virtual_time, run_to_end, run_to_end_under};

/// A packet without data, including its Ethernet header and TCP's options.
const EMPTY_PACKET_BYTES: u64 = 100;

/// A cable with a tree of bands at the server's end.
struct Bench {
    cable: Cable,
    tree: Tree,
}

impl Bench {
    fn new(rate: &str) -> Option<Bench> {
        let cable = Cable::lay()?;
        let tree = cable.at_server(|| {
            let interface = Interface::by_name("uplink").unwrap();
            tree::up(&interface, &Plan::new(Kind::Htb, rate.parse().unwrap()), false).unwrap();
            tree::find(&interface).unwrap().unwrap()
        });
        Some(Bench { cable, tree })
    }

    fn start(&self, site: &Site, args: &[&str]) -> Server {
        self.cable.at_server(|| Server::start_at(SERVER, site, args))
    }

    fn connect(&self) -> Client {
        self.cable.at_client(|| Client::connect(self.cable.address()))
    }

    fn assert_told(&self, args: &[&str], status: i32, said: &str) {
        assert_told(&self.cable.at_server(|| run_to_end(args)), status, said);
    }

    /// The bytes that each band has sent.
    fn sent(&self) -> Vec<Counted> {
        self.cable.at_server(|| self.tree.stats().unwrap())
    }

    /// The bytes that the nth band for responses has sent, including headers.
    fn data(&self, nth: u8) -> u64 {
        self.sent()[usize::from(DATA_BAND_FIRST + nth)].bytes
    }
}

fn assert_told(output: &Output, status: i32, said: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(status) && told.contains(said), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

fn assert_carries_no_data(band: &Counted) {
    assert!(band.bytes <= band.packets * EMPTY_PACKET_BYTES, "{band:?}");
}

#[test]
fn every_response_is_in_its_band() {
    let Some(bench) = Bench::new("50mbit") else { return };
    let sizes = [1_000, 300_000];
    let site = Site::of_sizes(&sizes);
    // By the initial size: the end of a response is in the same band as its beginning.
    let args = ["--shaping", "bands", "--policy", "quick-fix:20KB"];
    let server = bench.start(&site, &args);
    for (nth, size) in sizes.into_iter().enumerate() {
        assert!(bench.connect().get(&format!("/size-{size}")).body == content(size));
        let size = size as u64;
        let (data, band) = (bench.data(nth as u8), nth + usize::from(DATA_BAND_FIRST));
        assert!(
            (size..size + size / 10 + 1_000).contains(&data),
            "{data} bytes of a response of {size} in band {band}"
        );
    }
    let sent = bench.sent();
    // At least one SYN-ACK for each connection.
    assert!(sent[usize::from(CONTROL_BAND)].packets >= sizes.len() as u64, "{sent:?}");
    assert_carries_no_data(&sent[usize::from(CONTROL_BAND)]);
    assert_carries_no_data(&sent[usize::from(OTHER_BAND)]);
    let unused = &sent[usize::from(DATA_BAND_FIRST) + sizes.len()..];
    assert!(unused.iter().all(|band| band.packets == 0), "{sent:?}");
    server.assert_alive();
}

/// The server keeps only root's privilege to mark packets, and reports that.
#[test]
fn a_user_without_privileges_marks_packets_too() {
    let Some(bench) = Bench::new("50mbit") else { return };
    let site = Site::of_sizes(&[1_000, 300_000]);
    let args = ["--shaping", "bands", "--policy", "quick-fix:20KB", "--user", "65534"];
    let server = bench.start(&site, &[&args[..], &["--group", "65534"]].concat());
    assert!(bench.connect().get("/size-1000").body == content(1_000));
    assert!(bench.connect().get("/size-300000").body == content(300_000));
    assert!((1_000..3_000).contains(&bench.data(0)) && bench.data(1) >= 300_000, "{:?}", bench.sent());
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    for line in ["Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000001000", "CapPrm:\t0000000000001000"] {
        assert!(status.contains(line), "{status}");
    }
    assert!(server.stdout()[0].contains(" with CAP_NET_ADMIN, to mark packets"), "{:?}", server.stdout());
}

/// The next response on a connection has its own band, better or worse.
#[test]
fn a_connection_changes_bands_between_responses() {
    let Some(bench) = Bench::new("50mbit") else { return };
    let site = Site::of_sizes(&[1_000, 300_000]);
    let server = bench.start(&site, &["--shaping", "bands", "--policy", "quick-fix:20KB"]);
    let mut client = bench.connect();
    for _ in 0..3 {
        for size in [300_000, 1_000] {
            assert!(client.get(&format!("/size-{size}")).body == content(size));
        }
    }
    assert!((3_000..10_000).contains(&bench.data(0)), "{:?}", bench.sent());
    assert!(bench.data(1) >= 900_000, "{:?}", bench.sent());
    server.assert_alive();
}

/// Two connections are written to without end (000 section 3.2). Of the packets that leave while both exist, at least
/// 96 of 100 belong to the better one; the band of the other is guaranteed 2.
#[test]
fn the_better_of_two_floods_has_the_link() {
    if in_virtual_time(the_better_of_two_floods_has_the_link) {
        return;
    }
    const WORSE: usize = 450_000;
    const BETTER: usize = 400_000;
    // So slow that the server provides the next bytes in time however busy the machine is: 48 ms.
    let Some(bench) = Bench::new("1mbit") else { return };
    let site = Site::of_sizes(&[WORSE, BETTER]);
    let server = bench.start(&site, &["--shaping", "bands", "--policy", "quick-fix:420KB"]);
    let (mut worse, mut better) = (bench.connect(), bench.connect());
    worse.send(get(&format!("/size-{WORSE}")));
    // Read in another thread, so that the reader does not delay it.
    let worse = std::thread::spawn(move || worse.response());
    better.send(get(&format!("/size-{BETTER}")));
    // Both ends of the count lie inside it, so that no packet before or after is counted.
    better.head();
    let before = bench.sent();
    let mut body = better.body(BETTER * 9 / 10);
    let after = bench.sent();
    body.extend(better.body(BETTER - body.len()));
    assert!(body == content(BETTER));
    let packets = |nth: u8| {
        let band = usize::from(DATA_BAND_FIRST + nth);
        after[band].packets - before[band].packets
    };
    let (better, other) = (packets(0), packets(1));
    assert!(
        better > 200 && other * 100 <= 4 * (better + other),
        "{better} packets of the better and {other} of the other"
    );
    assert!(worse.join().unwrap().body == content(WORSE));
    server.assert_alive();
}

/// A flow that is promoted while its packets wait in the worse band would overtake them, and TCP would detect that.
#[test]
fn a_promoted_flow_does_not_overtake_itself() {
    if in_virtual_time(a_promoted_flow_does_not_overtake_itself) {
        return;
    }
    // An emulated machine counts up to 3 itself, because its cable queues packets at the processor that sends them, and
    // 19 to 29 if a flow overtakes itself; others count 0 and hundreds.
    const REORDERINGS: u64 = 8;
    let Some(bench) = Bench::new("10mbit") else { return };
    let site = Site::of_sizes(&[100_000, 20_000]);
    let server = bench.start(&site, &["--shaping", "bands", "--policy", "srpt-bands:5KB,10KB,20KB,50KB"]);
    let clients: Vec<_> = (0..8).map(|_| bench.connect()).collect();
    let clients: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                for size in [100_000, 20_000, 20_000] {
                    assert!(client.get(&format!("/size-{size}")).body == content(size));
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let reordered = bench.cable.at_server(reorderings);
    assert!(reordered < REORDERINGS, "{reordered}");
    server.assert_alive();
}

/// The number of reorderings that TCP has seen on this host.
fn reorderings() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let counted = names.split(' ').zip(values.split(' '));
    counted.filter(|(name, _)| name.ends_with("Reorder")).map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

/// A server that paces above a tree uses its rate and one band, which is not the band of unknown traffic.
#[test]
fn paced_goes_through_one_band() {
    let Some(bench) = Bench::new("20mbit") else { return };
    let site = Site::of_sizes(&[1_000, 300_000]);
    for args in [&["--shaping", "paced"][..], &[], &["--uplink", "10mbit"]] {
        let server = bench.start(&site, args);
        let rate = if args == ["--uplink", "10mbit"] { "98 % of 10mbit" } else { "20mbit" };
        assert!(server.stdout()[0].contains(&format!("(shaping paced at {rate}, ")), "{:?}", server.stdout());
        let before = bench.data(0);
        for size in [300_000, 1_000] {
            assert!(bench.connect().get(&format!("/size-{size}")).body == content(size));
        }
        assert!(bench.data(0) - before >= 301_000);
        let sent = bench.sent();
        assert_carries_no_data(&sent[usize::from(CONTROL_BAND)]);
        assert_carries_no_data(&sent[usize::from(OTHER_BAND)]);
        assert_eq!(sent[usize::from(DATA_BAND_FIRST) + 1..].iter().map(|band| band.packets).sum::<u64>(), 0);
    }
}

#[test]
fn what_does_not_fit_is_told() {
    let Some(bench) = Bench::new("20mbit") else { return };
    let site = Site::new();
    let dir = site.served().display().to_string();
    for (policy, status, said) in [
        ("fsp", 2, "policy `fsp` has no bands; expected one of srpt, "),
        ("srpt-bands:16", 2, "policy `srpt-bands:16` has 16 bands; uplink has "),
    ] {
        let args = ["serve", &dir, "--listen", SERVER, "--shaping", "bands", "--policy", policy];
        bench.assert_told(&args, status, said);
    }
}

/// Marking is refused without the privilege; a server that does not need it runs without it.
#[test]
fn without_privilege_it_is_said_at_the_start() {
    let Some(bench) = Bench::new("20mbit") else { return };
    let site = Site::of_sizes(&[1_000]);
    let dir = site.served().display().to_string();
    // Not even root may, in a process that has given these privileges up.
    let without = ["setpriv", "--bounding-set", "-net_admin,-net_raw", "--inh-caps", "-net_admin,-net_raw"];
    let bands = ["serve", &dir, "--listen", SERVER, "--shaping", "bands"];
    let output = bench.cable.at_server(|| run_to_end_under(&without, &bands));
    assert_told(&output, 1, "--shaping bands: marking packets needs CAP_NET_ADMIN");
    let server = bench.cable.at_server(|| Server::start_under(&without, SERVER, &site, &[]));
    assert!(server.stdout()[0].contains("(shaping paced at 20mbit, "), "{:?}", server.stdout());
    assert_eq!(bench.connect().get("/size-1000").body.len(), 1_000);
    assert!(bench.sent()[usize::from(OTHER_BAND)].bytes >= 1_000);
}

/// A server and a classifier would both mark the same packets, and the classifier would override the server.
#[test]
fn a_classifier_that_sorts_them_already_is_told() {
    let Some(bench) = Bench::new("20mbit") else { return };
    let site = Site::of_sizes(&[1_000]);
    let dir = site.served().display().to_string();
    let attach = ["attach", "uplink", "--port", "80", "--policy", "srpt", "--no-watch"];
    let output = bench.cable.at_server(|| run_to_end(&attach));
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(why.contains("clang") || why.contains("BPF"), "{why}");
        return println!("SKIPPED: {why}");
    }
    bench.assert_told(&["serve", &dir, "--listen", SERVER, "--shaping", "bands"], 1, "already sorts port 80 on uplink");
}

/// HTTP/3 would not be ordered there, so it is not advertised.
#[test]
fn there_is_no_http3_where_the_kernel_orders() {
    let Some(bench) = Bench::new("50mbit") else { return };
    let site = Site::of_sizes(&[10]);
    for (shaping, is_off) in
        [(&["--shaping", "bands"][..], true), (&["--shaping", "paced", "--uplink", "50mbit"], false)]
    {
        let server = bench.start(&site, &[shaping, &["--tls-self-signed"]].concat());
        let first = &server.stdout()[0];
        assert_eq!(first.contains("; HTTP/3 off: with bands it would have no order"), is_off, "{first}");
        let taken = bench.cable.at_server(|| std::net::UdpSocket::bind(SERVER).is_err());
        assert_eq!(taken, !is_off);
    }
}
