//! The jobs in the system and their connections. Both use the same numbering of slots, and no two share a slot.

use units::Nanos;
use units::wire::Framing;

use crate::grow::{grow_to, reserve_one};
use crate::scheduler::connection::{Connection, ConnectionId, JOBS_PER_CONNECTION_MAX, Precedence, Waits, Why};
use crate::scheduler::job::{Blind, NO_CONNECTION, OWN_RANK, Packed};
use crate::scheduler::{Grant, Sent};
use crate::{Arrival, Job, JobId, Pace, Size};

/// The maximum number of jobs in the system. There is at most one per connection, and a process cannot have more
/// descriptors.
pub const JOBS_MAX: usize = 1 << 20;
/// The maximum number of open connections.
pub const CONNECTIONS_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Jobs {
    jobs: Vec<Option<Job>>,
    /// The connections, by slot. A slot that holds a connection holds no job.
    connections: Vec<Option<Box<Connection>>>,
    connection_count: usize,
    /// The slots that hold neither a job nor a connection.
    vacant: Vec<u32>,
    /// The number of the next job or connection.
    next_number: u64,
    most: u64,
}

impl Jobs {
    /// Returns the number of jobs in the system, ready or not.
    pub fn len(&self) -> usize {
        self.jobs.len() - self.vacant.len() - self.connection_count
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of jobs that have been in the system at the same time.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the bytes that all jobs still have to send; a lower bound for jobs of unknown size.
    pub fn left_bytes(&self) -> u64 {
        self.jobs.iter().flatten().map(Job::remaining).fold(0, u64::saturating_add)
    }

    /// Returns the job, unless it has departed.
    pub fn get(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id.slot as usize)?.as_ref().filter(|job| job.number == id.number)
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(id.slot as usize)?.as_mut().filter(|job| job.number == id.number)
    }

    /// Returns the job in a slot that the order has returned.
    pub(crate) fn at(&self, slot: u32) -> &Job {
        self.jobs[slot as usize].as_ref().expect("a job of the order is in the system")
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Job {
        self.jobs[slot as usize].as_mut().expect("a job of the order is in the system")
    }

    /// Returns the jobs on an open connection, in order of arrival.
    pub fn on(&self, id: ConnectionId) -> impl Iterator<Item = JobId> {
        self.connection(id).into_iter().flat_map(Connection::jobs).map(|(slot, number)| JobId { slot, number })
    }

    /// Returns whether the connection is open and takes no more bytes for now.
    pub fn is_blocked(&self, id: ConnectionId) -> bool {
        self.connection(id).is_some_and(|connection| connection.waits.contains(Why::Connection))
    }

    /// Returns whether the connection is open and can take one more job.
    pub(crate) fn has_room_on(&self, id: ConnectionId) -> bool {
        self.connection(id).is_some_and(|connection| connection.len() < JOBS_PER_CONNECTION_MAX)
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(id.slot as usize)?.as_deref().filter(|connection| connection.number == id.number)
    }

    /// Returns the connection in this slot, which must hold one.
    pub(crate) fn connection_at(&self, at: u32) -> &Connection {
        self.connections[at as usize].as_ref().expect("its connection is open")
    }

    pub(crate) fn connection_at_mut(&mut self, at: u32) -> &mut Connection {
        self.connections[at as usize].as_mut().expect("its connection is open")
    }

    /// Returns whether the jobs of this connection do not use the link.
    pub(crate) fn bypasses_link(&self, at: u32) -> bool {
        self.connection_at(at).jobs().next().is_some_and(|(slot, _)| self.at(slot).bypasses_link())
    }

    /// Returns the jobs in the system, each with all reasons that keep it from being sent, including those of its
    /// connection.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Job, Waits)> {
        self.jobs.iter().enumerate().filter_map(|(slot, job)| {
            let job = job.as_ref()?;
            let of_connection = match job.connection {
                NO_CONNECTION => Waits::default(),
                at => self.connection_at(at).waits,
            };
            Some((JobId { slot: slot as u32, number: job.number }, job, job.waits.union(of_connection)))
        })
    }

