//! The rate at which a client sends the body of its request, over HTTP/1.1 or on a stream, whatever happens to the
//! bytes.

use std::num::NonZeroU64;

use units::Nanos;

use crate::clock::ClientTime;

/// The limits on the time in which a client must send the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadLimits {
    /// The maximum pause. The whole body may take this much longer than at the minimum rate.
    pub timeout: Nanos,
    /// The minimum rate; 0 for no minimum.
    pub rate_bytes_per_s_min: u64,
}

#[derive(Debug)]
pub struct Upload {
    limits: UploadLimits,
    began_at: ClientTime,
    /// The time since which the body is not being read.
    held_at: Option<ClientTime>,
    /// The number of bytes that have arrived.
    bytes: u64,
    deadline: ClientTime,
}

impl Upload {
    pub fn new(now: ClientTime, limits: UploadLimits) -> Upload {
        Upload { limits, began_at: now, held_at: None, bytes: 0, deadline: now + limits.timeout }
    }

    /// Counts bytes that have arrived.
    pub fn on_bytes(&mut self, now: ClientTime, bytes: usize) {
        self.bytes += bytes as u64;
        if bytes > 0 {
            self.extend(now);
        }
    }

    fn extend(&mut self, now: ClientTime) {
        let UploadLimits { timeout, rate_bytes_per_s_min } = self.limits;
        let whole_ends_at = NonZeroU64::new(rate_bytes_per_s_min)
            .map(|second_bytes| self.began_at + Nanos::from_secs(self.bytes / second_bytes) + timeout);
        self.deadline = whole_ends_at.unwrap_or(ClientTime::NEVER).min(now + timeout);
    }

    /// The time from which the upload is too late; never while the body is held.
    pub fn deadline(&self) -> ClientTime {
        self.held_at.map_or(self.deadline, |_| ClientTime::NEVER)
    }

    /// Records that the body is not being read for now; this time does not count against the client.
    pub fn hold(&mut self, now: ClientTime) {
        self.held_at.get_or_insert(now);
    }

    /// Records that the body is read again.
    pub fn go_on(&mut self, now: ClientTime) {
        if let Some(held_at) = self.held_at.take() {
            self.began_at = self.began_at + (now - held_at);
            self.extend(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: UploadLimits = UploadLimits { timeout: Nanos::from_secs(20), rate_bytes_per_s_min: 500 };

    fn at(seconds: u64) -> ClientTime {
        ClientTime::after(Nanos::from_secs(seconds))
    }

    /// Sends bytes every `step_s` seconds; returns how often until it is too late, at most 2000 times.
    fn steps_taken(step_s: u64, bytes: usize) -> u64 {
        let mut upload = Upload::new(at(0), LIMITS);
        let in_time = |step: &u64| {
            let now = at(step * step_s);
            let is_late = now >= upload.deadline();
            upload.on_bytes(now, bytes);
            !is_late
        };
        (1..=2000).take_while(in_time).count() as u64
    }

    /// A byte every 19 seconds used to be accepted for 230 days.
    #[test]
    fn a_body_below_the_least_rate_is_too_slow_and_one_at_it_is_not() {
        assert_eq!([(19, 1), (1, 1), (1, 500)].map(|(step_s, bytes)| steps_taken(step_s, bytes)), [1, 19, 2000]);
    }

    #[test]
    fn a_body_that_stops_has_no_credit() {
        let mut upload = Upload::new(at(0), LIMITS);
        upload.on_bytes(at(1), 1 << 19);
        upload.on_bytes(at(9), 0);
        assert_eq!(upload.deadline(), at(21), "however fast it was");
    }

    #[test]
    fn time_in_which_it_is_held_is_not_its_senders() {
        let mut upload = Upload::new(at(0), LIMITS);
        upload.go_on(at(1));
        assert_eq!(upload.deadline(), at(20), "it was not held");
        upload.hold(at(1));
        upload.hold(at(50));
        assert_eq!(upload.deadline(), ClientTime::NEVER);
        upload.go_on(at(101));
        assert_eq!(upload.deadline(), at(100 + 20));
        upload.on_bytes(at(110), 1000);
        assert_eq!(upload.deadline(), at(100 + 2 + 20));
        let mut patient = Upload::new(at(0), UploadLimits { rate_bytes_per_s_min: 0, ..LIMITS });
        patient.on_bytes(at(1000), 1);
        assert_eq!(patient.deadline(), at(1020));
    }
}
