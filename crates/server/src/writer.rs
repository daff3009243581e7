//! The writer: the one thread that sends when responses are paced.
//!
//! The order has to hold across workers, so one place has to decide; and what decides had better also send, since a
//! grant that first has to wake another thread leaves the link idle meanwhile. Workers parse requests and post whole
//! responses here; the writer sends them as granted and posts back what has departed ([`crate::handover`]). One thread is
//! enough: it copies nothing (sendfile), and paced links are slower than a core.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use sched::JobId;
use units::Nanos;

use crate::clock;
use crate::handover::{Closed, ToWriter, worker_of};
use crate::log::AccessLog;
use crate::mailbox::{Kernel, Mailbox, Platform};
use crate::poll::Poll;
use crate::threads::Beat;
use crate::transmit::{Connection, Departure, Failure, Socket, Transmitter};

/// The workers' end.
pub struct Writer<S = Connection, P: Platform = Kernel> {
    pub inbox: Mailbox<ToWriter<S>, P>,
    /// By worker.
    outboxes: Vec<Arc<Mailbox<Departure, P>>>,
    pub closed: Closed,
    is_stopping: AtomicBool,
}

/// The thread's own end.
pub struct Desk<S: Socket> {
    transmitter: Transmitter<S>,
    /// By owner.
    jobs: HashMap<u64, JobId>,
    messages: Vec<ToWriter<S>>,
    stall_check_at: Nanos,
}

const STALL_CHECK_EVERY: Nanos = Nanos::from_secs(1);

impl Writer {
    /// The thread's main function.
    pub fn run(
        &self,
        mut poll: Poll,
        transmitter: Transmitter<Connection>,
        beat: &Beat,
        log: &AccessLog,
    ) -> io::Result<()> {
        // The default slack of 50 µs would be 4 % of the time a segment takes at 10 Mbit/s.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut desk = Desk::new(transmitter, clock::now());
        while !self.is_stopping() {
            beat.turn();
            let began_at = clock::now();
            let wake_at = self.send(&mut desk, &clock::now);
            poll.wait(wake_at.map(|at| at - clock::now()))?;
            let now = clock::now();
            let paused = clock::paused(now - began_at, wake_at.map(|at| at - began_at));
            if paused > Nanos::ZERO {
                desk.transmitter.on_pause(paused);
            }
            self.receive(&mut desk, now);
            for notice in desk.transmitter.notices() {
                log.error(&notice.to_string());
            }
        }
        if let Some(notice) = desk.transmitter.longest_wait() {
            log.error(&notice.to_string());
        }
        Ok(())
    }

    /// What the thread waits with.
    pub fn poll(&self) -> io::Result<Poll> {
        let poll = Poll::new()?;
        poll.add(&self.inbox, 0, EventFlags::IN)?;
        Ok(poll)
    }
}

impl<S: Socket + Clone, P: Platform> Writer<S, P> {
    pub fn new(inbox: Mailbox<ToWriter<S>, P>, outboxes: Vec<Arc<Mailbox<Departure, P>>>) -> Writer<S, P> {
        Writer { inbox, outboxes, closed: Closed::default(), is_stopping: AtomicBool::new(false) }
    }

    /// Ends [`Writer::run`]; called when no worker will dispatch any more.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.inbox.wake();
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Sends what is granted and posts what has departed. Gives when to go on at the latest.
    pub fn send(&self, desk: &mut Desk<S>, clock: &impl Fn() -> Nanos) -> Option<Nanos> {
        let grant_at = desk.transmitter.run(clock);
        for departure in desk.transmitter.departures() {
            desk.jobs.remove(&departure.owner);
            self.outboxes[worker_of(departure.owner)].post(departure);
        }
        match grant_at {
            Some(at) => Some(at.min(desk.stall_check_at)),
            None if desk.transmitter.is_empty() => None,
            None => Some(desk.stall_check_at),
        }
    }

    /// Does what the workers have asked for.
    pub fn receive(&self, desk: &mut Desk<S>, now: Nanos) {
        let mut messages = std::mem::take(&mut desk.messages);
        self.inbox.take(&mut messages);
        for message in messages.drain(..) {
            desk.handle(now, message);
        }
        desk.messages = messages;
        desk.transmitter.on_closed(now, self.closed.take());
        if now >= desk.stall_check_at {
            desk.transmitter.end_stalled(now);
            desk.transmitter.check_queue(now);
            desk.stall_check_at = now + STALL_CHECK_EVERY;
        }
    }
}

impl<S: Socket + Clone> Desk<S> {
    pub fn new(transmitter: Transmitter<S>, now: Nanos) -> Desk<S> {
        let stall_check_at = now + STALL_CHECK_EVERY;
        Desk { transmitter, jobs: HashMap::new(), messages: Vec::new(), stall_check_at }
    }

    /// Nothing is with the writer, and nothing is remembered of what was.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.transmitter.is_idle()
    }

    fn handle(&mut self, now: Nanos, message: ToWriter<S>) {
        match message {
            ToWriter::Dispatch(dispatch) => {
                let owner = dispatch.owner;
                self.jobs.insert(owner, self.transmitter.dispatch(now, dispatch));
            }
            ToWriter::Writable(owner) => {
                if let Some(&job) = self.jobs.get(&owner) {
                    self.transmitter.on_writable(now, job);
                }
            }
            ToWriter::Abort(owner) => {
                if let Some(&job) = self.jobs.get(&owner) {
                    self.transmitter.abort(now, job, Failure::Disconnected);
                }
            }
        }
    }
}
