//! Validators and the conditional requests of clients.

use std::time::{Duration, SystemTime};

use crate::common::{Client, Response, Site, on_every_path};

/// 2020-09-13 12:26:40 UTC.
const MODIFIED_S: u64 = 1_600_000_000;
const MODIFIED: &str = "Sun, 13 Sep 2020 12:26:40 GMT";
const EARLIER: &str = "Sun, 13 Sep 2020 12:26:39 GMT";
const LATER: &str = "Sun, 13 Sep 2020 12:26:41 GMT";

fn site() -> Site {
    let site = Site::with(&[("a.txt", b"0123456789")]);
    set_modified(&site, MODIFIED_S);
    site
}

fn set_modified(site: &Site, unix_s: u64) {
    let file = std::fs::File::options().write(true).open(site.path("a.txt")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s)).unwrap();
}

fn ask(client: &mut Client, fields: &str) -> Response {
    client.send(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"));
    client.response()
}

const CONDITIONS: &[(&str, u16)] = &[
    ("If-None-Match: ETAG", 304),
    ("If-None-Match: W/ETAG", 304),
    ("If-None-Match: \"other\", ETAG", 304),
    ("If-None-Match: *", 304),
    ("If-None-Match: \"other\"", 200),
    ("If-None-Match: \"other\"\r\nIf-None-Match: ETAG", 304),
    ("If-Match: ETAG", 200),
    ("If-Match: *", 200),
    ("If-Match: \"other\"", 412),
    ("If-Match: W/ETAG", 412),
    ("If-Modified-Since: MODIFIED", 304),
    ("If-Modified-Since: LATER", 304),
    ("If-Modified-Since: EARLIER", 200),
    ("If-Modified-Since: yesterday", 200),
    ("If-Unmodified-Since: MODIFIED", 200),
    ("If-Unmodified-Since: EARLIER", 412),
    ("If-Unmodified-Since: LATER", 200),
    // The tag decides, not the date (RFC 9110 section 13.2.2).
    ("If-None-Match: \"other\"\r\nIf-Modified-Since: LATER", 200),
    ("If-Match: ETAG\r\nIf-Unmodified-Since: EARLIER", 200),
    ("If-Match: \"other\"\r\nIf-None-Match: ETAG", 412),
    ("Range: bytes=2-3\r\nIf-Range: ETAG", 206),
    ("Range: bytes=2-3\r\nIf-Range: \"other\"", 200),
    ("Range: bytes=2-3\r\nIf-Range: W/ETAG", 200),
    ("Range: bytes=2-3\r\nIf-Range: MODIFIED", 206),
    ("Range: bytes=2-3\r\nIf-Range: EARLIER", 200),
    ("Range: bytes=2-3\r\nIf-Range: LATER", 200),
    ("Range: bytes=99-\r\nIf-Range: \"other\"", 200),
    ("Range: bytes=2-3\r\nIf-None-Match: ETAG", 304),
    ("Range: bytes=2-3\r\nIf-Match: \"other\"", 412),
];

#[test]
fn every_condition() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        let tag = client.get("/a.txt").field("ETag").unwrap().to_string();
        for &(fields, status) in CONDITIONS {
            let fields = fields.replace("ETAG", &tag).replace("MODIFIED", MODIFIED);
            let response = ask(&mut client, &fields.replace("EARLIER", EARLIER).replace("LATER", LATER));
            assert_eq!(response.status, status, "{fields}");
            let body = [(200, "0123456789"), (206, "23"), (304, "")].into_iter().find(|(code, _)| *code == status);
            assert!(body.is_none_or(|(_, body)| response.text() == body), "{fields}: {}", response.text());
            assert!(status == 412 || response.field("ETag") == Some(&tag), "{fields}: no tag");
        }
    });
}

/// The tag identifies the bytes: it is strong, stays as long as the file does, and changes with it.
#[test]
fn the_tag_follows_the_file() {
    let site = site();
    on_every_path(&site, &[], |server| {
        let mut client = server.connect();
        let mut tags = Vec::new();
        for (content, modified_s) in [("0123456789", 0), ("9876543210", 1), ("0123456798", 2), ("0123", 2), ("", 3)] {
            site.write("a.txt", content.as_bytes());
            set_modified(&site, MODIFIED_S + modified_s);
            let response = ask(&mut client, "X: y");
            assert_eq!(response.text(), content);
            let tag = response.field("ETag").unwrap().to_string();
            assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "not a strong tag: {tag}");
            assert_eq!(ask(&mut client, "X: y").field("ETag"), Some(tag.as_str()));
            assert_eq!(ask(&mut client, &format!("If-None-Match: {tag}")).status, 304);
            assert!(!tags.contains(&tag), "the tag did not change");
            tags.push(tag);
        }
    });
}

/// RFC 9110 section 8.8.2.1: a date in the future is not meaningful, and must not be sent.
#[test]
fn last_modified_is_not_in_the_future() {
    let site = site();
    on_every_path(&site, &[], |server| {
        set_modified(&site, MODIFIED_S);
        assert_eq!(server.connect().get("/a.txt").field("Last-Modified"), Some(MODIFIED));
        set_modified(&site, 4_000_000_000);
        let response = server.connect().get("/a.txt");
        assert!(!response.field("Last-Modified").unwrap().contains("2096"), "{}", response.head);
    });
}
