//! Slots in front of a station, as 004's scheduler is in front of Apache's processes. A job with a slot competes as it
//! would without slots; a job without one sleeps outside the station.
//!
//! A process returns its slot when it has handed its last byte to the kernel, not when the client has it. The bytes in
//! the socket's buffer continue without a slot, so a job is two visits to the station: one with a slot, and one of at
//! most the buffer without. Under processor sharing, and under every order that does not use sizes, this is exact.

use std::collections::{HashMap, VecDeque};

use sched::{Path, Slots, Turn};
use units::Nanos;

use super::station::{Flight, Station};

/// A station with slots in front of it.
pub struct Slotted<S> {
    inner: S,
    slots: Slots,
    /// The link time of a full socket buffer.
    buffer: Nanos,
    /// The jobs in the system by number.
    present: HashMap<u64, Present>,
}

struct Present {
    flight: Flight,
    path: Path,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The job has never run.
    Waiting,
    /// The job has a slot.
    Running,
    /// The job's slot was taken for a job of higher priority.
    Preempted,
    /// The rest of the job is in the buffer.
    Buffered,
}

impl<S: Station> Slotted<S> {
    pub fn new(inner: S, slots: Slots, buffer: Nanos) -> Slotted<S> {
        Slotted { inner, slots, buffer, present: HashMap::new() }
    }

    /// Performs these turns and those that follow from them: a job whose rest is in the buffer passes on its slot
    /// immediately.
    fn settle(&mut self, at: Nanos, turns: Vec<Turn>) {
        let mut turns = VecDeque::from(turns);
        while let Some(turn) = turns.pop_front() {
            match turn {
                Turn::Run(number) => turns.extend(self.go_on(at, number)),
                Turn::Sleep(number) => self.sleep(at, number),
            }
        }
    }

    fn go_on(&mut self, at: Nanos, number: u64) -> Option<Turn> {
        let job = self.present.get_mut(&number).expect("who gets a slot is present");
        let before = std::mem::replace(&mut job.state, State::Running);
        let service = job.flight.service - self.buffer;
        if before == State::Preempted {
            self.inner.resume(at, number);
        } else if service > Nanos::ZERO {
            self.inner.arrive(Flight { arrival: at, service, ..job.flight }, job.path);
        } else {
            return self.give_back(at, number);
        }
        None
    }

    fn sleep(&mut self, at: Nanos, number: u64) {
        let job = self.present.get_mut(&number).expect("who loses a slot is present");
        if job.state == State::Running {
            job.state = State::Preempted;
            self.inner.pause(at, number);
        }
    }

    /// Hands the buffered bytes to the link, and the slot to the job of the returned turn.
    fn give_back(&mut self, at: Nanos, number: u64) -> Option<Turn> {
        let job = self.present.get_mut(&number).expect("who has a slot is present");
        job.state = State::Buffered;
        let service = self.buffer.min(job.flight.service);
        if service > Nanos::ZERO {
            self.inner.arrive(Flight { arrival: at, service, ..job.flight }, job.path);
        }
        self.slots.depart(number)
    }
}

impl<S: Station> Station for Slotted<S> {
    fn len(&self) -> usize {
        self.present.len()
    }

    fn arrive(&mut self, flight: Flight, path: Path) {
        self.present.insert(flight.number, Present { flight, path, state: State::Waiting });
        let turns = self.slots.arrive(flight.number, flight.class.into());
        self.settle(flight.arrival, turns);
    }

    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)> {
        loop {
            let (Flight { number, .. }, at) = self.inner.depart_by(until)?;
            // Bytes sent in one piece cannot be paused: they may leave while their job sleeps.
            if self.present.get(&number).is_some_and(|job| job.state != State::Buffered) {
                let turns = self.give_back(at, number).into_iter().collect();
                self.settle(at, turns);
                if self.buffer > Nanos::ZERO {
                    continue;
                }
            }
            return self.present.remove(&number).map(|job| (job.flight, at));
        }
    }

    fn pause(&mut self, at: Nanos, number: u64) {
        self.inner.pause(at, number);
    }

    fn resume(&mut self, at: Nanos, number: u64) {
        self.inner.resume(at, number);
    }

    fn present(&self) -> Vec<Flight> {
        self.present.values().map(|job| job.flight).collect()
    }
}
