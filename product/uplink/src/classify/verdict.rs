//! Does an attached classifier order anything? What its counters and the tree's come to, and for a few seconds after an
//! attach whoever watches them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use units::{Nanos, Rate};

use super::{Settings, find};
use crate::constants::BAND_DATA_FIRST;
use crate::queues::QueueWatch;
use crate::tree::{self, Kind};
use crate::{Error, Interface};

/// Fewer packets than these say nothing: a quiet interface has neighbours to look for.
const SENT_MIN: u64 = 20;
const NO_SOCKET_MIN: u64 = 5;
/// Looks, of [`LOOK_EVERY`], before a queue that is always empty says something.
const LOOKS_MIN: u64 = 50;
/// Of the rate: an interface that sends less may have no more to send.
const LOADED_PERMILLE: u32 = 750;
/// Of the looks: requests at random that load a link by 75 % have something wait 56 % of the time or more. Beside three downloads on
/// 10 Mbit/s something waited always at 9.5, and at 10.5, 12 and 15 at 81, 70 and 23 % of the looks: a little too high is not seen.
const WAITING_PERMILLE: u64 = 500;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long to look.
struct Patience {
    /// For the first packet of a response.
    seen: Duration,
    /// From then on, where the interface has little to send.
    light: Duration,
    /// And where it has much and no queue forms.
    loaded: Duration,
}

/// At a new classifier.
const LONG: Patience =
    Patience { seen: Duration::from_secs(5), light: Duration::from_secs(1), loaded: Duration::from_secs(4) };
/// At one that has been there for long.
const SHORT: Patience = Patience {
    seen: Duration::from_millis(200),
    light: Duration::from_millis(200),
    loaded: Duration::from_millis(1500),
};

/// Counters at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    pub at: Nanos,
    /// Packets of responses that were given a place in the order.
    pub ordered: u64,
    /// Those without a socket on this machine.
    pub no_socket: u64,
    /// All that left the interface.
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// How often somebody looked, and how often packets waited then.
    pub looks: u64,
    pub waiting: u64,
}

/// What happened between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Responses are given a place, and a queue forms where it matters or there is too little traffic for one.
    Ordered,
    /// There is nothing to judge by.
    NoTraffic,
    /// So many packets left, and none was of a response.
    NotSeen(u64),
    /// Most packets of responses, so many, are of no server on this machine.
    NoSocket(u64),
    /// The interface sends at this part of its rate, in thousandths, and nothing waits.
    NoQueue(u32),
}

impl Sample {
    fn since(&self, before: &Sample) -> Duration {
        Duration::from_nanos(self.at.0.saturating_sub(before.at.0))
    }
}

impl Verdict {
    pub fn of(before: &Sample, after: &Sample, rate: Rate) -> Verdict {
        let [ordered, no_socket, sent, looks] = [
            (after.ordered, before.ordered),
            (after.no_socket, before.no_socket),
            (after.sent_packets, before.sent_packets),
            (after.looks, before.looks),
        ]
        .map(|(after, before)| after.saturating_sub(before));
        let loaded = loaded_permille(before, after, rate);
        if no_socket >= NO_SOCKET_MIN && no_socket > ordered {
            return Verdict::NoSocket(no_socket);
        }
        if ordered == 0 {
            return if sent < SENT_MIN { Verdict::NoTraffic } else { Verdict::NotSeen(sent) };
        }
        if loaded >= LOADED_PERMILLE && looks >= LOOKS_MIN && !has_queue(before, after) {
            return Verdict::NoQueue(loaded);
        }
        Verdict::Ordered
    }

    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ordered => "ordered",
            Verdict::NoTraffic => "no traffic",
            Verdict::NotSeen(_) => "not seen",
            Verdict::NoSocket(_) => "no socket",
            Verdict::NoQueue(_) => "no queue",
        }
    }

    /// Is nothing ordered, though there is something to order?
    pub fn is_bad(self) -> bool {
        !matches!(self, Verdict::Ordered | Verdict::NoTraffic)
    }

    /// What is wrong, with the cure; `None` where nothing is.
    pub fn said(self, name: &str, settings: &Settings) -> Option<String> {
        let ports: Vec<String> = settings.ports.iter().map(u16::to_string).collect();
        let ports = ports.join(",");
        match self {
            Verdict::Ordered => None,
            Verdict::NoTraffic => Some("no traffic seen yet; `weir attach --list` tells later".to_string()),
            Verdict::NotSeen(sent) => Some(format!(
                "nothing is ordered: of {sent} packets that left, none was of a response from port {ports}; attach where the server's packets leave \
                 (not below a tunnel or a container's veth), with --port for its ports, and look for programs before weir's: `bpftool net show dev {name}`, `tc filter show dev {name} egress`"
            )),
            Verdict::NoSocket(packets) => Some(format!(
                "nothing is ordered: {packets} packets from port {ports} belong to no server on this host; where they come from a container attach inside it \
                 (`ip netns exec` or `nsenter`), where a port is redirected attach with --port for the one that the server listens on"
            )),
            Verdict::NoQueue(permille) => Some(format!(
                "nothing is ordered: no queue forms here though the interface sends at {} % of its rate: the rate is above the line's; attach again with a lower --rate",
                permille / 10
            )),
        }
    }
}

