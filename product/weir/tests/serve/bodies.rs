//! Every byte of every file is delivered, and no other.

use crate::common::{Server, Site, content, get, on_every_path};

/// Sizes: zero, one byte, both sides of the limit of memory, and one that needs many grants.
const SIZES: [usize; 6] = [0, 1, 65_535, 65_536, 65_537, 5 << 20];

#[test]
fn bodies_are_exact() {
    on_every_path(&Site::of_sizes(&SIZES), &[], |server| {
        let mut client = server.connect();
        for size in SIZES.into_iter().chain(SIZES.into_iter().rev()) {
            assert!(client.get(&format!("/size-{size}")).body == content(size), "not the body of size-{size}");
        }
    });
}

/// Fifty concurrent clients on one paced link, each with its own file, three times.
#[test]
fn fifty_clients_get_their_own_bytes() {
    const CLIENTS: usize = 50;
    let size_of = |client: usize| 1 + client * 1931;
    let sizes: Vec<usize> = (0..CLIENTS).map(size_of).collect();
    let site = Site::of_sizes(&sizes);
    for policy in ["fair", "srpt", "las"] {
        let server = Server::start(&site, &["--shaping", "paced", "--uplink", "200mbit", "--policy", policy]);
        std::thread::scope(|scope| {
            for &size in &sizes {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.connect();
                    for _ in 0..3 {
                        assert!(client.get(&format!("/size-{size}")).body == content(size), "not size-{size}");
                    }
                });
            }
        });
        server.assert_alive();
    }
}

#[test]
fn ranges_are_exact() {
    const SIZE: usize = 200_000;
    let cases: [(&str, std::ops::Range<usize>); 8] = [
        ("bytes=0-0", 0..1),
        ("bytes=0-", 0..SIZE),
        ("bytes=100-199", 100..200),
        ("bytes=70000-140000", 70_000..140_001),
        ("bytes=-1", SIZE - 1..SIZE),
        ("bytes=-300000", 0..SIZE),
        ("bytes=199999-", SIZE - 1..SIZE),
        ("bytes=199990-999999", 199_990..SIZE),
    ];
    on_every_path(&Site::of_sizes(&[SIZE]), &[], |server| {
        let mut client = server.connect();
        for (range, expected) in &cases {
            let response = range_of(&mut client, SIZE, range);
            assert_eq!(response.status, 206, "{range}");
            let said = format!("bytes {}-{}/{SIZE}", expected.start, expected.end - 1);
            assert_eq!(response.field("Content-Range"), Some(said.as_str()));
            assert!(response.body == content(SIZE)[expected.clone()], "not the bytes of {range}");
        }
    });
}

#[test]
fn ranges_that_are_none() {
    // An unsatisfiable range is refused; a field that is not a range of bytes is ignored (RFC 9110 section 14.2).
    let cases = [
        ("bytes=1000-", 416),
        ("bytes=1000-2000", 416),
        ("bytes=-0", 416),
        ("bytes=5-4", 200),
        ("bytes=", 200),
        ("bytes=a-b", 200),
        ("items=0-1", 200),
        ("bytes=0-0,5-4", 200),
    ];
    on_every_path(&Site::of_sizes(&[1000]), &[], |server| {
        let mut client = server.connect();
        for (range, status) in cases {
            let response = range_of(&mut client, 1000, range);
            assert_eq!(response.status, status, "{range}");
            assert_eq!(response.field("Content-Range"), (status == 416).then_some("bytes */1000"), "{range}");
            assert!(status == 416 || response.body == content(1000), "{range}");
        }
        client.send("GET /size-1000 HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n");
        assert_eq!(client.response().status, 200, "a repeated Range is no range");
    });
}

#[test]
fn several_ranges() {
    for size in [1000, 200_000] {
        let file = content(size);
        let (last, middle) = (size - 10, size / 2);
        let ranges = [0..1, middle..middle + 300, last..size];
        let asked = format!("bytes=0-0, {middle}-{},-10", middle + 299);
        on_every_path(&Site::of_sizes(&[size]), &[], |server| {
            let mut client = server.connect();
            let response = range_of(&mut client, size, &asked);
            assert_eq!(response.status, 206);
            let kind = response.field("Content-Type").unwrap();
            let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
            let mut expected = Vec::new();
            for range in &ranges {
                let said = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                let head = format!("\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n");
                expected.extend(format!("{head}Content-Range: {said}\r\n\r\n").bytes());
                expected.extend(&file[range.clone()]);
            }
            expected.extend(format!("\r\n--{boundary}--\r\n").bytes());
            assert!(response.body == expected, "{}", response.body.escape_ascii());
            assert_eq!(client.get(&format!("/size-{size}")).status, 200);
        });
    }
}

fn range_of(client: &mut crate::common::Client, size: usize, range: &str) -> crate::common::Response {
    client.send(format!("GET /size-{size} HTTP/1.1\r\nHost: a\r\nRange: {range}\r\n\r\n"));
    client.response()
}

/// Pipelined ranges of one file add up to the file.
#[test]
fn pipelined_ranges_make_up_the_file() {
    const SIZE: usize = 200_000;
    on_every_path(&Site::of_sizes(&[SIZE]), &[], |server| {
        let mut client = server.connect();
        for from in (0..SIZE).step_by(30_000) {
            let range = format!("Range: bytes={from}-{}\r\n\r\n", from + 29_999);
            client.send(get(&format!("/size-{SIZE}")).trim_end().to_string() + "\r\n" + &range);
        }
        let whole: Vec<u8> = (0..SIZE).step_by(30_000).flat_map(|_| client.response().body).collect();
        assert!(whole == content(SIZE));
    });
}
