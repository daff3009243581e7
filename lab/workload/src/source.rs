//! Sources of requests, for loads whose later requests depend on earlier responses.
//!
//! An open load is a list of instants, known before the run ([`Scheduled`]). Users who read before they send the next
//! request, and sessions that arrive independently but then wait for each response, are different: the instant of their
//! next request is known only after the last response. A generator or a simulator takes due requests from a [`Source`]
//! and notifies it of their ends; the source reads no clock.

use units::Nanos;

use crate::{Job, PageTimes};

/// A request of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The instant at which it is due. Response time counts from here.
    pub at: Nanos,
    pub size_bytes: u64,
    /// The user of the request, who has no other in flight, or the page or reader of which it is a part; `None` in an
    /// open load, where no user waits.
    pub user: Option<u32>,
    /// The group of clients from which it comes; `None` if it is assigned to one.
    pub group: Option<u32>,
    /// The client of the trace, as in [`crate::Request`]; all its requests come from one address.
    pub client: Option<u32>,
    /// The part of a page, which may have several requests in flight.
    pub part: Option<Part>,
}

/// An object of a page, with the priority that a browser sends (RFC 9218).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The number of its page.
    pub page: u32,
    /// The index among the objects of its page.
    pub object: u16,
    pub urgency: u8,
    pub is_incremental: bool,
}

/// The source of the requests of a run.
pub trait Source {
    /// The instant of the next request; `None` at the end, and while all users wait for responses. A later call may
    /// return an earlier instant only after a response, or part of one.
    fn due(&self) -> Option<Nanos>;

    /// Takes the request that is due first. In an open load its instant is never before that of the previous one.
    fn take(&mut self) -> Option<Ask>;

    /// Handles the end of a user's request, complete or not, after which the user thinks. Returns true if the user will
    /// send more requests; otherwise the user's connection may be closed.
    fn on_end(&mut self, user: u32, at: Nanos) -> bool;

    /// Handles the end of this request of any kind, like [`Source::on_end`].
    fn on_ended(&mut self, ask: &Ask, at: Nanos) -> bool {
        ask.user.is_none_or(|user| self.on_end(user, at))
    }

    /// Handles body bytes of this request, of which so many have now arrived.
    fn on_received(&mut self, _: &Ask, _bytes: u64, _at: Nanos) {}

    /// The instant at which the next user leaves, if no response keeps that user.
    fn leaves_at(&self) -> Option<Nanos> {
        None
    }

    /// Takes the user who leaves first. That user's requests in flight must be cancelled; no others follow.
    fn take_leaving(&mut self) -> Option<u32> {
        None
    }

    /// The instant after which no request is due, except those that follow from responses.
    fn last_at(&self) -> Nanos;

    /// The total number of requests, if it is known in advance.
    fn count(&self) -> Option<usize>;

    /// The times of pages, if it loads pages.
    fn pages(&self) -> Vec<PageTimes> {
        vec![]
    }
}

/// The jobs of an open load, in order of arrival.
#[derive(Debug, Clone)]
pub struct Scheduled<'a> {
    jobs: &'a [Job],
    next: usize,
}

impl<'a> Scheduled<'a> {
    pub fn new(jobs: &'a [Job]) -> Scheduled<'a> {
        Scheduled { jobs, next: 0 }
    }
}

impl Source for Scheduled<'_> {
    fn due(&self) -> Option<Nanos> {
        self.jobs.get(self.next).map(|job| job.arrival)
    }

    fn take(&mut self) -> Option<Ask> {
        let job = self.jobs.get(self.next)?;
        self.next += 1;
        Some(Ask {
            at: job.arrival,
            size_bytes: job.size_bytes,
            user: None,
            group: None,
            client: job.client,
            part: None,
        })
    }

    fn on_end(&mut self, _: u32, _: Nanos) -> bool {
        false
    }

    fn last_at(&self) -> Nanos {
        self.jobs.last().map_or(Nanos::ZERO, |job| job.arrival)
    }

    fn count(&self) -> Option<usize> {
        Some(self.jobs.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_in_order_whatever_ended() {
        let jobs =
            [(3, 10), (3, 20), (9, 30)].map(|(at, size_bytes)| Job { arrival: Nanos(at), size_bytes, client: None });
        let mut source = Scheduled::new(&jobs);
        assert_eq!((source.count(), source.last_at(), source.due()), (Some(3), Nanos(9), Some(Nanos(3))));
        let first = source.take().unwrap();
        assert!(!source.on_end(0, Nanos(100)), "there are no users");
        assert_eq!((first.size_bytes, first.user), (10, None));
        let rest: Vec<_> = std::iter::from_fn(|| source.take()).map(|ask| (ask.at.0, ask.size_bytes)).collect();
        assert_eq!(rest, [(3, 20), (9, 30)]);
        assert_eq!(source.due(), None);
    }
}
