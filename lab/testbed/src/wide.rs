//! Wide-area paths of groups of clients: a namespace between the bottleneck and the clients, and in it one device for each
//! path (netem at both its ends), or one for all of them (our own link, a process between two TUN devices).
//!
//! They stand behind the bottleneck, so that the server's shaper and queue stay what they are. Which path a packet takes is
//! decided by routes, from the client's address; groups without delay, loss or rate pass by on the plain cable.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wan::{Conditions, Group, Way};

use crate::namespace::{Namespace, Place};
use crate::program::{POLL_EVERY, Program};
use crate::{ClientGroup, Interrupt, LabError, Wan, machine, tool};

/// The device of our own link, at both ends; netem's have the group's number behind it.
const DEVICE: &str = "wide";
/// Packets that may wait for our link's process to read them: at 200 Mbit/s more than half a second.
const DEVICE_PACKETS: u32 = 10_000;
/// Packets netem may hold: as many as our own link.
const NETEM_PACKETS: usize = wan::PACKETS_MAX;
/// The routing table of the first path; others follow.
const FIRST_TABLE: usize = 100;
/// How long our link may take to begin.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// What it says when it has begun.
const READY: &str = "carrying packets";

/// By what the paths of a link are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    Netem,
    Own,
}

/// Where the paths are.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Between the bottleneck and the clients.
    pub namespace: Namespace,
    means: Means,
    /// Those that are not plain, with their number among the groups.
    groups: Vec<(usize, ClientGroup)>,
}

/// The process of our own link. Dropping it ends it.
#[derive(Debug)]
pub struct Wide {
    program: Program,
    log: PathBuf,
}

impl Means {
    pub fn name(self) -> &'static str {
        match self {
            Means::Netem => "netem",
            Means::Own => "own",
        }
    }
}

