//! Files in the forms that clients accept.

mod pages;

use std::net::{IpAddr, Ipv4Addr};

use http::http1::parse_request;
use http::{Coding, ImageType, Length, Limits};
use units::Rate;

use super::named_file::named;
use super::*;
use crate::codec::testing::{decoded, decoded_with, text};
use crate::codec::{Level, digest_of, encoded};
use crate::coded::{Coder, DictionaryId, SiteKey};
use crate::disk::Pool;
use crate::exchange_id::ExchangeId;
use crate::files::picture::testing::picture;
use crate::files::temporary::Folder;
use crate::files::{CacheAnswer, CacheLimits, Options, REVALIDATE_AFTER};
use crate::sites::{Saving, SiteConfig, Wanted};
use crate::storage::InMemory;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
/// The ID of the exchange.
fn exchange() -> ExchangeId {
    ExchangeId::new(7, 0)
}
/// The field of a browser.
const BROWSER: &str = "Accept-Encoding: gzip, deflate, br, zstd";

/// A handler of a site with one page, whose jobs run when the test says so.
struct Rig {
    folder: Folder,
    handler: Handler,
    coder: Arc<Coder>,
    plain: Vec<u8>,
    now: Nanos,
    /// Requests that waited for a form.
    waited: usize,
    is_secure: bool,
    is_direct: bool,
    /// The path to which a rule rewrites requests.
    rewritten_to: Option<&'static str>,
}

#[derive(Debug, PartialEq)]
struct Got {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Rig {
    fn new(options: Options) -> Rig {
        Rig::saving(options, Saving::default())
    }

    fn saving(options: Options, saving: Saving) -> Rig {
        let (folder, plain) = (Folder::new(), text(20_000));
        folder.put("a.html", &plain);
        let sites = [SiteConfig { saving, ..SiteConfig::alone(folder.path("."), options) }];
        let wanted = Wanted {
            sites: &sites,
            classes: None,
            access_log: None,
            open_log: &|_| unreachable!("no log"),
            acme: None,
            may_lack: false,
        };
        let current = Arc::new(Current::open(&wanted, false, Default::default(), 0).unwrap());
        let cache = Cache::new(current.served().roots.clone(), CacheLimits::per_worker(1));
        let coder = Arc::new(Coder::new(256 << 20));
        let handler = Handler::new(cache, Lookups::new(Pool::new(), || ()), current);
        let handler = handler.coding_by(FormWaits::new(Arc::clone(&coder), || ()));
        Rig {
            folder,
            handler,
            coder,
            plain,
            now: Nanos::from_secs(100),
            waited: 0,
            is_secure: false,
            is_direct: true,
            rewritten_to: None,
        }
    }

    /// Sets the rate of the line.
    fn at(mut self, mbit: u64) -> Rig {
        self.at_rate(mbit);
        self
    }

    fn at_rate(&mut self, mbit: u64) {
        self.handler.see_line(LineView { rate: Rate::from_bits_per_s(mbit * 1_000_000), below_bytes: 0 });
    }

    fn to(&self, request: &Request) -> To {
        To {
            site: self.handler.site(request),
            is_secure: self.is_secure,
            http3_port: None,
            client: 1,
            dictionaries: self.handler.sites().compression(0).dictionaries.filter(|_| self.is_secure),
            is_direct: self.is_direct,
            room_bytes: usize::MAX,
        }
    }

    fn rewritten<'r>(&self, request: Request<'r>) -> Request<'r> {
        self.rewritten_to.map_or(request, |path| request.with_path(path.as_bytes(), None))
    }

    fn run(&self, level: Level) -> usize {
        std::iter::from_fn(|| self.coder.begin(level)).map(|job| self.coder.run(job)).count()
    }

    fn get(&mut self, lines: &[&str]) -> Got {
        self.ask("GET", "/a.html", lines)
    }

    fn ask(&mut self, method: &str, path: &str, lines: &[&str]) -> Got {
        let run = |rig: &mut Rig| {
            rig.run(Level::Fast);
            rig.handler.take_found(rig.now);
        };
        self.ask_while(run, method, path, lines)
    }

    /// Sends a request while the threads that make forms do nothing.
    fn late(&mut self, path: &str, lines: &[&str]) -> Got {
        let give_up = |rig: &mut Rig| {
            let due = rig.handler.forms_due().unwrap();
            rig.handler.give_up_forms(due);
        };
        self.ask_while(give_up, "GET", path, lines)
    }

    /// Sends a request. `wait_for_form` is called while the request waits for a form.
    fn ask_while(&mut self, wait_for_form: fn(&mut Rig), method: &str, path: &str, lines: &[&str]) -> Got {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let bytes = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let request = self.rewritten(parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request);
        let to = self.to(&request);
        let mut answer = self.handler.answer(to, &request, CLIENT, self.now);
        loop {
            let (found, may_wait) = match answer {
                Answer::Reply(reply) => return Got::of(reply),
                Answer::Lookup(Awaited::File(lookup, step), _) => match self.handler.cache.finish(lookup.run()) {
                    CacheAnswer::Ready(found) => ((found, step), true),
                    CacheAnswer::Offload(lookup) => {
                        answer = Answer::Lookup(Awaited::File(lookup, step), None);
                        continue;
                    }
                },
                Answer::Lookup(wait, _) => {
                    let step = wait.step();
                    self.waited += 1;
                    self.handler.begin_lookup(wait, exchange(), 1, self.now).unwrap();
                    wait_for_form(self);
                    let (_, found) = self.handler.next_found().expect("the wait is over");
                    ((found, step), self.handler.may_wait(exchange()))
                }
                other => panic!("{other:?}"),
            };
            answer = self.handler.answer_found(to, &request, found, None, (may_wait, self.now));
        }
    }
}

