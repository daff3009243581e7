//! Rewrites the answer of a FastCGI responder as a response of HTTP/1.1: its head (RFC 3875 section 6), then its body,
//! unchanged if its length is given and otherwise in chunks. Keeps the bytes that the responder writes to its error
//! stream for a log.

use super::{HEADER_BYTES, REQUEST_ID, VERSION, kind};
use crate::PeerLength;
use crate::http1::LAST_CHUNK;
use crate::http1::begin_chunk;
use crate::http1::upstream::UpstreamFault;

/// The maximum bytes of an error stream that are kept; the rest is dropped.
const SAID_BYTES_MAX: usize = 1024;
/// The log line about a body that is longer than its Content-Length.
const CUT: &[u8] = b"more bytes than its Content-Length, at which the body was cut\n";
/// The length of the content of the record that ends a request.
const END_BYTES: usize = 8;

/// The decoder of an answer, whose bytes may arrive in pieces of any length.
#[derive(Debug)]
pub struct Decoder {
    record: Record,
    stage: Stage,
    /// The part of the head that has arrived, or the content of the last record.
    kept: Vec<u8>,
    /// The maximum length of a head.
    head_bytes_max: usize,
    keeps_connection: bool,
    /// The request was a HEAD.
    is_bodiless: bool,
    said: Vec<u8>,
    /// The program has sent more than the announced length.
    is_cut: bool,
}

#[derive(Debug)]
enum Record {
    /// The header, and the number of its bytes that have arrived.
    Header([u8; HEADER_BYTES], usize),
    Content {
        kind: u8,
        is_ours: bool,
        left: usize,
        padding: usize,
    },
    Padding(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    /// The body is sent in chunks; the record in progress is a chunk.
    Chunks,
    Length(PeerLength),
    /// No body is sent, as in a 204.
    Nothing,
    Done,
}

impl Decoder {
    /// Creates the state before the answer to a request; `keeps_connection` states whether the connection is kept.
    pub fn new(head_bytes_max: usize, keeps_connection: bool) -> Decoder {
        let (record, stage) = (Record::Header([0; HEADER_BYTES], 0), Stage::Head);
        let (kept, said, is_bodiless, is_cut) = (Vec::new(), Vec::new(), false, false);
        Decoder { record, stage, kept, head_bytes_max, keeps_connection, is_bodiless, said, is_cut }
    }

    /// Returns the state for the answer to a HEAD. The answer has no body, whatever the program announces and sends;
    /// the end record ends it.
    pub fn of_head(self) -> Decoder {
        Decoder { is_bodiless: true, ..self }
    }

    /// Returns true if the answer is complete, so that the connection may carry another request.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done && matches!(self.record, Record::Header(_, 0)) && !self.is_cut
    }

