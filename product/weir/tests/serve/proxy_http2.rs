//! Upstreams over HTTP/2: a second instance of the program is the upstream, and passes requests on to a server in the
//! test.

use std::net::{TcpListener, TcpStream};

use crate::common::tls::Made;
use crate::common::{Asked, Client, Server, Site, Upstream, WRITE_PATHS, answer, content, get, wait_until, weir_under};

const TRAILERS: &[u8] = b"0\r\nSum: 1\r\nContent-Type: x\r\nGrpc-Status: 0\r\n\r\n";

/// Answers `/length/N` and `/chunked/N`; the second has trailer fields.
fn of_size(asked: &Asked, socket: &mut TcpStream) -> bool {
    let (framing, bytes) = asked.path()[1..].split_once('/').unwrap();
    let body = content(bytes.parse().unwrap());
    let head = b"HTTP/1.1 200 OK\r\n";
    if framing == "length" {
        return answer(socket, &[head, format!("Content-Length: {bytes}\r\n\r\n").as_bytes(), &body]);
    }
    let size = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    answer(socket, &[head, size.as_bytes(), &body, b"\r\n", TRAILERS])
}

/// Starts a server that passes requests on to this address.
fn proxy(to: &str, args: &[&str]) -> Server {
    let mut command = weir_under(&[]);
    command.args(["proxy", to, "--listen", "127.0.0.1:0"]).args(args);
    Server::spawn(command)
}

/// Starts an HTTP/2 server in front of this upstream.
fn http2_before(upstream: &Upstream) -> Server {
    proxy(&upstream.address.to_string(), &["--uplink", "off"])
}

fn h2c(to: &Server) -> String {
    format!("h2c://{}", to.address)
}

/// Reads a chunked body. Returns it with the text after the last chunk.
fn chunks(client: &mut Client) -> (Vec<u8>, String) {
    let line = |client: &mut Client| {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(client.body(1));
        }
        String::from_utf8(line).unwrap()
    };
    let mut body = Vec::new();
    loop {
        let bytes = usize::from_str_radix(line(client).trim_end(), 16).unwrap();
        if bytes == 0 {
            break;
        }
        let chunk = client.body(bytes + 2);
        body.extend_from_slice(&chunk[..bytes]);
    }
    let mut behind = line(client);
    while behind != "\r\n" && !behind.ends_with("\r\n\r\n") {
        behind += &line(client);
    }
    (body, behind)
}

#[test]
fn bodies_are_exact_both_ways() {
    let upstream = Upstream::start(|asked, socket| match asked.head.starts_with("POST") {
        true => {
            let body = asked.body(socket);
            let said = format!("{} {}", body.len(), body == content(body.len()));
            answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()).as_bytes()])
        }
        false => of_size(asked, socket),
    });
    let middle = http2_before(&upstream);
    for path in WRITE_PATHS {
        let server = proxy(&h2c(&middle), path);
        let mut client = server.connect();
        for bytes in [0, 1, 65_535, 65_537, 3 << 20] {
            client.send(get(&format!("/length/{bytes}")));
            assert!(client.response().body == content(bytes), "{bytes}");
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n"));
            client.send(content(bytes));
            assert_eq!(client.response().text(), format!("{bytes} true"));
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            for chunk in content(bytes).chunks(9000) {
                client.send([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            }
            client.send("0\r\n\r\n");
            assert_eq!(client.response().text(), format!("{bytes} true"));
        }
        client.send("HEAD /length/1000 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to_head().field("Content-Length"), Some("1000"));
        server.assert_alive();
    }
    middle.assert_alive();
}

/// The trailers arrive before the response begins, or later.
#[test]
fn trailers_reach_a_client_that_asks_for_them() {
    let upstream = Upstream::start(of_size);
    let middle = http2_before(&upstream);
    let server = proxy(&h2c(&middle), &[]);
    let mut client = server.connect();
    for bytes in [5, 1 << 20] {
        client.send(format!("GET /chunked/{bytes} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te\r\n\r\n"));
        let (status, head) = client.head();
        assert!(status == 200 && head.contains("Transfer-Encoding: chunked"), "{head}");
        let (body, behind) = chunks(&mut client);
        assert!(body == content(bytes), "{} bytes", body.len());
        assert_eq!(behind.to_lowercase(), "sum: 1\r\ngrpc-status: 0\r\n\r\n");
    }
    client.send(get("/chunked/1000000"));
    client.head();
    assert_eq!(chunks(&mut client).1, "\r\n");
    let response = client.get("/chunked/5");
    assert_eq!((response.field("Content-Length"), response.field("Sum")), (Some("5"), None));
}

/// Such a response once had no last chunk: the client took the next response for a chunk.
#[test]
fn an_empty_body_with_trailers_has_its_last_chunk() {
    let parts = ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nSum: 1\r\n\r\n"];
    let upstream = Upstream::start(move |_, socket| answer(socket, &[parts.concat().as_bytes()]));
    let server = proxy(&upstream.address.to_string(), &[]);
    let mut client = server.connect();
    for (field, behind) in [("TE: trailers", "Sum: 1\r\n\r\n"), ("TE: trailers, gzip", "Sum: 1\r\n\r\n")] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\nConnection: te\r\n\r\n"));
        let (status, head) = client.head();
        assert!(status == 200 && head.contains("Transfer-Encoding: chunked"), "{head}");
        assert_eq!(chunks(&mut client), (Vec::new(), behind.to_string()));
    }
    let response = client.get("/");
    assert_eq!((response.field("Content-Length"), response.field("Sum")), (Some("0"), None));
    client.send("GET / HTTP/1.0\r\nTE: trailers\r\n\r\n");
    assert_eq!(client.head().0, 200);
    assert!(client.rest().is_empty());
    server.assert_alive();
}

#[test]
fn the_log_names_the_upstream() {
    let upstream = Upstream::start(of_size);
    let middle = http2_before(&upstream);
    let server = proxy(&h2c(&middle), &["--access-log", "-", "--log-format", "json"]);
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /length/3000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.head().0, 200);
        assert!(client.rest() == content(3000));
    }
    let lines = || -> Vec<serde_json::Value> {
        let lines = server.stdout();
        lines.iter().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    wait_until("their lines", || lines().len() == clients.len());
    assert!(lines().iter().all(|line| line["upstream"] == h2c(&middle)), "{:?}", lines());
}