    /// Returns the slots of all jobs in the system.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = u32> {
        self.jobs.iter().enumerate().filter(|(_, job)| job.is_some()).map(|(slot, _)| slot as u32)
    }

    /// Returns the slots of all connections.
    pub(crate) fn open_connections(&self) -> Vec<u32> {
        let all = self.connections.iter().enumerate();
        all.filter(|(_, connection)| connection.is_some()).map(|(slot, _)| slot as u32).collect()
    }

    /// Adds a job to the system and, if `on` is given, to an open connection. The job then gets the connection's
    /// framing.
    pub(crate) fn add(&mut self, now: Nanos, arrival: &Arrival, on: Option<(ConnectionId, Precedence)>) -> JobId {
        assert!(self.len() < JOBS_MAX, "more than {JOBS_MAX} jobs in the system");
        assert!(arrival.size != Size::Known(0), "a response has at least a head");
        let (slot, number) = (self.take_slot(), self.take_number());
        let (mut connection, mut framing) = (NO_CONNECTION, arrival.framing);
        if let Some((on, precedence)) = on {
            let its = self.connection_at_mut(on.slot);
            its.add(slot, number, arrival.class, precedence);
            (connection, framing) = (on.slot, its.framing);
        }
        self.jobs[slot as usize] = Some(Job {
            number,
            arrived_at: now,
            size: arrival.size,
            attained: 0,
            framing: Packed::from(framing).with_bypass(arrival.bypasses_link),
            class: arrival.class,
            client: arrival.client,
            blind: Blind::default(),
            waits: Waits::default(),
            connection,
            carried_rank: OWN_RANK,
            waits_since: now,
        });
        self.most = self.most.max(self.len() as u64);
        JobId { slot, number }
    }

    /// Removes a job from the system and from its connection.
    pub(crate) fn remove(&mut self, slot: u32) -> Job {
        let job = self.jobs[slot as usize].take().expect("a job departs once");
        if job.connection != NO_CONNECTION {
            self.connection_at_mut(job.connection).remove(slot);
        }
        self.vacant.push(slot);
        job
    }

    pub(crate) fn open(&mut self, framing: Framing) -> ConnectionId {
        assert!(self.connection_count < CONNECTIONS_MAX, "more than {CONNECTIONS_MAX} connections");
        let (slot, number) = (self.take_slot(), self.take_number());
        grow_to(&mut self.connections, slot as usize + 1, || None);
        self.connections[slot as usize] = Some(Box::new(Connection::new(number, framing)));
        self.connection_count += 1;
        ConnectionId { slot, number }
    }

    /// Closes an open connection without jobs.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        self.connections[id.slot as usize] = None;
        self.connection_count -= 1;
        self.vacant.push(id.slot);
    }

    /// Returns the time since which the job, or its lane on a connection, has been ready without getting a byte.
    pub(crate) fn waits_since(&self, slot: u32) -> Nanos {
        let job = self.at(slot);
        match job.connection {
            NO_CONNECTION => job.waits_since,
            at => self.connection_at(at).waits_since(slot),
        }
    }

    /// Records that these bytes of the job, or of its lane on a connection, were sent; a new wait begins now. Returns
    /// how long the previous wait lasted, or `None` if there were no bytes.
    pub(crate) fn end_wait(&mut self, now: Nanos, slot: u32, sent: Sent) -> Option<Nanos> {
        let job = self.at_mut(slot);
        if job.connection == NO_CONNECTION {
            return (sent.content_bytes > 0).then(|| now - std::mem::replace(&mut job.waits_since, now));
        }
        let at = job.connection;
        let connection = self.connection_at_mut(at);
        connection.carried_bytes = connection.carried_bytes.saturating_add(sent.carried_bytes);
        (sent.carried_bytes > 0).then(|| {
            connection.on_turn(slot);
            now - connection.end_wait(now, slot)
        })
    }

    /// Returns the grant that a ready job gets at this pace. It ends at the end of one of its connection's segments.
    pub(crate) fn grant(&self, slot: u32, pace: &Pace) -> Grant {
        let job = self.at(slot);
        let (bytes_max, room_bytes) = match job.connection {
            NO_CONNECTION => {
                let bytes = lone_grant_bytes(job, pace.grant_bytes(job.framing()));
                (bytes, bytes)
            }
            at => {
                let over_bytes = self.connection_at(at).carried_bytes % job.framing().segment_bytes;
                let room_bytes = pace.grant_bytes(job.framing()) - over_bytes;
                (room_bytes.min(left_at_most(job)), room_bytes)
            }
        };
        let segments = pace.record_segments(job.framing(), job.remaining());
        let record_bytes = (segments * job.framing().segment_bytes).saturating_sub(pace.grant_bytes(job.framing()));
        Grant { job: JobId { slot, number: job.number }, bytes_max, room_bytes, record_bytes }
    }

    /// Returns a grant for this job of a connection that fills the rest of a segment already granted to another job.
    pub(crate) fn filling(&self, slot: u32, room_bytes: u64) -> Grant {
        let job = self.at(slot);
        let bytes_max = room_bytes.min(left_at_most(job));
        Grant { job: JobId { slot, number: job.number }, bytes_max, room_bytes, record_bytes: 0 }
    }

    /// Returns the number of slots with allocated memory.
    pub fn slots(&self) -> usize {
        self.jobs.capacity()
    }

    /// Frees the memory of the slots after the last one in use, and returns the number of slots left.
    pub(crate) fn shrink(&mut self) -> usize {
        let is_connection = |slot: usize| self.connections.get(slot).is_some_and(Option::is_some);
        let used = (0..self.jobs.len()).rev().find(|&slot| self.jobs[slot].is_some() || is_connection(slot));
        let slots = used.map_or(0, |slot| slot + 1);
        self.jobs.truncate(slots);
        self.jobs.shrink_to_fit();
        self.connections.truncate(slots);
        self.connections.shrink_to_fit();
        // The lowest slots are used first, so that the highest can become free.
        self.vacant.retain(|slot| (*slot as usize) < slots);
        self.vacant.sort_unstable_by(|a, b| b.cmp(a));
        self.vacant.shrink_to_fit();
        slots
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn take_slot(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            reserve_one(&mut self.jobs);
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        })
    }
}

