//! Selects the idle connections to close for newcomers, the longest idle first.

use units::Nanos;

use crate::clock::ClientTime;
use crate::connection::Connections;

/// The maximum number of idle connections found in one scan of all connections. As many newcomers can then be admitted.
const IDLE_FOUND_MAX: usize = 1024;
/// The minimum time between two scans of all connections.
const LOOK_EVERY: Nanos = Nanos::from_millis(20);

/// Idle connections found in a scan; the next one to close is last.
#[derive(Default)]
pub(super) struct Idle {
    found: Vec<Found>,
    looked_at: Nanos,
}

/// The sort key, in the order described at [`longest_idle`], followed by the token. The connection may have been used
/// or closed since.
type Found = (bool, bool, ClientTime, u64);

impl Idle {
    /// Returns the next connection to close, and its deadline when it was found idle.
    pub fn next<S>(&mut self, now: Nanos, connections: &Connections<S>) -> Option<(u64, ClientTime)> {
        if self.found.is_empty() && now >= self.next_look_at() {
            *self = Idle { found: longest_idle(connections), looked_at: now };
        }
        self.found.pop().map(|(.., deadline, token)| (token, deadline))
    }

    pub fn next_look_at(&self) -> Nanos {
        self.looked_at + LOOK_EVERY
    }
}

/// Lists idle connections, the next one to close last. Connections whose last response was sent are closed first, then
/// those that have had an answer, then those that never sent a request; within each group, the longest idle first.
fn longest_idle<S>(connections: &Connections<S>) -> Vec<Found> {
    let idle = connections.iter().map(|(_, conn)| conn).filter(|conn| conn.is_idle());
    let mut idle: Vec<Found> =
        idle.map(|conn| (!conn.is_lingering(), !conn.has_answered, conn.deadline(), conn.token)).collect();
    if idle.len() > IDLE_FOUND_MAX {
        idle.select_nth_unstable(IDLE_FOUND_MAX);
        idle.truncate(IDLE_FOUND_MAX);
    }
    idle.sort_unstable();
    idle.reverse();
    idle
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use units::wire::Framing;

    use super::*;
    use crate::connection::{ChannelKind, Connection, Opening};
    use crate::limits::Limits;

    fn add(connections: &mut Connections<()>, seconds: u64) -> usize {
        let token = connections.next_token();
        let peer = (Ipv4Addr::LOCALHOST, 80).into();
        let (kind, framing, account) = (ChannelKind::Tcp, Framing::ETHERNET, Default::default());
        let opening = Opening { token, socket: (), kind, client: 1, peer, framing, session: None, account };
        connections.insert(Connection::new(ClientTime::after(Nanos::from_secs(seconds)), opening, &Limits::default()))
    }

    #[test]
    fn those_that_had_an_answer_go_first_and_then_the_longest_idle() {
        let mut connections = Connections::default();
        let [new, old, answered, busy] = [9, 5, 8, 1].map(|seconds| add(&mut connections, seconds));
        connections[answered].has_answered = true;
        connections[busy].input.is_readable = true;
        let mut idle = Idle::default();
        let now = Nanos::from_secs(10);
        let mut next = |now| idle.next(now, &connections).map(|(token, _)| connections.slot(token).unwrap());
        assert_eq!([(); 4].map(|()| next(now)), [Some(answered), Some(old), Some(new), None]);
        assert_eq!(next(now + LOOK_EVERY), Some(answered), "all are looked at again");
    }
}