impl Got {
    fn of(reply: Reply) -> Got {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = reply.response.fields().map(|(name, value)| (text(name).to_lowercase(), text(value))).collect();
        let (status, mut body, mut bytes) = (reply.response.status.0, reply.response.body, Vec::new());
        while !body.is_empty() {
            body.read(&mut InMemory, &mut bytes, u64::MAX).unwrap();
        }
        Got { status, fields, body: bytes }
    }

    fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    fn coding(&self) -> Option<Coding> {
        Coding::ALL.into_iter().find(|coding| coding.token() == self.field("content-encoding"))
    }

    /// The content, whatever its coding is.
    fn content(&self) -> Vec<u8> {
        self.coding().map_or_else(|| self.body.clone(), |coding| decoded(coding, &self.body))
    }
}

/// With a length, the client would continue to read after the end of the body.
#[test]
fn a_named_file_that_is_coded_on_its_way_has_no_length() {
    let coded = Response::new(Status::OK, Body::default()).of_length(Length::Unknown);
    assert!(named(coded, &Response::new(Status::OK, ())).has_unknown_length());
    let plain = Response::new(Status::OK, Body::default()).with_length(0);
    assert!(!named(plain, &Response::new(Status::OK, ())).has_unknown_length());
}

/// The first client of a slow line waits for the fast level, which the best level then replaces. Each has its own tag.
#[test]
fn a_page_is_sent_in_the_coding_that_its_client_wants() {
    let mut rig = Rig::new(Options::default()).at(1);
    for (lines, coding) in [
        (&[BROWSER][..], Some(Coding::Brotli)),
        (&["Accept-Encoding: gzip;q=0.5, zstd"], Some(Coding::Zstd)),
        (&["Accept-Encoding: gzip"], Some(Coding::Gzip)),
        (&["Accept-Encoding: gzip;q=0"], None),
        (&[], None),
    ] {
        let got = rig.get(lines);
        assert_eq!((got.status, got.coding(), got.field("vary")), (200, coding, "Accept-Encoding"), "{lines:?}");
        assert!(got.content() == rig.plain && got.field("content-length") == got.body.len().to_string(), "{lines:?}");
        assert_eq!(got.field("content-type"), "text/html; charset=utf-8");
        assert_eq!(got.field("accept-ranges"), if coding.is_none() { "bytes" } else { "" });
        assert!(coding.is_none() || got.body.len() < rig.plain.len() / 2);
        let head = rig.ask("HEAD", "/a.html", lines);
        assert_eq!(head.fields, got.fields, "{lines:?}");
    }
    assert_eq!(rig.waited, 3, "each form was made once");
    let fast = rig.get(&[BROWSER]);
    assert_eq!(rig.run(Level::Best), 3);
    let best = rig.get(&[BROWSER]);
    assert!(best.body.len() < fast.body.len() && best.content() == rig.plain);
    assert_ne!(best.field("etag"), fast.field("etag"));
}

/// The first client has the file as it is if a wait would not pay, and the next one has the form.
#[test]
fn a_form_that_is_not_there_is_made_for_the_next_client() {
    let mut rig = Rig::new(Options::default()).at(10_000);
    let first = rig.get(&[BROWSER]);
    assert_eq!((first.coding(), first.field("vary"), rig.waited), (None, "Accept-Encoding", 0));
    assert!(first.body == rig.plain);
    assert_eq!(rig.get(&[BROWSER]), first);
    assert_eq!(rig.run(Level::Fast), 1, "one job for two requests");
    assert_eq!(rig.get(&[BROWSER]).coding(), Some(Coding::Brotli));
    // A client has another form that it accepts until its own is there.
    assert_eq!(rig.get(&["Accept-Encoding: zstd, br;q=0.5"]).coding(), Some(Coding::Brotli));
    // A client that takes nothing else waits.
    assert_eq!(rig.get(&["Accept-Encoding: gzip, identity;q=0"]).coding(), Some(Coding::Gzip));
    assert_eq!(rig.waited, 1);
}

/// Earlier the first client of a script on a slow line got it uncoded, as long as the rate was searched.
#[test]
fn a_form_is_waited_for_while_the_rate_is_not_known() {
    let mut rig = Rig::new(Options::default());
    assert_eq!((rig.get(&[BROWSER]).coding(), rig.waited), (Some(Coding::Brotli), 1));
}

/// Files that are gone show that no lookup happens: a change is noticed by their watch, which this rig does not read,
/// or after a second.
#[test]
fn a_client_that_has_a_file_costs_no_lookup() {
    let (mut rig, _) = rig_with_pictures();
    rig = rig.at(1);
    let asked = [("/a.html", BROWSER), ("/a.html", "X: y"), ("/a.jpg", OF_PICTURES), ("/a.jpg", OF_ANYTHING)];
    let held = asked.map(|(path, field)| format!("If-None-Match: {}", rig.ask("GET", path, &[field]).field("etag")));
    let names = ["a.html", "a.jpg", "a.jpg.avif", "a.jpg.webp"];
    names.iter().for_each(|name| std::fs::remove_file(rig.folder.path(name)).unwrap());
    for ((path, field), held) in asked.iter().zip(&held) {
        assert_eq!(rig.ask("GET", path, &[field, held]).status, 304, "{path} {field}");
    }
    rig.now += REVALIDATE_AFTER;
    for ((path, field), held) in asked.iter().zip(&held) {
        assert_eq!(rig.ask("GET", path, &[field, held]).status, 404, "{path} {field}");
    }
}

