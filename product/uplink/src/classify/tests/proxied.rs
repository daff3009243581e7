//! Clients that a proxy names in the header of the PROXY protocol, at the beginning of a connection.

use std::net::IpAddr;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay};
use sched::policy::ClientShareSpec;

use super::*;
use crate::classify::program::{PROXIED_MAP, Program};
use crate::classify::tcx::IS_OFF;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The response that puts a client ahead of its share, as in `clients`.
const FAR_BYTES: usize = 2_400_000;

/// Lines of version 1 that are wrong, or name no client, behind `PROXY `.
const WRONG_LINES: [&str; 26] = [
    "UNKNOWN\r\n",
    "UNKNOWN 203.0.113.7 10.0.0.1 1 2\r\n",
    "TCP4 203.0.113.7 10.0.0.1 1 2",
    "TCP4 203.0.113.7\r\n",
    "TCP4 203.0.113.7 10.0.0.1 1 2\n",
    "TCP4 203.0.113.256 10.0.0.1 1 2\r\n",
    "TCP4 203.0.113 10.0.0.1 1 2\r\n",
    "TCP4 203.0.113.7.1 10.0.0.1 1 2\r\n",
    "TCP4 203..113.7 10.0.0.1 1 2\r\n",
    "TCP4 2030.0.113.7 1.1.1.1 1 2\r\n",
    "TCP4 ::1 ::1 1 2\r\n",
    "TCP6 203.0.113.7 10.0.0.1 1 2\r\n",
    "TCP6 ::ffff:203.0.113.7 ::1 1 2\r\n",
    "TCP6 1::2::3 ::1 1 2\r\n",
    "TCP6 ::: ::1 1 2\r\n",
    "TCP6 :1:2:3:4:5:6:7:8 ::1 1 2\r\n",
    "TCP6 1:2:3:4:5:6:7:8: ::1 1 2\r\n",
    "TCP6 1:2:3:4:5:6:7 ::1 1 2\r\n",
    "TCP6 1:2:3:4:5:6:7:8:9 ::1 1 2\r\n",
    "TCP6 12345:: ::1 1 2\r\n",
    "TCP6 1: ::1 1 2\r\n",
    "TCP6 : ::1 1 2\r\n",
    "TCP6  ::1 1 2\r\n",
    "TCP6 1:2:3:4:5:6:7::8 ::1 1 2\r\n",
    "TCP6 ::g ::1 1 2\r\n",
    "TCP5 1.1.1.1 1.1.1.1 1 2\r\n",
];

fn by_proxy(v6_bits: u8) -> Classify {
    let share = ClientShareSpec::Allowance(600_000);
    let clients = Some(Clients { share, v4_bits: 32, v6_bits, by: ClientBy::Proxy });
    Classify { clients, rate: Some("4mbit".parse().unwrap()), ..wanted(Policy::Psjf) }
}

/// Runs a test with a classifier that reads headers, if the kernel shows what arrives.
fn with_headers(v6_bits: u8, test: impl FnOnce(&Site) + Send + 'static) {
    in_own_network(move || {
        let interface = lo();
        match Hook::of_new(&interface).unwrap() {
            Hook::Tcx => drop(attach(&interface, &by_proxy(v6_bits)).unwrap()),
            Hook::Clsact => return println!("SKIPPED: this kernel has no TCX"),
        }
        test(&Site { interface });
    });
}

/// A header of version 2, whose length may be wrong.
fn v2(command: u8, family: u8, addresses: &[u8], bytes: usize) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([command, family]);
    header.extend((bytes as u16).to_be_bytes());
    header.extend(addresses);
    header
}

/// The addresses and ports of a header of version 2.
fn addresses(source: IpAddr) -> Vec<u8> {
    match source {
        IpAddr::V4(source) => [source.octets(), [10, 0, 0, 1], [1, 2, 0, 80]].concat(),
        IpAddr::V6(source) => [&source.octets()[..], &[9; 16], &[1, 2, 0, 80]].concat(),
    }
}

/// A connection on which the client has sent these pieces, one packet each.
fn begun(address: &str, pieces: &[&[u8]]) -> Pair {
    let mut pair = Pair::of(address, address);
    set_tcp_nodelay(&pair.client, true).unwrap();
    for piece in pieces {
        pair.client.write_all(piece).unwrap();
        pair.server.read_exact(&mut vec![0; piece.len()]).unwrap();
    }
    pair
}

/// Removes all named clients from the table, and returns their addresses.
fn named(site: &Site) -> Vec<IpAddr> {
    let program = Program::open(find(&site.interface).unwrap().unwrap().facts.id).unwrap();
    let map = program.map(PROXIED_MAP).unwrap();
    let keys: Vec<Vec<u8>> = map.keys().collect();
    let take = |key: Vec<u8>| {
        let value = map.lookup(&key, MapFlags::ANY).unwrap().unwrap();
        map.delete(&key).unwrap();
        match value[16] {
            4 => IpAddr::from(<[u8; 4]>::try_from(&value[..4]).unwrap()),
            6 => IpAddr::from(<[u8; 16]>::try_from(&value[..16]).unwrap()),
            version => panic!("{version}"),
        }
    };
    keys.into_iter().map(take).collect()
}

