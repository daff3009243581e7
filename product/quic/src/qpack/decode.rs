//! Decodes field sections of requests.

use super::huffman;
use super::integer::{self, Integer};
use super::static_table::FIELDS;

/// The error for an invalid field section, or one that needs the dynamic table that was not allowed (RFC 9204 section
/// 6: QPACK_DECOMPRESSION_FAILED).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

/// Calls `field` with the name and value of each field of a section until it returns false; `scratch` is reused memory.
pub fn decode(
    section: &[u8],
    scratch: &mut Vec<u8>,
    mut field: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), Undecodable> {
    let mut input = Input(section);
    // Required Insert Count and Base (section 4.5.1): nothing was ever inserted.
    let count = input.integer(8)?;
    let is_negative = input.first()? & 0x80 != 0;
    input.integer(7)?;
    if count != 0 || is_negative {
        return Err(Undecodable);
    }
    while !input.0.is_empty() {
        scratch.clear();
        if !line(&mut input, section, scratch, &mut field)? {
            break;
        }
    }
    Ok(())
}

/// Decodes one field line (section 4.5).
fn line(
    input: &mut Input<'_>,
    section: &[u8],
    scratch: &mut Vec<u8>,
    field: &mut impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<bool, Undecodable> {
    match input.first()? {
        // Indexed in the static table; 0x80 without 0x40 would be the dynamic table.
        first if first & 0xc0 == 0xc0 => {
            let (name, value) = entry(input.integer(6)?)?;
            Ok(field(name.as_bytes(), value.as_bytes()))
        }
        // Literal with a name reference to the static table.
        first if first & 0xd0 == 0x50 => {
            let (name, _) = entry(input.integer(4)?)?;
            let value = input.text(7, scratch)?;
            Ok(field(name.as_bytes(), value.of(section, scratch)))
        }
        // Literal with a literal name.
        first if first & 0xe0 == 0x20 => {
            let name = input.text(3, scratch)?;
            let value = input.text(7, scratch)?;
            Ok(field(name.of(section, scratch), value.of(section, scratch)))
        }
        // A reference to the dynamic table, in one of four ways.
        _ => Err(Undecodable),
    }
}

fn entry(index: u64) -> Result<(&'static str, &'static str), Undecodable> {
    FIELDS.get(usize::try_from(index).map_err(|_| Undecodable)?).copied().ok_or(Undecodable)
}

/// The position of a text: in the section itself, counted from its end, or decoded in the scratch memory.
enum TextAt {
    InSection { from_end: usize, bytes: usize },
    Decoded { begin: usize, end: usize },
}

impl TextAt {
    fn of<'a>(&self, section: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
        match *self {
            TextAt::InSection { from_end, bytes } => &section[section.len() - from_end..][..bytes],
            TextAt::Decoded { begin, end } => &scratch[begin..end],
        }
    }
}

/// The rest of a section.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn first(&self) -> Result<u8, Undecodable> {
        self.0.first().copied().ok_or(Undecodable)
    }

    fn integer(&mut self, prefix_bits: u32) -> Result<u64, Undecodable> {
        let Integer::Whole(value, bytes) = integer::read(self.0, prefix_bits) else { return Err(Undecodable) };
        self.0 = &self.0[bytes..];
        Ok(value)
    }

    /// Reads a text whose length starts with `prefix_bits` of the first byte; the bit before them is set for Huffman
    /// code.
    fn text(&mut self, prefix_bits: u32, scratch: &mut Vec<u8>) -> Result<TextAt, Undecodable> {
        let is_coded = self.first()? & (1 << prefix_bits) != 0;
        let bytes = usize::try_from(self.integer(prefix_bits)?).map_err(|_| Undecodable)?;
        let from_end = self.0.len();
        let (text, rest) = self.0.split_at_checked(bytes).ok_or(Undecodable)?;
        self.0 = rest;
        if !is_coded {
            return Ok(TextAt::InSection { from_end, bytes });
        }
        let begin = scratch.len();
        if !huffman::decode(text, scratch) {
            return Err(Undecodable);
        }
        Ok(TextAt::Decoded { begin, end: scratch.len() })
    }
}
