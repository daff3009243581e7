//! Reports the scheduler's jobs to [`Turns`], for callers that compare the order with the service that the jobs would
//! have received by taking turns.

use units::Nanos;

use crate::scheduler::Waiter;
use crate::scheduler::connection::Why;
use crate::scheduler::job::NO_CONNECTION;
use crate::{JobId, Scheduler, Turns};

impl Scheduler {
    /// Returns the scheduler, set to compute the service that its jobs would have received by taking turns, as long as
    /// the link has a rate.
    pub fn with_turns(self) -> Scheduler {
        assert!(self.jobs.is_empty(), "jobs are followed from the first on");
        Scheduler { turns: Some(Box::default()), ..self }
    }

    /// Includes the job, requested at `since`, in the comparison with turns, under this label. Returns false if the job
    /// has departed or is not followed.
    pub fn compare(&mut self, id: JobId, since: Nanos, label: u8) -> bool {
        let is_there = self.jobs.get(id).is_some();
        self.turns.as_mut().is_some_and(|turns| is_there && turns.compare(id.slot, since, label))
    }

    /// Returns the service that the jobs would have received by taking turns until now; `None` unless the scheduler was
    /// made by [`Scheduler::with_turns`].
    pub fn turns(&mut self, now: Nanos) -> Option<&Turns> {
        self.advance_turns(now);
        self.turns.as_deref()
    }

    pub(super) fn advance_turns(&mut self, now: Nanos) {
        if let Some(turns) = &mut self.turns {
            turns.advance(now, self.pacer.ledger().rate(), self.order.is_idle());
        }
    }

    /// Starts to follow a job that has just arrived.
    pub(super) fn begin_turns(&mut self, now: Nanos, id: JobId) {
        let bypasses_link = self.jobs.at(id.slot).bypasses_link();
        if bypasses_link || self.turns.is_none() || self.pacer.ledger().rate().is_none() {
            return;
        }
        self.advance_turns(now);
        let bytes = self.jobs.at(id.slot).known();
        self.turns.iter_mut().for_each(|turns| turns.arrive(id.slot, bytes));
        self.note_turns(id.into());
    }

    /// Records that bytes of a job were handed down.
    pub(super) fn carry_turns(&mut self, now: Nanos, id: JobId, bytes: u64) {
        self.advance_turns(now);
        let is_there = self.jobs.get(id).is_some();
        self.turns.iter_mut().filter(|_| is_there).for_each(|turns| turns.carry(id.slot, bytes));
    }

    /// Updates whether a job, or each job of a connection, waits for something other than its turn. Waiting for a slot
    /// of a class is part of the order and does not count.
    pub(super) fn note_turns(&mut self, who: Waiter) {
        if self.turns.is_none() {
            return;
        }
        match who {
            Waiter::Job(id) => self.note_turns_of(id.slot),
            Waiter::Connection(id) => {
                let jobs: Vec<JobId> = self.jobs.on(id).collect();
                jobs.into_iter().for_each(|job| self.note_turns_of(job.slot));
            }
        }
    }

