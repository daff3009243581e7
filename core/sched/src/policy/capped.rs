//! Shortest first, and nobody much later than under fair sharing: rank = beyond + min(due, left).
//!
//! A virtual link runs along with the real one. Clients share it fairly, and so do the connections of each
//! ([`SharedLink`]).
//!
//! - `left` is the number of bytes left of the response. A browser that says what it shows first (RFC 9218) has its connection
//!   ranked by all of urgency 0 and 1 while the first is one of them, and then by `due` alone, a rank of whole pages.
//! - `due` is how many bytes an owner will have been carried on the virtual link until all that the connection was asked
//!   for is there. A response that would be there by now goes before all that would not (the fair sojourn protocol:
//!   Friedman & Henderson, "Fairness and efficiency in web server protocols", 2003). A response that stands by its own
//!   size is due a slack later, 0.4 s of the link: without it the mean of responses of like sizes is a third higher.
//! - `beyond` is the number of bytes that the client has had beyond its share and the allowance, by an account like that
//!   of [`super::ByClient`]. A client that is ahead by that many bytes waits for as many. So small responses of a client
//!   that asks for many do not go before the pages of others, and the order among its own stays.
//!
//! A connection that does not take its bytes does not age ([`SharedLink::pause`]). A size that is not known is taken for
//! a lower bound that doubles whenever it is reached. The rule is good for pages of clients that share the link with
//! downloads, crawlers and clients that split. It is bad for the mean of responses of like sizes, and dearer than a plain rank: each grant changes what all are due, which
//! is looked at for a few connections at a time (docs/notebook/carriers.md). Small responses without end hold a large
//! one up until it is due; it is later than under fair sharing by the time that it takes alone.
//!
//! Without a share between clients, connections share the virtual link, and there is neither slack nor account. So it
//! is in classes, whose clients share by [`super::ByClient`], and whose connections are ranked by stage.

use units::Nanos;

use crate::policy::ClientShare;
use crate::scheduler::job::{NO_CONNECTION, OWN_RANK};
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::shared_link::{Owner, SharedLink};
use crate::{Job, Policy, Size, grow};

/// A response of unknown size is taken to have this many bytes at least.
const UNKNOWN_BYTES: u64 = 16 * 1024;
/// Ready connections that are ranked anew with each grant, in turns, and the maximum number of first ones.
const REFRESHED: usize = 8;

/// The part of the allowance that is the slack: 0.4 s of the link where the allowance is 2.4 s.
const SLACK_PART: u64 = 6;
/// The maximum that a client is ahead, in allowances. At 2 a crawler delays the pages of others by half, at 5 not at all;
/// at 5 the first views of visitors who share an address come a tenth later than at 2.
const AHEAD_MAX: f64 = 5.0;

/// A client: its group of connections on the virtual link, and its account.
#[derive(Debug, Clone, Copy)]
struct Client {
    group: Option<Owner>,
    weight: u8,
    /// Bytes that it has been sent, divided by its weight, from the clock's value when it was last not ahead.
    tag: f64,
}

const NEW_CLIENT: Client = Client { group: None, weight: 1, tag: 0.0 };

/// A connection on the virtual link, or a response that has one to itself.
#[derive(Debug, Clone, Copy)]
struct Turn {
    leaf: Option<Owner>,
    client: u32,
    jobs: u32,
}

const NO_TURN: Turn = Turn { leaf: None, client: 0, jobs: 0 };

/// A job, by slot.
#[derive(Debug, Clone, Copy)]
struct Member {
    leaf: Owner,
    client: u32,
    /// The leaf is the job's own, and not that of its connection.
    has_own: bool,
    /// Bytes that it has asked for on the virtual link.
    booked: u64,
    /// Those of them that wait for something.
    paused: u64,
    /// When it is due, in the time of the virtual link.
    due_at: f64,
    /// Its rank is not its own size, but that of its connection.
    is_stage: bool,
    /// Its rank by size, while it stands in the order.
    left: u64,
    number: u64,
}

pub struct Capped {
    link: SharedLink,
    /// The share between clients; without one, connections share the link.
    share: Option<ClientShare>,
    /// The bytes that a client which always waits has been sent, if it shared with one client more than wait.
    clock: f64,
    clients: Vec<Client>,
    turns: Vec<Turn>,
    members: Vec<Option<Member>>,
    by_due: RunQueue,
    by_size: RunQueue,
    /// The slots in the order, and the place of each there.
    offered: Vec<u32>,
    offered_at: Vec<u32>,
    next_refreshed: usize,
}

const NONE: u32 = u32::MAX;

impl Capped {
    pub fn new(share: Option<ClientShare>) -> Capped {
        Capped {
            link: SharedLink::default(),
            share,
            clock: 0.0,
            clients: Vec::new(),
            turns: Vec::new(),
            members: Vec::new(),
            by_due: RunQueue::default(),
            by_size: RunQueue::default(),
            offered: Vec::new(),
            offered_at: Vec::new(),
            next_refreshed: 0,
        }
    }

