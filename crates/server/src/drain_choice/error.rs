use std::fmt;
use std::io;
use std::net::IpAddr;

/// Why the drain that was asked for cannot be had: what is missing, where, and what would be right.
#[derive(Debug)]
pub enum DrainError {
    NoInterface(IpAddr),
    Interface(io::Error),
    Tree(uplink::Error),
    NoTree { interface: String },
    WrongTree { interface: String },
    NotAllowed,
    Mark(io::Error),
    NoBands { policy: String },
    TooManyBands { policy: String, bands: u8, interface: String, bands_max: u8 },
}

impl DrainError {
    /// Whether another command line would do on this machine as it is.
    pub fn is_usage(&self) -> bool {
        matches!(self, DrainError::NoBands { .. } | DrainError::TooManyBands { .. })
    }
}

impl fmt::Display for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("drain bands: ")?;
        match self {
            DrainError::NoInterface(ip) if ip.is_unspecified() => {
                write!(f, "there is no default route to serve through: name the interface's address with --listen")
            }
            DrainError::NoInterface(ip) => {
                write!(f, "no interface has the address {ip}: choose an address of this host with --listen")
            }
            DrainError::Interface(error) => write!(f, "the interfaces of this host cannot be read: {error}"),
            DrainError::Tree(error) => error.fmt(f),
            DrainError::NoTree { interface } => {
                write!(f, "{interface} has no bands: make them with `weir uplink up {interface} --rate RATE`")
            }
            DrainError::WrongTree { interface } => write!(
                f,
                "the tree on {interface} orders flows and has no bands: make one that has with `weir uplink down \
                 {interface}` and `weir uplink up {interface} --rate RATE`"
            ),
            DrainError::NotAllowed => {
                write!(f, "marking packets needs CAP_NET_ADMIN: start as root, or serve with --drain paced")
            }
            DrainError::Mark(error) => write!(f, "packets cannot be marked: {error}"),
            DrainError::NoBands { policy } => {
                write!(f, "policy `{policy}` has no bands: choose one of {}", super::bands::POLICIES)
            }
            DrainError::TooManyBands { policy, bands, interface, bands_max } => write!(
                f,
                "policy `{policy}` has {bands} bands, and {interface} has {bands_max} for responses: write fewer, or \
                 make more with `weir uplink up {interface} --bands`"
            ),
        }
    }
}

impl std::error::Error for DrainError {}
