//! Which names are served, in which form, and which are not.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::common::{Client, Response, Server, Site, get, on_every_path, wait_until};
use crate::http3::Asking;

fn site() -> Site {
    let site = Site::with(&[
        ("index.html", b"front"),
        ("a.txt", b"hello\n"),
        ("a b", b"space"),
        ("\u{e4}.txt", b"umlaut"),
        ("sub/index.html", b"below"),
        ("bare/x", b"x"),
        ("bare/.hidden", b"hidden"),
        (".secret", b"secret"),
        (".well-known/acme", b"known"),
        (".git/config", b"secret"),
    ]);
    std::fs::write(site.outside("treasure"), "treasure").unwrap();
    std::fs::create_dir(site.outside("site-beside")).unwrap();
    std::fs::write(site.outside("site-beside/treasure"), "treasure").unwrap();
    site.link("a.txt", "inside");
    site.link("../treasure", "out");
    site.link("..", "up");
    site.link(site.outside("treasure"), "absolute");
    site.link("/etc/passwd", "passwd");
    site.link("/proc/self", "proc");
    site.link("out", "twice");
    site.link("loop", "loop");
    site
}

#[test]
fn names_that_are_served() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for (target, body) in [
            ("/", "front"),
            ("/?q=1", "front"),
            ("/index.html", "front"),
            ("/a.txt", "hello\n"),
            ("/a.txt?v=2", "hello\n"),
            ("/a%2etxt", "hello\n"),
            ("/%61.txt", "hello\n"),
            ("/a%20b", "space"),
            ("/%C3%A4.txt", "umlaut"),
            ("/sub/", "below"),
            ("/inside", "hello\n"),
            ("/.well-known/acme", "known"),
            ("http://a/a.txt", "hello\n"),
            ("http://a", "front"),
        ] {
            let response = client.get(target);
            assert_eq!((response.status, response.text()), (200, body), "{target}");
        }
    });
}

#[test]
fn names_that_are_not() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for (target, status) in [
            ("/missing", 404),
            ("/a.txt/", 404),
            ("/a.txt/b", 404),
            ("/sub/missing/x", 404),
            ("/A.TXT", 404),
            ("/.secret", 404),
            ("/.git/config", 404),
            ("/bare/.hidden", 404),
            ("/%2esecret", 404),
            ("/bare/", 403),
            ("/out", 404),
            ("/up/treasure", 404),
            ("/up/site/a.txt", 404),
            ("/absolute", 404),
            ("/passwd", 404),
            ("/proc/environ", 404),
            ("/twice", 404),
            ("/loop", 404),
            ("/...", 404),
            ("/%ff", 404),
            ("/%252e%252e/treasure", 404),
            (&format!("/{}", "x".repeat(300)), 404),
            (&format!("/{}x", "x/".repeat(3000)), 404),
        ] {
            assert_eq!(checked(client.get(target)).status, status, "{target}");
        }
    });
}

const TRICKS: &[&str] = &[
    "/..",
    "/../treasure",
    "/sub/../../treasure",
    "/%2e%2e/treasure",
    "/%2E%2e/treasure",
    "/.%2e/treasure",
    "/..%2ftreasure",
    "/..%2Ftreasure",
    "/%2e%2e%2ftreasure",
    "/..%5ctreasure",
    "/..\\treasure",
    "/%c0%ae%c0%ae/treasure",
    "/..%c0%aftreasure",
    "/%e0%80%ae%e0%80%ae/treasure",
    "/%u002e%u002e/treasure",
    "/..%00/treasure",
    "/a.txt%00.html",
    "/a.txt%0d%0aX:y",
    "/..;/treasure",
    "//../etc/passwd",
    "/sub//%5Cindex.html",
    "/%",
    "/%zz",
    "/%2",
    "/%ff/../../treasure",
    "/%e9%00",
    "/%e9%0d%0aX:y",
    "http://a/../treasure",
];

/// Refused with 400 and a close, whatever exists.
#[test]
fn paths_that_are_tricks() {
    on_every_path(&site(), &["--autoindex", "--serve-dotfiles"], |server| {
        for &target in TRICKS {
            let mut client = server.connect();
            client.send(get(target) + &get("/a.txt"));
            let response = checked(client.response());
            if target == "/..;/treasure" {
                // An ordinary name, which just does not exist here.
                assert_eq!(response.status, 404);
                continue;
            }
            assert_eq!((response.status, response.field("Connection")), (400, Some("close")), "{target}");
            client.assert_end();
        }
    });
}

/// `//a` and `/a` are one file, and a redirect leads to its only address. The text after the slashes never becomes a
/// host.
#[test]
fn empty_segments_are_left_out_by_a_redirect() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for (target, location) in [
            ("//a.txt", "/a.txt"),
            ("/sub//index.html?a=//b", "/sub/index.html?a=//b"),
            ("//", "/"),
            ("/sub///", "/sub/"),
            ("///evil.example//x", "/evil.example/x"),
            ("http://a//a%20b", "/a%20b"),
        ] {
            let response = client.get(target);
            assert_eq!((response.status, response.field("Location")), (308, Some(location)), "{target}");
            assert_ne!(client.get(location).status, 308, "{target}");
        }
    });
}