    fn client(&mut self, client: u32) -> &mut Client {
        grow::grow_to(&mut self.clients, client as usize + 1, || NEW_CLIENT);
        &mut self.clients[client as usize]
    }

    /// A new leaf for a connection of this client.
    fn add_leaf(&mut self, client: u32) -> Owner {
        if self.share.is_none() {
            return self.link.add_leaf(Owner::ROOT, 1);
        }
        let Client { group, weight, .. } = *self.client(client);
        let group = match group.filter(|group| self.link.contains(*group)) {
            Some(group) => group,
            None => self.link.add_group(Owner::ROOT, weight.into()),
        };
        self.clients[client as usize].group = Some(group);
        self.link.add_leaf(group, 1)
    }

    /// The leaf of a new job, and whether it has it to itself.
    fn join(&mut self, slot: u32, job: &Job) -> (Owner, bool) {
        if job.connection == NO_CONNECTION {
            return (self.add_leaf(job.client), true);
        }
        let at = job.turn(slot) as usize;
        grow::grow_to(&mut self.turns, at + 1, || NO_TURN);
        let Turn { leaf, client, jobs } = self.turns[at];
        let leaf = match leaf {
            Some(leaf) if client == job.client => leaf,
            // A proxy sends requests of several clients over a connection.
            Some(_) if jobs > 0 => return (self.add_leaf(job.client), true),
            before => {
                before.into_iter().for_each(|leaf| self.link.leave(leaf));
                self.add_leaf(job.client)
            }
        };
        self.turns[at] = Turn { leaf: Some(leaf), client: job.client, jobs: jobs + 1 };
        (leaf, false)
    }

    fn member(&self, slot: u32) -> Option<Member> {
        self.members.get(slot as usize).copied().flatten()
    }

    /// Sets the bytes that the job has asked for, of which `attained` were sent; all that is left is ready then.
    fn book(&mut self, slot: u32, bytes: u64) {
        self.resume(slot);
        let Some(member) = self.members[slot as usize].as_mut() else { return };
        let before = std::mem::replace(&mut member.booked, bytes);
        if bytes >= before {
            self.link.ask(member.leaf, bytes - before);
        } else {
            self.link.cancel(member.leaf, before - bytes);
        }
    }

    fn resume(&mut self, slot: u32) {
        let Some(member) = self.members[slot as usize].as_mut() else { return };
        let paused = std::mem::take(&mut member.paused);
        if paused > 0 {
            self.link.resume(member.leaf, paused);
        }
    }

    /// The bytes that the client has been sent beyond its share.
    fn ahead(&self, client: u32) -> f64 {
        self.clients.get(client as usize).map_or(0.0, |client| (client.tag - self.clock).max(0.0))
    }

    /// The same, beyond the allowance.
    fn beyond(&self, client: u32) -> f64 {
        self.share.map_or(0.0, |share| (self.ahead(client) - share.allowance_bytes as f64).max(0.0))
    }

    fn slack(&self) -> f64 {
        self.share.map_or(0.0, |share| (share.allowance_bytes / SLACK_PART) as f64)
    }

    /// Charges bytes to the client's account, and advances the clock as if one client more waited. The clock keeps up
    /// with the client that is furthest ahead, so that of two that always want more the one with less goes first.
    fn charge(&mut self, client: u32, bytes: u64) {
        let Some(share) = self.share else { return };
        self.clock += bytes as f64 / (self.link.weight() + 1.0);
        let clock = self.clock;
        let client = self.client(client);
        client.tag = client.tag.max(clock) + bytes as f64 / f64::from(client.weight);
        self.clock = clock.max(client.tag - AHEAD_MAX * share.allowance_bytes as f64);
    }

    /// Ranks a job of the order anew.
    fn refresh(&mut self, slot: u32) {
        let Some(Member { leaf, client, left, is_stage, number, due_at, .. }) = self.member(slot) else { return };
        let (due, time, beyond) = (self.link.due(leaf), self.link.time(), self.beyond(client));
        // Among late ones, the one that was due first goes first.
        let due_at = if due > 0.0 { time + due } else { due_at.min(time) };
        let slack = if is_stage { 0.0 } else { self.slack() };
        self.members[slot as usize].iter_mut().for_each(|member| member.due_at = due_at);
        self.by_due.set(slot, Key { rank: (due_at + slack + beyond).to_bits(), number });
        self.by_size.set(slot, Key { rank: left.saturating_add(beyond as u64), number });
    }

