//! The counters of the bottleneck, from `tc -s -j qdisc show`.

use serde::Deserialize;

use crate::LabError;

/// The bottleneck's counters since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The bytes that left, as the shaper counts them (with 14 bytes of Ethernet header per packet).
    pub sent_bytes: u64,
    pub sent_packets: u64,
    /// The packets for which the FIFO had no room.
    pub dropped_packets: u64,
}

#[derive(Deserialize)]
struct Qdisc {
    #[serde(default)]
    root: bool,
    bytes: u64,
    packets: u64,
    drops: u64,
}

impl Counters {
    /// Parses the counters. The root qdisc counts packets that left. Drops are counted where they happen, in the FIFO,
    /// and also by the root if it is notified, so the larger figure is the number of lost packets.
    pub(crate) fn parse(json: &str) -> Result<Counters, LabError> {
        let error = |reason: String| LabError::Output { what: "what `tc -s -j qdisc show` printed".into(), reason };
        let qdiscs: Vec<Qdisc> = serde_json::from_str(json).map_err(|e| error(e.to_string()))?;
        let root = qdiscs.iter().find(|qdisc| qdisc.root).ok_or_else(|| error("it names no root qdisc".into()))?;
        let dropped_packets = qdiscs.iter().map(|qdisc| qdisc.drops).max().unwrap_or(0);
        Ok(Counters { sent_bytes: root.bytes, sent_packets: root.packets, dropped_packets })
    }

    /// The difference to an earlier reading.
    pub fn since(self, earlier: Counters) -> Counters {
        Counters {
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            sent_packets: self.sent_packets.saturating_sub(earlier.sent_packets),
            dropped_packets: self.dropped_packets.saturating_sub(earlier.dropped_packets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of iproute2 6.1.
    const PRINTED: &str = r#"[{"kind":"htb","handle":"1:","root":true,"refcnt":3,"options":{"r2q":10,"default":"0x1",
        "direct_packets_stat":1,"direct_qlen":1000},"bytes":6624568,"packets":4386,"drops":3,"overlimits":204,
        "requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo","handle":"10:","parent":"1:1","options":{"limit":100},
        "bytes":6624400,"packets":4384,"drops":7,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#;

    #[test]
    fn reads_what_left_and_what_was_lost() {
        let counters = Counters::parse(PRINTED).unwrap();
        assert_eq!(counters, Counters { sent_bytes: 6_624_568, sent_packets: 4386, dropped_packets: 7 });
        let earlier = Counters { sent_bytes: 568, sent_packets: 86, dropped_packets: 2 };
        let delta = counters.since(earlier);
        assert_eq!(delta, Counters { sent_bytes: 6_624_000, sent_packets: 4300, dropped_packets: 5 });
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for wrong in ["", "[]", "{}", r#"[{"kind":"pfifo","bytes":1,"packets":1,"drops":0}]"#, r#"[{"root":true}]"#] {
            assert!(Counters::parse(wrong).unwrap_err().to_string().contains("tc -s -j"), "{wrong}");
        }
    }
}
