//! The stage that codes a body while it is sent.

use std::sync::Arc;

use http::{Coding, Digest, Length};

use super::shared::Keeping;
use crate::body::Stage;
use crate::codec::{Reach, STREAM_BYTES, Streamed};

/// Codes a body. Its encoder is created with the first byte and dropped after the last.
#[derive(Debug)]
pub struct Coded {
    way: Way,
    encoder: Option<Streamed>,
    /// Keeps the uncoded body for a dictionary.
    keeping: Option<Keeping>,
    /// The maximum memory of the encoder's state, in bytes.
    memory_bytes: usize,
}

#[derive(Debug, Clone)]
enum Way {
    Without(Coding),
    /// Zstandard with a dictionary.
    With {
        dictionary: Arc<[u8]>,
        digest: Digest,
        reach: Reach,
    },
}

impl Coded {
    /// Creates the stage for a coding of streams.
    pub fn new(coding: Coding) -> Coded {
        Coded { way: Way::Without(coding), encoder: None, keeping: None, memory_bytes: STREAM_BYTES }
    }

    /// Creates the stage for Zstandard with a dictionary that has this digest. The dictionary counts as memory of the
    /// stage, because it lives as long as the stage.
    pub fn with(dictionary: Arc<[u8]>, digest: Digest, reach: Reach) -> Coded {
        let memory_bytes = reach.memory_bytes() + dictionary.len();
        Coded { way: Way::With { dictionary, digest, reach }, encoder: None, keeping: None, memory_bytes }
    }

    /// Also keeps a copy of the body as a dictionary, if its length fits the memory and the maximum. Returns true if it
    /// does.
    pub fn keeping(mut self, keeping: Keeping, length: Length, room_bytes: usize) -> (Coded, bool) {
        let kept_bytes = match length {
            Length::Known(bytes) => bytes,
            Length::Unknown => keeping.bytes_max,
        };
        let memory_bytes = self.memory_bytes.saturating_add(usize::try_from(kept_bytes).unwrap_or(usize::MAX));
        let is_kept = kept_bytes <= keeping.bytes_max && memory_bytes <= room_bytes;
        if is_kept {
            let keeping = Keeping { bytes_max: kept_bytes, ..keeping };
            (self.keeping, self.memory_bytes) = (Some(keeping), memory_bytes);
        }
        (self, is_kept)
    }

    /// The name in Content-Encoding.
    pub fn token(&self) -> &'static str {
        match self.way {
            Way::Without(coding) => coding.token(),
            Way::With { .. } => Coding::Zstd.token_with_dictionary().expect("Zstandard has dictionaries"),
        }
    }

    /// Returns the encoder. The first call creates it and appends its header to `out`.
    fn encoder(&mut self, out: &mut Vec<u8>) -> &mut Streamed {
        self.encoder.get_or_insert_with(|| match &self.way {
            Way::Without(coding) => Streamed::new(*coding),
            Way::With { dictionary, digest, reach } => Streamed::with(Arc::clone(dictionary), digest, *reach, out),
        })
    }
}

impl Stage for Coded {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.keeping = self.keeping.take().and_then(|mut keeping| keeping.push(bytes).then_some(keeping));
        self.encoder(out).push(bytes, out);
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        self.encoder(out).flush(out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.encoder(out).finish(out);
        self.keeping.take().into_iter().for_each(Keeping::finish);
        (self.encoder, self.memory_bytes) = (None, 0);
    }

