//! The clients of a load: groups with their addresses, and their patience.

use std::net::IpAddr;

use cli::Failure;
use loadgen::{ClientGroup, Patience};
use testbed::Load;
use units::Nanos;
use workload::{CLOSED_CONNECTIONS_MAX, ClosedClient, SIZE_BYTES_MAX};

/// The maximum number of addresses. Each costs only its ports' state, but a typing error should not create a million.
const ADDRESSES_MAX: usize = 4096;
/// The lowest urgency (RFC 9218 section 4.1).
const URGENCY_MAX: u8 = 7;

/// A group, and if it is closed, its requests, with the number 0 for the group.
pub(super) type Asks = (ClientGroup, Option<ClosedClient>);

/// Parses a group: `NAME=ADDR[,ADDR…]@SHARE`, where `ADDR-ADDR` means all addresses of that range, or a closed one,
/// `@CONNECTIONSxSIZE`, with the urgency that its requests claim `@CONNECTIONSxSIZE:u=0`. `@SHARE:visit` and `@SHARE:households` define which visits share an address.
pub(super) fn group(text: &str) -> Result<Asks, String> {
    let parts = || {
        let (name, rest) = text.split_once('=')?;
        let (addresses, asks) = rest.rsplit_once('@')?;
        let (asks, how) = asks.split_once(':').map_or((asks, None), |(asks, how)| (asks, Some(how)));
        let (share, visitors, closed) = match asks.split_once('x') {
            Some((connections, size)) => (None, None, Some(closed(connections, size, how)?)),
            None => (Some(asks.parse().ok()?), how.map(str::parse).transpose().ok()?, None),
        };
        let addresses: Option<Vec<Vec<IpAddr>>> = addresses.split(',').map(addresses_of).collect();
        let group = ClientGroup { name: name.into(), addresses: addresses?.concat(), share, visitors };
        (!name.is_empty() && group.addresses.len() <= ADDRESSES_MAX).then_some((group, closed))
    };
    parts().ok_or_else(|| {
        format!(
            "`{text}` is no group of clients: write NAME=ADDR[,ADDR…]@SHARE with up to {ADDRESSES_MAX} addresses, for \
             example near=198.18.0.2@0.7 or far=198.18.1.1-198.18.1.64@0.3, with :visit an address for each visit, or closed, splitter=198.18.2.1@8x100KB"
        )
    })
}

/// Parses `8`, `100KB` and perhaps `u=0`.
fn closed(connections: &str, size: &str, urgency: Option<&str>) -> Option<ClosedClient> {
    let (connections, size_bytes) = (connections.parse().ok()?, units::parse_size(size).ok()?);
    let urgency = match urgency {
        Some(text) => Some(text.strip_prefix("u=")?.parse().ok().filter(|urgency| *urgency <= URGENCY_MAX)?),
        None => None,
    };
    let is_sane = (1..=CLOSED_CONNECTIONS_MAX).contains(&connections) && (1..=SIZE_BYTES_MAX).contains(&size_bytes);
    is_sane.then_some(ClosedClient { group: 0, connections, size_bytes, urgency })
}

/// Returns the clients that request again immediately, each as a group.
pub(super) fn closed_clients(groups: &[Asks]) -> Vec<ClosedClient> {
    let client = |(group, (_, closed)): (u32, &Asks)| Some(ClosedClient { group, ..(*closed)? });
    (0..).zip(groups).filter_map(client).collect()
}

fn addresses_of(text: &str) -> Option<Vec<IpAddr>> {
    let Some((first, last)) = text.split_once('-') else { return Some(vec![text.parse().ok()?]) };
    let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            let (first, last) = (u32::from(first), u32::from(last));
            let count = last.checked_sub(first)?;
            ((count as usize) < ADDRESSES_MAX).then(|| (first..=last).map(|ip| IpAddr::V4(ip.into())).collect())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            let (first, last) = (u128::from(first), u128::from(last));
            let count = last.checked_sub(first)?;
            (count < ADDRESSES_MAX as u128).then(|| (first..=last).map(|ip| IpAddr::V6(ip.into())).collect())
        }
        _ => None,
    }
}

