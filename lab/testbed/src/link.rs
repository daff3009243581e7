//! The link under test: server and client in a namespace each, a cable between them, a bottleneck on the server's
//! egress. Everything that could differ from machine to machine is set here and recorded in the manifest.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use uplink::congestion;

use crate::bottleneck::{attach_command, build_commands, weir_words};
use crate::limits::KernelLimits;
use crate::line::{self, Changes};
use crate::namespace::{Namespace, Place};
use crate::neighbour::{self, At, Transfers};
use crate::wide::{Paths, Wide};
use crate::wire::Wire;
use crate::{ClientGroup, Counters, Experiment, Interrupt, LabError, Network, RunSpec, tool};

/// Every cable's two addresses are from the block set aside for benchmarks, 198.18.0.0/15 (RFC 2544, RFC 6890): four
/// addresses for each, from the server on.
fn cable_addresses(cable: u8) -> [Ipv4Addr; 2] {
    [1, 2].map(|end| Ipv4Addr::new(198, 18, 0, 4 * cable + end))
}

/// The cable has the same name at both ends, since each end is alone in its namespace.
const DEVICE: &str = "cable";
/// The router's end of its cable to the client.
const FAR_DEVICE: &str = "far";
const MTU_BYTES: u64 = 1500;

/// A built link. Dropping it removes both namespaces, and with them the cable and the bottleneck.
#[derive(Debug)]
pub struct Link {
    /// The `weir` whose tree is the bottleneck: it takes it down again, since a BPF qdisc outlives its device.
    tree_of: Option<PathBuf>,
    server: Namespace,
    client: Namespace,
    /// Where the bottleneck is, if not at the server.
    router: Option<Namespace>,
    /// What serialises behind the bottleneck; none where the experiment leaves it out.
    wire: Option<Wire>,
    /// Wide-area paths between the bottleneck and the clients, if there are any.
    paths: Option<Paths>,
    /// Other hosts behind the router; none for a neighbour at the server's.
    neighbours: Vec<Option<Namespace>>,
    limits: KernelLimits,
}

/// One end of a cable.
#[derive(Clone, Copy)]
struct End<'a> {
    side: &'a str,
    device: &'a str,
    address: Ipv4Addr,
}

impl Link {
    /// Builds the link that a run of an experiment asks for (needs root); `weir` is our program, for its trees.
    pub fn build(experiment: &Experiment, spec: &RunSpec, weir: Option<&Path>) -> Result<Link, LabError> {
        let is_routed = experiment.network == Network::Router;
        let router = if is_routed { Some(Namespace::create("router")?) } else { None };
        let (server, client) = (Namespace::create("server")?, Namespace::create("client")?);
        let wire = experiment.wire.then(|| Wire::new(experiment.link)).transpose()?;
        // A process that is a wire keeps its rate.
        let wire = wire.filter(|wire| !wire.is_own() || !line::is_changing(experiment));
        let paths = Paths::new(experiment.clients(), experiment.wan, || Namespace::create("wan"))?;
        let neighbours = experiment.neighbours.iter().map(|neighbour| match neighbour.at {
            At::Router => Namespace::create("neighbour").map(Some),
            At::Server => Ok(None),
        });
        let neighbours = neighbours.collect::<Result<Vec<_>, _>>()?;
        let limits = KernelLimits::default();
        let mut link = Link { tree_of: None, server, client, router, wire, paths, neighbours, limits };
        for side in link.routers().chain([&link.server, &link.client]).chain(link.neighbours.iter().flatten()) {
            silence_ipv6(side)?;
        }
        for command in link.commands(experiment) {
            tool::run(&command)?;
        }
        link.build_bottleneck(experiment, spec, weir)?;
        link.wire.as_ref().map_or(Ok(()), |wire| wire.build(FAR_DEVICE))?;
        if let Some(paths) = &link.paths {
            paths.build(link.client.name())?;
        }
        for side in link.routers() {
            tool::run_words(&patient_write(Place::In(side), "net/ipv4/ip_forward", "1"))?;
        }
        link.set_tcp(experiment)?;
        link.limits = KernelLimits::set(&experiment.limits, &link.server, &link.client)?;
        Ok(link)
    }

