//! The client's unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).

use units::Nanos;

use super::control::{Control, Update};
use super::fault::{
    CLOSED_CRITICAL_STREAM, Fault, QPACK_DECODER_STREAM_ERROR, QPACK_ENCODER_STREAM_ERROR, STREAM_CREATION_ERROR,
};
use super::floods::Budget;
use super::varint;
use crate::qpack::{Integer, read_integer};

pub const CONTROL: u64 = 0;
const PUSH: u64 = 1;
const ENCODER: u64 = 2;
const DECODER: u64 = 3;

/// The stream types seen so far that a client may open once.
#[derive(Debug, Default)]
pub struct Seen {
    control: bool,
    encoder: bool,
    decoder: bool,
}

#[derive(Debug)]
pub enum Uni {
    /// The stream type, still incomplete.
    Type(Vec<u8>),
    Control(Box<Control>),
    /// An incomplete instruction.
    Encoder(Vec<u8>),
    Decoder(Vec<u8>),
}

/// The next action for a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// All bytes were taken.
    More,
    Update(Update),
    /// The type is unknown: the stream is not read (section 6.2.3).
    Stop,
}

impl Default for Uni {
    fn default() -> Uni {
        Uni::Type(Vec::new())
    }
}

impl Uni {
    /// Takes bytes until there is something to do.
    pub fn next(&mut self, now: Nanos, bytes: &mut &[u8], seen: &mut Seen, budget: &mut Budget) -> Result<Next, Fault> {
        if let Uni::Type(begun) = self {
            let Some(kind) = whole_type(begun, bytes) else { return Ok(Next::More) };
            match begin(kind, seen)? {
                Some(known) => *self = known,
                None => return Ok(Next::Stop),
            }
        }
        match self {
            Uni::Type(_) => {}
            Uni::Control(control) => {
                if let Some(update) = control.next(now, bytes, budget)? {
                    return Ok(Next::Update(update));
                }
            }
            Uni::Encoder(begun) => instructions(begun, bytes, encoder)?,
            Uni::Decoder(begun) => {
                instructions(begun, bytes, |begun| {
                    let step = decoder(begun)?;
                    if step.is_some() {
                        budget.on_control(now)?;
                    }
                    Ok(step)
                })?;
            }
        }
        Ok(Next::More)
    }

    /// Checks that the client may end or reset the stream.
    pub fn end(&self) -> Result<(), Fault> {
        match self {
            Uni::Type(_) => Ok(()),
            _ => Err(Fault::Connection(CLOSED_CRITICAL_STREAM, "a control or QPACK stream that was closed")),
        }
    }

    pub fn kept_bytes(&self) -> usize {
        match self {
            Uni::Control(control) => control.kept_bytes(),
            _ => 0,
        }
    }
}

fn whole_type(begun: &mut Vec<u8>, bytes: &mut &[u8]) -> Option<u64> {
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        begun.push(byte);
        if let Some((kind, _)) = varint::read(begun) {
            return Some(kind);
        }
    }
}

fn begin(kind: u64, seen: &mut Seen) -> Result<Option<Uni>, Fault> {
    let (uni, seen) = match kind {
        CONTROL => (Uni::Control(Box::default()), &mut seen.control),
        ENCODER => (Uni::Encoder(Vec::new()), &mut seen.encoder),
        DECODER => (Uni::Decoder(Vec::new()), &mut seen.decoder),
        PUSH => return Err(Fault::Connection(STREAM_CREATION_ERROR, "a push of a client")),
        _ => return Ok(None),
    };
    match std::mem::replace(seen, true) {
        true => Err(Fault::Connection(STREAM_CREATION_ERROR, "a second control or QPACK stream")),
        false => Ok(Some(uni)),
    }
}

/// Takes all bytes; `step` returns the length of the first instruction, or `None` if it is incomplete.
fn instructions(
    begun: &mut Vec<u8>,
    bytes: &mut &[u8],
    mut step: impl FnMut(&[u8]) -> Result<Option<usize>, Fault>,
) -> Result<(), Fault> {
    // An allowed instruction is a single integer of at most 8 bytes, so no more than that is stored.
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        begun.push(byte);
        if step(begun)?.is_some() {
            begun.clear();
        }
    }
    Ok(())
}

/// Parses an encoder instruction. The only one allowed for a table of no bytes sets its capacity to that (RFC 9204
/// section 4.3.1).
fn encoder(begun: &[u8]) -> Result<Option<usize>, Fault> {
    let wrong = Fault::Connection(QPACK_ENCODER_STREAM_ERROR, "an insertion into a QPACK table of no bytes");
    match begun.first() {
        Some(first) if first & 0xe0 == 0x20 => match read_integer(begun, 5) {
            Integer::Whole(0, bytes) => Ok(Some(bytes)),
            Integer::Part => Ok(None),
            _ => Err(wrong),
        },
        _ => Err(wrong),
    }
}

/// Parses a decoder instruction. Nothing was inserted and no section refers to anything, so only a stream cancellation
/// is allowed (RFC 9204 section 4.4.2).
fn decoder(begun: &[u8]) -> Result<Option<usize>, Fault> {
    let wrong = Fault::Connection(QPACK_DECODER_STREAM_ERROR, "an acknowledgement of a QPACK table that nobody fills");
    match begun.first() {
        Some(first) if first & 0xc0 == 0x40 => match read_integer(begun, 6) {
            Integer::Whole(_, bytes) => Ok(Some(bytes)),
            Integer::Part => Ok(None),
            Integer::TooGreat => Err(wrong),
        },
        _ => Err(wrong),
    }
}
