use std::sync::Arc;

use units::Nanos;
use units::wire::Framing;

use crate::Path;
use crate::routes::Curve;
use crate::scheduler::Overrun;
use crate::scheduler::connection::{Waits, Why};

/// In place of a rank: the job stands for itself.
pub(crate) const OWN_RANK: u64 = u64::MAX;

/// In place of a connection's slot.
pub(crate) const NO_CONNECTION: u32 = u32::MAX;

/// A response of unknown size whose source has had nothing for so long begins anew in the order: what comes then is another message of a
/// stream of events, a tunnel or a log that is followed, and what was sent before says nothing of its size.
pub const SOURCE_PAUSE: Nanos = Nanos::from_secs(1);

/// How many bytes a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Exactly this many, head included.
    Known(u64),
    /// At least this many; the end is told by [`crate::Scheduler::on_end`]. Each policy says what it does with it; what the sizes of
    /// its like say is told by [`crate::Scheduler::on_curve`].
    AtLeast(u64),
}

/// What is known of a job when it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub size: Size,
    /// How this connection cuts its payload; grants are whole segments where they can be.
    pub framing: Framing,
    /// For policies with classes, from 0; a number past their last class counts as the last.
    pub class: u16,
    /// Whose it is, for an order that is fair between clients ([`crate::policy::ByClient`]): a small number, an index.
    pub client: u32,
    /// For policies that look at it ([`crate::Policy::needs_path`]); what is found out later is told by
    /// [`crate::Scheduler::on_path`].
    pub path: Path,
}

impl Arrival {
    /// A job of the first class and client on a connection with ordinary Ethernet segments and an unknown path.
    pub fn of(size: Size) -> Arrival {
        Arrival { size, framing: Framing::ETHERNET, class: 0, client: 0, path: Path::default() }
    }
}

/// A job in the system. Given out by [`crate::Scheduler::arrive`] only; an id of a departed job is recognised, and every
/// call with it is a no-op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId {
    pub(crate) slot: u32,
    /// Position in the order of arrival, from 0. Never used twice, so it also tells a stale id from a live one.
    pub number: u64,
}

impl JobId {
    /// A small integer that no other job in the system has: an index for what the caller keeps beside the job.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// One response being sent, as a policy sees it.
#[derive(Debug, Clone)]
pub struct Job {
    /// Arrival number: the tie-breaker of every policy.
    pub number: u64,
    pub arrived_at: Nanos,
    pub size: Size,
    /// Bytes sent so far.
    pub attained: u64,
    pub(crate) framing: Packed,
    pub class: u16,
    pub client: u32,
    pub(crate) blind: Blind,
    /// What it waits for; it is ready when that is nothing.
    pub(crate) waits: Waits,
    /// The slot of its connection, or [`NO_CONNECTION`]: it has a connection for itself.
    pub(crate) connection: u32,
    /// The rank of what it stands for on its connection, or [`OWN_RANK`].
    pub(crate) carried_rank: u64,
    /// Since when it has been ready without a byte, or waits for its source.
    pub(crate) waits_since: Nanos,
}

/// What ranks a job while its size is not known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blind {
    /// What the sizes of its like say.
    pub curve: Option<Arc<Curve>>,
    /// Bytes from before its source last paused ([`SOURCE_PAUSE`]); 0 where it has not.
    pub before_pause: u64,
}

/// A [`Framing`] in a third of its memory: a client may have a hundred jobs that wait. What no packet has is cut to what fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed {
    segment_bytes: u32,
    header_bytes: u16,
    syn_ack_bytes: u16,
}

impl From<Framing> for Packed {
    fn from(framing: Framing) -> Packed {
        Packed {
            segment_bytes: framing.segment_bytes.try_into().unwrap_or(u32::MAX),
            header_bytes: framing.header_bytes.try_into().unwrap_or(u16::MAX),
            syn_ack_bytes: framing.syn_ack_bytes.try_into().unwrap_or(u16::MAX),
        }
    }
}

impl From<Packed> for Framing {
    fn from(packed: Packed) -> Framing {
        Framing {
            segment_bytes: packed.segment_bytes.into(),
            header_bytes: packed.header_bytes.into(),
            syn_ack_bytes: packed.syn_ack_bytes.into(),
        }
    }
}

impl Job {
    /// How its connection cuts its payload.
    pub fn framing(&self) -> Framing {
        self.framing.into()
    }

