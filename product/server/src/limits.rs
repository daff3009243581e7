//! What a client may cost.

use std::time::Duration;

use units::{Nanos, Rate};

use crate::clients::{ClientLimits, ClientPrefix, ClientWeights, TrustedProxies};
use crate::memory::MemoryLimit;
use crate::storage::SpoolConfig;
use crate::upload::UploadLimits;

/// What a client may cost.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections over all workers. Raised: more memory and descriptors; lowered: clients wait in the kernel's queue.
    pub connections_max: usize,
    /// What the process may hold.
    pub memory: MemoryLimit,
    /// A connection keeps its place until its client has closed it, or two seconds after the last byte was handed to the
    /// kernel, as with Apache's processes (its lingering close); without it, until that byte.
    pub holds_places: bool,
    pub client_prefix: ClientPrefix,
    /// For how many clients one counts where they share the link.
    pub client_weights: ClientWeights,
    /// Peers that are believed what they say of their clients.
    pub trusted_proxies: TrustedProxies,
    /// Connections of one client; 0 is no limit, `None` the share that [`Limits::clients`] gives.
    pub client_connections_max: Option<u32>,
    /// Requests of one client; 0 is no limit.
    pub client_requests_per_s_max: u32,
    /// What one client is sent; `None` is no limit.
    pub client_rate_max: Option<Rate>,
    pub request: http::Limits,
    /// Bytes of a request body that is read and thrown away so that the connection can be kept.
    pub body_bytes_max: u64,
    /// From accepting (or the first byte of a later request) to the end of the head.
    pub head_timeout: Nanos,
    /// Between the bytes of a request body, and beyond the time that the least rate gives the whole.
    pub body_timeout: Nanos,
    /// Bytes per second at which a request body has to arrive on average.
    pub body_rate_bytes_per_s_min: u64,
    /// Between requests.
    pub idle_timeout: Nanos,
    pub patience: Patience,
    /// How long a stopping server goes on sending what it has begun.
    pub stop_timeout: Duration,
    /// For responses of upstreams.
    pub spool: SpoolConfig,
}

/// One client has this part of all connections, where nothing else is asked for.
const CLIENT_PART: usize = 4;
/// And no fewer than this, ten browsers behind one address, unless that is more than half of all.
const CLIENT_CONNECTIONS_MIN: usize = 64;

impl Limits {
    /// What one client may have, where there is room for so many connections.
    pub fn clients(&self, places: usize) -> ClientLimits {
        let least = CLIENT_CONNECTIONS_MIN.min(places / 2).max(1);
        let part = u32::try_from((places / CLIENT_PART).max(least)).unwrap_or(u32::MAX);
        ClientLimits {
            prefix: self.client_prefix,
            connections_max: self.client_connections_max.unwrap_or(part),
            requests_per_s_max: self.client_requests_per_s_max,
            rate_max: self.client_rate_max,
        }
    }
}

impl Limits {
    /// For the bodies of requests.
    pub(crate) fn upload(&self) -> UploadLimits {
        UploadLimits { timeout: self.body_timeout, rate_bytes_per_s_min: self.body_rate_bytes_per_s_min }
    }
}

impl Default for Limits {
    /// The timeouts are those administrators know from nginx (60 s head, 75 s idle). A head is one packet, and still must not
    /// have less: lost three times it is there after 21 s where the initial timeout is 3 s (RFC 1122), and over a path that
    /// loses 10 % a limit of 20 s cut 7 of 17,859 requests off. The slowest reader and the slowest
    /// body allowed are 4 kbit/s ones, as in Apache's mod_reqtimeout.
    fn default() -> Limits {
        Limits {
            connections_max: 100_000,
            memory: MemoryLimit::new(None),
            holds_places: false,
            client_prefix: ClientPrefix::default(),
            client_weights: ClientWeights::default(),
            trusted_proxies: TrustedProxies::default(),
            client_connections_max: None,
            client_requests_per_s_max: 0,
            client_rate_max: None,
            request: http::Limits::default(),
            body_bytes_max: 1 << 20,
            head_timeout: Nanos::from_secs(60),
            body_timeout: Nanos::from_secs(20),
            body_rate_bytes_per_s_min: 500,
            idle_timeout: Nanos::from_secs(75),
            patience: Patience { rate_bytes_per_s_min: 500, window: Nanos::from_secs(30) },
            stop_timeout: Duration::from_secs(30),
            spool: SpoolConfig { folder: "/var/tmp".into(), bytes_max: 1_000_000_000 },
        }
    }
}

/// How slow a reader may be, so that nobody holds a connection and a response for ever.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// A reader that we wait for has to take this many bytes per second on average over a window.
    pub rate_bytes_per_s_min: u64,
    /// The window; long enough to ride out a few retransmission timeouts.
    pub window: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_quarter_of_the_connections() {
        let of = |client_connections_max, places| {
            Limits { client_connections_max, ..Limits::default() }.clients(places).connections_max
        };
        assert_eq!([of(None, 100_000), of(None, 1024), of(None, 200)], [25_000, 256, 64]);
        assert_eq!([of(None, 23), of(None, 5), of(None, 1)], [11, 2, 1], "half at most, where descriptors are few");
        assert_eq!([of(Some(0), 100), of(Some(3), 100), of(Some(500), 100)], [0, 3, 500]);
    }

    /// It is sent again after 3, 6 and 12 s at the initial timeout of RFC 1122. 20 s cut such requests off.
    #[test]
    fn a_head_may_be_lost_three_times() {
        assert!(Limits::default().head_timeout > Nanos::from_secs(3 + 6 + 12));
    }
}
