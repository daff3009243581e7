//! A group of clients: its share of the requests, its addresses, and the path between them and the server.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use units::Rate;
use workload::Visitors;

use crate::experiment::{duration, maybe_parsed, parsed};
use crate::path::{PathSpec, Shape, Ways};

/// The maximum number of groups in an experiment, limited by the blocks within 198.18.0.0/15.
const GROUPS_MAX: usize = 60;
/// The beginning of the first group's block; addresses below it are for cables.
const FIRST_BLOCK: Ipv4Addr = Ipv4Addr::new(198, 18, 16, 0);
/// The leading bits that the addresses of a group share: a block has 2,048 addresses.
const BLOCK_BITS: u8 = 21;
/// The default number of addresses of a group. An address has 64,512 ports to a server's port, and a closed connection
/// keeps its port for a minute, so four are enough for 4,300 connections a second.
const ADDRESSES: u16 = 4;
/// The maximum number of addresses of a group, one for each client of a trace.
const ADDRESSES_MAX: u16 = 2000;
/// The networks (/24) of a block that provide addresses for visits, from the second on; the first contains a path's
/// gateway.
const VISIT_NETWORKS: std::ops::RangeInclusive<u16> = 1..=7;
/// The block of groups with prefixes, reserved for documentation (RFC 3849), and the maximum number of their addresses.
pub(crate) const PREFIX_BLOCK: [u16; 2] = [0x2001, 0xdb8];
const PREFIXES_MAX: u16 = 256;

/// The contents of a `[[client]]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct ClientGroup {
    pub name: String,
    /// The share of the requests, relative to the other groups' shares; a closed group has none.
    pub share: f64,
    /// Set if the group always has its own requests in flight.
    pub closed: Option<Closed>,
    /// The addresses that it uses.
    addresses: Addresses,
    /// The leading bits of IPv6 addresses that no two addresses of the group share.
    prefix: Option<u8>,
    pub path: PathSpec,
}

/// The addresses that a group uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "write a number of addresses, such as 4, or \"visit\" or \"households\"")]
enum Addresses {
    /// This many addresses from the beginning of its block; requests are assigned to them evenly.
    Number(u16),
    /// As many addresses as its visits need, assigned in this way.
    Visits(#[serde(deserialize_with = "parsed")] Visitors),
}

/// Connections that each request a body of this size again as soon as they have received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    #[serde(deserialize_with = "connections")]
    pub connections: u32,
    #[serde(rename = "size", deserialize_with = "size")]
    pub size_bytes: u64,
    /// The urgency that their requests claim (RFC 9218).
    #[serde(default, deserialize_with = "urgency")]
    pub urgency: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(default, deserialize_with = "share")]
    share: Option<f64>,
    #[serde(default)]
    closed: Option<Closed>,
    #[serde(default = "all", deserialize_with = "addresses")]
    addresses: Addresses,
    #[serde(default)]
    prefix: Option<u8>,
    #[serde(default, deserialize_with = "duration")]
    rtt: Duration,
    #[serde(default, deserialize_with = "duration")]
    jitter: Duration,
    #[serde(default)]
    jitter_shape: Shape,
    #[serde(default, deserialize_with = "loss")]
    loss: f64,
    #[serde(default, deserialize_with = "maybe_parsed")]
    rate: Option<Rate>,
    #[serde(default)]
    ways: Ways,
    #[serde(default)]
    reorder: bool,
}

impl TryFrom<Written> for ClientGroup {
    type Error = String;

    fn try_from(written: Written) -> Result<ClientGroup, String> {
        let Written { name, share, closed, addresses, prefix, rtt, jitter, jitter_shape: shape, .. } = written;
        let Written { loss, rate, ways, reorder, .. } = written;
        let path = PathSpec { rtt: rtt.into(), jitter: jitter.into(), shape, loss, rate, ways, reorder };
        path.check().map_err(|reason| format!("client `{name}`: {reason}"))?;
        if closed.is_some() && share.is_some() {
            return Err(format!("client `{name}`: a closed group has its own requests: leave share out"));
        }
        match addresses {
            Addresses::Number(many) if !path.is_plain() && many > ADDRESSES => {
                return Err(format!(
                    "client `{name}`: `{many}` addresses: a group with a path of its own has at most {ADDRESSES}"
                ));
            }
            Addresses::Visits(visitors) if closed.is_some() => {
                let dealt = visitors.name();
                return Err(format!(
                    "client `{name}`: a closed group has no visits: leave addresses = \"{dealt}\" out"
                ));
            }
            _ => {}
        }
        check_prefix(prefix, addresses, &path).map_err(|reason| format!("client `{name}`: {reason}"))?;
        let share = if closed.is_some() { 0.0 } else { share.unwrap_or(1.0) };
        Ok(ClientGroup { name, share, closed, addresses, prefix, path })
    }
}

