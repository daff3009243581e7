//! Checks whether an attached classifier orders anything: draws conclusions from its counters and the tree's, and
//! watches them for a few seconds after an attach.

use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

use units::{Nanos, Rate};

use super::trips::TripWatch;
use super::{Settings, find};
use crate::constants::BAND_DATA_FIRST;
use crate::queues::QueueWatch;
use crate::tree;
use crate::{Error, Interface};

/// The minimum number of packets that count as evidence: even a quiet interface sends neighbour discovery packets.
const SENT_MIN: u64 = 20;
/// The minimum number of samples (one per [`LOOK_EVERY`]) before an always empty queue counts as evidence.
const LOOKS_MIN: u64 = 50;
/// The part of the rate, in thousandths, below which an interface may simply have little to send.
const LOADED_PERMILLE: u32 = 750;
/// The part of the samples, in thousandths, in which packets must wait. With random requests that load a link by 75 %,
/// packets wait in at least 56 % of the samples. With three downloads on 10 Mbit/s, packets waited in all samples at
/// 9.5 Mbit/s, and in 81, 70 and 23 % at 10.5, 12 and 15 Mbit/s: only round trips reveal a rate that is slightly too
/// high.
const WAITING_PERMILLE: u64 = 500;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The minimum number of lists in the last second that count as evidence about round trips.
const TRIPS_MIN: u64 = 5;
/// The minimum rise of the round trips that shows a queue in the line; jitter and delayed acknowledgements cause less.
const RISE_MIN: Nanos = Nanos::from_millis(20);
/// The factor by which the rise of the round trips must exceed the time that packets wait in the bands.
const HERE_PARTS: u64 = 2;
/// The period over which round trips are judged. It is short, because packets that waited elsewhere before the attach
/// must drain first.
const RECENT: Duration = Duration::from_secs(1);
/// The suggested rate, in thousandths of the rate that the line delivered. A rate slightly too high would lose the
/// whole order, one slightly too low costs only the difference.
const TRY_PERMILLE: u32 = 950;

/// The durations of a watch.
struct Patience {
    /// The maximum time until the first packet of a response.
    seen: Duration,
    /// The time to watch after that packet if the interface has little to send.
    light: Duration,
    /// The time to watch after that packet if the interface or a connection has much to send: at a rate slightly above
    /// the line's, the queue beyond the interface grows slowly.
    loaded: Duration,
}

/// The durations for a new classifier.
const LONG: Patience =
    Patience { seen: Duration::from_secs(5), light: Duration::from_secs(1), loaded: Duration::from_secs(4) };
/// The durations for a classifier that was attached long ago.
const SHORT: Patience = Patience {
    seen: Duration::from_millis(200),
    light: Duration::from_millis(200),
    loaded: Duration::from_millis(1500),
};

/// The counters at one point in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    pub at: Nanos,
    /// Packets of responses that were given a place in the order.
    pub ordered: u64,
    /// The packets of any kind that left the interface.
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// The number of samples. The next field counts the samples in which packets waited.
    pub looks: u64,
    pub waiting: u64,
    /// The bytes that waited, summed over all samples.
    pub waiting_bytes: u64,
    /// The number of lists of connections in which a connection had much to send.
    pub trips: u64,
    /// The sum, over those lists, of the rise of the round trips above their minima (lower quartile of the clients).
    pub rise: Nanos,
    /// The bytes that the connections delivered.
    pub delivered_bytes: u64,
}

/// The conclusion from two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Responses are ordered. A queue forms in the bands, or there is too little traffic for a queue.
    Ordered,
    /// There is too little traffic to judge.
    NoTraffic,
    /// The interface sent this many packets, but none that belonged to a response.
    NotSeen(u64),
    /// The interface sends at this part of its rate, in thousandths, but nothing waits in the bands.
    NoQueue(u32),
    /// Responses wait elsewhere: round trips rose by `rise`, and the line delivered at the rate `delivered`.
    Elsewhere { rise: Nanos, delivered: Rate, loaded_permille: u32 },
}

impl Sample {
    fn since(&self, before: &Sample) -> Duration {
        Duration::from_nanos(self.at.0.saturating_sub(before.at.0))
    }
}

