//! The response that is due on an HTTP/1.1 connection: whether one is due, its form, and whether it is the last.

use http::http1::{self, Connection, Delimiter, Head};
use http::{HttpDate, Method, Response};

pub struct Answering {
    stage: Stage,
    form: Form,
    /// True if nothing is read after the response in progress.
    closes: bool,
    /// Set if the next response is the last.
    is_next_last: bool,
}

/// The progress of the response. No further request is parsed until it has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    None,
    /// A request was taken, but its response has not been made yet.
    Owed,
    /// Responses were made, but not all of them have been sent.
    Made,
}

/// The form of a response, which its request determines.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// False for HEAD: the head is the same as for GET, but no body follows.
    has_body: bool,
    closes: bool,
    minor_version: u8,
}

impl Form {
    pub const OF_REFUSAL: Form = Form { has_body: true, closes: true, minor_version: 1 };

    pub fn of(head: &Head) -> Form {
        Form {
            // The answer does not depend on the body, so a client that waits before it sends one gets its final status
            // immediately (RFC 9110 section 10.1.1). Such a client may still send the body or not, so nothing after
            // this head is read.
            closes: !head.keep_alive || head.expect_continue,
            ..Form::of_wanted(head)
        }
    }

    /// Returns the form for a request whose body is accepted at any length. A client that waits for 100 Continue gets
    /// it.
    pub fn of_wanted(head: &Head) -> Form {
        Form {
            has_body: head.request.method != Method::Head,
            closes: !head.keep_alive,
            minor_version: head.minor_version,
        }
    }
}

impl Answering {
    /// Creates the state in which no response is due.
    pub(super) fn new() -> Answering {
        Answering { stage: Stage::None, form: Form::OF_REFUSAL, closes: false, is_next_last: false }
    }

    /// Returns true if a response is due or being sent.
    pub fn is_on(&self) -> bool {
        self.stage != Stage::None
    }

    /// Returns true if a response is due and has not been made yet.
    pub fn is_owed(&self) -> bool {
        self.stage == Stage::Owed
    }

    /// Returns true if the connection ends after the response in progress.
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// Stops reading after the response that is owed.
    pub fn close(&mut self) {
        self.closes = true;
    }

    /// Stops reading after the response in progress, or after the next one.
    pub fn end_with_next(&mut self) {
        self.is_next_last = true;
        self.closes |= self.is_on();
    }

    /// Records that a response with this form is due.
    pub(super) fn owe(&mut self, form: Form) {
        (self.form, self.stage) = (form, Stage::Owed);
    }

    /// Records that the received bytes are answered by something other than a response, such as an alert, and that
    /// nothing more is read.
    pub fn refuse_aside(&mut self) {
        (self.stage, self.closes) = (Stage::Made, true);
    }

    /// Records that the last request taken waits for earlier responses.
    pub(super) fn postpone(&mut self) {
        self.stage = Stage::Made;
    }

    /// Appends the head of the response that is due; `is_last` makes it the last one. Returns the delimiter of the
    /// body; `None` if no body follows.
    pub(super) fn encode<B>(
        &mut self,
        response: &Response<B>,
        is_last: bool,
        date: &HttpDate,
        out: &mut Vec<u8>,
    ) -> Option<Delimiter> {
        debug_assert_eq!(self.stage, Stage::Owed, "no response is owed");
        self.stage = Stage::Made;
        let Form { has_body, closes, minor_version } = self.form;
        let delimiter = Delimiter::of(response, minor_version);
        self.closes |= is_last || self.is_next_last || closes || delimiter == Delimiter::Close;
        let connection = if self.closes { Connection::Close } else { Connection::KeepAlive };
        http1::encode(out, response, date, connection, minor_version);
        has_body.then_some(delimiter)
    }

    /// Encodes an interim response to the last request taken; `None` for HTTP/1.0, which has none (RFC 9110 section
    /// 15.2).
    pub fn interim(&self, response: &Response<()>, date: &HttpDate) -> Option<Vec<u8>> {
        let minor_version = self.form.minor_version;
        (self.is_owed() && minor_version > 0).then(|| {
            let mut out = Vec::new();
            http1::encode(&mut out, response, date, Connection::KeepAlive, minor_version);
            out
        })
    }

    /// Records that the response was made and will be sent together with later ones, so that the next request is
    /// parsed.
    pub fn on_gathered(&mut self) {
        if !self.closes {
            self.stage = Stage::None;
        }
    }

    /// Records that responses were made but not sent yet. No request is parsed until [`Self::on_sent`].
    pub(super) fn on_held(&mut self) {
        if self.stage == Stage::None {
            self.stage = Stage::Made;
        }
    }

    /// Records that every response that was made is sent.
    pub(super) fn on_sent(&mut self) {
        self.stage = Stage::None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::http1::parse_request;
    use http::{Length, Status};

    use super::*;

    #[test]
    fn a_response_has_the_form_that_its_request_asks_for() {
        let (known, unknown, date) = (Length::Known(5), Length::Unknown, HttpDate::new(UNIX_EPOCH));
        for (lines, is_last, length, delimiter, goes_on) in [
            ("GET / HTTP/1.1", false, known, Some(Delimiter::Length), true),
            ("GET / HTTP/1.1", true, known, Some(Delimiter::Length), false),
            ("HEAD / HTTP/1.1", false, known, None, true),
            ("GET / HTTP/1.1\r\nConnection: close", false, known, Some(Delimiter::Length), false),
            ("GET / HTTP/1.0\r\nConnection: keep-alive", false, known, Some(Delimiter::Length), true),
            ("GET / HTTP/1.0\r\nConnection: keep-alive", false, unknown, Some(Delimiter::Close), false),
        ] {
            let text = format!("{lines}\r\nHost: a\r\n\r\n");
            let head = parse_request(text.as_bytes(), &http::Limits::default()).unwrap().unwrap();
            let (mut answering, mut out, response) = (Answering::new(), Vec::new(), Response::new(Status::OK, ()));
            answering.owe(Form::of(&head));
            let has_interim = answering.interim(&response, &date).is_some();
            let ended = answering.encode(&response.of_length(length), is_last, &date, &mut out);
            answering.on_gathered();
            assert_eq!((ended, !answering.closes(), !answering.is_on()), (delimiter, goes_on, goes_on), "{lines}");
            assert_eq!(has_interim, head.minor_version == 1, "{lines}");
            assert_eq!(String::from_utf8(out).unwrap().contains("Connection: close"), !goes_on, "{lines}");
        }
    }
}