    fn length(&self, _of: Length) -> Length {
        Length::Unknown
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests {
    use http::http1::{Delimiter, parse_request};
    use http::{Codings, Limits, Request, Response, Status};
    use units::memory::Account;

    use super::super::{Streaming, staged};
    use super::*;
    use crate::body::{Body, Failure, Piece, Pipe};
    use crate::codec::testing::{decoded, text};
    use crate::storage::InMemory;

    const GZIP: &str = "Accept-Encoding: gzip";
    const STREAMING: Streaming =
        Streaming { codings: Codings::ALL, codes_private: false, is_private: false, room_bytes: usize::MAX };

    fn with<T>(method: &str, lines: &[&str], of: impl FnOnce(&Request) -> T) -> T {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        of(&parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request)
    }

    /// The response of a program, whose body is still to come.
    fn response(status: u16, mime: &str) -> Response<Body> {
        let body = Pipe::new(Length::Unknown, &Account::default()).into();
        let response = Response::new(Status(status), body).with("Content-Type", mime.as_bytes());
        response.with("ETag", b"\"v\"").of_length(Length::Unknown).forwarded()
    }

    fn fields(response: &Response<Body>, name: &str) -> Vec<String> {
        let of = response.fields().filter(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
        of.map(|(_, value)| String::from_utf8(value.to_vec()).unwrap()).collect()
    }

    fn coding(response: &Response<Body>) -> Option<String> {
        assert_eq!(response.body.is_staged(), response.has("Content-Encoding"));
        fields(response, "Content-Encoding").pop()
    }

    fn all(mut body: Body) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !body.is_empty() {
            body.read(&mut InMemory, &mut bytes, 1_000).unwrap();
        }
        bytes
    }

    #[test]
    fn responses_of_programs_are_coded_for_clients_that_accept_it() {
        for (lines, mime, expected) in [
            (&[GZIP][..], "text/html", Some("gzip")),
            (&["Accept-Encoding: gzip, br, zstd"], "application/json; charset=utf-8", Some("zstd")),
            (&["Accept-Encoding: br"], "text/html", None),
            (&["Accept-Encoding: gzip;q=0"], "text/html", None),
            (&[], "text/html", None),
        ] {
            let response = with("GET", lines, |request| staged(request, response(200, mime), &STREAMING));
            assert_eq!(coding(&response).as_deref(), expected, "{lines:?} {mime}");
            assert_eq!(fields(&response, "Vary"), ["Accept-Encoding"], "{lines:?} {mime}");
            assert_eq!(fields(&response, "ETag"), [if expected.is_some() { "W/\"v~weir\"" } else { "\"v\"" }]);
        }
    }

    /// Nothing in these depends on what the client accepts.
    #[test]
    fn other_responses_stay_as_they_are() {
        let plain = |status, mime: &str| response(status, mime);
        let cases: Vec<(&str, &str, &[&str], Response<Body>)> = vec![
            ("a picture", "GET", &[GZIP], plain(200, "image/png")),
            ("no type", "GET", &[GZIP], plain(200, "")),
            ("a part", "GET", &[GZIP], plain(206, "text/html")),
            ("no such part", "GET", &[GZIP], plain(416, "text/html")),
            ("no content", "GET", &[GZIP], plain(204, "text/html")),
            ("coded already", "GET", &[GZIP], plain(200, "text/html").with("Content-Encoding", b"br")),
            ("not to be changed", "GET", &[GZIP], plain(200, "text/html").with("Cache-Control", b"a, no-transform")),
            ("short", "GET", &[GZIP], plain(200, "text/html").of_length(Length::Known(255))),
            ("with a cookie", "GET", &[GZIP, "Cookie: a=b"], plain(200, "text/html")),
            ("with a login", "GET", &[GZIP, "Authorization: Basic eA=="], plain(200, "text/html")),
        ];
        for (why, method, lines, plain) in cases {
            let response = with(method, lines, |request| staged(request, plain, &STREAMING));
            assert!(!response.body.is_staged() && !response.has("Vary"), "{why}");
            assert_eq!(fields(&response, "ETag"), ["\"v\""], "{why}");
        }
        let off = Streaming { codings: Codings::NONE, ..STREAMING };
        let response = with("GET", &[GZIP], |request| staged(request, response(200, "text/html"), &off));
        assert!(coding(&response).is_none() && !response.has("Vary"));
    }

    #[test]
    fn a_site_may_have_private_responses_coded() {
        let lines = [GZIP, "Cookie: a=b"];
        let streaming = Streaming { codes_private: true, ..STREAMING };
        let response = with("GET", &lines, |request| staged(request, response(200, "text/html"), &streaming));
        assert_eq!(coding(&response).as_deref(), Some("gzip"));
        // A page of this server depends on no secret.
        let page = Response::new(Status::OK, text(2_000).into()).with("Content-Type", b"text/html");
        let page = with("GET", &lines, |request| staged(request, page.with_length(2_000), &STREAMING));
        assert_eq!(coding(&page).as_deref(), Some("gzip"));
    }

    /// The page of an error has neither a tag nor a secret. Its HEAD has the same fields.
    #[test]
    fn pages_of_errors_are_coded() {
        for status in [403, 404, 412, 500, 503] {
            let staged = |method: &str, lines: &[&str]| {
                let page = Response::new(Status(status), text(2_000).into()).with("Content-Type", b"text/html");
                with(method, lines, |request| staged(request, page.with_length(2_000), &STREAMING))
            };
            let page = staged("GET", &[GZIP, "Cookie: a=b"]);
            assert_eq!(
                (coding(&page).as_deref(), fields(&page, "Vary")),
                (Some("gzip"), vec!["Accept-Encoding".into()])
            );
            let head = ["Content-Encoding", "Vary"].map(|name| fields(&staged("HEAD", &[GZIP]), name));
            assert_eq!(head, ["Content-Encoding", "Vary"].map(|name| fields(&page, name)));
            assert!(decoded(Coding::Gzip, &all(page.body)) == text(2_000));
            let plain = staged("GET", &[]);
            assert_eq!((coding(&plain), fields(&plain, "Content-Length")), (None, vec!["2000".to_string()]));
        }
    }

    #[test]
    fn without_memory_a_response_stays_as_it_is() {
        let coded = |room_bytes| {
            let streaming = Streaming { room_bytes, ..STREAMING };
            let response = with("GET", &[GZIP], |request| staged(request, response(200, "text/html"), &streaming));
            assert_eq!(fields(&response, "Vary"), ["Accept-Encoding"], "another time it may be coded");
            coding(&response).is_some()
        };
        assert!(coded(STREAM_BYTES) && !coded(STREAM_BYTES - 1));
    }

    #[test]
    fn vary_is_said_once() {
        for (value, expected) in [
            ("Accept", &["Accept, Accept-Encoding"]),
            ("Accept, accept-encoding", &["Accept, accept-encoding"]),
            ("*", &["*"]),
        ] {
            let plain = response(200, "text/html").with("Vary", value.as_bytes());
            assert_eq!(with("GET", &[], |request| fields(&staged(request, plain, &STREAMING), "Vary")), expected);
        }
    }

    /// The tag of a 304 is the one that the client asked with.
    #[test]
    fn an_unchanged_response_has_the_tag_of_the_coded_one() {
        let of = |listed: &str| {
            let plain = Response::new(Status::NOT_MODIFIED, Body::default()).with("ETag", b"\"v\"");
            let line = format!("If-None-Match: {listed}");
            let response = with("GET", &[&line], |request| staged(request, plain, &STREAMING));
            (fields(&response, "ETag").concat(), response.has("Vary"))
        };
        assert_eq!(of("W/\"v~weir\""), ("W/\"v~weir\"".into(), true));
        assert_eq!(of("\"v\""), ("\"v\"".into(), false));
    }

    /// The size that the order goes by is the coded one.
    #[test]
    fn a_whole_response_has_its_coded_length() {
        let plain = text(30_000);
        for lines in [[GZIP], ["Accept-Encoding: zstd"]] {
            let mut pipe = Pipe::new(Length::Known(30_000), &Account::default());
            pipe.push(&plain);
            pipe.finish(None);
            let of_program =
                Response::new(Status::OK, pipe.into()).with("Content-Type", b"text/html").with_length(30_000);
            let response = with("GET", &lines, |request| staged(request, of_program, &STREAMING));
            let bytes = response.body.len();
            assert_eq!(fields(&response, "Content-Length"), [bytes.to_string()]);
            assert!(
                !response.body.is_open_ended() && Delimiter::of(&response, 1) == Delimiter::Length && bytes < 15_000
            );
            let coding = if coding(&response).as_deref() == Some("gzip") { Coding::Gzip } else { Coding::Zstd };
            assert!(decoded(coding, &all(response.body)) == plain);
        }
    }

    /// The client has an event of a stream before the next one is made.
    #[test]
    fn what_came_before_a_pause_is_sent_before_it() {
        let account = Account::of_at_most(64 << 20);
        let mut response =
            with("GET", &[GZIP], |request| staged(request, response(200, "text/event-stream"), &STREAMING));
        response.body.count_in(&account);
        assert!(account.bytes() >= STREAM_BYTES as u64, "its encoder is counted before it exists");
        let (mut came, mut pushed) = (Vec::new(), Vec::new());
        for event in 0..20 {
            let event = format!("data: {event}\n\n");
            response.body.start().pipe_mut().unwrap().push(event.as_bytes());
            pushed.extend_from_slice(event.as_bytes());
            loop {
                match response.body.read(&mut InMemory, &mut came, 100) {
                    Err(Failure::Pending) => break,
                    read => assert!(read.unwrap() > 0),
                }
            }
            let mut decoder = flate2::bufread::GzDecoder::new(&came[..]);
            let mut begun = vec![0; pushed.len()];
            std::io::Read::read_exact(&mut decoder, &mut begun).unwrap();
            assert!(begun == pushed);
        }
        response.body.start().pipe_mut().unwrap().finish(None);
        response.body.on_finished();
        while !response.body.is_empty() {
            response.body.read(&mut InMemory, &mut came, 100).unwrap();
        }
        assert!(decoded(Coding::Gzip, &came) == pushed);
        drop(response);
        assert_eq!(account.bytes(), 0);
    }

    /// The event loop has others to serve: much input that becomes little is not coded in one piece.
    #[test]
    fn much_work_is_done_in_parts() {
        let page = Response::new(Status::OK, Body::from(Piece::Zeros(10 << 20))).with("Content-Type", b"text/plain");
        let mut response = with("GET", &[GZIP], |request| staged(request, page.with_length(10 << 20), &STREAMING));
        let (mut bytes, mut parts) = (Vec::new(), 0);
        while !response.body.is_empty() {
            response.body.fill(&mut InMemory).unwrap();
            let made = response.body.len();
            response.body.read(&mut InMemory, &mut bytes, made).unwrap();
            parts += 1;
        }
        assert!(parts >= 40 && decoded(Coding::Gzip, &bytes) == vec![0; 10 << 20], "{parts}");
    }

    #[test]
    fn a_head_has_the_fields_of_its_body() {
        let heads = ["GET", "HEAD"].map(|method| {
            let response = with(method, &[GZIP], |request| staged(request, response(200, "text/html"), &STREAMING));
            ["Content-Encoding", "Vary", "ETag", "Content-Length"].map(|name| fields(&response, name))
        });
        assert_eq!(heads[0], heads[1]);
    }
}