impl ClientGroup {
    /// All addresses that the group with the number `index` can have, if it has its own path.
    pub fn addresses(index: usize) -> impl Iterator<Item = Ipv4Addr> {
        (1..=ADDRESSES).map(move |number| address(index, number))
    }

    /// The block that contains only this group's addresses.
    pub(crate) fn prefix(index: usize) -> String {
        format!("{}/{BLOCK_BITS}", address(index, 0))
    }

    /// The networks with the addresses of its visits.
    pub(crate) fn visit_networks(index: usize) -> impl Iterator<Item = String> {
        VISIT_NETWORKS.map(move |network| format!("{}/24", address(index, network * 256)))
    }

    /// True if its addresses are IPv6 addresses of separate prefixes.
    pub(crate) fn has_prefixes(&self) -> bool {
        self.prefix.is_some()
    }

    /// True if each visit, or household, has its own address.
    pub(crate) fn has_visits(&self) -> bool {
        matches!(self.addresses, Addresses::Visits(_))
    }

    /// Returns the gateway to a group whose packets take their own path.
    pub(crate) fn gateway(index: usize) -> Ipv4Addr {
        address(index, 254)
    }
}

/// The groups as flags of the load generator: `NAME=ADDRESS,ADDRESS@SHARE`, with shares that add up to 1, or
/// `@CONNECTIONSxSIZE`; with visits, `@SHARE:HOW`.
pub(crate) fn client_flags<'a>(groups: impl Iterator<Item = &'a ClientGroup> + Clone) -> Vec<String> {
    let total: f64 = groups.clone().map(|group| group.share).sum();
    let flag = |(index, group): (usize, &ClientGroup)| {
        let range = |first, last| format!("{}-{}", address(index, first), address(index, last));
        let addresses = match group.addresses {
            Addresses::Number(many) if let Some(bits) = group.prefix => {
                let addresses = (0..many).map(|number| address_of_prefix(index, number, bits).to_string());
                addresses.collect::<Vec<_>>().join(",")
            }
            Addresses::Number(many @ ADDRESSES..) => range(1, many),
            Addresses::Number(few) => {
                (1..=few).map(|number| address(index, number).to_string()).collect::<Vec<_>>().join(",")
            }
            Addresses::Visits(_) => VISIT_NETWORKS
                .map(|network| range(network * 256 + 1, network * 256 + 254))
                .collect::<Vec<_>>()
                .join(","),
        };
        let dealt = match group.addresses {
            Addresses::Number(_) => String::new(),
            Addresses::Visits(visitors) => format!(":{}", visitors.name()),
        };
        let asks = match group.closed {
            Some(Closed { connections, size_bytes, urgency }) => {
                let urgency = urgency.map_or(String::new(), |urgency| format!(":u={urgency}"));
                format!("{connections}x{size_bytes}{urgency}")
            }
            None => (group.share / total).to_string(),
        };
        format!("{}={addresses}@{asks}{dealt}", group.name)
    };
    groups.enumerate().map(flag).collect()
}

/// Checks that the groups are compatible. The error has the number of a group, and the reason.
pub(crate) fn check_groups<'a>(groups: impl Iterator<Item = &'a ClientGroup> + Clone) -> Result<(), (usize, String)> {
    let mut names = std::collections::BTreeSet::new();
    let all_closed = groups.clone().all(|group| group.closed.is_some());
    for (index, group) in groups.enumerate() {
        if index >= GROUPS_MAX {
            return Err((index, format!("there are more than {GROUPS_MAX} groups of clients")));
        }
        if !names.insert(&group.name) {
            return Err((index, format!("there are two clients named `{}`: give each its own name", group.name)));
        }
    }
    if let Some(last) = names.len().checked_sub(1).filter(|_| all_closed) {
        return Err((last, "all clients are closed: one more has to ask for what the load says".into()));
    }
    Ok(())
}

fn address(index: usize, number: u16) -> Ipv4Addr {
    // `check_groups` bounds the index.
    let block = u32::from(FIRST_BLOCK) + ((index as u32) << (u32::BITS - u32::from(BLOCK_BITS)));
    (block + u32::from(number)).into()
}

