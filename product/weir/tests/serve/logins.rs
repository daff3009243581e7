//! Paths that need a password, over every protocol.

use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;

use crate::common::{Client, Server, Site, WEIR, wait_until};
use crate::http3::Asking;
use crate::spellings::{Guarded, SPELLINGS, post_by_curl};

/// `ada:right` and others in Base64.
const RIGHT: &str = "Basic YWRhOnJpZ2h0";
const WRONG: &str = "Basic YWRhOndyb25n";
const EVE: &str = "Basic ZXZlOnJpZ2h0";

const RULE: &str = "[[site.access]]\npath = \"/old/*\"\nusers = \"users\"\nrealm = \"Home\"\n";

fn users() -> String {
    format!("# the users\nada:{}\n", bcrypt::hash("right", 4).unwrap())
}

fn guarded(rule: &str, keys: &str) -> Guarded {
    Guarded::with_files(rule, keys, &[("users", &users())])
}

fn get(path: &str, login: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {login}\r\n\r\n")
}

/// A server of files without TLS, with this text about access.
fn files(access: &str) -> (Server, Site) {
    let site = Site::with(&[("a", b"a"), ("in/b", b"b")]);
    std::fs::write(site.outside("users"), users()).unwrap();
    let root = site.served();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n\
        [[site.cache]]\npath = \"*\"\ncontrol = \"public\"\n{access}",
        root.display()
    );
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    (Server::run(&site.outside("weir.toml")), site)
}

const INSIDE: &str = "[[site.access]]\npath = \"/in/*\"\nusers = \"users\"\n";

#[test]
fn a_file_needs_its_password() {
    let (server, _site) = files(INSIDE);
    let mut client = server.connect();
    let asked = client.get("/in/b");
    assert_eq!(asked.status, 401);
    assert_eq!(asked.field("WWW-Authenticate"), Some("Basic realm=\"restricted\", charset=\"UTF-8\""));
    // In one write, both with verdicts that must be waited for and without.
    client.send(
        [get("/in/b", WRONG), get("/in/b", RIGHT), get("/a", WRONG), get("/in/b", EVE), get("/in/b", RIGHT)].concat(),
    );
    let statuses = [(); 5].map(|()| client.response());
    assert_eq!(statuses.each_ref().map(|response| response.status), [401, 200, 200, 401, 200]);
    assert_eq!((statuses[1].text(), statuses[1].field("Cache-Control")), ("b", Some("private")));
    client.send(get("/in/b", RIGHT).replace("GET", "HEAD"));
    assert_eq!(client.response_to_head().status, 200);
    for (target, status) in [("/in//b", 308), ("/%69n/b", 200), ("/in/none", 404), ("/in%2Fb", 400), ("/in/../a", 308)]
    {
        let mut client = server.connect();
        client.send(get(target, RIGHT));
        assert_eq!(client.response().status, status, "{target}");
    }
    for login in ["", "Basic", "Basic x", "Bearer YWRhOnJpZ2h0", &format!("{RIGHT}\r\nAuthorization: {RIGHT}")] {
        let mut client = server.connect();
        client.send(get("/in/b", login));
        assert_eq!(client.response().status, 401, "{login}");
    }
    for bytes in [3000, 60_000] {
        let mut client = server.connect();
        client.send(get("/in/b", &format!("Basic YWRh{}", "YWFh".repeat(bytes / 4))));
        assert_eq!(client.response().status, 401, "a password of {bytes} bytes");
    }
    let mut client = server.connect();
    client.send(get("/in/b", &format!("Basic YWRh{}", "YWFh".repeat(1 << 18))));
    assert_eq!(client.response().status, 431, "a password of a megabyte");
}

