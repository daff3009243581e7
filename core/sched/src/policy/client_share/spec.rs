//! The parameters of the share between clients, and how an operator writes them.

use std::fmt;
use std::str::FromStr;

use units::{Nanos, Rate};

/// The minimum allowance: about the largest response of an ordinary site. A smaller one would hold back large responses
/// of ordinary clients; a larger one would give clients that split their downloads more.
const ALLOWANCE_BYTES_MIN: u64 = 3_000_000;
/// The allowance as link time, used if it is more bytes: 2.4 s is a wait that people accept (3 MB at 10 Mbit/s).
const ALLOWANCE_FOR: Nanos = Nanos::from_millis(2400);
/// The assumed rate of an idle link whose rate is unknown.
const UNKNOWN_RATE_BYTES_PER_S: u64 = 1_250_000;

/// The parameters of the share between clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientShare {
    /// The maximum bytes by which a client may be ahead of its share before others go first.
    pub allowance_bytes: u64,
    /// The bytes by which a client's lead shrinks per second in which the link is idle.
    pub idle_bytes_per_s: u64,
}

impl ClientShare {
    /// Returns the usual share on a link of this rate.
    pub fn of_link(rate: Option<Rate>) -> ClientShare {
        let of_time = rate.map_or(0, |rate| rate.bytes_in(ALLOWANCE_FOR));
        ClientShare {
            allowance_bytes: of_time.max(ALLOWANCE_BYTES_MIN),
            idle_bytes_per_s: rate.map_or(UNKNOWN_RATE_BYTES_PER_S, |rate| rate.bytes_in(Nanos::from_secs(1))),
        }
    }
}

/// The share between clients as an operator writes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientShareSpec {
    /// Each response counts on its own, regardless of its client.
    Off,
    #[default]
    On,
    /// A tenth of the usual allowance: nearly fair, with a worse mean response time.
    Strict,
    /// An allowance in bytes.
    Allowance(u64),
}

/// The accepted forms, for help texts.
pub const CLIENT_SHARE_FORMS: &str = "on, off, strict, or the allowance as a size, for example 20MB";

impl ClientShareSpec {
    /// The share on a link of this rate; `None` if it is off.
    pub fn of_link(self, rate: Option<Rate>) -> Option<ClientShare> {
        let usual = ClientShare::of_link(rate);
        let with = |allowance_bytes| ClientShare { allowance_bytes, ..usual };
        match self {
            ClientShareSpec::Off => None,
            ClientShareSpec::On => Some(usual),
            ClientShareSpec::Strict => Some(with(usual.allowance_bytes / 10)),
            ClientShareSpec::Allowance(bytes) => Some(with(bytes)),
        }
    }
}

impl FromStr for ClientShareSpec {
    type Err = ClientShareError;

    fn from_str(text: &str) -> Result<ClientShareSpec, ClientShareError> {
        match text {
            "off" => Ok(ClientShareSpec::Off),
            "on" => Ok(ClientShareSpec::On),
            "strict" => Ok(ClientShareSpec::Strict),
            size => match units::parse_size(size) {
                Ok(bytes) if bytes > 0 => Ok(ClientShareSpec::Allowance(bytes)),
                _ => Err(ClientShareError(size.into())),
            },
        }
    }
}

impl fmt::Display for ClientShareSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientShareSpec::Off => f.write_str("off"),
            ClientShareSpec::On => f.write_str("on"),
            ClientShareSpec::Strict => f.write_str("strict"),
            ClientShareSpec::Allowance(bytes) => write!(f, "{bytes}B"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("client share `{0}`: write {CLIENT_SHARE_FORMS}")]
pub struct ClientShareError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_is_a_large_response_or_a_wait_that_people_bear() {
        let of = |rate: &str| ClientShare::of_link(rate.parse().ok());
        assert_eq!(of("1mbit"), ClientShare { allowance_bytes: 3_000_000, idle_bytes_per_s: 125_000 });
        assert_eq!(of("10mbit"), of("none"), "taken for 10 Mbit/s where nothing is known");
        assert_eq!(of("1gbit"), ClientShare { allowance_bytes: 300_000_000, idle_bytes_per_s: 125_000_000 });
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["on", "off", "strict", "20000000B"] {
            assert_eq!(text.parse::<ClientShareSpec>().unwrap().to_string(), text);
        }
        assert_eq!("20MB".parse(), Ok(ClientShareSpec::Allowance(20_000_000)));
        for wrong in ["", "0", "yes", "10mbit", "-1B"] {
            let error = wrong.parse::<ClientShareSpec>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!("client share `{wrong}`: write on, off, strict, or the allowance as a size, for example 20MB")
            );
        }
    }

    #[test]
    fn strict_is_a_tenth_and_off_is_nothing() {
        let allowance = |spec: ClientShareSpec| spec.of_link(None).map(|share| share.allowance_bytes);
        let specs = [ClientShareSpec::Off, ClientShareSpec::On, ClientShareSpec::Strict, ClientShareSpec::Allowance(7)];
        assert_eq!(specs.map(allowance), [None, Some(3_000_000), Some(300_000), Some(7)]);
    }
}
