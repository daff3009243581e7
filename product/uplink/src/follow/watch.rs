//! Reads the kernel for the follower of a line, and sets the bands to the follower's pace.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use sched::line::{Bounds, Change, Status, is_fast};
use units::{Nanos, Rate};

use super::changing;
use super::drops::Drops;
use super::follower::{Follower, Sight, Tally};
use super::waits::Waits;
use crate::classify::ForwardedWatch;
use crate::connections::padded;
use crate::device::{Device, links, uppers};
use crate::interface::addresses;
use crate::netlink::Socket;
use crate::tc::{self, Counted, TC_H_ROOT};
use crate::tree;
use crate::{Connection, EndWatch, Error, Interface, SenderWatch};

/// The interval between sights while bytes are sent or in flight. It is the estimator's shortest interval.
const SEE_EVERY: Duration = Duration::from_millis(25);
/// The interval while no bytes are sent or in flight.
const IDLE_EVERY: Duration = Duration::from_millis(100);
/// The divisor that limits the time spent on listing connections to a fraction of all time.
const COST_PARTS: u32 = 20;
/// The divisor that limits how much the usual time of a list grows with each list that takes longer.
const USUAL_PARTS: u32 = 16;
/// The interval between checks of this host's addresses and of its classifier.
const ADDRESSES_EVERY: Duration = Duration::from_secs(10);
/// The interval between checks of the device's speed, which changes when the carrier appears or the speed is
/// renegotiated.
const SPEED_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of connections in a list. Any others are left out.
const CONNECTIONS_MAX: usize = 1 << 16;
/// The time for which connections are listed after the last packet has left: the round trip of the longest path.
const LINGER: Duration = Duration::from_secs(1);
/// The rate of bands that are not to limit anything, if the device reports no speed.
const OPEN: &str = "10gbit";
/// The part of the line's rate, in thousandths, to which a follower sets the bands when it ends. The next constant is
/// the part below which the pace has not settled.
const LEFT_PERMILLE: u32 = 985;
const SETTLED_PERMILLE: u32 = 900;
/// The part of the rate found, in thousandths, to which the bands are set during a trial. The last rise may have
/// exceeded the line by 8 %, and a queue that a period without the order leaves there must empty within seconds.
const HELD_PERMILLE: u32 = 920;

/// The outcome of one turn of the follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Nothing,
    /// The bands have another rate now.
    Changed(Change),
    /// The tree is gone, or has a rate that the follower did not set.
    Lost,
}

/// Follows the line of an interface that has a tree of bands.
pub struct LineWatch {
    interface: Interface,
    follower: Follower,
    began: Instant,
    next: Instant,
    route: Socket,
    senders: SenderWatch,
    /// Reports of connections that end; `None` on kernels without such reports.
    ends: Option<EndWatch>,
    /// The forwarded flows; `None` unless a classifier that sees them is attached.
    forwarded: Option<ForwardedWatch>,
    elsewhere: Elsewhere,
    left: Left,
    rates: Rates,
    usual: Usual,
}

/// The usual time of a list: the shortest recent one.
#[derive(Debug, Default)]
struct Usual(Duration);

impl Usual {
    /// Records the time that a list took. Returns by how much it exceeded twice the usual time.
    fn excess(&mut self, took: Duration) -> Duration {
        self.0 = if self.0.is_zero() { took } else { took.min(self.0 + self.0 / USUAL_PARTS) };
        took.saturating_sub(2 * self.0)
    }
}

/// Counters of the whole tree and of the response queues.
struct Bands {
    all: Counted,
    responses: Counted,
}

/// The rates of the bands.
struct Rates {
    /// The rate used until the line's rate is known; also the maximum.
    open: Rate,
    open_at: Instant,
    /// The rate at which the search started.
    begun: Rate,
    now: Rate,
    /// The rate for which the packet size is limited.
    packets_for: Rate,
}

