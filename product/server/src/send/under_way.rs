//! The responses that are being sent, as reported to an operator. Nothing is stored for the report: each request
//! examines all responses.

use sched::{JobId, Size, Waits, Why};
use units::Nanos;

use super::Transmitter;
use crate::exchange_id::ExchangeId;

/// The reason why sending a response does not continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// Other responses come before this one, or the pace holds it back.
    Turn,
    /// The client accepts no more for now.
    Client,
    /// The file is being read or opened.
    File,
    /// An upstream has not sent more of the response.
    Upstream,
    /// The client has reached its rate limit for now.
    Limit,
    /// Its class already has its maximum number of responses in progress.
    Slot,
    /// The class of the response is at its maximum rate.
    ClassRate,
}

/// A response that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnderWay {
    pub job: JobId,
    pub exchange: ExchangeId,
    /// The index of the client's entry in the table of clients.
    pub client: u32,
    pub size: Size,
    pub sent_bytes: u64,
    /// The time since the last byte of the response was handed down, or, before the first byte, since the response
    /// arrived.
    pub silent_for: Nanos,
    pub waits_for: WaitsFor,
}

impl WaitsFor {
    pub const ALL: [WaitsFor; 7] = [
        WaitsFor::Turn,
        WaitsFor::Client,
        WaitsFor::File,
        WaitsFor::Upstream,
        WaitsFor::Limit,
        WaitsFor::Slot,
        WaitsFor::ClassRate,
    ];

    /// Chooses, among several reasons, the one expected to last longest: a response without a slot is not sent even if
    /// all other reasons end. Without a reason, the response waits for its class if that is at its maximum rate, and
    /// otherwise for its turn in the order.
    pub fn of(waits: Waits, is_at_class_rate: bool) -> WaitsFor {
        let first = [
            (Why::Slot, WaitsFor::Slot),
            (Why::Source, WaitsFor::Upstream),
            (Why::Disk, WaitsFor::File),
            (Why::Connection, WaitsFor::Client),
            (Why::Stream, WaitsFor::Client),
            (Why::Limit, WaitsFor::Limit),
        ]
        .into_iter()
        .find(|(why, _)| waits.contains(*why));
        let ready = if is_at_class_rate { WaitsFor::ClassRate } else { WaitsFor::Turn };
        first.map_or(ready, |(_, waits_for)| waits_for)
    }
}

/// Lists the responses among the first `jobs_max` jobs, without the flights of handshakes.
pub fn under_way(transmitter: &Transmitter, now: Nanos, jobs_max: usize) -> impl Iterator<Item = UnderWay> {
    let scheduler = &transmitter.link.scheduler;
    scheduler.jobs().iter().take(jobs_max).filter_map(move |(id, job, waits)| {
        let sending = transmitter.sendings.get(id).filter(|sending| !sending.outgoing.is_sealed)?;
        Some(UnderWay {
            job: id,
            exchange: sending.exchange,
            client: job.client,
            size: sending.outgoing.size(sending.sent_bytes),
            sent_bytes: sending.sent_bytes,
            silent_for: now - sending.last_byte_at().unwrap_or(job.arrived_at),
            waits_for: WaitsFor::of(waits, scheduler.is_at_class_rate(job)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_reasons_one_is_told() {
        let of = |whys: &[Why]| {
            let mut waits = Waits::default();
            whys.iter().for_each(|why| waits.insert(*why));
            [false, true].map(|is_at_class_rate| WaitsFor::of(waits, is_at_class_rate))
        };
        assert_eq!(of(&[]), [WaitsFor::Turn, WaitsFor::ClassRate]);
        assert_eq!([of(&[Why::Stream]), of(&[Why::Connection])], [[WaitsFor::Client; 2]; 2]);
        let [of_source, of_disk] = [of(&[Why::Source, Why::Connection]), of(&[Why::Disk])];
        assert_eq!([of_source, of_disk], [[WaitsFor::Upstream; 2], [WaitsFor::File; 2]]);
        let [of_limit, of_slot] = [of(&[Why::Limit]), of(&[Why::Slot, Why::Source])];
        assert_eq!([of_limit, of_slot], [[WaitsFor::Limit; 2], [WaitsFor::Slot; 2]]);
    }
}
