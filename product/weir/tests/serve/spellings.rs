//! Rules before a program hold however a client writes a path. The program merges slashes, decodes more than once, or
//! reads a backslash as a slash, and no such spelling bypasses a rule.

use std::process::{Command, Stdio};

use crate::common::tls::Made;
use crate::common::{Server, Site, Upstream, answer};
use crate::http3::Asking;

/// Spellings that some program reads as a path below `/old/`; none of them is a file.
pub const SPELLINGS: [&str; 29] = [
    "/old/x",
    "/old//x",
    "/old/a%2Fb",
    "/old/%2F",
    "//old/x",
    "//old/a%09b",
    "/%2Fold/x",
    "/%2fold/x",
    "/old%2Fx",
    "/old%2fx",
    "/old%5Cx",
    "/old%5cx",
    "/old\\x",
    "/%6Fld/x",
    "/%6fld/x",
    "/%256Fld/x",
    "/old%252Fx",
    "/old;/x",
    "/old;a=b/x",
    "/old./x",
    "/old%20/x",
    "/old%09/x",
    "/old%c0%afx",
    "/o%c1%acd/x",
    "/%u006fld/x",
    "/new/..;/old/x",
    "/new/%2e%2e;/old/x",
    "/new/..%5Cold/x",
    "/new/%252e%252e/old/x",
];

/// A program that answers every request, and a server in front of it with a rule.
pub struct Guarded {
    pub upstream: Upstream,
    pub server: Server,
    _site: Site,
}

/// Sends a body of 400 KB with curl and these arguments, possibly before it is let in. Returns the status.
pub fn post_by_curl(words: &[&str], url: &str) -> String {
    let mut curl = Command::new("curl")
        .args(["-skS", "--max-time", "60", "-X", "POST", "-o", "/dev/null", "-w", "%{http_code}"])
        .args(words)
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = curl.stdin.take().unwrap();
    // A server that refuses may read none of it.
    let writing = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut input, &vec![b'x'; 400_000]);
    });
    let said = curl.wait_with_output().unwrap();
    writing.join().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

impl Guarded {
    pub fn new(rule: &str) -> Guarded {
        Guarded::with_proxy(rule, "")
    }

    /// Starts a server whose proxy of all paths has these keys.
    pub fn with_proxy(rule: &str, keys: &str) -> Guarded {
        Guarded::with_files(rule, keys, &[])
    }

    /// Starts a server whose configuration has these files in its folder.
    pub fn with_files(rule: &str, keys: &str, files: &[(&str, &str)]) -> Guarded {
        let upstream = Upstream::start(|asked, socket| {
            asked.body(socket);
            answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nprogram"])
        });
        let site = Site::new();
        files.iter().for_each(|(name, text)| site.write(name, text.as_bytes()));
        let made = Made::new(&site, "own", &["localhost"]);
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n[[site]]\ncert = \"{}\"\nkey = \"{}\"\n{rule}\n\
            [[site.proxy]]\nto = [\"{}\"]\n{keys}\n",
            made.cert.display(),
            made.key.display(),
            upstream.address
        );
        // A rule may refer to the program too.
        let text = text.replace("UPSTREAM", &upstream.address.to_string());
        site.write("weir.toml", text.as_bytes());
        let server = Server::run(&site.path("weir.toml"));
        Guarded { upstream, server, _site: site }
    }

    /// The status over HTTP/1.1 or HTTP/2.
    fn status(&self, version: &str, path: &str) -> u16 {
        let url = format!("https://localhost:{}{path}", self.server.address.port());
        let curl = Command::new("curl")
            .args(["-skS", "--path-as-is", "--max-time", "60", version, "-o", "/dev/null", "-w", "%{http_code}", &url])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&curl.stdout).into_owned();
        said.parse().unwrap_or_else(|_| panic!("{said}: {}", String::from_utf8_lossy(&curl.stderr)))
    }

    fn status_over_http3(&self, asking: &mut Asking, path: &str) -> u16 {
        asking.get(path).field(":status").unwrap().parse().unwrap()
    }

    /// The statuses of a path over all three protocols.
    pub fn statuses(&self, asking: &mut Asking, path: &str) -> [u16; 3] {
        let over_http3 = self.status_over_http3(asking, path);
        [self.status("--http1.1", path), self.status("--http2", path), over_http3]
    }
}

#[test]
fn no_spelling_leads_past_a_redirect() {
    let guarded = Guarded::new("[[site.redirect]]\nfrom = \"/old/*\"\nto = \"/closed\"");
    let mut asking = Asking::to(&guarded.server);
    for path in SPELLINGS {
        for status in guarded.statuses(&mut asking, path) {
            assert!(matches!(status, 302 | 308 | 400), "{path}: {status}");
        }
        assert!(guarded.upstream.asked().is_empty(), "{path} reaches the program");
    }
    for path in ["/older", "/new/a%2Fb", "/new/a;b", "/new//a", "/a%5Cb", "/a%09b", "/a%0Ab%00", "/100%", "/a%3Fb"] {
        assert_eq!(guarded.statuses(&mut asking, path), [200; 3], "{path}");
        assert_eq!(guarded.upstream.asked().last().unwrap().path(), path, "as it came");
    }
    for path in ["/x/../api/group%2Fproject", "/a/%2e/b%5Cc", "/new/../old/x"] {
        assert_eq!(guarded.statuses(&mut asking, path), [308; 3], "{path}");
    }
}

/// A program for all paths, and another one with forward authentication for some.
#[test]
fn no_spelling_leads_past_a_program() {
    let upstream =
        Upstream::start(|_, socket| answer(socket, &[b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"]));
    let rule = format!("[[site.proxy]]\npath = \"/old/*\"\nto = [\"{}\"]", upstream.address);
    let guarded = Guarded::new(&rule);
    let mut asking = Asking::to(&guarded.server);
    for path in SPELLINGS {
        for status in guarded.statuses(&mut asking, path) {
            assert!(matches!(status, 308 | 400 | 403), "{path}: {status}");
        }
        assert!(guarded.upstream.asked().is_empty(), "{path} reaches the other program");
    }
}

/// A field that a browser or a cache must obey.
#[test]
fn no_spelling_leads_past_a_field() {
    for rule in [
        "[[site.header]]\npath = \"/old/*\"\nname = \"Content-Security-Policy\"\nvalue = \"default-src 'none'\"",
        "[[site.cache]]\npath = \"/old/*\"\ncontrol = \"no-store\"",
    ] {
        let guarded = Guarded::new(rule);
        for path in SPELLINGS {
            let url = format!("https://localhost:{}{path}", guarded.server.address.port());
            let curl = Command::new("curl").args(["-skSi", "--path-as-is", "--max-time", "60", &url]).output().unwrap();
            let said = String::from_utf8_lossy(&curl.stdout).to_ascii_lowercase();
            let is_met = said.contains("default-src") || said.contains("no-store");
            assert!(is_met || !said.ends_with("\r\n\r\nprogram"), "{path}: {said}");
        }
    }
}

/// A class may hold back its requests, and every spelling of them.
#[test]
fn no_spelling_leads_past_a_class() {
    let rule = "[[class]]\nname = \"slow\"\nmax_concurrent_requests = 1\n[[class.rule]]\npath = \"/old/*\"";
    let guarded = Guarded::new(rule);
    let met = ["/old/x", "/old//x", "/old/a%2Fb", "/old/%2F", "/%6Fld/x", "/%6fld/x"];
    for path in SPELLINGS {
        let status = guarded.status("--http1.1", path);
        assert_eq!(status == 200, met.contains(&path), "{path}: {status}");
    }
}
