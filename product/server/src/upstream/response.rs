//! The response of an upstream, as far as it has arrived.

use http::http1::upstream::{UpstreamBody, UpstreamHead};
use http::{Method, Status};
use units::Nanos;
use units::memory::Counted;

use super::tunnel::Tunnel;
use super::{BodySink, Fault, TransferStep};
#[cfg(test)]
use crate::simulation::planted;

/// The maximum bytes of interim responses passed on for one request; the rest is dropped, because no client depends on
/// them.
const INTERIM_BYTES_MAX: usize = 16 << 10;

/// The response.
#[derive(Debug)]
pub struct Inbound {
    pub method: Method,
    /// Received and not taken yet.
    pub kept: Counted,
    pub has_come: bool,
    pub interim: Interim,
    pub is_kept_alive: bool,
    pub tunnel: Tunnel,
    /// The state of the body, once the head has arrived; its framing is used over HTTP/1.1 only.
    pub body: Option<UpstreamBody>,
    /// The bytes of the body that were passed on.
    pub body_bytes: u64,
    /// The length that the head announces; 0 if it announces none.
    pub announced_bytes: u64,
    /// When it first waited for the client.
    pub held_at: Option<Nanos>,
    /// The response holds its upstream's place while its client takes the response.
    pub is_held: bool,
    pub memory: Memory,
}

/// The state of a transfer with regard to the memory of its connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Memory {
    #[default]
    Enough,
    /// The transfer needs memory to continue, and its owner has not been notified.
    Needed,
    /// The transfer is in the list of those that wait for memory.
    Awaited,
}

/// Responses before the final response.
#[derive(Debug, Default)]
pub struct Interim {
    pub count: u32,
    /// The bytes passed on of interim responses.
    bytes: usize,
}

impl Inbound {
    /// Returns whether the client gets this interim response of `bytes`. 100 Continue is sent by this server instead
    /// (RFC 9110 section 10.1.1).
    pub fn passes_on(&mut self, head: &UpstreamHead, bytes: usize) -> bool {
        let passes = head.status != Status::CONTINUE && self.interim.bytes + bytes <= INTERIM_BYTES_MAX;
        self.interim.bytes += if passes { bytes } else { 0 };
        passes
    }

    /// Handles the end of the connection; the body ends with it if nothing else delimits it.
    pub fn end_body(&mut self, sink: &mut impl BodySink) -> TransferStep {
        let is_whole = self.body.as_mut().expect("the head has come").end().is_ok();
        #[cfg(test)]
        let is_whole = is_whole || planted::strikes(planted::Fault::CutBodyEnded);
        if !is_whole {
            return TransferStep::Failed(Fault::Closed);
        }
        sink.finish(None);
        TransferStep::Done
    }

    /// Gives the sink what was kept and these bytes after it, and keeps what it does not take. Returns a step if the body
    /// has ended, or has to wait.
    pub fn take(&mut self, fresh: &[u8], sink: &mut impl BodySink) -> Result<Option<TransferStep>, Fault> {
        let Inbound { kept, body, body_bytes, .. } = self;
        let body = body.as_mut().expect("the head has come");
        // Nearly always nothing was kept, and all is taken.
        if kept.is_empty() {
            let (taken, step) = give(fresh, body, body_bytes, sink)?;
            if taken < fresh.len() {
                kept.edit().extend_from_slice(&fresh[taken..]);
            }
            return Ok(step);
        }
        kept.edit().extend_from_slice(fresh);
        let (taken, step) = give(kept, body, body_bytes, sink)?;
        kept.edit().drain(..taken);
        kept.shrink();
        Ok(step)
    }
}

/// Gives the sink bytes of a body. Returns how many were taken, and a step if the body has ended, or has to wait.
fn give(
    bytes: &[u8],
    body: &mut UpstreamBody,
    body_bytes: &mut u64,
    sink: &mut impl BodySink,
) -> Result<(usize, Option<TransferStep>), Fault> {
    let mut at = 0;
    loop {
        let Some(room) = sink.room() else { return Ok((at, Some(TransferStep::Unwanted))) };
        let taken = body.take(&bytes[at..bytes.len().min(at + room)]).map_err(Fault::Wrong)?;
        at += taken.consumed;
        *body_bytes += taken.data.len() as u64;
        if !taken.data.is_empty() && !sink.push(taken.data) {
            return Ok((at, Some(TransferStep::Unwanted)));
        }
        if taken.is_done {
            sink.finish(body.trailers().map_err(Fault::Wrong)?);
            return Ok((at, Some(TransferStep::Done)));
        }
        if at == bytes.len() || room == 0 {
            return Ok((at, None));
        }
    }
}
