//! Further features for sites of files: scripts of other origins, error pages, symlinks, listings for programs.

use crate::common::{Client, Response, Server, Site, Upstream, answer};

fn serve(site: &Site, keys: &str) -> Server {
    let file = site.outside("weir.toml");
    std::fs::write(&file, format!("[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\n{keys}")).unwrap();
    Server::run(&file)
}

fn ask(client: &mut Client, line: &str, lines: &str) -> Response {
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    client.response()
}

const CORS: &str = "[[site.cors]]\npath = '/api/*'\nallow_origins = ['https://a.org', 'https://*.b.org']\nallow_methods = ['GET', 'PUT']\nallow_headers = ['X-A']\nexpose_headers = ['X-B', 'X-C']\nallow_credentials = true\nmax_age = '1h'\n[[site.cors]]\npath = '/open/*'\nallow_origins = ['*']\n";

#[test]
fn scripts_of_other_origins_read_what_they_may() {
    let site = Site::with(&[("api/a", b"a"), ("open/a", b"open"), ("a", b"own")]);
    let server = serve(&site, &format!("root = '{}'\n{CORS}", site.served().display()));
    let mut client = server.connect();
    for (origin, is_allowed) in [
        ("https://a.org", true),
        ("https://x.b.org", true),
        ("http://a.org", false),
        ("https://a.org.evil.org", false),
        ("https://b.org", false),
        ("null", false),
    ] {
        for (path, status) in [("/api/a", 200), ("/api/none", 404)] {
            let response = ask(&mut client, &format!("GET {path}"), &format!("Origin: {origin}\r\n"));
            let allowed = response.field("Access-Control-Allow-Origin");
            assert_eq!((response.status, allowed), (status, is_allowed.then_some(origin)), "{origin}");
            assert_eq!(response.field("Access-Control-Allow-Credentials"), is_allowed.then_some("true"));
            assert_eq!(response.field("Access-Control-Expose-Headers"), is_allowed.then_some("X-B, X-C"));
            assert!(response.field("Vary").is_some_and(|vary| vary.contains("Origin")), "{}", response.head);
        }
        let asked = format!("Origin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n");
        let response = ask(&mut client, "OPTIONS /api/a", &asked);
        assert_eq!(
            (response.status, response.field("Access-Control-Allow-Origin")),
            (204, is_allowed.then_some(origin))
        );
        assert_eq!(response.field("Access-Control-Allow-Methods"), is_allowed.then_some("GET, PUT"));
        assert_eq!(response.field("Access-Control-Allow-Headers"), is_allowed.then_some("X-A"));
        assert_eq!(response.field("Access-Control-Max-Age"), is_allowed.then_some("3600"));
    }
}

#[test]
fn a_response_to_all_origins_is_one() {
    let site = Site::with(&[("api/a", b"a"), ("open/a", b"open"), ("a", b"own")]);
    let server = serve(&site, &format!("root = '{}'\n{CORS}", site.served().display()));
    let mut client = server.connect();
    assert!(client.get("/api/a").head.contains("\r\nVary: Origin"), "a cache must know, whichever client asked first");
    let open = ask(&mut client, "GET /open/a", "Origin: https://c.org\r\n");
    assert_eq!((open.field("Access-Control-Allow-Origin"), open.field("Vary")), (Some("*"), None));
    assert_eq!(ask(&mut client, "GET /a", "Origin: https://a.org\r\n").field("Access-Control-Allow-Origin"), None);
    // Preflights are not answered.
    assert_eq!(
        ask(&mut client, "OPTIONS /api/a", "Origin: https://a.org\r\n").field("Allow"),
        Some("GET, HEAD, OPTIONS")
    );
    let twice = "Origin: https://a.org\r\nOrigin: https://evil.org\r\n";
    assert_eq!(ask(&mut client, "GET /api/a", twice).field("Access-Control-Allow-Origin"), None);
}

