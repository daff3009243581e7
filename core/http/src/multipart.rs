//! The heads of the parts of a `multipart/byteranges` body (RFC 9110 section 14.6).
//!
//! For each range, the body has a [`part_head`] and the bytes of the range; [`closing`] ends it. The bytes of the
//! ranges are sent from the file, so this module never holds them, and [`total_bytes`] returns the Content-Length
//! before any of them is read. The caller chooses the boundary: 1 to 70 letters and digits (RFC 2046 section 5.1.1),
//! random enough that no part contains it by chance.

use std::ops::Range;

use crate::lines;

/// Returns the value of the response's Content-Type.
pub fn content_type(boundary: &str) -> String {
    format!("multipart/byteranges; boundary={boundary}")
}

/// Appends the delimiter and the fields of a part, which precede the bytes of its range.
pub fn part_head(out: &mut Vec<u8>, boundary: &str, mime: &str, range: &Range<u64>, entity_bytes: u64) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary.as_bytes());
    out.extend_from_slice(b"\r\n");
    lines::field(out, "Content-Type", mime.as_bytes());
    lines::content_range(out, range, entity_bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends the delimiter that follows the last range.
pub fn closing(out: &mut Vec<u8>, boundary: &str) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary.as_bytes());
    out.extend_from_slice(b"--\r\n");
}

/// Returns the Content-Length of the whole body: part heads, ranges and closing.
pub fn total_bytes(boundary: &str, mime: &str, ranges: &[Range<u64>], entity_bytes: u64) -> u64 {
    let mut framing = Vec::new();
    for range in ranges {
        part_head(&mut framing, boundary, mime, range, entity_bytes);
    }
    closing(&mut framing, boundary);
    framing.len() as u64 + ranges.iter().map(|range| range.end - range.start).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTITY: &[u8] = b"0123456789";

    /// The body as a server would send it.
    fn body(ranges: &[Range<u64>]) -> Vec<u8> {
        let mut out = Vec::new();
        for range in ranges {
            part_head(&mut out, "B0", "text/plain", range, ENTITY.len() as u64);
            out.extend_from_slice(&ENTITY[range.start as usize..range.end as usize]);
        }
        closing(&mut out, "B0");
        out
    }

    #[test]
    fn a_body_of_two_parts() {
        let lines = [
            "",
            "--B0",
            "Content-Type: text/plain",
            "Content-Range: bytes 0-1/10",
            "",
            "01",
            "--B0",
            "Content-Type: text/plain",
            "Content-Range: bytes 9-9/10",
            "",
            "9",
            "--B0--",
            "",
        ];
        assert_eq!(String::from_utf8(body(&[0..2, 9..10])).unwrap(), lines.join("\r\n"));
        assert_eq!(content_type("B0"), "multipart/byteranges; boundary=B0");
    }

    #[test]
    fn the_length_is_known_before_the_body() {
        for ranges in [vec![0..1, 9..10], vec![0..10, 5..7, 3..4]] {
            assert_eq!(total_bytes("B0", "text/plain", &ranges, 10), body(&ranges).len() as u64);
        }
    }
}
