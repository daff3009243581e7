//! A connection with several responses: the jobs on it, and the one that it offers to the order.
//!
//! Connections of HTTP/2 and HTTP/3 carry many responses simultaneously. The order then has two levels: a connection
//! offers its best ready job, and the policy orders the offered jobs. A policy by rank loses nothing, because the
//! minimum of minima is the overall minimum. A client's wishes (urgency and incremental, RFC 9218) apply only within
//! its connection, so no client can take the link from another by marking everything urgent.
//!
//! With classes a connection offers a job to each of them, its lanes ([`crate::Policy::lane_of`]). With a single offer,
//! a client's wishes would decide between classes: a class at its maximum rate would hold up all responses of the
//! connection, and an urgent job of a lower class would hold up the jobs of a higher one.
//!
//! Within a connection, urgency goes first (RFC 9218 section 10), then the policy's own order. Incremental responses
//! with similar keys (the same power of two) take turns, because each is useful in parts.

use units::Nanos;
use units::wire::Framing;

use crate::grow::reserve_one;

/// The maximum number of jobs on one connection. It matches the streams that HTTP/2 servers commonly allow (RFC 9113
/// section 6.5.2 recommends at least 100).
pub const JOBS_PER_CONNECTION_MAX: usize = 128;

/// The highest urgency number of responses that a browser needs before it shows anything: documents, style sheets,
/// blocking scripts.
const VIEW_URGENCY: u8 = 1;

/// The capacity that a connection without ready jobs keeps.
const READY_KEPT: usize = 4;

/// A client's preference for one of its responses (RFC 9218 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precedence {
    /// 0 is served first, 7 last.
    pub urgency: u8,
    /// True if parts of the response are useful, so that it takes turns with similar responses.
    pub is_incremental: bool,
}

impl Default for Precedence {
    /// Returns the default of RFC 9218 section 4: urgency 3, not incremental.
    fn default() -> Precedence {
        Precedence { urgency: 3, is_incremental: false }
    }
}

/// The reason why a job or connection is not ready. It becomes ready when its last reason is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The socket is full, or the connection's window is shut.
    Connection = 1,
    /// The bytes are not in memory yet.
    Disk = 2,
    /// The source, an upstream, has sent no more bytes.
    Source = 4,
    /// The stream's flow-control window is shut (RFC 9113 section 5.2).
    Stream = 8,
    /// The client has received as much as its rate limit allows for now.
    Limit = 16,
    /// The class already has its maximum of concurrent responses.
    Slot = 32,
}

/// A set of reasons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits(u8);

impl Waits {
    pub fn insert(&mut self, why: Why) {
        self.0 |= why as u8;
    }

    /// Removes the reason; returns true if it was the last one.
    pub fn remove(&mut self, why: Why) -> bool {
        let before = self.0;
        self.0 &= !(why as u8);
        before != 0 && self.0 == 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, why: Why) -> bool {
        self.0 & why as u8 != 0
    }

    /// The union of both sets.
    pub fn union(self, other: Waits) -> Waits {
        Waits(self.0 | other.0)
    }

    /// Returns whether this is the only reason.
    pub fn is_for(self, why: Why) -> bool {
        self.0 == why as u8
    }
}

/// The id of a connection in the system. Only [`crate::Scheduler::open`] creates ids, and the id of a closed connection
/// is recognised as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    pub(crate) slot: u32,
    pub(crate) number: u64,
}

/// The position of a ready job within its connection, smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ReadyKey {
    lane: u16,
    urgency: u8,
    key: u64,
    /// The turn: 0 for a job that is not incremental, which goes before incremental jobs of the same power of two;
    /// otherwise it grows with each turn of the job.
    turn: u64,
    number: u64,
}

#[derive(Debug)]
struct Member {
    slot: u32,
    number: u64,
    precedence: Precedence,
    class: u16,
    /// [`Standing::lane`], since the job was first ready.
    lane: u16,
    /// The fields of [`Standing`], kept separately because that struct is half as large again.
    key: u64,
    size: u64,
    has_size: bool,
    is_ready: bool,
    /// The job's last turn, counted in grants of the connection.
    had_turn: u64,
}

