use http::http1::{Chunked, Head, OwnedHead};
use http::{BodyLength, Reject};

use crate::clock::ClientTime;
use crate::upload::Upload;

/// A request whose body is still arriving.
pub(super) struct RequestBody {
    pub head: Box<OwnedHead>,
    left: Left,
    /// The remaining bytes that are accepted.
    bytes_max: u64,
    /// Counts the received bytes, including framing.
    pub upload: Upload,
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
    /// Begins a body; returns `None` if its announced length exceeds the maximum.
    pub fn new(head: &Head, bytes_max: u64, upload: Upload) -> Option<RequestBody> {
        let left = match head.request.body {
            BodyLength::None => Left::Known(0),
            BodyLength::Known(length) if length.bytes() > bytes_max => return None,
            BodyLength::Known(length) => Left::Known(length.bytes()),
            BodyLength::Unknown => Left::Chunked(Chunked::new()),
        };
        let head = Box::new(head.into());
        Some(RequestBody { head, left, bytes_max, upload })
    }

    /// Takes the next bytes. Returns how many belong to the body, and whether the body has ended; `None` if the body
    /// exceeds the maximum.
    pub fn take(&mut self, now: ClientTime, bytes: &[u8]) -> Result<Option<(usize, bool)>, Reject> {
        let mut consumed = 0;
        loop {
            let passed = self.pass(now, &bytes[consumed..])?;
            consumed += passed.consumed;
            if passed.is_last || consumed == bytes.len() {
                let Some(left) = self.bytes_max.checked_sub(consumed as u64) else { return Ok(None) };
                self.bytes_max = left;
                return Ok(Some((consumed, passed.is_last)));
            }
        }
    }

    /// Takes the next contiguous bytes, and returns them to be passed on.
    pub fn pass<'b>(&mut self, now: ClientTime, bytes: &'b [u8]) -> Result<Passed<'b>, Reject> {
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
        self.upload.on_bytes(now, passed.consumed);
        Ok(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    const NOW: ClientTime = ClientTime::NEVER;

    fn new(length: BodyLength, bytes_max: u64) -> Option<RequestBody> {
        let head = http::http1::parse_request(b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n", &http::Limits::default());
        let mut head = head.unwrap().unwrap();
        head.request.body = length;
        RequestBody::new(&head, bytes_max, Upload::new(NOW, Limits::default().upload()))
    }

    /// The size is known from the announced length or from the arrived bytes, including chunks and their framing.
    #[test]
    fn a_body_over_the_limit_is_known() {
        let new = |length| new(length, 10);
        assert!(new(BodyLength::Known(11.into())).is_none());
        assert_eq!(new(BodyLength::Known(10.into())).unwrap().take(NOW, b"0123456789abc"), Ok(Some((10, true))));
        let mut chunked = new(BodyLength::Unknown).unwrap();
        assert_eq!(chunked.take(NOW, b"6\r\nabcdef"), Ok(Some((9, false))));
        assert_eq!(chunked.take(NOW, b"\r\n"), Ok(None));
    }
}
