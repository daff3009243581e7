//! An upstream as seen by this worker: its idle connections, its places, and whether it answers.

use std::sync::Arc;

use units::Nanos;

use super::Endpoint;
use super::upstream_places::EndpointPlaces;

/// The maximum number of idle connections kept to one upstream: the default maximum of concurrent requests. With fewer,
/// each request beyond that number would need a new connection.
const IDLE_MAX: usize = 256;
/// The time for which an upstream that could not be reached is avoided, if there is another. It doubles with each failure
/// that follows such a time, because the request that finds the failure may wait for `connect_timeout`.
const DOWN_FOR: Nanos = Nanos::from_secs(5);
/// The maximum number of times that this time doubles, to 40 s.
const DOUBLINGS_MAX: u32 = 3;

#[derive(Debug)]
pub struct Peer {
    pub endpoint: Endpoint,
    /// The endpoint as it appears in logs.
    pub name: Arc<str>,
    /// The slots of connections that wait for a request; the last is used first.
    idle: Vec<usize>,
    /// The slots of HTTP/2 connections. Earlier ones are used first, so that the last ones may become idle.
    shared: Vec<usize>,
    /// The places at the upstream, shared by all workers.
    pub places: Arc<EndpointPlaces>,
    down_until: Nanos,
    /// The number of failures in a row, each after the time that followed the one before.
    failures: u32,
    /// The number of the last choice of this upstream.
    pub chosen: u64,
    /// The number of streams that the last HTTP/2 connection allowed. A new connection is assumed to allow as many
    /// until the upstream reports the number.
    pub streams_max: Option<u32>,
}

impl Peer {
    pub fn new(endpoint: Endpoint, places: Arc<EndpointPlaces>) -> Peer {
        let name = endpoint.to_string().into();
        let (idle, shared, down_until) = (Vec::new(), Vec::new(), Nanos::ZERO);
        Peer { endpoint, name, idle, shared, places, down_until, failures: 0, chosen: 0, streams_max: None }
    }

    /// The load from all workers, as a sort key: an upstream that could not be reached sorts after all others.
    pub fn load(&self, now: Nanos) -> (bool, usize) {
        (now < self.down_until, self.places.load())
    }

    /// Takes an idle connection for which `may_serve` returns true.
    pub fn take_idle(&mut self, may_serve: impl Fn(usize) -> bool) -> Option<usize> {
        let at = self.idle.iter().rposition(|connection| may_serve(*connection))?;
        Some(self.idle.remove(at))
    }

    /// Keeps a connection for later. Returns a connection that must be closed instead.
    pub fn keep(&mut self, connection: usize) -> Option<usize> {
        self.idle.push(connection);
        (self.idle.len() > IDLE_MAX).then(|| self.idle.remove(0))
    }

    /// The HTTP/2 connections, in the order in which they are used.
    pub fn shared(&self) -> &[usize] {
        &self.shared
    }

    /// Adds an HTTP/2 connection.
    pub fn share(&mut self, connection: usize) {
        self.shared.push(connection);
    }

    /// Removes a closed connection.
    pub fn forget(&mut self, connection: usize) {
        self.idle.retain(|idle| *idle != connection);
        self.shared.retain(|shared| *shared != connection);
    }

    pub fn on_unreachable(&mut self, now: Nanos) {
        // Requests that were under way together fail together.
        if now >= self.down_until {
            let span = Nanos(DOWN_FOR.0 << self.failures.min(DOUBLINGS_MAX));
            (self.down_until, self.failures) = (now + span, self.failures + 1);
        }
    }

    pub fn on_reached(&mut self) {
        (self.down_until, self.failures) = (Nanos::ZERO, 0);
    }

    /// Returns true if the entry has nothing worth keeping, apart from transfers.
    pub fn is_unused(&self, now: Nanos) -> bool {
        // The failures of one that was chosen again are remembered for a while.
        let is_forgiven = self.failures == 0 || now >= self.down_until + Nanos(DOWN_FOR.0 << DOUBLINGS_MAX);
        self.idle.is_empty() && self.shared.is_empty() && is_forgiven
    }
}

#[cfg(test)]
mod tests {
    use config::UpstreamVersion;

    use super::*;
    use crate::upstream::EndpointAddress;

    fn peer() -> Peer {
        let (version, address) = (UpstreamVersion::Http1, EndpointAddress::Unix("/a".into()));
        Peer::new(Endpoint { version, address }, Arc::default())
    }

    #[test]
    fn the_connection_used_last_is_used_first_and_the_oldest_goes() {
        let mut peer = peer();
        assert!((0..IDLE_MAX).all(|connection| peer.keep(connection).is_none()));
        assert_eq!(peer.keep(100), Some(0));
        peer.forget(IDLE_MAX - 1);
        assert_eq!([peer.take_idle(|_| true), peer.take_idle(|_| true)], [Some(100), Some(IDLE_MAX - 2)]);
        assert_eq!([peer.take_idle(|at| at == 7), peer.take_idle(|at| at == 7)], [Some(7), None]);
    }

    #[test]
    fn one_that_cannot_be_reached_comes_last_for_a_while() {
        let (mut peer, now) = (peer(), Nanos::from_secs(7));
        assert!(peer.is_unused(now));
        peer.on_unreachable(now);
        assert!(peer.load(now) > (false, usize::MAX) && !peer.is_unused(now));
        assert_eq!(peer.load(now + DOWN_FOR), (false, 0));
        peer.on_reached();
        assert_eq!(peer.load(now), (false, 0));
    }

    /// A dead address, one of two, cost a request its `connect_timeout` every five seconds.
    #[test]
    fn one_that_fails_again_is_avoided_for_longer() {
        let (mut peer, mut now) = (peer(), Nanos::from_secs(7));
        for seconds in [5, 10, 20, 40, 40] {
            // Ten requests were under way.
            (0..10).for_each(|later| peer.on_unreachable(now + Nanos(later)));
            let span = Nanos::from_secs(seconds);
            assert!(peer.load(now + span - Nanos(1)).0 && !peer.load(now + span).0, "{seconds} s");
            assert!(!peer.is_unused(now + span), "its failures are remembered");
            now += span;
        }
        assert!(peer.is_unused(now + Nanos::from_secs(40)));
        peer.on_reached();
        peer.on_unreachable(now);
        assert!(!peer.load(now + DOWN_FOR).0);
    }
}
