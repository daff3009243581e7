//! The rate at which a client sends the body of its request, over HTTP/1.1 or on a stream.

use std::num::NonZeroU64;

use units::Nanos;

use crate::clock::ClientTime;

/// The limits that the body of a request must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadLimits {
    /// The maximum pause. The whole body may take this long in addition to its time at the minimum rate.
    pub timeout: Nanos,
    /// The minimum rate; 0 for no minimum.
    pub rate_bytes_per_s_min: u64,
}

#[derive(Debug)]
pub struct Upload {
    began_at: ClientTime,
    /// The time since which the body is not being read.
    held_at: Option<ClientTime>,
    /// The number of bytes that have arrived.
    bytes: u64,
}

impl Upload {
    pub fn new(now: ClientTime) -> Upload {
        Upload { began_at: now, held_at: None, bytes: 0 }
    }

    pub fn on_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Returns the time at which the upload is too late, if bytes arrived or reading resumed at `now`.
    pub fn deadline(&self, now: ClientTime, limits: UploadLimits) -> ClientTime {
        let pause_ends_at = now + limits.timeout;
        let Some(second_bytes) = NonZeroU64::new(limits.rate_bytes_per_s_min) else { return pause_ends_at };
        pause_ends_at.min(self.began_at + Nanos::from_secs(self.bytes / second_bytes) + limits.timeout)
    }

    /// Records that the body is not read for a while; this time does not count against the client.
    pub fn hold(&mut self, now: ClientTime) {
        self.held_at.get_or_insert(now);
    }

    /// Records that the body is read again. Returns false if it was not held.
    pub fn go_on(&mut self, now: ClientTime) -> bool {
        let held_at = self.held_at.take();
        self.began_at = held_at.map_or(self.began_at, |held_at| self.began_at + (now - held_at));
        held_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_it_is_held_is_not_its_senders() {
        let (limits, at) = (UploadLimits { timeout: Nanos::from_secs(20), rate_bytes_per_s_min: 500 }, |seconds| {
            ClientTime::after(Nanos::from_secs(seconds))
        });
        let mut upload = Upload::new(at(0));
        assert!(!upload.go_on(at(1)));
        upload.hold(at(1));
        upload.hold(at(50));
        assert!(upload.go_on(at(101)));
        assert_eq!(upload.deadline(at(101), limits), at(100 + 20));
        upload.on_bytes(1000);
        assert_eq!(upload.deadline(at(101), limits), at(121));
        assert_eq!(upload.deadline(at(110), limits), at(100 + 2 + 20));
        let any = UploadLimits { rate_bytes_per_s_min: 0, ..limits };
        assert_eq!(upload.deadline(at(1000), any), at(1020));
    }
}
