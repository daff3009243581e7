//! Chooses the shaping that this machine allows, once at the start.

mod bands;
mod queue;
mod shaping_error;

use std::net::{IpAddr, SocketAddr};

use ::config::UplinkRate;
use rustix::thread::CapabilitySet;
use sched::classes::{ByClass, ClassTable};
use sched::line::{Bounds, is_fast};
use sched::policy::{ClientShare, ClientShareSpec, PolicySpec};
use sched::{Guard, Pace, Policy, Scheduler, WaitBound};
use units::wire::Framing;
use units::{Nanos, Rate};
use uplink::tree;
use uplink::{Interface, Shaper};

pub use shaping_error::{Misfit, ShapingError};

use queue::ShaperQueue;

use crate::kept_rates::KeptLine;
use crate::send::{Gauge, Marker, Raise, in_words, mbit};

/// The requested shaping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapingKind {
    /// The best one available.
    Auto,
    /// Paced at the rate of the uplink, in exact order.
    Paced,
    /// Ordered by a queueing discipline with a few priorities.
    Bands,
    /// The same as the bands, with the papers' rule: a response moves to a better band at once
    /// ([`crate::send::Raise::AtOnce`]).
    BandsAtOnce,
    /// Unpaced: as fast as sockets accept data.
    Off,
}

/// All requested shaping options.
#[derive(Debug, Clone)]
pub struct ShapingOptions {
    pub kind: ShapingKind,
    pub policy: PolicySpec,
    /// The classes of a file; their orders replace the policy.
    pub classes: Option<ClassTable>,
    pub client_share: ClientShareSpec,
    /// The share of the guard, in thousandths.
    pub guard_permille: u32,
    /// The share of the link that is kept for cross traffic in the same queue, in thousandths.
    pub cross_permille: u32,
    pub uplink: UplinkRate,
    /// Rates that were measured before.
    pub kept: Vec<KeptLine>,
}

impl ShapingOptions {
    /// The order as shown to an operator.
    fn order(&self) -> String {
        self.counted_classes().map_or(self.policy.to_string(), |classes| format!("{} in {classes}", self.policy))
    }

    /// Returns an error for an order that needs another learned index than the index of the order by size.
    fn check_indices(&self) -> Result<(), ShapingError> {
        let of_classes = self.classes.iter().flat_map(|table| &table.classes).map(|class| &class.order);
        let mut orders = of_classes.chain([self.policy.order()]).map(|order| PolicySpec::from(order.clone()));
        match orders.find(PolicySpec::needs_laboratory) {
            Some(policy) => Err(ShapingError::Policy(Misfit::OtherIndex { policy })),
            None => Ok(()),
        }
    }

    /// Returns `2 classes`, counting the classes of the file as `weir check` does.
    fn counted_classes(&self) -> Option<String> {
        let classes = self.classes.as_ref()?.classes.iter();
        let count = classes.filter(|class| class.name != ::config::OTHERS).count();
        Some(format!("{count} {}", if count == 1 { "class" } else { "classes" }))
    }
}

/// The chosen shaping.
pub struct ShapingChoice {
    pub policy: PolicySpec,
    pub classes: Option<ClassTable>,
    pub pace: Pace,
    /// The range in which the line's rate is searched while no queue below can be read; `None` unless responses are
    /// paced.
    pub bounds: Option<Bounds>,
    /// The key under which the line's rate is kept, made of interface and gateway.
    pub place: Option<String>,
    /// The link's own rate, if known; the pace may be lower.
    pub link: Option<Rate>,
    /// The way clients share the link. It applies only to an order over time, so not with shaping off.
    pub client_share: ClientShareSpec,
    pub guard_permille: u32,
    /// Reads the queue below the server, if there is one that can be read.
    pub gauge: Option<Gauge>,
    /// Marks packets, if a queueing discipline below sorts them.
    pub marker: Option<Marker>,
    /// The priority of packets that belong to no response; it is set on the listening socket.
    pub control_priority: Option<u32>,
    /// A line for the operator: the shaping, and the reason for it.
    pub why: String,
}

