//! Requests in every form in which a network may deliver them: many together, byte by byte, or with bodies.

use std::time::Duration;

use crate::common::{Client, Site, content, get, on_every_path};

const SMALL: usize = 1000;
const LARGE: usize = 700_000;

fn site() -> Site {
    Site::of_sizes(&[0, 1, SMALL, LARGE])
}

/// Twenty requests in one write, a large one in the middle.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut sizes = [SMALL; 20];
    (sizes[0], sizes[3], sizes[7], sizes[10], sizes[19]) = (0, 1, 0, LARGE, 1);
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for _ in 0..2 {
            client.send(sizes.map(|size| get(&format!("/size-{size}"))).concat());
            for size in sizes {
                assert!(client.response().body == content(size), "not the body of size-{size}");
            }
        }
    });
}

/// A pipeline longer than one read of the server, which is busy with the first request.
#[test]
fn a_long_pipeline_is_answered_whole() {
    const REQUESTS: usize = 4000;
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        client.send(get(&format!("/size-{LARGE}")));
        client.send(get("/size-1").repeat(REQUESTS));
        assert_eq!(client.response().body.len(), LARGE);
        for _ in 0..REQUESTS {
            assert_eq!(client.response().body, content(1));
        }
    });
}

/// Requests whose responses end in different ways, with the status and the bytes of body of each.
const FRAMINGS: [(&str, u16, usize); 14] = [
    ("GET /size-1000 HTTP/1.1\r\nHost: a\r\n\r\n", 200, 1000),
    ("HEAD /size-1000 HTTP/1.1\r\nHost: a\r\n\r\n", 200, 0),
    ("GET /size-700000 HTTP/1.1\r\nHost: a\r\n\r\n", 200, LARGE),
    ("HEAD /size-700000 HTTP/1.1\r\nHost: a\r\n\r\n", 200, 0),
    ("GET /size-0 HTTP/1.1\r\nHost: a\r\n\r\n", 200, 0),
    ("GET /size-700000 HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 304, 0),
    ("GET /size-700000 HTTP/1.1\r\nHost: a\r\nRange: bytes=5-70004\r\n\r\n", 206, 70_000),
    ("GET /size-1000 HTTP/1.1\r\nHost: a\r\nRange: bytes=2000-\r\n\r\n", 416, 56),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204, 0),
    ("GET /missing HTTP/1.1\r\nHost: a\r\n\r\n", 404, 30),
    ("HEAD /missing HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0),
    ("POST /size-1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 405, 47),
    ("GET /size-1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 200, 1),
    ("\r\nGET /size-1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, 1),
];
/// Requests that end a connection after their response.
const LAST: [(&str, u16, usize); 5] = [
    ("GET /size-1000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, 1000),
    ("HEAD /size-700000 HTTP/1.0\r\n\r\n", 200, 0),
    ("GET /size-1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIf-None-Match: *\r\n\r\n", 304, 0),
    ("GET /size-1 HTTP/1.1\r\n\r\n", 400, 30),
    ("POST /size-1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx", 400, 37),
];

/// The end of each response, after any other, is the same on every path, whether it is sent alone or together with
/// others.
#[test]
fn responses_of_every_kind_follow_each_other() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut pick = move |count: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % count
    };
    let mut pipeline = || {
        let mut pipeline: Vec<_> = (0..10).map(|_| FRAMINGS[pick(FRAMINGS.len())]).collect();
        pipeline.push(LAST[pick(LAST.len())]);
        pipeline
    };
    let pipelines: Vec<_> = (0..30).map(|_| pipeline()).collect();
    on_every_path(&site(), &[], |server| {
        for pipeline in &pipelines {
            let mut client = server.connect();
            // Requests after the last one are not answered.
            client.send(pipeline.iter().map(|request| request.0).collect::<String>() + FRAMINGS[0].0);
            for (at, (request, status, bytes)) in pipeline.iter().enumerate() {
                assert_eq!(client.head().0, *status, "request {at}, {request:?}, of {pipeline:?}");
                client.body(*bytes);
            }
            client.assert_end();
        }
    });
}

#[test]
fn requests_byte_by_byte() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for byte in [get("/size-1"), get("/size-1000")].concat().bytes() {
            client.send([byte]);
        }
        assert_eq!(client.response().body, content(1));
        assert_eq!(client.response().body, content(1000));
    });
}

/// A request that is split anywhere is the same request.
#[test]
fn requests_cut_anywhere() {
    let whole = format!("POST /size-1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc{}", get("/size-1"));
    on_every_path(&site(), &[], |server| {
        for at in 1..whole.len() {
            let mut client = server.connect();
            client.send(&whole[..at]);
            client.send(&whole[at..]);
            assert_eq!((client.response().status, client.response().status), (405, 200), "cut at {at}");
        }
    });
}

