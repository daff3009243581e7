//! The steps of a transfer on an HTTP/2 stream, where they differ from the steps on an HTTP/1.1 connection.

use http::Method;
use http::http1::upstream::{Framing, UpstreamFault, UpstreamHead};
use http2::{BodyRead, ClientSession, Closed, FRAME_HEADER_BYTES, Stop};
use units::Nanos;

use super::TransferStep;
use super::transfer::Transfer;
use super::{BodySink, Fault};

/// The maximum number of bytes of frames that wait for room in the socket. Beyond that, no frames of requests are made.
pub const FRAMES_BYTES_MAX: usize = 64 << 10;

/// A stream, and the buffer for its frames.
pub struct OnStream<'c> {
    pub session: &'c mut ClientSession,
    pub stream: u32,
    pub out: &'c mut Vec<u8>,
}

/// Sends the head of the request on a new stream. Returns `None` if no stream can be opened.
pub fn open(transfer: &mut Transfer, session: &mut ClientSession, out: &mut Vec<u8>, now: Nanos) -> Option<u32> {
    let of_stream = transfer.outbound.of_stream.as_mut().expect("its upstreams speak HTTP/2");
    let account = transfer.inbound.kept.account();
    let is_tunnel = transfer.inbound.tunnel.on_stream.is_some();
    let method = if is_tunnel { Method::Connect } else { transfer.inbound.method };
    let stream = session.request(now, method, &of_stream.head, of_stream.has_body, account, out)?;
    of_stream.is_begun = true;
    transfer.note_sent(now);
    Some(stream)
}

impl OnStream<'_> {
    /// Makes frames of the available part of the request's body. Returns true if only room in `out` is missing for the
    /// rest.
    pub fn send(&mut self, transfer: &mut Transfer, now: Nanos) -> bool {
        let mut waits_for_room = false;
        while transfer.outbound.has_unsent() {
            let room = FRAMES_BYTES_MAX.saturating_sub(self.out.len());
            if room <= FRAME_HEADER_BYTES {
                waits_for_room = true;
                break;
            }
            let written = self.session.write(self.stream, room, &mut transfer.outbound, self.out);
            if written.bytes > 0 || written.stop == Stop::End {
                transfer.note_sent(now);
            }
            match written.stop {
                Stop::End => end(transfer, now),
                Stop::Room => {
                    waits_for_room = true;
                    break;
                }
                Stop::Source | Stop::Window | Stop::StreamWindow => break,
                // Another attempt needs the whole body.
                Stop::Closed if self.session.closed(self.stream) == Some(Closed::Refused) => break,
                // The upstream may have answered before.
                Stop::Closed | Stop::Failed => transfer.outbound.is_refused = true,
            }
        }
        transfer.outbound.forget_sent();
        transfer.set_deadline(now);
        waits_for_room
    }

    /// Continues until a head has arrived: the head of the response, or of an interim response that the client gets.
    pub fn read_head(&mut self, transfer: &mut Transfer, now: Nanos) -> Result<Option<UpstreamHead>, Fault> {
        while let Some(head) = self.session.take_head(self.stream) {
            transfer.note_came(now);
            let head = head.map_err(Fault::Wrong)?;
            let head = match &transfer.inbound.tunnel.on_stream {
                Some(on_stream) if head.framing == Framing::Upgraded => head.into_switch(&on_stream.accept),
                _ => head,
            };
            if !head.is_interim() {
                transfer.begin_body(&head);
                // A tunnel may be silent for longer than a response.
                transfer.deadline.set(now, transfer.patience());
                return Ok(Some(head));
            }
            let bytes = head.fields().map(|(name, value)| name.len() + value.len()).sum();
            if transfer.inbound.passes_on(&head, bytes) {
                return Ok(Some(head));
            }
        }
        match self.session.closed(self.stream) {
            None => Ok(None),
            Some(Closed::Whole) => Err(Fault::Wrong(UpstreamFault("an end before the head"))),
            Some(closed) => Err(fault(closed)),
        }
    }

    /// Continues with the body until it has ended or the sink takes no more.
    pub fn read_body(
        &mut self,
        transfer: &mut Transfer,
        sink: &mut impl BodySink,
        scratch: &mut Vec<u8>,
        now: Nanos,
    ) -> TransferStep {
        transfer.inbound.is_held = false;
        loop {
            let Some(room) = sink.room() else { return TransferStep::Unwanted };
            scratch.clear();
            let read = self.session.read_body(now, self.stream, scratch, room.min(READ_BYTES_MAX));
            if !scratch.is_empty() {
                transfer.deadline.set(now, transfer.patience());
                transfer.inbound.body_bytes += scratch.len() as u64;
                if !sink.push(scratch) {
                    return TransferStep::Unwanted;
                }
            }
            match read {
                BodyRead::More if sink.room() == Some(0) => return transfer.wait_for_client(sink, now),
                BodyRead::More => {}
                BodyRead::Later => {
                    if !transfer.deadline.is_set() {
                        transfer.deadline.set(now, transfer.patience());
                    }
                    return TransferStep::Wait;
                }
                BodyRead::End => {
                    sink.finish(self.session.take_trailers(self.stream));
                    return TransferStep::Done;
                }
                BodyRead::Cut => return TransferStep::Failed(self.cut()),
            }
        }
    }

    /// Returns the reason why a body is incomplete.
    fn cut(&mut self) -> Fault {
        match self.session.take_head(self.stream) {
            Some(Err(malformed)) => Fault::Wrong(malformed),
            _ => self.session.closed(self.stream).map_or(Fault::Closed, fault),
        }
    }
}

/// Records that the end of the request was sent. An upstream need not answer the end of a tunnel for as long as a tunnel
/// may last.
fn end(transfer: &mut Transfer, now: Nanos) {
    transfer.outbound.of_stream.iter_mut().for_each(|of_stream| of_stream.is_ended = true);
    if transfer.is_tunnel() {
        transfer.inbound.tunnel.has_client_ended = true;
        transfer.deadline.hasten(now, transfer.patience());
    }
}

/// The maximum number of bytes of a body taken in one step.
const READ_BYTES_MAX: usize = 64 << 10;

fn fault(closed: Closed) -> Fault {
    match closed {
        Closed::Whole => Fault::Closed,
        Closed::Refused => Fault::Refused,
        Closed::Reset(code) => Fault::Reset(code),
    }
}
