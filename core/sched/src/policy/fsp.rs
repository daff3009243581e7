//! The fair sojourn protocol: rank = the time at which the job would be complete if all jobs shared the link equally.
//!
//! Friedman & Henderson, "Fairness and efficiency in web server protocols", 2003: in addition to the real link, all
//! jobs share a virtual link in equal parts, and the real link serves the job that finishes first on the virtual one.
//! No job finishes later than under processor sharing, yet the mean is close to SRPT's. Good if no job may be worse off
//! than under processor sharing. Worse than SRPT under overload, when an old large job that is due holds up many small
//! ones. Bad if a size was wrong: a job that is complete only on the virtual link stays first.
//!
//! The virtual link needs no clock, because it carries as many bytes as the real one. Its time V is the number of bytes
//! that each job on it has received. A job of s bytes that arrives at V is complete at V + s, which never changes, so
//! ranks are set once. A virtual job remains after its real job is sent, until V reaches its end, and is removed if its
//! real job is aborted. A blocked job is still served on the virtual link, and comes back with its old rank. A job of
//! unknown size shares the virtual link until it ends. Its rank is its starting time plus its attained bytes, as under
//! `fair`, so it gets at most its equal share.

use crate::policy::virtual_time::VirtualTime;
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Job, Policy, Size};

#[derive(Default)]
pub struct Fsp {
    queue: RunQueue,
    /// The virtual completion time of each slot's job; for a job of unknown size, its starting time.
    tags: Vec<u64>,
    /// The number of jobs in the system. When it falls to zero, the virtual link is empty too.
    in_system: usize,
    link: VirtualLink,
}

/// The units of virtual time per byte, so that an equal share of a byte is seldom lost to rounding. The remainder of a
/// grant is carried over to the next.
const UNITS: u64 = 256;

impl Policy for Fsp {
    fn name(&self) -> &str {
        "fsp"
    }

    fn first(&self) -> Option<u32> {
        self.queue.first()
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let rank = match job.size {
            Size::Known(_) => self.tags[slot as usize],
            Size::AtLeast(_) => self.tags[slot as usize].saturating_add(job.attained_anew().saturating_mul(UNITS)),
        };
        self.queue.set(slot, Key { rank, number: job.number });
    }

    fn within(&self, slot: u32, _job: &Job) -> u64 {
        self.tags[slot as usize]
    }

    fn dequeue(&mut self, slot: u32, _job: &Job) {
        self.queue.remove(slot);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job) {
        self.in_system += 1;
        self.tags.resize(self.tags.len().max(slot as usize + 1), 0);
        self.tags[slot as usize] = self.link.join(slot, job);
    }

    fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        self.link.leave(slot, before);
        self.tags[slot as usize] = self.link.join_since(self.tags[slot as usize], slot, job);
    }

    fn on_sent(&mut self, _slot: u32, _job: &Job, bytes: u64) {
        self.link.advance(bytes);
    }

    fn on_departure(&mut self, slot: u32, job: &Job) {
        self.in_system -= 1;
        if self.in_system == 0 {
            // Both links have done all their work, except work that was aborted after one of them had done more of it.
            self.link.reset();
        } else if !job.is_sent() {
            self.link.leave(slot, job);
        }
    }
}

/// The jobs on the virtual link.
#[derive(Default)]
struct VirtualLink {
    /// The jobs of known size, ordered by completion. They have slots of their own, because they may outlive the
    /// scheduler's jobs.
    places: RunQueue,
    vacant: Vec<u32>,
    /// For each scheduler slot, the place of its last virtual job; and (`tenants`) for each place, the number of the
    /// job that has it now.
    place_of: Vec<u32>,
    tenants: Vec<u64>,
    /// The number of jobs of unknown size.
    blind: usize,
    /// The units that each job on the virtual link has received since that link was last empty.
    time: VirtualTime<u64>,
    /// Units that were carried and not shared out yet, fewer than there are jobs.
    carry: u64,
}

/// The maximum number of virtual jobs. Beyond it, the virtual job with the least left is removed.
const VIRTUAL_JOBS_MAX: usize = 1 << 21;