    /// A job that has just come, for tests of a policy alone.
    #[cfg(test)]
    pub(crate) fn of_size(size: Size) -> Job {
        let arrived_at = Nanos::ZERO;
        let framing = Framing::ETHERNET.with_segment(1).into();
        let (waits, connection) = (Waits::default(), NO_CONNECTION);
        Job {
            number: 0,
            arrived_at,
            size,
            attained: 0,
            framing,
            class: 0,
            client: 0,
            blind: Blind::default(),
            waits,
            connection,
            carried_rank: OWN_RANK,
            waits_since: arrived_at,
        }
    }

    /// Bytes still to send; for a size not known, the least it can be.
    pub fn remaining(&self) -> u64 {
        match self.size {
            Size::Known(bytes) | Size::AtLeast(bytes) => bytes.saturating_sub(self.attained),
        }
    }

    /// Bytes sent since its source last paused: what an order by attained service looks at.
    pub(crate) fn attained_anew(&self) -> u64 {
        self.attained - self.blind.before_pause
    }

    /// Its source has something again, after a wait since `waits_since`.
    pub(crate) fn on_source(&mut self, now: Nanos) {
        if self.waits_for(Why::Source) && self.known().is_none() && now - self.waits_since >= SOURCE_PAUSE {
            self.blind.before_pause = self.attained;
        }
    }

    /// Bytes it has in all, if that is known.
    pub fn known(&self) -> Option<u64> {
        match self.size {
            Size::Known(bytes) => Some(bytes),
            Size::AtLeast(_) => None,
        }
    }

    /// Bytes it has left, if that is known.
    pub fn known_left(&self) -> Option<u64> {
        self.known().map(|bytes| bytes.saturating_sub(self.attained))
    }

    /// Counts bytes that were sent, up to the job's size. Gives how many were counted, and whether there were more.
    pub(crate) fn attain(&mut self, bytes: u64) -> (u64, Option<Overrun>) {
        let (before, found_bytes) = (self.attained, self.attained.saturating_add(bytes));
        let size_bytes = self.known().unwrap_or(u64::MAX);
        self.attained = found_bytes.min(size_bytes);
        (self.attained - before, (found_bytes > size_bytes).then_some(Overrun { size_bytes, found_bytes }))
    }

    /// Its rank in an order by size, where its own is this.
    pub(crate) fn rank_or(&self, own: u64) -> u64 {
        if self.carried_rank == OWN_RANK { own } else { self.carried_rank }
    }

    /// What takes turns under a policy that goes round: its connection, or itself in `slot` where it has none.
    pub(crate) fn turn(&self, slot: u32) -> u32 {
        if self.connection == NO_CONNECTION { slot } else { self.connection }
    }

    /// Whether the connection takes bytes, as far as was told.
    pub fn is_ready(&self) -> bool {
        self.waits.is_empty()
    }

    /// Whether it is its reader alone that keeps it from being sent.
    pub fn waits_for_reader(&self) -> bool {
        self.waits.is_for(Why::Connection)
    }

    /// Whether this is among the reasons for which it is not ready.
    pub fn waits_for(&self, why: Why) -> bool {
        self.waits.contains(why)
    }

    /// Whether it sleeps until a slot of its class is free.
    pub fn is_asleep(&self) -> bool {
        self.waits_for(Why::Slot)
    }

    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.size, Size::Known(bytes) if self.attained >= bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_an_index() {
        let slots = [0, 1, 7].map(|slot| JobId { slot, number: 100 }.slot());
        assert_eq!(slots, [0, 1, 7]);
    }

    #[test]
    fn what_is_left_is_what_was_not_sent() {
        let job = |size, attained| Job { attained, ..Job::of_size(size) };
        let of = |size, attained| (job(size, attained).remaining(), job(size, attained).is_sent());
        assert_eq!(
            [of(Size::Known(5), 3), of(Size::Known(5), 5), of(Size::Known(5), 6)],
            [(2, false), (0, true), (0, true)]
        );
        let known = |size| (job(size, 3).known(), job(size, 3).known_left());
        assert_eq!([known(Size::Known(5)), known(Size::AtLeast(5))], [(Some(5), Some(2)), (None, None)]);
        // The end of what is not known is told.
        assert_eq!([of(Size::AtLeast(5), 3), of(Size::AtLeast(5), 9)], [(2, false), (0, false)]);
    }

    #[test]
    fn readiness_is_as_told() {
        let job = Job::of_size(Size::Known(1));
        assert!(job.is_ready());
        let mut waits = Waits::default();
        waits.insert(Why::Disk);
        assert!(!Job { waits, ..job }.is_ready());
    }
}