    /// Returns the bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.kept.capacity() + self.said.capacity()
    }

    /// Takes the beginning of the responder's error stream.
    pub fn take_said(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.said)
    }

    /// Takes the next bytes of a connection, and appends their equivalent in HTTP/1.1.
    pub fn decode(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
        loop {
            match &mut self.record {
                Record::Header(..) if bytes.is_empty() => return Ok(()),
                Record::Header(header, have) => {
                    let taken = bytes.len().min(HEADER_BYTES - *have);
                    header[*have..*have + taken].copy_from_slice(&bytes[..taken]);
                    (*have, bytes) = (*have + taken, &bytes[taken..]);
                    if *have == HEADER_BYTES {
                        let header = *header;
                        self.begin_record(header, out)?;
                    }
                }
                Record::Content { left: 0, padding, .. } => self.record = Record::Padding(*padding),
                Record::Content { .. } if bytes.is_empty() => return Ok(()),
                Record::Content { kind, is_ours, left, .. } => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    let (kind, is_ours, left) = (*kind, *is_ours, *left);
                    let (part, rest) = bytes.split_at(taken);
                    bytes = rest;
                    if is_ours {
                        self.take(kind, part, left, out)?;
                    }
                }
                Record::Padding(0) => self.record = Record::Header([0; HEADER_BYTES], 0),
                Record::Padding(_) if bytes.is_empty() => return Ok(()),
                Record::Padding(left) => {
                    let taken = bytes.len().min(*left);
                    (*left, bytes) = (*left - taken, &bytes[taken..]);
                }
            }
        }
    }

    fn begin_record(&mut self, header: [u8; HEADER_BYTES], out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
        let [version, kind, id_1, id_0, length_1, length_0, padding, _] = header;
        if version != VERSION {
            return Err(UpstreamFault("no record of FastCGI 1"));
        }
        if self.stage == Stage::Done {
            return Err(UpstreamFault("a record after the end of the answer"));
        }
        let (id, left) = (u16::from_be_bytes([id_1, id_0]), usize::from(u16::from_be_bytes([length_1, length_0])));
        // Records with the number 0 concern the connection, and require no answer.
        let is_ours = id == REQUEST_ID;
        if !is_ours && id != 0 {
            return Err(UpstreamFault("a record for a request that was not made"));
        }
        if is_ours && kind == kind::END_REQUEST && left != END_BYTES {
            return Err(UpstreamFault("an end record that does not have eight bytes"));
        }
        if is_ours && kind == kind::END_REQUEST && !self.kept.is_empty() {
            return Err(UpstreamFault("ended within its head"));
        }
        if is_ours && ![kind::STDOUT, kind::STDERR, kind::END_REQUEST].contains(&kind) {
            return Err(UpstreamFault("a record of a type that does not occur in answers"));
        }
        if is_ours && kind == kind::STDOUT && left > 0 && self.stage == Stage::Chunks {
            begin_chunk(out, left);
        }
        self.record = Record::Content { kind, is_ours, left, padding: usize::from(padding) };
        Ok(())
    }

    /// Takes a part of a record, of which `left` bytes are still to come.
    fn take(&mut self, kind: u8, part: &[u8], left: usize, out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
        match kind {
            kind::STDOUT => self.take_output(part, left, out),
            kind::STDERR => {
                self.say(part);
                Ok(())
            }
            _ => self.take_end(part, left, out),
        }
    }

    fn say(&mut self, text: &[u8]) {
        let room = SAID_BYTES_MAX - self.said.len().min(SAID_BYTES_MAX);
        self.said.extend_from_slice(&text[..text.len().min(room)]);
    }

    fn take_output(&mut self, part: &[u8], left: usize, out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
        match &mut self.stage {
            Stage::Head => {
                let before = self.kept.len();
                self.kept.extend_from_slice(part);
                let end = head_end(&self.kept, before);
                if end.unwrap_or(self.kept.len()) > self.head_bytes_max {
                    return Err(UpstreamFault("a response head over the limit"));
                }
                let Some(end) = end else { return Ok(()) };
                let kept = std::mem::take(&mut self.kept);
                let (head, rest) = kept.split_at(end);
                let with_body = rewrite(head, (self.keeps_connection, self.is_bodiless), out)?;
                self.stage = if self.is_bodiless { Stage::Nothing } else { with_body };
                if self.stage == Stage::Chunks && rest.len() + left > 0 {
                    begin_chunk(out, rest.len() + left);
                }
                if rest.is_empty() && left > 0 { Ok(()) } else { self.take_output(rest, left, out) }
            }
            Stage::Chunks => {
                out.extend_from_slice(part);
                if left == 0 && !part.is_empty() {
                    out.extend_from_slice(b"\r\n");
                }
                Ok(())
            }
            Stage::Length(length) => {
                let left = *length;
                self.stage = Stage::Length(self.take_of_length(left, part, out));
                Ok(())
            }
            // The program may not know that its body is not sent.
            Stage::Nothing => Ok(()),
            Stage::Done => Err(UpstreamFault("output after the end of the answer")),
        }
    }

    /// Takes a part of a body of which `length` is still to come. Returns the length still to come afterwards; excess
    /// bytes are dropped.
    fn take_of_length(&mut self, length: PeerLength, part: &[u8], out: &mut Vec<u8>) -> PeerLength {
        let bytes = length.bytes().min(part.len() as u64);
        let (body, rest) = part.split_at(bytes as usize);
        out.extend_from_slice(body);
        // nginx does the same, because scripts count characters and send bytes.
        if !rest.is_empty() && !std::mem::replace(&mut self.is_cut, true) {
            self.say(CUT);
        }
        length.less(bytes).unwrap_or_default()
    }

    fn take_end(&mut self, part: &[u8], left: usize, out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
        self.kept.extend_from_slice(part);
        if left > 0 {
            return Ok(());
        }
        // The exit status of the program comes first, and is ignored.
        let status = self.kept.get(4).copied().unwrap_or_default();
        self.kept = Vec::new();
        match (status, self.stage) {
            (0, Stage::Head) => Err(UpstreamFault("ended without an answer")),
            (0, Stage::Length(length)) if length != PeerLength::ZERO => Err(UpstreamFault::TOO_FEW),
            (0, stage) => {
                out.extend_from_slice(if stage == Stage::Chunks { LAST_CHUNK } else { b"" });
                self.stage = Stage::Done;
                Ok(())
            }
            (1 | 2, _) => Err(UpstreamFault("reports that it is overloaded")),
            _ => Err(UpstreamFault("reports that it does not run responders")),
        }
    }
}

