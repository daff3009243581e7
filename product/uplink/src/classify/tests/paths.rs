//! Differences between the server's socket and the packet: rewritten ports, extension headers, another network.

use std::process::Command;
use std::sync::mpsc;

use super::*;
use crate::follow::Waits;
use crate::testing::skip;

/// The port of the server whose clients connect to [`PORT`].
const REDIRECTED: u16 = 8080;

/// Adds nft chains, each with its rule. Without nft, reports the test as skipped and returns false.
fn with_rules(rules: &[(&str, &str)]) -> bool {
    if Command::new("nft").arg("--version").output().is_err() {
        skip("nft is missing; run scripts/setup.sh test");
        return false;
    }
    run("nft add table ip weir");
    for (nth, (chain, rule)) in rules.iter().enumerate() {
        run(&format!("nft add chain ip weir to{nth} {{ {chain} ; }}"));
        run(&format!("nft add rule ip weir to{nth} {rule}"));
    }
    true
}

#[test]
fn behind_a_redirected_port_the_socket_is_found() {
    with(wanted(Policy::Psjf), |site| {
        let redirect = format!("tcp dport {PORT} redirect to :{REDIRECTED}");
        if !with_rules(&[("type nat hook output priority -100", &redirect)]) {
            return;
        }
        let listener = TcpListener::bind(("127.0.0.1", REDIRECTED)).unwrap();
        let client = connect(("127.0.0.1", 0), ("127.0.0.1", PORT));
        let mut pair = Pair { server: listener.accept().unwrap().0, client };
        for (body_bytes, band) in [(500, 2), (50_000, 3), (500, 2)] {
            let counted = site.during(|| pair.answer(&[&plain(body_bytes)]));
            assert_eq!((bands(&counted), counted.sizes_read, counted.by_flow), (vec![band], 1, 0), "{body_bytes}");
            drained(&pair.server);
        }
    });
}

/// Only the address that clients see is rewritten: the connection is still one of this host.
#[test]
fn behind_a_rewritten_address_the_socket_is_found() {
    with(wanted(Policy::Psjf), |site| {
        let rewrite = format!("ip daddr 127.0.0.9 tcp dport {PORT} dnat to 127.0.0.1");
        if !with_rules(&[("type nat hook output priority -100", &rewrite)]) {
            return;
        }
        let listener = TcpListener::bind(("127.0.0.1", PORT)).unwrap();
        let client = connect(("127.0.0.1", 0), ("127.0.0.9", PORT));
        let mut pair = Pair { server: listener.accept().unwrap().0, client };
        let counted = site.during(|| pair.answer(&[&plain(500)]));
        assert_eq!((bands(&counted), counted.sizes_read, counted.by_flow), (vec![2], 1, 0));
    });
}

/// A listener at `[::]` has clients of both versions.
#[test]
fn a_socket_of_both_versions_is_one_of_this_host() {
    with(wanted(Policy::Psjf), |site| {
        let listener = TcpListener::bind(("::", PORT)).unwrap();
        for address in ["127.0.0.1", "::1"] {
            let client = TcpStream::connect((address, PORT)).unwrap();
            let mut pair = Pair { server: listener.accept().unwrap().0, client };
            let counted = site.during(|| pair.answer(&[&plain(500)]));
            assert_eq!((bands(&counted), counted.sizes_read, counted.by_flow), (vec![2], 1, 0), "{address}");
        }
    });
}

/// A packet whose two ports both differ from its socket's may belong to any connection.
#[test]
fn a_packet_of_other_ports_is_not_its_socket_s() {
    with(wanted(Policy::Psjf), |site| {
        let listener = TcpListener::bind(("127.0.0.1", REDIRECTED)).unwrap();
        let _client = connect(("127.0.0.1", 0), ("127.0.0.1", REDIRECTED));
        let mut server = listener.accept().unwrap().0;
        let rewrite = format!("tcp sport {REDIRECTED} tcp sport set {PORT} tcp dport set 9");
        if !with_rules(&[("type filter hook output priority 0", &rewrite)]) {
            return;
        }
        let counted = site.during(|| server.write_all(&plain(500)).unwrap());
        assert!(counted.by_flow > 0 && counted.responses == 0, "{counted:?}");
    });
}

/// An experimental option that receivers skip (RFC 4727). Padding is accepted only up to 7 bytes.
const SKIPPED_OPTION: u8 = 0x1e;

