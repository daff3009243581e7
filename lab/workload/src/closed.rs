//! Clients that always have requests in flight, in addition to another load: one that splits its downloads, a crawler,
//! a download.
//!
//! Each connection of such a client repeats its request as soon as the response is complete. The client therefore takes
//! all that the server gives it, and shows how much that is.

use std::collections::VecDeque;

use units::Nanos;

use crate::{Ask, PageTimes, Part, Source, USERS_MAX};

/// The maximum number of connections of one closed client.
pub const CLOSED_CONNECTIONS_MAX: u32 = 4096;

/// The minimum interval between requests of one connection, so that immediate failures do not cause a busy loop.
const APART: Nanos = Nanos::from_millis(1);

/// The interval of the first requests, without which the generator would be late for the last of many.
const STEP: Nanos = Nanos::from_micros(100);

/// A client that always has this many requests of one size in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedClient {
    /// The number of the group of clients.
    pub group: u32,
    pub connections: u32,
    pub size_bytes: u64,
    /// The urgency that its requests claim over HTTP/2 and HTTP/3 (RFC 9218); `None` if they claim nothing.
    pub urgency: Option<u8>,
}

/// Closed clients in addition to another load, whose users have numbers below [`USERS_MAX`].
pub struct Beside<'a> {
    other: &'a mut dyn Source,
    connections: Vec<Connection>,
    /// The connections and their next requests, the earliest first; responses arrive in order of time.
    due: VecDeque<(Nanos, u32)>,
    /// The instant from which they send no requests.
    until: Nanos,
}

struct Connection {
    client: ClosedClient,
    asked_at: Nanos,
}

impl<'a> Beside<'a> {
    /// Creates the source. All connections send their first request at the start, if there is time before the end.
    pub fn new(other: &'a mut dyn Source, clients: &[ClosedClient], until: Nanos) -> Beside<'a> {
        let connections = clients
            .iter()
            .flat_map(|&client| (0..client.connections).map(move |_| Connection { client, asked_at: Nanos::ZERO }));
        let connections: Vec<Connection> = connections.collect();
        let first = (0..connections.len() as u32).map(|number| (Nanos(STEP.0 * u64::from(number)), number));
        let due = first.take_while(|(at, _)| *at < until).collect();
        Beside { other, connections, due, until }
    }

    fn is_first(&self) -> bool {
        let at = self.due.front().map(|(at, _)| *at);
        at.is_some_and(|at| self.other.due().is_none_or(|other| at < other))
    }
}

impl Source for Beside<'_> {
    fn due(&self) -> Option<Nanos> {
        self.other.due().into_iter().chain(self.due.front().map(|(at, _)| *at)).min()
    }

    fn take(&mut self) -> Option<Ask> {
        if !self.is_first() {
            return self.other.take();
        }
        let (at, number) = self.due.pop_front()?;
        let connection = &mut self.connections[number as usize];
        connection.asked_at = at;
        let ClosedClient { group, size_bytes, urgency, .. } = connection.client;
        let user = USERS_MAX + number;
        let part = |urgency| Part { page: user, object: 0, urgency, is_incremental: false };
        let part = urgency.map(part);
        Some(Ask { at, size_bytes, user: Some(user), group: Some(group), client: None, part })
    }

    fn on_end(&mut self, user: u32, at: Nanos) -> bool {
        let Some(number) = user.checked_sub(USERS_MAX) else { return self.other.on_end(user, at) };
        let next = at.max(self.connections[number as usize].asked_at + APART);
        if next >= self.until {
            return false;
        }
        let place = self.due.partition_point(|&(due, _)| due <= next);
        self.due.insert(place, (next, number));
        true
    }

    fn on_ended(&mut self, ask: &Ask, at: Nanos) -> bool {
        match ask.user {
            Some(user) if user >= USERS_MAX => self.on_end(user, at),
            _ => self.other.on_ended(ask, at),
        }
    }

    fn last_at(&self) -> Nanos {
        self.other.last_at().max(self.until)
    }

    fn count(&self) -> Option<usize> {
        None
    }

    fn pages(&self) -> Vec<PageTimes> {
        self.other.pages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, Scheduled};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn asks(source: &mut Beside, count: usize) -> Vec<(u64, u64, Option<u32>)> {
        let ask = |_| source.take().map(|ask| (ask.at.0 / 1_000_000, ask.size_bytes, ask.group));
        (0..count).map_while(ask).collect()
    }

    #[test]
    fn connections_ask_again_when_answered_and_the_others_when_they_are_due() {
        let jobs = [(0, 10), (5, 20)].map(|(ms, size_bytes)| Job { arrival: MS(ms), size_bytes, client: None });
        let mut open = Scheduled::new(&jobs);
        let clients = [ClosedClient { group: 1, connections: 2, size_bytes: 7, urgency: None }];
        let mut source = Beside::new(&mut open, &clients, MS(20));
        assert_eq!((source.count(), source.last_at()), (None, MS(20)));
        assert_eq!(asks(&mut source, 9), [(0, 10, None), (0, 7, Some(1)), (0, 7, Some(1)), (5, 20, None)]);
        assert_eq!(source.due(), None, "all wait or have come");
    }

    #[test]
    fn requests_claim_the_urgency_of_their_client() {
        let mut open = Scheduled::new(&[]);
        let client = ClosedClient { group: 0, connections: 1, size_bytes: 7, urgency: Some(0) };
        let claimed = |source: &mut Beside| source.take().unwrap().part.map(|part| part.urgency);
        let claims = [client, ClosedClient { urgency: None, ..client }];
        let mut source = Beside::new(&mut open, &claims, MS(20));
        assert_eq!([claimed(&mut source), claimed(&mut source)], [Some(0), None]);
    }

    #[test]
    fn nobody_asks_twice_before_the_answer_or_after_the_end() {
        let mut open = Scheduled::new(&[]);
        let clients = [ClosedClient { group: 0, connections: 2, size_bytes: 7, urgency: None }];
        let mut source = Beside::new(&mut open, &clients, MS(20));
        let users: Vec<u32> = (0..2).filter_map(|_| source.take()?.user).collect();
        assert_eq!((users.len(), source.due()), (2, None));
        assert!(source.on_end(users[1], MS(3)));
        assert!(source.on_end(users[0], MS(4)));
        assert_eq!(asks(&mut source, 2), [(3, 7, Some(0)), (4, 7, Some(0))]);
        assert!(source.on_end(users[1], MS(3)), "it failed at once");
        assert_eq!(source.due(), Some(MS(4)));
        assert!(!source.on_end(users[0], MS(20)), "the run is over");
    }

    #[test]
    fn the_others_users_stay_theirs() {
        struct One;
        impl Source for One {
            fn due(&self) -> Option<Nanos> {
                None
            }
            fn take(&mut self) -> Option<Ask> {
                None
            }
            fn on_end(&mut self, user: u32, _: Nanos) -> bool {
                user == 5
            }
            fn last_at(&self) -> Nanos {
                MS(90)
            }
            fn count(&self) -> Option<usize> {
                None
            }
        }
        let mut one = One;
        let mut source = Beside::new(&mut one, &[], MS(20));
        assert!(source.on_end(5, MS(1)) && !source.on_end(6, MS(1)));
        assert_eq!(source.last_at(), MS(90));
    }
}