/// Checks the prefixes of a group.
fn check_prefix(prefix: Option<u8>, addresses: Addresses, path: &PathSpec) -> Result<(), String> {
    let Some(bits) = prefix else { return Ok(()) };
    if ![48, 56, 64].contains(&bits) {
        return Err(format!("prefix `{bits}`: write 48, 56 or 64"));
    }
    if !path.is_plain() || !matches!(addresses, Addresses::Number(1..=PREFIXES_MAX)) {
        return Err(format!("prefix: write 1 to {PREFIXES_MAX} addresses, and no path"));
    }
    Ok(())
}

/// Returns an address of a group over IPv6. Its /64 and /56 prefixes are of one /48, and /64 of one /56.
fn address_of_prefix(index: usize, number: u16, bits: u8) -> Ipv6Addr {
    let group = (index as u16 + 1) << 8;
    let (site, subnet) = match bits {
        48 => (group | number, 0),
        56 => (group, number << 8),
        _ => (group, number),
    };
    Ipv6Addr::new(PREFIX_BLOCK[0], PREFIX_BLOCK[1], site, subnet, 0, 0, 0, 1)
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=64).contains(&name.len()) && name.chars().all(is_fine) {
        return Ok(name);
    }
    Err(D::Error::custom(format!(
        "`{name}` is not a name for a group of clients: write letters, digits, `-` and `_`, at most 64"
    )))
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let share = f64::deserialize(deserializer)?;
    if share > 0.0 && share.is_finite() {
        return Ok(Some(share));
    }
    Err(D::Error::custom(format!("`{share}` is not a share of the requests: write a number above 0, for example 0.5")))
}

fn loss<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let loss = f64::deserialize(deserializer)?;
    PathSpec { loss, ..PathSpec::default() }.check().map_err(D::Error::custom)?;
    Ok(loss)
}

fn connections<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let most = workload::CLOSED_CONNECTIONS_MAX;
    let count = u32::deserialize(deserializer)?;
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    Err(D::Error::custom(format!("`{count}` connections: write 1 to {most}")))
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let size_bytes = units::parse_size(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
    if (1..=workload::SIZE_BYTES_MAX).contains(&size_bytes) {
        return Ok(size_bytes);
    }
    Err(D::Error::custom(format!("`{size_bytes}` bytes: write a size such as 100KB")))
}

fn urgency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    match u8::deserialize(deserializer)? {
        urgency @ 0..=7 => Ok(Some(urgency)),
        urgency => Err(D::Error::custom(format!("`{urgency}` is not an urgency: write 0 to 7"))),
    }
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Addresses, D::Error> {
    match Addresses::deserialize(deserializer)? {
        Addresses::Number(count) if !(1..=ADDRESSES_MAX).contains(&count) => {
            Err(D::Error::custom(format!("`{count}` addresses: write 1 to {ADDRESSES_MAX}")))
        }
        addresses => Ok(addresses),
    }
}