#[test]
fn a_program_needs_its_password_over_every_protocol() {
    let rule = format!(
        "{RULE}[[site.request_header]]\nname = \"X-Remote-User\"\nvalue = \"{{user}}\"\n\
        [[site.rewrite]]\nfrom = \"/pub/*\"\nto = \"/*\"\n"
    );
    let guarded = guarded(&rule, "");
    let mut asking = Asking::to(&guarded.server);
    for path in SPELLINGS {
        for path in [path.to_string(), format!("/pub{path}")] {
            for status in guarded.statuses(&mut asking, &path) {
                assert!(matches!(status, 401 | 308 | 400), "{path}: {status}");
            }
            assert!(guarded.upstream.asked().is_empty(), "{path} reaches the program");
        }
    }
    let url = format!("https://localhost:{}/old/x", guarded.server.address.port());
    for (login, status) in [("ada:wrong", "401"), ("ada:right", "200"), ("eve:right", "401"), ("ada:right", "200")] {
        for version in ["--http1.1", "--http2"] {
            let said = Command::new("curl")
                .args(["-skS", "--max-time", "60", version, "-u", login, "-o", "/dev/null", "-w", "%{http_code}", &url])
                .args(["-H", "X-Remote-User: root"])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout), status, "{version} {login}");
        }
    }
    for (login, status) in [(WRONG, "401"), (RIGHT, "200"), (EVE, "401")] {
        let stream = asking.ask_with("/old/y", &[("authorization", login), ("x-remote-user", "root")]);
        assert_eq!(asking.answer(stream).field(":status"), Some(status), "{login}");
    }
    let asked = guarded.upstream.asked();
    assert_eq!(asked.len(), 5);
    assert!(asked.iter().all(|asked| asked.field("X-Remote-User") == Some("ada")), "{asked:?}");
    assert_eq!(guarded.statuses(&mut asking, "/new"), [200; 3]);
    assert_eq!(guarded.upstream.asked().last().unwrap().field("X-Remote-User"), Some(""));
}

/// The body waits for the verdict with the client. If the client is not let in, no upstream gets the body.
#[test]
fn bodies_wait_for_the_verdict() {
    let guarded = guarded(RULE, "");
    let url = format!("https://localhost:{}/old/x", guarded.server.address.port());
    for (login, status, count) in [("ada:right", "200", 1), ("ada:wrong", "401", 0), ("eve:right", "401", 0)] {
        for version in ["--http1.1", "--http2"] {
            for length in [vec!["--data-binary", "@-"], vec!["-T", "-"]] {
                let before = guarded.upstream.asked().len();
                let words = [&[version, "-u", login][..], &length].concat();
                assert_eq!(post_by_curl(&words, &url), status, "{words:?}");
                assert_eq!(guarded.upstream.asked().len() - before, count, "{version} {length:?} {login}");
            }
        }
    }
}

/// A client that makes several wrong guesses is stopped; others, and a user who was let in before, are not affected.
#[test]
fn a_client_that_guesses_is_stopped() {
    let (server, _site) = files(INSIDE);
    let status = |client: &str, login: &str| {
        let mut client = Client::connect_from(&format!("{client}:0"), server.address);
        client.send(get("/in/b", login));
        client.response()
    };
    assert_eq!(status("127.0.0.9", RIGHT).status, 200);
    let guess = |at: usize| format!("Basic {}", STANDARD.encode(format!("ada:guess-{at}")));
    let stopped = (0..60).map(|at| status("127.0.0.9", &guess(at))).find(|response| response.status != 401);
    let stopped = stopped.expect("60 guesses");
    assert_eq!(stopped.status, 429);
    assert!(
        stopped.field("Retry-After").is_some_and(|seconds| seconds.parse::<u32>().is_ok_and(|s| (1..=60).contains(&s)))
    );
    assert_eq!((status("127.0.0.9", RIGHT).status, status("127.0.0.8", RIGHT).status), (200, 200));
    assert_eq!(status("127.0.0.8", WRONG).status, 401);
}