impl Verdict {
    pub fn of(before: &Sample, after: &Sample, rate: Rate) -> Verdict {
        let [ordered, sent, looks] =
            [(after.ordered, before.ordered), (after.sent_packets, before.sent_packets), (after.looks, before.looks)]
                .map(|(after, before)| after.saturating_sub(before));
        let loaded = loaded_permille(before, after, rate);
        if ordered == 0 {
            return if sent < SENT_MIN { Verdict::NoTraffic } else { Verdict::NotSeen(sent) };
        }
        if loaded >= LOADED_PERMILLE && looks >= LOOKS_MIN && !has_queue(before, after) {
            return Verdict::NoQueue(loaded);
        }
        Verdict::Ordered
    }

    /// Judges the round trips of about a second. Delivered bytes are counted since `first`.
    pub fn elsewhere(first: &Sample, before: &Sample, after: &Sample, rate: Rate) -> Option<Verdict> {
        let (trips, looks) = (after.trips - before.trips, after.looks - before.looks);
        if trips < TRIPS_MIN {
            return None;
        }
        let rise = Nanos((after.rise.0 - before.rise.0) / trips);
        let here = rate.time_for((after.waiting_bytes - before.waiting_bytes) / looks.max(1));
        if rise <= RISE_MIN.max(Nanos(here.0.saturating_mul(HERE_PARTS))) {
            return None;
        }
        let ms = u64::try_from(after.since(first).as_millis()).unwrap_or(u64::MAX).max(1);
        let delivered =
            Rate::from_bits_per_s((after.delivered_bytes - first.delivered_bytes).saturating_mul(8000) / ms)?;
        Some(Verdict::Elsewhere { rise, delivered, loaded_permille: loaded_permille(before, after, rate) })
    }

    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ordered => "ordered",
            Verdict::NoTraffic => "no traffic",
            Verdict::NotSeen(_) => "not seen",
            Verdict::NoQueue(_) => "no queue",
            Verdict::Elsewhere { .. } => "queue elsewhere",
        }
    }

    /// Returns true if nothing is ordered although there is something to order.
    pub fn is_bad(self) -> bool {
        !matches!(self, Verdict::Ordered | Verdict::NoTraffic)
    }

    /// Describes the problem and its remedy; `None` if there is no problem.
    pub fn said(self, name: &str, settings: &Settings) -> Option<String> {
        let ports: Vec<String> = settings.ports.iter().map(u16::to_string).collect();
        let ports = ports.join(",");
        match self {
            Verdict::Ordered => None,
            Verdict::NoTraffic => Some("no traffic seen yet; see `weir attach --list` later".to_string()),
            Verdict::NotSeen(sent) => Some(format!(
                "nothing is ordered: of {sent} packets that left, none was of a response from port {ports}; attach where the server's packets leave \
                 (not below a tunnel or a container's veth), with --port for its ports, and look for programs before weir's: `bpftool net show dev {name}`, `tc filter show dev {name} egress`"
            )),
            Verdict::NoQueue(permille) => Some(format!(
                "nothing is ordered: no queue forms here though the interface sends at {} % of its rate: the rate is above the line's; attach again with a lower --rate",
                permille / 10
            )),
            Verdict::Elsewhere { rise, delivered, loaded_permille } => {
                // An interface with much spare capacity may have slow clients rather than a slow line.
                let or =
                    if loaded_permille < LOADED_PERMILLE { ", or the lines of these clients are slow" } else { "" };
                let tenths = (delivered.permille(TRY_PERMILLE).bits_per_s() / 100_000).max(1);
                Some(format!(
                    "nothing is ordered: no queue forms here, responses wait {} ms elsewhere: the rate is above the line's{or}; try --rate {}.{}mbit or so, by what was delivered",
                    rise.0 / 1_000_000,
                    tenths / 10,
                    tenths % 10
                ))
            }
        }
    }
}

/// Returns true if packets waited often enough for the order to matter.
fn has_queue(before: &Sample, after: &Sample) -> bool {
    let (waiting, looks) = (after.waiting - before.waiting, after.looks - before.looks);
    waiting * 1000 >= looks * WAITING_PERMILLE
}

fn loaded_permille(before: &Sample, after: &Sample, rate: Rate) -> u32 {
    let possible = rate.bytes_in(Nanos(after.at.0.saturating_sub(before.at.0))).max(1);
    let sent = after.sent_bytes.saturating_sub(before.sent_bytes);
    u32::try_from(u128::from(sent) * 1000 / u128::from(possible)).unwrap_or(u32::MAX)
}

