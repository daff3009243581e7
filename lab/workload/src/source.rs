//! Requests one by one, for loads whose later requests depend on earlier answers.
//!
//! An open load is a list of instants, known before the run ([`Scheduled`]). Users who read before they ask again, and
//! sessions that come by themselves but then wait for each answer, are not: when their next request is due is known only
//! once the last was answered. Whoever carries out a load, a generator or a simulator, asks a [`Source`] for what is due
//! and tells it what ended; the source reads no clock.

use units::Nanos;

use crate::{Job, PageTimes};

/// A request of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// When it is due. Response time counts from here.
    pub at: Nanos,
    pub size_bytes: u64,
    /// Whose it is, who has no other under way, or the page or reader of which it is a part; `None` in an open load, where nobody waits.
    pub user: Option<u32>,
    /// The group of clients it comes from; `None`: it is dealt to one.
    pub group: Option<u32>,
    /// The client of the trace that asks, as in [`crate::Request`]: all its requests come from one address.
    pub client: Option<u32>,
    /// The part of a page, which has several under way at once.
    pub part: Option<Part>,
}

/// An object of a page, with what its browser says of it (RFC 9218).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The number of its page.
    pub page: u32,
    /// The file of a site that it is ([`crate::Documents`]); `None` stands for any of its size.
    pub file: Option<u32>,
    /// The place among the objects of its page.
    pub object: u16,
    pub urgency: u8,
    pub is_incremental: bool,
}

/// The source of the requests of a run.
pub trait Source {
    /// When the next request is due; `None` at the end, and while everybody waits for an answer. A later call may name an
    /// earlier instant only after [`Source::on_end`].
    fn due(&self) -> Option<Nanos>;

    /// Takes the request that is due first, whose instant is never before that of the one taken before it in an open load.
    fn take(&mut self) -> Option<Ask>;

    /// A request of this user has ended, complete or not, and the time to think begins: whether the user stays and will ask
    /// for more. The connection of one who leaves may be closed.
    fn on_end(&mut self, user: u32, at: Nanos) -> bool;

    /// Notes that this request has ended: as [`Source::on_end`], of whichever kind it was.
    fn on_ended(&mut self, ask: &Ask, at: Nanos) -> bool {
        ask.user.is_none_or(|user| self.on_end(user, at))
    }

    /// No request is due after this, but for those that follow from answers.
    fn last_at(&self) -> Nanos;

    /// The number of requests that there will be, where it is known before.
    fn count(&self) -> Option<usize>;

    /// The times of its pages, where it loads pages.
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