/// The counters of the bands: the bytes that have left them, summed across rebuilt trees, the bytes that they have dropped,
/// and the waits in them.
#[derive(Default)]
struct Left {
    counter: u64,
    bytes: u64,
    drops: Drops,
    waits: Waits,
    changed_at: Option<Instant>,
}

/// The addresses by which connections that do not send through the interface are recognised.
struct Elsewhere {
    read_at: Instant,
    /// The addresses of other interfaces. The next field has those of all interfaces.
    others: HashSet<[u8; 16]>,
    all: HashSet<[u8; 16]>,
}

/// Returns the rate of bands that limit nothing at this interface.
pub fn open_rate(interface: &Interface) -> Result<Rate, Error> {
    let device = Device::of(interface).map_err(|error| Error::kernel(&format!("reading {}", interface.name), error))?;
    let most: Rate = OPEN.parse().expect("a rate");
    Ok(device.and_then(|device| device.speed).unwrap_or(most))
}

/// Fails if this kernel cannot list connections, because no rate can be found without such lists.
pub fn can_follow() -> Result<(), Error> {
    senders().map(drop)
}

fn senders() -> Result<SenderWatch, Error> {
    let listed = SenderWatch::open_all().and_then(|mut senders| senders.read(|_| ()).map(|_| senders));
    listed.map_err(|error| {
        let cure = "weir does not find the line's rate without the kernel's list of TCP connections (module tcp_diag): give --rate RATE";
        Error::other(cure.to_string(), error)
    })
}

impl LineWatch {
    /// Starts the search at the rate of the bands, or without a first guess if the bands are open. If an earlier
    /// follower knew the line's rate and was killed while it drained the line's queue, the bands have half of that rate
    /// or less, and are first set back to it.
    pub fn open(interface: &Interface, known: Option<Rate>) -> Result<LineWatch, Error> {
        let missing = || Error::new(format!("another program removed the bands of {}: run this again", interface.name));
        let left_at = tree::find(interface)?.ok_or_else(missing)?.plan.rate;
        let open = open_rate(interface)?;
        let cut_short = known.filter(|line| left_at < line.permille(SETTLED_PERMILLE));
        let now = cut_short.map_or(left_at, |line| line.permille(LEFT_PERMILLE).min(open));
        if now != left_at && !tree::change_rate(interface, left_at, now, None)? {
            return Err(missing());
        }
        let first = Some(now).filter(|now| *now < open);
        let kernel = |error: io::Error| Error::kernel(&format!("following the line of {}", interface.name), error);
        let bounds = Bounds { least: None, first, most: Some(open) };
        let senders = senders()?;
        let instant = Instant::now();
        Ok(LineWatch {
            follower: Follower::new(bounds),
            began: instant,
            next: instant,
            route: Socket::open().map_err(kernel)?,
            senders,
            ends: EndWatch::open().ok(),
            forwarded: ForwardedWatch::open(interface)?,
            elsewhere: Elsewhere::read(interface).map_err(kernel)?,
            left: Left::default(),
            rates: Rates { open, open_at: instant, begun: now, now, packets_for: now },
            usual: Usual::default(),
            interface: interface.clone(),
        })
    }

    pub fn status(&self) -> Status {
        self.follower.status(self.now())
    }

    pub fn tally(&self) -> Tally {
        self.follower.tally()
    }

    /// Returns which percentage of the bytes that left recently is known only to have left; `None` if it is small.
    pub fn unseen_percent(&self) -> Option<u64> {
        self.follower.unseen_percent()
    }

    /// Returns the rate of the bands.
    pub fn rate(&self) -> Rate {
        self.rates.now
    }

    /// Returns true if the bands' rate is so high that they order nothing.
    pub fn is_open(&self) -> bool {
        self.rates.now >= self.rates.open
    }

    /// Returns true if another program has changed the bands' rate.
    pub fn is_overtaken(&self) -> bool {
        matches!(tree::find(&self.interface), Ok(Some(tree)) if !tree::is_rate(tree.plan.rate, self.rates.now))
    }