    fn build_bottleneck(
        &mut self,
        experiment: &Experiment,
        spec: &RunSpec,
        weir: Option<&Path>,
    ) -> Result<(), LabError> {
        let qdisc = experiment.qdisc_of(spec);
        let (side, device) = self.bottleneck();
        let refused = |cause| LabError::Qdisc { name: qdisc.name(), cause: Box::new(cause) };
        for words in build_commands(side, device, experiment, spec, weir).map_err(refused)? {
            tool::run_words(&words).map_err(refused)?;
        }
        self.tree_of = weir.filter(|_| qdisc.is_ours()).map(PathBuf::from);
        Ok(())
    }

    /// Has `weir attach` order what the server on `port` sends, if the run asks for it, and gives the command. It ends with
    /// the link.
    pub fn attach(
        &self,
        experiment: &Experiment,
        spec: &RunSpec,
        port: u16,
        weir: Option<&Path>,
    ) -> Result<Option<String>, LabError> {
        let words = attach_command(self.server.name(), DEVICE, experiment, spec, port, weir)?;
        words
            .map(|words| {
                tool::run_words(&words).map_err(|cause| LabError::Attach { cause: Box::new(cause) })?;
                Ok(words.join(" "))
            })
            .transpose()
    }

    /// Starts our own wide-area link, if this link has such paths; needed before any packet of theirs. Its log is in `folder`.
    pub fn start_wide(
        &self,
        weirlab: &Path,
        seed: u64,
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Option<Wide>, LabError> {
        let start = |paths: &Paths| paths.start(&self.client, weirlab, seed, folder, interrupt);
        self.paths.as_ref().map(start).transpose().map(Option::flatten)
    }

    /// Starts the wire, where it is a process; needed before any packet. Its log is in `folder`.
    pub fn start_wire(&self, weirlab: &Path, folder: &Path, interrupt: &Interrupt) -> Result<Option<Wide>, LabError> {
        let Some(wire) = &self.wire else { return Ok(None) };
        let beyond = self.paths.as_ref().map_or(&self.client, |paths| &paths.namespace);
        wire.start([FAR_DEVICE, DEVICE], beyond, weirlab, &folder.join("wire.log"), interrupt)
    }

    /// Namespaces that forward packets, from the server to the clients.
    fn routers(&self) -> impl Iterator<Item = &Namespace> {
        let wire = self.wire.as_ref().map(|wire| &wire.namespace);
        self.router.iter().chain(wire).chain(self.paths.as_ref().map(|paths| &paths.namespace))
    }

    /// What builds cables and routes.
    fn commands(&self, experiment: &Experiment) -> Vec<String> {
        let mut hops = vec![self.server.name()];
        hops.extend(self.routers().map(Namespace::name));
        hops.push(self.client.name());
        let plain = (0..).zip(experiment.clients()).filter(|(_, group)| group.path.is_plain());
        let plain: Vec<usize> = plain.map(|(index, _)| index).collect();
        let own_wire = self.wire.as_ref().filter(|wire| wire.is_own()).map(|wire| wire.namespace.name());
        let mut commands = chain_commands(&hops, &plain, experiment.gso_max_segs, own_wire);
        for (index, neighbour) in self.neighbours.iter().enumerate() {
            let neighbour = neighbour.iter().flat_map(|side| neighbour_commands(index, side.name(), &hops));
            commands.extend(neighbour);
        }
        commands
    }

    /// The namespace and device that are shaped.
    fn bottleneck(&self) -> (&str, &'static str) {
        self.router.as_ref().map_or((self.server.name(), DEVICE), |router| (router.name(), FAR_DEVICE))
    }

    /// The same, to go there.
    pub(crate) fn bottleneck_place(&self) -> (Place<'_>, &'static str) {
        (Place::In(self.router.as_ref().unwrap_or(&self.server)), self.bottleneck().1)
    }

    /// Starts what goes on beside the load: changes of the line's rate, and other hosts' transfers.
    pub(crate) fn start_company(&self, experiment: &Experiment) -> Result<(Changes, Transfers), LabError> {
        let hops = 2 + self.routers().count();
        let client = cable_addresses(hops as u8 - 2)[1];
        let places: Vec<Place<'_>> =
            self.neighbours.iter().map(|side| side.as_ref().map_or(self.server(), Place::In)).collect();
        let transfers = Transfers::start(&experiment.neighbours, &places, self.client(), client.into())?;
        let wire = self.wire.as_ref().filter(|wire| !wire.is_own()).map(|wire| (wire.namespace.name(), FAR_DEVICE));
        Ok((Changes::start(experiment, self.bottleneck(), wire), transfers))
    }

    pub fn server(&self) -> Place<'_> {
        Place::In(&self.server)
    }

