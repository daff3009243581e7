//! The steps of a transfer that has an HTTP/1.1 connection to itself, where they differ from the steps on a stream.

use std::io;

use http::http1::upstream::{ResponseLimits, UpstreamFault, UpstreamHead};
use units::Nanos;

use super::TransferStep;
use super::transfer::Transfer;
use super::wire::{Received, Wire};
use super::{BodySink, Fault};
use crate::net::Stream;

/// The number of bytes of a head that are read in one step if memory is short.
const HEAD_PART_BYTES: usize = 4 << 10;

/// A connection, for one step.
pub struct OnConnection<'c, S> {
    pub wire: Wire<'c, S>,
    /// The buffer for received bytes.
    pub scratch: &'c mut [u8],
    pub limits: ResponseLimits,
}

impl<S: Stream> OnConnection<'_, S> {
    /// Sends the available part of the request.
    pub fn send(&mut self, transfer: &mut Transfer, now: Nanos) -> Result<(), Fault> {
        if self.wire.has_room() {
            transfer.outbound.decide_framing();
        }
        while transfer.outbound.at < transfer.outbound.bytes.len() {
            let out = &mut transfer.outbound;
            match self.wire.send(&out.bytes[out.at..]) {
                Ok(sent) => {
                    out.at += sent;
                    transfer.note_sent(now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if out.at == 0 && !out.has_forgotten() => return Err(Fault::Unreachable(error.into())),
                // The upstream may have answered before.
                Err(_) => {
                    out.is_refused = true;
                    self.wire.look();
                    break;
                }
            }
        }
        transfer.outbound.forget_sent();
        let out = &mut transfer.outbound;
        let ends = transfer.inbound.tunnel.is_open && out.is_whole && out.is_sent();
        if ends && !std::mem::replace(&mut transfer.inbound.tunnel.has_client_ended, true) {
            self.wire.finish();
            transfer.deadline.hasten(now, transfer.patience());
        }
        transfer.set_deadline(now);
        Ok(())
    }

    /// Continues until a head has arrived: the head of the response, or of an interim response that the client gets.
    pub fn read_head(&mut self, transfer: &mut Transfer, now: Nanos) -> Result<Option<UpstreamHead>, Fault> {
        let (limits, mut fresh_bytes) = (self.limits, 0);
        loop {
            let fresh = &self.scratch[..std::mem::take(&mut fresh_bytes)];
            if let Some((head, bytes)) = transfer.inbound.next_head(fresh, &limits.head).map_err(Fault::Wrong)? {
                transfer.inbound.tunnel.check(&head, transfer.outbound.is_whole)?;
                if !head.is_interim() {
                    transfer.begin_body(&head);
                    return Ok(Some(head));
                }
                transfer.inbound.interim.count += 1;
                if transfer.inbound.interim.count > limits.interim_max {
                    return Err(Fault::Wrong(UpstreamFault("interim responses without end")));
                }
                if transfer.inbound.passes_on(&head, bytes) {
                    return Ok(Some(head));
                }
                continue;
            }
            let bytes_max = transfer.account().room().max(HEAD_PART_BYTES).min(self.scratch.len());
            match self.wire.receive(&mut self.scratch[..bytes_max])? {
                Received::Bytes(bytes) => {
                    transfer.note_came(now);
                    fresh_bytes = bytes;
                }
                Received::Nothing => return Ok(None),
                Received::End => return Err(Fault::Closed),
            }
        }
    }

    /// Continues with the body until it has ended or the sink takes no more.
    pub fn read_body(&mut self, transfer: &mut Transfer, sink: &mut impl BodySink, now: Nanos) -> TransferStep {
        transfer.inbound.is_held = false;
        let mut fresh_bytes = 0;
        loop {
            match transfer.inbound.take(&self.scratch[..std::mem::take(&mut fresh_bytes)], sink) {
                Ok(None) => {}
                Ok(Some(step)) => return step,
                Err(fault) => return TransferStep::Failed(fault),
            }
            let Some(room) = sink.room() else { return TransferStep::Unwanted };
            if room == 0 {
                return transfer.wait_for_client(sink, now);
            }
            let bytes_max = room.min(self.scratch.len());
            transfer.deadline.set(now, transfer.patience());
            match self.wire.receive(&mut self.scratch[..bytes_max]) {
                Ok(Received::Bytes(bytes)) => fresh_bytes = bytes,
                Ok(Received::Nothing) => return TransferStep::Wait,
                Ok(Received::End) => return transfer.inbound.end_body(sink),
                Err(fault) => return TransferStep::Failed(fault),
            }
        }
    }
}
