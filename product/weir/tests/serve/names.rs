//! Files under names other than their own: clean URLs and the fallback of a single-page app.

use crate::common::{Client, Response, Server, Site};

fn serve(site: &Site, keys: &str) -> Server {
    let root = site.served();
    let file = site.outside("weir.toml");
    let text = format!("[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = '{}'\n{keys}", root.display());
    std::fs::write(&file, text).unwrap();
    Server::run(&file)
}

fn ask(client: &mut Client, target: &str, lines: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    client.response()
}

const NAVIGATION: &str = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html,*/*;q=0.8\r\n";
const SCRIPT: &str = "Sec-Fetch-Mode: cors\r\nSec-Fetch-Dest: script\r\nAccept: */*\r\n";
const OLD_BROWSER: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

#[test]
fn a_fallback_answers_navigations_and_nothing_else() {
    let site = Site::with(&[("index.html", b"app"), ("a.js", b"script"), ("assets/x.css", b"css")]);
    let cache = "[[site.cache]]\npath = '/assets/*'\ncontrol = 'max-age=31536000, immutable'\n[[site.cache]]\npath = '/index.html'\ncontrol = 'no-cache'\n";
    let server = serve(&site, &format!("fallback = '/index.html'\n{cache}"));
    let mut client = server.connect();
    for path in ["/deep/route", "/assets/gone.css", "/route?q=1", "/assets/", "/a.js/x"] {
        for lines in [NAVIGATION, OLD_BROWSER] {
            let response = ask(&mut client, path, lines);
            assert_eq!((response.status, response.text()), (200, "app"), "{path}");
            assert_eq!(response.field("Cache-Control"), Some("no-cache"), "{path}: the rule of the file itself");
            assert!(response.head.contains("Sec-Fetch-Mode"), "{}", response.head);
        }
        for lines in [
            SCRIPT,
            "",
            "Accept: */*\r\n",
            "Accept: image/avif,image/webp,*/*\r\n",
            "Sec-Fetch-Mode: no-cors\r\nAccept: text/html\r\n",
            "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: object\r\n",
        ] {
            let response = ask(&mut client, path, lines);
            assert!([403, 404].contains(&response.status), "{path} {lines}: {}", response.status);
            assert!(response.status == 403 || response.head.contains("Sec-Fetch-Mode"), "{}", response.head);
        }
    }
    assert_eq!(ask(&mut client, "/a.js", NAVIGATION).text(), "script");
    assert_eq!(ask(&mut client, "/assets/x.css", SCRIPT).field("Cache-Control"), Some("max-age=31536000, immutable"));
    let tag = ask(&mut client, "/route", NAVIGATION).field("ETag").unwrap().to_string();
    assert_eq!(ask(&mut client, "/other", &format!("{NAVIGATION}If-None-Match: {tag}\r\n")).status, 304);
    client.send(format!("HEAD /route HTTP/1.1\r\nHost: a\r\n{NAVIGATION}\r\n"));
    assert_eq!(client.response_to_head().field("Content-Length"), Some("3"));
    client.send(format!("POST /route HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{NAVIGATION}\r\n"));
    assert_eq!(client.response().status, 405);
    std::fs::remove_file(site.path("index.html")).unwrap();
    assert_eq!(ask(&mut server.connect(), "/route", NAVIGATION).status, 404, "a fallback that is gone");
}

