//! The protocol of a connection, with its requests and responses in progress.

use sched::{ConnectionId, JobId, Scheduler, Why};
use units::Nanos;

use super::http1::Http1;
use super::{Departure, Exchange, Framed, Streams};
use crate::body::Failure;
use crate::clock::ClientTime;
use crate::exchange_id::ExchangeId;
use crate::limits::Limits;

pub enum Protocol {
    /// HTTP/1.1, with one exchange at a time. Also used during the handshake of any TLS connection, and for a
    /// connection whose frames have ended.
    Http1(Single),
    /// HTTP/2 or HTTP/3, with several exchanges at once.
    Framed(Box<Framed>),
}

/// The stream number for the exchange of a connection whose frames have ended. No client's exchange has this number.
const NO_STREAM: u32 = u32::MAX;

/// A connection of HTTP/1.1.
pub struct Single {
    pub http1: Http1,
    pub exchange: Exchange,
    /// The job of the response or of a TLS handshake flight, if there is one.
    pub job: Option<JobId>,
}

impl Single {
    /// Creates the state of a connection that waits for its first request.
    pub fn new(now: ClientTime, limits: &Limits, token: u64) -> Single {
        Single { http1: Http1::new(now, limits), exchange: Exchange::new(ExchangeId::new(token, 0)), job: None }
    }

    /// Creates the state of a connection whose frames have ended.
    pub fn ended(now: ClientTime, token: u64) -> Single {
        let exchange = Exchange::new(ExchangeId::new(token, NO_STREAM));
        Single { http1: Http1::ended(now), exchange, job: None }
    }
}

impl Protocol {
    pub fn framed(&self) -> Option<&Framed> {
        match self {
            Protocol::Http1(_) => None,
            Protocol::Framed(framed) => Some(framed),
        }
    }

    pub fn framed_mut(&mut self) -> Option<&mut Framed> {
        match self {
            Protocol::Http1(_) => None,
            Protocol::Framed(framed) => Some(framed),
        }
    }

    pub fn http1(&self) -> Option<&Http1> {
        match self {
            Protocol::Http1(single) => Some(&single.http1),
            Protocol::Framed(_) => None,
        }
    }

    pub fn http1_mut(&mut self) -> Option<&mut Http1> {
        match self {
            Protocol::Http1(single) => Some(&mut single.http1),
            Protocol::Framed(_) => None,
        }
    }