/// A client that saves data waits where others get the file as it is.
#[test]
fn a_client_that_saves_data_waits_for_the_form() {
    for (value, waits) in [("on", true), ("On", true), ("off", false), ("on, off", false), ("", false)] {
        let mut rig = Rig::new(Options::default()).at(10_000);
        let got = rig.get(&[BROWSER, &format!("Save-Data: {value}")]);
        assert_eq!((got.coding().is_some(), rig.waited), (waits, usize::from(waits)), "{value}");
        assert_eq!(rig.get(&["Save-Data: on"]).coding(), None, "it takes no coding");
    }
}

/// A client may have any form that it accepts, including one that no longer exists.
#[test]
fn a_client_that_has_a_form_gets_no_other() {
    let mut rig = Rig::new(Options::default()).at(1);
    let plain = rig.get(&[]).field("etag").to_string();
    let fast = rig.get(&[BROWSER]).field("etag").to_string();
    rig.run(Level::Best);
    let best = rig.get(&[BROWSER]).field("etag").to_string();
    for tag in [&plain, &fast, &best] {
        for listed in [tag.clone(), format!("\"x\", W/{tag}")] {
            let got = rig.get(&[BROWSER, &format!("If-None-Match: {listed}")]);
            assert_eq!((got.status, got.field("etag"), got.body.len()), (304, tag.as_str(), 0), "{listed}");
            assert_eq!(got.field("vary"), "Accept-Encoding");
        }
    }
    for (lines, status, has_coding) in [
        (&[BROWSER, "If-None-Match: \"x\""][..], 200, true),
        (&[BROWSER, "If-None-Match: *"], 304, false),
        (&[&format!("If-None-Match: {fast}")], 200, false),
        (&["Accept-Encoding: gzip", &format!("If-None-Match: {best}")], 200, true),
        (&[BROWSER, &format!("If-Match: {best}")], 200, true),
        (&[BROWSER, &format!("If-Match: {plain}")], 200, false),
        (&[BROWSER, "If-Match: \"x\""], 412, false),
        (&[BROWSER, "If-Match: \"x\"", &format!("If-None-Match: {best}")], 412, false),
        (&["Accept-Encoding: br, identity;q=0", &format!("If-None-Match: {plain}")], 200, true),
    ] {
        let got = rig.get(lines);
        assert_eq!((got.status, got.coding().is_some()), (status, has_coding), "{lines:?}");
        assert!(status != 200 || got.content() == rig.plain);
    }
    let modified = rig.get(&[]).field("last-modified").to_string();
    let got = rig.get(&[BROWSER, &format!("If-Modified-Since: {modified}")]);
    assert_eq!((got.status, got.field("etag")), (304, best.as_str()));
}

#[test]
fn ranges_are_those_of_the_file_as_it_is() {
    let mut rig = Rig::new(Options::default()).at(1);
    let plain = rig.get(&[]).field("etag").to_string();
    let coded = rig.get(&[BROWSER]).field("etag").to_string();
    let part = rig.get(&[BROWSER, "Range: bytes=100-199"]);
    assert_eq!((part.status, part.coding(), part.field("etag")), (206, None, plain.as_str()));
    assert_eq!((part.field("content-range"), part.field("vary")), ("bytes 100-199/20000", "Accept-Encoding"));
    assert!(part.body == rig.plain[100..200]);
    let several = rig.get(&[BROWSER, "Range: bytes=0-1, 10-11"]);
    assert_eq!((several.status, several.coding()), (206, None));
    assert_eq!(rig.get(&[BROWSER, "Range: bytes=20000-"]).status, 416);
    assert_eq!(rig.get(&[BROWSER, "Range: bytes=0-1", &format!("If-Range: {plain}")]).status, 206);
    // The client has parts of other bytes, so all of them come again.
    let whole = rig.get(&[BROWSER, "Range: bytes=0-1", &format!("If-Range: {coded}")]);
    assert_eq!((whole.status, whole.field("etag")), (200, coded.as_str()));
    assert!(whole.content() == rig.plain);
    let held = rig.get(&[BROWSER, "Range: bytes=0-1", &format!("If-None-Match: {plain}")]);
    assert_eq!(held.status, 304);
}

#[test]
fn a_sidecar_is_sent_in_the_place_of_its_file() {
    let mut rig = Rig::new(Options::default());
    let of = |coding| encoded(coding, Level::Best, &rig.plain).unwrap();
    let (br, gz) = (of(Coding::Brotli), of(Coding::Gzip));
    rig.folder.put("a.html.br", &br);
    rig.folder.put("a.html.gz", &gz);
    let got = rig.get(&[BROWSER]);
    assert!(got.coding() == Some(Coding::Brotli) && got.body == br);
    assert_eq!((got.field("content-type"), got.field("vary")), ("text/html; charset=utf-8", "Accept-Encoding"));
    let unchanged = rig.get(&[BROWSER, &format!("If-None-Match: {}", got.field("etag"))]);
    assert_eq!((unchanged.status, unchanged.field("etag")), (304, got.field("etag")));
    assert!(rig.get(&["Accept-Encoding: gzip"]).body == gz);
    // No zstd is there: until one is made, the client has the next coding that it accepts.
    assert!(rig.get(&["Accept-Encoding: zstd, gzip;q=0.1"]).body == gz);
    assert!(rig.get(&[]).body == rig.plain);
    assert_eq!(rig.get(&[BROWSER, "Range: bytes=0-9"]).body, rig.plain[..10]);
    let own = rig.ask("GET", "/a.html.br", &[BROWSER]);
    assert!(own.body == br && own.coding().is_none() && own.field("vary").is_empty());
}

