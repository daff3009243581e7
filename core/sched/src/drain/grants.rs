//! The bytes of one grant.

use crate::{Job, Size};

/// A grant ends where a segment does, so that no short segment is sent but the last.
pub fn grant_bytes(job: &Job, grant_bytes: u64) -> u64 {
    if let Size::Known(_) = job.size
        && job.remaining() + job.framing().segment_bytes <= grant_bytes
    {
        // The usual case, and spares a division.
        return job.remaining();
    }
    let over = job.attained % job.framing().segment_bytes;
    (grant_bytes - over).min(left_at_most(job))
}

/// The bytes it has left at most.
pub fn left_at_most(job: &Job) -> u64 {
    match job.size {
        Size::Known(_) => job.remaining(),
        Size::AtLeast(_) | Size::Likely(_) => u64::MAX,
    }
}
