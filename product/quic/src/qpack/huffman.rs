//! The Huffman code for text (RFC 7541 section 5.2, appendix B).
//!
//! The code is canonical: among codes of one length the symbols ascend, and shorter codes are less than the prefixes of
//! longer ones. The lengths in the appendix therefore define the code, and the tables are computed from them at compile
//! time. Nearly all texts of requests use codes of up to 8 bits, which take one table look-up each; a longer code is
//! found by its length.

const SYMBOLS: usize = 257;
const LENGTH_MAX: usize = 30;
const BYTE_BITS: u32 = 8;

/// Code length in bits of each byte, and of the end symbol, which no text may contain.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const TABLES: Tables = Tables::new();

struct Tables {
    /// The code of each symbol, in the low bits.
    codes: [u32; SYMBOLS],
    /// Symbols ordered by code, the shortest first.
    by_code: [u16; SYMBOLS],
    /// For each length: its first code, the position of that code in `by_code`, and the end of its codes. Codes are
    /// shifted to the left of 32 bits.
    first: [u64; LENGTH_MAX + 1],
    place: [u16; LENGTH_MAX + 1],
    past: [u64; LENGTH_MAX + 1],
    /// For each 8 bits: symbol and length of the code that they start with; length 0 if the code is longer.
    short: [(u8, u8); 256],
}

impl Tables {
    const fn new() -> Tables {
        let mut tables = Tables {
            codes: [0; SYMBOLS],
            by_code: [0; SYMBOLS],
            first: [0; LENGTH_MAX + 1],
            place: [0; LENGTH_MAX + 1],
            past: [0; LENGTH_MAX + 1],
            short: [(0, 0); 256],
        };
        let (mut code, mut place, mut length) = (0u32, 0, 1);
        while length <= LENGTH_MAX {
            code <<= 1;
            tables.first[length] = (code as u64) << (32 - length);
            tables.place[length] = place as u16;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    tables.codes[symbol] = code;
                    tables.by_code[place] = symbol as u16;
                    tables.shorten(symbol as u8, code, length);
                    code += 1;
                    place += 1;
                }
                symbol += 1;
            }
            tables.past[length] = (code as u64) << (32 - length);
            length += 1;
        }
        tables
    }

    const fn shorten(&mut self, symbol: u8, code: u32, length: usize) {
        if length <= BYTE_BITS as usize {
            let spare = BYTE_BITS as usize - length;
            let mut at = (code as usize) << spare;
            let past = at + (1 << spare);
            while at < past {
                self.short[at] = (symbol, length as u8);
                at += 1;
            }
        }
    }
}

/// Encoded length of this text in bytes.
pub fn coded_bytes(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum::<usize>().div_ceil(8)
}

/// Appends the encoded text; the last byte is padded with ones.
pub fn encode(text: &[u8], into: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in text {
        let length: u32 = LENGTHS[usize::from(byte)].into();
        bits = bits << length | u64::from(TABLES.codes[usize::from(byte)]);
        count += length;
        while count >= BYTE_BITS {
            count -= BYTE_BITS;
            into.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        let spare = BYTE_BITS - count;
        into.push((bits << spare) as u8 | ((1u16 << spare) - 1) as u8);
    }
}

/// Appends the decoded text. Returns false if the code is invalid; some of the text may have been appended.
pub fn decode(coded: &[u8], into: &mut Vec<u8>) -> bool {
    let mut rest = coded.iter();
    // The next bits, left-aligned.
    let (mut bits, mut count) = (0u64, 0u32);
    loop {
        while count <= 64 - BYTE_BITS {
            let Some(&byte) = rest.next() else { break };
            bits |= u64::from(byte) << (64 - BYTE_BITS - count);
            count += BYTE_BITS;
        }
        let (symbol, length) = match TABLES.short[(bits >> (64 - BYTE_BITS)) as usize] {
            (_, 0) => long((bits >> 32) as u32),
            (symbol, length) => (symbol.into(), length.into()),
        };
        if length > count {
            // No code is left: the rest must be padding of ones, shorter than a byte.
            let padding = !(u64::MAX >> count);
            return count < BYTE_BITS && bits == padding;
        }
        // The symbol is the end, which no text may contain.
        let Ok(byte) = u8::try_from(symbol) else { return false };
        into.push(byte);
        bits <<= length;
        count -= length;
    }
}

/// Returns symbol and length of the code longer than 8 bits at the start of `bits`.
fn long(bits: u32) -> (u16, u32) {
    let bits: u64 = bits.into();
    for length in BYTE_BITS as usize + 1..=LENGTH_MAX {
        if bits < TABLES.past[length] {
            let place = u64::from(TABLES.place[length]) + ((bits - TABLES.first[length]) >> (32 - length));
            return (TABLES.by_code[place as usize], length as u32);
        }
    }
    unreachable!("the code is complete: its last is all ones")
}