    /// Returns the instant of the next turn.
    pub fn next(&self) -> Instant {
        self.next
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Takes a turn, if one is due.
    pub fn turn(&mut self) -> Result<Turn, Error> {
        let due = self.next;
        if Instant::now() < due {
            return Ok(Turn::Nothing);
        }
        self.next = Instant::now() + SEE_EVERY;
        let kernel = |error: io::Error| Error::kernel("following the line", error);
        let Some(Bands { all: before, .. }) = self.bands().map_err(kernel)? else { return Ok(Turn::Lost) };
        if self.rates.open_at.elapsed() >= SPEED_EVERY && !self.look_at_speed()? {
            return Ok(Turn::Lost);
        }
        let is_busy = self.left.count(before.bytes) || before.backlog_packets > 0;
        if !is_busy && self.left.is_quiet() {
            self.next = Instant::now() + IDLE_EVERY;
            let change = self.follower.rest(self.now(), self.left.bytes);
            return self.apply(change);
        }
        let began = Instant::now();
        let late = began - due;
        let (connections, ended) = self.listed().map_err(kernel)?;
        let put_bytes = self.forwarded.as_ref().map_or(0, ForwardedWatch::put_bytes);
        let Some(Bands { all: after, responses }) = self.bands().map_err(kernel)? else { return Ok(Turn::Lost) };
        let now = self.now();
        self.next = began + SEE_EVERY.max(began.elapsed() * COST_PARTS);
        self.left.count(after.bytes);
        let late = late + self.usual.excess(began.elapsed());
        let sight = Sight {
            left_bytes: self.left.bytes,
            waiting_bytes: before.backlog_bytes.midpoint(after.backlog_bytes),
            dropped_bytes: self.left.drops.see(put_bytes, &responses),
            late: Nanos(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)),
            connections: &connections,
            ended: &ended,
        };
        let change = self.follower.see(now, &sight);
        self.apply(change)
    }

    /// Sets the bands to the rate to keep after this follower ends, whether or not another one takes over.
    pub fn leave(&mut self) -> Result<(), Error> {
        let now = self.rates.now;
        match self.status().rate {
            Some(line) if now < line.permille(SETTLED_PERMILLE) => self.set(line.permille(LEFT_PERMILLE)).map(drop),
            // The first probe was under way.
            None if now < self.rates.begun => self.set(self.rates.begun).map(drop),
            _ => Ok(()),
        }
    }

    /// Sets the bands to the rate for a trial of the order. The line is not followed during the trial.
    pub fn hold(&mut self) -> Result<(), Error> {
        self.status().rate.map_or(Ok(()), |line| self.set(line.permille(HELD_PERMILLE)).map(drop))
    }

    /// Keeps the bands at the device's speed while they are open, and below it otherwise. Returns false if the bands
    /// are lost.
    fn look_at_speed(&mut self) -> Result<bool, Error> {
        let was_open = self.is_open();
        self.rates.open = open_rate(&self.interface)?;
        self.rates.open_at = Instant::now();
        self.set(if was_open { self.rates.open } else { self.rates.now })
    }

    fn apply(&mut self, change: Option<Change>) -> Result<Turn, Error> {
        let Some(change) = change else { return Ok(Turn::Nothing) };
        // On a line as fast as a core, an order gains nothing and bands cost much.
        let pace = change.pace.filter(|pace| !is_fast(self.status().rate.unwrap_or(*pace)));
        let is_set = self.set(pace.unwrap_or(self.rates.open))?;
        Ok(if is_set { Turn::Changed(change) } else { Turn::Lost })
    }

    fn set(&mut self, rate: Rate) -> Result<bool, Error> {
        let rate = rate.min(self.rates.open);
        if rate == self.rates.now {
            return Ok(true);
        }
        let line = self.status().rate.filter(|_| rate < self.rates.open).unwrap_or(rate);
        let is_other = line > self.rates.packets_for.permille(1250) || line < self.rates.packets_for.permille(800);
        let _changing = changing(&self.interface)?;
        let is_set = tree::change_rate(&self.interface, self.rates.now, rate, is_other.then_some(line))?;
        if is_set {
            self.rates.now = rate;
            self.rates.packets_for = if is_other { line } else { self.rates.packets_for };
        }
        Ok(is_set)
    }