/// Did packets wait, often enough for their order to matter?
fn has_queue(before: &Sample, after: &Sample) -> bool {
    let (waiting, looks) = (after.waiting - before.waiting, after.looks - before.looks);
    waiting * 1000 >= looks * WAITING_PERMILLE
}

fn loaded_permille(before: &Sample, after: &Sample, rate: Rate) -> u32 {
    let possible = rate.bytes_in(Nanos(after.at.0.saturating_sub(before.at.0))).max(1);
    let sent = after.sent_bytes.saturating_sub(before.sent_bytes);
    u32::try_from(u128::from(sent) * 1000 / u128::from(possible)).unwrap_or(u32::MAX)
}

/// Watches a new classifier until there is a verdict: for nine seconds at most.
pub fn watch(interface: &Interface) -> Result<Verdict, Error> {
    watch_for(interface, &LONG)
}

/// Looks at one that has been there for long: for two seconds at most, and hardly at all where little is sent.
pub fn look(interface: &Interface) -> Result<Verdict, Error> {
    watch_for(interface, &SHORT)
}

fn watch_for(interface: &Interface, patience: &Patience) -> Result<Verdict, Error> {
    let Some(tree) = tree::find(interface)? else { return Ok(Verdict::NoTraffic) };
    let rate = tree.plan.rate;
    let mut looking = Looking::new(interface)?;
    // All that was counted since the attach is of the order; what was sent since is not known.
    let start = |now: Sample| Sample { ordered: 0, no_socket: 0, ..now };
    let first = start(looking.sample()?);
    loop {
        let now = looking.look()?;
        let verdict = Verdict::of(&first, &now, rate);
        match verdict {
            Verdict::Ordered | Verdict::NoQueue(_) => break,
            Verdict::NoTraffic | Verdict::NotSeen(_) if now.since(&first) <= patience.seen => {}
            _ => return Ok(verdict),
        }
    }
    let first = start(looking.sample()?);
    loop {
        let now = looking.look()?;
        let verdict = Verdict::of(&first, &now, rate);
        let is_light = loaded_permille(&first, &now, rate) < LOADED_PERMILLE || has_queue(&first, &now);
        let enough = if is_light { patience.light } else { patience.loaded };
        // A ranked tree was looked at too shortly for a queue to be missed.
        if now.since(&first) > enough || matches!(verdict, Verdict::NoSocket(_)) || tree.plan.kind == Kind::Ranked {
            return Ok(verdict);
        }
    }
}

struct Looking<'a> {
    interface: &'a Interface,
    queues: QueueWatch,
    began: Instant,
    looks: u64,
    waiting: u64,
}