/// How far ahead of the link falling idle a grant is given, on links where lateness is lost time: about the duration of
/// a wake-up on a busy machine. CAKE keeps no tokens, so a late packet loses link time, and CAKE is paced at its full
/// rate.
const AHEAD: Nanos = Nanos::from_micros(300);
/// The duration of a burst at the link's rate, if the kernel orders packets. The server is woken when half of the burst
/// is left, and must act before it ends, or worse bands get the link. The bytes of a burst delay no better response;
/// they only keep their band.
const BURST_FOR: Nanos = Nanos::from_millis(4);
/// The fraction of a remembered rate that is used after a restart, in thousandths: the line may have become slower
/// meanwhile.
const KNOWN_PERMILLE: u32 = 900;
/// The number of unsent bytes at which a paced socket is full, and the minimum burst: just above two segments, with or
/// without timestamps. One segment is being sent while the next one waits; more bytes in a socket buffer could no
/// longer be overtaken.
const UNSENT_BYTES: u64 = 2 * 1460 + 1;

impl ShapingChoice {
    /// Chooses the shaping for one listening address. A part that is requested by name but not available is an error,
    /// except the pace: if its rate is unknown, it is searched.
    pub fn find(options: &ShapingOptions, listen: SocketAddr) -> Result<ShapingChoice, ShapingError> {
        options.check_indices()?;
        if options.uplink == UplinkRate::Off {
            match options.kind {
                ShapingKind::Paced => return Err(ShapingError::Policy(Misfit::Off)),
                ShapingKind::Auto => return Ok(ShapingChoice::off(options, "as requested")),
                ShapingKind::Bands | ShapingKind::BandsAtOnce | ShapingKind::Off => {}
            }
        }
        match options.kind {
            ShapingKind::Off => Ok(ShapingChoice::off(options, "as requested")),
            // Bands distinguish only a few sizes.
            ShapingKind::Auto | ShapingKind::Paced => Ok(ShapingChoice::paced(options, listen.ip())),
            // Classes need every response and its time; the kernel's queues know neither.
            ShapingKind::Bands | ShapingKind::BandsAtOnce if options.classes.is_some() => {
                Err(ShapingError::Policy(Misfit::Classes))
            }
            ShapingKind::Bands => bands::find(options, listen, Raise::WhenEmpty),
            ShapingKind::BandsAtOnce => bands::find(options, listen, Raise::AtOnce),
        }
    }

    /// Chooses the shaping for several addresses. If the kernel orders packets, it must do so for all addresses; pacing
    /// uses the first.
    pub fn find_for_all(options: &ShapingOptions, listen: &[SocketAddr]) -> Result<ShapingChoice, ShapingError> {
        let (first, others) = listen.split_first().expect("at least one address");
        let choice = ShapingChoice::find(options, *first)?;
        if choice.marker.is_none() {
            return Ok(choice);
        }
        for &other in others {
            let is_marked = ShapingChoice::find(options, other)?.marker.is_some();
            if !is_marked {
                // Only what was not requested by name can be absent.
                return Ok(ShapingChoice::paced(options, first.ip()));
            }
        }
        Ok(choice)
    }

    fn off(options: &ShapingOptions, reason: &str) -> ShapingChoice {
        ShapingChoice {
            policy: options.policy.clone(),
            classes: options.classes.clone(),
            pace: Pace::UNLIMITED,
            bounds: None,
            place: None,
            link: options.uplink.most(),
            client_share: options.client_share,
            guard_permille: options.guard_permille,
            gauge: None,
            marker: None,
            control_priority: None,
            why: match options.counted_classes() {
                None => format!("shaping off, {reason}"),
                Some(classes) => {
                    format!("shaping off, {reason}; max_concurrent_requests and max_rate of {classes} hold")
                }
            },
        }
    }