/// The `Accept` fields for pictures of Chromium and of `curl`.
const OF_PICTURES: &str = "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";
const OF_ANYTHING: &str = "Accept: */*";

/// A site with a photo and the same photo in two further types, of which the last is the smallest.
fn rig_with_pictures() -> (Rig, [Vec<u8>; 3]) {
    let rig = Rig::new(Options::default());
    let bytes = [vec![7; 9_000], picture(ImageType::Avif, 6_000, 1), picture(ImageType::Webp, 5_000, 2)];
    ["a.jpg", "a.jpg.avif", "a.jpg.webp"]
        .iter()
        .zip(&bytes)
        .for_each(|(name, bytes)| drop(rig.folder.put(name, bytes)));
    (rig, bytes)
}

#[test]
fn a_picture_is_sent_in_a_type_that_its_client_names() {
    let (mut rig, [jpeg, avif, webp]) = rig_with_pictures();
    for (lines, mime, bytes) in [
        (&[OF_PICTURES][..], "image/webp", &webp),
        (&["Accept: image/avif, image/webp;q=0.9"], "image/avif", &avif),
        (&["Accept: image/avif"], "image/avif", &avif),
        (&["Accept: image/webp;q=0"], "image/jpeg", &jpeg),
        (&["Accept: image/*"], "image/jpeg", &jpeg),
        (&[OF_ANYTHING], "image/jpeg", &jpeg),
        (&[], "image/jpeg", &jpeg),
        (&[OF_PICTURES, "Range: bytes=0-99", "If-Range: \"x\""], "image/webp", &webp),
    ] {
        let got = rig.ask("GET", "/a.jpg", lines);
        assert_eq!((got.status, got.field("content-type"), got.field("vary")), (200, mime, "Accept"), "{lines:?}");
        assert_eq!((got.field("accept-ranges"), got.field("content-encoding")), ("bytes", ""));
        assert!(got.body == *bytes && got.field("content-length") == bytes.len().to_string(), "{lines:?}");
        assert_eq!(rig.ask("HEAD", "/a.jpg", lines).fields, got.fields, "{lines:?}");
    }
    rig.folder.put("b.jpg", &jpeg);
    let alone = rig.ask("GET", "/b.jpg", &[OF_PICTURES]);
    assert_eq!((alone.status, alone.field("vary")), (200, ""));
    assert!(alone.body == jpeg);
}

/// A client that continues a picture gets parts of the form that it has, whatever its Accept field names. A client
/// without one gets parts of the form that it would get as a whole.
#[test]
fn parts_of_a_picture_are_those_of_what_its_client_has() {
    let (mut rig, bytes) = rig_with_pictures();
    let accepts = [OF_ANYTHING, "Accept: image/avif", "Accept: image/webp"];
    let mut tags = accepts.map(|accept| rig.ask("GET", "/a.jpg", &[accept]).field("etag").to_string());
    for accept in accepts.into_iter().chain([OF_PICTURES]) {
        for (tag, bytes) in tags.iter().zip(&bytes) {
            for name in ["If-Range", "If-Match"] {
                let field = format!("{name}: {tag}");
                let part = rig.ask("GET", "/a.jpg", &[accept, "Range: bytes=4000-4099", &field]);
                assert_eq!((part.status, part.field("etag"), part.field("vary")), (206, tag.as_str(), "Accept"));
                assert!(part.body == bytes[4000..4100], "{accept} {field}");
                assert_eq!(part.field("content-range"), format!("bytes 4000-4099/{}", bytes.len()));
            }
        }
    }
    for (accept, (tag, bytes)) in accepts.into_iter().zip(tags.iter().zip(&bytes)) {
        let part = rig.ask("GET", "/a.jpg", &[accept, "Range: bytes=-10"]);
        assert_eq!((part.status, part.field("etag")), (206, tag.as_str()));
        assert!(part.body == bytes[bytes.len() - 10..]);
        let several = rig.ask("GET", "/a.jpg", &[accept, "Range: bytes=0-1, 10-11"]);
        assert_eq!((several.status, several.field("etag")), (206, tag.as_str()));
        let behind = rig.ask("GET", "/a.jpg", &[accept, &format!("Range: bytes={}-", bytes.len())]);
        assert_eq!((behind.status, behind.field("content-range")), (416, format!("bytes */{}", bytes.len()).as_str()));
    }
    let any = rig.ask("GET", "/a.jpg", &[OF_ANYTHING, "If-Match: *"]);
    assert_eq!((any.status, any.field("etag")), (200, tags[0].as_str()));
    assert_eq!(rig.ask("GET", "/a.jpg", &[OF_PICTURES, "If-Match: \"x\""]).status, 412);
    tags.sort_unstable();
    assert!(tags[0] != tags[1] && tags[1] != tags[2]);
}

