//! How fast the client of a request sends its body, over HTTP/1.1 as on a stream.

use std::num::NonZeroU64;

use units::Nanos;

/// What a client has to keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadLimits {
    /// A pause may last so long, and the whole that much beyond its time at the least rate.
    pub timeout: Nanos,
    /// 0: none.
    pub rate_bytes_per_s_min: u64,
}

#[derive(Debug)]
pub struct Upload {
    began_at: Nanos,
    /// Since when it is not read.
    held_at: Option<Nanos>,
    /// Bytes that have arrived.
    bytes: u64,
}

impl Upload {
    pub fn new(now: Nanos) -> Upload {
        Upload { began_at: now, held_at: None, bytes: 0 }
    }

    pub fn on_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// When it has taken too long, where something of it came now, or it goes on now.
    pub fn deadline(&self, now: Nanos, limits: UploadLimits) -> Nanos {
        let pause_ends_at = now + limits.timeout;
        let Some(second_bytes) = NonZeroU64::new(limits.rate_bytes_per_s_min) else { return pause_ends_at };
        pause_ends_at.min(self.began_at + Nanos::from_secs(self.bytes / second_bytes) + limits.timeout)
    }

    /// It is not read for a while, which is not its sender's time.
    pub fn hold(&mut self, now: Nanos) {
        self.held_at.get_or_insert(now);
    }

    /// It is read again. False where it was not held.
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
