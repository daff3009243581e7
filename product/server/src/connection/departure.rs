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
    /// The part of `sent_bytes` that [`Sendings::unreported_bytes`] has not reported.
    pub unreported_bytes: u64,
    /// `None` if every byte was handed to the kernel.
    pub failure: Option<Failure>,
    /// The instants of the grants with which the kernel took the first byte that was sent from here, and with which the
    /// response ended.
    pub first_byte_at: Option<Nanos>,
    pub ended_at: Nanos,
}