    fn paced(options: &ShapingOptions, ip: IpAddr) -> ShapingChoice {
        let policy = options.order();
        let interface = Interface::serving(ip);
        let tree = interface.as_ref().ok().and_then(|found| tree::find(found.as_ref()?).ok().flatten());
        let found = interface.as_ref().ok().cloned().flatten();
        let shaper = interface.and_then(|found| found.map_or(Ok(None), Shaper::of));
        let interface = found;
        let paced = |pace, why| {
            let pace = Pace { cross_permille: options.cross_permille, ..pace };
            ShapingChoice { pace, why, ..ShapingChoice::off(options, "") }
        };
        let uplink = options.uplink;
        let place = interface.as_ref().map(|found| place(found, ip));
        let known = place.as_ref().filter(|_| uplink == UplinkRate::Auto).and_then(|place| known(&options.kept, place));
        let (most, bounds) = (uplink.most(), bounds(uplink, known));
        let choice = match shaper {
            Ok(Some(shaper)) if is_bottleneck(shaper.rate, most) => {
                let (rate, kind, name) = (shaper.rate, &shaper.kind, &shaper.interface.name);
                let why = format!("shaping paced at {rate}, policy {policy}: {name} is shaped by {kind}");
                // With a shaper of this host below, its queue shows whether the pace is right, and no margin is needed.
                let ahead = if shaper.kind == "cake" { AHEAD } else { Nanos::ZERO };
                let queue = ShaperQueue::of(shaper, options.uplink.most());
                let gauge = Some(Gauge::new(Box::new(queue), rate, options.uplink.most()));
                let link = Some(rate);
                ShapingChoice { gauge, link, ..paced(Pace { ahead, ..Pace::of_line(rate) }, why) }
            }
            _ => {
                let missing =
                    |found| Gauge::missing(Box::new(ShaperQueue::missing(found, options.uplink.most())), most);
                let pace = Pace { rate: first_pace(bounds), ..Pace::UNKNOWN };
                let why = said(uplink, &policy) + &known.map_or(String::new(), remembered);
                ShapingChoice { gauge: interface.map(missing), link: most, ..paced(pace, why) }
            }
        };
        let choice = ShapingChoice { bounds: Some(bounds), place, ..choice };
        let Some((marker, control)) = tree.as_ref().and_then(bands::single) else { return choice };
        ShapingChoice { marker: Some(marker), control_priority: Some(control), ..choice }
    }

    /// The name by which an operator requests this shaping.
    pub fn name(&self) -> &'static str {
        match &self.marker {
            _ if self.is_paced() => "paced",
            Some(_) => "bands",
            None => "off",
        }
    }

    /// Returns true if HTTP/3 responses are ordered too, or no order was requested. The kernel cannot order HTTP/3 by
    /// marks: a client takes packets of one connection that overtake each other for lost ones, and the queued bytes of
    /// a connection cannot be told apart from those of others on the same socket.
    pub fn orders_http3(&self) -> bool {
        self.is_paced() || self.marker.is_none()
    }

    /// Returns true if the server decides which bytes are sent at which time. The rate may still be unknown.
    pub fn is_paced(&self) -> bool {
        self.bounds.is_some()
    }

    /// The capabilities that a server without root's privileges needs to mark packets.
    pub fn capabilities(&self) -> CapabilitySet {
        match &self.marker {
            // Priorities above 6, at every change of band.
            Some(_) => CapabilitySet::NET_ADMIN,
            None => CapabilitySet::empty(),
        }
    }

    /// The number of unsent bytes at which a socket is full, if that matters.
    pub fn unsent_bytes_max(&self) -> Option<u32> {
        let bytes = if self.is_paced() { UNSENT_BYTES } else { self.marker.as_ref()?.burst_bytes };
        Some(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// The maximum time that a waiting response goes without a byte; `None` if there is no guarantee, because the rate
    /// is unknown or there is no guard.
    pub fn wait_bound(&self) -> Option<WaitBound> {
        self.scheduler().wait_bound(Framing::ETHERNET)
    }

    /// The number of bytes that a client may receive ahead of its share, if clients share the link.
    pub fn client_allowance_bytes(&self) -> Option<u64> {
        // Turns are fair without an allowance.
        self.client_share().filter(|_| !self.policy.is_fair()).map(|share| share.allowance_bytes)
    }

    /// Returns true if the order depends only on the responses that are ready, so that a response that is alone needs
    /// no place in it. If clients share the link, the account of their shares is a memory.
    pub fn is_memoryless(&self) -> bool {
        let order = self.policy.build_among_clients(None);
        self.classes.is_none() && !order.follows_jobs() && !order.needs_path()
    }

    /// The guard against starvation, which applies in addition to the ranks.
    pub fn guard(&self) -> Guard {
        Guard::new(self.guard_permille)
    }

    /// The order of all responses, with classes and clients.
    pub fn policy_of_all(&self) -> Box<dyn Policy> {
        match &self.classes {
            None => self.policy.build_among_clients(self.client_share()),
            Some(table) => {
                let name = format!("{} classes", table.classes.len());
                Box::new(ByClass::new(name, &table.classes, self.client_share(), self.pace.rate))
            }
        }
    }

    /// The way clients share the link. With shaping off, responses are ordered only within a turn, so an account over
    /// time would have no effect.
    pub fn client_share(&self) -> Option<ClientShare> {
        let is_ordered = self.is_paced() || self.marker.is_some();
        self.client_share.of_link(self.link).filter(|_| is_ordered)
    }

    /// Builds the scheduler of this shaping.
    pub fn scheduler(&self) -> Scheduler {
        let scheduler = Scheduler::new(self.policy_of_all(), self.pace);
        let scheduler = match &self.classes {
            None => scheduler,
            Some(table) => scheduler.with_classes(table),
        };
        scheduler.with_guard(self.guard())
    }
}

/// Returns the key under which the line's rate is kept.
fn place(interface: &Interface, own: IpAddr) -> String {
    let gateway = interface.gateway().ok().flatten().unwrap_or(own);
    format!("{} {gateway}", interface.name)
}

fn known<'a>(kept: &'a [KeptLine], place: &str) -> Option<&'a KeptLine> {
    kept.iter().find(|line| line.place == place && line.age().is_some())
}