/// Returns the position after the first empty line. Lines end in a line feed, with or without a carriage return. The
/// first `before` bytes have been searched already.
fn head_end(bytes: &[u8], before: usize) -> Option<usize> {
    let from = before.saturating_sub(3);
    let ends = bytes[from..].iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| from + at);
    let is_empty_before = |at: &usize| {
        let line = bytes[..*at].strip_suffix(b"\r").unwrap_or(&bytes[..*at]);
        line.is_empty() || line.ends_with(b"\n")
    };
    ends.into_iter().find(is_empty_before).map(|at| at + 1)
}

/// Appends the head in HTTP/1.1. Malformed fields stay malformed, so that the parser of HTTP/1.1 refuses them. Returns
/// the framing of the body.
fn rewrite(
    head: &[u8],
    (keeps_connection, is_bodiless): (bool, bool),
    out: &mut Vec<u8>,
) -> Result<Stage, UpstreamFault> {
    let lines = || head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = || lines().filter(|line| !line.is_empty());
    let value = |name: &str| {
        let mut values = lines().filter_map(|line| {
            let (own, value) = line.split_at_checked(name.len())?;
            own.eq_ignore_ascii_case(name.as_bytes()).then_some(())?;
            Some(value.trim_ascii_start().strip_prefix(b":")?.trim_ascii())
        });
        (values.next(), values.next().is_some())
    };
    let status = match value("status") {
        (_, true) => return Err(UpstreamFault("two statuses")),
        (Some(status), _) => status_of(status).ok_or(UpstreamFault("a status that is not a number from 200 to 999"))?,
        (None, _) if value("location").0.is_some() => 302,
        (None, _) => 200,
    };
    let length = length_of(value("content-length"))?;
    out.extend_from_slice(format!("HTTP/1.1 {status} \r\n").as_bytes());
    for line in lines() {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii_end();
        let is_ours = ["status", "connection", "transfer-encoding"];
        if !is_ours.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes())) {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
    }
    let stage = match (status, length) {
        (204 | 304, _) => Stage::Nothing,
        (_, Some(length)) => Stage::Length(length),
        (_, None) => Stage::Chunks,
    };
    out.extend_from_slice(if stage == Stage::Chunks && !is_bodiless { b"Transfer-Encoding: chunked\r\n" } else { b"" });
    out.extend_from_slice(if keeps_connection { b"\r\n" } else { b"Connection: close\r\n\r\n" });
    Ok(stage)
}

/// Returns the length in the first Content-Length of the head, if there is one. `is_twice` is true if there are more,
/// which is a fault.
fn length_of((said, is_twice): (Option<&[u8]>, bool)) -> Result<Option<PeerLength>, UpstreamFault> {
    let read = |said| PeerLength::from_decimal(said).filter(|_| !is_twice).ok_or(WRONG_LENGTH);
    said.map(read).transpose()
}

const WRONG_LENGTH: UpstreamFault = UpstreamFault("a content-length that is not a decimal number below 2^63");

