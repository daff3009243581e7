use serde::Deserialize;
use units::{Nanos, Rate};

/// How the link takes time for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A wire: a packet has arrived when its last bit has left.
    Wire,
    /// A token bucket on a faster wire, as in HTB: a packet leaves immediately while there is any token, and the link
    /// then waits for the packet's time. It keeps at most this many bytes of tokens.
    Bucket(u64),
    /// A token bucket in front of a wire of the same rate: a packet that the bucket releases early waits for the wire.
    BucketWire(u64),
    /// A token bucket that drops packets for which it has no tokens, instead of keeping them.
    Policer(u64),
}

/// The link itself: one packet at a time.
pub struct Link {
    pub rate: Rate,
    shape: Shape,
    /// The instant at which the next packet may leave.
    idle_at: Nanos,
    /// The instant at which the wire behind a bucket will have sent its bytes, or up to which a policer's tokens are
    /// used.
    wire_idle_at: Nanos,
    pub sent_bytes: u64,
    pub sent_packets: u64,
}

impl Link {
    pub fn new(rate: Rate, shape: Shape) -> Link {
        Link { rate, shape, idle_at: Nanos::ZERO, wire_idle_at: Nanos::ZERO, sent_bytes: 0, sent_packets: 0 }
    }

    pub fn idle_at(&self) -> Nanos {
        self.idle_at
    }

    /// Returns true if a packet may wait for the link at all. A policer drops packets for which it has no tokens.
    pub fn admits(&mut self, now: Nanos, wire_bytes: u32) -> bool {
        let Shape::Policer(burst_bytes) = self.shape else { return true };
        let full_at =
            self.wire_idle_at.max(now - self.rate.time_for(burst_bytes)) + self.rate.time_for(u64::from(wire_bytes));
        if full_at > now {
            return false;
        }
        self.wire_idle_at = full_at;
        true
    }

    /// Starts to send a packet; the link must be idle. Returns when the last bit will have left.
    pub fn send(&mut self, now: Nanos, wire_bytes: u32) -> Nanos {
        assert!(self.idle_at <= now, "the link is busy");
        self.sent_bytes += u64::from(wire_bytes);
        self.sent_packets += 1;
        let takes = self.rate.time_for(u64::from(wire_bytes));
        match self.shape {
            Shape::Wire => {
                self.idle_at = now + takes;
                self.idle_at
            }
            Shape::Bucket(burst_bytes) => {
                self.idle_at = self.idle_at.max(now - self.rate.time_for(burst_bytes)) + takes;
                now
            }
            Shape::BucketWire(burst_bytes) => {
                self.idle_at = self.idle_at.max(now - self.rate.time_for(burst_bytes)) + takes;
                self.wire_idle_at = self.wire_idle_at.max(now) + takes;
                self.wire_idle_at
            }
            Shape::Policer(_) => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_a_packet_go_and_waits_afterwards() {
        let mut link = Link::new("10mbit".parse().unwrap(), Shape::Bucket(1600));
        let now = Nanos::from_secs(1);
        assert_eq!(link.send(now, 1514), now);
        // 86 bytes of tokens are left, and any number is enough.
        assert!(link.idle_at() <= now);
        assert_eq!(link.send(now, 1514), now);
        assert_eq!(link.idle_at(), now + Nanos(8 * 100 * (2 * 1514 - 1600)));
    }

    #[test]
    fn a_policer_drops_what_it_has_no_tokens_for() {
        let mut link = Link::new("10mbit".parse().unwrap(), Shape::Policer(4000));
        let now = Nanos::from_secs(1);
        assert_eq!([(); 3].map(|()| link.admits(now, 1500)), [true, true, false]);
        assert_eq!(link.send(now, 1500), now);
        assert!(link.idle_at() <= now);
        assert!(link.admits(now + Nanos::from_micros(400), 1500) && !link.admits(now + Nanos::from_micros(400), 1500));
    }

    #[test]
    fn a_wire_delivers_at_the_last_bit() {
        let mut link = Link::new("10mbit".parse().unwrap(), Shape::Wire);
        assert_eq!(link.send(Nanos(5), 1250), Nanos(1_000_005));
        assert_eq!(link.idle_at(), Nanos(1_000_005));
    }
}
