//! The weights of clients ([`ClientWeight`]).

use std::net::IpAddr;

use config::ClientWeight;

/// The weights of the clients of some networks; every other client has a weight of 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientWeights(Vec<ClientWeight>);

impl ClientWeights {
    pub fn new(weights: Vec<ClientWeight>) -> ClientWeights {
        ClientWeights(weights)
    }

    /// Returns the weight of an address. The network with the longest prefix decides, and among equally long ones the
    /// last.
    pub fn of(&self, address: IpAddr) -> u8 {
        let address = address.to_canonical();
        let found = self.0.iter().filter(|one| one.contains(address)).max_by_key(|one| one.length());
        found.map_or(1, |one| one.weight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let texts = ["0.0.0.0/0=2", "198.18.0.0/16=8", "198.18.4.1=100", "198.18.0.0/16=9", "2001:db8::/32=3"];
        let weights = ClientWeights::new(texts.map(|text| text.parse().unwrap()).to_vec());
        let of = |address: &str| weights.of(address.parse().unwrap());
        assert_eq!(["192.0.2.1", "198.18.4.2", "198.18.4.1", "::ffff:198.18.4.1"].map(of), [2, 9, 100, 100]);
        assert_eq!(["2001:db8::1", "2001:db9::1"].map(of), [3, 1]);
        assert_eq!(ClientWeights::default().of("::1".parse().unwrap()), 1);
    }
}
