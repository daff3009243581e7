//! The responses in progress and the busiest clients, in the form shown to operators.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use units::Nanos;

use crate::send::WaitsFor;

/// The maximum number of responses that are listed; others are only counted.
pub const RESPONSES_MAX: usize = 20;

/// A response in flight.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseStatus {
    /// The name of the site; empty if the response has none, or if responses are not counted.
    pub site: String,
    /// The name of the class; empty without classes.
    pub class: String,
    /// The version of HTTP, major and minor.
    pub protocol: (u8, u8),
    pub client: IpAddr,
    /// The method and target as they will be logged, which may contain any bytes.
    pub requested: Option<[Vec<u8>; 2]>,
    /// The size, including the head; `None` if it becomes known only at the end.
    pub size: Option<u64>,
    pub sent_bytes: u64,
    /// The time since the response's last byte or, before the first byte, since its arrival.
    pub silent_for: Nanos,
    pub waits_for: WaitsFor,
}

/// The responses of one or more event loops.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResponsesStatus {
    /// The responses that have been silent longest, at most [`RESPONSES_MAX`]. Responses that wait for an upstream come
    /// last, because they may be idle on purpose.
    pub first: Vec<ResponseStatus>,
    /// For each of [`WaitsFor::ALL`], the number of responses that wait for it.
    pub counts: [u64; WaitsFor::ALL.len()],
    /// The number of responses of each client, by the index of its account.
    pub by_client: HashMap<u32, u64>,
}

/// A client and its current usage.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientStatus {
    /// The address, or a prefix with its length.
    pub prefix: String,
    pub connections: u32,
    /// The number of responses in flight.
    pub responses: u64,
    /// The bytes sent to the client, with a half-life of a minute.
    pub bytes_lately: u64,
    /// The number of refused connections and requests.
    pub refusals: u16,
}

/// The sort key of the list; the lowest comes first.
pub type SortKey = (bool, Reverse<Nanos>);

pub fn sort_key(waits_for: WaitsFor, silent_for: Nanos) -> SortKey {
    (waits_for == WaitsFor::Upstream, Reverse(silent_for))
}

impl ResponsesStatus {
    /// Counts a response of this client that is in progress.
    pub fn count(&mut self, waits_for: WaitsFor, client: u32) {
        self.counts[waits_for as usize] += 1;
        *self.by_client.entry(client).or_default() += 1;
    }

    /// Adds the responses of another event loop.
    pub fn add(&mut self, other: ResponsesStatus) {
        self.first.extend(other.first);
        self.first.sort_by_key(|one| sort_key(one.waits_for, one.silent_for));
        self.first.truncate(RESPONSES_MAX);
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        for (client, more) in other.by_client {
            *self.by_client.entry(client).or_default() += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn status(silent_s: &[u64], waits_for: WaitsFor) -> ResponsesStatus {
        let mut status = ResponsesStatus::default();
        for &seconds in silent_s {
            status.count(waits_for, 7);
            status.first.push(ResponseStatus {
                site: String::new(),
                class: String::new(),
                protocol: (1, 1),
                client: Ipv4Addr::LOCALHOST.into(),
                requested: None,
                size: None,
                sent_bytes: 0,
                silent_for: Nanos::from_secs(seconds),
                waits_for,
            });
        }
        status
    }

    #[test]
    fn several_loops_tell_the_longest_silent_and_count_all() {
        let mut sum = status(&[9, 8, 1], WaitsFor::Client);
        sum.add(status(&(0..RESPONSES_MAX as u64).map(|second| 100 - second).collect::<Vec<_>>(), WaitsFor::Upstream));
        sum.add(status(&[5], WaitsFor::Turn));
        let silent: Vec<u64> = sum.first.iter().map(|one| one.silent_for.0 / 1_000_000_000).collect();
        assert_eq!(silent.len(), RESPONSES_MAX);
        assert_eq!(silent[..6], [9, 8, 5, 1, 100, 99], "idle streams of upstreams do not hide others");
        assert_eq!((sum.counts, sum.by_client[&7]), ([1, 3, 0, 20, 0, 0, 0], 24));
    }
}
