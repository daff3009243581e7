//! Staged bodies alone. Whatever their source is, however its bytes arrive and are taken, the connection gets the
//! result of the whole body.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use http::http1::{Chunked, Delimiter};
use http::{Status, Trailers};
use proptest::prelude::*;
use sched::JobId;
use units::memory::Account;

use super::staging::{Folding, Staging, Upper, applied};
use super::*;
use crate::body::{Failure, Piece, Pipe, Trailing};
use crate::disk::Buffer;
use crate::files::temporary::Folder;
use crate::files::{Content, Entry};
use crate::storage::{Look, ReadDone, Storage};

/// The length of a file that is not held in memory.
const FILE: u64 = 100_000;

type Chain = fn() -> Vec<Box<dyn Stage>>;

const CHAINS: [Chain; 4] = [
    || vec![Box::new(Upper)],
    || vec![Box::<Folding>::default()],
    || vec![Box::<Folding>::default(), Box::new(Upper)],
    || vec![Box::<Folding>::default(), Box::<Folding>::default()],
];

/// A disk whose next looks are in memory, or not.
struct Disk {
    looks: VecDeque<bool>,
    copied: Vec<u8>,
}

impl Storage for Disk {
    fn look(&mut self, entry: &Entry, offset: u64, count: u64) -> io::Result<Look<'_>> {
        match self.looks.pop_front() {
            Some(true) => Ok(Look::Absent),
            Some(false) => {
                self.copied = read(entry, offset..offset + count.min(700));
                Ok(Look::Copied(&self.copied))
            }
            None => Ok(Look::Resident(count)),
        }
    }

    fn read_aside(&mut self, _job: JobId, _client: u32, _entry: &Arc<Entry>, _range: Range<u64>) -> io::Result<()> {
        unreachable!("the test reads")
    }

    fn take_done(&mut self, _into: &mut Vec<ReadDone>) {}
}

fn read(entry: &Entry, range: Range<u64>) -> Vec<u8> {
    let Content::Open(file) = &entry.content else { panic!("the file is held") };
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let read = std::os::unix::fs::FileExt::read_at(&**file, &mut bytes, range.start).unwrap();
    bytes.truncate(read);
    bytes
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 / 7) as u8).collect()
}

/// Puts a chain of stages behind a body.
fn chained(body: Body, chain: Chain) -> Body {
    let length = if body.is_open_ended() { Length::Unknown } else { Length::Known(body.len()) };
    let through = |(body, length): (Body, Length), stage: Box<dyn Stage>| {
        let length = stage.length(length);
        (body.through(stage, length), length)
    };
    chain().into_iter().fold((body, length), through).0
}

/// The content of a framed body, and whether it has ended.
fn unframed(bytes: &[u8], delimiter: Delimiter) -> (Vec<u8>, bool) {
    if delimiter != Delimiter::LastChunk {
        return (bytes.to_vec(), true);
    }
    let (mut chunks, mut rest, mut content, mut is_done) = (Chunked::new(), bytes, Vec::new(), false);
    while !rest.is_empty() && !is_done {
        let taken = chunks.take(rest).unwrap();
        content.extend_from_slice(taken.data);
        (rest, is_done) = (&rest[taken.consumed..], taken.is_done);
    }
    (content, is_done)
}

/// A body of pieces of these kinds, each a range of the content, and the concatenation.
fn source(folder: &Folder, pieces: Vec<(u8, u64, u64)>) -> (Body, Vec<u8>) {
    let all = content(FILE as usize);
    folder.put("open", &all);
    folder.put("held", &all[..1_000]);
    let (mut body, mut whole) = (Body::default(), Vec::new());
    for (kind, one, other) in pieces {
        let shrink = if kind == 2 { 100 } else { 1 };
        let range = one.min(other) / shrink..one.max(other) / shrink;
        let bytes = match kind {
            4 => vec![0; (range.end - range.start) as usize],
            _ => all[range.start as usize..range.end as usize].to_vec(),
        };
        whole.extend_from_slice(&bytes);
        body.push(match kind {
            0 => Piece::Bytes(bytes),
            1 => Piece::File { entry: folder.entry("open"), range },
            2 => Piece::File { entry: folder.entry("held"), range },
            3 => Piece::Page { page: Arc::new(bytes), at: 0 },
            _ => Piece::Zeros(range.end - range.start),
        });
    }
    (body, whole)
}

