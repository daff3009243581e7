//! Pages of a program as dictionaries of its later ones (RFC 9842), over TLS.

use std::io::Read;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::common::tls::{Made, Trust};
use crate::common::{Server, Site, Upstream, answer, answer_last, wait_until};
use crate::http3::Asking;

const TOKENS: &str = "gzip, br, zstd, dcb, dcz";
/// The frame before those of Zstandard (RFC 9842 section 5), followed by the digest.
const MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

/// A page whose lines contain nothing that a coding finds twice in it.
fn page(title: &str) -> Vec<u8> {
    let lines = (0..600_u32).map(|at| format!("<li>{:08x}\n", at.wrapping_mul(2_654_435_761) ^ 0xabcd_1234));
    format!("<title>{title}</title>\n{}", lines.collect::<String>()).into_bytes()
}

/// A program with pages; `/cut` ends in the middle, `/coded` announces gzip and sends text, `/own` belongs to its
/// visitor.
fn program() -> Upstream {
    Upstream::start(|asked, socket| {
        let path = asked.path().to_string();
        let body = page(&path);
        let more = match &*path {
            "/coded" => "\r\nContent-Encoding: gzip",
            "/own" => "\r\nSet-Cookie: a=b",
            _ => "",
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=60{more}\r\n");
        match &*path {
            "/cut" => answer_last(
                socket,
                &[head.as_bytes(), format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body[..3_000]],
            ),
            "/chunked" => {
                let chunks = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
                answer(socket, &[head.as_bytes(), chunks.as_bytes(), &body, b"\r\n0\r\n\r\n"])
            }
            _ => {
                answer(socket, &[head.as_bytes(), format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body])
            }
        }
    })
}

struct Bench {
    server: Server,
    trust: Trust,
    _program: Upstream,
}

/// The response to one request.
struct Got {
    head: String,
    body: Vec<u8>,
}

impl Bench {
    fn new(keys: &str) -> Bench {
        let (site, program) = (Site::new(), program());
        let made = Made::new(&site, "a", &["localhost"]);
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n[[site]]\n{keys}\ncert = {:?}\nkey = {:?}\n[[site.proxy]]\nto = [\"http://{}\"]\n",
            made.cert, made.key, program.address
        );
        site.write("weir.toml", text.as_bytes());
        Bench { server: Server::run(&site.path("weir.toml")), trust: made.trust(), _program: program }
    }

    /// Sends a request over a separate connection; the body consists of the bytes until its end.
    fn ask(&self, path: &str, lines: &str) -> Got {
        let mut client = self.trust.connect(self.server.address, "localhost");
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n"));
        let (head, mut body) = (client.head(), Vec::new());
        let _ = client.stream.read_to_end(&mut body);
        Got { head, body }
    }

    /// Sends a request as a browser does that has this page.
    fn with(&self, path: &str, dictionary: &[u8]) -> Got {
        let digest = STANDARD.encode(digest_of(dictionary));
        self.ask(
            path,
            &format!(
                "Accept-Encoding: {TOKENS}\r\nSec-Fetch-Site: same-origin\r\nAvailable-Dictionary: :{digest}:\r\n"
            ),
        )
    }

    fn first(&self, path: &str) -> Got {
        self.ask(path, &format!("Accept-Encoding: {TOKENS}\r\nSec-Fetch-Site: none\r\n"))
    }
}

impl Got {
    fn field(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    fn is_with_dictionary(&self) -> bool {
        self.field("Content-Encoding") == "dcz"
    }
}

fn digest_of(bytes: &[u8]) -> [u8; 32] {
    server::digest_of(bytes)
}

/// The page that was read makes the next one short, over HTTP/1.1 and HTTP/3, whichever of them carried it.
#[test]
fn the_next_page_of_a_program_is_what_is_new() {
    let bench = Bench::new("upstream_dictionaries = true");
    let first = bench.first("/a");
    assert_eq!(first.field("Use-As-Dictionary"), "match=\"/*\", match-dest=(\"document\")");
    assert!(first.field("Content-Encoding") == "zstd" && first.body.len() > 1_000, "{}", first.head);
    for path in ["/b", "/chunked"] {
        // Another thread stores it.
        wait_until("page that is kept", || bench.with(path, &page("/a")).is_with_dictionary());
        let next = bench.with(path, &page("/a"));
        assert!(next.body.len() < 200, "{path}: {}", next.body.len());
        let digest = digest_of(&page("/a"));
        assert!(next.body.windows(40).any(|part| part[..8] == MAGIC && part[8..] == digest), "{path}");
        assert_eq!(
            next.field("Use-As-Dictionary"),
            format!("match=\"/{{{}}}\", match-dest=(\"document\")", &path[1..])
        );
        assert_eq!(next.field("Vary"), "Accept-Encoding, Available-Dictionary, Sec-Fetch-Site");
    }
    let mut asking = Asking::to(&bench.server);
    let digest = format!(":{}:", STANDARD.encode(digest_of(&page("/a"))));
    let fields = [("accept-encoding", TOKENS), ("sec-fetch-site", "same-origin"), ("available-dictionary", &*digest)];
    let stream = asking.ask_with("/c", &fields);
    let came = asking.answer(stream);
    assert_eq!((came.field("content-encoding"), came.body.len() < 200), (Some("dcz"), true));
}

/// Whatever a client claims to have, and whatever the program does, a page is sent as it is or in another coding.
#[test]
fn what_is_wrong_leaves_the_page() {
    let bench = Bench::new("upstream_dictionaries = true");
    for path in ["/a", "/cut", "/coded", "/own", "/a?q=x"] {
        let got = bench.first(path);
        assert_eq!(got.field("Use-As-Dictionary").is_empty(), !["/a", "/cut"].contains(&path), "{path}");
    }
    wait_until("page that is kept", || bench.with("/b", &page("/a")).is_with_dictionary());
    // Pages are stored in order, so the earlier ones will not be stored any more.
    for other in ["/cut", "/coded", "/own", "/a?q=x", "/never"] {
        assert!(!bench.with("/b", &page(other)).is_with_dictionary(), "{other}");
    }
    assert!(!bench.with("/b", &page("/cut")[..3_000]).is_with_dictionary());
    let digest = STANDARD.encode(digest_of(&page("/a")));
    let good = format!("Accept-Encoding: {TOKENS}\r\nAvailable-Dictionary: :{digest}:\r\n");
    for lines in [
        good.clone(),
        format!("{good}Sec-Fetch-Site: cross-site\r\n"),
        format!("{good}Sec-Fetch-Site: none\r\nCookie: a=b\r\n"),
        format!("{good}Sec-Fetch-Site: none\r\nAvailable-Dictionary: :{digest}:\r\n"),
        format!(
            "Accept-Encoding: {}dcz\r\nAvailable-Dictionary: :{digest}:\r\nSec-Fetch-Site: none\r\n",
            "x,".repeat(5_000)
        ),
        format!("Accept-Encoding: dcz\r\nAvailable-Dictionary: {}\r\nSec-Fetch-Site: none\r\n", "A".repeat(9_000)),
    ] {
        let got = bench.ask("/b", &lines);
        assert!(got.head.starts_with("HTTP/1.1 200 ") && !got.is_with_dictionary(), "{}", got.head);
    }
    let off = Bench::new("");
    let got = off.first("/a");
    assert!(got.field("Use-As-Dictionary").is_empty() && got.field("Content-Encoding") == "zstd");
    std::thread::sleep(Duration::from_millis(50));
    assert!(!off.with("/b", &page("/a")).is_with_dictionary());
}
