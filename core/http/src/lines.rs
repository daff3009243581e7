//! Field lines in the format of HTTP/1.1, which the parts of a multipart body use too. Uses no formatting machinery and
//! allocates only in the caller's `Vec<u8>`.

use std::ops::Range;

/// Appends one field line. Control characters in the value become `?`, because with them its sender could write lines
/// of its own.
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend(value.iter().map(|&b| if b.is_ascii_control() && b != b'\t' { b'?' } else { b }));
    out.extend_from_slice(b"\r\n");
}

/// Appends one field line; the value must not contain control characters.
pub(crate) fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + ": \r\n".len());
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `Content-Range: bytes 0-9/100` for a part of a multipart body. The range is not empty.
pub(crate) fn content_range(out: &mut Vec<u8>, range: &Range<u64>, entity_bytes: u64) {
    out.extend_from_slice(b"Content-Range: ");
    self::range(out, range, entity_bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends `bytes 0-9/100`.
pub(crate) fn range(out: &mut Vec<u8>, range: &Range<u64>, entity_bytes: u64) {
    out.extend_from_slice(b"bytes ");
    number(out, range.start);
    out.push(b'-');
    number(out, range.end - 1);
    out.push(b'/');
    number(out, entity_bytes);
}

/// Appends decimal digits.
pub(crate) fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_of_every_length() {
        for n in [0, 9, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(written(|out| number(out, n)), n.to_string());
        }
    }

    #[test]
    fn ranges_are_inclusive_on_the_wire() {
        assert_eq!(written(|out| content_range(out, &(0..10), 100)), "Content-Range: bytes 0-9/100\r\n");
    }

    #[test]
    fn a_value_cannot_split_the_response() {
        let line = written(|out| field(out, "Location", b"/a\r\nSet-Cookie: x\0\t/"));
        assert_eq!(line, "Location: /a??Set-Cookie: x?\t/\r\n");
    }
}