impl Paths {
    /// `None` where every group is plain, or there is none.
    pub fn new<'a>(
        groups: impl Iterator<Item = &'a ClientGroup>,
        asked: Wan,
        create: impl FnOnce() -> Result<Namespace, LabError>,
    ) -> Result<Option<Paths>, LabError> {
        let groups: Vec<_> =
            groups.enumerate().filter(|(_, group)| !group.path.is_plain()).map(|(at, g)| (at, g.clone())).collect();
        if groups.is_empty() {
            return Ok(None);
        }
        let namespace = create()?;
        let means = match asked {
            Wan::Own => Means::Own,
            Wan::Netem => Means::Netem,
            Wan::Auto if groups.iter().any(|(_, group)| is_ordered_jitter(group)) => Means::Own,
            Wan::Auto if has_netem(&namespace) => Means::Netem,
            Wan::Auto => Means::Own,
        };
        Ok(Some(Paths { namespace, means, groups }))
    }

    pub fn means(&self) -> Means {
        self.means
    }

    /// The groups that have a path here, for the manifest.
    pub fn describe(&self) -> String {
        self.groups.iter().map(|(index, group)| as_group(*index, group).to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Builds the devices and routes between this namespace and the clients'.
    pub fn build(&self, client: &str) -> Result<(), LabError> {
        for command in self.commands(client) {
            tool::run(&command).map_err(|cause| match self.means {
                Means::Netem => LabError::Qdisc { name: "netem", cause: Box::new(cause) },
                Means::Own => cause,
            })?;
        }
        Ok(())
    }

    /// Starts our own link, if these paths are its; its log is in `folder`.
    pub fn start(
        &self,
        client: &Namespace,
        weirlab: &Path,
        seed: u64,
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Option<Wide>, LabError> {
        if self.means == Means::Netem {
            return Ok(None);
        }
        let mut command = vec![weirlab.display().to_string(), "link".into()];
        command.extend(["--client-namespace".into(), client.name().into(), "--client-device".into(), DEVICE.into()]);
        command.extend(["--device".into(), DEVICE.into(), "--seed".into(), seed.to_string()]);
        for (index, group) in &self.groups {
            command.extend(["--group".into(), as_group(*index, group).to_string()]);
        }
        Wide::start(Place::In(&self.namespace), &command, &folder.join("wide.log"), interrupt).map(Some)
    }

    /// What netem counted, as `tc` prints it.
    pub fn netem_counters(&self) -> Result<Option<String>, LabError> {
        match self.means {
            Means::Own => Ok(None),
            Means::Netem => tool::run(&format!("tc -n {} -s qdisc show", self.namespace.name())).map(Some),
        }
    }

    fn commands(&self, client: &str) -> Vec<String> {
        let wan = self.namespace.name();
        match self.means {
            Means::Own => own_commands(wan, client, &self.groups),
            Means::Netem => {
                self.groups.iter().flat_map(|(at, group)| netem_commands(wan, client, *at, group)).collect()
            }
        }
    }
}

impl Wide {
    /// Starts `weirlab link`, to wake up as punctually as the load, and waits until it carries packets.
    pub(crate) fn start(
        place: Place<'_>,
        command: &[String],
        log: &Path,
        interrupt: &Interrupt,
    ) -> Result<Wide, LabError> {
        let words = [machine::punctual_prefix().as_slice(), command].concat();
        let mut wide = Wide { program: Program::start(place, "weirlab link", &words, log)?, log: log.into() };
        wide.await_ready(interrupt)?;
        Ok(wide)
    }

    /// An error if it has ended.
    pub fn check_running(&mut self) -> Result<(), LabError> {
        self.program.check_running()
    }

    /// Ends it and gives what it counted, as JSON.
    pub fn finish(self) -> Result<String, LabError> {
        let Wide { program, log } = self;
        drop(program);
        let text = std::fs::read_to_string(&log).map_err(|e| LabError::path(&log, e))?;
        let counted = text.lines().rfind(|line| line.starts_with('{')).map(str::to_owned);
        counted.ok_or_else(|| LabError::Output {
            what: format!("what weirlab link wrote to {}", log.display()),
            reason: "it counted nothing".into(),
        })
    }

    fn await_ready(&mut self, interrupt: &Interrupt) -> Result<(), LabError> {
        let began = Instant::now();
        while !std::fs::read_to_string(&self.log).is_ok_and(|text| text.contains(READY)) {
            interrupt.check()?;
            self.program.check_running()?;
            if began.elapsed() > READY_WITHIN {
                return Err(self.program.failed("did not begin in time"));
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }
}

fn as_group(index: usize, group: &ClientGroup) -> Group {
    Group { name: group.name.clone(), prefix: ClientGroup::prefix(index), path: group.path }
}

/// netem cannot keep the order of each connection: it lets all packets overtake, or holds back whatever comes after one that is
/// delayed, whoever's it is: at 800 packets a second a path of 100 ms with 20 of normal jitter becomes one of 128 with 11.
fn is_ordered_jitter(group: &ClientGroup) -> bool {
    group.path.jitter.0 > 0 && !group.path.reorder
}

/// No list of what a kernel offers is as sure as the attempt.
pub(crate) fn has_netem(namespace: &Namespace) -> bool {
    let name = namespace.name();
    tool::run(&format!("tc -n {name} qdisc add dev lo root netem delay 1ms")).is_ok()
        && tool::run(&format!("tc -n {name} qdisc del dev lo root")).is_ok()
}

/// One pair of TUN devices; the process between them tells the groups apart.
fn own_commands(wan: &str, client: &str, groups: &[(usize, ClientGroup)]) -> Vec<String> {
    let mut commands = vec![];
    for side in [wan, client] {
        commands.push(format!("ip -n {side} tuntap add dev {DEVICE} mode tun"));
        commands.push(format!("ip -n {side} link set dev {DEVICE} mtu 1500 txqueuelen {DEVICE_PACKETS} up"));
    }
    for &(index, _) in groups {
        commands.push(format!("ip -n {wan} route add {} dev {DEVICE}", ClientGroup::prefix(index)));
        commands.extend(addresses(client, DEVICE, index, 32));
        commands.extend(source_route(client, index, &format!("dev {DEVICE}")));
    }
    commands
}

/// A cable for the group, with netem at both ends.
fn netem_commands(wan: &str, client: &str, index: usize, group: &ClientGroup) -> Vec<String> {
    let device = format!("{DEVICE}{index}");
    let gateway = ClientGroup::gateway(index);
    let mut commands =
        vec![format!("ip link add {device} mtu 1500 netns {wan} type veth peer name {device} mtu 1500 netns {client}")];
    commands.push(format!("ip -n {wan} address add {gateway}/24 dev {device}"));
    commands.extend(addresses(client, &device, index, 24));
    for (side, way) in [(wan, Way::ToClient), (client, Way::ToServer)] {
        commands.push(format!("ip netns exec {side} ethtool -K {device} tso off gso off gro off lro off"));
        commands.push(format!("ip -n {side} link set dev {device} up"));
        let conditions = group.path.one_way(way);
        if !conditions.is_plain() {
            commands.push(format!("tc -n {side} qdisc add dev {device} root {}", netem(conditions)));
        }
    }
    commands.extend(source_route(client, index, &format!("via {gateway} dev {device}")));
    commands
}

/// The words that make netem do this.
fn netem(conditions: Conditions) -> String {
    let Conditions { delay, jitter, shape, loss, rate, reorder } = conditions;
    let limit = rate.map_or(NETEM_PACKETS, |rate| {
        let in_flight = rate.bytes_in(conditions.delay_max()) / 1514;
        wan::RATE_QUEUE_PACKETS + usize::try_from(in_flight).unwrap_or(NETEM_PACKETS)
    });
    let mut words = format!("netem limit {} delay {}us", limit.min(NETEM_PACKETS), delay.0 / 1000);
    if jitter.0 > 0 {
        words += &format!(" {}us", jitter.0 / 1000);
        // Its own without a name is uniform.
        if shape != wan::Shape::Uniform {
            words += &format!(" distribution {}", shape.name());
        }
    }
    if loss > 0.0 {
        words += &format!(" loss random {}%", loss * 100.0);
    }
    match rate {
        Some(rate) => words += &format!(" rate {}bit", rate.bits_per_s()),
        // With a rate it keeps the order, so one that is far above any here.
        None if jitter.0 > 0 && !reorder => words += " rate 100gbit",
        None => {}
    }
    words
}

fn addresses(client: &str, device: &str, index: usize, bits: u32) -> impl Iterator<Item = String> {
    let add = move |address: Ipv4Addr| format!("ip -n {client} address add {address}/{bits} dev {device}");
    ClientGroup::addresses(index).map(add)
}

/// What the group's clients send takes the group's path.
fn source_route(client: &str, index: usize, to: &str) -> [String; 2] {
    let table = FIRST_TABLE + index;
    [
        format!("ip -n {client} route add default {to} table {table}"),
        format!("ip -n {client} rule add from {} lookup {table}", ClientGroup::prefix(index)),
    ]
}
