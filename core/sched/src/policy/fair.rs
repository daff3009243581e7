//! Round robin by bytes: rank = the job's start tag (start-time fair queueing: Goyal, Vin & Cheng, "Start-time fair
//! queueing", 1996).
//!
//! A job's tag grows by the bytes it sends; a new job, and one whose connection was blocked, starts at the highest tag
//! granted. Equal grants then alternate between jobs, and a short last segment costs no more than its bytes. With
//! grants of about a segment, TCP flows through one FIFO approach this order, which the papers call FAIR
//! (Harchol-Balter et al., "Size-based scheduling to improve web performance", 2003, section 1). It approaches
//! processor sharing as grants shrink, under which every size has the same expected slowdown 1 / (1 − rho). Good if no
//! response may be preferred; bad for the mean response time, because a short response pays for every long one in the
//! system. Unknown sizes make no difference.

use crate::grow::grow_to;
use crate::policy::virtual_time::VirtualTime;
use crate::scheduler::job::NO_CONNECTION;
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Job, Policy};

#[derive(Default)]
pub struct Fair {
    turns: Turns,
    queue: TurnQueue,
    streams: Streams,
}

impl Policy for Fair {
    fn name(&self) -> &str {
        "fair"
    }

    fn first(&self) -> Option<u32> {
        self.queue.first()
    }

    /// Opens a connection, which has a single turn for all its jobs.
    fn on_open(&mut self, turn: u32) {
        self.turns.join(turn);
    }

    /// Returns the key by which the jobs of a connection take turns among themselves.
    fn within(&self, slot: u32, job: &Job) -> u64 {
        self.streams.tag(slot, job)
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let turn = job.turn(slot);
        if !self.queue.contains(turn) {
            self.turns.rejoin(turn);
        }
        self.queue.set(turn, slot, Key { rank: self.turns.tag(turn), number: job.number });
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        self.queue.remove(job.turn(slot), slot);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job) {
        if job.connection == NO_CONNECTION {
            self.turns.join(slot);
        } else {
            self.streams.join(slot, job);
        }
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        self.turns.on_sent(job.turn(slot), bytes);
        if job.connection != NO_CONNECTION {
            self.streams.on_sent(slot, job, bytes);
        }
    }

    fn can_starve(&self) -> bool {
        false
    }
}

/// The start tags of jobs within their connections.
#[derive(Default)]
struct Streams {
    /// The bytes sent per slot, counted from the position that the connection's other jobs had when the job arrived.
    tags: Vec<u64>,
    /// The highest start tag granted on each connection, by turn number.
    times: Vec<VirtualTime<u64>>,
}

impl Streams {
    fn join(&mut self, slot: u32, job: &Job) {
        grow_to(&mut self.tags, slot as usize + 1, || 0);
        self.tags[slot as usize] = self.time(slot, job);
    }

    /// Returns the job's tag. A job that was not ready for a while rejoins at the present position and is owed nothing
    /// for the pause.
    fn tag(&self, slot: u32, job: &Job) -> u64 {
        self.tags.get(slot as usize).copied().unwrap_or_default().max(self.time(slot, job))
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        let (start, turn) = (self.tag(slot, job), job.turn(slot) as usize);
        grow_to(&mut self.times, turn + 1, VirtualTime::default);
        self.times[turn].advance_to(start);
        grow_to(&mut self.tags, slot as usize + 1, || 0);
        self.tags[slot as usize] = start.saturating_add(bytes);
    }

    /// Returns the connection's virtual time, at which new jobs on it join. If a turn number is reused, the new
    /// connection continues from the old one's time.
    fn time(&self, slot: u32, job: &Job) -> u64 {
        self.times.get(job.turn(slot) as usize).copied().unwrap_or_default().now()
    }
}

/// The jobs and connections that take turns. Each offers a job: itself, or one of the connection's jobs.
#[derive(Default)]
pub(super) struct TurnQueue {
    queue: RunQueue,
    /// The slot that each turn offers.
    offered: Vec<u32>,
}

impl TurnQueue {
    pub fn first(&self) -> Option<u32> {
        self.queue.first().map(|turn| self.offered[turn as usize])
    }

    pub fn contains(&self, turn: u32) -> bool {
        self.queue.contains(turn)
    }

    pub fn set(&mut self, turn: u32, slot: u32, key: Key) {
        if self.offered.len() <= turn as usize {
            self.offered.resize(turn as usize + 1, 0);
        }
        self.offered[turn as usize] = slot;
        self.queue.set(turn, key);
    }

    /// Removes the slot; does nothing if the turn offers another job by now.
    pub fn remove(&mut self, turn: u32, slot: u32) {
        if self.offered.get(turn as usize) == Some(&slot) {
            self.queue.remove(turn);
        }
    }
}

/// The start tags of jobs that take turns.
#[derive(Default)]
pub(super) struct Turns {
    /// The bytes sent per slot, counted from the position that other jobs had when the job arrived.
    tags: Vec<u64>,
    /// The highest start tag granted, at which new jobs start.
    virtual_time: VirtualTime<u64>,
}

impl Turns {
    pub fn tag(&self, slot: u32) -> u64 {
        self.tags[slot as usize]
    }

    /// Adds a new job.
    pub fn join(&mut self, slot: u32) {
        if self.tags.len() <= slot as usize {
            self.tags.resize(slot as usize + 1, 0);
        }
        self.tags[slot as usize] = self.virtual_time.now();
    }

    /// Readmits a job that was not ready for a while. It is owed nothing for the time in which it could not have been
    /// sent.
    pub fn rejoin(&mut self, slot: u32) {
        let tag = &mut self.tags[slot as usize];
        *tag = (*tag).max(self.virtual_time.now());
    }

    pub fn on_sent(&mut self, slot: u32, bytes: u64) {
        let tag = &mut self.tags[slot as usize];
        self.virtual_time.advance_to(*tag);
        *tag = tag.saturating_add(bytes);
    }
}
