//! The same cables and clients over IPv6. Every IPv4 address of a link is mapped to an address in 2001:2::/48, the
//! block reserved for benchmarks (RFC 5180), with the same last 32 bits. A link is thus defined once, and its commands
//! are translated.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::client_group::PREFIX_BLOCK;
use crate::namespace::Place;
use crate::{ClientGroup, Experiment, LabError, Network, link};

const BLOCK: [u16; 6] = [0x2001, 2, 0, 0, 0, 0];
/// The number of additional leading bits in an IPv6 address.
const MORE_BITS: u8 = 96;

/// Returns the address of a link, mapped if it uses IPv6.
pub(crate) fn address(is_ipv6: bool, address: Ipv4Addr) -> IpAddr {
    if is_ipv6 { translated(address).into() } else { address.into() }
}

fn translated(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let [one, two, three, four, five, six] = BLOCK;
    Ipv6Addr::new(one, two, three, four, five, six, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

/// Translates a command of `ip` to IPv6. Other commands, and words that are not addresses, stay unchanged.
pub(crate) fn command(command: &str) -> String {
    let mut words: Vec<String> = command.split(' ').map(word).collect();
    // No other host is on the cable, so duplicate address detection is unnecessary.
    if words.windows(2).any(|pair| pair == ["address", "add"]) {
        words.push("nodad".into());
    }
    words.join(" ")
}

/// Translates the addresses in a flag, `NAME=ADDRESS,ADDRESS@SHARE` or `NAME=FIRST-LAST@SHARE`.
pub(crate) fn flag(flag: &str) -> String {
    let Some((name, (addresses, asks))) =
        flag.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once('@')?)))
    else {
        return flag.into();
    };
    let ranges = addresses.split(',').map(|range| range.split('-').map(word).collect::<Vec<_>>().join("-"));
    format!("{name}={}@{asks}", ranges.collect::<Vec<_>>().join(","))
}

/// Translates an IPv4 address or block; returns other text unchanged.
fn word(text: &str) -> String {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let (Ok(address), Ok(bits)) = (address.parse::<Ipv4Addr>(), bits.map(str::parse::<u8>).transpose()) else {
        return text.into();
    };
    let address = translated(address);
    bits.map_or(address.to_string(), |bits| format!("{address}/{}", bits + MORE_BITS))
}

/// Stops all traffic that the experiment does not send, such as router solicitations.
pub(crate) fn quieten(place: Place<'_>) -> Result<(), LabError> {
    for setting in ["accept_ra", "router_solicitations", "accept_dad"] {
        for of in ["all", "default"] {
            link::write_setting(place, &format!("net/ipv6/conf/{of}/{setting}"), "0")?;
        }
    }
    Ok(())
}

/// The command that makes all addresses of groups with prefixes local addresses of the clients.
pub(crate) fn prefixes_command(client: &str) -> String {
    let [one, two] = PREFIX_BLOCK;
    format!("ip -n {client} route add local {one:x}:{two:x}::/32 dev lo")
}

/// Checks whether an experiment can use IPv6.
pub(crate) fn check(experiment: &Experiment) -> Result<(), String> {
    let has_visits = experiment.clients().any(ClientGroup::has_visits);
    let has_paths = experiment.clients().any(|group| !group.path.is_plain());
    match experiment.ipv6 {
        true if experiment.network == Network::Loopback => Err("ipv6 is of namespaces: leave it or network out".into()),
        // With IPv6, a block counts as one client for the server.
        true if has_visits => Err("visits and households have addresses of IPv4: leave ipv6 out".into()),
        // Not every kernel has routing tables by source for IPv6.
        true if has_paths && experiment.clients().len() > 1 => {
            Err("over ipv6 there is one way to clients: write one [[client]], or none with a path of its own".into())
        }
        false if experiment.clients().any(ClientGroup::has_prefixes) => {
            Err("prefix is of ipv6: write ipv6 = true".into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_addresses_and_blocks_of_ipv6() {
        for (from, to) in [
            ("ip -n S address add 198.18.0.1/30 dev cable", "ip -n S address add 2001:2::c612:1/126 dev cable nodad"),
            ("ip -n C route add local 198.18.24.0/21 dev lo", "ip -n C route add local 2001:2::c612:1800/117 dev lo"),
            (
                "tc -n R qdisc add dev far root netem limit 9 delay 15000us",
                "tc -n R qdisc add dev far root netem limit 9 delay 15000us",
            ),
        ] {
            assert_eq!(command(from), to);
        }
    }

    #[test]
    fn flags_of_clients_have_addresses_of_ipv6() {
        assert_eq!(flag("far=198.18.16.1,198.18.16.2@1"), "far=2001:2::c612:1001,2001:2::c612:1002@1");
        assert_eq!(flag("all=198.18.16.1-198.18.16.9@0.5"), "all=2001:2::c612:1001-2001:2::c612:1009@0.5");
    }

    #[test]
    fn what_has_addresses_of_ipv4_alone_is_refused() {
        let parsed = |top: &str| crate::testing::parse(top, "server = \"nginx\"");
        assert!(parsed("ipv6 = true").unwrap().ipv6);
        assert!(parsed("ipv6 = true\nnetwork = \"loopback\"").unwrap_err().contains("ipv6 is of namespaces"));
        let prefix = parsed("[[client]]\nname = \"a\"\nprefix = 48").unwrap_err();
        assert!(prefix.contains("prefix is of ipv6: write ipv6 = true"));
        let visits = parsed("ipv6 = true\n[[client]]\nname = \"a\"\naddresses = \"visit\"").unwrap_err();
        assert!(visits.contains("visits and households have addresses of IPv4: leave ipv6 out"), "{visits}");
    }
}
