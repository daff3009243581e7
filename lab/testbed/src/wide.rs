//! Wide-area paths of groups of clients: a namespace between the bottleneck and the clients, with one device for each
//! path and netem at both of its ends.
//!
//! The paths are behind the bottleneck, so that they do not affect the server's shaper and queue. Routes choose a
//! packet's path by the client's address; groups without delay, loss or rate use the plain cable.
//!
//! netem keeps the order of all packets of a device or of none. With `reorder`, packets overtake each other according
//! to their delays. Without it, every packet waits for those before it, so jitter raises the mean delay of a busy path.

use std::net::Ipv4Addr;

use crate::namespace::Namespace;
use crate::path::{Conditions, Shape, Way};
use crate::{ClientGroup, LabError, ipv6, tool};

/// The name of a path's device at both ends, followed by the group's number.
const DEVICE: &str = "wide";
/// The maximum number of packets in netem: more than a second at 200 Mbit/s.
const NETEM_PACKETS: usize = 20_000;
/// The maximum number of packets that wait for the rate of a path.
const RATE_QUEUE_PACKETS: usize = 100;
/// The routing table of the first path; the others follow.
const FIRST_TABLE: usize = 100;

/// The namespace and groups of the paths.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The namespace between the bottleneck and the clients.
    pub namespace: Namespace,
    /// The groups that are not plain, each with its number among all groups.
    groups: Vec<(usize, ClientGroup)>,
}

impl Paths {
    /// Returns `None` if every group is plain, or there are no groups.
    pub fn new<'a>(
        groups: impl Iterator<Item = &'a ClientGroup>,
        create: impl FnOnce() -> Result<Namespace, LabError>,
    ) -> Result<Option<Paths>, LabError> {
        let groups: Vec<_> =
            groups.enumerate().filter(|(_, group)| !group.path.is_plain()).map(|(at, g)| (at, g.clone())).collect();
        if groups.is_empty() {
            return Ok(None);
        }
        Ok(Some(Paths { namespace: create()?, groups }))
    }

    /// The groups with a path here, for the manifest.
    pub fn describe(&self) -> String {
        let of = |(index, group): &(usize, ClientGroup)| {
            format!("{}={},{}", group.name, ClientGroup::prefix(*index), group.path)
        };
        self.groups.iter().map(of).collect::<Vec<_>>().join(" ")
    }

    /// Builds the devices and routes between this namespace and the clients'.
    pub fn build(&self, client: &str, is_ipv6: bool) -> Result<(), LabError> {
        for (index, group) in &self.groups {
            let mut commands = commands(self.namespace.name(), client, *index, group);
            let gateway = format!("via {} dev {DEVICE}{index}", ClientGroup::gateway(*index));
            if is_ipv6 {
                commands.push(only_route(client, &gateway));
                commands = commands.iter().map(|command| ipv6::command(command)).collect();
            } else {
                commands.extend(source_route(client, *index, &gateway));
            }
            for command in commands {
                tool::run(&command).map_err(|cause| LabError::Qdisc { name: "netem", cause: Box::new(cause) })?;
            }
        }
        Ok(())
    }

    /// The counters of netem, as printed by `tc`.
    pub fn counters(&self) -> Result<String, LabError> {
        tool::run(&format!("tc -n {} -s qdisc show", self.namespace.name()))
    }
}

/// The commands for a group's cable with netem at both ends.
fn commands(wan: &str, client: &str, index: usize, group: &ClientGroup) -> Vec<String> {
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
    if group.has_visits() {
        commands.extend(visit_routes(wan, client, &device, index));
    }
    commands
}

/// The words that configure netem.
fn netem(conditions: Conditions) -> String {
    let Conditions { delay, jitter, shape, loss, rate, reorder } = conditions;
    let limit = rate.map_or(NETEM_PACKETS, |rate| {
        let in_flight = rate.bytes_in(conditions.delay_max()) / 1514;
        RATE_QUEUE_PACKETS + usize::try_from(in_flight).unwrap_or(NETEM_PACKETS)
    });
    let mut words = format!("netem limit {} delay {}us", limit.min(NETEM_PACKETS), delay.0 / 1000);
    if jitter.0 > 0 {
        words += &format!(" {}us", jitter.0 / 1000);
        // Without a name, netem's distribution is uniform.
        if shape != Shape::Uniform {
            words += &format!(" distribution {}", shape.name());
        }
    }
    if loss > 0.0 {
        words += &format!(" loss random {}%", loss * 100.0);
    }
    match rate {
        Some(rate) => words += &format!(" rate {}bit", rate.bits_per_s()),
        // With a rate netem keeps the order, so the rate is far above any other here.
        None if jitter.0 > 0 && !reorder => words += " rate 100gbit",
        None => {}
    }
    words
}

fn addresses(client: &str, device: &str, index: usize, bits: u32) -> impl Iterator<Item = String> {
    let add = move |address: Ipv4Addr| format!("ip -n {client} address add {address}/{bits} dev {device}");
    ClientGroup::addresses(index).map(add)
}

/// Returns the routes of the visits' addresses. They are local addresses of the clients, behind the first address of
/// the block, so none needs an ARP request, which would cost a new client a round trip. The gateway's network is left
/// out: as a local address the gateway would not answer.
fn visit_routes(wan: &str, client: &str, device: &str, index: usize) -> Vec<String> {
    let first = ClientGroup::addresses(index).next().expect("a group has addresses");
    let routes = |network: String| {
        [
            format!("ip -n {client} route add local {network} dev lo"),
            format!("ip -n {wan} route add {network} via {first} dev {device}"),
        ]
    };
    ClientGroup::visit_networks(index).flat_map(routes).collect()
}

/// Returns the route by which packets of the group's clients take the group's path.
fn source_route(client: &str, index: usize, to: &str) -> [String; 2] {
    let table = FIRST_TABLE + index;
    [
        format!("ip -n {client} route add default {to} table {table}"),
        format!("ip -n {client} rule add from {} lookup {table}", ClientGroup::prefix(index)),
    ]
}

/// The route by which all packets of clients take the path of the only group.
fn only_route(client: &str, to: &str) -> String {
    format!("ip -n {client} route replace default {to}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{PathSpec, Ways};
    use units::Nanos;

    #[test]
    fn no_address_of_a_visit_is_its_gateways() {
        let commands = visit_routes("W", "C", "wide0", 0);
        assert_eq!(
            commands[..2],
            [
                "ip -n C route add local 198.18.17.0/24 dev lo",
                "ip -n W route add 198.18.17.0/24 via 198.18.16.1 dev wide0",
            ]
        );
        assert_eq!(commands.len(), 14);
        assert!(commands.iter().all(|command| !command.contains("198.18.16.0/")), "{commands:?}");
    }

    #[test]
    fn netem_is_told_what_the_path_is() {
        let ms = Nanos::from_millis;
        let path = PathSpec { rtt: ms(100), jitter: ms(20), loss: 0.05, ways: Ways::In, ..PathSpec::default() };
        let words = |path: PathSpec| netem(path.one_way(Way::ToClient));
        let ordered = "netem limit 20000 delay 100000us 20000us distribution normal loss random 5% rate 100gbit";
        assert_eq!(words(path), ordered);
        assert!(ordered.starts_with(&words(PathSpec { reorder: true, ..path })), "the same without a rate");
        let uniform = PathSpec { shape: Shape::Uniform, loss: 0.0, rate: "1mbit".parse().ok(), ..path };
        assert_eq!(words(uniform), "netem limit 109 delay 100000us 20000us rate 1000000bit");
        assert!(path.one_way(Way::ToServer).is_plain());
    }
}
