//! How much of a connection may leave at once.

/// Records that are sealed before they are handed down, where there is no pace: 64 KB in one system call. Paced it is one: what is sealed
/// cannot be taken back.
pub const RECORDS_AT_ONCE_MAX: usize = 4;

/// Payload in which a record, or another response's frames, are not worth their headers.
pub const ROOM_BYTES_MIN: u64 = 64;

/// What may leave at once.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of the response.
    pub bytes_max: u64,
    /// Of the connection's payload, records and frames included.
    pub carried_bytes_max: u64,
    /// Of which the responses before have taken so much.
    pub before_bytes: u64,
    /// Of which it is not more than this is sealed at a time.
    pub records_at_once: usize,
}

impl Room {
    /// So much, without a pace.
    pub fn unpaced(bytes_max: u64) -> Room {
        Room { records_at_once: RECORDS_AT_ONCE_MAX, ..Room::paced(bytes_max, u64::MAX) }
    }

    /// A grant of so much, of which the connection may carry so much.
    pub fn paced(bytes_max: u64, carried_bytes_max: u64) -> Room {
        Room { bytes_max, carried_bytes_max, before_bytes: 0, records_at_once: 1 }
    }

    pub fn left_bytes(&self) -> u64 {
        self.carried_bytes_max.saturating_sub(self.before_bytes)
    }
}
