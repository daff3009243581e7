//! The fields of the access log about upstreams.

use std::net::{TcpListener, TcpStream};

use crate::common::{Asked, Server, Upstream, answer, content, get, wait_until, weir_under};

/// The number of responses after which similar ones are predicted.
const SAMPLES: usize = 16;

/// Answers `/length/N` and `/chunked/N`.
fn of_size(asked: &Asked, socket: &mut TcpStream) -> bool {
    let (framing, bytes) = asked.path()[1..].split_once('/').unwrap();
    let body = content(bytes.parse().unwrap());
    let head = b"HTTP/1.1 200 OK\r\n";
    if framing == "length" {
        return answer(socket, &[head, format!("Content-Length: {bytes}\r\n\r\n").as_bytes(), &body]);
    }
    let size = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    answer(socket, &[head, size.as_bytes(), &body, b"\r\n0\r\n\r\n"])
}

fn proxy(upstream: &str) -> Server {
    let mut command = weir_under(&[]);
    command.args(["proxy", upstream, "--listen", "127.0.0.1:0", "--access-log", "-", "--log-format", "json"]);
    Server::spawn(command)
}

fn lines(server: &Server) -> Vec<serde_json::Value> {
    let lines = server.stdout();
    lines.iter().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends a request and returns the fields of its log line.
fn line(server: &Server, path: &str, status: u16) -> serde_json::Value {
    let before = lines(server).len();
    let mut client = server.connect();
    client.send(get(path).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    assert_eq!(client.head().0, status);
    client.rest();
    wait_until("a line", || lines(server).len() > before);
    lines(server).pop().unwrap()
}

#[test]
fn a_line_tells_the_upstream_its_times_and_how_the_size_was_known() {
    let upstream = Upstream::start(of_size);
    let server = proxy(&upstream.address.to_string());
    for (path, is_new, size_from) in
        [("/length/5", true, "length"), ("/chunked/5", false, "buffer"), ("/chunked/200000", false, "none")]
    {
        let line = line(&server, path, 200);
        assert_eq!(line["upstream"], upstream.address.to_string(), "{line}");
        assert_eq!(line["size_from"], size_from, "{line}");
        assert_eq!(line["upstream_connect_ms"].is_number(), is_new, "{line}");
        let of = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("no {name}: {line}"));
        assert!(of("queue_ms") <= of("first_byte_ms"), "{line}");
        assert!(of("upstream_queue_ms") + of("upstream_first_byte_ms") <= of("first_byte_ms"), "{line}");
        assert!(of("first_byte_ms") <= of("duration_ms"), "{line}");
    }
    let learned = |name: &str| {
        let asked = (1..=2 * SAMPLES).map(|_| line(&server, "/chunked/200000", 200));
        asked.into_iter().find(|line| line["size_from"] == "learned" && !line[name].is_null())
    };
    // The common prediction for all paths is known before the one for the path itself.
    let line = learned("size_predicted_bytes").expect("its like are known by now");
    let (predicted, quantile) = (line["size_predicted_bytes"].as_u64(), line["size_quantile"].as_f64());
    assert!(predicted.is_some_and(|bytes| (131_072..=262_144).contains(&bytes)), "{line}");
    assert!(quantile.is_some_and(|quantile| (0.0..1.0).contains(&quantile)), "{line}");
    assert!(line["spooled_bytes"].is_null(), "its client reads");
}

#[test]
fn a_line_tells_the_upstream_that_failed() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = proxy(&address.to_string());
    let line = line(&server, "/", 502);
    assert_eq!(line["upstream"], address.to_string());
    assert!(line["upstream_first_byte_ms"].is_null() && line["size_from"].is_null(), "{line}");
}

/// The length that a program announces is the length before coding; the coded length is predicted from other responses.
#[test]
fn the_size_of_a_coded_response_is_learned() {
    let upstream = Upstream::start(|_, socket| {
        let body = content(1_000_000);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
        answer(socket, &[head.as_bytes(), &body])
    });
    let server = proxy(&upstream.address.to_string());
    let next = |fields: &str| {
        let before = lines(&server).len();
        let mut client = server.connect();
        client.send(get("/a").replace("\r\n\r\n", &format!("\r\nConnection: close\r\n{fields}\r\n")));
        let (_, head) = client.head();
        assert_eq!(head.contains("Content-Encoding: gzip"), !fields.is_empty(), "{head}");
        client.rest();
        wait_until("a line", || lines(&server).len() > before);
        lines(&server).pop().unwrap()["size_from"].as_str().unwrap().to_string()
    };
    assert_eq!(next(""), "length");
    assert_eq!(next("Accept-Encoding: gzip\r\n"), "none", "nothing is known of what coding leaves");
    wait_until("a learned size", || next("Accept-Encoding: gzip\r\n") == "learned");
    assert_eq!(next(""), "length");
}