/// Checks the names, by which reports identify the groups.
pub(super) fn check(groups: &[ClientGroup]) -> Result<(), Failure> {
    let twice = |(n, group): (usize, &ClientGroup)| groups[..n].iter().any(|other| other.name == group.name);
    match groups.iter().enumerate().find(|&group| twice(group)) {
        Some((_, group)) => Err(Failure::Usage(format!("--client: two groups are called `{}`", group.name))),
        None => Ok(()),
    }
}

/// Reads `--abort` and `--retries`.
pub(super) fn patience(load: &Load) -> Result<Option<Patience>, Failure> {
    match load.abort.map(Nanos::from) {
        None => Ok(None),
        Some(Nanos::ZERO) => {
            Err(Failure::Usage("--abort: users who give up after 0 s never see an answer: write 7s, say".into()))
        }
        Some(abort_after) => Ok(Some(Patience { abort_after, retries: load.retries.unwrap_or_default() })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read() {
        let (far, closed) = group("far=198.18.1.1,198.18.2.254-198.18.3.1@0.3").unwrap();
        assert_eq!((far.name.as_str(), far.share, closed), ("far", Some(0.3), None));
        let addresses: Vec<String> = far.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["198.18.1.1", "198.18.2.254", "198.18.2.255", "198.18.3.0", "198.18.3.1"]);
        assert_eq!(group("six=::1-::3@1").unwrap().0.addresses.len(), 3);
        let visits = group("far=198.18.1.1-198.18.1.9@1:households").unwrap().0;
        assert_eq!((visits.share, visits.visitors), (Some(1.0), Some(workload::Visitors::Households)));
        let splitter = group("a=127.0.0.1@8x100KB").unwrap();
        let client = ClosedClient { group: 1, connections: 8, size_bytes: 100_000, urgency: None };
        assert_eq!((splitter.0.share, splitter.1), (None, Some(ClosedClient { group: 0, ..client })));
        let urgent = group("a=127.0.0.1@8x100KB:u=0").unwrap().1;
        assert_eq!(urgent, Some(ClosedClient { group: 0, urgency: Some(0), ..client }));
        assert_eq!(closed_clients(&[group("b=127.0.0.2@1").unwrap(), splitter]), [client]);
    }

    #[test]
    fn what_is_no_group_says_what_is() {
        for wrong in [
            "",
            "near",
            "near=198.18.0.2",
            "=198.18.0.2@1",
            "near=@1",
            "near=198.18.0@1",
            "near=198.18.0.2@much",
            "near=198.18.0.2-198.18.0.1@1",
            "near=198.18.0.0-198.19.0.0@1",
            "near=198.18.0.0-::1@1",
            "near=198.18.0.2@0x100KB",
            "near=198.18.0.2@4097x100KB",
            "near=198.18.0.2@8x0",
            "near=198.18.0.2@8x",
            "near=198.18.0.2@x1",
            "near=198.18.0.2@1:each",
            "near=198.18.0.2@1:u=0",
            "near=198.18.0.2@8x1:u=8",
            "near=198.18.0.2@8x1:visit",
        ] {
            assert!(group(wrong).unwrap_err().contains("NAME=ADDR[,ADDR…]@SHARE"), "{wrong}");
        }
        let same = ["a=127.0.0.1@0.5", "a=127.0.0.2@0.5"].map(|text| group(text).unwrap().0);
        assert!(check(&same).is_err() && check(&same[..1]).is_ok());
    }

    #[test]
    fn patience_is_read() {
        let seven = Patience { abort_after: Nanos::from_secs(7), retries: 3 };
        let load = |more: &str| serde_json::from_str::<Load>(&format!(r#"{{"seconds":1,"retries":3{more}}}"#));
        assert_eq!(patience(&load(r#","abort":"7s""#).unwrap()).unwrap(), Some(seven));
        assert_eq!(patience(&load("").unwrap()).unwrap(), None);
        assert!(patience(&load(r#","abort":"0s""#).unwrap()).is_err() && load(r#","abort":"7""#).is_err());
    }
}
