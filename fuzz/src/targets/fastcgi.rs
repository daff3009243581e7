//! Answers of a FastCGI responder: the input is how its bytes are cut, then its bytes.

use http::Method;
use http::fastcgi::Decoder;
use http::http1::upstream::{UpstreamBody, parse_response};
use http::{Limits, http1};

use crate::{Input, Reached, Script, Target};

pub const TARGET: Target = Target {
    name: "fastcgi",
    run,
    reaches: &["a body", "a head", "a whole answer", "fault", "said aside"],
    seeds,
    mutants: 20_000,
};

/// Small, so that an input of a few bytes goes past it.
const NARROW: usize = 64;

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let piece_bytes = usize::from(input.byte()).max(1);
    let bytes = input.rest();
    let mut reached = Reached::default();
    for head_bytes_max in [Limits::default().head_bytes_max, NARROW] {
        answer(bytes, piece_bytes, head_bytes_max, &mut reached);
    }
    reached
}

/// Decodes an answer in pieces and at once, and reads what it is in HTTP/1.1.
fn answer(bytes: &[u8], piece_bytes: usize, head_bytes_max: usize, reached: &mut Reached) {
    let decode = |piece_bytes: usize| {
        let (mut decoder, mut out) = (Decoder::new(head_bytes_max, true), Vec::new());
        let fault = bytes.chunks(piece_bytes.max(1)).find_map(|piece| decoder.decode(piece, &mut out).err());
        (decoder, out, fault)
    };
    let (mut decoder, out, fault) = decode(piece_bytes);
    let (_, at_once, same) = decode(bytes.len());
    assert_eq!(fault, same, "it depends on how the bytes are cut");
    // Of a part at fault, nothing is kept.
    assert!(if fault.is_some() { out.starts_with(&at_once) } else { out == at_once }, "it depends on the cuts");
    assert!(out.len() <= 2 * bytes.len() + 200, "{} bytes of {}", out.len(), bytes.len());
    let said = decoder.take_said();
    // With a line of ours about a body that is longer than its length.
    assert!(said.len() <= (bytes.len() + 64).min(1024));
    reached.mark_if(!said.is_empty(), "said aside");
    reached.mark_if(fault.is_some(), "fault");
    reached.mark_if(decoder.is_done(), "a whole answer");
    let Ok(Some((head, head_bytes))) = parse_response(&out, Method::Get, &Limits::default()) else { return };
    reached.mark("a head");
    assert!(!head.is_interim(), "{}", head.status.0);
    let (mut body, mut rest) = (UpstreamBody::new(head.framing), &out[head_bytes..]);
    while !rest.is_empty() && !body.is_done() {
        let http1::Taken { consumed, data, .. } = body.take(rest).expect("a body that we have framed");
        reached.mark_if(!data.is_empty(), "a body");
        rest = &rest[consumed..];
    }
    assert!(rest.is_empty(), "bytes behind the body");
    assert!(!decoder.is_done() || body.is_done(), "an answer that is whole has a body that is");
}

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], padding, 0][..], content, &vec![0; padding.into()]].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let (end, stdout) = (record(3, &[0; 8], 0), |text: &str| record(6, text.as_bytes(), 5));
    let answers = [
        [stdout("Status: 404 Not Found\r\nA: b\r\n\r\nhi"), end.clone()].concat(),
        [stdout("A: b\n"), record(7, b"aside", 1), stdout("\nhi"), stdout("there"), stdout(""), end.clone()].concat(),
        [stdout("Content-Length: 2\r\n\r\nhi"), end.clone()].concat(),
        [stdout("Content-Length: 3\r\n\r\nhi"), end.clone()].concat(),
        [stdout("Location: /\r\nStatus: 302\r\n\r\n"), end.clone()].concat(),
        [stdout("Status: 204\r\n\r\nx"), end.clone(), end.clone()].concat(),
        [stdout(&format!("A: {}\r\n\r\n", "b".repeat(100))), end.clone()].concat(),
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        record(3, &[0, 0, 0, 0, 2, 0, 0, 0], 0),
    ];
    answers.iter().map(|answer| Script::default().byte(7).raw(answer).done()).collect()
}
