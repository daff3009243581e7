//! The client's control stream (RFC 9114 section 6.2.1).

use http2::{Priority, priority};
use units::Nanos;

use super::fault::{EXCESSIVE_LOAD, FRAME_ERROR, FRAME_UNEXPECTED, Fault, ID_ERROR, MISSING_SETTINGS, SETTINGS_ERROR};
use super::floods::Budget;
use super::frames::{CANCEL_PUSH, GOAWAY, MAX_PUSH_ID, PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH, SETTINGS};
use super::frames::{DATA, Frames, HEADERS, PUSH_PROMISE, Step, is_reserved};
use super::varint;

/// Maximum payload of a frame read on this stream.
pub const CONTROL_BYTES_MAX: u64 = 4096;
/// Settings of HTTP/2 that are reserved in HTTP/3 (section 7.2.4.1).
const RESERVED_SETTINGS: [u64; 5] = [0, 2, 3, 4, 5];
pub const MAX_FIELD_SECTION_SIZE: u64 = 6;
pub const QPACK_MAX_TABLE_CAPACITY: u64 = 1;
pub const QPACK_BLOCKED_STREAMS: u64 = 7;
/// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 section 5).
pub const ENABLE_CONNECT_PROTOCOL: u64 = 8;

/// A client's priority for one request, sent on the control stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update {
    /// The stream's identifier in QUIC.
    pub id: u64,
    pub priority: Priority,
}

#[derive(Debug, Default)]
pub struct Control {
    frames: Frames,
    has_settings: bool,
    /// The last identifiers in GOAWAY and MAX_PUSH_ID.
    going_away: Option<u64>,
    pushes: Option<u64>,
}

impl Control {
    /// Takes bytes until there is an update. Returns `None` if all bytes were taken.
    pub fn next(&mut self, now: Nanos, bytes: &mut &[u8], budget: &mut Budget) -> Result<Option<Update>, Fault> {
        while let Some(step) = self.frames.next(bytes, None) {
            match step {
                Step::Begin { kind, length } => self.begin(now, kind, length, budget)?,
                Step::Kept { kind, payload } => {
                    if let Some(update) = self.whole(kind, &payload)? {
                        return Ok(Some(update));
                    }
                }
            }
        }
        Ok(None)
    }

    fn begin(&mut self, now: Nanos, kind: u64, length: u64, budget: &mut Budget) -> Result<(), Fault> {
        budget.on_control(now)?;
        match kind {
            SETTINGS if self.has_settings => return Err(Fault::Connection(FRAME_UNEXPECTED, "SETTINGS twice")),
            SETTINGS => self.has_settings = true,
            _ if !self.has_settings => {
                return Err(Fault::Connection(MISSING_SETTINGS, "a control stream that does not begin with SETTINGS"));
            }
            DATA | HEADERS | PUSH_PROMISE => {
                return Err(Fault::Connection(FRAME_UNEXPECTED, "a frame of a request on the control stream"));
            }
            kind if is_reserved(kind) => return Err(Fault::Connection(FRAME_UNEXPECTED, "a frame of HTTP/2")),
            CANCEL_PUSH | GOAWAY | MAX_PUSH_ID | PRIORITY_UPDATE | PRIORITY_UPDATE_PUSH => {}
            // An unknown type, which is ignored.
            _ => return Ok(()),
        }
        if length > CONTROL_BYTES_MAX {
            return Err(Fault::Connection(EXCESSIVE_LOAD, "a frame of more than 4096 bytes on the control stream"));
        }
        self.frames.keep();
        Ok(())
    }

    fn whole(&mut self, kind: u64, payload: &[u8]) -> Result<Option<Update>, Fault> {
        match kind {
            SETTINGS => settings(payload)?,
            GOAWAY => {
                let id = only_id(payload)?;
                let is_later = self.going_away.replace(id).is_some_and(|before| id > before);
                ids(!is_later, "GOAWAY that takes in more than before")?;
            }
            MAX_PUSH_ID => {
                let id = only_id(payload)?;
                let is_less = self.pushes.replace(id).is_some_and(|before| id < before);
                ids(!is_less, "MAX_PUSH_ID that is less than before")?;
            }
            PRIORITY_UPDATE => return update(payload).map(Some),
            CANCEL_PUSH => {
                only_id(payload)?;
                ids(false, "CANCEL_PUSH of a push that nobody promised")?;
            }
            // The priority of a push.
            _ => ids(false, "a priority of a push that nobody promised")?,
        }
        Ok(None)
    }

    pub fn kept_bytes(&self) -> usize {
        self.frames.kept_bytes()
    }
}

fn ids(is_right: bool, why: &'static str) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(Fault::Connection(ID_ERROR, why)) }
}

const CUT: Fault = Fault::Connection(FRAME_ERROR, "a frame whose payload is too short or too long");

fn only_id(payload: &[u8]) -> Result<u64, Fault> {
    varint::read(payload).filter(|&(_, bytes)| bytes == payload.len()).map(|(id, _)| id).ok_or(CUT)
}

fn update(payload: &[u8]) -> Result<Update, Fault> {
    let (id, bytes) = varint::read(payload).ok_or(CUT)?;
    ids(id % 4 == 0, "a priority of a stream that is no request's")?;
    Ok(Update { id, priority: priority::parse(&payload[bytes..]) })
}

/// Checks SETTINGS, each of which may occur once (section 7.2.4). No setting changes what is sent, because there is no
/// dynamic table and no push, and response heads are short.
fn settings(mut payload: &[u8]) -> Result<(), Fault> {
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let (setting, bytes) = varint::read(payload).ok_or(CUT)?;
        let (_, more) = varint::read(&payload[bytes..]).ok_or(CUT)?;
        payload = &payload[bytes + more..];
        if RESERVED_SETTINGS.contains(&setting) {
            return Err(Fault::Connection(SETTINGS_ERROR, "a setting of HTTP/2"));
        }
        seen.push(setting);
    }
    seen.sort_unstable();
    if seen.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Fault::Connection(SETTINGS_ERROR, "a setting twice"));
    }
    Ok(())
}