/// Crawlers and feed readers join `../a` to a page's address without resolving it. The redirect never leads out of the
/// root.
#[test]
fn dot_segments_are_resolved_by_a_redirect() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for (target, location) in [
            ("/sub/../a.txt", "/a.txt"),
            ("/./a.txt?a=/../b", "/a.txt?a=/../b"),
            ("/sub/%2e%2E/a.txt", "/a.txt"),
            ("/sub/x/..", "/sub/"),
            ("//a.txt/..", "/"),
            ("/sub/..//evil.example/", "/evil.example/"),
            ("http://a/sub/./index.html", "/sub/index.html"),
        ] {
            let response = client.get(target);
            assert_eq!((response.status, response.field("Location")), (308, Some(location)), "{target}");
            assert_ne!(client.get(location).status, 400, "{target}");
        }
    });
}

/// curl and older clients send the characters of an address as they were typed.
#[test]
fn targets_in_utf8_are_those_that_are_encoded() {
    let site = Site::with(&[("caf\u{e9}.txt", b"utf-8"), ("\u{e9}/a", b"below")]);
    let log = site.outside("log");
    on_every_path(&site, &["--access-log", log.to_str().unwrap()], |server| {
        let mut client = server.connect();
        assert_eq!(client.get("/caf\u{e9}.txt?\u{20ac}").text(), "utf-8");
        let moved = client.get("/\u{e9}?\u{e9}=1");
        assert_eq!((moved.status, moved.field("Location")), (308, Some("/%C3%A9/?%C3%A9=1")));
        // A control character of Latin-1.
        assert_eq!(client.get("/\u{85}").status, 400);
        let line = r#""GET /caf\xC3\xA9.txt?\xE2\x82\xAC HTTP/1.1" 200 "#;
        wait_until("its line", || fs::read_to_string(&log).unwrap().contains(line));
        fs::write(&log, "").unwrap();
    });
}

/// Checks that a response has no bytes from outside the folder.
fn checked(response: Response) -> Response {
    for leak in ["treasure", "secret", "root:"] {
        assert!(!response.body.windows(leak.len()).any(|bytes| bytes == leak.as_bytes()), "{}", response.text());
    }
    response
}

#[test]
fn folders_are_redirected_to_their_slash() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        for (target, location) in [
            ("/sub", "/sub/"),
            ("/sub?a=b&c=/d?e", "/sub/?a=b&c=/d?e"),
            ("/sub?", "/sub/?"),
            ("/bare", "/bare/"),
            ("/s%75b", "/sub/"),
            ("http://elsewhere/sub", "/sub/"),
        ] {
            let response = client.get(target);
            assert_eq!((response.status, response.field("Location")), (308, Some(location)), "{target}");
        }
    });
}

#[test]
fn hidden_names_are_served_when_asked_for() {
    let site = site();
    let server = Server::start(&site, &["--serve-dotfiles"]);
    let mut client = server.connect();
    assert_eq!(client.get("/.secret").text(), "secret");
    assert_eq!(client.get("/bare/.hidden").text(), "hidden");
}

#[test]
fn listings() {
    let site = Site::with(&[("d/a b&<i>\".txt", b"12345"), ("d/.hidden", b""), ("d/sub/x", b""), ("d/\u{e4}", b"")]);
    site.link("/etc/passwd", "d/out");
    on_every_path(&site, &["--autoindex"], |server| {
        let mut client = server.connect();
        let page = client.get("/d/");
        assert_eq!((page.status, page.field("Content-Type")), (200, Some("text/html; charset=utf-8")));
        for wanted in
            ["a b&amp;&lt;i&gt;&quot;.txt</a>", ">5 B</td>", "href=\"sub/\"", "href=\"../\"", "href=\"%C3%A4\""]
        {
            assert!(page.text().contains(wanted), "no {wanted} in {}", page.text());
        }
        for unwanted in [".hidden", "out", "<i>"] {
            assert!(!page.text().contains(unwanted), "{unwanted} in {}", page.text());
        }
        every_link_leads_somewhere(&mut client, page.text());
        site.write("d/later", b"");
        assert!(client.get("/d/").text().contains("later"), "the listing is old");
        std::fs::remove_file(site.path("d/later")).unwrap();
        assert_eq!(client.get("/").status, 200);
    });
}

fn every_link_leads_somewhere(client: &mut Client, page: &str) {
    for link in page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        if link != "../" {
            assert_eq!(client.get(&format!("/d/{link}")).status, 200, "{link}");
        }
    }
}