fn bounds(uplink: UplinkRate, known: Option<&KeptLine>) -> Bounds {
    let first = known.map(|line| line.rate.permille(KNOWN_PERMILLE));
    let bounds = uplink.bounds();
    Bounds { first: bounds.first.or(first), ..bounds }
}

/// Returns the initial pace; `None` for a rate too fast to be worth pacing, unless the rate was configured.
fn first_pace(bounds: Bounds) -> Option<Rate> {
    bounds.first.filter(|first| bounds.most.is_some() || !is_fast(*first))
}

/// The part of the start line about a remembered rate.
fn remembered(line: &KeptLine) -> String {
    let age = Nanos::from_secs(line.age().unwrap_or_default().as_secs());
    format!(", from {} found {} ago", mbit(line.rate), in_words(age))
}

/// The part of the start line about the origin of the pace.
fn said(uplink: UplinkRate, policy: &str) -> String {
    match uplink {
        UplinkRate::Told(rate) => {
            format!("shaping paced at 98 % of {rate}, policy {policy}: the rate is configured (--uplink, uplink.rate)")
        }
        UplinkRate::Between(least, most) => {
            format!(
                "shaping paced at {most}, policy {policy}: the uplink's rate is searched from {least} to {most} (--uplink)"
            )
        }
        UplinkRate::Auto | UplinkRate::Off => {
            format!("shaping paced, policy {policy}: the uplink's rate is searched (--uplink auto)")
        }
    }
}