    /// Ranks a few of the order anew: the first ones until one stays, and others in turns.
    fn refresh_some(&mut self) {
        for _ in 0..REFRESHED.min(self.offered.len()) {
            self.next_refreshed = (self.next_refreshed + 1) % self.offered.len();
            self.refresh(self.offered[self.next_refreshed]);
        }
        for _ in 0..REFRESHED {
            let Some(first) = self.best() else { return };
            self.refresh(first);
            if self.best() == Some(first) {
                return;
            }
        }
    }

    fn best(&self) -> Option<u32> {
        let ((due, of_due), (size, of_size)) = (self.by_due.first_entry()?, self.by_size.first_entry()?);
        let due = f64::from_bits(due.rank) - self.link.time();
        Some(if due <= size.rank as f64 { of_due } else { of_size })
    }

    fn take_out(&mut self, slot: u32) {
        self.by_due.remove(slot);
        self.by_size.remove(slot);
        let at = self.offered_at.get(slot as usize).copied().unwrap_or(NONE);
        if at == NONE {
            return;
        }
        self.offered_at[slot as usize] = NONE;
        self.offered.swap_remove(at as usize);
        if let Some(moved) = self.offered.get(at as usize) {
            self.offered_at[*moved as usize] = at;
        }
    }
}

impl Policy for Capped {
    fn name(&self) -> &str {
        "capped"
    }

    fn first(&self) -> Option<u32> {
        self.best()
    }

    fn ranks_by_view(&self) -> bool {
        true
    }

    fn size_rank(&self, slot: u32, job: &Job) -> Option<u64> {
        (job.known().is_some() || job.blind.curve.is_some()).then(|| self.within(slot, job))
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let own = self.within(slot, job);
        let Some(member) = self.members.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        (member.left, member.is_stage) = (job.rank_or(own), job.carried_rank != OWN_RANK);
        grow::grow_to(&mut self.offered_at, slot as usize + 1, || NONE);
        if self.offered_at[slot as usize] == NONE {
            self.offered_at[slot as usize] = self.offered.len() as u32;
            grow::reserve_one(&mut self.offered);
            self.offered.push(slot);
        }
        self.refresh(slot);
        self.refresh_some();
    }

    fn dequeue(&mut self, slot: u32, _job: &Job) {
        self.take_out(slot);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job) {
        let (leaf, has_own) = self.join(slot, job);
        grow::grow_to(&mut self.members, slot as usize + 1, || None);
        let member = Member {
            leaf,
            client: job.client,
            has_own,
            booked: job.attained,
            paused: 0,
            due_at: f64::INFINITY,
            is_stage: false,
            left: 0,
            number: job.number,
        };
        self.members[slot as usize] = Some(member);
        let bytes = match job.size {
            Size::Known(bytes) => bytes,
            Size::AtLeast(bytes) => bytes.max(job.attained.saturating_add(UNKNOWN_BYTES)),
        };
        self.book(slot, bytes);
    }

    fn on_size(&mut self, slot: u32, _before: &Job, job: &Job) {
        self.book(slot, job.known().unwrap_or(0).max(job.attained));
    }

    fn on_ready(&mut self, slot: u32, job: &Job, is_ready: bool) {
        let Some(member) = self.members.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        if is_ready {
            return self.resume(slot);
        }
        if member.paused == 0 {
            member.paused = member.booked.saturating_sub(job.attained);
            self.link.pause(member.leaf, member.paused);
            self.refresh_some();
        }
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        let Some(Member { client, booked, .. }) = self.member(slot) else { return };
        self.resume(slot);
        if job.known().is_none() && job.attained >= booked {
            self.book(slot, job.attained.saturating_mul(2).max(UNKNOWN_BYTES));
        }
        self.charge(client, bytes);
        self.link.carry(bytes);
        self.refresh_some();
    }

    fn on_departure(&mut self, slot: u32, job: &Job) {
        self.book(slot, job.attained);
        let Some(member) = self.members[slot as usize].take() else { return };
        if member.has_own {
            self.link.leave(member.leaf);
        } else {
            self.turns[job.turn(slot) as usize].jobs -= 1;
        }
        self.refresh_some();
    }

    fn on_close(&mut self, turn: u32) {
        if let Some(turn) = self.turns.get_mut(turn as usize) {
            let leaf = std::mem::replace(turn, NO_TURN).leaf;
            leaf.into_iter().for_each(|leaf| self.link.leave(leaf));
        }
    }

    fn on_client(&mut self, client: u32, weight: u8) {
        *self.client(client) = Client { weight, ..NEW_CLIENT };
    }

    fn on_idle(&mut self, idle: Nanos) {
        let bytes_per_s = self.share.map_or(0, |share| share.idle_bytes_per_s);
        self.clock += idle.0 as f64 * bytes_per_s as f64 / 1e9;
    }

    fn ahead_bytes(&self, client: u32) -> Option<u64> {
        self.share.map(|_| self.ahead(client) as u64)
    }
}

#[cfg(test)]
mod tests;
