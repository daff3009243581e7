use std::io;
use std::net::IpAddr;

use sched::policy::PolicySpec;
use thiserror::Error;

/// The reason why the requested shaping is not possible: what is missing, where, and what would help.
#[derive(Debug, Error)]
pub enum ShapingError {
    #[error("no interface has address {0}; expected an address of this host in --listen (listener.address)")]
    NoInterface(IpAddr),
    #[error("cannot list the interfaces of this host: {0}")]
    Interface(#[source] io::Error),
    /// An error of the kernel side.
    #[error(transparent)]
    Kernel(uplink::Error),
    #[error("{interface} has no bands; run `weir uplink up {interface} --rate RATE`")]
    NoTree { interface: String },
    /// The requested shaping is bands, and a classifier marks the same packets after the server.
    #[error(
        "`weir attach` already sorts port {port} on {interface}; use --shaping off, or run `weir attach --detach {interface}`"
    )]
    Sorted { interface: String, port: u16 },
    #[error("marking packets needs CAP_NET_ADMIN; run as root, or use --shaping paced")]
    NotAllowed,
    #[error("cannot mark packets: {0}")]
    Mark(#[source] io::Error),
    #[error(transparent)]
    Policy(Misfit),
}

/// The reason why the policy does not fit this shaping.
#[derive(Debug, Error)]
pub enum Misfit {
    #[error("policy `{policy}` has no bands; expected one of {}", sched::policy::BAND_POLICIES)]
    NoBands { policy: PolicySpec },
    #[error(
        "policy `{policy}` has {bands} bands; {interface} has {bands_max} for responses; expected at most {bands_max}, or run `weir \
         uplink up {interface} --rate RATE --bands N`"
    )]
    TooManyBands { policy: PolicySpec, bands: u8, interface: String, bands_max: u8 },
    #[error(
        "policy `{policy}` is for the laboratory, where routes learn other indices; expected gittins in place of mserpt"
    )]
    OtherIndex { policy: PolicySpec },
    #[error("[[class]] tables have no bands; expected --shaping auto, paced or off")]
    Classes,
    #[error("cannot be combined with --uplink off; expected --uplink auto or a rate, or --shaping off")]
    Off,
}

impl ShapingError {
    /// Returns true if a different command line would work on this machine without further changes.
    pub fn is_usage(&self) -> bool {
        matches!(self, ShapingError::Policy(_))
    }
}