/// Watches a new classifier until there is a verdict, for up to nine seconds.
pub fn watch(interface: &Interface) -> Result<Verdict, Error> {
    watch_for(interface, &LONG)
}

/// Checks a classifier that was attached long ago, for up to two seconds, or more briefly if little is sent.
pub fn look(interface: &Interface) -> Result<Verdict, Error> {
    watch_for(interface, &SHORT)
}

fn watch_for(interface: &Interface, patience: &Patience) -> Result<Verdict, Error> {
    let Some(tree) = tree::find(interface)? else { return Ok(Verdict::NoTraffic) };
    let rate = tree.plan.rate;
    let mut looking = Looking::new(interface)?;
    // All packets counted since the attach are in the order; the bytes sent since then are unknown.
    let start = |now: Sample| Sample { ordered: 0, ..now };
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
    let mut recent = VecDeque::from([first.clone()]);
    loop {
        let now = looking.look()?;
        while recent.len() > 1 && now.since(&recent[0]) > RECENT {
            recent.pop_front();
        }
        let verdict = Verdict::of(&first, &now, rate);
        let elsewhere = Verdict::elsewhere(&first, &recent[0], &now, rate);
        let is_light = now.trips == first.trips && loaded_permille(&first, &now, rate) < LOADED_PERMILLE;
        let enough = if is_light { patience.light } else { patience.loaded };
        if now.since(&first) > enough {
            return Ok(elsewhere.unwrap_or(verdict));
        }
        recent.push_back(now);
    }
}

struct Looking<'a> {
    interface: &'a Interface,
    queues: QueueWatch,
    trips: TripWatch,
    began: Instant,
    looks: u64,
    waiting: u64,
    waiting_bytes: u64,
}

