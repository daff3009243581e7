use http::http1::{Chunked, Head, OwnedHead};
use http::{BodyLength, Reject, Status};

use crate::clock::ClientTime;
use crate::limits::Limits;
use crate::upload::Upload;

const TOO_LARGE: Reject = Reject { status: Status::CONTENT_TOO_LARGE, reason: "the request body is too large" };

/// A request whose body is still arriving.
pub(super) struct RequestBody {
    pub head: Box<OwnedHead>,
    left: Left,
    /// The maximum bytes still accepted.
    bytes_max: u64,
    /// Counts the bytes, framing included.
    upload: Upload,
}

/// A part of a body that is passed on.
pub(super) struct Passed<'b> {
    pub bytes: &'b [u8],
    /// The bytes consumed, framing included.
    pub consumed: usize,
    pub is_last: bool,
}

enum Left {
    Known(u64),
    Chunked(Chunked),
}

impl RequestBody {
    /// Begins a body; refuses one whose announced length is too large.
    pub fn new(head: &Head, bytes_max: u64, now: ClientTime) -> Result<RequestBody, Reject> {
        let left = match head.request.body {
            BodyLength::None => Left::Known(0),
            BodyLength::Known(length) if length.bytes() > bytes_max => return Err(TOO_LARGE),
            BodyLength::Known(length) => Left::Known(length.bytes()),
            BodyLength::Unknown => Left::Chunked(Chunked::new()),
        };
        let head = Box::new(head.into());
        Ok(RequestBody { head, left, bytes_max, upload: Upload::new(now) })
    }

    /// The instant at which it has taken too long, if some of it arrives now, or it resumes now.
    pub fn deadline(&self, now: ClientTime, limits: &Limits) -> ClientTime {
        self.upload.deadline(now, limits.upload())
    }

    /// Takes the next bytes; returns how many belong to the body and whether it has ended.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), Reject> {
        let mut consumed = 0;
        loop {
            let passed = self.pass(&bytes[consumed..])?;
            consumed += passed.consumed;
            if passed.is_last || consumed == bytes.len() {
                self.bytes_max = self.bytes_max.checked_sub(consumed as u64).ok_or(TOO_LARGE)?;
                return Ok((consumed, passed.is_last));
            }
        }
    }

    /// Takes the next contiguous bytes and returns them to be passed on.
    pub fn pass<'b>(&mut self, bytes: &'b [u8]) -> Result<Passed<'b>, Reject> {
        let passed = match &mut self.left {
            Left::Known(left) => {
                let consumed = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= consumed as u64;
                Passed { bytes: &bytes[..consumed], consumed, is_last: *left == 0 }
            }
            Left::Chunked(chunked) => {
                let taken = chunked.take(bytes)?;
                Passed { bytes: taken.data, consumed: taken.consumed, is_last: taken.is_done }
            }
        };
        self.upload.on_bytes(passed.consumed);
        Ok(passed)
    }

    /// Records that the body is not read for a while; this time does not count against the client.
    pub fn hold(&mut self, now: ClientTime) {
        self.upload.hold(now);
    }

    pub fn go_on(&mut self, now: ClientTime) {
        self.upload.go_on(now);
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    fn at(seconds: u64) -> ClientTime {
        ClientTime::after(Nanos::from_secs(seconds))
    }

    fn new(length: BodyLength, bytes_max: u64) -> Result<RequestBody, Reject> {
        let head = http::http1::parse_request(b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n", &http::Limits::default());
        let mut head = head.unwrap().unwrap();
        head.request.body = length;
        RequestBody::new(&head, bytes_max, at(0))
    }

    /// Sends a byte every `step_s` seconds; returns how many are taken until it is too late.
    fn bytes_taken(step_s: u64) -> u64 {
        let limits = Limits::default();
        let mut body = new(BodyLength::Known((1 << 20).into()), 1 << 20).unwrap();
        for taken in 0..2000 {
            if at((taken + 1) * step_s) >= body.deadline(at(taken * step_s), &limits) {
                return taken;
            }
            body.take(b"x").unwrap();
        }
        2000
    }

    /// It used to be accepted for 230 days.
    #[test]
    fn a_body_of_a_byte_every_19_seconds_is_too_slow() {
        assert_eq!((bytes_taken(19), bytes_taken(1)), (1, 19));
    }

    #[test]
    fn a_body_at_the_least_rate_is_not() {
        let limits = Limits::default();
        let mut body = new(BodyLength::Known((1 << 20).into()), 1 << 20).unwrap();
        let rate = limits.body_rate_bytes_per_s_min;
        for second in 1..=(1 << 20) / rate {
            assert!(at(second) < body.deadline(at(second - 1), &limits), "second {second}");
            body.take(&vec![b'x'; rate as usize]).unwrap();
        }
    }

    /// However fast it was, it may not stop.
    #[test]
    fn a_body_that_stops_has_no_credit() {
        let limits = Limits::default();
        let mut body = new(BodyLength::Known((1 << 20).into()), 1 << 20).unwrap();
        body.take(&vec![b'x'; 1 << 19]).unwrap();
        assert_eq!(body.deadline(at(1), &limits), at(1) + limits.body_timeout);
    }

    /// Refused by its announced length, or by what arrives: chunks and their framing count.
    #[test]
    fn a_body_over_the_limit_is_refused() {
        let new = |length| new(length, 10);
        assert!(new(BodyLength::Known(11.into())).is_err_and(|reject| reject == TOO_LARGE));
        assert_eq!(new(BodyLength::Known(10.into())).unwrap().take(b"0123456789abc"), Ok((10, true)));
        let mut chunked = new(BodyLength::Unknown).unwrap();
        assert_eq!(chunked.take(b"6\r\nabcdef"), Ok((9, false)));
        assert_eq!(chunked.take(b"\r\n"), Err(TOO_LARGE));
    }
}
