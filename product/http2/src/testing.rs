//! A client written out as bytes, for tests.

use crate::{FRAME_HEADER_BYTES, PREFACE};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 16;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// The fields of a request except its path.
pub const GET: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "http"), (":authority", "a")];

/// A received frame: type, flags, stream, payload.
pub type Came = (u8, u8, u32, Vec<u8>);

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Encodes fields as literals without indexing (RFC 7541 section 6.2.2), each shorter than 127 bytes.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [&[0][..], &text(name), &text(value)].concat()).collect()
}

/// Returns the preface and empty settings.
pub fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Returns a whole request for this path.
pub fn request(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&GET[..], &[(":path", path)], more].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields))
}

/// Opens windows that never shut in a test: the windows of all new streams, and the connection's.
pub fn wide() -> Vec<u8> {
    let streams = frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    [streams, frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0])].concat()
}

/// Removes and returns the whole frames at the start of the received bytes.
pub fn frames(came: &mut Vec<u8>) -> Vec<Came> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, s0, s1, s2, s3, payload @ ..] = &came[..] {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if payload.len() < length {
            break;
        }
        frames.push((*kind, *flags, u32::from_be_bytes([*s0, *s1, *s2, *s3]), payload[..length].to_vec()));
        came.drain(..FRAME_HEADER_BYTES + length);
    }
    frames
}
