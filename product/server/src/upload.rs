//! The rate at which a client sends the body of its request, over HTTP/1.1 or on a stream.

use std::num::NonZeroU64;

use units::Nanos;

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
    began_at: Nanos,
    /// The time since which the body is not being read.
    held_at: Option<Nanos>,
    /// The number of bytes that have arrived.
    bytes: u64,
}

impl Upload {
    pub fn new(now: Nanos) -> Upload {
        Upload { began_at: now, held_at: None, bytes: 0 }
    }

    pub fn on_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Returns the time at which the upload is too late, if bytes arrived or reading resumed at `now`.
    pub fn deadline(&self, now: Nanos, limits: UploadLimits) -> Nanos {
        let pause_ends_at = now + limits.timeout;
        let Some(second_bytes) = NonZeroU64::new(limits.rate_bytes_per_s_min) else { return pause_ends_at };
        pause_ends_at.min(self.began_at + Nanos::from_secs(self.bytes / second_bytes) + limits.timeout)
    }

    /// Records that the body is not read for a while; this time does not count against the client.
    pub fn hold(&mut self, now: Nanos) {
        self.held_at.get_or_insert(now);
    }

    /// Records that the body is read again. Returns false if it was not held.
    pub fn go_on(&mut self, now: Nanos) -> bool {
        let held_at = self.held_at.take();
        held_at.into_iter().for_each(|held_at| self.excuse(now - held_at));
        held_at.is_some()
    }

    pub fn excuse(&mut self, paused: Nanos) {
        for at in std::iter::once(&mut self.began_at).chain(&mut self.held_at) {
            *at = Nanos(at.0.saturating_add(paused.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_it_is_held_or_nobody_is_heard_is_not_its_senders() {
        let (limits, second) =
            (UploadLimits { timeout: Nanos::from_secs(20), rate_bytes_per_s_min: 500 }, Nanos::from_secs);
        let mut upload = Upload::new(Nanos::ZERO);
        assert!(!upload.go_on(second(1)));
        upload.hold(second(1));
        upload.hold(second(50));
        upload.excuse(second(10));
        assert!(upload.go_on(second(101)));
        assert_eq!(upload.deadline(second(101), limits), second(10 + 90 + 20));
        upload.on_bytes(1000);
        assert_eq!(upload.deadline(second(101), limits), second(10 + 90 + 2 + 20).min(second(121)));
        let any = UploadLimits { rate_bytes_per_s_min: 0, ..limits };
        assert_eq!(upload.deadline(second(1000), any), second(1020));
    }
}
