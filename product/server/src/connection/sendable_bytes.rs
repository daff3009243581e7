//! The bytes that a connection may send in one step.

/// The maximum number of records that are sealed before they are handed down, without a pace: 64 KB per system call.
/// With a pace it is one, because sealed bytes cannot be taken back.
pub const RECORDS_AT_ONCE_MAX: usize = 4;

/// The minimum payload in bytes for which the headers of a record, or of another response's frames, are worthwhile.
pub const ROOM_BYTES_MIN: u64 = 64;

/// The room for bytes that may be sent in one step.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// The maximum bytes of the response.
    pub bytes_max: u64,
    /// The maximum bytes of the connection's payload, including records and frames.
    pub carried_bytes_max: u64,
    /// The part of the room that earlier responses have used.
    pub before_bytes: u64,
    /// The maximum number of records sealed at a time.
    pub records_at_once: usize,
}

impl Room {
    /// Room for `bytes_max` without a pace.
    pub fn unpaced(bytes_max: u64) -> Room {
        Room { records_at_once: RECORDS_AT_ONCE_MAX, ..Room::paced(bytes_max, u64::MAX) }
    }

    /// Returns the room for a grant of `bytes_max`, if the connection may carry `carried_bytes_max`.
    pub fn paced(bytes_max: u64, carried_bytes_max: u64) -> Room {
        Room { bytes_max, carried_bytes_max, before_bytes: 0, records_at_once: 1 }
    }

    pub fn left_bytes(&self) -> u64 {
        self.carried_bytes_max.saturating_sub(self.before_bytes)
    }
}