/// Returns the grant of a job that has a connection to itself. Only its last segment may be short.
fn lone_grant_bytes(job: &Job, grant_bytes: u64) -> u64 {
    if let Size::Known(_) = job.size
        && job.remaining().saturating_add(job.framing().segment_bytes) <= grant_bytes
    {
        // This is the usual case, and saves a division.
        return job.remaining();
    }
    let over = job.attained % job.framing().segment_bytes;
    (grant_bytes - over).min(left_at_most(job))
}

/// Returns the maximum bytes that the job may have left.
fn left_at_most(job: &Job) -> u64 {
    match job.size {
        Size::Known(_) => job.remaining(),
        Size::AtLeast(_) => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;
    use units::wire::Framing;

    use crate::{Arrival, Pace, Precedence, Scheduler, Size, Waits, Why, policy};

    #[test]
    fn all_jobs_are_told_with_what_keeps_them_and_their_connections() {
        let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNLIMITED);
        let now = Nanos::ZERO;
        let connection = scheduler.open(Framing::ETHERNET);
        let [alone, gone] = [10, 20].map(|size| scheduler.arrive(now, Arrival::of(Size::Known(size))));
        let on = scheduler.arrive_on(now, connection, Arrival::of(Size::AtLeast(5)), Precedence::default()).unwrap();
        scheduler.on_end(gone);
        let told =
            |scheduler: &Scheduler| -> Vec<_> { scheduler.jobs().iter().map(|(id, _, waits)| (id, waits)).collect() };
        assert_eq!(told(&scheduler), [(alone, Waits::default()), (on, Waits::default())]);
        scheduler.on_wait(connection, Why::Connection);
        scheduler.on_wait(on, Why::Source);
        scheduler.on_wait(alone, Why::Disk);
        let [(_, of_alone), (_, of_on)] = told(&scheduler)[..] else { panic!("two jobs") };
        assert!(of_alone.is_for(Why::Disk));
        assert!(of_on.contains(Why::Connection) && of_on.contains(Why::Source) && !of_on.contains(Why::Disk));
    }

    #[test]
    fn slots_behind_the_last_in_use_are_given_back() {
        for name in ["srpt", "fair", "fcfs"] {
            let mut scheduler = Scheduler::new(policy::parse(name).unwrap(), Pace::UNLIMITED);
            let now = Nanos::ZERO;
            let connection = scheduler.open(Framing::ETHERNET);
            let jobs: Vec<_> = (1..=1000).map(|size| scheduler.arrive(now, Arrival::of(Size::Known(size)))).collect();
            let (last, others) = jobs.split_last().unwrap();
            others.iter().for_each(|&job| scheduler.on_end(job));
            assert_eq!(scheduler.shrink(), 1001, "the last is in use");
            // New jobs take low slots.
            let low: Vec<_> = (1..=10).map(|size| scheduler.arrive(now, Arrival::of(Size::Known(size)))).collect();
            scheduler.on_end(*last);
            assert_eq!(scheduler.shrink(), 11);
            assert!(scheduler.jobs().slots() < 100 && scheduler.jobs().len() == 10);
            assert!(
                scheduler.jobs().get(*last).is_none() && low.iter().all(|&job| scheduler.jobs().get(job).is_some())
            );
            // The order still works.
            let on = scheduler.arrive_on(now, connection, Arrival::of(Size::Known(5)), Precedence::default()).unwrap();
            let mut left = 11;
            while let Some(grant) = scheduler.poll_grant(now) {
                left -= usize::from(scheduler.on_sent(now, grant.job, grant.bytes_max).is_departed());
            }
            assert!(left == 0 && scheduler.jobs().is_empty() && scheduler.jobs().get(on).is_none());
            scheduler.close(connection);
            assert_eq!(scheduler.shrink(), 0);
        }
    }
}
