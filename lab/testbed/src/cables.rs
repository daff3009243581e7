//! The cables of a link and the routes along them, as commands: from the server via routers to the clients.

use std::net::Ipv4Addr;

use crate::ClientGroup;

/// The two addresses of a cable. They are from the block reserved for benchmarks, 198.18.0.0/15 (RFC 2544, RFC 6890),
/// which has four addresses for each cable, from the server on.
pub(crate) fn cable_addresses(cable: u8) -> [Ipv4Addr; 2] {
    [1, 2].map(|end| Ipv4Addr::new(198, 18, 0, 4 * cable + end))
}

/// The name of a cable's device. Both ends have the same name, because they are in different namespaces.
pub(crate) const DEVICE: &str = "cable";
/// The router's end of its cable to the client.
pub(crate) const FAR_DEVICE: &str = "far";
const MTU_BYTES: u64 = 1500;

/// An end of a cable.
#[derive(Clone, Copy)]
struct End<'a> {
    side: &'a str,
    device: &'a str,
    address: Ipv4Addr,
}

/// The commands for a cable: a veth pair whose ends pass on single packets of at most the MTU, as a wire does (see
/// `Experiment::gso_max_segs` for the contents of the queue above them).
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

/// The cables from hop to hop, the server first and the clients last, the routes along them, and the addresses of the
/// groups that take this way, given by their numbers.
pub(crate) fn chain_commands(hops: &[&str], plain_groups: &[usize], gso_max_segs: Option<u64>) -> Vec<String> {
    let last = hops.len() - 1;
    let mut commands = vec![];
    for (cable, ends) in (0..).zip(hops.windows(2)) {
        let [near, far] = cable_addresses(cable);
        let device = if cable == 0 { DEVICE } else { FAR_DEVICE };
        let near = End { side: ends[0], device, address: near };
        let far = End { side: ends[1], device: DEVICE, address: far };
        commands.extend(cable_commands([near, far], gso_max_segs));
    }
    // A route of type local makes all addresses of a block local addresses of the host.
    for &index in plain_groups {
        commands.push(format!("ip -n {} route add local {} dev lo", hops[last], ClientGroup::prefix(index)));
    }
    // Two hosts on one cable need no routes, unless one of them has addresses of other blocks.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_hand_over_single_packets() {
        let commands = chain_commands(&["S", "C"], &[], Some(1));
        assert_eq!(commands[0], "ip link add cable mtu 1500 netns S type veth peer name cable mtu 1500 netns C");
        for side in ["S", "C"] {
            assert!(
                commands.contains(&format!("ip netns exec {side} ethtool -K cable tso off gso off gro off lro off"))
            );
            let segments = format!("ip -n {side} link set dev cable gso_max_segs 1");
            assert!(commands.contains(&segments) && !chain_commands(&["S", "C"], &[], None).contains(&segments));
        }
        assert!(commands.contains(&"ip -n S address add 198.18.0.1/30 dev cable".to_owned()));
        assert!(commands.contains(&"ip -n C address add 198.18.0.2/30 dev cable".to_owned()));
        assert!(!commands.iter().any(|command| command.contains("route")));
    }

    #[test]
    fn groups_without_a_path_are_on_the_cable() {
        let commands = chain_commands(&["S", "C"], &[1], None);
        for want in ["ip -n C route add local 198.18.24.0/21 dev lo", "ip -n S route add default via 198.18.0.2"] {
            assert!(commands.iter().any(|command| command == want), "{want}: {commands:#?}");
        }
    }

    #[test]
    fn wide_area_paths_stand_behind_the_router() {
        let commands = chain_commands(&["S", "R", "W", "C"], &[], None);
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
    fn a_router_joins_two_cables() {
        let commands = chain_commands(&["S", "R", "C"], &[], None);
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
}
