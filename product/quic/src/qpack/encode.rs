//! Encodes field sections of responses.

use super::static_table::{Found, find};
use super::{huffman, integer};

/// Appends a section with these fields. Names are converted to lower case (RFC 9114 section 4.2).
pub fn encode<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, into: &mut Vec<u8>) {
    // Required Insert Count and Base: no dynamic table (RFC 9204 section 4.5.1).
    into.extend_from_slice(&[0, 0]);
    for (name, value) in fields {
        match find(name, value) {
            Found::Field(index) => integer::write(0xc0, 6, index as u64, into),
            Found::Name(index) => {
                integer::write(0x50, 4, index as u64, into);
                text(0, 7, value, into);
            }
            Found::Nothing => {
                text(0x20, 3, &name.to_ascii_lowercase(), into);
                text(0, 7, value, into);
            }
        }
    }
}

/// Appends a text, in Huffman code if that is shorter.
fn text(first: u8, prefix_bits: u32, text: &[u8], into: &mut Vec<u8>) {
    let coded = huffman::coded_bytes(text);
    if coded < text.len() {
        integer::write(first | 1 << prefix_bits, prefix_bits, coded as u64, into);
        huffman::encode(text, into);
    } else {
        integer::write(first, prefix_bits, text.len() as u64, into);
        into.extend_from_slice(text);
    }
}