fn all() -> Addresses {
    Addresses::Number(ADDRESSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct File {
        client: Vec<ClientGroup>,
    }

    fn groups(text: &str) -> Result<Vec<ClientGroup>, String> {
        toml::from_str::<File>(text).map(|file| file.client).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn a_group_is_a_share_and_a_path() {
        let text = "[[client]]\nname = \"wan1\"\nshare = 3\nrtt = \"100ms\"\njitter = \"20ms\"\njitter_shape = \"uniform\"\n\
            loss = 0.01\nrate = \"1mbit\"\nways = \"in\"\n[[client]]\nname = \"lan\"\n";
        let groups = groups(text).unwrap();
        let want = "rtt=100ms,jitter=20ms,shape=uniform,loss=0.01,rate=1mbit,ways=in";
        assert_eq!(groups[0].path.to_string(), want);
        assert!(groups[1].path.is_plain());
        let flags = client_flags(groups.iter());
        assert_eq!(flags[0], "wan1=198.18.16.1-198.18.16.4@0.75");
        assert_eq!(flags[1], "lan=198.18.24.1-198.18.24.4@0.25");
        assert_eq!((ClientGroup::prefix(1), ClientGroup::gateway(0).to_string()), {
            ("198.18.24.0/21".to_owned(), "198.18.16.254".to_owned())
        });
    }

    #[test]
    fn a_closed_group_asks_for_itself() {
        let text = "[[client]]\nname = \"a\"\naddresses = 1\nclosed = { connections = 8, size = \"100KB\" }\n\
            [[client]]\nname = \"b\"\naddresses = 2\n[[client]]\nname = \"c\"\nshare = 3\naddresses = 1\n";
        let groups = groups(text).unwrap();
        let want = ["a=198.18.16.1@8x100000", "b=198.18.24.1,198.18.24.2@0.25", "c=198.18.32.1@0.75"];
        assert_eq!(client_flags(groups.iter()), want);
        assert_eq!(check_groups(groups.iter()), Ok(()));
        assert_eq!(check_groups(groups[..1].iter()).unwrap_err().0, 0);
        assert_eq!(check_groups([].iter()), Ok(()));
    }

    #[test]
    fn prefixes_are_of_one_larger_prefix_or_of_none() {
        let group = |bits: u8| {
            format!(
                "[[client]]\nname = \"a{bits}\"\naddresses = 256\nprefix = {bits}\n\
                 closed = {{ connections = 6, size = \"10KB\", urgency = 0 }}\n"
            )
        };
        let flags = client_flags(groups(&[48, 56, 64].map(group).concat()).unwrap().iter());
        for (flag, second, last) in [
            (&flags[0], "2001:db8:101::1", "2001:db8:1ff::1"),
            (&flags[1], "2001:db8:200:100::1", "2001:db8:200:ff00::1"),
            (&flags[2], "2001:db8:300:1::1", "2001:db8:300:ff::1"),
        ] {
            assert!(flag.split(',').nth(1) == Some(second), "{flag}");
            assert!(flag.ends_with(&format!("{last}@6x10000:u=0")), "{flag}");
        }
    }

    #[test]
    fn visits_have_the_networks_of_a_block() {
        let text = "[[client]]\nname = \"far\"\nrtt = \"30ms\"\naddresses = \"households\"\n\
            [[client]]\nname = \"near\"\naddresses = \"visit\"\n";
        let groups = groups(text).unwrap();
        let flags = client_flags(groups.iter());
        assert!(flags[0].starts_with("far=198.18.17.1-198.18.17.254,198.18.18.1-198.18.18.254,"), "{}", flags[0]);
        assert!(flags[0].ends_with(",198.18.23.1-198.18.23.254@0.5:households"), "{}", flags[0]);
        assert!(flags[1].starts_with("near=198.18.25.1-") && flags[1].ends_with("@0.5:visit"), "{}", flags[1]);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (keys, says) in [
            ("loss = 1.2", "`1.2` is not a loss"),
            ("rtt = \"-1ms\"", "`-1ms` is not a duration"),
            ("rtt = \"10ms\"\njitter = \"11ms\"", "client `a`: jitter `11ms` is larger than the rtt `10ms`"),
            ("share = 0", "`0` is not a share of the requests"),
            ("jitter_shape = \"flat\"", "unknown variant `flat`, expected `uniform` or `normal`"),
            ("rate = \"fast\"", "`fast` is not a rate"),
            ("delay = \"1ms\"", "unknown field `delay`"),
            ("ways = \"out\"", "unknown variant `out`"),
            ("addresses = 0", "`0` addresses: write 1 to 2000"),
            ("addresses = 2001", "`2001` addresses: write 1 to 2000"),
            ("addresses = \"each\"", "write a number of addresses, such as 4, or \"visit\" or \"households\""),
            (
                "addresses = \"visit\"\nclosed = { connections = 1, size = \"1KB\" }",
                "client `a`: a closed group has no visits",
            ),
            ("addresses = 5\nrtt = \"1ms\"", "client `a`: `5` addresses: a group with a path of its own has at most 4"),
            ("closed = { connections = 0, size = \"1KB\" }", "`0` connections: write 1 to 4096"),
            ("closed = { connections = 1, size = \"0\" }", "`0` bytes: write a size"),
            ("closed = { connections = 1 }", "missing field `size`"),
            ("closed = { connections = 1, size = \"1KB\", urgency = 8 }", "`8` is not an urgency: write 0 to 7"),
            ("prefix = 60", "client `a`: prefix `60`: write 48, 56 or 64"),
            ("prefix = 64\nrtt = \"1ms\"", "client `a`: prefix: write 1 to 256 addresses, and no path"),
            ("prefix = 64\naddresses = \"visit\"", "client `a`: prefix: write 1 to 256 addresses, and no path"),
            (
                "share = 1\nclosed = { connections = 1, size = \"1KB\" }",
                "client `a`: a closed group has its own requests",
            ),
        ] {
            let said = groups(&format!("[[client]]\nname = \"a\"\n{keys}\n")).unwrap_err();
            assert!(said.starts_with(says), "{keys}: {said}");
        }
        assert!(groups("[[client]]\nname = \"a=b\"\n").unwrap_err().starts_with("`a=b` is not a name"));
        let twice = groups("[[client]]\nname = \"a\"\n[[client]]\nname = \"a\"\n").unwrap();
        assert_eq!(
            check_groups(twice.iter()),
            Err((1, "there are two clients named `a`: give each its own name".into()))
        );
    }
}
