//! Weights for clients that count as more than one, such as many people behind one address, or a proxy.

use std::net::IpAddr;
use std::str::FromStr;

use sched::policy::CLIENT_WEIGHT_MAX;
use thiserror::Error;

use crate::keys::Form;
use crate::value_forms::{FromText, Wrong};

/// The weight of each client of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientWeight {
    network: IpAddr,
    length: u32,
    weight: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected a network and a weight from 1 to {CLIENT_WEIGHT_MAX}, for example 192.0.2.0/24=8")]
pub struct ClientWeightError;

impl ClientWeight {
    /// The length of the network's prefix in bits.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub fn weight(&self) -> u8 {
        self.weight
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => u128::from(network.to_bits() ^ address.to_bits()) << 96,
            (IpAddr::V6(network), IpAddr::V6(address)) => network.to_bits() ^ address.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= self.length
    }
}

impl FromStr for ClientWeight {
    type Err = ClientWeightError;

    fn from_str(text: &str) -> Result<ClientWeight, ClientWeightError> {
        let (network, weight) = text.rsplit_once('=').ok_or(ClientWeightError)?;
        let (address, length) = network.split_once('/').map_or((network, None), |(at, length)| (at, Some(length)));
        let network: IpAddr = address.parse().map_err(|_| ClientWeightError)?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), str::parse).ok().filter(|length| *length <= most);
        let weight = weight.parse().ok().filter(|weight| (1..=CLIENT_WEIGHT_MAX).contains(weight));
        let (length, weight) = length.zip(weight).ok_or(ClientWeightError)?;
        Ok(ClientWeight { network, length, weight })
    }
}

impl FromText for ClientWeight {
    const FORM: Form = Form::ClientWeight;

    fn from_text(text: &str) -> Result<ClientWeight, Wrong> {
        text.parse().map_err(|_| Wrong::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_weights_are_refused() {
        for wrong in
            ["", "198.18.0.0/16", "198.18.0.0/16=0", "198.18.0.0/16=101", "198.18.0.0/33=2", "host=2", "::/129=2", "=5"]
        {
            assert_eq!(wrong.parse::<ClientWeight>(), Err(ClientWeightError), "{wrong}");
        }
    }
}
