//! Who asks: groups of clients with their addresses, and how long they wait.

use std::net::IpAddr;

use cli::Failure;
use loadgen::{ClientGroup, Patience};
use testbed::Load;
use units::Nanos;

/// A source address costs its ports' state only, but a typing error should not make a million.
const ADDRESSES_MAX: usize = 4096;

/// One group: `NAME=ADDR[,ADDR…]@SHARE`, where `ADDR-ADDR` stands for all addresses from the one to the other.
pub(super) fn group(text: &str) -> Result<ClientGroup, String> {
    let parts = || {
        let (name, rest) = text.split_once('=')?;
        let (addresses, share) = rest.rsplit_once('@')?;
        let addresses: Option<Vec<Vec<IpAddr>>> = addresses.split(',').map(addresses_of).collect();
        let group = ClientGroup { name: name.into(), addresses: addresses?.concat(), share: share.parse().ok()? };
        (!name.is_empty() && group.addresses.len() <= ADDRESSES_MAX).then_some(group)
    };
    parts().ok_or_else(|| {
        format!(
            "`{text}` is no group of clients: write NAME=ADDR[,ADDR…]@SHARE with up to {ADDRESSES_MAX} addresses, for \
             example near=198.18.0.2@0.7 or far=198.18.1.1-198.18.1.64@0.3"
        )
    })
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

/// Names are what reports call the groups by.
pub(super) fn check(groups: &[ClientGroup]) -> Result<(), Failure> {
    let twice = |(n, group): (usize, &ClientGroup)| groups[..n].iter().any(|other| other.name == group.name);
    match groups.iter().enumerate().find(|&group| twice(group)) {
        Some((_, group)) => Err(Failure::Usage(format!("--client: two groups are called `{}`", group.name))),
        None => Ok(()),
    }
}

/// What `--abort` and `--retries` say.
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
        let far = group("far=198.18.1.1,198.18.2.254-198.18.3.1@0.3").unwrap();
        assert_eq!((far.name.as_str(), far.share), ("far", 0.3));
        let addresses: Vec<String> = far.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["198.18.1.1", "198.18.2.254", "198.18.2.255", "198.18.3.0", "198.18.3.1"]);
        assert_eq!(group("six=::1-::3@1").unwrap().addresses.len(), 3);
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
        ] {
            assert!(group(wrong).unwrap_err().contains("NAME=ADDR[,ADDR…]@SHARE"), "{wrong}");
        }
        let same = ["a=127.0.0.1@0.5", "a=127.0.0.2@0.5"].map(|text| group(text).unwrap());
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