#[test]
fn preflights_of_a_program_are_answered_for_it() {
    let upstream = Upstream::start(|request, socket| {
        assert!(!request.head.starts_with("OPTIONS"), "{}", request.head);
        let fields = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nContent-Length: 2";
        answer(socket, &[format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nhi").as_bytes()])
    });
    let site = Site::new();
    let proxy = format!("[[site.proxy]]\nto = ['{}']\n", upstream.address);
    let server = serve(&site, &format!("{CORS}{proxy}[[site.redirect]]\nfrom = '/api/old'\nto = '/api/new'\n"));
    let mut client = server.connect();
    let asked = "Origin: https://a.org\r\nAccess-Control-Request-Method: PUT\r\nContent-Length: 0\r\n";
    for path in ["/api/x", "/api/old"] {
        assert_eq!(ask(&mut client, &format!("OPTIONS {path}"), asked).status, 204, "{path}");
    }
    let response = ask(&mut client, "GET /api/x", "Origin: https://a.org\r\n");
    assert_eq!(response.field("Access-Control-Allow-Origin"), Some("https://a.org"), "one, of the rule");
    assert_eq!(response.text(), "hi");
    let other = ask(&mut client, "GET /api/x", "Origin: https://c.org\r\n");
    assert_eq!(other.field("Access-Control-Allow-Origin"), None, "{}", other.head);
}

const PAGES: &str = "[[site.error_page]]\nstatus = 404\nfile = '/404.html'\n[[site.error_page]]\nstatus = '4xx'\nfile = '/4xx.html'\n[[site.error_page]]\nstatus = '5xx'\nfile = '/5xx.html'\n";

#[test]
fn error_pages_are_for_all_errors_and_for_a_program_s_own_where_asked() {
    let upstream = Upstream::start(|request, socket| {
        let status = &request.path()[1..];
        let fields =
            "WWW-Authenticate: Basic\r\nContent-Encoding: x\r\nETag: \"x\"\r\nContent-Type: a/b\r\nContent-Length: 3";
        answer(socket, &[format!("HTTP/1.1 {status} Own\r\n{fields}\r\n\r\nown").as_bytes()])
    });
    let site = Site::with(&[("404.html", b"not here"), ("4xx.html", b"your fault"), ("5xx.html", b"our fault")]);
    let proxies = |more: &str| {
        let to = upstream.address;
        format!("[[site.proxy]]\npath = '/gone/*'\nto = ['127.0.0.1:1']\n[[site.proxy]]\nto = ['{to}']\n{more}")
    };
    let errors = format!("error_root = '{}'\n", site.served().display());
    for (more, own) in [("", true), ("intercept_errors = true\n", false)] {
        let server = serve(&site, &format!("{errors}{PAGES}{}", proxies(more)));
        let mut client = server.connect();
        for (path, status, page) in [
            ("/404", 404, "not here"),
            ("/401", 401, "your fault"),
            ("/503", 503, "our fault"),
            ("/502", 502, "our fault"),
        ] {
            let response = client.get(path);
            assert_eq!((response.status, response.text()), (status, if own { "own" } else { page }), "{path} {more}");
            assert_eq!(response.field("WWW-Authenticate"), Some("Basic"));
            assert_eq!(response.field("Content-Encoding"), own.then_some("x"));
            let mime = if own { "a/b" } else { "text/html; charset=utf-8" };
            assert_eq!((response.field("Content-Type"), response.field("ETag")), (Some(mime), own.then_some("\"x\"")));
        }
        assert_eq!(client.get("/200").text(), "own");
        let gone = client.get("/gone/x");
        assert_eq!((gone.status, gone.text()), (502, "our fault"));
    }
    let files = serve(&site, &format!("root = '{}'\n{PAGES}", site.served().display()));
    let mut client = files.connect();
    assert_eq!(client.get("/none").text(), "not here");
    assert_eq!(ask(&mut client, "POST /x", "Content-Length: 0\r\n").text(), "your fault");
}

#[test]
fn symlinks_lead_anywhere_only_where_that_is_asked() {
    let site = Site::with(&[("a", b"inside")]);
    std::fs::create_dir(site.outside("media")).unwrap();
    std::fs::write(site.outside("media/film"), "outside").unwrap();
    site.link(site.outside("media"), "media");
    site.link("a", "b");
    site.link("/proc/self/environ", "environ");
    let root = format!("root = '{}'\n", site.served().display());
    for (more, status) in [("", 404), ("symlinks = 'inside'\n", 404), ("symlinks = 'anywhere'\n", 200)] {
        let server = serve(&site, &format!("{root}{more}"));
        let mut client = server.connect();
        assert_eq!((client.get("/media/film").status, client.get("/b").text()), (status, "inside"), "{more}");
        assert_eq!(client.get("/environ").status, 404, "no file of a system is anybody's content");
    }
}

#[test]
fn a_listing_is_sorted_and_in_json_as_the_request_says() {
    let site = Site::with(&[("file10", b"1"), ("file2", b"22"), ("d/x", b"")]);
    let server = serve(&site, &format!("root = '{}'\nautoindex = true\n", site.served().display()));
    let mut client = server.connect();
    let names = |text: &str| {
        let links = text.split("<td><bdi><a href=\"").skip(1);
        links.map(|rest| rest.split('"').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    let page = client.get("/");
    assert_eq!(names(page.text()), ["d/", "file2", "file10"]);
    assert_eq!(page.field("Vary"), Some("Accept, Accept-Encoding"));
    let by_size = client.get("/?sort=size&order=asc&x=%zz");
    assert_eq!(names(by_size.text()), ["d/", "file10", "file2"]);
    assert_eq!(client.get("/?page=2&sort=size").status, 404);
    let json = ask(&mut client, "GET /", "Accept: application/json\r\n");
    assert_eq!(json.field("Content-Type"), Some("application/json"));
    let read: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!((&read[1]["name"], &read[1]["size"], read.as_array().unwrap().len()), (&"file2".into(), &2.into(), 3));
    let browser = ask(&mut client, "GET /", "Accept: text/html, application/json;q=0.1\r\n");
    assert_eq!(browser.field("Content-Type"), Some("text/html; charset=utf-8"));
    let file = ask(&mut client, "GET /file2", "Accept: application/json\r\n");
    assert_eq!(file.text(), "22");
}
