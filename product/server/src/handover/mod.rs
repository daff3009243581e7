//! The protocol between a worker, which owns a connection, and the writer, which sends its response.
//!
//! A connection has at most one response with the writer, and each dispatch is answered by one departure. Meanwhile the
//! client may go, of which the kernel tells the worker once (its events are edge-triggered). An abort posted then may
//! find nothing to abort, its response having departed a moment before. So the end is kept as state, in [`InFlight`], and
//! decides what becomes of the connection when the departure arrives; the abort makes that departure sooner, no more.
//!
//! Owners name connections in messages and in epoll's events. They differ between a slot's tenants, so what was meant for
//! an earlier one reaches nobody.

#[cfg(test)]
mod model;

use std::sync::atomic::{AtomicI64, Ordering};

use sched::{Correction, JobId};

use crate::transmit::Dispatch;

/// From a worker to the writer.
pub enum ToWriter<S> {
    Dispatch(Dispatch<S>),
    Writable(u64),
    Abort(u64),
}

/// What was found of connections when they ended, and the writer has not charged yet. Not worth waking it for.
#[derive(Debug, Default)]
pub struct Closed {
    /// Wire bytes charged less wire bytes sent.
    balance: AtomicI64,
}

impl Closed {
    pub fn add(&self, correction: Correction) {
        if correction != Correction::default() {
            self.balance.fetch_add(correction.balance(), Ordering::Relaxed);
        }
    }

    pub fn take(&self) -> Correction {
        match self.balance.load(Ordering::Relaxed) {
            0 => Correction::default(),
            _ => Correction::of_balance(self.balance.swap(0, Ordering::Relaxed)),
        }
    }
}

/// A response that is with its sender.
#[derive(Debug)]
pub struct InFlight {
    /// Known where the worker itself sends.
    pub job: Option<JobId>,
    is_client_gone: bool,
}

/// What becomes of a connection whose response has departed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The next request is read.
    GoOn,
    /// Nobody is there to be answered.
    Close,
}

impl InFlight {
    pub fn new(job: Option<JobId>) -> InFlight {
        InFlight { job, is_client_gone: false }
    }

    /// The client is gone. The caller aborts the response, which may be too late.
    pub fn on_client_gone(&mut self) {
        self.is_client_gone = true;
    }

    pub fn on_departure(&self, has_failed: bool) -> After {
        if has_failed || self.is_client_gone { After::Close } else { After::GoOn }
    }
}

/// Owners carry the worker in their lowest byte, so at most 256 workers.
pub const WORKERS_MAX: usize = 256;

/// Gives a worker's connections their owners.
pub struct Owners {
    worker: usize,
    generation: u32,
}

impl Owners {
    pub fn of_worker(worker: usize) -> Owners {
        Owners { worker, generation: 0 }
    }

    /// For the next connection, which will be in this slot. It comes again after 2^24 connections: none of them lives that
    /// long in a message or an event.
    pub fn next(&mut self, slot: usize) -> u64 {
        self.generation = self.generation.wrapping_add(1) & 0xff_ffff;
        u64::from(self.generation) << 40 | (slot as u64 & 0xffff_ffff) << 8 | self.worker as u64
    }
}

pub fn worker_of(owner: u64) -> usize {
    (owner & 0xff) as usize
}

/// The slot of its worker's connections.
pub fn slot_of(owner: u64) -> usize {
    (owner >> 8 & 0xffff_ffff) as usize
}