    pub fn client(&self) -> Place<'_> {
        Place::In(&self.client)
    }

    pub fn server_address(&self) -> IpAddr {
        cable_addresses(0)[0].into()
    }

    /// What the bottleneck has counted so far.
    pub fn counters(&self) -> Result<Counters, LabError> {
        let (side, device) = self.bottleneck();
        Counters::parse(&tool::run(&format!("tc -n {side} -s -j qdisc show dev {device}"))?)
    }

    /// The link as the kernel says it is, for the manifest.
    pub fn describe(&self) -> Result<BTreeMap<String, String>, LabError> {
        let name = self.server.name();
        let (side, device) = self.bottleneck();
        let show = |what: &str| tool::run(&format!("tc -n {side} -s -d {what} show dev {device}"));
        let features = tool::run(&format!("ip netns exec {name} ethtool -k {DEVICE}"))?;
        let mut said = BTreeMap::from([
            ("qdisc".to_owned(), show("qdisc")?.trim().to_owned()),
            ("class".to_owned(), show("class")?.trim().to_owned()),
            ("offloads".to_owned(), offloads(&features)),
            ("device".to_owned(), tool::run(&format!("ip -n {name} -d link show dev {DEVICE}"))?.trim().to_owned()),
        ]);
        for setting in ["tcp_congestion_control", "tcp_limit_output_bytes", "tcp_no_metrics_save"] {
            said.insert(setting.to_owned(), read_setting(self.server(), &format!("net/ipv4/{setting}"))?);
        }
        said.extend(self.limits.describe(&self.server)?);
        if let Some(paths) = &self.paths {
            said.insert("wan".into(), paths.means().name().into());
            said.insert("wan_paths".into(), paths.describe());
            said.extend(paths.netem_counters()?.map(|counted| ("wan_counted".into(), counted)));
        }
        said.extend(self.wire.as_ref().map(|wire| ("wire".into(), wire.describe())));
        if let Some(weir) = &self.tree_of {
            let show = weir_words(side, Some(weir), &["uplink", "show", device, "--json"])?;
            said.insert("uplink".to_owned(), tool::run_words(&show)?.trim().to_owned());
        }
        Ok(said)
    }

    /// Sets what TCP would else inherit from the machine, on both sides.
    fn set_tcp(&self, experiment: &Experiment) -> Result<(), LabError> {
        for side in [self.server(), self.client()] {
            // Else the kernel carries ssthresh and RTT of earlier connections to the same address into later ones.
            write_setting(side, "net/ipv4/tcp_no_metrics_save", "1")?;
            if let Some(bytes) = experiment.tcp_limit_output_bytes {
                write_setting(side, "net/ipv4/tcp_limit_output_bytes", &bytes.to_string())?;
            }
        }
        // A new connection per request uses many ports, and a closed one rests for a minute.
        write_setting(self.client(), "net/ipv4/ip_local_port_range", "1024 65535")?;
        let wanted = &experiment.congestion_control;
        congestion::while_allowed(wanted, || {
            let neighbours = self.neighbours.iter().flatten().map(Place::In);
            for side in [self.server(), self.client()].into_iter().chain(neighbours) {
                side.enter(|| fs::write(congestion::CHOSEN, wanted))
                    .map_err(|e| LabError::io(congestion::CHOSEN, e))?;
            }
            Ok(())
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Some(weir) = &self.tree_of else { return };
        let (side, device) = self.bottleneck();
        let down = weir_words(side, Some(weir), &["uplink", "down", device]);
        if let Err(error) = down.and_then(|words| tool::run_words(&words)) {
            eprintln!("weirlab: {error}");
        }
    }
}

/// Router solicitations and the like would be counted by the shaper. A kernel without IPv6 has none.
fn silence_ipv6(namespace: &Namespace) -> Result<(), LabError> {
    const SETTING: &str = "net/ipv6/conf/default/disable_ipv6";
    if fs::exists(format!("/proc/sys/{SETTING}")).unwrap_or(false) {
        tool::run_words(&patient_write(Place::In(namespace), SETTING, "1"))?;
    }
    Ok(())
}

/// What writes a setting that needs the lock of all links (RTNL) at ordinary priority, whatever ours is.
///
/// While somebody else has that lock the kernel has the write begin again at once, for ever (`restart_syscall`). At real-time
/// priority that keeps the processor from the one who has it: two such writes on two processors stood still for 25 minutes.
fn patient_write(place: Place<'_>, setting: &str, value: &str) -> Vec<String> {
    let mut words = ["chrt", "-o", "0"].map(String::from).to_vec();
    words.extend(place.prefix());
    words.extend(["sh".into(), "-c".into(), format!("echo {value} > /proc/sys/{setting}")]);
    words
}

pub(crate) fn write_setting(place: Place<'_>, setting: &str, value: &str) -> Result<(), LabError> {
    let path = format!("/proc/sys/{setting}");
    place.enter(|| fs::write(&path, value)).map_err(|e| LabError::io(&path, e))
}

pub(crate) fn read_setting(place: Place<'_>, setting: &str) -> Result<String, LabError> {
    let path = format!("/proc/sys/{setting}");
    let text = place.enter(|| fs::read_to_string(&path)).map_err(|e| LabError::io(&path, e))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The cable: a veth pair whose ends hand over single packets of at most the MTU, as a wire does (see
/// `Experiment::gso_max_segs` for what the queue above them holds).
fn cable_commands(ends: [End; 2], gso_max_segs: Option<u64>) -> Vec<String> {
    let [one, other] = ends;
    let mut commands = vec![format!(
        "ip link add {} mtu {MTU_BYTES} netns {} type veth peer name {} mtu {MTU_BYTES} netns {}",
        one.device, one.side, other.device, other.side
    )];
    for End { side, device, address } in ends {
        commands.push(format!("ip -n {side} address add {address}/30 dev {device}"));
        commands.push(format!("ip netns exec {side} ethtool -K {device} tso off gso off gro off lro off"));
        if let Some(segments) = gso_max_segs {
            commands.push(format!("ip -n {side} link set dev {device} gso_max_segs {segments}"));
        }
        commands.push(format!("ip -n {side} link set dev lo up"));
        commands.push(format!("ip -n {side} link set dev {device} up"));
    }
    commands
}

/// A cable that is a pair of TUN devices, for a process to carry packets between them. Its queue holds what the shaper lets go
/// of at once.
fn tun_commands(ends: [End; 2]) -> Vec<String> {
    let one = |End { side, device, address }| {
        [
            format!("ip -n {side} tuntap add dev {device} mode tun"),
            format!("ip -n {side} address add {address}/30 dev {device}"),
            format!("ip -n {side} link set dev {device} mtu {MTU_BYTES} txqueuelen 1000 up"),
            format!("ip -n {side} link set dev lo up"),
        ]
    };
    ends.into_iter().flat_map(one).collect()
}

/// The cables from hop to hop, the server first and the clients last, the routes along them, and the addresses of the groups
/// that take this way, given by their numbers. Behind the hop `own_wire` a process is the cable.
fn chain_commands(
    hops: &[&str],
    plain_groups: &[usize],
    gso_max_segs: Option<u64>,
    own_wire: Option<&str>,
) -> Vec<String> {
    let last = hops.len() - 1;
    let mut commands = vec![];
    for (cable, ends) in (0..).zip(hops.windows(2)) {
        let [near, far] = cable_addresses(cable);
        let device = if cable == 0 { DEVICE } else { FAR_DEVICE };
        let near = End { side: ends[0], device, address: near };
        let far = End { side: ends[1], device: DEVICE, address: far };
        commands.extend(match own_wire == Some(ends[0]) {
            true => tun_commands([near, far]),
            false => cable_commands([near, far], gso_max_segs),
        });
    }
    // A route of type local makes a block's every address one of the host's own.
    for &index in plain_groups {
        commands.push(format!("ip -n {} route add local {} dev lo", hops[last], ClientGroup::prefix(index)));
    }
    // Two hosts on one cable need no routes, unless one has addresses of other blocks.
    for (number, side) in (0u8..).zip(hops).filter(|_| last > 1 || !plain_groups.is_empty()) {
        let toward_server = |number: u8| cable_addresses(number - 1)[0];
        let next = if usize::from(number) == last { toward_server(number) } else { cable_addresses(number)[1] };
        commands.push(format!("ip -n {side} route add default via {next}"));
        if number >= 2 && usize::from(number) < last {
            commands.push(format!("ip -n {side} route add 198.18.0.0/30 via {}", toward_server(number)));
        }
    }
    commands
}

/// The cable of a neighbour to the router, the first hop behind the server, and the routes to it and from it.
fn neighbour_commands(index: usize, side: &str, hops: &[&str]) -> Vec<String> {
    let [near, own] = neighbour::addresses(index);
    let device = format!("near{index}");
    let ends = [End { side: hops[1], device: &device, address: near }, End { side, device: DEVICE, address: own }];
    let mut commands = cable_commands(ends, None);
    commands.push(format!("ip -n {side} route add default via {near}"));
    // The last hop sends all there is toward the server.
    for (number, beyond) in (0u8..).zip(hops).take(hops.len() - 1).skip(2) {
        commands.push(format!("ip -n {beyond} route add {own}/32 via {}", cable_addresses(number - 1)[0]));
    }
    commands
}

/// The offloads that matter here, of all that `ethtool -k` lists.
fn offloads(features: &str) -> String {
    const NAMES: [&str; 4] = [
        "tcp-segmentation-offload",
        "generic-segmentation-offload",
        "generic-receive-offload",
        "large-receive-offload",
    ];
    let is_ours = |line: &&str| line.split_once(':').is_some_and(|(name, _)| NAMES.contains(&name));
    features.lines().filter(is_ours).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_hand_over_single_packets() {
        let commands = chain_commands(&["S", "C"], &[], Some(1), None);
        assert_eq!(commands[0], "ip link add cable mtu 1500 netns S type veth peer name cable mtu 1500 netns C");
        for side in ["S", "C"] {
            assert!(
                commands.contains(&format!("ip netns exec {side} ethtool -K cable tso off gso off gro off lro off"))
            );
            let segments = format!("ip -n {side} link set dev cable gso_max_segs 1");
            assert!(commands.contains(&segments) && !chain_commands(&["S", "C"], &[], None, None).contains(&segments));
        }
        assert!(commands.contains(&"ip -n S address add 198.18.0.1/30 dev cable".to_owned()));
        assert!(commands.contains(&"ip -n C address add 198.18.0.2/30 dev cable".to_owned()));
        assert!(!commands.iter().any(|command| command.contains("route")));
    }

    #[test]
    fn groups_without_a_path_are_on_the_cable() {
        let commands = chain_commands(&["S", "C"], &[1], None, None);
        for want in ["ip -n C route add local 198.18.24.0/21 dev lo", "ip -n S route add default via 198.18.0.2"] {
            assert!(commands.iter().any(|command| command == want), "{want}: {commands:#?}");
        }
    }

    #[test]
    fn wide_area_paths_stand_behind_the_router() {
        let commands = chain_commands(&["S", "R", "W", "C"], &[], None, None);
        for want in [
            "ip link add far mtu 1500 netns W type veth peer name cable mtu 1500 netns C",
            "ip -n W address add 198.18.0.9/30 dev far",
            "ip -n R route add default via 198.18.0.6",
            "ip -n W route add default via 198.18.0.10",
            "ip -n W route add 198.18.0.0/30 via 198.18.0.5",
            "ip -n C route add default via 198.18.0.9",
        ] {
            assert!(commands.iter().any(|command| command == want), "{want}: {commands:#?}");
        }
    }

    #[test]
    fn behind_our_own_wire_is_a_pair_of_devices_for_its_process() {
        let commands = chain_commands(&["S", "L", "C"], &[], None, Some("L"));
        let is_there = |want: &str| commands.iter().any(|command| command == want);
        for (side, device, address) in [("L", "far", "198.18.0.5"), ("C", "cable", "198.18.0.6")] {
            assert!(is_there(&format!("ip -n {side} tuntap add dev {device} mode tun")), "{commands:#?}");
            assert!(is_there(&format!("ip -n {side} address add {address}/30 dev {device}")), "{commands:#?}");
        }
        assert!(is_there("ip link add cable mtu 1500 netns S type veth peer name cable mtu 1500 netns L"));
    }

    #[test]
    fn a_neighbour_is_at_the_router() {
        let commands = neighbour_commands(0, "N", &["S", "R", "L", "W", "C"]);
        for want in [
            "ip link add near0 mtu 1500 netns R type veth peer name cable mtu 1500 netns N",
            "ip -n N address add 198.18.0.254/30 dev cable",
            "ip -n N route add default via 198.18.0.253",
            "ip -n L route add 198.18.0.254/32 via 198.18.0.5",
            "ip -n W route add 198.18.0.254/32 via 198.18.0.9",
        ] {
            assert!(commands.iter().any(|command| command == want), "{want}: {commands:#?}");
        }
    }

    #[test]
    fn a_router_joins_two_cables() {
        let commands = chain_commands(&["S", "R", "C"], &[], None, None);
        for want in [
            "ip link add cable mtu 1500 netns S type veth peer name cable mtu 1500 netns R",
            "ip link add far mtu 1500 netns R type veth peer name cable mtu 1500 netns C",
            "ip -n R address add 198.18.0.5/30 dev far",
            "ip -n C address add 198.18.0.6/30 dev cable",
            "ip -n S route add default via 198.18.0.2",
            "ip -n C route add default via 198.18.0.5",
        ] {
            assert!(commands.iter().any(|command| command == want), "{want}: {commands:#?}");
        }
    }

    /// Under `chrt -f 1 weirlab run` too.
    #[test]
    fn what_the_kernel_would_have_begin_again_is_never_written_at_real_time_priority() {
        let words = patient_write(Place::Here, "net/ipv4/ip_forward", "1").join(" ");
        assert_eq!(words, "chrt -o 0 sh -c echo 1 > /proc/sys/net/ipv4/ip_forward");
    }

    #[test]
    fn picks_the_offloads_that_matter() {
        let printed = "Features for cable:\nrx-checksumming: on\ntcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\ngeneric-receive-offload: off\nlarge-receive-offload: off [fixed]\n";
        assert_eq!(
            offloads(printed),
            "tcp-segmentation-offload: off, generic-receive-offload: off, large-receive-offload: off [fixed]"
        );
    }
}
