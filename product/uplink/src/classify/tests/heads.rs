//! Detection of the beginning and the length of a response.

use super::*;

/// The heads whose size is read; each response has 50,000 bytes, which go to the second band for data.
#[test]
fn heads_are_read_however_they_are_written() {
    with(wanted(Policy::Psjf), |site| {
        for head in [
            "HTTP/1.1 200 OK\ncontent-length:50000\n\n",
            "HTTP/1.0 404 Not Found\nCONTENT-LENGTH:  50000  \n\n",
            "HTTP/1.1 206 P\nContent-Typ: x\nContent-Lengthy: 7\nX-Content-Length: 8\nContent-Length: 50000\n\n",
            "HTTP/1.1 200\nContent-Length: 50000\nContent-Length: 50000\n\n",
            "HTTP/1.1 100 Continue\n\nHTTP/1.1 103 Early\nLink: x\n\nHTTP/1.1 200 OK\nContent-Length: 50000\n\n",
        ] {
            let counted = site.during(|| Pair::new("127.0.0.1").answer(&[&response(head, 50_000)]));
            assert_eq!((bands(&counted), counted.sizes_read, counted.sizes_unknown), (vec![3], 1, 0), "{head}");
        }
        let interim = "HTTP/1.1 100 Continue\n\n".repeat(40) + "HTTP/1.1 200 OK\nContent-Length: 50000\n\n";
        let long = format!("HTTP/1.1 200 OK\nCookie: {}\nContent-Length: 50000\n\n", "x".repeat(3900));
        for head in [interim, long] {
            let counted = site.during(|| Pair::new("127.0.0.1").answer(&[&response(&head, 50_000)]));
            assert_eq!((bands(&counted), counted.sizes_read), (vec![3], 1), "{head}");
        }
    });
}

/// The classifier reads 256 bytes at a time and keeps 40 of a line: whatever the alignment, bytes that only look like a
/// line are not taken for one.
#[test]
fn a_line_begins_behind_a_newline_only() {
    with(wanted(Policy::Psjf), |site| {
        for filler in (0..48).chain(200..300).step_by(3) {
            let filler = "\u{b}".repeat(filler);
            let head = format!("HTTP/1.1 200 OK\nA: {filler}Content-Length: 5\nContent-Length: 50000\nB: \u{e9}\n\n");
            let counted = site.during(|| Pair::new("127.0.0.1").answer(&[&response(&head, 50_000)]));
            assert_eq!((bands(&counted), counted.sizes_read), (vec![3], 1), "{head}");
        }
    });
}

/// A response and its head are in one packet: the packet's end shows where the body begins, unless other data follows.
#[test]
fn the_end_of_a_head_is_found_before_and_behind_its_length() {
    with(wanted(Policy::Psjf), |site| {
        let mut pair = Pair::new("127.0.0.1");
        for (body, more) in [("", ""), ("\n\n", ""), ("x\n\nx", "C: d\n"), ("x\n\nx", "Content-Length: 6\n")] {
            let bytes = body.replace('\n', "\r\n").len();
            let whole = response(&format!("HTTP/1.1 200 OK\nContent-Length: {bytes}\n{more}\n{body}"), 0);
            let counted = site.during(|| pair.answer(&[&whole]));
            assert_eq!((bands(&counted), counted.sizes_read, counted.responses), (vec![2], 1, 1), "{body}{more}");
            let next = site.during(|| pair.answer(&[&plain(50_000)]));
            assert_eq!((bands(&next), next.sizes_read, next.responses), (vec![3], 1, 1), "{body}{more}");
        }
    });
}

/// If no size is plausible, the bytes written decide, whatever size was announced.
#[test]
fn what_cannot_be_believed_goes_by_what_was_written() {
    with(wanted(Policy::Psjf), |site| {
        let long = format!("HTTP/1.1 200 OK\nCookie: {}\nContent-Length: 50000\n\n", "x".repeat(5000));
        for head in [
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 18446744073709551616\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 99999999999999999999999999999999\n\n",
            "HTTP/1.1 200 OK\nContent-Length: -1\n\n",
            "HTTP/1.1 200 OK\nContent-Length:\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 5000000, 5000000\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 5000000 5\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 5000000\nContent-Length: 5\n\n",
            "HTTP/1.1 101 Switching\nContent-Length: 5000000\n\n",
            "HTTP/1.1 2x0 OK\nContent-Length: 5000000\n\n",
            "HTTP/1.1\nContent-Length: 5000000\n\n",
            "HTTP/2.0 200 OK\nContent-Length: 5000000\n\n",
            "SSH-2.0-OpenSSH\n",
            &long,
        ] {
            let counted = site.during(|| Pair::new("127.0.0.1").answer(&[&response(head, 500)]));
            assert_eq!((counted.sizes_read, counted.sizes_unknown), (0, 1), "{head}");
            let band = if head.len() + 500 < CUTS[0] as usize { 2 } else { 3 };
            assert_eq!(bands(&counted), [band], "{head}");
        }
    });
}