/// Returns the number at the start of a status. Interim statuses are refused, because programs do not send them.
fn status_of(status: &[u8]) -> Option<u16> {
    let (number, rest) = status.split_at_checked(3)?;
    let number = std::str::from_utf8(number).ok().filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
    let is_end = rest.is_empty() || rest.starts_with(b" ");
    number.parse().ok().filter(|status| is_end && (200..=999).contains(status))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fastcgi::kind;
    use crate::http1::upstream::{UpstreamBody, parse_response};
    use crate::{Limits, Method};

    fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let length = (content.len() as u16).to_be_bytes();
        let header = [1, kind, 0, 1, length[0], length[1], padding, 0];
        [&header[..], content, &vec![0xAA; usize::from(padding)]].concat()
    }

    fn end() -> Vec<u8> {
        record(kind::END_REQUEST, &[0; 8], 3)
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
        let (mut decoder, mut out) = (Decoder::new(4096, true), Vec::new());
        decoder.decode(bytes, &mut out).map_err(|fault| fault.0)?;
        if decoder.is_done() { Ok(out) } else { Err("unfinished") }
    }

    fn answer(output: &str) -> Result<String, &'static str> {
        let bytes = [record(kind::STDOUT, output.as_bytes(), 5), end()].concat();
        decoded(&bytes).map(|out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_answer_to_a_head_ends_with_its_record() {
        for output in ["A: b\r\n\r\n", "A: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"] {
            let (mut decoder, mut out) = (Decoder::new(4096, true).of_head(), Vec::new());
            decoder.decode(&record(kind::STDOUT, output.as_bytes(), 5), &mut out).unwrap();
            assert!(!decoder.is_done(), "more may follow");
            decoder.decode(&end(), &mut out).unwrap();
            assert!(decoder.is_done() && out == b"HTTP/1.1 200 \r\nA: b\r\n\r\n", "{output}");
        }
    }

    #[test]
    fn a_head_becomes_one_of_http() {
        let chunked = "Transfer-Encoding: chunked\r\n\r\n";
        for (output, expected) in [
            (
                "Status: 404 Not Found\r\nA: b\r\n\r\nhi",
                format!("HTTP/1.1 404 \r\nA: b\r\n{chunked}2\r\nhi\r\n0\r\n\r\n"),
            ),
            ("A: b\n\nhi", format!("HTTP/1.1 200 \r\nA: b\r\n{chunked}2\r\nhi\r\n0\r\n\r\n")),
            ("Location: /x\r\n\r\n", format!("HTTP/1.1 302 \r\nLocation: /x\r\n{chunked}0\r\n\r\n")),
            ("\nhi", format!("HTTP/1.1 200 \r\n{chunked}2\r\nhi\r\n0\r\n\r\n")),
            ("content-length: 2\r\n\r\nhi", "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nhi".into()),
            ("Status: 204\r\n\r\nignored", "HTTP/1.1 204 \r\n\r\n".into()),
            ("Connection: close\nTransfer-Encoding: x\n\n", format!("HTTP/1.1 200 \r\n{chunked}0\r\n\r\n")),
        ] {
            assert_eq!(answer(output), Ok(expected), "{output}");
        }
        for (output, fault) in [
            ("", "ended without an answer"),
            ("A: b\r\n", "ended within its head"),
            ("Status: 99\n\n", "a status that is not a number from 200 to 999"),
            ("Status: 100 Continue\n\n", "a status that is not a number from 200 to 999"),
            ("Status: 200\nstatus : 404\n\n", "two statuses"),
            ("Content-Length: 3\n\nhi", "fewer bytes than the announced length"),
            ("Content-Length: -1\n\nhi", "a content-length that is not a decimal number below 2^63"),
            ("Content-Length: 2\nContent-Length: 2\n\nhi", "a content-length that is not a decimal number below 2^63"),
            (&"x".repeat(4097), "a response head over the limit"),
            (&format!("A: {}\n\n", "x".repeat(4092)), "a response head over the limit"),
        ] {
            assert_eq!(answer(output), Err(fault), "{output}");
        }
    }

    /// The excess bytes of a body that is too long are dropped, wherever the body is cut, and its connection carries
    /// nothing else.
    #[test]
    fn a_body_ends_at_its_length() {
        let parts = [record(kind::STDOUT, b"Content-Length: 3\n\nhi", 0), record(kind::STDOUT, b"gh", 1), end()];
        let bytes = parts.concat();
        for at in 0..bytes.len() {
            let (mut decoder, mut out) = (Decoder::new(4096, true), Vec::new());
            decoder.decode(&bytes[..at], &mut out).unwrap();
            decoder.decode(&bytes[at..], &mut out).unwrap();
            assert_eq!(String::from_utf8_lossy(&out), "HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\nhig");
            assert!(!decoder.is_done() && decoder.take_said() == CUT, "cut at {at}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let output = record(kind::STDOUT, b"A: b\r\n\r\nhi", 0);
        let with = |parts: &[&[u8]]| decoded(&parts.concat()).map(|_| ());
        assert_eq!(with(&[b"HTTP/1.1 200 OK\r\n"]), Err("no record of FastCGI 1"));
        assert_eq!(with(&[&output, &end(), &output]), Err("a record after the end of the answer"));
        assert_eq!(with(&[&output]), Err("unfinished"));
        assert_eq!(with(&[&output, &record(9, b"", 0)]), Err("a record of a type that does not occur in answers"));
        let mut other = output.clone();
        other[3] = 2;
        assert_eq!(with(&[&other]), Err("a record for a request that was not made"));
        // This record concerns the connection, and is ignored.
        other[3] = 0;
        assert_eq!(with(&[&other, &output, &end()]), Ok(()));
        let ended = |status: u8| record(kind::END_REQUEST, &[0, 0, 0, 1, status, 0, 0, 0], 0);
        assert_eq!(with(&[&output, &ended(0)]), Ok(()), "the exit status of a program is its own affair");
        assert_eq!(with(&[&ended(2)]), Err("reports that it is overloaded"));
        assert_eq!(with(&[&ended(3)]), Err("reports that it does not run responders"));
        assert!(with(&[&output, &record(kind::END_REQUEST, b"short", 0)]).is_err());
    }

    #[test]
    fn what_a_program_says_aside_is_kept_up_to_its_bound() {
        let (mut decoder, mut out) = (Decoder::new(4096, false), Vec::new());
        for _ in 0..100 {
            decoder.decode(&record(kind::STDERR, &[b'e'; 60_000], 7), &mut out).unwrap();
        }
        decoder.decode(&[record(kind::STDOUT, b"\n", 0), end()].concat(), &mut out).unwrap();
        assert!(decoder.is_done() && decoder.take_said().len() == SAID_BYTES_MAX && decoder.take_said().is_empty());
        assert!(out.ends_with(b"Connection: close\r\n\r\n0\r\n\r\n"));
    }

    proptest! {
        /// Records and reads may be split anywhere: the body is the same, and the connection is ready for the next
        /// request.
        #[test]
        fn a_body_is_the_same_however_it_is_cut(
            records in proptest::collection::vec((0usize..3000, 0u8..20, any::<bool>()), 1..8),
            reads in proptest::collection::vec(1usize..500, 1..40),
            has_length in any::<bool>(),
        ) {
            let total: usize = records.iter().map(|(bytes, ..)| bytes).sum();
            let body: Vec<u8> = (0..total).map(|at| (at * 31 % 251) as u8).collect();
            let length = if has_length { format!("Content-Length: {total}\r\n") } else { String::new() };
            let output = [format!("Content-Type: a/b\r\n{length}\r\n").as_bytes(), &body].concat();
            let (mut bytes, mut at) = (Vec::new(), 0);
            for (index, (size, padding, has_error)) in records.iter().enumerate() {
                let end = if index + 1 == records.len() { output.len() } else { (at + size).min(output.len()) };
                for part in output[at..end].chunks(65_535) {
                    bytes.extend(record(kind::STDOUT, part, *padding));
                }
                if *has_error {
                    bytes.extend(record(kind::STDERR, b"aside", *padding));
                }
                at = end;
            }
            bytes.extend(record(kind::STDOUT, b"", 0));
            bytes.extend(end());
            let (mut decoder, mut out) = (Decoder::new(4096, true), Vec::new());
            let (mut from, mut reads) = (0, reads.into_iter().cycle());
            while from < bytes.len() {
                let to = (from + reads.next().expect("a cycle")).min(bytes.len());
                decoder.decode(&bytes[from..to], &mut out).unwrap();
                from = to;
            }
            prop_assert!(decoder.is_done());
            let (head, head_bytes) = parse_response(&out, Method::Get, &Limits::default()).unwrap().expect("a head");
            prop_assert!(head.is_kept_alive);
            let (mut framed, mut rest, mut got) = (UpstreamBody::new(head.framing), &out[head_bytes..], Vec::new());
            while !framed.is_done() {
                let taken = framed.take(rest).unwrap();
                got.extend_from_slice(taken.data);
                rest = &rest[taken.consumed..];
            }
            prop_assert!(got == body && rest.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), starts in any::<bool>()) {
            let (mut decoder, mut out) = (Decoder::new(64, true), Vec::new());
            if starts {
                decoder.decode(&record(kind::STDOUT, b"A: b\r\n\r\n", 1), &mut out).unwrap();
            }
            let _ = decoder.decode(&bytes, &mut out);
            prop_assert!(out.len() <= bytes.len() * 2 + 100);
        }
    }
}
