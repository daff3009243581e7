use sched::JobId;
use units::Nanos;

use crate::body::Failure;

/// The end of a response.
#[derive(Debug)]
pub struct Departure {
    /// Who dispatched it.
    pub owner: u64,
    pub job: JobId,
    /// The number of its stream, where its connection has several.
    pub stream: u32,
    pub sent_bytes: u64,
    /// Of those, what [`Sendings::untold_bytes`] has not told.
    pub untold_bytes: u64,
    /// `None` when every byte was handed to the kernel.
    pub failure: Option<Failure>,
    /// When the kernel took the first byte that was sent from here, and when the response ended: the instants of the grants.
    pub first_byte_at: Option<Nanos>,
    pub ended_at: Nanos,
}