#[test]
fn a_head_may_be_split_anywhere() {
    with(wanted(Policy::Psjf), |site| {
        let whole = response("HTTP/1.1 103 Early\n\nHTTP/1.1 200 OK\nA: b\nContent-Length: 50000\nC: d\n\n", 50_000);
        let head_bytes = whole.len() - 50_000;
        let mut pair = Pair::new("127.0.0.1");
        // A packet for each byte of the head, or for each group of bytes.
        for bytes in [1, 3, 7, 13, 40] {
            let pieces: Vec<&[u8]> = whole[..head_bytes].chunks(bytes).chain([&whole[head_bytes..]]).collect();
            let counted = site.during(|| pair.answer(&pieces));
            assert_eq!((bands(&counted), counted.sizes_read, counted.responses), (vec![2, 3], 1, 1), "{bytes}");
            assert!(counted.bands[3].bytes > 50_000);
        }
        // There are two packets. Before the length is read they go to the first band.
        for at in 1..head_bytes {
            let counted = site.during(|| pair.answer(&[&whole[..at], &whole[at..]]));
            assert_eq!((counted.sizes_read, counted.responses), (1, 1), "{at}");
            assert!(counted.bands[3].bytes > 50_000, "{at}");
        }
    });
}

#[test]
fn responses_without_a_body_end_with_their_head() {
    with(wanted(Policy::Psjf), |site| {
        let mut pair = Pair::new("127.0.0.1");
        for status in ["204 No Content", "304 Not Modified"] {
            let head = format!("HTTP/1.1 {status}\nContent-Length: 5000000\n\n");
            let counted = site.during(|| pair.answer(&[&response(&head, 0)]));
            assert_eq!((bands(&counted), counted.sizes_read), (vec![2], 1), "{status}");
        }
        // The answer to a HEAD is not recognised as one: it counts with its declared length, and the next response is
        // still read.
        let head = site.during(|| pair.answer(&[&response("HTTP/1.1 200 OK\nContent-Length: 5000000\n\n", 0)]));
        assert_eq!(bands(&head), [4]);
        let next = site.during(|| pair.answer(&[&plain(500)]));
        assert_eq!((bands(&next), next.sizes_read, next.held_back), (vec![2], 1, 0));
    });
}

#[test]
fn a_server_that_lies_about_its_length_is_followed() {
    with(wanted(Policy::Psjf), |site| {
        let mut pair = Pair::new("127.0.0.1");
        // The response has 400,000 bytes more than declared; beyond the declared size the bytes sent decide.
        let mut longer = plain(500);
        longer.resize(400_000, b'x');
        let counted = site.during(|| pair.answer(&[&longer[..560], &longer[560..]]));
        assert_eq!((bands(&counted), counted.responses), (vec![2, 3, 4], 1));
        // The response has far fewer bytes than declared; the next response is not part of it.
        let fewer = site.during(|| pair.answer(&[&plain(5_000_000)[..1000]]));
        assert_eq!((bands(&fewer), fewer.responses), (vec![4], 1));
        let next = site.during(|| pair.answer(&[&plain(500)]));
        assert_eq!((bands(&next), next.responses, next.sizes_read), (vec![2], 1, 1));
    });
}

/// The requests come in one write, so the client sends nothing between the responses: these are distinguished by the
/// end of one and the head of the next, wherever packets begin.
#[test]
fn pipelined_responses_are_told_apart() {
    with(wanted(Policy::Psjf), |site| {
        let mut pair = Pair::new("127.0.0.1");
        let (first, second) = (plain(50_000), plain(300_000));
        let both = [&first[..], &second[..]].concat();
        for cut in [first.len(), first.len() + 3, first.len() + 40, both.len()] {
            let counted = site.during(|| {
                pair.ask_for(2);
                for piece in [&both[..cut], &both[cut..]] {
                    pair.send(&[piece]);
                    drained(&pair.server);
                }
            });
            assert_eq!((counted.responses, counted.sizes_read, counted.sizes_unknown), (2, 2, 0), "{cut}");
            assert!(counted.bands[3].bytes >= 50_000 && bands(&counted).iter().all(|band| *band >= 3), "{counted:?}");
            let next = site.during(|| pair.answer(&[&plain(500)]));
            assert_eq!((bands(&next), next.responses), (vec![2], 1), "{cut}");
        }
        let many = site.during(|| {
            pair.ask_for(20);
            pair.send(&[&plain(100).repeat(20)]);
        });
        assert_eq!((bands(&many), many.responses, many.sizes_read), (vec![2], 20, 20));
    });
}

/// A packet holds more responses than can be distinguished: the following ones are read again from the next packet that
/// begins with a head.
#[test]
fn a_packet_of_very_many_responses_does_no_harm() {
    with(wanted(Policy::Psjf), |site| {
        let mut pair = Pair::new("127.0.0.1");
        let counted = site.during(|| {
            pair.ask_for(200);
            pair.send(&[&plain(0).repeat(200)]);
            drained(&pair.server);
        });
        assert!((32..=200).contains(&counted.responses), "{counted:?}");
        let next = site.during(|| pair.answer(&[&plain(50_000)]));
        assert_eq!((bands(&next), next.responses, next.sizes_read), (vec![3], 1, 1));
    });
}

/// IPv6 gives the length of packets above 64 KiB in a header of its own or nowhere.
#[test]
fn big_tcp_packets_are_recognised() {
    in_own_network(|| {
        let interface = lo();
        run("ip link set lo gso_max_size 190000 gro_max_size 190000");
        // The rate is so fast that packets are not limited in size.
        attach(&interface, &Classify { rate: Some("10gbit".parse().unwrap()), ..wanted(Policy::Psjf) }).unwrap();
        let site = Site { interface };
        for address in ["::1", "127.0.0.1"] {
            let counted = site.during(|| Pair::new(address).answer(&[&plain(5_000_000)]));
            assert_eq!((bands(&counted), counted.responses, counted.sizes_read), (vec![4], 1, 1), "{address}");
            assert!(counted.bands[4].bytes > 5_000_000, "{address}: {counted:?}");
        }
    });
}
