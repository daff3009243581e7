//! Integers with a prefix (RFC 7541 section 5.1).

/// The maximum value accepted: greater lengths and indices make no sense.
const VALUE_MAX: u64 = 1 << 40;

/// The integer at the start of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer {
    /// The value, and the number of bytes it takes.
    Whole(u64, usize),
    /// The integer is incomplete.
    Part,
    /// The value is above 2^40.
    TooGreat,
}

/// Reads an integer that starts with `prefix_bits` of the first byte.
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

/// Appends an integer; `first` has the bits before the prefix.
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