    /// Returns the counters of the tree; `None` if another discipline is there or the interface is gone.
    fn bands(&mut self) -> io::Result<Option<Bands>> {
        let qdiscs = tc::qdiscs(&mut self.route, self.interface.index)?;
        let root = qdiscs.iter().find(|qdisc| qdisc.parent == TC_H_ROOT && tree::is_root(qdisc));
        let queues = qdiscs.iter().filter(|qdisc| tree::is_response_queue(qdisc));
        self.left.waits.see(self.now(), queues.clone().map(|queue| (queue.parent, queue.counted)));
        let responses = queues.map(|queue| queue.counted).fold(Counted::default(), Counted::plus);
        Ok(root.map(|root| Bands { all: root.counted, responses }))
    }

    /// Lists the connections that may be sending through the interface, and those that have ended.
    fn listed(&mut self) -> io::Result<(Vec<Connection>, Vec<Connection>)> {
        if self.elsewhere.read_at.elapsed() >= ADDRESSES_EVERY {
            self.elsewhere = Elsewhere::read(&self.interface)?;
            // Another program may have another table. While there is none, the last table shows nothing.
            if let Ok(Some(forwarded)) = ForwardedWatch::open(&self.interface) {
                self.forwarded = Some(forwarded);
            }
        }
        let (mut connections, mut ended) = (Vec::new(), Vec::new());
        let elsewhere = &self.elsewhere;
        let keep = |list: &mut Vec<Connection>, connection: Connection| {
            if list.len() < CONNECTIONS_MAX && !elsewhere.has(&connection) {
                list.push(connection);
            }
        };
        if let Some(ends) = &mut self.ends {
            ends.read(|connection| keep(&mut ended, connection))?;
        }
        self.senders.read(|connection| keep(&mut connections, connection))?;
        if let Some(forwarded) = &self.forwarded {
            forwarded.read(&self.left.waits, |connection| keep(&mut connections, connection));
        }
        Ok((connections, ended))
    }
}

impl Left {
    /// Records a reading of the counter. Returns true if bytes have left since the last reading.
    fn count(&mut self, counter: u64) -> bool {
        // The counter of a new tree begins at zero.
        let more = counter.checked_sub(self.counter).unwrap_or(counter);
        self.counter = counter;
        self.bytes += more;
        if more > 0 {
            self.changed_at = Some(Instant::now());
        }
        more > 0
    }

    fn is_quiet(&self) -> bool {
        self.changed_at.is_none_or(|at| at.elapsed() > LINGER)
    }
}

impl Elsewhere {
    fn read(interface: &Interface) -> io::Result<Elsewhere> {
        let uppers: Vec<u32> = uppers(&links()?, interface).iter().map(|upper| upper.index).collect();
        let found = addresses()?;
        let is_other = |(index, address): &&(u32, std::net::IpAddr)| {
            // An address on the loopback interface outside the loopback range may answer from any interface.
            *index != interface.index && !uppers.contains(index) && (*index != LOOPBACK || address.is_loopback())
        };
        Ok(Elsewhere {
            read_at: Instant::now(),
            others: found.iter().filter(is_other).map(|(_, address)| padded(*address)).collect(),
            all: found.iter().map(|(_, address)| padded(*address)).collect(),
        })
    }

    /// Returns true if the connection is local to this host, or has an address of another interface.
    fn has(&self, connection: &Connection) -> bool {
        let is_loopback = !connection.is_ipv6 && connection.client[0] == 127;
        is_loopback || self.all.contains(&connection.client) || self.others.contains(&connection.own)
    }
}

