use std::fmt;
use std::io;
use std::net::IpAddr;

/// Why the drain that was asked for cannot be had: what is missing, where, and what would be right.
#[derive(Debug)]
pub enum DrainError {
    NoInterface(IpAddr),
    Interface(io::Error),
    /// Whatever the kernel side says.
    Kernel(uplink::Error),
    NoTree {
        interface: String,
    },
    WrongTree {
        interface: String,
    },
    /// Bands: a classifier marks the same packets, after us.
    Sorted {
        interface: String,
        port: u16,
    },
    NotAllowed,
    Mark(io::Error),
    /// Ranked: what is there orders nothing by rank.
    NotRanked {
        interface: String,
    },
    Unattached {
        why: &'static str,
        interface: String,
        port: u16,
        policy: String,
    },
    /// This program was built without the BPF programs.
    NotBuilt,
    Policy(Misfit),
}

/// Why the policy is none for this drain.
#[derive(Debug)]
pub enum Misfit {
    NoBands { policy: String },
    TooManyBands { policy: String, bands: u8, interface: String, bands_max: u8 },
    NoRank { policy: String, known: String },
}

impl DrainError {
    /// Whether another command line would do on this machine as it is.
    pub fn is_usage(&self) -> bool {
        matches!(self, DrainError::Policy(_))
    }
}

impl fmt::Display for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrainError::NoInterface(ip) => {
                write!(f, "no interface answers for {ip}: name an address of this host with --listen")
            }
            DrainError::Interface(error) => write!(f, "the interfaces of this host cannot be read: {error}"),
            DrainError::Kernel(error) => error.fmt(f),
            DrainError::NoTree { interface } => {
                write!(f, "{interface} has no bands: make them with `weir uplink up {interface} --rate RATE`")
            }
            DrainError::WrongTree { interface } => write!(
                f,
                "the tree on {interface} orders flows and has no bands: make one that has with `weir uplink down \
                 {interface}` and `weir uplink up {interface} --rate RATE`"
            ),
            DrainError::Sorted { interface, port } => write!(
                f,
                "`weir attach` sorts port {port} on {interface} already: serve with --shaping off, or take it away with `weir \
                 attach --detach {interface}`"
            ),
            DrainError::NotAllowed => {
                write!(f, "marking packets needs CAP_NET_ADMIN: start as root, or serve with --shaping paced")
            }
            DrainError::Mark(error) => write!(f, "packets cannot be marked: {error}"),
            DrainError::NotRanked { interface } => write!(
                f,
                "{interface} has no ranked queue: make one with `weir uplink up {interface} --rate RATE --qdisc ranked`, where \
                 `weir uplink doctor` says that this kernel can"
            ),
            DrainError::Unattached { why, interface, port, policy } => write!(
                f,
                "{why}: hang one at {interface} with `weir attach {interface} --port {port} --policy {policy}`"
            ),
            DrainError::NotBuilt => {
                write!(f, "this weir was built without its BPF programs: serve with --shaping bands or paced")
            }
            DrainError::Policy(misfit) => misfit.fmt(f),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NoRank { policy, known } => {
                write!(f, "the kernel cannot rank by policy `{policy}`: choose one of {known}")
            }
            Misfit::NoBands { policy } => {
                write!(f, "policy `{policy}` has no bands: choose one of {}", super::bands::POLICIES)
            }
            Misfit::TooManyBands { policy, bands, interface, bands_max } => write!(
                f,
                "policy `{policy}` has {bands} bands, and {interface} has {bands_max} for responses: write fewer, or \
                 make more with `weir uplink up {interface} --bands`"
            ),
        }
    }
}

impl std::error::Error for DrainError {}