#[test]
fn what_is_no_upstream_is_502_and_a_line_that_says_why() {
    // It accepts connections and never speaks HTTP/2.
    let http1 =
        Upstream::start(|_, socket| answer(socket, &[b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (to, why) in [(http1.address, "HTTP/2: "), (nobody, "cannot connect: connection refused")] {
        let server = proxy(&format!("h2c://{to}"), &[]);
        assert_eq!(server.connect().get("/").status, 502, "{why}");
        wait_until("a line about it", || !server.stderr().is_empty());
        let said = format!("weir: no response from upstream h2c://{to}: {why}");
        assert!(server.stderr()[0].starts_with(&said), "{:?}", server.stderr());
    }
}

#[test]
fn an_upstream_that_dies_is_a_cut_and_no_end() {
    let upstream = Upstream::start(of_size);
    let mut middle = Some(http2_before(&upstream));
    let server = proxy(&h2c(middle.as_ref().unwrap()), &[]);
    let mut client = server.connect();
    client.send("GET /chunked/50000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.head().0, 200);
    client.body(10_000);
    drop(middle.take());
    assert!(!client.rest().ends_with(b"0\r\n\r\n"));
    assert_eq!(server.connect().get("/length/5").status, 502);
    server.assert_alive();
}

/// A size larger than all sockets in between can hold.
const LARGE: usize = 16 << 20;

/// Starts a server from the file of this site, with one place at its upstream; with a separate disk of a megabyte if
/// `has_small_disk`.
fn spooling(to: &Server, site: &Site, has_small_disk: bool) -> Server {
    let folder = site.outside("spool");
    if has_small_disk {
        std::fs::create_dir_all(&folder).unwrap();
    }
    let text = format!(
        "[server]\nspool_folder = {folder:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\n\
         to = [\"{}\"]\nmax_concurrent_requests = 1\n",
        h2c(to)
    );
    site.write("weir.toml", text.as_bytes());
    let script = format!("mount -t tmpfs -o size=1m none '{}' && exec \"$0\" \"$@\"", folder.display());
    let under: &[&str] = if has_small_disk { &["unshare", "--mount", "sh", "-c", &script] } else { &[] };
    let mut command = weir_under(under);
    command.arg("run").arg(site.path("weir.toml"));
    Server::spawn(command)
}

/// The disk is full, or the folder is missing: the response holds its upstream until its client has received it, and
/// another request waits.
#[test]
fn what_cannot_be_spooled_waits_and_is_whole() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: a full disk: mounting one needs root");
    }
    let upstream = Upstream::start(of_size);
    let middle = http2_before(&upstream);
    for has_small_disk in [false, true].into_iter().filter(|small| is_root || !small) {
        let site = Site::new();
        let server = spooling(&middle, &site, has_small_disk);
        let (mut slow, asked) = (server.connect(), upstream.asked().len());
        slow.send(get(&format!("/chunked/{LARGE}")));
        wait_until("the large one is asked for", || upstream.asked().len() > asked);
        wait_until("a line about the disk", || server.stderr().concat().contains("cannot spool a response"));
        let mut other = server.connect();
        other.send(get("/length/100"));
        assert_eq!(slow.head().0, 200);
        assert!(chunks(&mut slow).0 == content(LARGE), "small disk: {has_small_disk}");
        assert_eq!(other.response().body, content(100));
        server.assert_alive();
    }
}

fn over_tls(to: &Server, site: &Site, keys: &str) -> Server {
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"h2://localhost:{}\"]\n{keys}\n",
        to.address.port()
    );
    site.write("weir.toml", text.as_bytes());
    Server::run(&site.path("weir.toml"))
}

#[test]
fn over_tls_it_is_agreed_on() {
    let site = Site::of_sizes(&[100_000]);
    let made = Made::new(&site, "a", &["localhost"]);
    let upstream = Server::start(&site, &made.flags());
    let keys = format!("tls_ca = \"{}\"", made.cert.display());
    let server = over_tls(&upstream, &Site::new(), &keys);
    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.get("/size-100000");
        assert!(response.status == 200 && response.body == content(100_000), "{:?}", server.stderr());
        assert_eq!(response.field("Via"), Some("2 weir"));
    }
}
