//! A server that decides whether clients are let in, as in single sign-on.

use std::process::Command;

use crate::common::{Asked, Upstream, answer, answer_last, content};
use crate::http3::Asking;
use crate::spellings::{Guarded, SPELLINGS, post_by_curl};

const LET_IN: &[u8] =
    b"HTTP/1.1 200 OK\r\nRemote-User: ada\r\nRemote-Groups: a\r\nRemote-Groups: b\r\nX-Other: x\r\nContent-Length: 2\r\n\r\nok";

/// A server that lets in clients with a cookie, and answers the others according to their request.
fn server() -> Upstream {
    Upstream::start(|asked, socket| {
        let uri = asked.field("X-Forwarded-Uri").unwrap_or_default().to_string();
        let is_in = asked.field("Cookie").is_some_and(|cookie| cookie.contains("session=ada"));
        match () {
            () if uri.ends_with("/large") => {
                let head = format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n", LARGE);
                answer(socket, &[head.as_bytes(), &content(LARGE)])
            }
            () if uri.ends_with("/early") => {
                answer(socket, &[b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", LET_IN])
            }
            () if uri.ends_with("/chunked") => {
                let chunk = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{LARGE:x}\r\n");
                answer_last(socket, &[chunk.as_bytes(), &content(LARGE), b"\r\n0\r\n\r\n"])
            }
            () if uri.ends_with("/huge") => {
                let head = format!("HTTP/1.1 200 OK\r\nRemote-User: ada\r\nContent-Length: {}\r\n\r\n", LARGE);
                answer_last(socket, &[head.as_bytes(), &content(LARGE)])
            }
            () if uri.ends_with("/closed") => false,
            () if uri.ends_with("/broken") => answer(socket, &[b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"]),
            () if uri.ends_with("/basic") => answer(
                socket,
                &[b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"\r\nContent-Length: 0\r\n\r\n"],
            ),
            () if is_in => answer(socket, &[LET_IN]),
            () => answer(
                socket,
                &[b"HTTP/1.1 302 Found\r\nLocation: https://auth.test/?rd=1\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\nsee"],
            ),
        }
    })
}

const LARGE: usize = 300_000;

struct Single {
    auth: Upstream,
    guarded: Guarded,
}

fn asked_first(more: &str) -> Single {
    let auth = server();
    let rule = format!(
        "[[site.access]]\npath = \"/old/*\"\nauth_url = \"http://{}/verify?a=b\"\n\
        copy_headers = [\"Remote-User\", \"Remote-Groups\", \"Remote-Name\"]\nauth_timeout = \"2s\"\n{more}",
        auth.address
    );
    Single { guarded: Guarded::new(&rule), auth }
}

impl Single {
    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.guarded.server.address.port())
    }

    /// The head of the response, in lower case, and its body.
    fn curl(&self, arguments: &[&str], path: &str) -> (String, Vec<u8>) {
        let said = Command::new("curl")
            .args(["-skSi", "--max-time", "60"])
            .args(arguments)
            .arg(self.url(path))
            .output()
            .unwrap();
        let end = said.stdout.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |end| end + 4);
        let head = String::from_utf8_lossy(&said.stdout[..end]).to_ascii_lowercase();
        assert!(!head.is_empty(), "{path}: {}", String::from_utf8_lossy(&said.stderr));
        (head, said.stdout[end..].to_vec())
    }
}

#[test]
fn who_is_let_in_reaches_the_program_with_what_is_said_of_him() {
    let asked = asked_first("[[site.rewrite]]\nfrom = \"/pub/*\"\nto = \"/*\"\n");
    let spoofed =
        ["-H", "Cookie: session=ada", "-H", "Remote-User: root", "-H", "Remote-Name: R", "-H", "If-None-Match: \"x\""];
    for version in ["--http1.1", "--http2"] {
        for path in ["/old/x?q", "/pub/old/x?q", "/old/early", "/old/x?q"] {
            let (head, body) = asked.curl(&[&[version][..], &spoofed].concat(), path);
            assert!(head.contains(" 200") && body == b"program" && !head.contains(" 103"), "{version} {path}: {head}");
            assert!(head.contains("cache-control: private"), "{head}");
            let (shown, got): (Asked, Asked) =
                (asked.auth.asked().last().unwrap().clone(), asked.guarded.upstream.asked().last().unwrap().clone());
            assert_eq!(shown.head.lines().next(), Some("GET /verify?a=b HTTP/1.1"));
            let field = |name: &str| shown.field(name).map(str::to_owned);
            let of_request = ["X-Forwarded-Method", "X-Forwarded-Uri"].map(field);
            assert_eq!(of_request, [Some("GET".into()), Some(path.into())]);
            let others = ["X-Forwarded-Proto", "If-None-Match", "Remote-User"].map(field);
            assert_eq!(others, [Some("https".into()), None, None]);
            assert_eq!(field("Host"), Some(asked.auth.address.to_string()));
            assert!(field("X-Forwarded-Host").is_some_and(|host| host.starts_with("localhost")));
            assert_eq!((got.field("Remote-User"), got.field("Remote-Groups")), (Some("ada"), Some("a, b")));
            assert_eq!((got.field("Remote-Name"), got.field("X-Other")), (None, None), "{}", got.head);
            assert!(got.field("If-None-Match").is_some() && got.head.matches("Remote-User").count() == 1);
        }
    }
    // A query that a client has not encoded: both get one spelling. (curl encodes paths by itself.)
    asked.curl(&["-H", "Cookie: session=ada"], "/old/x?\u{e9}");
    let shown = asked.auth.asked().last().unwrap().clone();
    assert_eq!(shown.field("X-Forwarded-Uri"), Some("/old/x?%C3%A9"));
    let mut asking = Asking::to(&asked.guarded.server);
    let stream = asking.ask_with("/old/y", &[("cookie", "session=ada"), ("remote-user", "root")]);
    assert_eq!(asking.answer(stream).field(":status"), Some("200"));
    assert_eq!(asked.guarded.upstream.asked().last().unwrap().field("Remote-User"), Some("ada"));
    let connections: Vec<usize> = asked.auth.asked().iter().map(|asked| asked.connection).collect();
    assert!(connections.iter().all(|&connection| connection < 3), "connections are used again: {connections:?}");
    // No decision is requested for other paths.
    let before = asked.auth.asked().len();
    assert_eq!(asked.guarded.statuses(&mut asking, "/new"), [200; 3]);
    assert_eq!(asked.auth.asked().len(), before);
}

#[test]
fn other_answers_are_the_clients() {
    let asked = asked_first("");
    for version in ["--http1.1", "--http2"] {
        let (head, body) = asked.curl(&[version], "/old/x");
        assert!(head.contains(" 302") && body == b"see", "{head}");
        assert!(head.contains("location: https://auth.test/?rd=1") && head.contains("set-cookie: a=b"), "{head}");
        let (head, _) = asked.curl(&[version], "/old/basic");
        assert!(head.contains(" 401") && head.contains("www-authenticate: basic realm=\"a\""), "{head}");
        let (head, body) = asked.curl(&[version], "/old/broken");
        assert!(head.contains(" 503") && body == b"busy", "{head}");
        let (head, body) = asked.curl(&[version], "/old/large");
        assert!(head.contains(" 403") && body == content(LARGE), "{head}");
        let (head, _) = asked.curl(&[version], "/old/closed");
        assert!(head.contains(" 502"), "{head}");
        // The response that lets a client in may have any length.
        let (head, body) = asked.curl(&[version], "/old/huge");
        assert!(head.contains(" 200") && body == b"program", "{head}");
        let (head, _) = asked.curl(&[version], "/old/chunked");
        assert!(head.contains(" 200"), "{head}");
    }
    let paths: Vec<String> = asked.guarded.upstream.asked().iter().map(|asked| asked.path().to_string()).collect();
    assert!(paths.iter().all(|path| ["/old/huge", "/old/chunked"].contains(&&**path)), "{paths:?}");
}

#[test]
fn no_spelling_leads_past_the_server_that_is_asked() {
    let asked = asked_first("[[site.rewrite]]\nfrom = \"/pub/*\"\nto = \"/*\"\n");
    let mut asking = Asking::to(&asked.guarded.server);
    for path in SPELLINGS {
        for path in [path.to_string(), format!("/pub{path}")] {
            for status in asked.guarded.statuses(&mut asking, &path) {
                assert!(matches!(status, 302 | 308 | 400), "{path}: {status}");
            }
            assert!(asked.guarded.upstream.asked().is_empty(), "{path} reaches the program");
        }
    }
}

/// The body waits with the client until the client is let in, and the deciding server gets none of it.
#[test]
fn a_body_is_for_the_program_alone() {
    let asked = asked_first("");
    for (cookie, status, count) in [("session=ada", "200", 1), ("none", "302", 0)] {
        for version in ["--http1.1", "--http2"] {
            for length in [vec!["--data-binary", "@-"], vec!["-T", "-"]] {
                let before = asked.guarded.upstream.asked().len();
                let words = [&[version, "-b", cookie][..], &length].concat();
                assert_eq!(post_by_curl(&words, &asked.url("/old/x")), status, "{words:?}");
                assert_eq!(asked.guarded.upstream.asked().len() - before, count, "{version} {length:?} {cookie}");
                let shown = asked.auth.asked().pop().unwrap();
                assert!(shown.head.starts_with("GET ") && shown.field("X-Forwarded-Method") == Some("POST"));
                assert!(shown.field("Content-Length").is_none() && shown.field("Transfer-Encoding").is_none());
            }
        }
    }
}

#[test]
fn a_server_that_is_away_or_silent_lets_nobody_in() {
    let silent = Upstream::start(|_, _| {
        std::thread::sleep(std::time::Duration::from_secs(30));
        false
    });
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, status) in [(away, 502), (silent.address, 504)] {
        let rule = format!("[[site.access]]\nauth_url = \"http://{address}/verify\"\nauth_timeout = \"1s\"\n");
        let guarded = Guarded::new(&rule);
        let mut asking = Asking::to(&guarded.server);
        assert_eq!(guarded.statuses(&mut asking, "/x"), [status; 3]);
        assert!(guarded.upstream.asked().is_empty());
        let lines = guarded.server.stderr();
        assert!(lines.iter().any(|line| line.contains(&address.to_string())), "{lines:?}");
    }
}