#[test]
fn a_network_or_a_password() {
    let any = "[[site.access]]\nallow = [\"127.0.0.1\"]\nusers = \"users\"\nsatisfy = \"any\"\n";
    let all = any.replace("any", "all");
    for (text, expected) in [(any, [200, 200, 200, 401, 401]), (&all, [200, 401, 403, 403, 403])] {
        let (server, _site) = files(text);
        let status = |client: &str, login: &str| {
            let mut client = Client::connect_from(&format!("{client}:0"), server.address);
            client.send(get("/a", login));
            client.response().status
        };
        let got = [("1", RIGHT), ("1", ""), ("2", RIGHT), ("2", ""), ("2", WRONG)]
            .map(|(last, login)| status(&format!("127.0.0.{last}"), login));
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn a_user_who_is_taken_out_is_out_at_the_next_reload() {
    let (server, site) = files(INSIDE);
    let status = || {
        let mut client = server.connect();
        client.send(get("/in/b", RIGHT));
        client.response().status
    };
    assert_eq!(status(), 200);
    std::fs::write(site.outside("users"), users().replace("ada", "bob")).unwrap();
    server.signal(Signal::HUP);
    wait_until("the users of the file", || status() == 401);
    // A mistake in the file changes nothing.
    std::fs::write(site.outside("users"), users().replace("ada", "x:$apr1$a$b\nada")).unwrap();
    server.signal(Signal::HUP);
    wait_until("a line about it", || server.stderr().iter().any(|line| line.contains("user `x` has an MD5 hash")));
    assert_eq!(status(), 401);
}

#[test]
fn a_hash_is_made_of_what_is_typed() {
    let hash = |arguments: &[&str], typed: &str| {
        let mut weir = Command::new(WEIR)
            .arg("hash-password")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // If it refuses its arguments it reads nothing.
        let _ = std::io::Write::write_all(&mut weir.stdin.take().unwrap(), typed.as_bytes());
        let said = weir.wait_with_output().unwrap();
        (said.status.code(), String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap())
    };
    let (status, line, _) = hash(&["ada"], "right\n");
    assert!(status == Some(0) && line.starts_with("ada:$argon2id$v=19$") && line.ends_with('\n'), "{line}");
    assert!(!hash(&[], "right").1.contains(':'));
    assert_eq!(hash(&[], "\n").0, Some(1));
    assert_eq!(hash(&["a:b"], "x").0, Some(2));
    let site = Site::with(&[("a", b"a")]);
    std::fs::write(site.outside("users"), line).unwrap();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n[[site.access]]\nusers = \"users\"\n",
        site.served().display()
    );
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    let server = Server::run(&site.outside("weir.toml"));
    for (login, status) in [(RIGHT, 200), (WRONG, 401)] {
        let mut client = server.connect();
        client.send(get("/a", login));
        assert_eq!(client.response().status, status);
    }
}

/// The user name of a request is in its log line as sent; with 401 the password was wrong.
#[test]
fn a_line_has_the_name_of_its_user() {
    let (site, log) = (Site::with(&[("a", b"a"), ("in/b", b"b")]), "log");
    let nasty = STANDARD.encode("eve \"[x] \u{202e}:x");
    std::fs::write(site.outside("users"), users()).unwrap();
    let rewrite = "[[site.rewrite]]\nfrom = \"/r/*\"\nto = \"/in/*\"\n";
    for (format, right, wrong) in [
        ("combined", "127.0.0.1 - ada [", "127.0.0.1 - eve\\x20\\x22[x]\\x20\\xE2\\x80\\xAE ["),
        ("json", "\"remote_user\":\"ada\",\"method\"", "\"remote_user\":\"eve \\\"[x] \\u202e\",\"method\""),
    ] {
        let _ = std::fs::remove_file(site.outside(log));
        let text = format!(
            "[server]\naccess_log = \"{log}\"\nlog_format = \"{format}\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n{INSIDE}{rewrite}",
            site.served().display()
        );
        std::fs::write(site.outside("weir.toml"), text).unwrap();
        let server = Server::run(&site.outside("weir.toml"));
        let mut client = server.connect();
        let asked = [
            get("/in/b", RIGHT),
            get("/r/b", RIGHT),
            get("/in/b", &format!("Basic {nasty}")),
            get("/a", RIGHT),
            get("/in/b", ""),
        ];
        client.send(asked.concat());
        let statuses = [(); 5].map(|()| client.response().status);
        assert_eq!(statuses, [200, 200, 401, 200, 401]);
        let lines = || std::fs::read_to_string(site.outside(log)).unwrap_or_default();
        wait_until("five lines", || lines().lines().count() == 5);
        let lines = lines();
        let lines: Vec<&str> = lines.lines().collect();
        assert!(lines[..2].iter().all(|line| line.contains(right)) && lines[2].contains(wrong), "{lines:?}");
        let has_none = |line: &&str| line.contains("127.0.0.1 - - [") || line.contains("\"127.0.0.1\",\"method\"");
        assert!(lines[3..].iter().all(has_none), "nobody logs in there: {lines:?}");
    }
}
