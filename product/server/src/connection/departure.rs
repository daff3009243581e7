use sched::JobId;
use units::Nanos;

use crate::body::Failure;
use crate::exchange_id::ExchangeId;

/// The end of a response.
#[derive(Debug)]
pub struct Departure {
    pub exchange: ExchangeId,
    pub job: JobId,
    pub sent_bytes: u64,
    /// The part of `sent_bytes` that [`Sendings::unreported_bytes`] has not reported yet.
    pub unreported_bytes: u64,
    /// The failure; `None` if every byte was handed to the kernel.
    pub failure: Option<Failure>,
    /// The time of the grant from which the kernel took the first byte sent from here. The next field is the time of
    /// the grant with which the response ended.
    pub first_byte_at: Option<Nanos>,
    pub ended_at: Nanos,
}