/// The bytes that have been passed on when a producer pauses: everything except the end.
fn flushed(chain: Chain, pushed: &[u8]) -> Vec<u8> {
    chain().into_iter().fold(pushed.to_vec(), |bytes, mut stage| {
        let mut out = Vec::new();
        stage.push(&bytes, &mut out);
        stage.flush(&mut out);
        out
    })
}

proptest! {
    /// Pieces of every kind, a disk that is not always in memory, and reads of any length.
    #[test]
    fn a_body_becomes_what_the_whole_of_it_becomes(
        pieces in prop::collection::vec((0_u8..5, 0_u64..FILE, 0_u64..FILE), 0..6),
        looks in prop::collection::vec(any::<bool>(), 0..40),
        portions in prop::collection::vec(1_u64..70_000, 1..20),
        chain in prop::sample::select(CHAINS.to_vec()),
        delimiter in prop::sample::select(vec![Delimiter::Length, Delimiter::LastChunk, Delimiter::Close]),
    ) {
        let folder = Folder::new();
        let (body, whole) = source(&folder, pieces);
        let (account, expected) = (Account::default(), applied(chain(), &whole));
        let mut body = chained(body, chain).delimited(delimiter);
        // A chunked body has no known length.
        prop_assume!(body.is_open_ended() || delimiter == Delimiter::Length || whole.is_empty());
        body.count_in(&account);
        let (mut disk, mut came, mut portions) = (Disk { looks: looks.into(), copied: Vec::new() }, Vec::new(), portions.into_iter().cycle());
        while !body.is_empty() {
            match body.read(&mut disk, &mut came, portions.next().unwrap()) {
                Err(Failure::Absent) => {
                    let (entry, range) = body.absent();
                    let mut buffer = Buffer::from(read(entry, range.start..range.end.min(range.start + 9_000)));
                    buffer.count_in(&account);
                    body.on_read(buffer).unwrap();
                }
                other => drop(other.unwrap()),
            }
            prop_assert_eq!(account.bytes(), body.alive_bytes() as u64);
        }
        prop_assert!(unframed(&came, delimiter) == (expected, true) || whole.is_empty() && came.is_empty());
        drop(body);
        prop_assert_eq!(account.bytes(), 0);
    }

    /// When a producer pauses, everything that it pushed before has been passed on, but not the end.
    #[test]
    fn what_a_producer_pushed_is_not_kept_while_it_pauses(
        steps in prop::collection::vec((0_usize..90_000, prop::collection::vec(1_u64..70_000, 0..5), any::<bool>()), 0..12),
        chain in prop::sample::select(CHAINS.to_vec()),
        delimiter in prop::sample::select(vec![Delimiter::Length, Delimiter::LastChunk, Delimiter::Close]),
    ) {
        let account = Account::default();
        let mut body = chained(Pipe::new(Length::Unknown, &account).into(), chain).delimited(delimiter);
        body.count_in(&account);
        let (mut disk, mut pushed, mut came) = (Disk { looks: VecDeque::new(), copied: Vec::new() }, Vec::new(), Vec::new());
        for (push, portions, is_pause) in steps {
            let bytes = content(pushed.len() + push)[pushed.len()..].to_vec();
            let taken = body.start().pipe_mut().unwrap().push(&bytes).unwrap();
            pushed.extend_from_slice(&bytes[..taken]);
            let portions = portions.into_iter().chain(std::iter::repeat_n(u64::MAX, if is_pause { 1_000 } else { 0 }));
            for portion in portions {
                match body.read(&mut disk, &mut came, portion) {
                    Err(Failure::Pending) => {
                        prop_assert_eq!(unframed(&came, delimiter).0, flushed(chain, &pushed));
                        break;
                    }
                    other => drop(other.unwrap()),
                }
            }
            prop_assert_eq!(account.bytes(), body.alive_bytes() as u64);
            prop_assert!(body.is_open_ended() && !body.is_empty());
        }
        prop_assert!(body.start().pipe_mut().unwrap().finish(None));
        body.on_finished();
        while !body.is_empty() {
            body.read(&mut disk, &mut came, 10_000).unwrap();
        }
        prop_assert_eq!(unframed(&came, delimiter), (applied(chain(), &pushed), true));
        drop(body);
        prop_assert_eq!(account.bytes(), 0);
    }
}