impl Looking<'_> {
    fn new(interface: &Interface) -> Result<Looking<'_>, Error> {
        let queues = QueueWatch::open(&interface.name)?;
        Ok(Looking { interface, queues, began: Instant::now(), looks: 0, waiting: 0 })
    }

    fn look(&mut self) -> Result<Sample, Error> {
        sleep(LOOK_EVERY);
        self.sample()
    }

    fn sample(&mut self) -> Result<Sample, Error> {
        let name = &self.interface.name;
        let doing = format!("watching the order on {name}");
        let root = self.queues.read().map_err(|error| Error::kernel(&doing, error))?.root;
        self.looks += 1;
        self.waiting += u64::from(root.backlog_packets > 0);
        let gone = || Error::new(format!("another program took the classifier from {name}"));
        let counters = find(self.interface)?.ok_or_else(gone)?.counters;
        Ok(Sample {
            at: Nanos(self.began.elapsed().as_nanos() as u64),
            ordered: counters.bands.iter().skip(BAND_DATA_FIRST).map(|band| band.packets).sum(),
            no_socket: counters.no_socket,
            sent_packets: root.packets,
            sent_bytes: root.bytes,
            looks: self.looks,
            waiting: self.waiting,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two seconds in which 10 Mbit/s would have sent 2.5 MB.
    fn after(ordered: u64, no_socket: u64, sent_packets: u64, sent_bytes: u64, waiting: u64) -> Verdict {
        let before = Sample {
            at: Nanos::from_secs(7),
            ordered: 5,
            no_socket: 5,
            sent_packets: 5,
            sent_bytes: 5,
            looks: 5,
            waiting: 5,
        };
        let more = Sample {
            at: before.at + Nanos::from_secs(2),
            ordered: before.ordered + ordered,
            no_socket: before.no_socket + no_socket,
            sent_packets: before.sent_packets + sent_packets,
            sent_bytes: before.sent_bytes + sent_bytes,
            looks: before.looks + 100,
            waiting: before.waiting + waiting,
        };
        Verdict::of(&before, &more, "10mbit".parse().unwrap())
    }

    #[test]
    fn two_samples_tell_whether_anything_is_ordered() {
        assert_eq!(after(0, 0, 0, 0, 0), Verdict::NoTraffic);
        assert_eq!(after(0, 0, 19, 2000, 0), Verdict::NoTraffic);
        assert_eq!(after(0, 0, 20, 2000, 0), Verdict::NotSeen(20));
        assert_eq!(after(1, 0, 1000, 100_000, 0), Verdict::Ordered);
        // One that is redirected now and then is no reason, most are.
        assert_eq!(after(100, 100, 1000, 1_500_000, 50), Verdict::Ordered);
        assert_eq!(after(100, 101, 1000, 1_500_000, 50), Verdict::NoSocket(101));
        assert_eq!(after(0, 4, 4, 6000, 0), Verdict::NoTraffic);
        // A line of 8 Mbit/s below a rate of 10: nothing waits here. At the right rate something does, and at little load nothing has to.
        assert_eq!(after(1400, 0, 1400, 2_000_000, 49), Verdict::NoQueue(800));
        assert_eq!(after(1400, 0, 1400, 2_000_000, 50), Verdict::Ordered);
        assert_eq!(after(1200, 0, 1200, 1_870_000, 0), Verdict::Ordered);
        assert_eq!(after(1200, 0, 1200, 1_875_000, 0), Verdict::NoQueue(750));
    }

    #[test]
    fn few_looks_tell_nothing_of_a_queue() {
        let start = Sample::default();
        let looks = |looks| Sample {
            at: Nanos::from_secs(1),
            ordered: 900,
            sent_packets: 900,
            sent_bytes: 1_250_000,
            looks,
            ..start
        };
        let verdict = |count| Verdict::of(&start, &looks(count), "10mbit".parse().unwrap());
        assert_eq!((verdict(LOOKS_MIN - 1), verdict(LOOKS_MIN)), (Verdict::Ordered, Verdict::NoQueue(1000)));
    }
}