    fn note_turns_of(&mut self, slot: u32) {
        let Some(turns) = &mut self.turns else { return };
        let job = self.jobs.at(slot);
        let mut waits = job.waits;
        if job.connection != NO_CONNECTION {
            waits = waits.union(self.jobs.connection_at(job.connection).waits);
        }
        waits.remove(Why::Slot);
        if waits.is_empty() {
            turns.go_on(slot);
        } else {
            turns.wait(slot, job.attained);
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;
    use units::wire::Framing;

    use crate::{Arrival, Pace, Precedence, Scheduler, Size, TurnsEnded, Why, policy};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const SEGMENT: u64 = 1448;

    fn scheduler() -> Scheduler {
        // A packet takes 1.2 ms.
        Scheduler::new(policy::parse("srpt").unwrap(), Pace::of_line("10mbit".parse().unwrap())).with_turns()
    }

    /// Hands down the granted bytes until this instant; returns the number and departure time of each job that
    /// departed.
    fn run(scheduler: &mut Scheduler, from: Nanos, until: Nanos) -> Vec<(u64, Nanos)> {
        let (mut now, mut departed) = (from, vec![]);
        while let Some(at) = scheduler.poll_timeout().map(|at| at.max(now)).filter(|at| *at < until) {
            now = at;
            let Some(grant) = scheduler.poll_grant(now) else { continue };
            if scheduler.on_sent(now, grant.job, grant.bytes_max).is_departed() {
                departed.push((grant.job.number, now));
            }
        }
        departed
    }

    fn ended(scheduler: &mut Scheduler, now: Nanos, label: u8) -> TurnsEnded {
        scheduler.turns(now).unwrap().ended(label)
    }

    /// A single response never waits for a turn, however slow its client, its file or its upstream, over HTTP/1.1 and
    /// on a stream.
    #[test]
    fn what_is_alone_takes_as_long_in_turns() {
        for why in [Why::Connection, Why::Disk, Why::Source, Why::Stream, Why::Limit] {
            for is_on_stream in [false, true] {
                let mut scheduler = scheduler();
                let arrival = Arrival::of(Size::Known(100 * SEGMENT));
                let connection = scheduler.open(Framing::ETHERNET);
                let job = match is_on_stream {
                    true => scheduler.arrive_on(MS(0), connection, arrival, Precedence::default()).unwrap(),
                    false => scheduler.arrive(MS(0), arrival),
                };
                assert!(scheduler.compare(job, MS(0), 3));
                let (mut now, mut departed) = (MS(0), vec![]);
                while departed.is_empty() {
                    // The client receives two segments, and then nothing for 50 ms.
                    departed = run(&mut scheduler, now, now + MS(2));
                    match (is_on_stream, why) {
                        (true, Why::Connection) => scheduler.on_wait(connection, why),
                        _ => scheduler.on_wait(job, why),
                    }
                    now += MS(50);
                    scheduler.on_wait_over(now, connection, why);
                    scheduler.on_wait_over(now, job, why);
                }
                let TurnsEnded { responses, total } = ended(&mut scheduler, now + MS(1000), 3);
                let took = departed[0].1;
                assert_eq!(responses, 1);
                assert!(took > MS(2000) && took == total, "{why:?}: {took:?}, in turns {total:?}");
            }
        }
    }

    /// The large response waits for the small ones and they do not wait for it. That difference is reported; the slow
    /// client's time is not.
    #[test]
    fn what_the_order_did_is_what_differs() {
        let mut scheduler = scheduler();
        let large = scheduler.arrive(MS(0), Arrival::of(Size::Known(100 * SEGMENT)));
        let slow = scheduler.arrive(MS(0), Arrival::of(Size::Known(1000 * SEGMENT)));
        scheduler.on_wait(slow, Why::Connection);
        let small: Vec<_> = (0..20).map(|_| scheduler.arrive(MS(0), Arrival::of(Size::Known(2 * SEGMENT)))).collect();
        small.iter().for_each(|job| assert!(scheduler.compare(*job, MS(0), 0)));
        assert!(scheduler.compare(large, MS(0), 1) && scheduler.compare(slow, MS(0), 2));
        let departed = run(&mut scheduler, MS(0), MS(1000));
        let own_ms = departed.iter().filter(|(number, _)| *number != large.number).map(|(_, at)| at.0 as f64 / 1e6);
        let [small, large, slow] = [0, 1, 2].map(|label| ended(&mut scheduler, MS(1000), label));
        assert_eq!([small.responses, large.responses, slow.responses], [20, 1, 0]);
        let (own_ms, turns_ms) = (own_ms.sum::<f64>() / 20.0, small.total.0 as f64 / 20e6);
        assert!(own_ms < 27.0 && turns_ms > 45.0, "{own_ms} ms, in turns {turns_ms}");
        let all = departed.last().unwrap().1;
        assert_eq!(all, large.total, "the last in both");
    }

    #[test]
    fn without_a_rate_nothing_is_compared() {
        let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNKNOWN).with_turns();
        let job = scheduler.arrive(MS(0), Arrival::of(Size::Known(10)));
        assert!(!scheduler.compare(job, MS(0), 0));
        let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::of_line("10mbit".parse().unwrap()));
        let job = scheduler.arrive(MS(0), Arrival::of(Size::Known(10)));
        assert!(!scheduler.compare(job, MS(0), 0) && scheduler.turns(MS(1)).is_none());
    }
}
