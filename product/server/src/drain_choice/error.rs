use std::fmt;
use std::io;
use std::net::IpAddr;

use sched::policy::PolicySpec;

/// Why the drain that was asked for cannot be had: what is missing, where, and what would be right.
#[derive(Debug)]
pub enum DrainError {
    NoInterface(IpAddr),
    Interface(io::Error),
    /// An error of the kernel side.
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
    /// Ranked: the interface has no ranked queue.
    NotRanked {
        interface: String,
    },
    /// Ranked: `why` follows the interface.
    Unattached {
        why: &'static str,
        interface: String,
        port: u16,
        policy: PolicySpec,
    },
    /// This program was built without the BPF programs.
    NotBuilt,
    Policy(Misfit),
}

/// Why the policy is none for this drain.
#[derive(Debug)]
pub enum Misfit {
    NoBands { policy: PolicySpec },
    TooManyBands { policy: PolicySpec, bands: u8, interface: String, bands_max: u8 },
    NoRank { policy: PolicySpec, known: String },
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
                write!(f, "no interface has address {ip}; expected an address of this host in --listen")
            }
            DrainError::Interface(error) => write!(f, "cannot list the interfaces of this host: {error}"),
            DrainError::Kernel(error) => error.fmt(f),
            DrainError::NoTree { interface } => {
                write!(f, "{interface} has no bands; run `weir uplink up {interface} --rate RATE`")
            }
            DrainError::WrongTree { interface } => write!(
                f,
                "{interface} has a ranked queue without bands; run `weir uplink down {interface}`, then `weir uplink up \
                 {interface} --rate RATE`"
            ),
            DrainError::Sorted { interface, port } => write!(
                f,
                "`weir attach` already sorts port {port} on {interface}; use --shaping off, or run `weir attach --detach \
                 {interface}`"
            ),
            DrainError::NotAllowed => {
                write!(f, "marking packets needs CAP_NET_ADMIN; run as root, or use --shaping paced")
            }
            DrainError::Mark(error) => write!(f, "cannot mark packets: {error}"),
            DrainError::NotRanked { interface } => write!(
                f,
                "{interface} has no ranked queue; run `weir uplink up {interface} --rate RATE --qdisc ranked` (Linux 6.16; \
                 `weir uplink doctor` checks this kernel)"
            ),
            DrainError::Unattached { why, interface, port, policy } => {
                write!(f, "{interface} {why}; run `weir attach {interface} --port {port} --policy {policy}`")
            }
            DrainError::NotBuilt => {
                write!(f, "this build of weir has no BPF programs; use --shaping bands or paced")
            }
            DrainError::Policy(misfit) => misfit.fmt(f),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NoRank { policy, known } => {
                write!(f, "policy `{policy}` has no rank in the kernel; expected one of {known}")
            }
            Misfit::NoBands { policy } => {
                write!(f, "policy `{policy}` has no bands; expected one of {}", super::bands::POLICIES)
            }
            Misfit::TooManyBands { policy, bands, interface, bands_max } => write!(
                f,
                "policy `{policy}` has {bands} bands; {interface} has {bands_max} for responses; expected at most \
                 {bands_max}, or run `weir uplink up {interface} --rate RATE --bands N`"
            ),
        }
    }
}

impl std::error::Error for DrainError {}
