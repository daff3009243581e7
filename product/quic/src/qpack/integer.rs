//! Integers with a prefix (RFC 7541 section 5.1).

/// The greatest that anything here is: lengths and indices above it are nonsense.
const VALUE_MAX: u64 = 1 << 40;

/// What the bytes begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer {
    /// And how many bytes it takes.
    Whole(u64, usize),
    /// Bytes are missing.
    Part,
    /// Beyond 2^40.
    TooGreat,
}

/// Reads one whose first byte has so many bits of it.
pub fn read(bytes: &[u8], prefix_bits: u32) -> Integer {
    let Some((&first, rest)) = bytes.split_first() else { return Integer::Part };
    let mask = (1u64 << prefix_bits) - 1;
    let mut value = u64::from(first) & mask;
    if value < mask {
        return Integer::Whole(value, 1);
    }
    for (at, &byte) in rest.iter().enumerate() {
        let shift = 7 * at as u32;
        if shift > 40 {
            return Integer::TooGreat;
        }
        value += u64::from(byte & 0x7f) << shift;
        if value > VALUE_MAX {
            return Integer::TooGreat;
        }
        if byte & 0x80 == 0 {
            return Integer::Whole(value, at + 2);
        }
    }
    Integer::Part
}

/// Appends one; `first` has the bits before it.
pub fn write(first: u8, prefix_bits: u32, value: u64, into: &mut Vec<u8>) {
    let mask = (1u64 << prefix_bits) - 1;
    if value < mask {
        return into.push(first | value as u8);
    }
    into.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        into.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}
