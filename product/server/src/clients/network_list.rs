//! Networks that an operator has configured: proxies whose information about their clients is trusted, and networks
//! that are reached without the uplink.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use config::Network;

/// The networks; empty unless configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkList(Arc<[Network]>);

impl NetworkList {
    pub fn new(networks: Vec<Network>) -> NetworkList {
        NetworkList(networks.into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// The networks, separated by commas.
impl fmt::Display for NetworkList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, network) in self.0.iter().enumerate() {
            write!(f, "{}{network}", if nth > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_networks_no_address_is_in_them() {
        let of = |networks: &[&str], address: &str| {
            let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
            NetworkList::new(networks).contain(address.parse().unwrap())
        };
        let proxies = ["127.0.0.1", "10.0.0.0/8", "fd00::/8"];
        assert!(["127.0.0.1", "::ffff:127.0.0.1", "10.1.2.3", "fd00::7"].iter().all(|proxy| of(&proxies, proxy)));
        assert!(!["127.0.0.2", "11.0.0.1", "fe80::1"].iter().any(|other| of(&proxies, other)));
        assert!(!of(&[], "127.0.0.1"));
    }
}