impl VirtualLink {
    /// Adds a job; returns its tag.
    fn join(&mut self, slot: u32, job: &Job) -> u64 {
        self.join_since(self.time.now(), slot, job)
    }

    /// Adds a job whose share began at the virtual time `start`, now or in the past; returns its tag.
    fn join_since(&mut self, start: u64, slot: u32, job: &Job) -> u64 {
        let Size::Known(bytes) = job.size else {
            self.blind += 1;
            return start;
        };
        let tag = start.saturating_add(bytes.saturating_mul(UNITS));
        if self.places.len() >= VIRTUAL_JOBS_MAX {
            self.end_first();
        }
        let place = self.vacant.pop().unwrap_or(self.tenants.len() as u32);
        self.tenants.resize(self.tenants.len().max(place as usize + 1), 0);
        self.tenants[place as usize] = job.number;
        self.place_of.resize(self.place_of.len().max(slot as usize + 1), 0);
        self.place_of[slot as usize] = place;
        // A job that would be complete by now takes no more of the link.
        self.places.set(place, Key { rank: tag.max(self.time.now()), number: job.number });
        tag
    }

    fn leave(&mut self, slot: u32, job: &Job) {
        let Size::Known(_) = job.size else {
            self.blind -= 1;
            return;
        };
        let place = self.place_of[slot as usize];
        if self.places.contains(place) && self.tenants[place as usize] == job.number {
            self.places.remove(place);
            self.vacant.push(place);
        }
    }

    /// Carries these bytes, divided equally among all jobs.
    fn advance(&mut self, bytes: u64) {
        let mut units = bytes.saturating_mul(UNITS).saturating_add(self.carry);
        while let Some((first, _)) = self.places.first_entry() {
            let jobs = (self.places.len() + self.blind) as u64;
            let needed = (first.rank - self.time.now()).saturating_mul(jobs);
            if units < needed {
                self.time.advance_to(self.time.now() + units / jobs);
                self.carry = units % jobs;
                return;
            }
            units -= needed;
            self.time.advance_to(first.rank);
            self.end_first();
        }
        self.carry = 0;
        if let Some(share) = units.checked_div(self.blind as u64) {
            self.time.advance_to(self.time.now().saturating_add(share));
        }
    }

    fn end_first(&mut self) {
        if let Some((_, place)) = self.places.first_entry() {
            self.places.remove(place);
            self.vacant.push(place);
        }
    }

    fn reset(&mut self) {
        while self.places.len() > 0 {
            self.end_first();
        }
        // The next busy period has its own virtual time.
        (self.blind, self.time, self.carry) = (0, VirtualTime::default(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64, size: Size) -> Job {
        Job { number, ..Job::of_size(size) }
    }

    /// Makes a link with a job of ten bytes and a job of unknown size; returns the bytes both have received after ten
    /// bytes.
    fn shared(is_blind_gone: bool) -> u64 {
        let (mut link, blind) = (VirtualLink::default(), job(1, Size::AtLeast(0)));
        link.join(0, &job(0, Size::Known(10)));
        link.join(1, &blind);
        if is_blind_gone {
            link.leave(1, &blind);
        }
        link.advance(10);
        link.time.now() / UNITS
    }

    /// The job had its share before its size was known, and keeps it afterwards, until it has its total.
    #[test]
    fn a_size_that_becomes_known_keeps_its_share_and_its_start() {
        for (bytes, tag, other_has) in [(8, 8, 12), (4, 4, 15)] {
            let (mut link, before) = (VirtualLink::default(), job(1, Size::AtLeast(0)));
            link.join(0, &job(0, Size::Known(100)));
            let start = link.join(1, &before);
            link.advance(10);
            link.leave(1, &before);
            assert_eq!(link.join_since(start, 1, &job(1, Size::Known(bytes))) / UNITS, tag);
            // Both jobs have received five bytes. With a total of eight, the job has three to come; with four, nothing.
            link.advance(10);
            assert_eq!((link.time.now() / UNITS, link.blind), (other_has, 0));
        }
    }

    /// The job takes nothing more when it has ended.
    #[test]
    fn a_job_of_unknown_size_has_its_share_of_the_virtual_link() {
        assert_eq!((shared(false), shared(true)), (5, 10));
    }
}
