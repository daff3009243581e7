use http::Request;
use units::Nanos;
use units::memory::Account;

use super::KeptRequest;
use crate::clock::later;
use crate::upload::{Upload, UploadLimits};

/// A request whose body is arriving.
pub struct Receiving {
    pub request: KeptRequest,
    /// The bytes of the body so far.
    pub bytes: u64,
    upload: Upload,
    /// When its client has taken too long, on a stream. Over HTTP/1.1 the connection has the deadline.
    pub deadline: Nanos,
}

impl Receiving {
    pub fn begin(request: &Request, account: &Account, now: Nanos, limits: UploadLimits) -> Receiving {
        let (upload, request) = (Upload::new(now), KeptRequest::new(request, account));
        Receiving { request, bytes: 0, deadline: upload.deadline(now, limits), upload }
    }

    /// The bytes of memory of its request.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.request.memory_bytes()
    }

    /// Counts `bytes` more of the body.
    pub fn take(&mut self, bytes: usize, now: Nanos, limits: UploadLimits) {
        self.bytes += bytes as u64;
        self.upload.on_bytes(bytes);
        self.deadline = self.upload.deadline(now, limits);
    }

    /// Moves the deadline later by `paused`, in which nothing could be received.
    pub fn excuse(&mut self, paused: Nanos) {
        self.upload.excuse(paused);
        self.deadline = later(self.deadline, paused);
    }
}
