use serde::Deserialize;
use units::{Nanos, Rate};

/// How the link takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A wire: a packet has arrived when its last bit has left.
    Wire,
    /// A token bucket on a faster wire, as HTB is: a packet goes at once while there is any token, and its time is
    /// waited for afterwards. At most this many bytes of tokens are kept for later.
    Bucket(u64),
    /// A token bucket in front of a wire of the same rate: what the bucket lets go early waits for the wire.
    BucketWire(u64),
}

/// The link itself: one packet at a time.
pub struct Link {
    pub rate: Rate,
    shape: Shape,
    /// When the next packet may go.
    idle_at: Nanos,
    /// When the wire behind a bucket has sent what it has.
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

    /// Starts a packet; only when idle. Gives when its last bit is out.
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
        // 86 bytes of tokens are left, and any will do.
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