/// Adds an extension header of `eights` times 8 bytes to the packets of a socket.
fn extend(socket: &TcpStream, option: libc::c_int, eights: u8) {
    let mut header = vec![0; usize::from(eights) * 8];
    header[1..4].copy_from_slice(&[eights - 1, SKIPPED_OPTION, eights * 8 - 4]);
    let bytes = header.len() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of the header, which outlives the call.
    let status =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IPV6, option, header.as_ptr().cast(), bytes) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn tcp_is_found_behind_extension_headers() {
    with(wanted(Policy::Psjf), |site| {
        for extensions in [
            &[(libc::IPV6_DSTOPTS, 1)][..],
            &[(libc::IPV6_HOPOPTS, 1)],
            &[(libc::IPV6_HOPOPTS, 3), (libc::IPV6_DSTOPTS, 5)],
        ] {
            let mut pair = Pair::new("::1");
            for (option, eights) in extensions {
                extend(&pair.server, *option, *eights);
            }
            // The response is in one packet: Linux 6.18 loses larger packets with such headers on the loopback, with
            // and without us.
            let counted = site.during(|| pair.answer(&[&plain(500)]));
            assert_eq!((bands(&counted), counted.sizes_read), (vec![2], 1), "{extensions:?}");
        }
    });
}

/// Makes a socket in a separate network behind an interface of this name; the network lasts as long as the socket.
fn beyond<T: Send + 'static>(near: &str, network: &str, make: impl FnOnce() -> T + Send + 'static) -> T {
    run(&format!("ip link add {near} type veth peer name {near}-far"));
    run(&format!("ip addr add {network}.1/24 dev {near}"));
    run(&format!("ip link set {near} up"));
    let route = format!("ip route add default via {network}.1");
    apart(&format!("{near}-far"), &format!("{network}.2/24"), Some(route), make)
}

/// Makes a socket in a separate network like [`beyond`], at a port of the bridge.
fn bridged<T: Send + 'static>(near: &str, address: &str, make: impl FnOnce() -> T + Send + 'static) -> T {
    run(&format!("ip link add {near} type veth peer name {near}-far"));
    run(&format!("ip link set {near} up master weir-br"));
    apart(&format!("{near}-far"), address, None, make)
}

/// Makes a socket in a separate network, into which this interface moves.
fn apart<T: Send + 'static>(
    far: &str,
    address: &str,
    route: Option<String>,
    make: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (is_apart, apart) = mpsc::channel();
    let (is_moved, moved) = mpsc::channel();
    let (moving, address) = (far.to_string(), address.to_string());
    let thread = std::thread::spawn(move || {
        // SAFETY: no memory is touched; the network namespace changes only for this thread.
        let (status, thread) = unsafe { (libc::unshare(libc::CLONE_NEWNET), libc::gettid()) };
        assert_eq!(status, 0);
        is_apart.send(thread).unwrap();
        moved.recv().unwrap();
        run(&format!("ip addr add {address} dev {moving}"));
        run(&format!("ip link set {moving} up"));
        route.iter().for_each(|route| run(route));
        make()
    });
    run(&format!("ip link set {far} netns {}", apart.recv().unwrap()));
    is_moved.send(()).unwrap();
    thread.join().unwrap()
}

/// Sends a large response and a small one on two other connections through this interface: only the large one sinks.
fn a_young_flow_goes_before_an_old_one(interface: &str, listener: &TcpListener, clients: [TcpStream; 2]) {
    let [mut old, mut young] = clients.map(|client| Pair { server: listener.accept().unwrap().0, client });
    let interface = Interface::by_name(interface).unwrap();
    attach(&interface, &wanted(Policy::Psjf)).unwrap();
    let site = Site { interface };
    let sunk = site.during(|| old.answer(&[&[1; 1000], &[1; 1000], &[1; 98_000], &[1; 200_000]]));
    let small = site.during(|| young.answer(&[&plain(500)]));
    assert_eq!((bands(&small), small.by_flow, small.forwarded), (vec![2], 1, 1), "{small:?}");
    // The first 2,000 bytes and the excess of one packet, with headers, are followed by the next 98,000.
    assert!(bands(&sunk) == [2, 3, 4] && sunk.bands[2].bytes < 70_000, "{sunk:?}");
    assert!(sunk.bands[4].bytes > 100_000, "{sunk:?}");
    assert!(sunk.by_flow > 0 && sunk.by_flow == sunk.forwarded && sunk.responses == 0, "{sunk:?}");
    // A request follows immediately, without a head: the client is seen too, if the kernel allows it.
    let again = site.during(|| old.answer(&[&[1; 500]]));
    let has_tcx = Hook::of_new(&site.interface).unwrap() == Hook::Tcx;
    assert!(!has_tcx || bands(&again) == [2], "{again:?}");
}