#[test]
fn media_types() {
    let types = [
        ("a.html", "text/html; charset=utf-8"),
        ("a.HTM", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.png", "image/png"),
        ("a.jpg", "image/jpeg"),
        ("a.svg", "image/svg+xml"),
        ("a.webp", "image/webp"),
        ("a.woff2", "font/woff2"),
        ("a.wasm", "application/wasm"),
        ("a.pdf", "application/pdf"),
        ("a.mp4", "video/mp4"),
        ("a.tar.gz", "application/gzip"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("README", "text/plain; charset=utf-8"),
        ("a.unheard-of", "text/plain; charset=utf-8"),
    ];
    let files: Vec<(&str, &[u8])> = types.iter().map(|(name, _)| (*name, &b"x"[..])).collect();
    let site = Site::with(&files);
    let server = Server::start(&site, &[]);
    let mut client = server.connect();
    for (name, kind) in types {
        assert_eq!(client.get(&format!("/{name}")).field("Content-Type"), Some(kind), "{name}");
    }
}

/// A file without permission to read, and things that are not files. Root may read everything, so as root the first is
/// served.
#[test]
fn what_cannot_be_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::with(&[("locked", b"x")]);
    std::fs::set_permissions(site.path("locked"), PermissionsExt::from_mode(0o0)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, site.path("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    let locked = if rustix::process::geteuid().is_root() { 200 } else { 403 };
    on_every_path(&site, &[], |server| {
        let mut client = server.connect();
        assert_eq!(client.get("/locked").status, locked);
        for target in ["/fifo", "/socket"] {
            let status = client.get(target).status;
            assert!(status == 403 || status == 404, "{target} gives {status}");
        }
    });
}

/// Names in Latin-1, as in an old archive.
fn latin_site() -> Site {
    let site = Site::with(&[("index.html", b"front")]);
    let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    site.write(name(b"caf\xe9/\xdcber \xff.txt"), b"latin");
    site.write(name(b"caf\xe9/sub/a"), b"below");
    site.write("caf\u{e9}/index.html", b"utf-8");
    site
}

const LATIN: &str = "/caf%E9/%DCber%20%FF.txt";
const LATIN_ROW: &str = "<a href=\"%DCber%20%FF.txt\">\u{fffd}ber \u{fffd}.txt</a>";

#[test]
fn names_that_are_not_utf8_are_served_byte_for_byte() {
    on_every_path(&latin_site(), &["--autoindex"], |server| {
        let mut client = server.connect();
        for (target, status, body) in [
            (LATIN, 200, "latin"),
            ("/caf%e9/%dcber%20%ff.txt", 200, "latin"),
            ("/caf%E9/sub/a", 200, "below"),
            ("/caf%C3%A9/", 200, "utf-8"),
            ("/caf%EF%BF%BD/sub/a", 404, "404 Not Found\nnothing is here\n"),
            ("/caf%E9/%DC", 404, "404 Not Found\nnothing is here\n"),
        ] {
            let response = client.get(target);
            assert_eq!((response.status, response.text()), (status, body), "{target}");
        }
        let listed = client.get("/caf%E9/");
        assert!(listed.status == 200 && listed.text().contains(LATIN_ROW), "{}", listed.text());
        let moved = client.get("/caf%e9/sub?q");
        assert_eq!((moved.status, moved.field("location")), (308, Some("/caf%E9/sub/?q")));
    });
}

#[test]
fn names_that_are_not_utf8_are_served_over_http2_and_http3_and_logged_as_text() {
    for (format, line) in [("combined", format!("\"GET {LATIN} HTTP/")), ("json", format!("\"uri\":\"{LATIN}\""))] {
        let site = latin_site();
        let log = site.outside("log");
        let log_flags = ["--access-log", log.to_str().unwrap(), "--log-format", format];
        let server = Server::start(&site, &[&["--tls-self-signed", "--autoindex"][..], &log_flags].concat());
        let curl = |target: &str| {
            let url = format!("https://localhost:{}{target}", server.address.port());
            let curl = Command::new("curl").args(["-skS", "--max-time", "60", "--http2", &url]).output().unwrap();
            String::from_utf8(curl.stdout).unwrap()
        };
        assert_eq!(curl(LATIN), "latin");
        assert!(curl("/caf%E9/").contains(LATIN_ROW) && curl("/caf%E9/sub").contains("/caf%E9/sub/"));
        let mut asking = Asking::to(&server);
        assert_eq!(asking.get(LATIN).body, b"latin");
        let moved = asking.get("/caf%E9/sub");
        assert_eq!((moved.field(":status"), moved.field("location")), (Some("308"), Some("/caf%E9/sub/")));
        wait_until("five lines", || fs::read(&log).unwrap().iter().filter(|byte| **byte == b'\n').count() == 5);
        let text = String::from_utf8(fs::read(&log).unwrap()).expect("a log is text");
        assert_eq!(text.lines().filter(|logged| logged.contains(&line)).count(), 2, "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
    }
}