    /// The exchanges in progress. Over HTTP/1.1, includes the connection's only exchange even if it may not be in
    /// progress.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        match self {
            Protocol::Http1(single) => std::slice::from_ref(&single.exchange),
            Protocol::Framed(framed) => framed.streams.open(),
        }
        .iter()
    }

    /// Returns the exchanges under way like [`Protocol::exchanges`], mutably.
    pub fn exchanges_mut(&mut self) -> impl Iterator<Item = &mut Exchange> {
        match self {
            Protocol::Http1(single) => std::slice::from_mut(&mut single.exchange),
            Protocol::Framed(framed) => framed.streams.open_mut(),
        }
        .iter_mut()
    }

    /// Returns the exchange on this stream. HTTP/1.1 has a single exchange, whatever the stream number.
    pub fn exchange(&mut self, stream: u32) -> Option<&mut Exchange> {
        match self {
            Protocol::Http1(single) => Some(&mut single.exchange),
            Protocol::Framed(framed) => framed.streams.on(stream),
        }
    }

    pub fn streams(&self) -> Option<&Streams> {
        self.framed().map(|framed| &framed.streams)
    }

    pub fn streams_mut(&mut self) -> Option<&mut Streams> {
        self.framed_mut().map(|framed| &mut framed.streams)
    }

    /// The number of requests that are being answered.
    pub fn answering(&self) -> usize {
        match self {
            Protocol::Http1(single) => usize::from(single.http1.answering.is_on()),
            Protocol::Framed(framed) => framed.streams.count(),
        }
    }

    /// The instant after which the connection has waited too long for its client.
    pub fn deadline(&self) -> ClientTime {
        match self {
            Protocol::Http1(single) => single.http1.deadline(),
            Protocol::Framed(framed) => framed.streams.deadline,
        }
    }

    pub fn set_deadline(&mut self, deadline: ClientTime) {
        match self {
            Protocol::Http1(single) => single.http1.wait_until(deadline),
            Protocol::Framed(framed) => framed.streams.deadline = deadline,
        }
    }

    /// Returns true if no complete request has arrived that still needs an answer.
    pub fn is_unasked(&self) -> bool {
        match self {
            Protocol::Http1(single) => single.http1.is_idle(),
            Protocol::Framed(framed) => framed.streams.is_idle(),
        }
    }

    /// The connection's name in the scheduler, if its jobs share one.
    pub fn group(&self) -> Option<ConnectionId> {
        self.framed().map(|framed| framed.id)
    }

    /// Records that a job has begun on the connection.
    pub fn begin_job(&mut self, job: JobId) {
        match self {
            Protocol::Http1(single) => single.job = Some(job),
            Protocol::Framed(framed) => framed.on_dispatch(),
        }
    }

    /// Records that a job has ended. Returns the departure, unless the last frames have not been handed down yet.
    pub fn end_job(&mut self, departure: Departure) -> Option<Departure> {
        match self {
            Protocol::Http1(single) => {
                single.job = None;
                Some(departure)
            }
            Protocol::Framed(framed) => framed.depart(departure),
        }
    }

    /// Returns, as failed, the departures of responses whose last frames were made but not sent.
    pub fn cut(&mut self, failure: impl Fn() -> Failure) -> impl Iterator<Item = Departure> {
        self.framed_mut().map(|framed| framed.cut(failure)).into_iter().flatten()
    }

    /// The jobs on the connection.
    pub fn jobs<'l>(&'l self, scheduler: &'l Scheduler) -> impl Iterator<Item = JobId> + 'l {
        let (alone, several) = match self {
            Protocol::Http1(single) => (single.job, None),
            Protocol::Framed(framed) => (None, Some(scheduler.jobs().on(framed.id))),
        };
        alone.into_iter().chain(several.into_iter().flatten())
    }

    /// Returns true if nothing is being sent and nothing can be sent without another job.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Protocol::Http1(Single { job: None, .. }))
    }

    /// Blocks all jobs, because the connection takes no more bytes.
    pub fn wait(&self, scheduler: &mut Scheduler) {
        match self {
            Protocol::Http1(single) => single.job.iter().for_each(|job| scheduler.on_wait(*job, Why::Connection)),
            Protocol::Framed(framed) => scheduler.on_wait(framed.id, Why::Connection),
        }
    }

    /// Resumes the jobs, because the connection takes bytes again.
    pub fn wait_over(&self, now: Nanos, scheduler: &mut Scheduler) {
        match self {
            Protocol::Http1(single) => {
                single.job.iter().for_each(|job| scheduler.on_wait_over(now, *job, Why::Connection));
            }
            Protocol::Framed(framed) => scheduler.on_wait_over(now, framed.id, Why::Connection),
        }
    }

    /// Returns whether sending could continue if there was room in the socket: an HTTP/1.1 response is in progress, or
    /// frames wait for room.
    pub fn wants_room(&self, scheduler: &Scheduler) -> bool {
        match self {
            Protocol::Http1(single) => single.job.is_some(),
            Protocol::Framed(framed) => scheduler.jobs().is_blocked(framed.id),
        }
    }

    /// Returns whether everything that is left to send waits for the reader.
    pub fn waits_for_reader(&self, scheduler: &Scheduler) -> bool {
        match self {
            Protocol::Http1(single) => {
                single.job.and_then(|job| scheduler.jobs().get(job)).is_some_and(sched::Job::waits_for_reader)
            }
            Protocol::Framed(framed) => {
                let silent = || self.jobs(scheduler).filter(|job| is_awaited(scheduler, *job)).count();
                framed.waits_for_reader(silent) || self.wants_room(scheduler) && framed.has_responses()
            }
        }
    }
}

/// Returns whether a response has sent everything that its producer has provided so far.
fn is_awaited(scheduler: &Scheduler, job: JobId) -> bool {
    scheduler.jobs().get(job).is_some_and(|job| job.waits_for(Why::Source))
}
