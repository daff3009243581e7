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
}

/// The link itself: one packet at a time.
pub struct Link {
    pub rate: Rate,
    shape: Shape,
    /// The instant at which the next packet may leave.
    idle_at: Nanos,
    /// The instant at which the wire behind a bucket will have sent its bytes.
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
    fn a_wire_delivers_at_the_last_bit() {
        let mut link = Link::new("10mbit".parse().unwrap(), Shape::Wire);
        assert_eq!(link.send(Nanos(5), 1250), Nanos(1_000_005));
        assert_eq!(link.idle_at(), Nanos(1_000_005));
    }
}