/// The number of loopback in every namespace.
const LOOPBACK: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;
    use crate::testing::{in_own_network, run};
    use crate::tree::{Kind, Plan};

    #[test]
    fn open_bands_have_the_speed_of_the_device() {
        in_own_network(|| {
            run("ip tuntap add weir0 mode tap");
            let open = || open_rate(&Interface::by_name("weir0").unwrap()).unwrap().to_string();
            for (mbit, rate) in [(25_000, "25gbit"), (100, "100mbit")] {
                run(&format!("ethtool -s weir0 speed {mbit}"));
                assert_eq!(open(), rate);
            }
            assert_eq!(open_rate(&Interface::by_name("lo").unwrap()).unwrap().to_string(), OPEN);
        });
    }

    /// The kernel keeps whole bytes per second.
    #[test]
    fn only_another_rate_overtakes_a_follower() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip link set weir0 up");
            let interface = Interface::by_name("weir0").unwrap();
            let rate: Rate = Rate::from_bits_per_s(8_558_675).unwrap();
            tree::up(&interface, &Plan::new(Kind::Htb, "5mbit".parse().unwrap()), false).unwrap();
            let mut watch = LineWatch::open(&interface, None).unwrap();
            assert!(watch.set(rate).unwrap() && !watch.is_overtaken());
            assert!(tree::change_rate(&interface, rate, "8mbit".parse().unwrap(), None).unwrap());
            assert!(watch.is_overtaken());
        });
    }

    #[test]
    fn a_follower_that_ends_during_its_first_probe_leaves_the_bands_open() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip link set weir0 up");
            let interface = Interface::by_name("weir0").unwrap();
            let open = open_rate(&interface).unwrap();
            tree::up(&interface, &Plan::new(Kind::Htb, open), false).unwrap();
            let mut watch = LineWatch::open(&interface, None).unwrap();
            assert!(watch.set("5mbit".parse().unwrap()).unwrap() && !watch.is_open());
            watch.leave().unwrap();
            assert!(tree::is_rate(tree::find(&interface).unwrap().unwrap().plan.rate, open));
        });
    }

    /// The kernel counts packets that it drops, whatever their size.
    #[test]
    fn what_the_bands_drop_is_known_in_bytes() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip link set weir1 up");
            run("ip link set weir0 up");
            run("ip address add 198.18.0.1/24 dev weir0");
            run("ip neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev weir0");
            let interface = Interface::by_name("weir0").unwrap();
            classify::attach(&interface, &wanted()).unwrap();
            let mut watch = LineWatch::open(&interface, None).unwrap();
            let mut look = |drops: &mut Drops| {
                let put_bytes = watch.forwarded.as_ref().unwrap().put_bytes();
                let Bands { responses, .. } = watch.bands().unwrap().unwrap();
                (put_bytes, responses, drops.see(put_bytes, &responses))
            };
            let mut drops = Drops::default();
            assert_eq!(look(&mut drops).2, 0);
            let socket = std::net::UdpSocket::bind("198.18.0.1:8000").unwrap();
            // Packets shorter than TCP's headers are not read.
            let sizes = 12..=311;
            for bytes in sizes.clone() {
                socket.send_to(&vec![0; bytes], "198.18.0.2:9").unwrap();
            }
            let heads = 14 + 20 + 8;
            let sent: u64 = sizes.map(|bytes| bytes as u64 + heads).sum();
            let (put_bytes, responses, dropped) = look(&mut drops);
            assert!(responses.drops > 100, "{responses:?}");
            assert_eq!((put_bytes, dropped), (sent, sent - responses.bytes - responses.backlog_bytes), "{responses:?}");
        });
    }

    fn wanted() -> classify::Classify {
        classify::Classify {
            ports: vec![8000],
            policy: classify::Policy::Psjf,
            cuts: classify::Cuts::Given(vec![2000, 100_000]),
            rate: Some("64kbit".parse().unwrap()),
            is_followed: true,
            has_uploads: false,
            overhead: None,
            replace: false,
            clients: None,
            classes: classify::Classes::default(),
        }
    }
}
