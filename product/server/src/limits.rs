//! The limits on clients: connections, requests, rates, timeouts.

use std::time::Duration;

use config::{ClientPrefix, defaults};
use units::{Nanos, Rate};

use crate::clients::{ClientLimits, ClientWeights, NetworkList};
use crate::clock::ClientTime;
use crate::disk::SpoolConfig;
use crate::memory::MemoryLimit;
use crate::upload::UploadLimits;

/// Limits on the resources that clients may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The maximum number of connections over all workers. A larger value needs more memory and descriptors; with a
    /// smaller one, more clients wait in the kernel's queue.
    pub connections_max: usize,
    /// The maximum memory of the process.
    pub memory: MemoryLimit,
    /// If true, a connection keeps its place until its client has closed it, or until two seconds after the last byte
    /// was handed to the kernel, as with Apache's processes (lingering close). Otherwise it gives the place up when
    /// that byte is handed over.
    pub holds_places: bool,
    pub client_prefix: ClientPrefix,
    /// The weight of each client, if clients share the link.
    pub client_weights: ClientWeights,
    /// Peers whose information about their clients is trusted.
    pub trusted_proxies: NetworkList,
    /// The networks that are reached without the uplink. Bytes to them are not paced, charged or observed.
    pub local_networks: NetworkList,
    /// The maximum number of connections per client; 0 for no limit, `None` for the share that [`Limits::clients`]
    /// gives.
    pub client_connections_max: Option<u32>,
    /// The maximum number of requests per second and client; 0 for no limit.
    pub client_requests_per_s_max: u32,
    /// The maximum rate at which a client is sent data; `None` for no limit.
    pub client_rate_max: Option<Rate>,
    pub request: http::Limits,
    /// The maximum bytes of a request body that are read and discarded so that the connection can be kept.
    pub body_bytes_max: u64,
    /// The maximum time from accepting (or from the first byte of a later request) to the end of the head.
    pub head_timeout: Nanos,
    /// The maximum time between the bytes of a request body. It is also the allowance for the whole body in addition to
    /// its time at the minimum rate.
    pub body_timeout: Nanos,
    /// The minimum average rate of a request body, in bytes per second.
    pub body_rate_bytes_per_s_min: u64,
    /// The maximum time between requests.
    pub idle_timeout: Nanos,
    pub patience: Patience,
    /// The time for which a stopping server continues to send responses that it has begun.
    pub stop_timeout: Duration,
    /// The spool for responses of upstreams.
    pub spool: SpoolConfig,
}

/// The divisor of the number of connections that gives the default maximum per client.
const CLIENT_PART: usize = 4;
/// The minimum of that default. It is enough for ten browsers behind one address; it does not apply if it is more than
/// half of all places.
const CLIENT_CONNECTIONS_MIN: usize = 64;

impl Limits {
    /// Returns the limits per client if there is room for `places` connections.
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
    /// The deadline of a connection that is idle from now on.
    pub(crate) fn idle_until(&self, now: ClientTime) -> ClientTime {
        now + self.idle_timeout
    }

    /// Returns the time since which a connection with this deadline has been idle. Before its first answer, the timeout
    /// for a head applies.
    pub(crate) fn idle_since(&self, deadline: ClientTime, has_answered: bool) -> ClientTime {
        let timeout = if has_answered { self.idle_timeout } else { self.head_timeout };
        deadline - timeout
    }

    /// The limits for request bodies.
    pub(crate) fn upload(&self) -> UploadLimits {
        UploadLimits { timeout: self.body_timeout, rate_bytes_per_s_min: self.body_rate_bytes_per_s_min }
    }
}

impl Default for Limits {
    /// The slowest reader and the slowest body that are tolerated have 4 kbit/s, as in Apache's mod_reqtimeout.
    fn default() -> Limits {
        let time = |text: &str| units::parse_duration(text).expect("a default is a time");
        Limits {
            connections_max: 100_000,
            memory: MemoryLimit::new(None),
            holds_places: false,
            client_prefix: ClientPrefix::default(),
            client_weights: ClientWeights::default(),
            trusted_proxies: NetworkList::default(),
            local_networks: NetworkList::default(),
            client_connections_max: None,
            client_requests_per_s_max: 0,
            client_rate_max: None,
            request: http::Limits::default(),
            body_bytes_max: 1 << 20,
            head_timeout: time(defaults::HEADER_TIMEOUT).into(),
            body_timeout: time(defaults::BODY_TIMEOUT).into(),
            body_rate_bytes_per_s_min: 500,
            idle_timeout: time(defaults::IDLE_TIMEOUT).into(),
            patience: Patience { rate_bytes_per_s_min: 500, window: Nanos::from_secs(30) },
            stop_timeout: time(defaults::SHUTDOWN_TIMEOUT),
            spool: SpoolConfig { folder: "/var/tmp".into(), bytes_max: 1_000_000_000 },
        }
    }
}

/// The limit on slow readers, which keeps them from holding a connection and a response indefinitely.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The minimum bytes per second that an awaited reader has to take, averaged over a window.
    pub rate_bytes_per_s_min: u64,
    /// The window. It is long enough to survive a few retransmission timeouts.
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

    /// A head is retransmitted after 3, 6 and 12 s at the initial timeout of RFC 1122. A limit of 20 s cut such
    /// requests off.
    #[test]
    fn a_head_may_be_lost_three_times() {
        assert!(Limits::default().head_timeout > Nanos::from_secs(3 + 6 + 12));
    }
}
