//! Pages of programs as dictionaries of other pages, at a site that enables this.

use http::Length;

use super::*;
use crate::body::Pipe;

const LASTING: &str = "Cache-Control: max-age=60";

/// The response of a program.
struct Page<'a> {
    status: u16,
    lines: &'a [&'a str],
    body: &'a [u8],
    /// The length in its head.
    length: Length,
    /// Its connection ends before the body does.
    dies: bool,
}

impl<'a> Page<'a> {
    fn of(body: &'a [u8]) -> Page<'a> {
        Page { status: 200, lines: &[LASTING], body, length: Length::Unknown, dies: false }
    }

    fn response(&self) -> Response<Body> {
        let body = Pipe::new(self.length, &Default::default()).into();
        let response = Response::new(Status(self.status), body).with("ETag", b"\"v\"");
        let has_type = self.lines.iter().any(|line| line.starts_with("Content-Type"));
        let response = if has_type { response } else { response.with("Content-Type", b"text/html; charset=utf-8") };
        let fields = self.lines.iter().map(|line| line.split_once(": ").unwrap());
        let response = fields.fold(response, |response, (name, value)| response.with(name, value.as_bytes()));
        match self.length {
            Length::Known(bytes) => response.with_length(bytes),
            Length::Unknown => response.of_length(Length::Unknown),
        }
        .forwarded()
    }
}

/// A rig over TLS of a site whose programs' pages are dictionaries.
fn programs() -> Rig {
    let saving = Saving { has_upstream_dictionaries: true, ..Saving::default() };
    Rig { is_secure: true, ..Rig::saving(Options::default(), saving) }
}

impl Rig {
    fn pass(&mut self, request: &str, lines: &[String], page: &Page) -> Got {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let bytes = format!("{request} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let request = self.rewritten(parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request);
        let Reply { mut response, .. } = self.handler.passed_on(self.to(&request), &request, page.response());
        let fields = std::mem::replace(&mut response, Response::new(Status(page.status), Body::default()));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields_of = |response: &Response<Body>| {
            response.fields().map(|(name, value)| (text(name).to_lowercase(), text(value))).collect()
        };
        let (mut got, mut body) =
            (Got { status: page.status, fields: fields_of(&fields), body: Vec::new() }, fields.body);
        let mut rest = page.body;
        while !rest.is_empty() {
            let taken = body.start().pipe_mut().unwrap().push(rest).unwrap();
            rest = &rest[taken..];
            while body.read(&mut InMemory, &mut got.body, u64::MAX).is_ok_and(|bytes| bytes > 0) {}
        }
        if !page.dies {
            body.start().pipe_mut().map(|pipe| pipe.finish(None));
            body.on_finished();
            while !body.is_empty() {
                body.read(&mut InMemory, &mut got.body, u64::MAX).unwrap();
            }
        }
        got
    }

    fn kept(&self) -> usize {
        self.coder.dictionaries.run()
    }
}

impl Got {
    fn offered(&self) -> &str {
        self.field("use-as-dictionary").split('"').nth(1).unwrap_or_default()
    }