impl Looking<'_> {
    fn new(interface: &Interface) -> Result<Looking<'_>, Error> {
        let queues = QueueWatch::open(&interface.name)?;
        let settings = find(interface)?.and_then(|attached| attached.settings);
        let trips = TripWatch::open(&settings.map(|settings| settings.ports).unwrap_or_default());
        Ok(Looking { interface, queues, trips, began: Instant::now(), looks: 0, waiting: 0, waiting_bytes: 0 })
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
        self.waiting_bytes += root.backlog_bytes;
        self.trips.look();
        let trips = &self.trips.trips;
        let gone = || Error::new(format!("another program removed the classifier of {name}"));
        let counters = find(self.interface)?.ok_or_else(gone)?.counters;
        Ok(Sample {
            at: Nanos(self.began.elapsed().as_nanos() as u64),
            ordered: counters.bands.iter().skip(BAND_DATA_FIRST).map(|band| band.packets).sum(),
            sent_packets: root.packets,
            sent_bytes: root.bytes,
            looks: self.looks,
            waiting: self.waiting,
            waiting_bytes: self.waiting_bytes,
            trips: trips.loaded,
            rise: Nanos(trips.rise_us * 1000),
            delivered_bytes: trips.delivered_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges two seconds in which 10 Mbit/s would have sent 2.5 MB.
    fn after(ordered: u64, sent_packets: u64, sent_bytes: u64, waiting: u64) -> Verdict {
        let before = Sample {
            at: Nanos::from_secs(7),
            ordered: 5,
            sent_packets: 5,
            sent_bytes: 5,
            looks: 5,
            waiting: 5,
            ..Sample::default()
        };
        let more = Sample {
            at: before.at + Nanos::from_secs(2),
            ordered: before.ordered + ordered,
            sent_packets: before.sent_packets + sent_packets,
            sent_bytes: before.sent_bytes + sent_bytes,
            looks: before.looks + 100,
            waiting: before.waiting + waiting,
            ..Sample::default()
        };
        Verdict::of(&before, &more, "10mbit".parse().unwrap())
    }

    #[test]
    fn two_samples_tell_whether_anything_is_ordered() {
        assert_eq!(after(0, 0, 0, 0), Verdict::NoTraffic);
        assert_eq!(after(0, 19, 2000, 0), Verdict::NoTraffic);
        assert_eq!(after(0, 20, 2000, 0), Verdict::NotSeen(20));
        assert_eq!(after(1, 1000, 100_000, 0), Verdict::Ordered);
        // A line of 8 Mbit/s is below a rate of 10, so nothing waits here. At the right rate something waits, and at
        // low load nothing has to.
        assert_eq!(after(1400, 1400, 2_000_000, 49), Verdict::NoQueue(800));
        assert_eq!(after(1400, 1400, 2_000_000, 50), Verdict::Ordered);
        assert_eq!(after(1200, 1200, 1_870_000, 0), Verdict::Ordered);
        assert_eq!(after(1200, 1200, 1_875_000, 0), Verdict::NoQueue(750));
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

    const TOO_HIGH: [(&str, u64, u64, u64, bool); 6] = [
        ("10500kbit", 35_040, 1063, 1_229_000, true),
        ("10500kbit", 82_190, 1568, 1_263_000, true),
        ("11mbit", 33_350, 564, 1_234_000, true),
        ("12mbit", 35_890, 733, 1_251_000, true),
        ("15mbit", 53_810, 0, 1_252_000, false),
        ("100mbit", 52_000, 0, 1_250_000, false),
    ];

    /// Judges the last second of a watch on a line of 10 Mbit/s, by the configured rate, the mean rise, the mean bytes
    /// waiting here, and the bytes sent.
    fn second(told: &str, rise_us: u64, waiting_bytes: u64, sent_bytes: u64) -> Option<Verdict> {
        let [before, after] = [1000, 2000].map(|ms| Sample {
            at: Nanos::from_millis(ms),
            sent_bytes: sent_bytes * ms / 1000,
            looks: ms / 25,
            waiting_bytes: waiting_bytes * ms / 25,
            trips: ms / 25,
            rise: Nanos(rise_us * 1000 * (ms / 25)),
            delivered_bytes: 1180 * ms,
            ..Sample::default()
        });
        Verdict::elsewhere(&Sample::default(), &before, &after, told.parse().unwrap())
    }

    /// Values measured in the set-up of docs/attach.md; above 15mbit the bytes waiting and sent are assumed.
    #[test]
    fn round_trips_tell_a_rate_above_the_line() {
        for (told, rise_us, waiting_bytes, sent_bytes) in [
            ("8mbit", 14_750, 15_320, 990_000),
            ("8mbit", 10_810, 9019, 1_002_000),
            ("9500kbit", 10_010, 8946, 1_186_000),
            ("10mbit", 9150, 8910, 1_231_000),
        ] {
            assert_eq!(second(told, rise_us, waiting_bytes, sent_bytes), None, "{told}");
        }
        for (told, rise_us, waiting_bytes, sent_bytes, is_sure) in TOO_HIGH {
            let verdict = second(told, rise_us, waiting_bytes, sent_bytes);
            let delivered = Rate::from_bits_per_s(9_440_000).unwrap();
            let loaded_permille = match verdict {
                Some(Verdict::Elsewhere { loaded_permille, .. }) => loaded_permille,
                _ => panic!("{told}: {verdict:?}"),
            };
            let rise = Nanos(rise_us * 1000);
            assert_eq!(verdict, Some(Verdict::Elsewhere { rise, delivered, loaded_permille }), "{told}");
            assert_eq!(loaded_permille >= LOADED_PERMILLE, is_sure, "{told}");
        }
    }

    #[test]
    fn what_waits_here_explains_round_trips() {
        // The bytes waiting here are 50 ms of the line.
        assert_eq!(second("10mbit", 100_000, 62_500, 1_250_000), None);
        assert!(second("10mbit", 100_001, 62_500, 1_250_000).is_some());
        assert_eq!(second("10mbit", 20_000, 0, 1_250_000), None);
        assert!(second("10mbit", 20_001, 0, 1_250_000).is_some());
        // There are too few lists.
        let after =
            |trips| Sample { trips, looks: 9, rise: Nanos::from_secs(trips), delivered_bytes: 9, ..Sample::default() };
        let verdict = |trips| {
            Verdict::elsewhere(&Sample::default(), &Sample::default(), &after(trips), "10mbit".parse().unwrap())
        };
        assert!(verdict(TRIPS_MIN - 1).is_none() && verdict(TRIPS_MIN).is_some());
    }
}
