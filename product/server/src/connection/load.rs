use sched::{JobId, Scheduler, Why};
use units::Nanos;

use super::Framed;

/// What is sent on a connection.
pub enum Load {
    /// One response at a time, or none.
    Single(Option<JobId>),
    /// Several at once, as frames.
    Framed(Box<Framed>),
}

impl Load {
    pub fn framed(&self) -> Option<&Framed> {
        match self {
            Load::Single(_) => None,
            Load::Framed(framed) => Some(framed),
        }
    }

    pub fn framed_mut(&mut self) -> Option<&mut Framed> {
        match self {
            Load::Single(_) => None,
            Load::Framed(framed) => Some(framed),
        }
    }

    /// The only response of a connection that has one at a time.
    pub fn single(&self) -> Option<JobId> {
        match self {
            Load::Single(job) => *job,
            Load::Framed(_) => None,
        }
    }

    /// The responses on the connection.
    pub fn jobs<'l>(&'l self, scheduler: &'l Scheduler) -> impl Iterator<Item = JobId> + 'l {
        let several = self.framed().map(|framed| scheduler.jobs().on(framed.id));
        self.single().into_iter().chain(several.into_iter().flatten())
    }

    /// The connection takes no more, of any response.
    pub fn wait(&self, scheduler: &mut Scheduler) {
        match self {
            Load::Single(job) => job.iter().for_each(|job| scheduler.on_wait(*job, Why::Connection)),
            Load::Framed(framed) => scheduler.on_wait(framed.id, Why::Connection),
        }
    }

    /// It takes more again.
    pub fn wait_over(&self, now: Nanos, scheduler: &mut Scheduler) {
        match self {
            Load::Single(job) => job.iter().for_each(|job| scheduler.on_wait_over(now, *job, Why::Connection)),
            Load::Framed(framed) => scheduler.on_wait_over(now, framed.id, Why::Connection),
        }
    }

    /// Its socket takes no more, of what several responses are to send.
    pub fn is_blocked(&self, scheduler: &Scheduler) -> bool {
        self.framed().is_some_and(|framed| scheduler.jobs().is_blocked(framed.id))
    }

    /// All that is to be sent waits for the reader.
    pub fn waits_for_reader(&self, scheduler: &Scheduler) -> bool {
        match self {
            Load::Single(job) => {
                job.and_then(|job| scheduler.jobs().get(job)).is_some_and(sched::Job::waits_for_reader)
            }
            Load::Framed(framed) => {
                let silent = || self.jobs(scheduler).filter(|job| is_awaited(scheduler, *job)).count();
                framed.waits_for_reader(silent) || self.is_blocked(scheduler) && framed.has_responses()
            }
        }
    }
}

/// A response has sent all that has come.
fn is_awaited(scheduler: &Scheduler, job: JobId) -> bool {
    scheduler.jobs().get(job).is_some_and(|job| job.waits_for(Why::Source))
}