    fn is_with_dictionary(&self) -> bool {
        self.field("content-encoding") == "dcz"
    }
}

fn browser() -> Vec<String> {
    vec![format!("{BROWSER}, dcb, dcz"), "Sec-Fetch-Site: none".into()]
}

/// Two pages that have most of their text in common.
fn pages() -> [Vec<u8>; 2] {
    let first = text(20_000);
    [first.clone(), [b"<title>Another page</title>", &first[..]].concat()]
}

#[test]
fn a_page_at_a_rewritten_path_is_offered_to_nobody() {
    let [first, _] = pages();
    let mut rig = Rig { rewritten_to: Some("/app/one"), ..programs() };
    let got = rig.pass("GET /one", &browser(), &Page::of(&first));
    assert_eq!((got.field("content-encoding"), got.offered(), rig.kept()), ("zstd", "", 0));
}

/// The first page is offered as a dictionary, is stored as it passes, and makes the next one short.
#[test]
fn a_page_of_a_program_is_coded_with_the_one_before() {
    let [first, second] = pages();
    for length in [Length::Unknown, Length::Known(second.len() as u64)] {
        let mut rig = programs();
        let got = rig.pass("GET /a/one", &browser(), &Page::of(&first));
        assert_eq!((got.field("content-encoding"), got.offered()), ("zstd", "/*"));
        assert_eq!(got.vary(), ["Accept-Encoding, Available-Dictionary"]);
        assert!(got.content() == first && rig.kept() == 1);
        let got = rig.pass("GET /b/two", &with_dictionary(&first), &Page { length, ..Page::of(&second) });
        assert!(got.is_with_dictionary() && got.body.len() < 300, "{}", got.body.len());
        assert!(decoded_with(Coding::Zstd, &got.body, &first).unwrap() == second);
        assert_eq!(got.vary(), ["Accept-Encoding, Available-Dictionary, Sec-Fetch-Site"]);
        assert_eq!((got.offered(), got.field("etag")), ("/b/*", "W/\"v~weir\""));
        assert_eq!(rig.kept(), 1);
        let got = rig.pass("GET /b/three", &with_dictionary(&second), &Page::of(&first));
        assert!(got.is_with_dictionary() && got.offered() == "/b/{three}");
        // The bytes are those of the first page, which remains the stored one.
        assert_eq!(rig.kept(), 1);
        assert_eq!(rig.pass("GET /a/one", &with_dictionary(&first), &Page::of(&first)).offered(), "/a/{one}");
        // A 304 is cached under the same names as the page.
        let unchanged = Page { status: 304, body: b"", length: Length::Known(0), ..Page::of(&first) };
        let lines = [&with_dictionary(&first)[..], &["If-None-Match: W/\"v~weir\"".into()]].concat();
        let got = rig.pass("GET /a/one", &lines, &unchanged);
        assert_eq!(got.vary(), ["Available-Dictionary, Sec-Fetch-Site, Accept-Encoding"]);
    }
}

/// A page of a file and a page of a program serve each other as dictionaries only if that needs neither a wait nor a
/// form for one client.
#[test]
fn the_page_of_a_file_is_a_dictionary_for_those_of_programs() {
    let mut rig = programs();
    let plain = rig.plain.clone();
    rig.get(&[BROWSER, "Sec-Fetch-Site: none"]);
    assert_eq!(rig.kept(), 1);
    let got = rig.pass("GET /b", &with_dictionary(&plain), &Page::of(&pages()[1]));
    assert!(got.is_with_dictionary() && got.offered() == "/{b}");
    assert_eq!(rig.kept(), 1);
    let got = rig.ask_with("/a.html", &with_dictionary(&pages()[1]));
    assert!(!got.field("content-encoding").starts_with("dc") && got.content() == plain);
}

/// The client or the program has indicated that the page is not for everybody.
#[test]
fn a_page_that_is_not_for_everybody_has_nothing_to_do_with_dictionaries() {
    let [first, second] = pages();
    let cases: [(&str, &str, &[&str]); 15] = [
        ("GET /b", "Cookie: a=b", &[LASTING]),
        ("GET /b", "Authorization: Basic eA==", &[LASTING]),
        ("GET /b?q=guess", "", &[LASTING]),
        ("POST /b", "Content-Length: 0", &[LASTING]),
        ("GET /b", "", &[LASTING, "Set-Cookie: a=b"]),
        ("GET /b", "", &["Cache-Control: max-age=60, private"]),
        ("GET /b", "", &["Cache-Control: Private=\"x\", max-age=60"]),
        ("GET /b", "", &[LASTING, "Cache-Control: no-store"]),
        ("GET /b", "", &["Cache-Control: max-age=60, no-transform"]),
        ("GET /b", "", &[LASTING, "Vary: Cookie, *"]),
        ("GET /b", "", &[LASTING, "Use-As-Dictionary: match=\"/b\""]),
        ("GET /b", "", &[LASTING, "Content-Encoding: gzip"]),
        ("GET /b", "", &[LASTING, "Content-Type: text/plain"]),
        ("GET /b", "", &[LASTING, "Content-Type: image/png"]),
        ("GET /b", "", &[LASTING, "Content-Range: bytes 0-1/2"]),
    ];
    for (request, line, lines) in cases {
        let mut rig = programs();
        rig.pass("GET /a", &browser(), &Page::of(&first));
        assert_eq!(rig.kept(), 1);
        let request_lines: Vec<_> =
            with_dictionary(&first).into_iter().chain((!line.is_empty()).then(|| line.to_string())).collect();
        let got = rig.pass(request, &request_lines, &Page { lines, ..Page::of(&second) });
        let why = format!("{request} {line} {lines:?}");
        assert!(!got.is_with_dictionary() && rig.kept() == 0, "{why}");
        assert!(got.offered().is_empty() || lines.iter().any(|line| line.starts_with("Use-As")), "{why}");
        assert!(got.vary().iter().all(|value| !value.contains("Available-Dictionary")), "{why}");
        assert!(lines.contains(&"Content-Encoding: gzip") || got.content() == second, "{why}");
    }
    // Even if the site compresses private responses.
    let saving = Saving { has_upstream_dictionaries: true, compresses_private: true, ..Saving::default() };
    let mut rig = Rig { is_secure: true, ..Rig::saving(Options::default(), saving) };
    let got = rig.pass("GET /a", &[&browser()[..], &["Cookie: a=b".into()]].concat(), &Page::of(&first));
    assert!(got.field("content-encoding") == "zstd" && got.offered().is_empty() && rig.kept() == 0);
}

/// The site must enable it, and the connection must be secure.
#[test]
fn a_site_that_does_not_ask_has_none() {
    let [first, _] = pages();
    for mut rig in [Rig { is_secure: true, ..Rig::new(Options::default()) }, Rig { is_secure: false, ..programs() }] {
        let got = rig.pass("GET /a", &browser(), &Page::of(&first));
        assert!(got.offered().is_empty() && got.vary() == ["Accept-Encoding"] && rig.kept() == 0);
    }
}

#[test]
fn a_page_is_coded_with_it_for_clients_that_say_so_alone() {
    let [first, second] = pages();
    let mut rig = programs();
    rig.pass("GET /a", &browser(), &Page::of(&first));
    assert_eq!(rig.kept(), 1);
    for (other, offered) in [
        ("Sec-Fetch-Site: cross-site", "/{b}"),
        ("Sec-Fetch-Site: same-site", "/{b}"),
        ("Accept-Encoding: zstd, dcb", "/{b}"),
        ("Accept-Encoding: zstd, dcz;q=0.5", ""),
        ("Accept-Encoding: *", ""),
        ("Accept-Encoding: zstd, gzip", ""),
        ("Available-Dictionary: :AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:", "/*"),
        ("Available-Dictionary: ::", "/*"),
    ] {
        let got = rig.pass("GET /b", &with_dictionary_but(&first, other), &Page::of(&second));
        assert!(!got.is_with_dictionary() && got.content() == second, "{other}");
        assert_eq!(got.offered(), offered, "{other}");
        assert!(got.vary().iter().any(|value| value.contains("Available-Dictionary")), "{other}");
        rig.kept();
    }
    // A dictionary of another site, and one that no longer exists.
    let site = SiteKey(1);
    rig.coder.dictionaries.keep(site, b"/"[..].into(), text(9_000), 1);
    assert_eq!(rig.kept(), 1);
    assert!(rig.coder.dictionaries.held(&DictionaryId { site, digest: digest_of(&text(9_000)) }).is_some());
    assert!(!rig.pass("GET /b", &with_dictionary(&text(9_000)), &Page::of(&second)).is_with_dictionary());
    assert!(rig.pass("GET /b", &with_dictionary(&first), &Page::of(&second)).is_with_dictionary());
    rig.coder.dictionaries.set_bytes_max(0);
    let got = rig.pass("GET /b", &with_dictionary(&first), &Page::of(&second));
    assert!(!got.is_with_dictionary() && got.content() == second && got.offered().is_empty());
}

/// A browser uses no dictionary that it does not keep.
#[test]
fn a_page_that_browsers_do_not_keep_is_not_offered() {
    let [first, second] = pages();
    for (lines, is_offered) in [
        (&[][..], false),
        (&["Cache-Control: max-age=0"], false),
        (&["Cache-Control: no-cache", "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT"], false),
        (&["Cache-Control: max-age=0", "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT"], false),
        (&["Cache-Control: max-age=x"], false),
        (&["Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT"], true),
        (&["Expires: Thu, 01 Jan 2099 00:00:00 GMT"], true),
        (&["Cache-Control: max-age=0, stale-while-revalidate=60"], true),
    ] {
        let mut rig = programs();
        rig.pass("GET /a", &browser(), &Page::of(&first));
        rig.kept();
        let got = rig.pass("GET /b", &with_dictionary(&first), &Page { lines, ..Page::of(&second) });
        assert!(got.is_with_dictionary(), "{lines:?}");
        assert_eq!((!got.offered().is_empty(), rig.kept() == 1), (is_offered, is_offered), "{lines:?}");
    }
}

#[test]
fn a_page_that_is_cut_or_too_long_is_not_kept() {
    let mut rig = programs();
    let (long, short) = (text(300_000), text(255));
    for (page, is_offered) in [
        (Page { dies: true, ..Page::of(&long[..100_000]) }, true),
        (Page::of(&long), true),
        (Page { length: Length::Known(300_000), ..Page::of(&long) }, false),
        (Page::of(&short), true),
    ] {
        let got = rig.pass("GET /a", &browser(), &page);
        assert_eq!((!got.offered().is_empty(), rig.kept()), (is_offered, 0));
        assert!(page.dies || got.content() == page.body);
    }
    let got = rig.pass("HEAD /a", &browser(), &Page { length: Length::Known(20_000), dies: true, ..Page::of(b"") });
    assert!(!got.offered().is_empty() && rig.kept() == 0);
}

/// With the memory of its connection nearly taken, a page is not kept, then not coded with a dictionary.
#[test]
fn memory_bounds_what_a_page_may_have() {
    let [first, second] = pages();
    let (mut rig, kib) = (programs(), 1_usize << 10);
    rig.pass("GET /a", &browser(), &Page::of(&first));
    rig.kept();
    let of = |rig: &mut Rig, room_bytes| {
        let bytes = format!("GET /b HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", with_dictionary(&first).join("\r\n"));
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        let to = To { room_bytes, ..rig.to(&request) };
        let page = Page { length: Length::Known(second.len() as u64), ..Page::of(&second) };
        let Reply { response, .. } = rig.handler.passed_on(to, &request, page.response());
        let account = units::memory::Account::default();
        let mut response = response;
        response.body.count_in(&account);
        assert!(account.bytes() <= room_bytes as u64 + 4096, "{} of {room_bytes}", account.bytes());
        let value = |name: &str| {
            let mut fields = response.fields().filter(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
            fields.next().map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
        };
        (value("content-encoding"), !value("use-as-dictionary").is_empty())
    };
    assert_eq!(of(&mut rig, 320 * kib), ("dcz".into(), true));
    assert_eq!(of(&mut rig, 280 * kib), ("dcz".into(), false));
    assert_eq!(of(&mut rig, 257 * kib), ("zstd".into(), false));
    assert_eq!(of(&mut rig, 255 * kib), ("".into(), false));
}
