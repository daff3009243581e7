//! Variable-length integers (RFC 9000 section 16).

/// Returns the integer at the start of `bytes` and its length.
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (bytes.first()? >> 6);
    let bytes = bytes.get(..length)?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Some((value & ((1 << (8 * length - 2)) - 1), length))
}

/// Returns the encoded length of an integer.
pub fn bytes(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends an integer below 2^62.
pub fn write(value: u64, into: &mut Vec<u8>) {
    let length = bytes(value);
    let marked = value | (length.trailing_zeros() as u64) << (8 * length - 2);
    into.extend_from_slice(&marked.to_be_bytes()[8 - length..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn integers_of_the_standard() {
        assert_eq!(read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), Some((151_288_809_941_952_652, 8)));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 4)));
        assert_eq!(read(&[0x7b, 0xbd]), Some((15_293, 2)));
        assert_eq!(read(&[0x25]), Some((37, 1)));
        assert_eq!(read(&[0x40, 0x25]), Some((37, 2)));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn integers_come_back() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
            let mut written = Vec::new();
            write(value, &mut written);
            assert_eq!(written.len(), bytes(value));
            assert_eq!(read(&written), Some((value, written.len())));
        }
    }
}
