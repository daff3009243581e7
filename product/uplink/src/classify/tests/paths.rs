//! The path between the server's socket and the packet: rewritten ports, extension headers, another network.

use std::process::Command;
use std::sync::mpsc;

use super::*;
use crate::testing::skip;

/// The port of the server whose clients connect to [`PORT`].
const REDIRECTED: u16 = 8080;

/// Adds an nft chain with this rule. Without nft, reports the test as skipped and returns false.
fn with_rule(chain: &str, rule: &str) -> bool {
    if Command::new("nft").arg("--version").output().is_err() {
        skip("nft is missing; run scripts/setup.sh test");
        return false;
    }
    run("nft add table ip weir");
    run(&format!("nft add chain ip weir to {{ {chain} ; }}"));
    run(&format!("nft add rule ip weir to {rule}"));
    true
}

#[test]
fn behind_a_redirected_port_the_socket_is_found() {
    with(wanted(Policy::Psjf), |site| {
        let redirect = format!("tcp dport {PORT} redirect to :{REDIRECTED}");
        if !with_rule("type nat hook output priority -100", &redirect) {
            return;
        }
        let listener = TcpListener::bind(("127.0.0.1", REDIRECTED)).unwrap();
        let client = connect(("127.0.0.1", 0), ("127.0.0.1", PORT));
        let mut pair = Pair { server: listener.accept().unwrap().0, client };
        for (body_bytes, band) in [(500, 2), (50_000, 3), (500, 2)] {
            let counted = site.during(|| pair.answer(&[&plain(body_bytes)]));
            assert_eq!((bands(&counted), counted.sizes_read, counted.no_socket), (vec![band], 1, 0), "{body_bytes}");
            drained(&pair.server);
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
        if !with_rule("type filter hook output priority 0", &rewrite) {
            return;
        }
        let counted = site.during(|| server.write_all(&plain(500)).unwrap());
        assert!(bands(&counted).is_empty() && counted.no_socket > 0, "{counted:?}");
    });
}

/// An experimental option that receivers skip (RFC 4727). Padding is accepted only up to 7 bytes.
const SKIPPED_OPTION: u8 = 0x1e;

/// Adds an extension header of `eights` times 8 bytes to what a socket sends.
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
            // In one packet: Linux 6.18 loses larger packets with such headers on the loopback, with and without us.
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
    let (is_apart, apart) = mpsc::channel();
    let (is_moved, moved) = mpsc::channel();
    let (far, network) = (format!("{near}-far"), network.to_string());
    let thread = std::thread::spawn(move || {
        // SAFETY: no memory is touched; the network namespace changes only for this thread.
        let (status, thread) = unsafe { (libc::unshare(libc::CLONE_NEWNET), libc::gettid()) };
        assert_eq!(status, 0);
        is_apart.send(thread).unwrap();
        moved.recv().unwrap();
        run(&format!("ip addr add {network}.2/24 dev {far}"));
        run(&format!("ip link set {far} up"));
        run(&format!("ip route add default via {network}.1"));
        make()
    });
    run(&format!("ip link set {near}-far netns {}", apart.recv().unwrap()));
    is_moved.send(()).unwrap();
    thread.join().unwrap()
}

/// A container's server: its packets pass here, but its sockets are not accessible.
#[test]
fn forwarded_packets_are_told_apart() {
    in_own_network(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let listener = beyond("server", "198.18.1", || TcpListener::bind(("198.18.1.2", PORT)).unwrap());
        let client = beyond("client", "198.18.2", || TcpStream::connect(("198.18.1.2", PORT)).unwrap());
        let mut pair = Pair { server: listener.accept().unwrap().0, client };
        let interface = Interface::by_name("client").unwrap();
        attach(&interface, &wanted(Policy::Psjf)).unwrap();
        let counted = Site { interface }.during(|| pair.answer(&[&plain(500)]));
        assert_eq!((counted.forwarded, counted.no_socket, bands(&counted)), (1, 0, vec![]));
    });
}