#[test]
fn headers_of_both_versions_name_the_client() {
    with_headers(128, |site| {
        for (source, is_v6) in [
            ("203.0.113.7", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("2001:db8::1", true),
            ("2001:DB8:aB:100::", true),
            ("::", true),
            ("::1", true),
            ("1::", true),
            ("::2:3:4:5:6:7:8", true),
            ("1:2:3:4:5:6:7:8", true),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
        ] {
            let (kind, family, other) = if is_v6 { ("TCP6", 0x21, "::9") } else { ("TCP4", 0x11, "10.0.0.1") };
            let address: IpAddr = source.parse().unwrap();
            let v1 = format!("PROXY {kind} {source} {other} 4711 80\r\n").into_bytes();
            let bytes = addresses(address);
            for header in [v1, v2(0x21, family, &bytes, bytes.len())] {
                for carrier in ["127.0.0.1", "::1"] {
                    let with_request = [&header[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
                    drop(begun(carrier, &[&with_request]));
                    assert_eq!(named(site), [address], "{source} in {}", header.escape_ascii());
                }
            }
        }
        // What follows the addresses is of extensions.
        let with_extension = [&addresses("203.0.113.7".parse().unwrap())[..], &[4; 300]].concat();
        drop(begun("127.0.0.1", &[&v2(0x21, 0x11, &with_extension, with_extension.len())]));
        assert_eq!(named(site).len(), 1);
    });
}

/// Of such a connection, clients count by the address of the packet.
#[test]
fn what_is_no_header_names_nobody() {
    with_headers(128, |site| {
        let v4 = addresses("203.0.113.7".parse().unwrap());
        let v6 = addresses("2001:db8::1".parse().unwrap());
        let mut all: Vec<Vec<u8>> = vec![
            v2(0x20, 0x11, &v4, 12),
            v2(0x20, 0, &[], 0),
            v2(0x21, 0x12, &v4, 12),
            v2(0x21, 0x31, &[7; 216], 216),
            v2(0x11, 0x11, &v4, 12),
            v2(0x21, 0x11, &v4, 11),
            v2(0x21, 0x11, &v4, 13),
            v2(0x21, 0x11, &v4, 65535),
            v2(0x21, 0x11, &v4[..11], 12),
            v2(0x21, 0x21, &v6, 35),
            v2(0x21, 0x21, &v4, 12),
            v2(0x21, 0x21, &v6, 37),
            SIGNATURE.to_vec(),
        ];
        all.extend(WRONG_LINES.iter().map(|text| format!("PROXY {text}").into_bytes()));
        // The line is longer than any.
        all.push(format!("PROXY TCP4 203.0.113.7 {} 1 2\r\n", "1".repeat(90)).into_bytes());
        all.push(b"GET / HTTP/1.1\r\n\r\nPROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n".to_vec());
        all.push(b"P".to_vec());
        for bytes in all {
            drop(begun("127.0.0.1", &[&bytes]));
            assert_eq!(named(site), [] as [IpAddr; 0], "{}", bytes.escape_ascii());
        }
    });
}

/// A client may send anything later through the proxy.
#[test]
fn only_the_first_packet_of_data_is_read() {
    with_headers(56, |site| {
        let header = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n";
        for pieces in [[&header[..20], &header[20..]], [b"G", header]] {
            drop(begun("127.0.0.1", &pieces));
            assert_eq!(named(site), [] as [IpAddr; 0]);
        }
        // The next connection from the same port has no header.
        let listener = TcpListener::bind(("127.0.0.1", PORT)).unwrap();
        for (bytes, count) in [(&header[..], 1), (b"G", 0)] {
            let mut client = connect(("127.0.0.1", 40_000), ("127.0.0.1", PORT));
            let mut server = listener.accept().unwrap().0;
            client.write_all(bytes).unwrap();
            server.read_exact(&mut vec![0; bytes.len()]).unwrap();
            let program = Program::open(find(&site.interface).unwrap().unwrap().facts.id).unwrap();
            assert_eq!(program.map(PROXIED_MAP).unwrap().keys().count(), count);
            set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
        }
    });
}

/// A client ahead of its share stays so on another connection, and another behind the same proxy is not affected. An
/// attach again keeps what is known of connections.
#[test]
fn clients_behind_one_proxy_have_accounts_of_their_own() {
    with_headers(56, |site| {
        let of = |client: &str| {
            let address: IpAddr = client.parse().unwrap();
            begun("127.0.0.1", &[&v2(0x21, 0x21, &addresses(address), 36)])
        };
        let bands_of = |mut pair: Pair| bands(&site.during(|| pair.answer(&[&plain(100)])));
        let mut greedy = of("2001:db8:1:100::1");
        greedy.answer(&[&plain(FAR_BYTES)]);
        assert_eq!(bands_of(of("2001:db8:1:200::1")), [2]);
        assert_eq!(bands_of(of("2001:db8:1:1ff::2")), [5]);
        assert_eq!(bands_of(Pair::of("127.0.0.1", "127.0.0.1")), [2]);
        let again = Classify { rate: Some("5mbit".parse().unwrap()), ..by_proxy(56) };
        attach(&site.interface, &again).unwrap();
        greedy.answer(&[&plain(FAR_BYTES)]);
        assert_eq!(bands_of(of("2001:db8:1:200::1")), [2]);
        assert_eq!(bands_of(of("2001:db8:1:1ff::2")), [5]);
    });
}

#[test]
fn without_a_view_of_what_arrives_nothing_is_changed() {
    in_own_network(|| {
        let interface = lo();
        IS_OFF.set(true);
        let said = attach(&interface, &by_proxy(56)).unwrap_err().to_string();
        assert!(said.contains("Linux 6.6") && said.contains("--client-by mark") && !said.contains('\n'), "{said}");
        assert_eq!(find(&interface).unwrap(), None);
        assert!(tree::find(&interface).unwrap().is_none());
        IS_OFF.set(false);
    });
}
