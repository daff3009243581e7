//! One upstream as this worker knows it: its idle connections, its places, and whether it answers.

use std::sync::Arc;

use units::Nanos;

use super::Endpoint;
use super::places::EndpointPlaces;

/// Idle connections kept to one upstream: as many as requests are under way at once unless told otherwise. With fewer, each request of
/// more clients costs a connection.
const IDLE_MAX: usize = 256;
/// An idle connection is used for so long; most upstreams close theirs after a minute or more, and one that is closed while a
/// request is on its way costs another try.
pub const IDLE_FOR: Nanos = Nanos::from_secs(30);
/// An upstream that could not be reached is asked again after so long, where there is another.
const DOWN_FOR: Nanos = Nanos::from_secs(5);

#[derive(Debug)]
pub struct Peer {
    pub endpoint: Endpoint,
    /// Slots of connections that wait for a request; the one used last comes first.
    idle: Vec<usize>,
    /// Slots of connections of HTTP/2, those used first before others, so that those at the end may become idle.
    shared: Vec<usize>,
    /// Which all workers share.
    pub places: Arc<EndpointPlaces>,
    down_until: Nanos,
}

impl Peer {
    pub fn new(endpoint: Endpoint, places: Arc<EndpointPlaces>) -> Peer {
        Peer { endpoint, idle: Vec::new(), shared: Vec::new(), places, down_until: Nanos::ZERO }
    }

    /// The load that it has of all workers; one that could not be reached comes behind all others.
    pub fn load(&self, now: Nanos) -> (bool, usize) {
        (now < self.down_until, self.places.load())
    }

    /// One that may serve for this.
    pub fn take_idle(&mut self, may_serve: impl Fn(usize) -> bool) -> Option<usize> {
        let at = self.idle.iter().rposition(|connection| may_serve(*connection))?;
        Some(self.idle.remove(at))
    }

    /// Keeps a connection for later; gives one that is to be closed for it.
    pub fn keep(&mut self, connection: usize) -> Option<usize> {
        self.idle.push(connection);
        (self.idle.len() > IDLE_MAX).then(|| self.idle.remove(0))
    }

    /// Those of HTTP/2, in the order in which they are to be used.
    pub fn shared(&self) -> &[usize] {
        &self.shared
    }

    /// Another one.
    pub fn share(&mut self, connection: usize) {
        self.shared.push(connection);
    }

    /// The connection is closed.
    pub fn forget(&mut self, connection: usize) {
        self.idle.retain(|idle| *idle != connection);
        self.shared.retain(|shared| *shared != connection);
    }

    pub fn on_unreachable(&mut self, now: Nanos) {
        self.down_until = now + DOWN_FOR;
    }

    pub fn on_reached(&mut self) {
        self.down_until = Nanos::ZERO;
    }

    /// Nothing is known of it that is worth keeping, but for transfers.
    pub fn is_unused(&self, now: Nanos) -> bool {
        self.idle.is_empty() && self.shared.is_empty() && now >= self.down_until
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
}
