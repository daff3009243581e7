//! Slots before a station, as 004's scheduler stands before Apache's processes: a job with a slot competes as it would without slots, a
//! job without one sleeps and is not there.
//!
//! A process gives its slot back when it has handed its last byte to the kernel, not when the client has it. What fits into the socket's
//! buffer goes on without a slot: a job is two visits to the station, one with a slot and one, of at most the buffer, without. Under processor
//! sharing, and under every order that looks at no sizes, this is exact.

use std::collections::{HashMap, VecDeque};

use sched::{Path, Slots, Turn};
use units::Nanos;

use super::station::{Flight, Station};

/// A station behind slots.
pub struct Slotted<S> {
    inner: S,
    slots: Slots,
    /// The time of the link for what a socket's buffer holds.
    buffer: Nanos,
    /// The jobs by number: all that have come and not left.
    present: HashMap<u64, Present>,
}

struct Present {
    flight: Flight,
    path: Path,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has never run.
    Waiting,
    /// It holds a slot.
    Running,
    /// It had a slot, which a job of higher priority has.
    Preempted,
    /// All of it is in the buffer.
    Buffered,
}

impl<S: Station> Slotted<S> {
    pub fn new(inner: S, slots: Slots, buffer: Nanos) -> Slotted<S> {
        Slotted { inner, slots, buffer, present: HashMap::new() }
    }

    /// Does what has to happen, and what follows of it: a job that is all in the buffer gives its slot on at once.
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

    /// Hands what is in the buffer to the link, and the slot to the job of this turn.
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
            // What was sent in one piece cannot be paused: it may leave while its job sleeps.
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

    fn left_over(&self) -> Vec<Flight> {
        self.present.values().map(|job| job.flight).filter(|flight| !flight.is_closed).collect()
    }
}
