//! One request on a connection of HTTP/2, and its response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use record::Outcome;
use units::Nanos;

use crate::ledger::Ledger;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) job: usize,
    pub(super) id: u32,
    /// The urgency from 0 to 7; the lowest goes first.
    pub(super) urgency: u8,
    /// The bytes of the frames that carried the response head.
    pub(super) head_bytes: u64,
    answer: Answer,
    /// The position among the requests of its connection, from 1.
    number: u64,
    /// The bytes that had arrived over the connection when the request was sent.
    received_bytes: u64,
    /// The connection had served other requests when this one was sent.
    had_served: bool,
}

#[derive(Debug)]
enum Answer {
    Head(ResponseFuture),
    Body(RecvStream),
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// The server reports that it did nothing about the request, which must be sent again.
    Unheard,
    Lost(Outcome),
}

impl Stream {
    pub(super) fn new(
        job: usize,
        answer: ResponseFuture,
        urgency: u8,
        number: u64,
        received_bytes: u64,
        had_served: bool,
    ) -> Stream {
        let id = answer.stream_id().as_u32();
        Stream { job, id, urgency, head_bytes: 0, answer: Answer::Head(answer), number, received_bytes, had_served }
    }

    /// Takes the available part of the response; `None` while more is to come.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, ledger: &mut Ledger<'_>, now: Nanos) -> Option<End> {
        match self.advance(context, ledger, now) {
            Poll::Pending => None,
            Poll::Ready(Ok(())) => Some(End::Whole),
            Poll::Ready(Err(error)) => Some(self.end_of(&error)),
        }
    }

    /// Returns true if the connection had served other requests, and nothing has arrived over it since this request was
    /// sent. The connection was then closed while the request was on its way.
    pub(super) fn is_unheard_at(&self, received_bytes: u64) -> bool {
        self.had_served && received_bytes == self.received_bytes
    }

    fn advance(
        &mut self,
        context: &mut Context<'_>,
        ledger: &mut Ledger<'_>,
        now: Nanos,
    ) -> Poll<Result<(), h2::Error>> {
        loop {
            match &mut self.answer {
                Answer::Head(head) => {
                    let response = ready!(Pin::new(head).poll(context))?;
                    ledger.on_head(self.job, response.status().as_u16(), self.head_bytes);
                    self.answer = Answer::Body(response.into_body());
                }
                Answer::Body(body) => {
                    let Some(data) = ready!(body.poll_data(context)).transpose()? else { return Poll::Ready(Ok(())) };
                    ledger.on_body(self.job, data.len() as u64, now);
                    // The bytes taken reopen the window. A stream that has been reset has none.
                    let _ = body.flow_control().release_capacity(data.len());
                }
            }
        }
    }

    fn end_of(&self, error: &h2::Error) -> End {
        let is_first = self.number == 1;
        // Before the server's SETTINGS, its first frame, its limit of streams is unknown.
        let is_refused = error.reason() == Some(Reason::REFUSED_STREAM) && self.received_bytes == 0;
        match () {
            () if error.is_io() => End::Lost(Outcome::Reset),
            () if !error.is_remote() => End::Lost(Outcome::Wrong),
            () if !is_first && (error.is_go_away() || is_refused) => End::Unheard,
            () => End::Lost(Outcome::Reset),
        }
    }
}
