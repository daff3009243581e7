//! The writer: the one thread that sends when responses are paced.
//!
//! The order has to hold across workers, so one place has to decide; and what decides had better also send, since a
//! grant that first has to wake another thread leaves the link idle meanwhile. Workers parse requests and post whole
//! responses here; the writer sends them as granted and posts back what has departed. One thread is enough: it
//! copies nothing (sendfile), and paced links are slower than a core.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use sched::JobId;
use units::Nanos;

use crate::clock;
use crate::log::AccessLog;
use crate::mailbox::Mailbox;
use crate::poll::Poll;
use crate::transmit::{Connection, Departure, Dispatch, Failure, Transmitter};

/// What a worker says to the writer. Owners are unique over all workers.
pub enum ToWriter {
    Dispatch(Dispatch<Connection>),
    Writable(u64),
    Abort(u64),
}

/// What the writer says to a worker.
pub type FromWriter = Departure;

/// The workers' end.
pub struct Writer {
    pub inbox: Mailbox<ToWriter>,
    /// By worker.
    outboxes: Vec<Arc<Mailbox<FromWriter>>>,
    is_stopping: AtomicBool,
    log: AccessLog,
}

const STALL_CHECK_EVERY: Nanos = Nanos::from_secs(1);

impl Writer {
    pub fn new(outboxes: Vec<Arc<Mailbox<FromWriter>>>, log: AccessLog) -> io::Result<Writer> {
        Ok(Writer { inbox: Mailbox::new()?, outboxes, is_stopping: AtomicBool::new(false), log })
    }

    /// Ends [`Writer::run`]; called when no worker will dispatch any more.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.inbox.wake();
    }

    /// The thread's main function.
    pub fn run(&self, mut transmitter: Transmitter<Connection>) -> io::Result<()> {
        // The default slack of 50 µs would be 4 % of the time a segment takes at 10 Mbit/s.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut poll = Poll::new()?;
        poll.add(&self.inbox, 0, EventFlags::IN)?;
        let mut jobs = HashMap::new();
        let mut messages = Vec::new();
        let mut stall_check_at = clock::now() + STALL_CHECK_EVERY;
        while !self.is_stopping.load(Ordering::Acquire) {
            let grant_at = transmitter.run(&clock::now);
            self.report(&mut transmitter, &mut jobs);
            let wake_at = match grant_at {
                Some(at) => Some(at.min(stall_check_at)),
                None if transmitter.is_at_rest() => None,
                None => Some(stall_check_at),
            };
            poll.wait(wake_at.map(|at| at - clock::now()))?;
            self.inbox.take(&mut messages);
            let now = clock::now();
            for message in messages.drain(..) {
                handle(&mut transmitter, &mut jobs, now, message);
            }
            if now >= stall_check_at {
                transmitter.end_stalled(now);
                transmitter.check_queue(now);
                for notice in transmitter.notices() {
                    self.log.error(&notice.to_string());
                }
                stall_check_at = now + STALL_CHECK_EVERY;
            }
        }
        Ok(())
    }

    fn report(&self, transmitter: &mut Transmitter<Connection>, jobs: &mut HashMap<u64, JobId>) {
        for departure in transmitter.departures() {
            jobs.remove(&departure.owner);
            self.outboxes[worker_of(departure.owner)].post(departure);
        }
    }
}

fn handle(transmitter: &mut Transmitter<Connection>, jobs: &mut HashMap<u64, JobId>, now: Nanos, message: ToWriter) {
    match message {
        ToWriter::Dispatch(dispatch) => {
            let owner = dispatch.owner;
            jobs.insert(owner, transmitter.dispatch(now, dispatch));
        }
        ToWriter::Writable(owner) => {
            if let Some(&job) = jobs.get(&owner) {
                transmitter.on_writable(now, job);
            }
        }
        ToWriter::Abort(owner) => {
            if let Some(&job) = jobs.get(&owner) {
                transmitter.abort(now, job, Failure::Disconnected);
            }
        }
    }
}

/// Owners carry the worker in their lowest byte, so at most 256 workers.
pub const WORKERS_MAX: usize = 256;

pub fn owner(worker: usize, connection: u32, generation: u32) -> u64 {
    u64::from(generation & 0xff_ffff) << 40 | u64::from(connection) << 8 | worker as u64
}

fn worker_of(owner: u64) -> usize {
    (owner & 0xff) as usize
}

/// Which connection of its worker an owner is.
pub fn connection_of(owner: u64) -> usize {
    (owner >> 8 & 0xffff_ffff) as usize
}