impl Member {
    fn place(&self) -> ReadyKey {
        let (key, turn) = match self.precedence.is_incremental {
            true => (power_of_two(self.key), 1 + self.had_turn),
            false => (self.key, 0),
        };
        ReadyKey { lane: self.lane, urgency: self.precedence.urgency, key, turn, number: self.number }
    }

    /// Returns the position of the member, if it is ready.
    fn ready_place(&self) -> Option<ReadyKey> {
        self.is_ready.then(|| self.place())
    }

    /// See [`Standing::size`].
    fn size(&self) -> Option<u64> {
        self.has_size.then_some(self.size)
    }
}

/// The rank that the policy gives a ready job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// [`crate::Policy::lane_of`].
    pub lane: u16,
    /// [`crate::Policy::within`].
    pub key: u64,
    /// [`crate::Policy::size_rank`].
    pub size: Option<u64>,
}

/// The job that a connection offers to one lane of the order.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    pub lane: u16,
    /// The slot of the job in the order; `None` if no job of the lane is ready.
    pub slot: Option<u32>,
    /// The time since which the connection has had a ready job in the lane, and no byte of the lane was sent.
    pub waits_since: Nanos,
}

#[derive(Debug)]
pub struct Connection {
    pub number: u64,
    pub framing: Framing,
    pub waits: Waits,
    /// The connection's payload bytes so far. They determine where its segments end.
    pub carried_bytes: u64,
    /// The connection's offers: at most one for each lane of its jobs.
    offers: Vec<Offer>,
    /// The [`Offer::waits_since`] of the offers made under the previous policy.
    waited_since: Nanos,
    turns: u64,
    /// True if the client has ever set a precedence other than the default on this connection.
    has_wishes: bool,
    members: Vec<Member>,
    /// The ready jobs with their slots, in reverse order: the first job is last.
    ready: Vec<(ReadyKey, u32)>,
}

