//! Bytes from a client that are passed on: the body of a request, or everything once the protocol has changed.

use http::Reject;
use http::http1::OwnedHead;

use super::received::Received;
use super::request_body::RequestBody;
use crate::clock::ClientTime;

/// Client bytes that are passed on as they arrive. The response may be due or already made.
pub struct Passing {
    /// The body; `None` if the protocol has changed (RFC 9110 section 7.8).
    body: Option<RequestBody>,
    /// Reading from the client is paused.
    is_held: bool,
    /// The request waits until an earlier response is sent.
    is_waiting: bool,
}

impl Passing {
    /// Starts to pass on a body, or everything if there is none.
    pub(super) fn of(body: Option<RequestBody>) -> Passing {
        Passing { body, is_held: false, is_waiting: false }
    }

    /// Takes the next contiguous bytes. Returns them, and whether the body ends with them.
    pub fn take<'r>(&mut self, now: ClientTime, received: &'r mut Received) -> Result<(&'r [u8], bool), Reject> {
        let begin = received.used;
        let Some(body) = &mut self.body else {
            received.used = received.bytes.len();
            return Ok((&received.bytes[begin..], false));
        };
        let passed = body.pass(now, &received.bytes[begin..])?;
        received.used += passed.consumed;
        Ok((passed.bytes, passed.is_last))
    }

    /// Stops reading until [`Passing::go_on`].
    pub fn hold(&mut self, now: ClientTime) {
        self.is_held = true;
        self.on_held(now);
    }

    /// Resumes reading. Returns false if reading was not paused.
    pub fn go_on(&mut self, now: ClientTime) -> bool {
        self.body.iter_mut().for_each(|body| body.upload.go_on(now));
        std::mem::take(&mut self.is_held)
    }

    /// Records that a response is being sent. The time of the upload is stopped, because the client cannot speed up the
    /// response.
    pub(super) fn on_held(&mut self, now: ClientTime) {
        self.body.iter_mut().for_each(|body| body.upload.hold(now));
    }

    /// Postpones the request, which was taken before an earlier response had been sent.
    pub fn wait(&mut self) {
        (self.is_waiting, self.is_held) = (true, true);
    }

    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Ends the wait of the request and returns the request, if it was waiting.
    pub(super) fn resume(&mut self, now: ClientTime) -> Option<Box<OwnedHead>> {
        if !std::mem::take(&mut self.is_waiting) {
            return None;
        }
        self.go_on(now);
        self.body.as_ref().map(|body| body.head.clone())
    }

    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// The instant after which the client has taken too long.
    pub fn deadline(&self) -> ClientTime {
        self.body.as_ref().map_or(ClientTime::NEVER, |body| body.upload.deadline())
    }

    /// Returns the request whose body is arriving.
    pub(super) fn request(&self) -> Option<&RequestBody> {
        self.body.as_ref()
    }
}