#[test]
fn a_client_that_has_a_picture_in_some_type_gets_no_other() {
    let (mut rig, _) = rig_with_pictures();
    let accepts = [OF_ANYTHING, "Accept: image/avif", "Accept: image/webp"];
    let [jpeg, avif, webp] = accepts.map(|accept| rig.ask("GET", "/a.jpg", &[accept]).field("etag").to_string());
    for (accept, listed, status, tag) in [
        (OF_PICTURES, &[&jpeg][..], 304, &jpeg),
        (OF_PICTURES, &[&avif], 304, &avif),
        (OF_PICTURES, &[&jpeg, &avif, &webp], 304, &webp),
        (OF_PICTURES, &[], 200, &webp),
        (OF_ANYTHING, &[&avif, &webp], 200, &jpeg),
        (OF_ANYTHING, &[&avif, &jpeg], 304, &jpeg),
        ("Accept: image/avif", &[&webp], 200, &avif),
    ] {
        let listed = listed.iter().map(|tag| format!("W/{tag}")).chain(["\"x\"".into()]).collect::<Vec<_>>().join(", ");
        let got = rig.ask("GET", "/a.jpg", &[accept, &format!("If-None-Match: {listed}")]);
        assert_eq!(
            (got.status, got.field("etag"), got.field("vary")),
            (status, tag.as_str(), "Accept"),
            "{accept} {listed}"
        );
    }
    rig.now += REVALIDATE_AFTER;
    std::fs::remove_file(rig.folder.path("a.jpg.webp")).unwrap();
    let got = rig.ask("GET", "/a.jpg", &[OF_PICTURES, &format!("If-None-Match: {webp}")]);
    assert_eq!((got.status, got.field("etag")), (200, avif.as_str()));
}

/// The fields that a browser with a dictionary of these bytes sends.
fn with_dictionary(bytes: &[u8]) -> [String; 3] {
    use base64::Engine;
    let digest = base64::engine::general_purpose::STANDARD.encode(digest_of(bytes));
    [format!("{BROWSER}, dcb, dcz"), format!("Available-Dictionary: :{digest}:"), "Sec-Fetch-Site: same-origin".into()]
}

/// The fields of a request with that dictionary, except the one that `other` replaces.
fn with_dictionary_but(bytes: &[u8], other: &str) -> [String; 3] {
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_string();
    with_dictionary(bytes).map(|line| if name(&line) == name(other) { other.into() } else { line })
}

impl Rig {
    /// A rig over TLS whose pages have much in common, and the first of which was sent.
    fn with_pages() -> Rig {
        let mut rig = Rig { is_secure: true, ..Rig::new(Options::default()) };
        let page = [&b"<title>Another page</title>"[..], &rig.plain].concat();
        ["b.html", "docs/c.html", "docs/d.html"].iter().for_each(|name| {
            rig.folder.put(name, [name.as_bytes(), &page].concat());
        });
        let first = rig.get(&[BROWSER, "Sec-Fetch-Site: none"]);
        assert_eq!(first.field("use-as-dictionary"), "match=\"/*\", match-dest=(\"document\")");
        assert_eq!(rig.coder.dictionaries.run(), 1);
        rig
    }

