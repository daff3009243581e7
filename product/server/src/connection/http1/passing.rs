//! Bytes that a client sends to be passed on: the body of a request, or everything once the protocol has changed.

use http::Reject;
use http::http1::OwnedHead;

use super::received::Received;
use super::request_body::RequestBody;
use crate::clock::ClientTime;
use crate::limits::Limits;

/// Client bytes that are passed on as they arrive, while the response is owed or made already.
pub struct Passing {
    /// `None` if the protocol has changed (RFC 9110 section 7.8).
    body: Option<RequestBody>,
    /// It is not read for a while.
    is_held: bool,
    /// The request waits until an earlier response is sent.
    is_waiting: bool,
    /// When its client has taken too long.
    deadline: ClientTime,
}

impl Passing {
    pub(super) fn of(body: RequestBody, now: ClientTime, limits: &Limits) -> Passing {
        let deadline = body.deadline(now, limits);
        Passing { body: Some(body), is_held: false, is_waiting: false, deadline }
    }

    pub fn tunnel() -> Passing {
        Passing { body: None, is_held: false, is_waiting: false, deadline: ClientTime::NEVER }
    }

    /// Takes the next contiguous bytes; returns them, and whether the body ends there.
    pub fn take<'r>(
        &mut self,
        now: ClientTime,
        limits: &Limits,
        received: &'r mut Received,
    ) -> Result<(&'r [u8], bool), Reject> {
        let begin = received.used;
        let Some(body) = &mut self.body else {
            received.used = received.bytes.len();
            return Ok((&received.bytes[begin..], false));
        };
        let passed = body.pass(&received.bytes[begin..])?;
        received.used += passed.consumed;
        self.deadline = body.deadline(now, limits);
        Ok((passed.bytes, passed.is_last))
    }

    /// Stops reading until [`Passing::go_on`].
    pub fn hold(&mut self, now: ClientTime) {
        self.is_held = true;
        self.deadline = ClientTime::NEVER;
        self.body.iter_mut().for_each(|body| body.hold(now));
    }

    /// Resumes reading. Returns false if it was not held.
    pub fn go_on(&mut self, now: ClientTime, limits: &Limits) -> bool {
        let was_held = std::mem::take(&mut self.is_held);
        if let Some(body) = self.body.as_mut().filter(|_| was_held) {
            body.go_on(now);
            self.deadline = body.deadline(now, limits);
        }
        was_held
    }

    /// Postpones its request, which was taken too early.
    pub fn wait(&mut self) {
        (self.is_waiting, self.is_held) = (true, true);
    }

    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Returns the request that waits, if one does, and ends the wait.
    pub(super) fn resume(&mut self) -> Option<Box<OwnedHead>> {
        if !std::mem::take(&mut self.is_waiting) {
            return None;
        }
        self.is_held = false;
        self.body.as_ref().map(|body| body.head.clone())
    }

    pub fn is_held(&self) -> bool {
        self.is_held
    }

    pub fn deadline(&self) -> ClientTime {
        self.deadline
    }

    /// The request, while its body arrives.
    pub(super) fn request(&self) -> Option<&RequestBody> {
        self.body.as_ref()
    }
}
