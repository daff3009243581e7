//! One request on a connection of HTTP/3, and its response.

use quinn_proto::StreamId;
use units::Nanos;

use super::fault::Fault;
use super::response::{Event, Response};
use crate::ledger::Ledger;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) job: usize,
    pub(super) id: StreamId,
    /// The position among the requests of its connection, from 1.
    pub(super) number: u64,
    response: Response,
    /// The bytes that had arrived over the connection's streams when the request was sent.
    received_bytes: u64,
    /// The connection had served other requests when this one was sent.
    had_served: bool,
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    Broken(Fault),
    /// The server reset it with this code.
    Reset(u64),
}

impl Stream {
    pub(super) fn new(job: usize, id: StreamId, number: u64, received_bytes: u64, had_served: bool) -> Stream {
        Stream { job, id, number, response: Response::default(), received_bytes, had_served }
    }

    pub(super) fn on_bytes(&mut self, bytes: &[u8], ledger: &mut Ledger<'_>, now: Nanos) -> Result<(), Fault> {
        ledger.on_byte(self.job, now);
        let job = self.job;
        self.response.receive(bytes, |event| match event {
            Event::Head { status, head_bytes } => ledger.on_head(job, status, head_bytes),
            Event::Body(count) => ledger.on_body(job, count, now),
        })
    }

    /// Returns how the request ended, after the server has ended the stream.
    pub(super) fn on_end(&self) -> End {
        self.response.on_end().map_or_else(End::Broken, |()| End::Whole)
    }

    /// Returns true if the connection had served other requests, and nothing has arrived over it since this request was
    /// sent. The connection was then closed while the request was on its way.
    pub(super) fn is_unheard_at(&self, received_bytes: u64) -> bool {
        self.had_served && received_bytes == self.received_bytes
    }
}