fn read_all(body: &mut Body) -> Result<Vec<u8>, Failure> {
    let (mut disk, mut came) = (Disk { looks: VecDeque::new(), copied: Vec::new() }, Vec::new());
    while !body.is_empty() {
        body.read(&mut disk, &mut came, 1_000)?;
    }
    Ok(came)
}

/// Few bytes wait for the client, however large the source.
#[test]
fn what_a_stage_gave_is_bounded() {
    let mut body = chained(Piece::Zeros(1 << 40).into(), || vec![Box::new(Upper)]);
    let account = Account::default();
    body.count_in(&account);
    let (mut disk, mut came) = (Disk { looks: VecDeque::new(), copied: Vec::new() }, Vec::new());
    for _ in 0..100 {
        came.clear();
        body.read(&mut disk, &mut came, 10_000).unwrap();
        assert!(account.bytes() < 40 << 10, "{}", account.bytes());
    }
}

#[test]
fn trailers_come_after_the_end_of_the_stages() {
    let trailers = || Trailers::of([(&b"sum"[..], &b"1"[..])].into_iter()).unwrap();
    for is_late in [false, true] {
        for (trailing, delimiter) in [
            (Trailing::InFrames, Delimiter::Length),
            (Trailing::InChunks, Delimiter::LastChunk),
            (Trailing::Never, Delimiter::LastChunk),
        ] {
            let mut pipe = Pipe::new(Length::Unknown, &Account::default()).trailing(trailing);
            pipe.push(b"abc");
            if !is_late {
                pipe.finish(trailers());
            }
            let mut body = Body::from(pipe).through(Box::<Folding>::default(), Length::Unknown).delimited(delimiter);
            if is_late {
                body.start().pipe_mut().unwrap().finish(trailers());
                body.on_finished();
            }
            assert!(body.trailers.is_none(), "they are not due yet");
            let came = read_all(&mut body).unwrap();
            assert!(unframed(&came, delimiter).0 == b"abc3", "{}", String::from_utf8_lossy(&came));
            assert_eq!(body.trailers.is_some(), trailing == Trailing::InFrames);
            assert_eq!(came.ends_with(b"0\r\nsum: 1\r\n\r\n"), trailing == Trailing::InChunks);
        }
    }
}

/// The file was cut: the bytes before the cut have left, without an end.
#[test]
fn a_source_that_fails_fails_the_body() {
    let folder = Folder::new();
    folder.put("open", content(FILE as usize));
    let entry = folder.entry("open");
    folder.put("open", &content(FILE as usize)[..50_000]);
    let file = Piece::File { entry, range: 0..FILE };
    let mut body = chained(file.into(), || vec![Box::<Folding>::default()]).delimited(Delimiter::LastChunk);
    let (mut disk, mut came) = (Disk { looks: VecDeque::new(), copied: Vec::new() }, Vec::new());
    let failure = loop {
        if let Err(failure) = body.read(&mut disk, &mut came, 3_000) {
            break failure;
        }
    };
    assert!(matches!(failure, Failure::Truncated { path } if &*path == "open"));
    let (came, is_done) = unframed(&came, Delimiter::LastChunk);
    assert!(!is_done && came.len() > 40_000 && !body.is_empty());
}

/// A stage that announces a wrong length.
#[derive(Debug)]
struct Wrong(u64);

impl Stage for Wrong {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    fn flush(&mut self, _out: &mut Vec<u8>) {}

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn length(&self, _of: Length) -> Length {
        Length::Known(self.0)
    }
}

#[test]
fn a_stage_that_gives_another_length_fails_the_body() {
    for (announced, is_right) in [(3, true), (2, false), (4, false)] {
        let stage = Wrong(announced);
        let length = stage.length(Length::Known(3));
        let mut body = Body::from(b"abc".to_vec()).through(Box::new(stage), length);
        let came = read_all(&mut body);
        assert!(matches!(came, Err(Failure::Length)) != is_right, "{announced}: {came:?}");
    }
}

/// A stage that keeps everything until it is flushed.
#[derive(Debug, Default)]
struct Keeping(Vec<u8>);

