use std::sync::Arc;

use units::Nanos;
use units::wire::Framing;

use crate::Path;
use crate::routes::Curve;
use crate::scheduler::Overrun;
use crate::scheduler::connection::{Waits, Why};

/// Marks a job that has its own rank, in place of a carried one.
pub(crate) const OWN_RANK: u64 = u64::MAX;

/// Marks a job without a connection, in place of a connection's slot.
pub(crate) const NO_CONNECTION: u32 = u32::MAX;

/// The pause of a source after which a response of unknown size is ranked as if it had just begun. Bytes after such a
/// pause are a new message in a stream of events, a tunnel or a followed log, and the bytes before it predict nothing
/// about the message's length.
pub const SOURCE_PAUSE: Nanos = Nanos::from_secs(1);

/// The number of bytes of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Exactly this many bytes, including the head.
    Known(u64),
    /// At least this many bytes; [`crate::Scheduler::on_end`] reports the end. Each policy documents how it treats this
    /// size. [`crate::Scheduler::on_curve`] supplies the rank that the sizes of similar responses suggest.
    AtLeast(u64),
}

/// The properties of a job when it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub size: Size,
    /// The way in which the connection cuts its payload into segments. Grants are whole segments if possible.
    pub framing: Framing,
    /// The class, from 0, for policies with classes; a number that is too high counts as the last class.
    pub class: u16,
    /// The client, for an order that is fair between clients ([`crate::policy::ByClient`]). It is a small number,
    /// because it is used as an index.
    pub client: u32,
    /// The path, for policies that use it ([`crate::Policy::needs_path`]). If it becomes known later, call
    /// [`crate::Scheduler::on_path`].
    pub path: Path,
    /// True if the job's bytes do not use the link. They are sent while the link takes no grant, and are not charged to
    /// it.
    pub bypasses_link: bool,
}

impl Arrival {
    /// Makes a job of the first class and client, on a connection with ordinary Ethernet segments and an unknown path.
    pub fn of(size: Size) -> Arrival {
        Arrival { size, framing: Framing::ETHERNET, class: 0, client: 0, path: Path::default(), bypasses_link: false }
    }
}

/// The id of a job in the system. Only [`crate::Scheduler::arrive`] creates ids. The id of a departed job is
/// recognised, and every call with it does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId {
    pub(crate) slot: u32,
    /// The number in the order of arrival, from 0. It is never reused, so it also distinguishes a stale id from a live
    /// one.
    pub number: u64,
}

impl JobId {
    /// Returns a small integer that no other job in the system has, as an index for the caller's data about the job.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// A response being sent, as a policy sees it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The arrival number, by which every policy breaks ties.
    pub number: u64,
    pub arrived_at: Nanos,
    pub size: Size,
    /// The bytes sent so far.
    pub attained: u64,
    pub(crate) framing: Packed,
    pub class: u16,
    pub client: u32,
    pub(crate) blind: Blind,
    /// The reasons why the job waits; it is ready if this is empty.
    pub(crate) waits: Waits,
    /// The slot of the job's connection; [`NO_CONNECTION`] if the job has a connection to itself.
    pub(crate) connection: u32,
    /// The rank of the stage that the job represents on its connection, or [`OWN_RANK`].
    pub(crate) carried_rank: u64,
    /// The time since which the job has been ready without getting a byte, or has waited for its source.
    pub(crate) waits_since: Nanos,
}

/// The data that ranks a job while its size is unknown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blind {
    /// The curve of the sizes of similar responses.
    pub curve: Option<Arc<Curve>>,
    /// The bytes sent before the source last paused ([`SOURCE_PAUSE`]); 0 without a pause.
    pub before_pause: u64,
}

/// A [`Framing`] in a third of the memory, because a client may have a hundred waiting jobs. Values that no real packet
/// has are clamped to the range of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed {
    segment_bytes: u32,
    header_bytes: u16,
    syn_ack_bytes: u8,
    /// True if the job's packets do not use the link.
    bypasses_link: bool,
}

impl Packed {
    pub fn with_bypass(self, bypasses_link: bool) -> Packed {
        Packed { bypasses_link, ..self }
    }
}

impl From<Framing> for Packed {
    fn from(framing: Framing) -> Packed {
        Packed {
            segment_bytes: framing.segment_bytes.try_into().unwrap_or(u32::MAX),
            header_bytes: framing.header_bytes.try_into().unwrap_or(u16::MAX),
            syn_ack_bytes: framing.syn_ack_bytes.try_into().unwrap_or(u8::MAX),
            bypasses_link: false,
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
    /// The way in which the job's connection cuts its payload into segments.
    pub fn framing(&self) -> Framing {
        self.framing.into()
    }

    /// Makes a job that has just arrived, for tests of a single policy.
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

    /// Returns the bytes still to send; a lower bound if the size is unknown.
    pub fn remaining(&self) -> u64 {
        match self.size {
            Size::Known(bytes) | Size::AtLeast(bytes) => bytes.saturating_sub(self.attained),
        }
    }

    /// Returns the bytes sent since the source last paused. Orders by attained service rank by these.
    pub(crate) fn attained_anew(&self) -> u64 {
        self.attained - self.blind.before_pause
    }

    /// Records that the source has bytes again, after a wait since `waits_since`.
    pub(crate) fn on_source(&mut self, now: Nanos) {
        if self.waits_for(Why::Source) && self.known().is_none() && now - self.waits_since >= SOURCE_PAUSE {
            self.blind.before_pause = self.attained;
        }
    }

    /// Returns the total bytes of the job, if known.
    pub fn known(&self) -> Option<u64> {
        match self.size {
            Size::Known(bytes) => Some(bytes),
            Size::AtLeast(_) => None,
        }
    }

    /// Returns the bytes that the job has left, if known.
    pub fn known_left(&self) -> Option<u64> {
        self.known().map(|bytes| bytes.saturating_sub(self.attained))
    }

    /// Counts sent bytes, up to the job's size. Returns the number counted, and an overrun if more were sent.
    pub(crate) fn attain(&mut self, bytes: u64) -> (u64, Option<Overrun>) {
        let (before, found_bytes) = (self.attained, self.attained.saturating_add(bytes));
        let size_bytes = self.known().unwrap_or(u64::MAX);
        self.attained = found_bytes.min(size_bytes);
        (self.attained - before, (found_bytes > size_bytes).then_some(Overrun { size_bytes, found_bytes }))
    }

    /// Returns the rank in an order by size: the carried rank if there is one, and otherwise `own`.
    pub(crate) fn rank_or(&self, own: u64) -> u64 {
        if self.carried_rank == OWN_RANK { own } else { self.carried_rank }
    }

    /// Returns the slot that takes turns under a round-robin policy: that of the connection, or `slot`, the job's own,
    /// if it has none.
    pub(crate) fn turn(&self, slot: u32) -> u32 {
        if self.connection == NO_CONNECTION { slot } else { self.connection }
    }

    /// Returns whether no reason keeps the job from being sent.
    pub fn is_ready(&self) -> bool {
        self.waits.is_empty()
    }

    /// Returns whether the job waits only for its reader.
    pub fn waits_for_reader(&self) -> bool {
        self.waits.is_for(Why::Connection)
    }

    /// Returns whether this is one of the reasons why the job is not ready.
    pub fn waits_for(&self, why: Why) -> bool {
        self.waits.contains(why)
    }

    /// Returns whether the job's bytes do not use the link.
    pub fn bypasses_link(&self) -> bool {
        self.framing.bypasses_link
    }

    /// Returns whether the job sleeps until a slot of its class is free.
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
        // The end of a job of unknown size is reported, not computed.
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
