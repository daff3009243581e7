//! One upstream as this worker knows it: its idle connections, what is under way, and whether it answers.

use sched::waiting::{Turn, Waiting};
use units::Nanos;

use super::Endpoint;

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
    under_way: u32,
    /// Of them, those whose responses wait for their clients.
    held: u32,
    /// Transfers that wait until there are fewer under way.
    waiting: Waiting,
    down_until: Nanos,
}

impl Peer {
    pub fn new(endpoint: Endpoint) -> Peer {
        Peer {
            endpoint,
            idle: Vec::new(),
            shared: Vec::new(),
            under_way: 0,
            held: 0,
            waiting: Waiting::default(),
            down_until: Nanos::ZERO,
        }
    }

    /// The load that it has; one that could not be reached comes behind all others.
    pub fn load(&self, now: Nanos) -> (bool, usize) {
        (now < self.down_until, self.under_way as usize + self.waiting.len())
    }

    /// Whether one more may be under way; if so, it is.
    pub fn begin(&mut self, requests_max: u32) -> bool {
        let may = self.under_way < requests_max;
        self.under_way += u32::from(may);
        may
    }

    /// One fewer is under way; gives a transfer that waits.
    pub fn end(&mut self) -> Option<usize> {
        self.under_way -= 1;
        self.waiting.pop()
    }

    /// A transfer came to wait for its client, or does so no more.
    pub fn on_held(&mut self, was_held: bool, is_held: bool) {
        self.held = self.held + u32::from(is_held) - u32::from(was_held);
    }

    /// Half of so many places or more are held by responses that wait for their clients.
    pub fn is_crowded(&self, requests_max: u32) -> bool {
        self.held > 0 && self.held.saturating_mul(2) >= requests_max
    }

    /// Whether there is room for one more to wait; if so, it does.
    pub fn wait(&mut self, turn: Turn, transfer: usize) -> bool {
        self.waiting.push(turn, transfer)
    }

    /// The transfer waits no more.
    pub fn leave(&mut self, transfer: usize) {
        self.waiting.leave(transfer);
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

    /// Nothing is known of it that is worth keeping.
    pub fn is_unused(&self, now: Nanos) -> bool {
        self.idle.is_empty()
            && self.shared.is_empty()
            && self.under_way == 0
            && self.waiting.is_empty()
            && now >= self.down_until
    }
}

#[cfg(test)]
mod tests {
    use config::UpstreamVersion;

    use super::*;
    use crate::upstream::EndpointAddress;

    fn peer() -> Peer {
        let (version, address) = (UpstreamVersion::Http1, EndpointAddress::Unix("/a".into()));
        Peer::new(Endpoint { version, address })
    }

    #[test]
    fn those_beyond_the_limit_wait() {
        let mut peer = peer();
        assert!(peer.begin(2) && peer.begin(2) && !peer.begin(2));
        assert!(
            (0..3).all(|transfer| peer.wait(Turn { since: Nanos(transfer), ..Turn::default() }, transfer as usize))
        );
        assert_eq!(peer.load(Nanos::ZERO), (false, 5));
        peer.leave(1);
        assert_eq!([peer.end(), peer.end()], [Some(0), Some(2)]);
        assert!(peer.begin(2) && peer.begin(2) && !peer.begin(2));
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