/// Unused bodies are read and discarded, and the next request after them is found.
#[test]
fn request_bodies_are_skipped() {
    let trailing = "5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\n";
    let large = format!("Content-Length: 300000\r\n\r\n{}", "G".repeat(300_000));
    let cases = [
        ("GET", "Content-Length: 5\r\n\r\nhello".to_string(), 200),
        ("POST", "Content-Length: 5\r\n\r\nhello".to_string(), 405),
        ("POST", "Content-Length: 0\r\n\r\n".to_string(), 405),
        ("GET", format!("Transfer-Encoding: chunked\r\n\r\n{trailing}"), 200),
        ("PUT", format!("Transfer-Encoding: chunked\r\n\r\n{trailing}"), 405),
        ("PUT", large, 405),
    ];
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for (method, rest, status) in &cases {
            client.send(format!("{method} /size-1 HTTP/1.1\r\nHost: a\r\n{rest}{}", get("/size-1000")));
            assert_eq!(client.response().status, *status, "{method} {rest:.40}");
            assert_eq!(client.response().body, content(1000), "{method} {rest:.40}");
        }
    });
}

/// Every response depends only on the head, so no client has to send a body that is then discarded.
#[test]
fn a_client_that_waits_has_its_final_status_at_once() {
    let lengths = ["Content-Length: 3", "Content-Length: 1048577", "Transfer-Encoding: chunked"];
    on_every_path(&site(), &[], |server| {
        for (method, target, status) in [("POST", "/size-1", 405), ("GET", "/missing", 404), ("GET", "/size-1", 200)] {
            for length in lengths {
                let mut client = server.connect();
                let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{length}\r\n\r\n");
                client.send(get("/size-1000") + &head);
                assert_eq!(client.response().body, content(1000));
                let response = client.response();
                assert_eq!((response.status, response.field("Connection")), (status, Some("close")), "{head}");
                // A body that is sent all the same is neither a request nor the cause of a reset.
                client.try_send(get("/size-1"));
                client.assert_end();
            }
        }
        let mut client = server.connect();
        client.send("GET /size-1 HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\n\r\n");
        assert_eq!(client.response().status, 417);
        client.assert_end();
    });
}

/// 1 MiB of body is tolerated. A longer one ends the connection, and its request gets the same response.
#[test]
fn a_request_with_a_body_too_large_gets_its_answer() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        client.send("POST /size-1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
        assert_eq!(client.response().status, 405, "{:?}", server.stderr());
        client.assert_end();
        let mut client = server.connect();
        client.send("POST /size-1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [&b"40000\r\n"[..], &vec![b'x'; 0x40000], b"\r\n"].concat();
        (0..5).for_each(|_| client.try_send(&chunk));
        assert_eq!(client.response().status, 405, "{:?}", server.stderr());
        client.assert_end();
    });
}

#[test]
fn a_body_of_just_the_largest_size_is_read() {
    let body = vec![b'x'; 1 << 20];
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        client.send("POST /size-1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n");
        client.send(&body);
        assert_eq!(client.response().status, 405);
        assert_eq!(client.get("/size-1").status, 200);
    });
}

/// The client continues to send after its last request. If the socket were closed on both sides, a reset would be the
/// answer, and the client may then lose bytes that it has not read (RFC 9112 section 9.6).
#[test]
fn late_bytes_do_not_reset_the_last_response() {
    on_every_path(&site(), &[], |server| {
        for size in [1, LARGE] {
            let mut client = Client::connect_narrow(server.address);
            client.send(format!("GET /size-{size} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            client.wait_for_first_byte();
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(20));
                client.send(get("/size-1"));
            }
            assert!(client.response().body == content(size));
            client.assert_end();
        }
    });
}

/// On an uplink of small responses a packet of 66 bytes for each is a hundredth of the link.
#[test]
fn a_request_is_acknowledged_by_its_response_and_a_part_of_one_at_once() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        assert_eq!(client.get("/size-1").body, content(1));
        // SYN-ACK and response; on a busy machine the response may be later than the 40 ms after which the kernel
        // acknowledges.
        assert!(client.packets_received() <= 3);
        let mut alone = (0..5).map(|_| {
            let mut client = server.connect();
            assert_eq!(client.get("/size-1").body, content(1));
            client.packets_received()
        });
        assert!(alone.any(|packets| packets == 2), "every request had an acknowledgement of its own");
        let mut client = server.connect();
        let began = client.packets_received();
        client.send("GET /size-1 HTTP/1.1\r\n");
        while client.packets_received() == began {
            std::thread::sleep(Duration::from_millis(1));
        }
        client.send("Host: a\r\n\r\n");
        assert_eq!(client.response().body, content(1));
    });
}