impl Stage for Keeping {
    fn push(&mut self, bytes: &[u8], _out: &mut Vec<u8>) {
        self.0.extend_from_slice(bytes);
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.0);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
    }

    fn length(&self, _of: Length) -> Length {
        Length::Unknown
    }
}

#[test]
fn a_stage_that_gives_nothing_is_flushed_now_and_then() {
    let pieces = [Piece::Zeros(1_000), Piece::Bytes(vec![7; 777]), Piece::Zeros(1 << 20)];
    let mut body = chained(pieces.into_iter().collect(), || vec![Box::<Keeping>::default()]);
    let (mut disk, mut came, mut fills) = (Disk { looks: VecDeque::new(), copied: Vec::new() }, Vec::new(), 0);
    while !body.is_empty() {
        body.fill(&mut disk).unwrap();
        let made = body.len();
        assert!(made <= 256 << 10, "{made}");
        fills += 1;
        body.read(&mut disk, &mut came, made).unwrap();
    }
    assert_eq!((came.len(), fills), ((1 << 20) + 1_777, 5));
}

/// Waiting responses must be small.
#[test]
fn a_body_is_no_larger_for_its_stages() {
    assert!(size_of::<Piece>() <= 32 && size_of::<Body>() <= 48, "{} {}", size_of::<Piece>(), size_of::<Body>());
}

fn response() -> Response<Body> {
    let response = Response::new(Status::OK, b"abc".to_vec().into());
    response.with("ETag", b"\"v\"").with("Accept-Ranges", b"bytes").with("Repr-Digest", b"x").with_length(3)
}

/// Status, fields and method of a response, and whether it gets its stages.
#[test]
fn parts_tunnels_and_what_must_not_be_transformed_stay_as_they_are() {
    let _staging = Staging::new(|_, _| vec![Box::<Folding>::default()]);
    let cases: [(&str, u16, &str, bool); 9] = [
        ("GET", 200, "", true),
        ("POST", 404, "public", true),
        ("HEAD", 200, "", true),
        ("GET", 206, "", false),
        ("GET", 304, "", false),
        ("GET", 204, "", false),
        ("GET", 101, "", false),
        ("CONNECT", 200, "", false),
        ("GET", 200, "public, No-Transform", false),
    ];
    for (method, status, control, is_staged) in cases {
        let line = if method == "CONNECT" { "GET" } else { method };
        let text = format!("{line} / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut head = http::http1::parse_request(text.as_bytes(), &http::Limits::default()).unwrap().unwrap();
        if method == "CONNECT" {
            head.request.method = Method::Connect;
        }
        let mut plain = response().with("Cache-Control", control.as_bytes());
        plain.status = Status(status);
        let response = staged(&head.request, plain, &Streaming::default());
        let fields: Vec<_> = response.fields().map(|(name, value)| [name, b": ", value].concat()).collect();
        let has = |line: &str| fields.iter().any(|field| field == line.as_bytes());
        assert_eq!(response.body.is_staged(), is_staged, "{method} {status} {control}");
        assert_eq!([has("ETag: W/\"v\""), has("ETag: \"v\"")], [is_staged, !is_staged]);
        for line in ["Accept-Ranges: bytes", "Repr-Digest: x", "Content-Length: 3"] {
            assert_eq!(has(line), !is_staged, "{line}");
        }
        assert_eq!(Delimiter::of(&response, 1) == Delimiter::LastChunk, is_staged);
    }
}

/// The response to HEAD has the length announced in its head; there is no body to measure.
#[test]
fn a_stage_that_keeps_the_length_keeps_its_field() {
    let _staging = Staging::new(|_, _| vec![Box::new(Upper)]);
    for method in ["GET", "HEAD"] {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = http::http1::parse_request(text.as_bytes(), &http::Limits::default()).unwrap().unwrap();
        let mut plain = response();
        if method == "HEAD" {
            plain.body = Body::default();
        }
        let mut response = staged(&head.request, plain, &Streaming::default());
        assert!(response.fields().any(|field| field == (b"Content-Length", b"3")));
        if method == "GET" {
            assert_eq!((response.body.len(), read_all(&mut response.body).unwrap()), (3, b"ABC".to_vec()));
        }
    }
}
