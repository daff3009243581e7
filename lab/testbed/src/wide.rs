//! Wide-area paths of groups of clients: a namespace between the bottleneck and the clients, and in it one device for each
//! path, with netem at both its ends.
//!
//! They stand behind the bottleneck, so that the server's shaper and queue stay what they are. Which path a packet takes is
//! decided by routes, from the client's address; groups without delay, loss or rate pass by on the plain cable.
//!
//! netem keeps the order of a device's packets or of none: with `reorder` a packet overtakes as its delay would have it, without
//! it every packet waits for those before it, so that jitter raises the mean delay of a busy path.

use std::net::Ipv4Addr;

use crate::namespace::Namespace;
use crate::path::{Conditions, Shape, Way};
use crate::{ClientGroup, LabError, ipv6, tool};

/// A path's device, at both ends, with the group's number behind it.
const DEVICE: &str = "wide";
/// Packets netem may hold: at 200 Mbit/s more than a second.
const NETEM_PACKETS: usize = 20_000;
/// Packets that may wait before the rate of a path.
const RATE_QUEUE_PACKETS: usize = 100;
/// The routing table of the first path; others follow.
const FIRST_TABLE: usize = 100;

/// The namespace and groups of the paths.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Between the bottleneck and the clients.
    pub namespace: Namespace,
    /// The groups that are not plain, with their number among the groups.
    groups: Vec<(usize, ClientGroup)>,
}

impl Paths {
    /// `None` where every group is plain, or there is none.
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

    /// The groups that have a path here, for the manifest.
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

    /// The counts of netem, as `tc` prints them.
    pub fn counters(&self) -> Result<String, LabError> {
        tool::run(&format!("tc -n {} -s qdisc show", self.namespace.name()))
    }
}

/// A cable for the group, with netem at both ends.
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

/// The words that make netem do this.
fn netem(conditions: Conditions) -> String {
    let Conditions { delay, jitter, shape, loss, rate, reorder } = conditions;
    let limit = rate.map_or(NETEM_PACKETS, |rate| {
        let in_flight = rate.bytes_in(conditions.delay_max()) / 1514;
        RATE_QUEUE_PACKETS + usize::try_from(in_flight).unwrap_or(NETEM_PACKETS)
    });
    let mut words = format!("netem limit {} delay {}us", limit.min(NETEM_PACKETS), delay.0 / 1000);
    if jitter.0 > 0 {
        words += &format!(" {}us", jitter.0 / 1000);
        // Its own without a name is uniform.
        if shape != Shape::Uniform {
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

/// Returns the routes of the visits' addresses, which are the clients' own and behind the first of the block: none needs an ARP of its own, which would cost a newcomer a
/// round trip. The network of the gateway stays out: as a local address it would get no answer.
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

/// What all clients send takes the path of the only group.
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
