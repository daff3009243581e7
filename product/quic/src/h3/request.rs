//! The stream of one request (RFC 9114 section 4.1): HEADERS, DATA, and possibly trailing HEADERS.

use bytes::Bytes;
use http::{HEAD_TOO_LARGE, Limits, MalformedRequest, PeerLength, Refused, RequestBuilder, check_field};
use units::Nanos;

use super::fault::{
    EXCESSIVE_LOAD, FRAME_ERROR, FRAME_UNEXPECTED, Fault, MESSAGE_ERROR, QPACK_DECOMPRESSION_FAILED, REQUEST_INCOMPLETE,
};
use super::fields::{Fields, Request};
use super::floods::Budget;
use super::frames::{CANCEL_PUSH, GOAWAY, MAX_PUSH_ID, PUSH_PROMISE, SETTINGS};
use super::frames::{DATA, Frames, HEADERS, PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH, Step, is_reserved};
use crate::qpack;

/// Maximum bytes of a compressed field section, unless a head may be larger. No encoder has a reason to make the
/// section of a head longer than the head.
pub const SECTION_BYTES_MAX: usize = 64 << 10;

const UNDECODABLE: Fault = Fault::Connection(QPACK_DECOMPRESSION_FAILED, "a field section that cannot be decoded");
const OTHER_LENGTH: MalformedRequest = MalformedRequest("content whose length is not the content-length");
const NO_HEAD: MalformedRequest = MalformedRequest("a stream that ended before its request's head");

/// State shared by all requests of a connection.
#[derive(Debug)]
pub struct Shared {
    request: RequestBuilder,
    scratch: Vec<u8>,
    section_bytes_max: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    Content,
    /// After the trailers.
    End,
}

/// The received part of one request.
#[derive(Debug, Default)]
pub struct Incoming {
    frames: Frames,
    place: Part,
    /// The length of the content that is still to come, if it was declared.
    left: Option<PeerLength>,
    /// Bytes received after the head and not yet read.
    pub rest: Bytes,
}

impl Shared {
    pub fn new(request: Limits, has_tunnels: bool) -> Shared {
        let section_bytes_max = request.head_bytes_max.max(SECTION_BYTES_MAX) as u64;
        Shared { request: RequestBuilder::new(request, has_tunnels), scratch: Vec::new(), section_bytes_max }
    }

    fn decode(&mut self, section: &[u8]) -> Result<Request, Fault> {
        let mut fields = Fields::new(&mut self.request);
        qpack::decode(section, &mut self.scratch, |name, value| {
            fields.push(name, value);
            true
        })
        .map_err(|_| UNDECODABLE)?;
        fields.finish().map_err(|refused| Fault::Stream(MESSAGE_ERROR, refused))
    }

    /// Checks trailers, which are then discarded; malformed ones make their request malformed (RFC 9114 section 4.1.2).
    fn check_trailers(&mut self, section: &[u8]) -> Result<(), Fault> {
        let mut checked = Ok(());
        qpack::decode(section, &mut self.scratch, |name, value| {
            checked = checked.and_then(|()| check_field(name, value));
            checked.is_ok()
        })
        .map_err(|_| UNDECODABLE)?;
        checked.map_err(Fault::malformed)
    }
}

impl Incoming {
    /// Takes bytes up to the end of the head, then returns the request. After the head, takes all bytes and appends
    /// their content.
    pub fn receive(
        &mut self,
        now: Nanos,
        bytes: &mut &[u8],
        shared: &mut Shared,
        budget: &mut Budget,
        mut content: Option<&mut Vec<u8>>,
    ) -> Result<Option<Request>, Fault> {
        while let Some(step) = self.frames.next(bytes, content.as_deref_mut()) {
            match step {
                Step::Begin { kind, length } => self.begin(now, kind, length, shared, budget)?,
                Step::Kept { payload, .. } if self.place == Part::End => shared.check_trailers(&payload)?,
                Step::Kept { payload, .. } => {
                    let decoded = shared.decode(&payload)?;
                    self.left = decoded.content_length;
                    return Ok(Some(decoded));
                }
            }
        }
        Ok(None)
    }

    fn begin(&mut self, now: Nanos, kind: u64, length: u64, shared: &Shared, budget: &mut Budget) -> Result<(), Fault> {
        match (kind, self.place) {
            (HEADERS, Part::Head | Part::Content) if length > shared.section_bytes_max => {
                return Err(Fault::Stream(EXCESSIVE_LOAD, Refused::unseen(HEAD_TOO_LARGE)));
            }
            (HEADERS, Part::Head | Part::Content) => {
                self.frames.keep();
                self.place = if self.place == Part::Head { Part::Content } else { Part::End };
            }
            (DATA, Part::Content) => {
                budget.on_data(now, length)?;
                if let Some(left) = &mut self.left {
                    *left = left.less(length).ok_or_else(|| Fault::malformed(OTHER_LENGTH))?;
                }
            }
            (DATA | HEADERS, _) => return unexpected("DATA or HEADERS where a request has none"),
            (
                CANCEL_PUSH | SETTINGS | PUSH_PROMISE | GOAWAY | MAX_PUSH_ID | PRIORITY_UPDATE | PRIORITY_UPDATE_PUSH,
                _,
            ) => {
                return unexpected("a frame of the control stream on a request's");
            }
            (kind, _) if is_reserved(kind) => return unexpected("a frame of HTTP/2"),
            _ => budget.on_control(now)?,
        }
        Ok(())
    }

    /// Checks that the request may end here, where the client has ended its stream.
    pub fn finish(&self) -> Result<(), Fault> {
        if !self.frames.is_between() {
            return Err(Fault::Connection(FRAME_ERROR, "a stream that ended inside a frame"));
        }
        match (self.place, self.left) {
            (Part::Head, _) => Err(Fault::Stream(REQUEST_INCOMPLETE, Refused::malformed(NO_HEAD))),
            (_, Some(left)) if left > PeerLength::ZERO => Err(Fault::malformed(OTHER_LENGTH)),
            _ => Ok(()),
        }
    }

    /// Returns the number of bytes stored until more arrive.
    pub fn kept_bytes(&self) -> usize {
        self.frames.kept_bytes()
    }
}

fn unexpected(why: &'static str) -> Result<(), Fault> {
    Err(Fault::Connection(FRAME_UNEXPECTED, why))
}
