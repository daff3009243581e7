//! QPACK (RFC 9204) as far as a client needs it that wants nothing of a response's fields but its status: without a dynamic
//! table, which we allow the server none of.

use super::fault::Fault;

/// Entries of the static table (appendix A).
const AUTHORITY: u64 = 0;
const PATH: u64 = 1;
const METHOD_GET: u8 = 17;
const SCHEME_HTTPS: u8 = 23;
const STATIC_ENTRIES: u64 = 99;

/// `:status` with its values, by their places in the static table.
const STATUSES: [(u64, u16); 14] = [
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];

const STATUS: &[u8] = b":status";
/// The same in Huffman's code (RFC 7541 appendix B).
const STATUS_HUFFMAN: &[u8] = &[0xb8, 0x84, 0x8d, 0x36, 0xa3];

/// Appends the field section of a GET over https.
pub(super) fn put_request(authority: &str, path: &str, priority: Option<&str>, out: &mut Vec<u8>) {
    // No entry of the dynamic table is referred to.
    out.extend([0, 0, 0xc0 | METHOD_GET, 0xc0 | SCHEME_HTTPS]);
    for (name, value) in [(AUTHORITY, authority), (PATH, path)] {
        put_integer(0x50, 4, name, out);
        put_integer(0, 7, value.len() as u64, out);
        out.extend(value.as_bytes());
    }
    // No entry of the static table has its name.
    if let Some(value) = priority {
        put_integer(0x20, 3, PRIORITY.len() as u64, out);
        out.extend(PRIORITY);
        put_integer(0, 7, value.len() as u64, out);
        out.extend(value.as_bytes());
    }
}

const PRIORITY: &[u8] = b"priority";

/// The status of a response, out of its whole field section.
pub(super) fn status(mut section: &[u8]) -> Result<u16, Fault> {
    let section = &mut section;
    let required_entries = take_integer(8, section)?;
    let _base = take_integer(7, section)?;
    if required_entries != 0 {
        return Err(Fault::QPACK_DECOMPRESSION);
    }
    let mut status = None;
    while !section.is_empty() {
        let found = field(section)?;
        if found.is_some() && status.is_some() {
            return Err(Fault::MESSAGE);
        }
        status = status.or(found);
    }
    status.ok_or(Fault::MESSAGE)
}

/// Takes one field off the front; what it says of the status.
fn field(section: &mut &[u8]) -> Result<Option<u16>, Fault> {
    let Some(&first) = section.first() else { return Err(Fault::QPACK_DECOMPRESSION) };
    match first {
        // Indexed, of the static table.
        0xc0.. => {
            let entry = static_entry(take_integer(6, section)?)?;
            Ok(STATUSES.iter().find(|(place, _)| *place == entry).map(|(_, status)| *status))
        }
        // Its name is of the static table.
        0x50..0x60 | 0x70..0x80 => {
            let entry = static_entry(take_integer(4, section)?)?;
            let is_status = STATUSES.iter().any(|(place, _)| *place == entry);
            value(is_status, section)
        }
        // Its name is given.
        0x20..0x40 => {
            let is_huffman = first & 0x08 != 0;
            let name = take_string(3, section)?;
            value(name == if is_huffman { STATUS_HUFFMAN } else { STATUS }, section)
        }
        // Of the dynamic table, which has no entries.
        _ => Err(Fault::QPACK_DECOMPRESSION),
    }
}

fn static_entry(entry: u64) -> Result<u64, Fault> {
    if entry < STATIC_ENTRIES { Ok(entry) } else { Err(Fault::QPACK_DECOMPRESSION) }
}

/// Takes the value of a field, and reads it where it is the status.
fn value(is_status: bool, section: &mut &[u8]) -> Result<Option<u16>, Fault> {
    let is_huffman = section.first().is_some_and(|first| first & 0x80 != 0);
    let text = take_string(7, section)?;
    if !is_status {
        return Ok(None);
    }
    let digits = if is_huffman { huffman_digits(text) } else { <[u8; 3]>::try_from(text).ok() };
    let digits =
        digits.filter(|digits| digits.iter().all(u8::is_ascii_digit) && digits[0] != b'0').ok_or(Fault::MESSAGE)?;
    Ok(Some(digits.iter().fold(0, |status, digit| 10 * status + u16::from(digit - b'0'))))
}

/// Three digits in Huffman's code: 0 to 2 have five bits, 3 to 9 six. What is none is no status either.
fn huffman_digits(text: &[u8]) -> Option<[u8; 3]> {
    let mut bits = match *text {
        [a, b] => u32::from_be_bytes([a, b, 0xff, 0xff]),
        [a, b, c] => u32::from_be_bytes([a, b, c, 0xff]),
        _ => return None,
    };
    let mut digits = [0; 3];
    for digit in &mut digits {
        let (value, length) = match (bits >> 27, bits >> 26) {
            (five @ 0..=2, _) => (five, 5),
            (_, six @ 0x19..=0x1f) => (six - 0x19 + 3, 6),
            _ => return None,
        };
        *digit = b'0' + value as u8;
        bits = bits << length | ((1 << length) - 1);
    }
    // What fills up the last byte is ones.
    (bits == u32::MAX).then_some(digits)
}