impl Connection {
    pub fn new(number: u64, framing: Framing) -> Connection {
        Connection {
            number,
            framing,
            waits: Waits::default(),
            carried_bytes: 0,
            offers: Vec::new(),
            waited_since: Nanos::ZERO,
            turns: 0,
            has_wishes: false,
            members: Vec::new(),
            ready: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The connection's jobs, by slot and number, in order of arrival.
    pub fn jobs(&self) -> impl Iterator<Item = (u32, u64)> {
        self.members.iter().map(|member| (member.slot, member.number))
    }

    pub fn add(&mut self, slot: u32, number: u64, class: u16, precedence: Precedence) {
        self.has_wishes |= precedence != Precedence::default();
        reserve_one(&mut self.members);
        self.members.push(Member {
            slot,
            number,
            precedence,
            class,
            lane: 0,
            key: 0,
            size: 0,
            has_size: false,
            is_ready: false,
            had_turn: self.turns,
        });
    }

    pub fn remove(&mut self, slot: u32) {
        self.set(slot, None);
        if let Some(at) = self.members.iter().position(|member| member.slot == slot) {
            let lane = self.members.remove(at).lane;
            if self.members.is_empty() {
                self.offers.clear();
            } else if self.offers.len() > 1 && self.members.iter().all(|member| member.lane != lane) {
                self.offers.retain(|offer| offer.lane != lane);
            }
        }
    }

    /// Starts the wait of the job's lane, unless the lane is waiting already. Must be called before the job becomes
    /// ready.
    pub fn begin_wait(&mut self, now: Nanos, slot: u32, lane: u16) {
        let offer = self.offer_of(lane);
        if offer.slot.is_none() {
            offer.waits_since = now;
        }
        if self.offers.len() > 1 {
            self.change(slot, |member| member.lane = lane);
        }
    }

    /// Starts the wait of all lanes now, because nothing else keeps the connection from sending.
    pub fn begin_waits(&mut self, now: Nanos) {
        self.offers.iter_mut().for_each(|offer| offer.waits_since = now);
    }

    /// Records that bytes of the job were sent; its lane starts to wait for the next ones. Returns the time at which
    /// the previous wait began.
    pub fn end_wait(&mut self, now: Nanos, slot: u32) -> Nanos {
        let lane = self.lane_of(slot);
        std::mem::replace(&mut self.offer_of(lane).waits_since, now)
    }

    /// Returns the time since which the job's lane has been ready without getting a byte.
    pub fn waits_since(&self, slot: u32) -> Nanos {
        self.offer(self.lane_of(slot)).map_or(self.waited_since, |offer| offer.waits_since)
    }

    /// Returns the offers, in no order.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    pub fn offer(&self, lane: u16) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.lane == lane)
    }

    pub fn offer_mut(&mut self, lane: u16) -> Option<&mut Offer> {
        self.offers.iter_mut().find(|offer| offer.lane == lane)
    }

    /// Returns the offer to this lane, creating it if necessary.
    pub fn offer_of(&mut self, lane: u16) -> &mut Offer {
        let at = self.offers.iter().position(|offer| offer.lane == lane).unwrap_or_else(|| {
            reserve_one(&mut self.offers);
            self.offers.push(Offer { lane, slot: None, waits_since: self.waited_since });
            self.offers.len() - 1
        });
        &mut self.offers[at]
    }

    /// Returns whether the job is the connection's offer in the order.
    pub fn is_offered(&self, slot: u32) -> bool {
        self.offers.iter().any(|offer| offer.slot == Some(slot))
    }

    /// Forgets the offers, because a new policy has other lanes.
    pub fn withdraw(&mut self) {
        let waited_since = self.offers.iter().map(|offer| offer.waits_since).min();
        self.waited_since = waited_since.unwrap_or(self.waited_since);
        self.offers.clear();
    }

    /// Returns the lane of a job that has been ready; searches only if there are several lanes.
    fn lane_of(&self, slot: u32) -> u16 {
        if let [offer] = &self.offers[..] {
            return offer.lane;
        }
        self.members.iter().find(|member| member.slot == slot).map_or(0, |member| member.lane)
    }

    /// Makes the job ready with this standing, or, if `None`, not ready.
    pub fn set(&mut self, slot: u32, standing: Option<Standing>) {
        self.change(slot, |member| {
            member.is_ready = standing.is_some();
            if let Some(Standing { lane, key, size }) = standing {
                (member.key, member.has_size, member.size) = (key, size.is_some(), size.unwrap_or(0));
                member.lane = lane;
            }
        });
    }

    pub fn set_precedence(&mut self, slot: u32, precedence: Precedence) {
        self.has_wishes |= precedence != Precedence::default();
        self.change(slot, |member| member.precedence = precedence);
    }

    /// Records that the job had a turn.
    pub fn on_turn(&mut self, slot: u32) {
        self.turns += 1;
        let turns = self.turns;
        self.change(slot, |member| member.had_turn = turns);
    }

    /// Changes a job and updates its position among the ready jobs.
    fn change(&mut self, slot: u32, change: impl FnOnce(&mut Member)) {
        let Some(member) = self.members.iter_mut().find(|member| member.slot == slot) else { return };
        let before = member.ready_place();
        change(member);
        let after = member.ready_place();
        if before == after {
            return;
        }
        // The smallest position is last.
        let find = |ready: &[(ReadyKey, u32)], place: ReadyKey| ready.partition_point(|(other, _)| *other > place);
        if let Some(place) = before {
            self.ready.remove(find(&self.ready, place));
        }
        if let Some(place) = after {
            reserve_one(&mut self.ready);
            self.ready.insert(find(&self.ready, place), (place, slot));
        } else if self.ready.is_empty() && self.ready.capacity() > READY_KEPT {
            self.ready = Vec::new();
        }
    }

    /// Returns the job that the connection offers to this lane now.
    pub fn best(&self, lane: u16) -> Option<u32> {
        let end = match self.ready.last() {
            Some((place, _)) if place.lane == lane => self.ready.len(),
            _ => self.ready.partition_point(|(place, _)| place.lane >= lane),
        };
        let (place, slot) = self.ready[..end].last().filter(|_| self.waits.is_empty())?;
        (place.lane == lane).then_some(*slot)
    }

    /// Returns the job that the connection offers to this lane now, and the rank of the stage that the job represents,
    /// if it is not the job's own rank.
    ///
    /// A connection is ranked by its stage. The first stage of a page is everything that its first view needs (urgency
    /// 0 and 1); the second is the rest. A page is shown when all its style sheets are there, so one of ten helps
    /// nobody, and a page with little left ends before one with much. This is SRPT for stages. It has the shortest
    /// times to first view and to the whole page (docs/notebook/carriers.md). Responses of a client that has never set
    /// a precedence are assumed to be independent, and the connection is ranked by the first one. A stage never ranks a
    /// connection ahead of its first job, so precedences take nothing from other clients. In an order that is not by
    /// size, a connection is ranked by the job that it offers.
    pub fn best_stage(&self, lane: u16) -> Option<(u32, Option<u64>)> {
        let slot = self.best(lane)?;
        let has_stage = self.has_wishes && self.members.len() > 1;
        Some((slot, if has_stage { self.stage(slot) } else { None }))
    }

    /// Returns the total size of the ready jobs in the first job's stage: the jobs of the first view if the first job
    /// is one of them, and otherwise all jobs. Unknown sizes are left out. Returns `None` if the first job has no size.
    fn stage(&self, first: u32) -> Option<u64> {
        let first = self.members.iter().find(|member| member.slot == first)?;
        first.size()?;
        let last_urgency = if first.precedence.urgency <= VIEW_URGENCY { VIEW_URGENCY } else { u8::MAX };
        let is_of_stage = |member: &&Member| member.precedence.urgency <= last_urgency && member.class == first.class;
        let sizes = self.members.iter().filter(|member| member.is_ready).filter(is_of_stage);
        Some(sizes.filter_map(|member| member.size()).fold(0, u64::saturating_add))
    }
}

/// Returns the greatest power of two that is at most `key`; 0 for 0.
pub(crate) fn power_of_two(key: u64) -> u64 {
    key.checked_ilog2().map_or(0, |exponent| 1 << exponent)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const INCREMENTAL: Precedence = Precedence { urgency: 3, is_incremental: true };

    /// Makes a connection of ready jobs with these wishes and keys, in slots from 0.
    fn connection(jobs: &[(Precedence, u64)]) -> Connection {
        let mut connection = Connection::new(0, Framing::ETHERNET);
        for (slot, (precedence, key)) in (0..).zip(jobs) {
            connection.add(slot, u64::from(slot), 0, *precedence);
            connection.set(slot, Some(Standing { lane: 0, key: *key, size: Some(*key) }));
        }
        connection
    }

    fn plain(urgency: u8) -> Precedence {
        Precedence { urgency, ..Precedence::default() }
    }

    #[test]
    fn urgency_goes_before_size_and_size_before_arrival() {
        assert_eq!(connection(&[(plain(3), 10), (plain(1), 1000), (plain(1), 900)]).best(0), Some(2));
        assert_eq!(connection(&[(plain(3), 10), (plain(3), 10)]).best(0), Some(0));
        assert_eq!(connection(&[]).best(0), None);
    }

    #[test]
    fn incremental_jobs_of_like_size_take_turns() {
        let mut connection =
            connection(&[(INCREMENTAL, 700), (INCREMENTAL, 1000), (INCREMENTAL, 5000), (plain(3), 600)]);
        let mut served = Vec::new();
        for _ in 0..4 {
            let slot = connection.best(0).unwrap();
            connection.on_turn(slot);
            served.push(slot);
        }
        assert_eq!(served, [0, 1, 0, 1], "512 each; 600 and 5000 come after");
        connection.set(0, None);
        connection.set(1, None);
        assert_eq!(connection.best(0), Some(3));
    }

    proptest! {
        /// The offered job is always the first of the ready jobs, whatever happens to the connection's jobs.
        #[test]
        fn the_best_is_the_least_of_those_that_are_ready(
            changes in vec((0..12_u32, 0..5_u8, 0..3_u8, any::<bool>(), 0..4_u64), 1..200),
        ) {
            let mut connection = Connection::new(0, Framing::ETHERNET);
            for (number, (slot, change, urgency, is_incremental, key)) in (0..).zip(changes) {
                let precedence = Precedence { urgency, is_incremental };
                let is_there = connection.jobs().any(|(other, _)| other == slot);
                match change {
                    0 if !is_there => connection.add(slot, number, 0, precedence),
                    0 => connection.remove(slot),
                    1 => connection.set(slot, Some(Standing { lane: 0, key, size: None })),
                    2 => connection.set(slot, None),
                    3 => connection.set_precedence(slot, precedence),
                    _ => connection.on_turn(slot),
                }
                let ready = connection.members.iter().filter(|member| member.is_ready);
                let least = ready.min_by_key(|member| member.place()).map(|member| member.slot);
                prop_assert_eq!(connection.best(0), least);
            }
        }
    }

    #[test]
    fn a_connection_that_waits_offers_nothing() {
        let mut connection = connection(&[(plain(3), 1)]);
        connection.waits.insert(Why::Connection);
        assert_eq!(connection.best(0), None);
        assert!(connection.waits.remove(Why::Connection));
        assert_eq!(connection.best(0), Some(0));
        connection.remove(0);
        assert_eq!((connection.best(0), connection.len()), (None, 0));
    }

    #[test]
    fn a_stage_is_the_first_view_and_then_all_the_rest() {
        let stage = |jobs: &[(Precedence, u64)]| connection(jobs).best_stage(0).and_then(|offer| offer.1);
        assert_eq!(stage(&[]), None);
        assert_eq!(stage(&[(plain(3), 10), (plain(3), 20)]), None, "nobody wished anything");
        assert_eq!(stage(&[(plain(1), 10), (plain(0), 20), (plain(2), 5)]), Some(30));
        assert_eq!(stage(&[(INCREMENTAL, 10), (plain(3), 20)]), Some(30));
        let mut jobs = connection(&[(plain(3), 10), (plain(3), 20), (plain(3), 40)]);
        jobs.set_precedence(1, plain(2));
        assert_eq!(jobs.best_stage(0).and_then(|offer| offer.1), Some(70));
        jobs.set(1, None);
        assert_eq!(jobs.best_stage(0).and_then(|offer| offer.1), Some(50), "it has wished once");
        jobs.set(2, Some(Standing { lane: 0, key: 40, size: None }));
        assert_eq!(jobs.best_stage(0).and_then(|offer| offer.1), Some(10), "no size, nothing to add");
        jobs.set(2, Some(Standing { lane: 0, key: 5, size: None }));
        assert_eq!(jobs.best_stage(0).and_then(|offer| offer.1), None, "the first has no size");
    }

    #[test]
    fn the_last_reason_makes_ready() {
        let mut waits = Waits::default();
        assert!(!waits.remove(Why::Connection), "it was ready");
        waits.insert(Why::Connection);
        waits.insert(Why::Disk);
        assert!(!waits.remove(Why::Connection) && !waits.remove(Why::Connection));
        assert!(!waits.is_for(Why::Connection) && waits.is_for(Why::Disk));
        assert!(waits.remove(Why::Disk) && waits.is_empty());
    }

    #[test]
    fn keys_are_alike_within_a_power_of_two() {
        assert_eq!([0, 1, 2, 3, 4, u64::MAX].map(power_of_two), [0, 1, 2, 2, 4, 1 << 63]);
    }
}