    fn page(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path(name)).unwrap()
    }

    fn ask_with(&mut self, path: &str, lines: &[String]) -> Got {
        self.ask("GET", path, &lines.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

impl Got {
    fn vary(&self) -> Vec<&str> {
        self.fields.iter().filter(|(name, _)| name == "vary").map(|(_, value)| value.as_str()).collect()
    }
}

#[test]
fn a_page_is_coded_with_the_one_before() {
    let mut rig = Rig::with_pages();
    let dictionary = rig.plain.clone();
    let lines = with_dictionary(&dictionary);
    let waited = rig.waited;
    let got = rig.ask_with("/b.html", &lines);
    assert_eq!((got.status, got.field("content-encoding"), rig.waited - waited), (200, "dcb", 1));
    assert!(got.body.len() < 300 && got.field("content-length") == got.body.len().to_string());
    assert!(decoded_with(Coding::Brotli, &got.body, &dictionary).unwrap() == rig.page("b.html"));
    assert_eq!(got.vary(), ["Accept-Encoding, Available-Dictionary, Sec-Fetch-Site"]);
    assert_eq!(got.field("use-as-dictionary"), "match=\"/{b.html}\", match-dest=(\"document\")");
    let zstd = with_dictionary_but(&dictionary, "Accept-Encoding: dcz");
    let got = rig.ask_with("/b.html", &zstd);
    assert_eq!(got.field("content-encoding"), "dcz");
    assert!(decoded_with(Coding::Zstd, &got.body, &dictionary).unwrap() == rig.page("b.html"));
    // The first page of another folder is for that folder, the next one for itself.
    let other = rig.ask_with("/docs/c.html", &lines);
    assert_eq!(other.field("use-as-dictionary"), "match=\"/docs/*\", match-dest=(\"document\")");
    rig.coder.dictionaries.run();
    let last = rig.ask_with("/docs/d.html", &with_dictionary(&rig.page("docs/c.html")));
    assert_eq!(last.field("use-as-dictionary"), "match=\"/docs/{d.html}\", match-dest=(\"document\")");
    // A better form is made once a second client asks.
    rig.ask_with("/docs/d.html", &with_dictionary(&rig.page("docs/c.html")));
    assert!(rig.run(Level::Best) > 0);
}

/// Tests which page is a dictionary for others.
#[test]
fn the_first_page_is_for_the_site_until_a_folder_has_its_own() {
    let mut rig = Rig { is_secure: true, ..Rig::new(Options::default()) };
    for (name, bytes) in [("docs/short.html", 1_000), ("docs/long.html", 5_000), ("docs/most.html", 300_000)] {
        rig.folder.put(name, [name.as_bytes(), &text(bytes)].concat());
    }
    let offer = |rig: &mut Rig, path: &str, lines: &[String]| {
        let got = rig.ask_with(path, lines);
        rig.coder.dictionaries.run();
        let offer = got.field("use-as-dictionary");
        offer.split('"').nth(1).unwrap_or_default().to_string()
    };
    assert_eq!(offer(&mut rig, "/docs/short.html", &[BROWSER.into()]), "/*");
    let [short, long] = ["docs/short.html", "docs/long.html"].map(|name| rig.page(name));
    assert_eq!(offer(&mut rig, "/docs/short.html", &with_dictionary(&short)), "/docs/{short.html}");
    assert_eq!(offer(&mut rig, "/docs/long.html", &with_dictionary(&short)), "/docs/*", "four times as long");
    assert_eq!(offer(&mut rig, "/docs/short.html", &with_dictionary(&long)), "/docs/{short.html}");
    assert_eq!(offer(&mut rig, "/a.html", &with_dictionary(&long)), "/*");
    assert_eq!(offer(&mut rig, "/docs/most.html", &with_dictionary(&long)), "/docs/{most.html}", "too long");
    // It replaces the browser's dictionary for its folder or its page, until another replaces it.
    assert_eq!(offer(&mut rig, "/docs/short.html", &with_dictionary(b"of another server")), "/docs/*");
}

/// Its pattern would not match the URLs that clients request.
#[test]
fn a_rewritten_request_is_offered_no_dictionary() {
    let mut rig = Rig::with_pages();
    rig.rewritten_to = Some("/docs/c.html");
    let got = rig.ask_with("/pub/docs/c.html?d", &with_dictionary(&rig.plain.clone()));
    assert_eq!((got.status, got.field("content-encoding"), got.field("use-as-dictionary")), (200, "dcb", ""));
    assert_eq!(rig.coder.dictionaries.run(), 0);
    let got = rig.ask_with("/docs/c.html?d", &with_dictionary(&rig.plain.clone()));
    assert_eq!(got.field("use-as-dictionary"), "match=\"/docs/*\", match-dest=(\"document\")");
}

/// A site is built again between two visits.
#[test]
fn the_next_version_of_a_page_is_a_few_bytes() {
    let mut rig = Rig::with_pages();
    let before = rig.plain.clone();
    let mut after = before.clone();
    after[9_000..9_010].copy_from_slice(b"2026-11-27");
    rig.folder.put("a.html", &after);
    rig.now += Nanos::from_secs(10);
    let got = rig.ask_with("/a.html", &with_dictionary(&before));
    assert!(got.field("content-encoding") == "dcb" && got.body.len() < 100, "{}", got.body.len());
    assert!(decoded_with(Coding::Brotli, &got.body, &before).unwrap() == after);
    assert_eq!(got.field("use-as-dictionary"), "match=\"/{a.html}\", match-dest=(\"document\")");
}

#[test]
fn a_script_is_offered_for_the_version_with_another_hash() {
    let mut rig = Rig { is_secure: true, ..Rig::new(Options::default()) };
    rig.folder.put("js/app.3f9a8b7c.js", text(9_000));
    rig.folder.put("js/app.0b1c2d3e.js", text(9_100));
    rig.folder.put("js/lib.css", text(9_000));
    rig.folder.put("3f9a8b7c.js", text(9_300));
    let offer = |rig: &mut Rig, path: &str| {
        let got = rig.ask("GET", path, &[BROWSER]);
        rig.coder.dictionaries.run();
        (got.field("use-as-dictionary").to_string(), got.field("cache-control").to_string())
    };
    let (js, immutable) = offer(&mut rig, "/js/app.3f9a8b7c.js");
    assert_eq!(js, "match=\"/js/app.*.js\", match-dest=(\"script\")");
    assert_eq!(immutable, "max-age=31536000, immutable");
    let again = rig.ask("GET", "/js/app.3f9a8b7c.js", &[BROWSER, "If-None-Match: *"]);
    assert_eq!((again.status, again.field("cache-control")), (304, "max-age=31536000, immutable"));
    assert_eq!(offer(&mut rig, "/js/lib.css"), ("match=\"/js/lib.css\", match-dest=(\"style\")".into(), "".into()));
    assert_eq!(offer(&mut rig, "/3f9a8b7c.js").0, "match=\"/3f9a8b7c.js\", match-dest=(\"script\")");
    let got = rig.ask_with("/js/app.0b1c2d3e.js", &with_dictionary(&text(9_000)));
    assert!(got.field("content-encoding") == "dcb" && got.body.len() < 150);
    assert_eq!(rig.ask("GET", "/js/app.0b1c2d3f.js", &[BROWSER]).field("cache-control"), "", "there is no such file");
}

/// Eight characters that may be a word count as a hash if the other names suggest it, in each response for the file.
#[test]
fn the_folder_of_a_name_says_whether_it_has_a_hash() {
    let mut rig = Rig::new(Options::default());
    for folder in ["built", "mixed"] {
        for name in
            ["index-B3xK9faZ.js", "vendor-aQ_3-9Zq.js", "dist-BHJd_fmG.css", "x-k4mZq7xd.js", "x-C4kqm9xz.woff2"]
        {
            rig.folder.put(format!("{folder}/{name}"), text(9_000));
        }
    }
    rig.folder.put("mixed/app.js", text(9_000));
    let mut control = |path: &str, lines: &[&str]| {
        let got = rig.ask("GET", path, lines);
        (got.status, got.field("cache-control").to_string())
    };
    let immutable = "max-age=31536000, immutable".to_string();
    for name in ["x-k4mZq7xd.js", "x-C4kqm9xz.woff2", "index-B3xK9faZ.js"] {
        for (line, status) in [(BROWSER, 200), ("Range: bytes=0-9", 206), ("If-None-Match: *", 304), ("X: ", 200)] {
            assert_eq!(control(&format!("/built/{name}"), &[line]), (status, immutable.clone()), "{name} {line}");
        }
    }
    for name in ["x-k4mZq7xd.js", "x-C4kqm9xz.woff2"] {
        assert_eq!(control(&format!("/mixed/{name}"), &[BROWSER]), (200, String::new()), "{name}");
    }
    assert_eq!(control("/mixed/index-B3xK9faZ.js", &[BROWSER]), (200, immutable));
}

/// A client that lacks something needed gets the same page in another coding.
#[test]
fn a_dictionary_is_used_for_its_own_clients_alone() {
    let mut rig = Rig::with_pages();
    let dictionary = rig.plain.clone();
    let long = "A".repeat(10_000);
    let elsewhere = {
        let other = DictionaryId { site: SiteKey(1), digest: digest_of(&dictionary) };
        rig.coder.dictionaries.find(&other)
    };
    assert_eq!(elsewhere, None, "another site's");
    for other in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "X: ",
        "Accept-Encoding: *",
        "Accept-Encoding: br, dcb;q=0.5",
        "Accept-Encoding: br, dcb;q=0, dcz;q=0",
        &format!("Accept-Encoding: {}dcb", "x,".repeat(5_000)),
        "Available-Dictionary: :AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
        "Available-Dictionary: ::",
        &format!("Available-Dictionary: :{long}:"),
        &format!("Available-Dictionary: {long}"),
    ] {
        let mut lines = with_dictionary_but(&dictionary, other).to_vec();
        if other == "X: " {
            lines.truncate(2);
        }
        let got = rig.ask_with("/b.html", &lines);
        assert!(!got.field("content-encoding").starts_with("dc"), "{other}");
        assert!(got.status == 200 && got.content() == rig.page("b.html"), "{other}");
        assert!(got.vary().iter().any(|value| value.contains("Available-Dictionary")), "{other}");
    }
    rig.is_secure = false;
    let got = rig.ask_with("/b.html", &with_dictionary(&dictionary));
    assert_eq!((got.field("use-as-dictionary"), got.vary()), ("", vec!["Accept-Encoding"]));
    rig.is_secure = true;
    rig.coder.dictionaries.set_bytes_max(0);
    let got = rig.ask_with("/b.html", &with_dictionary(&dictionary));
    assert!(!got.field("content-encoding").starts_with("dc") && got.content() == rig.page("b.html"), "it is gone");
}

/// The dictionary is removed between the response and the job that needs it.
#[test]
fn a_dictionary_that_goes_meanwhile_leaves_the_page() {
    let mut rig = Rig::with_pages();
    let dictionary = rig.plain.clone();
    let lines = with_dictionary(&dictionary).join("\r\n");
    let bytes = format!("GET /b.html HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
    let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
    rig.ask("GET", "/b.html", &[]);
    let to = rig.to(&request);
    let Answer::Lookup(wait, _) = rig.handler.answer(to, &request, CLIENT, rig.now) else { panic!("no wait") };
    rig.handler.begin_lookup(wait, exchange(), 1, rig.now).unwrap();
    rig.coder.dictionaries.set_bytes_max(0);
    rig.run(Level::Fast);
    rig.handler.take_found(rig.now);
    let (_, found) = rig.handler.next_found().expect("the wait is over");
    let answer = rig.handler.answer_found(to, &request, (found, SearchStep::Exact), None, (false, rig.now));
    let Answer::Reply(reply) = answer else { panic!("it waits no more") };
    let got = Got::of(reply);
    assert!(!got.field("content-encoding").starts_with("dc") && got.content() == rig.page("b.html"));
}

/// A browser keeps the decoded bytes; a shared cache keeps the coded bytes.
#[test]
fn a_client_that_has_a_form_with_a_dictionary_gets_no_other() {
    let mut rig = Rig::with_pages();
    let lines = with_dictionary(&rig.plain.clone());
    let tag = rig.ask_with("/b.html", &lines).field("etag").to_string();
    let asked = [&lines[..], &[format!("If-None-Match: {tag}")]].concat();
    let got = rig.ask_with("/b.html", &asked);
    assert_eq!((got.status, got.field("etag"), got.body.len()), (304, tag.as_str(), 0));
    assert_eq!(got.vary(), ["Accept-Encoding, Available-Dictionary, Sec-Fetch-Site"]);
    let without = [BROWSER.to_string(), format!("If-None-Match: {tag}")];
    assert_eq!(rig.ask_with("/b.html", &without).status, 304);
    for wrong in [tag.replace("dcb", "dcx"), tag.replace("dcb6", "dcb7"), tag.replace('-', "")] {
        assert_eq!(rig.ask_with("/b.html", &[BROWSER.into(), format!("If-None-Match: {wrong}")]).status, 200);
    }
    rig.is_direct = false;
    assert_eq!(rig.ask_with("/b.html", &asked).status, 304);
    assert_eq!(rig.ask_with("/b.html", &without).status, 200);
    let other = [&with_dictionary(b"another")[..], &[format!("If-None-Match: {tag}")]].concat();
    assert_eq!(rig.ask_with("/b.html", &other).status, 200);
}

/// Short files, pictures and sites without compression do not depend on codings.
#[test]
fn what_is_never_coded_says_nothing_of_codings() {
    let off = Options { codings: http::Codings::NONE, ..Options::default() };
    for (mut rig, path) in [
        (Rig::new(off), "/a.html"),
        (Rig::new(Options::default()), "/a.png"),
        (Rig::new(Options::default()), "/b.html"),
    ] {
        rig.folder.put("a.png", text(20_000));
        rig.folder.put("b.html", text(255));
        let got = rig.ask("GET", path, &[BROWSER]);
        assert_eq!((got.status, got.coding(), got.field("vary"), rig.run(Level::Fast)), (200, None, "", 0), "{path}");
    }
}

/// A hung thread does not hold a request.
#[test]
fn a_wait_ends_in_any_case() {
    let mut rig = Rig::new(Options::default()).at(1);
    rig.get(&[]);
    let bytes = format!("GET /a.html HTTP/1.1\r\nHost: a\r\n{BROWSER}\r\n\r\n");
    let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
    let to = To {
        site: Some(0),
        is_secure: false,
        http3_port: None,
        client: 1,
        dictionaries: None,
        is_direct: true,
        room_bytes: 0,
    };
    let Answer::Lookup(wait, _) = rig.handler.answer(to, &request, CLIENT, rig.now) else { panic!("no wait") };
    let key = rig.handler.begin_lookup(wait, exchange(), 1, rig.now).unwrap();
    // After that, the uncoded file would have arrived sooner.
    let until = rig.handler.forms_due().expect("a wait");
    assert!(until > rig.now && until <= rig.now + Nanos::from_secs(2));
    assert!(rig.handler.askers().eq([(exchange(), rig.now)]));
    rig.handler.give_up_forms(until - Nanos(1));
    assert_eq!(rig.handler.found(), 0);
    rig.handler.give_up_forms(until);
    assert_eq!(rig.handler.forms_due(), None);
    let (id, found) = rig.handler.next_found().expect("the wait is over");
    assert!(id == exchange() && !rig.handler.may_wait(exchange()));
    let answer = rig.handler.answer_found(to, &request, (found, SearchStep::Exact), None, (false, rig.now));
    let Answer::Reply(reply) = answer else { panic!("it waits no more") };
    assert_eq!(Got::of(reply).coding(), None);
    // An exchange that has left gets nothing.
    let Answer::Lookup(wait, _) = rig.handler.answer(to, &request, CLIENT, rig.now) else { panic!("no wait") };
    rig.handler.begin_lookup(wait, exchange(), 1, rig.now).unwrap();
    rig.handler.leave_lookup(&key, exchange());
    rig.run(Level::Fast);
    rig.handler.take_found(rig.now);
    assert!(rig.handler.next_found().is_none() && rig.handler.askers().next().is_none());
}

/// A server that has just started, with more readers than its threads can make forms for: none of their first pages is
/// sent uncoded, and each is correct.
#[test]
fn pages_whose_forms_are_late_are_coded_on_their_way() {
    const PAGES: usize = 100;
    let mut rig = Rig::new(Options::default()).at(10);
    let page =
        |at: usize| [format!("{at}").as_bytes(), &text(if at.is_multiple_of(2) { 20_000 } else { 100_000 })].concat();
    (0..PAGES).for_each(|at| drop(rig.folder.put(format!("{at}.html"), page(at))));
    let (mut plain, mut bytes, mut whole) = (0, 0, 0);
    for at in 0..PAGES {
        let got = rig.late(&format!("/{at}.html"), &[BROWSER]);
        assert!(got.status == 200 && got.content() == page(at));
        plain += usize::from(got.coding().is_none());
        (bytes, whole) = (bytes + got.body.len(), whole + page(at).len());
        assert!(got.coding() != Some(Coding::Zstd) || got.field("etag").starts_with("W/\""), "{got:?}");
        assert_eq!((got.field("vary"), got.field("accept-ranges")), ("Accept-Encoding", ""));
    }
    assert_eq!(plain, 0);
    assert!(rig.waited > 0 && bytes < whole / 3, "{bytes} of {whole}");
    for (lines, coding) in [
        (&["Accept-Encoding: gzip"][..], Some(Coding::Gzip)),
        (&["Accept-Encoding: br"], None),
        (&["Accept-Encoding: gzip, identity;q=0.5"], Some(Coding::Gzip)),
        (&[], None),
        // Parts are always parts of the uncoded file.
        (&[BROWSER, "Range: bytes=0-9"], None),
    ] {
        assert_eq!(rig.late("/2.html", lines).coding(), coding, "{lines:?}");
    }
    rig.at_rate(10_000);
    assert_eq!(rig.late("/2.html", &[BROWSER]).coding(), None, "on a fast line that is not worth the time");
}

/// The tag is marked, and remains valid for the file, whatever form exists later.
#[test]
fn the_tag_of_a_page_that_was_coded_on_its_way_says_that_it_is_unchanged() {
    let mut rig = Rig::new(Options::default()).at(10);
    let tag = rig.late("/a.html", &[BROWSER]).field("etag").to_string();
    assert!(tag.starts_with("W/\"") && tag.ends_with("~weir\""), "{tag}");
    let line = format!("If-None-Match: {tag}");
    for is_made in [false, true] {
        let got = rig.late("/a.html", &[BROWSER, &line]);
        assert_eq!((got.status, got.field("etag")), (304, &*tag), "{is_made}");
        rig.run(Level::Fast);
    }
    assert_eq!(rig.late("/a.html", &[BROWSER]).coding(), Some(Coding::Brotli));
    // A weak tag is none of which parts could be.
    let got = rig.late("/a.html", &[BROWSER, "Range: bytes=0-9", &format!("If-Range: {tag}")]);
    assert_eq!((got.status, got.coding()), (200, Some(Coding::Brotli)));
    rig.folder.put("a.html", text(30_000));
    rig.now += REVALIDATE_AFTER;
    assert_eq!(rig.late("/a.html", &[BROWSER, &line]).status, 200);
}

/// The reply to a test's request for a response whose length is unknown.
pub fn piped(request: &Request) -> Reply {
    let body = crate::body::Pipe::new(http::Length::Unknown, &Default::default()).into();
    let response = Response::new(Status::OK, body).of_length(http::Length::Unknown);
    staged(request, response, &Streaming::default()).into()
}