fn take_string<'a>(prefix: u32, section: &mut &'a [u8]) -> Result<&'a [u8], Fault> {
    let bytes = usize::try_from(take_integer(prefix, section)?).unwrap_or(usize::MAX);
    let (text, rest) = section.split_at_checked(bytes).ok_or(Fault::QPACK_DECOMPRESSION)?;
    *section = rest;
    Ok(text)
}

/// An integer whose first byte has so many bits of it (RFC 9204 section 4.1.1).
fn take_integer(prefix: u32, section: &mut &[u8]) -> Result<u64, Fault> {
    let mask = (1 << prefix) - 1;
    let mut next = || {
        let (&byte, rest) = section.split_first().ok_or(Fault::QPACK_DECOMPRESSION)?;
        *section = rest;
        Ok(u64::from(byte))
    };
    let first = next()? & mask;
    if first < mask {
        return Ok(first);
    }
    let mut value = first;
    // As long as no more than 62 bits come of it.
    for shift in (0..=49).step_by(7) {
        let byte = next()?;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fault::QPACK_DECOMPRESSION)
}

/// Appends an integer behind the bits of `first`, of whose byte it has so many.
fn put_integer(first: u8, prefix: u32, number: u64, out: &mut Vec<u8>) {
    let mask = (1 << prefix) - 1;
    if number < mask {
        out.push(first | number as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut left = number - mask;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_its_four_fields() {
        let mut out = vec![];
        put_request("h:9", "/17.bin", None, &mut out);
        assert_eq!(out, b"\x00\x00\xd1\xd7\x50\x03h:9\x51\x07/17.bin");
        let (plain, mut out) = (out, vec![]);
        put_request("h:9", "/17.bin", Some("u=2, i"), &mut out);
        assert_eq!(out, [&plain[..], b"\x27\x01priority\x06u=2, i"].concat());
    }

    #[test]
    fn long_values_are_read_as_they_were_written() {
        for number in [0, 6, 7, 14, 15, 16, 126, 127, 128, 255, 16_511, u64::from(u32::MAX)] {
            for prefix in [3, 4, 6, 7, 8] {
                let mut out = vec![];
                put_integer(0, prefix, number, &mut out);
                assert_eq!(take_integer(prefix, &mut &*out), Ok(number), "{prefix}");
            }
        }
    }

    #[test]
    fn a_status_comes_in_any_form() {
        for (section, expected) in [
            (&b"\x00\x00\xd9"[..], 200),
            (b"\x00\x00\xff\x08", 500),
            (b"\x00\x00\x5f\x09\x03206", 206),
            (b"\x00\x00\x5f\x09\x82\x10\x1c", 206),
            (b"\x00\x00\x5f\x09\x83\x69\xa6\xbf", 444),
            (b"\x00\x00\x27\x00:status\x03200", 200),
            (b"\x00\x00\x2d\xb8\x84\x8d\x36\xa3\x03299", 299),
            // Behind content-length, and before server.
            (b"\x00\x00\x54\x0217\xd9\x5f\x4d\x04weir\x21x\x01y", 200),
        ] {
            assert_eq!(status(section), Ok(expected), "{section:x?}");
        }
    }

    #[test]
    fn what_is_no_field_section_is_refused() {
        for (section, fault) in [
            (&b""[..], Fault::QPACK_DECOMPRESSION),
            (b"\x00", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00", Fault::MESSAGE),
            (b"\x02\x00\xd9", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00\x80", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00\x10", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00\x40\x01x", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00\xff\x24", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00\x54\x05ab", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Fault::QPACK_DECOMPRESSION),
            (b"\x00\x00\xd9\xd9", Fault::MESSAGE),
            (b"\x00\x00\x5f\x09\x0220", Fault::MESSAGE),
            (b"\x00\x00\x5f\x09\x03099", Fault::MESSAGE),
            (b"\x00\x00\x5f\x09\x03abc", Fault::MESSAGE),
            (b"\x00\x00\x5f\x09\x82\x10\x00", Fault::MESSAGE),
            (b"\x00\x00\x5f\x09\x81\x10", Fault::MESSAGE),
        ] {
            assert_eq!(status(section), Err(fault), "{section:x?}");
        }
    }

    /// Huffman's code of a number, digit by digit.
    fn huffman(text: &str) -> Vec<u8> {
        let bits: String = text
            .bytes()
            .map(|digit| match digit - b'0' {
                small @ 0..=2 => format!("{small:05b}"),
                large => format!("{:06b}", 0x19 + large - 3),
            })
            .collect();
        let bits = format!("{bits:1<width$}", width = bits.len().next_multiple_of(8));
        bits.as_bytes()
            .chunks(8)
            .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
            .collect()
    }

    #[test]
    fn every_status_is_read_in_huffmans_code() {
        for code in 100..1000_u16 {
            let digits = huffman_digits(&huffman(&code.to_string())).unwrap();
            assert_eq!(std::str::from_utf8(&digits).unwrap(), code.to_string());
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut section: Vec<u8>) {
            let _ = status(&section);
            section.splice(0..0, [0, 0]);
            let _ = status(&section);
        }
    }
}
