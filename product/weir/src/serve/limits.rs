//! The limits that the flags set.

use server::Patience;
use server::{ClientWeights, Limits, MemoryLimit, NetworkList, SpoolConfig};

use super::Flags;

pub const HEAD_FIELDS_MAX: i64 = http::FIELDS_MAX as i64;

/// The value of `--head-bytes`.
pub fn head_bytes(text: &str) -> Result<usize, String> {
    let bytes = units::parse_size(text).ok().filter(|bytes| config::HEAD_BYTES.contains(bytes));
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "expected a size of 4KiB to 128KiB, for example 64KiB".to_string())
}

pub fn limits(flags: &Flags) -> Limits {
    let patience = Patience { rate_bytes_per_s_min: flags.min_send_rate, window: flags.min_send_rate_window.into() };
    Limits {
        connections_max: flags.max_accepted_connections.unwrap_or(flags.connections) as usize,
        holds_places: flags.max_accepted_connections.is_some(),
        client_prefix: flags.client_prefix,
        client_weights: ClientWeights::new(flags.client_weights.clone()),
        trusted_proxies: NetworkList::new(flags.trusted_proxies.clone()),
        local_networks: NetworkList::new(flags.local_networks.clone()),
        // As in Apache, which has no limit for one client.
        client_connections_max: flags.client_connections.or(flags.max_accepted_connections.map(|_| 0)),
        memory: MemoryLimit::new(flags.memory),
        request: http::Limits { head_bytes_max: flags.head_bytes, fields_max: flags.head_fields as usize },
        client_requests_per_s_max: flags.client_requests,
        client_rate_max: flags.client_rate,
        head_timeout: flags.header_timeout.into(),
        body_timeout: flags.body_timeout.into(),
        body_rate_bytes_per_s_min: flags.min_request_rate,
        idle_timeout: flags.idle_timeout.into(),
        stop_timeout: flags.shutdown_timeout,
        patience,
        spool: SpoolConfig { folder: flags.spool_folder.clone(), bytes_max: flags.spool },
        ..Limits::default()
    }
}
