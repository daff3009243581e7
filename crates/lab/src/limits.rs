//! What the kernel of the server's side and the server itself allow, as 003 sets it for an overload to be felt.

use serde::Deserialize;

use crate::Experiment;

/// Limits of an experiment; what is unset is left as it is.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Half-open connections: `tcp_max_syn_backlog`.
    pub syn_queue: Option<u64>,
    /// Connections nobody has accepted yet: the listening socket's backlog.
    pub accept_queue: Option<u64>,
    pub syn_cookies: Option<bool>,
    /// Connections the server serves at once: the papers' Apache processes.
    pub workers: Option<u64>,
    /// Until the first SYN or SYN-ACK is sent again, such as `3s`.
    pub initial_rto: Option<String>,
    /// Bytes of payload in a segment.
    pub mss: Option<u64>,
    /// Segments that may be sent before the first acknowledgement.
    pub initial_window: Option<u64>,
    /// Send buffer: least, usual and most bytes.
    pub tcp_wmem: Option<String>,
    /// Bits of `tcp_recovery`: 1 is RACK.
    pub recovery: Option<u64>,
}

impl Limits {
    /// Nothing puts them into effect yet, and a limit that has none would be a wrong result.
    pub(crate) fn check(&self, _experiment: &Experiment) -> Result<(), String> {
        if *self == Limits::default() { Ok(()) } else { Err("[limits] have no effect yet: leave them out".into()) }
    }
}
