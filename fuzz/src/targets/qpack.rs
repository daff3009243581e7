//! Header compression of HTTP/3 alone: the input is a field section, and also a text in Huffman coding.

use http::{Limits, Request, RequestBuilder};
use quic::testing::{decode, encode};

use crate::{Reached, Target};

pub const TARGET: Target = Target {
    name: "qpack",
    run,
    reaches: &[
        "a head",
        "a head refused",
        "a malformed head",
        "a section",
        "a section refused",
        "a text in code",
        "a text refused",
    ],
    seeds,
    mutants: 20_000,
};

/// The maximum bytes of text for each byte of a section: the static table's longest field, referenced by one byte.
const FIELD_BYTES_MAX: usize = 128;

type Field = (Vec<u8>, Vec<u8>);

fn run(bytes: &[u8]) -> Reached {
    let mut reached = Reached::default();
    match fields(bytes) {
        Some(fields) => {
            reached.mark("a section");
            let text: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!(text <= FIELD_BYTES_MAX * bytes.len(), "{text} bytes of {}", bytes.len());
            check_again(&fields);
            check_head(&fields, &mut reached);
        }
        None => reached.mark("a section refused"),
    }
    match fields(&coded(bytes)) {
        Some(fields) => {
            reached.mark("a text in code");
            let (name, text) = &fields[0];
            // The shortest code has 5 bits.
            assert!(fields.len() == 1 && name == b"a" && text.len() * 5 <= bytes.len() * 8);
            check_again(&fields);
        }
        None => reached.mark("a text refused"),
    }
    reached
}

fn fields(section: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let decoded = decode(section, &mut Vec::new(), |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        true
    });
    decoded.ok().map(|()| fields)
}

/// The fields that were read can be written and read again.
fn check_again(fields: &[Field]) {
    let mut section = Vec::new();
    encode(fields.iter().map(|(name, value)| (&name[..], &value[..])), &mut section);
    let lower = |(name, value): &Field| (name.to_ascii_lowercase(), value.clone());
    let again = self::fields(&section).expect("a section of our own");
    assert_eq!(again.iter().map(lower).collect::<Vec<_>>(), fields.iter().map(lower).collect::<Vec<_>>());
}

/// The fields form a valid request within its limits, or none, whatever their values are.
fn check_head(fields: &[Field], reached: &mut Reached) {
    let limits = Limits::default();
    let mut builder = RequestBuilder::new(limits, true);
    builder.begin();
    fields.iter().for_each(|(name, value)| builder.push(name, value));
    match builder.finish() {
        Ok(Ok(request)) => {
            check_request(&request.view(), &limits);
            reached.mark("a head");
        }
        Ok(Err(_)) => reached.mark("a head refused"),
        Err(_) => reached.mark("a malformed head"),
    }
}

/// Checks properties of every request that is not refused.
pub fn check_request(request: &Request<'_>, limits: &Limits) {
    assert!(request.all().count() <= limits.fields_max);
    let fields: usize = request.all().map(|(name, value)| name.len() + value.len() + 4).sum();
    assert!(request.target.len() + fields <= limits.head_bytes_max, "a head beyond its limit");
    assert!(request.fields.host.is_some() && request.values("host").count() <= 1);
    let is_clean = |value: &[u8]| !value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'));
    assert!(request.all().all(|(name, value)| !name.is_empty() && is_clean(value)));
    assert!(request.target.iter().all(u8::is_ascii_graphic));
}

/// A section of one field, `a`, whose value is this in Huffman's code.
fn coded(text: &[u8]) -> Vec<u8> {
    let mut section = vec![0, 0, 0x21, b'a'];
    match text.len() {
        short @ 0..127 => section.push(0x80 | short as u8),
        long => {
            let rest = long - 127;
            section.extend([0xff, rest as u8 | 0x80, (rest >> 7) as u8]);
        }
    }
    section.extend_from_slice(text);
    section
}

fn seeds() -> Vec<Vec<u8>> {
    let section = |fields: &[(&str, &str)]| {
        let mut section = Vec::new();
        encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut section);
        section
    };
    let request = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x?y=z")];
    let with = |more: &[(&str, &str)]| section(&[&request[..], more].concat());
    let all: String = (' '..='~').collect();
    vec![
        with(&[]),
        with(&[("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"), ("accept", "*/*"), ("range", "bytes=0-1")]),
        with(&[("host", "b"), ("x", "a\r\nb: c"), ("priority", "u=1, i")]),
        section(&[("a", &all), ("content-length", "0"), ("x-content-type-options", "nosniff")]),
        // A dynamic entry, a base, an insert count, a length without an end.
        b"\x00\x00\x80".to_vec(),
        b"\x00\x80\xd1".to_vec(),
        b"\x02\x00\xd1".to_vec(),
        b"\x00\x00\x51\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        // "www.example.com" in code, and the code of the end.
        b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff".to_vec(),
        b"\xff\xff\xff\xff".to_vec(),
        b"\xff\xff\xea\xff\xff\xf6\x3f".to_vec(),
    ]
}