/// Listens in a container; its network is routed.
fn listen_beyond(port: u16) -> TcpListener {
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    beyond("server", "198.18.1", move || TcpListener::bind(("198.18.1.2", port)).unwrap())
}

fn two_beyond(address: &'static str) -> [TcpStream; 2] {
    beyond("client", "198.18.2", move || [(); 2].map(|()| TcpStream::connect((address, PORT)).unwrap()))
}

#[test]
fn flows_of_a_routed_container_are_ordered() {
    in_own_network(|| {
        let listener = listen_beyond(PORT);
        a_young_flow_goes_before_an_old_one("client", &listener, two_beyond("198.18.1.2"));
    });
}

/// The port is published as `-p 8000:8080`, with the client's address masqueraded.
#[test]
fn flows_of_a_published_port_are_ordered_by_the_port_that_clients_see() {
    in_own_network(|| {
        let dnat = format!("tcp dport {PORT} dnat to 198.18.1.2:{REDIRECTED}");
        let rules = [
            ("type nat hook prerouting priority -100", dnat.as_str()),
            ("type nat hook postrouting priority 100", "oifname server masquerade"),
        ];
        if !with_rules(&rules) {
            return;
        }
        let listener = listen_beyond(REDIRECTED);
        a_young_flow_goes_before_an_old_one("client", &listener, two_beyond("198.18.2.1"));
    });
}

/// The host's firewall sees bridged packets too, and takes them from their sockets.
#[test]
fn flows_of_a_bridged_container_are_ordered() {
    in_own_network(|| {
        let firewall = "/proc/sys/net/bridge/bridge-nf-call-iptables";
        let has_firewall = std::fs::write(firewall, "1").is_ok();
        run("ip link add weir-br type bridge");
        run("ip link set weir-br up");
        if !has_firewall || !with_rules(&[("type filter hook forward priority 0", "ct state new accept")]) {
            return skip("this kernel has no br_netfilter");
        }
        let listener = bridged("server", "198.18.3.2/24", || TcpListener::bind(("198.18.3.2", PORT)).unwrap());
        let clients =
            bridged("client", "198.18.3.3/24", || [(); 2].map(|()| TcpStream::connect(("198.18.3.2", PORT)).unwrap()));
        a_young_flow_goes_before_an_old_one("client", &listener, clients);
    });
}

/// Its packets have a socket, which the follower does not list. A listener of this host at the same port is none.
#[test]
fn flows_of_a_container_with_macvlan_are_followed() {
    in_own_network(|| {
        let _other = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
        run("ip link add client type veth peer name client-far");
        run("ip link set client up");
        run("ip link add link client name server type macvlan mode bridge");
        let listener = apart("server", "198.18.2.3/24", None, || TcpListener::bind(("198.18.2.3", PORT)).unwrap());
        let client = apart("client-far", "198.18.2.2/24", None, || TcpStream::connect(("198.18.2.3", PORT)).unwrap());
        let mut pair = Pair { server: listener.accept().unwrap().0, client };
        let interface = Interface::by_name("client").unwrap();
        attach(&interface, &wanted(Policy::Psjf)).unwrap();
        let site = Site { interface };
        let counted = site.during(|| pair.answer(&[&[1; 100_000]]));
        assert!(counted.by_flow > 0 && counted.forwarded == 0 && counted.responses == 0, "{counted:?}");
        let Some(watch) = ForwardedWatch::open(&site.interface).unwrap() else { return };
        let mut acked = vec![];
        watch.read(&Waits::default(), |connection| acked.push(connection.info.acked_bytes));
        let is_followed = matches!(acked[..], [bytes] if bytes > 90_000);
        assert!(is_followed || Hook::of_new(&site.interface).unwrap() != Hook::Tcx, "{acked:?}");
    });
}

/// The socket of a QUIC server serves all its clients.
#[test]
fn datagrams_of_one_socket_are_ordered_by_client() {
    with(wanted(Policy::Psjf), |site| {
        let server = std::net::UdpSocket::bind(("127.0.0.1", PORT)).unwrap();
        let clients = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let [old, young] = clients.each_ref().map(|client| client.local_addr().unwrap());
        let send = |to, count| site.during(|| (0..count).for_each(|_| assert!(server.send_to(&[1; 1200], to).is_ok())));
        assert_eq!(bands(&send(old, 200)), [2, 3, 4]);
        let counted = send(young, 1);
        assert_eq!((bands(&counted), counted.by_flow, counted.forwarded), (vec![2], 1, 0));
    });
}