/// The operator's type of a file applies to small files and to those that are not kept in memory, and to error pages.
#[test]
fn media_types_are_those_of_the_operator() {
    let long = "a line of text\n".repeat(10_000);
    let files: [(&str, &[u8]); 6] = [
        ("LICENSE", b"Permission is hereby granted"),
        ("LONG", long.as_bytes()),
        ("binary", b"\x7fELF\0"),
        ("a.LOG", b"a"),
        ("a.css", b"a"),
        ("404.html", b"none"),
    ];
    let site = Site::with(&files);
    let types = |keys: &str| {
        let server = serve(&site, keys);
        let mut client = server.connect();
        let mut field = |path: &str| ask(&mut client, path, "").field("Content-Type").map(str::to_string).unwrap();
        ["/LICENSE", "/LONG", "/binary", "/a.LOG", "/a.css", "/none"].map(&mut field)
    };
    let page = "[[site.error_page]]\nstatus = 404\nfile = '/404.html'\n";
    let (text, bytes) = ("text/plain; charset=utf-8", "application/octet-stream");
    let css = "text/css; charset=utf-8";
    assert_eq!(types(page), [text, text, bytes, text, css, "text/html; charset=utf-8"]);
    let table = "[[site.type]]\nextensions = ['log', 'html']\nmedia_type = 'text/x-a'\n";
    let own = types(&format!("default_type = 'a/b'\ncharset = 'koi8-r'\n{page}{table}"));
    assert_eq!(
        own,
        ["a/b", "a/b", "a/b", "text/x-a; charset=koi8-r", "text/css; charset=koi8-r", "text/x-a; charset=koi8-r"]
    );
    assert_eq!(types("charset = 'off'\n")[..5], ["text/plain", "text/plain", bytes, "text/plain", "text/css"]);
}

/// A site with pages, and its server.
fn pages() -> (Site, Server) {
    let site = Site::with(&[
        ("index.html", b"front"),
        ("about.html", b"about"),
        ("docs/index.html", b"docs"),
        ("docs/a b.html", b"page"),
        ("both.html", b"page of both"),
        ("both/x.html", b"x"),
        ("v1.2.html", b"version"),
        ("plain", b"plain"),
    ]);
    let server = serve(&site, "clean_urls = true\n");
    (site, server)
}

#[test]
fn a_page_has_a_clean_url() {
    let (site, server) = pages();
    let mut client = server.connect();
    for (path, body) in [
        ("/", "front"),
        ("/about", "about"),
        ("/docs/", "docs"),
        ("/docs/a%20b", "page"),
        ("/both", "page of both"),
        ("/both/x", "x"),
        ("/v1.2", "version"),
        ("/plain", "plain"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, response.text()), (200, body), "{path}");
    }
    for path in ["/none", "/none.html", "/none/", "/.html", "/docs/.html", "/plain/", "/about.html/"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    site.write("none.html", b"now");
    assert_eq!(server.connect().get("/none").text(), "now", "a page that has come");
}

#[test]
fn a_page_has_one_url() {
    let (_site, server) = pages();
    let mut client = server.connect();
    for (path, to) in [
        ("/about.html", "/about"),
        ("/about.html?q=1&r", "/about?q=1&r"),
        ("/about%2Ehtml", "/about"),
        ("/about.%68tm%6C?q", "/about?q"),
        ("/index%2ehtml", "/"),
        ("/docs/a%20b%2Ehtml", "/docs/a%20b"),
        ("/about/", "/about"),
        ("/index.html", "/"),
        ("/index", "/"),
        ("/docs/index.html", "/docs/"),
        ("/docs/index", "/docs/"),
        ("/docs/a%20b.html", "/docs/a%20b"),
        ("/both.html", "/both"),
        ("/both/", "/both"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, response.field("Location")), (308, Some(to)), "{path}");
    }
    let response = client.get("/docs");
    assert_eq!((response.status, response.field("Location")), (308, Some("/docs/")));
}

/// A rule for a page applies to the page under all its names.
#[test]
fn no_spelling_of_a_page_leads_past_its_rule() {
    let site = Site::with(&[("secret.html", b"secret"), ("open.html", b"open")]);
    let server = serve(&site, "clean_urls = true\n[[site.access]]\npath = '/secret'\ndeny = ['0.0.0.0/0', '::/0']\n");
    let mut client = server.connect();
    for path in ["/secret", "/secret.html", "/secret%2Ehtml", "/secret.%68tml", "/secret%2ehtml?x", "/s%65cret"] {
        let response = client.get(path);
        assert!(matches!(response.status, 308 | 403), "{path}: {}", response.status);
    }
    assert_eq!(client.get("/open").text(), "open");
}

#[test]
fn without_the_keys_names_are_names() {
    let site = Site::with(&[("about.html", b"about"), ("index.html", b"front")]);
    let server = serve(&site, "");
    let mut client = server.connect();
    assert_eq!((client.get("/about").status, client.get("/about.html").text()), (404, "about"));
    assert_eq!((ask(&mut client, "/x", NAVIGATION).status, client.get("/index.html").text()), (404, "front"));
}