/// Returns true if the shaper is the bottleneck. If a slower uplink elsewhere is, the shaper's queue is always empty,
/// which would suggest sending faster than that uplink can carry.
fn is_bottleneck(shaper: Rate, asked: Option<Rate>) -> bool {
    asked.is_none_or(|asked| asked >= shaper)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kind: ShapingKind, uplink: &str) -> ShapingOptions {
        ShapingOptions {
            kind,
            policy: "srpt".parse().unwrap(),
            classes: None,
            client_share: ClientShareSpec::On,
            guard_permille: 0,
            cross_permille: 500,
            uplink: uplink.parse().unwrap(),
            kept: vec![],
        }
    }

    fn find(kind: ShapingKind, uplink: &str) -> ShapingChoice {
        ShapingChoice::find(&options(kind, uplink), "127.0.0.1:0".parse().unwrap()).unwrap()
    }

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn routes_learn_one_index() {
        let of = |policy: &str| {
            let options = ShapingOptions { policy: policy.parse().unwrap(), ..options(ShapingKind::Auto, "auto") };
            ShapingChoice::find(&options, "127.0.0.1:0".parse().unwrap()).map(|choice| choice.policy.to_string())
        };
        assert_eq!(of("rank:gittins * 2").unwrap(), "rank:gittins * 2");
        let error = of("rank:mserpt").unwrap_err();
        assert!(
            error.is_usage() && error.to_string().contains("`rank:mserpt`") && error.to_string().contains("gittins")
        );
    }

    #[test]
    fn a_given_rate_is_paced_with_a_margin() {
        let choice = find(ShapingKind::Auto, "10mbit");
        let first = Some(rate("9.8mbit"));
        assert_eq!((choice.pace.rate, choice.bounds), (first, Some(Bounds { least: None, first, most: first })));
        assert_eq!((choice.link, choice.name()), (Some(rate("10mbit")), "paced"));
    }

    #[test]
    fn between_two_rates_it_begins_at_the_greater() {
        let choice = find(ShapingKind::Paced, "2mbit..20mbit");
        assert_eq!((choice.pace.rate, choice.link), (Some(rate("20mbit")), Some(rate("20mbit"))));
        assert_eq!(choice.bounds.unwrap().least, Some(rate("2mbit")));
        assert!(choice.why.contains("searched from 2mbit to 20mbit"), "{}", choice.why);
    }

    #[test]
    fn a_shaper_faster_than_the_uplink_is_not_the_bottleneck() {
        let shaper = rate("1gbit");
        assert!(is_bottleneck(shaper, None));
        assert!(is_bottleneck(shaper, Some(rate("1gbit"))) && is_bottleneck(shaper, Some(rate("2gbit"))));
        assert!(!is_bottleneck(shaper, Some(rate("999mbit"))));
    }

    /// Shaping was once off in this case, and no response overtook another.
    #[test]
    fn without_a_rate_it_is_paced_and_the_rate_is_searched() {
        for kind in [ShapingKind::Auto, ShapingKind::Paced] {
            let choice = find(kind, "auto");
            assert!(choice.is_paced() && choice.pace.rate.is_none() && choice.wait_bound().is_none());
            assert_eq!((choice.link, choice.name(), choice.bounds), (None, "paced", Some(Bounds::default())));
            let said = "shaping paced, policy srpt: the uplink's rate is searched (--uplink auto)";
            assert_eq!(choice.why, said);
        }
    }

    /// A restart does not search from nothing.
    #[test]
    fn a_rate_that_was_kept_is_begun_with() {
        let folder = crate::files::temporary::Folder::new();
        let keep = |place: &str, age_s| {
            let keeper = crate::kept_rates::Keeper::open(&folder.path("state"), None).unwrap();
            keeper.keep(place, rate("10mbit"), std::time::Duration::from_secs(age_s)).unwrap();
            let kept = crate::kept_rates::Keeper::open(&folder.path("state"), None).unwrap().lines().to_vec();
            let find = |uplink: &str| {
                let options = ShapingOptions { kept: kept.clone(), ..options(ShapingKind::Auto, uplink) };
                ShapingChoice::find(&options, "127.0.0.1:0".parse().unwrap()).unwrap()
            };
            (find("auto"), find("20mbit"))
        };
        let (choice, told) = keep("lo 127.0.0.1", 90);
        let first = Some(rate("9mbit"));
        assert_eq!((choice.pace.rate, choice.bounds), (first, Some(Bounds { first, ..Bounds::default() })));
        assert_eq!((choice.link, choice.place.as_deref()), (None, Some("lo 127.0.0.1")));
        assert!(choice.why.ends_with("(--uplink auto), from 10.0 Mbit/s found 90 s ago"), "{}", choice.why);
        assert_eq!(told.pace.rate, Some(rate("19.6mbit")), "what the operator says goes before");
        let (old, _) = keep("lo 127.0.0.1", 25 * 3600);
        assert_eq!(old.pace.rate, None);
        let (elsewhere, _) = keep("lo 192.0.2.1", 90);
        assert_eq!(elsewhere.pace.rate, None);
        let keeper = crate::kept_rates::Keeper::open(&folder.path("state"), None).unwrap();
        keeper.keep("lo 127.0.0.1", rate("10gbit"), std::time::Duration::ZERO).unwrap();
        let kept = crate::kept_rates::Keeper::open(&folder.path("state"), None).unwrap().lines().to_vec();
        let options = ShapingOptions { kept, ..options(ShapingKind::Auto, "auto") };
        let fast = ShapingChoice::find(&options, "127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!((fast.pace.rate, fast.bounds.unwrap().first), (None, Some(rate("9gbit"))), "no reason to pace");
    }

    #[test]
    fn off_is_off_whoever_says_it() {
        for (kind, uplink, link) in [
            (ShapingKind::Off, "auto", None),
            (ShapingKind::Auto, "off", None),
            (ShapingKind::Off, "10mbit", Some("10mbit")),
        ] {
            let choice = find(kind, uplink);
            assert!(!choice.is_paced() && choice.why.starts_with("shaping off"), "{}", choice.why);
            assert_eq!((choice.link, choice.name()), (link.map(rate), "off"));
        }
        let Err(error) = ShapingChoice::find(&options(ShapingKind::Paced, "off"), "127.0.0.1:0".parse().unwrap())
        else {
            panic!("paced and off")
        };
        assert!(error.is_usage() && error.to_string().contains("--uplink off"), "{error}");
    }
}
