//! Foreign traffic in the queue below us: an upload, a backup, another server behind the same shaper.
//!
//! A queue that holds others' bytes says nothing about ours. Where they stand in *our* FIFO, whoever sends less loses:
//! then we hand down at the link's rate less a named share, and TCP on the other side finds that share by itself. Where
//! they stand in a queue of their own (a sibling class, another flow of fq_codel) the shaper already divides the link:
//! then we keep a few packets of our own below us and take whatever it gives.
//!
//! Nobody tells which of the two it is, but a FIFO has a law: bytes handed down behind `q` others leave just when the link
//! has sent `q`. So one hand-down at a time is watched. Bytes that leave well before that time have overtaken others, bytes
//! that stay well beyond it were overtaken, and either way there is a queue of our own ([`Presence::Apart`]).

use units::{Nanos, Rate};

use crate::ledger::{PACKET_BYTES, Reading};

/// The share of the link that foreign traffic keeps while it waits in our queue, in thousandths, unless told otherwise:
/// half, what two equals would get.
pub const FOREIGN_SHARE_PERMILLE: u32 = 500;

/// Foreign bytes below this are not a backlog: acknowledgements, a shell's keystrokes.
const STANDING_BYTES_MIN: u64 = 2 * PACKET_BYTES;
/// On faster links, so much time of the link instead: what a burst of a millisecond's grant leaves behind.
const STANDING_FOR_MIN: Nanos = Nanos::from_micros(500);
/// A backlog counts as foreign traffic once it has stood this long without a gap, and as gone after such a gap.
const STANDS_AFTER: Nanos = Nanos::from_millis(25);
/// What we use of the rest, in thousandths: a little less, so that a queue of our own would run empty now and then, which is
/// how it is found out.
const SHARED_PERMILLE: u64 = 980;
/// How many hand-downs in a row have to speak against what we believe before we believe the other.
const PROBES_MIN: u32 = 3;
/// What we keep in a queue of our own, so that the shaper finds something there whenever it is our turn.
const APART_BYTES_MAX: u64 = 2 * PACKET_BYTES;

/// Where foreign traffic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    /// Nowhere, or never for long.
    #[default]
    Absent,
    /// In the FIFO our own bytes wait in.
    Shared,
    /// In a queue beside ours.
    Apart,
}

#[derive(Debug)]
pub struct Foreign {
    share_permille: u32,
    presence: Presence,
    /// Foreign bytes at the last reading, at least.
    bytes: u64,
    /// Since when every reading has agreed with the other presence: with a backlog while absent, with none while present.
    differs_since: Option<Nanos>,
    /// The last reading, and what was handed down since.
    last: Option<Reading>,
    probe: Option<Probe>,
    /// Probes in a row that spoke against [`Foreign::presence`].
    against: u32,
}

/// A hand-down that is watched until it has left.
#[derive(Debug, Clone, Copy)]
struct Probe {
    at: Nanos,
    /// A FIFO lets it out after this time.
    fifo_for: Nanos,
    /// Bytes of ours that were below us then, itself included.
    own_bytes: u64,
    /// Handed down behind it.
    behind_bytes: u64,
    drops: u64,
}

impl Default for Foreign {
    fn default() -> Foreign {
        Foreign::new(FOREIGN_SHARE_PERMILLE)
    }
}

impl Foreign {
    /// `share_permille` of the link, at most 900.
    pub fn new(share_permille: u32) -> Foreign {
        assert!(share_permille <= 900, "a foreign share of {share_permille} per mille");
        Foreign {
            share_permille,
            presence: Presence::Absent,
            bytes: 0,
            differs_since: None,
            last: None,
            probe: None,
            against: 0,
        }
    }

    pub fn presence(&self) -> Presence {
        self.presence
    }

    /// Foreign bytes in the queue at the last reading, at least.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn share_permille(&self) -> u32 {
        self.share_permille
    }

    /// What the link has left for us.
    pub(crate) fn rate_left(&self, rate: Rate) -> Rate {
        if self.presence != Presence::Shared {
            return rate;
        }
        rate.permille((u64::from(1000 - self.share_permille) * SHARED_PERMILLE / 1000) as u32)
    }

    /// Bytes of ours were handed down, on a link of this rate.
    pub(crate) fn on_charged(&mut self, now: Nanos, wire_bytes: u64, rate: Rate) {
        let Some(last) = &mut self.last else { return };
        last.own_bytes += wire_bytes;
        last.queued_bytes += wire_bytes;
        let (own_bytes, drops, fifo_for) = (last.own_bytes, last.drops, rate.time_for(last.queued_bytes));
        match &mut self.probe {
            Some(probe) => probe.behind_bytes += wire_bytes,
            // With nobody to overtake nothing can be learned.
            None if self.presence == Presence::Absent || self.bytes < STANDING_BYTES_MIN => {}
            None => self.probe = Some(Probe { at: now, fifo_for, own_bytes, behind_bytes: 0, drops }),
        }
    }

    /// The queue was measured on a link of this rate; gives [`Foreign::holding_bytes`].
    pub(crate) fn on_reading(&mut self, now: Nanos, reading: Reading, rate: Rate) -> u64 {
        let own = reading.own_bytes.min(reading.queued_bytes);
        self.bytes = reading.queued_bytes - own;
        self.last = Some(Reading { own_bytes: own, ..reading });
        self.follow(now, rate);
        self.judge(now, own, reading.drops);
        self.holding_bytes()
    }

    /// How many bytes of our own should hold us back, of those last read and those handed down since.
    pub(crate) fn holding_bytes(&self) -> u64 {
        let Some(Reading { queued_bytes, own_bytes, .. }) = self.last else { return 0 };
        match self.presence {
            Presence::Absent => own_bytes,
            Presence::Shared => {
                // Our part of a FIFO is our share of it; only what is beyond is a queue that we built.
                let share = u128::from(queued_bytes) * u128::from(1000 - self.share_permille) / 1000;
                own_bytes.saturating_sub(share as u64 + APART_BYTES_MAX)
            }
            Presence::Apart => own_bytes.saturating_sub(APART_BYTES_MAX - PACKET_BYTES),
        }
    }

    /// Enters and leaves presence, each after a while of readings that agree.
    fn follow(&mut self, now: Nanos, rate: Rate) {
        let stands = self.bytes >= STANDING_BYTES_MIN.max(rate.bytes_in(STANDING_FOR_MIN));
        if stands == (self.presence != Presence::Absent) {
            self.differs_since = None;
            return;
        }
        let since = *self.differs_since.get_or_insert(now);
        if now - since >= STANDS_AFTER {
            self.enter(if stands { Presence::Shared } else { Presence::Absent });
        }
    }

    fn enter(&mut self, presence: Presence) {
        self.presence = presence;
        (self.differs_since, self.probe, self.against) = (None, None, 0);
    }

    /// Looks whether the probe has left, and what that says.
    fn judge(&mut self, now: Nanos, own: u64, drops: u64) {
        let Some(probe) = self.probe else { return };
        // What was dropped is gone early too, and has overtaken nobody.
        if drops != probe.drops || self.bytes < STANDING_BYTES_MIN {
            self.probe = None;
            return;
        }
        let waited = now - probe.at;
        let left = (probe.own_bytes + probe.behind_bytes).saturating_sub(own);
        let is_gone = left + PACKET_BYTES / 2 >= probe.own_bytes;
        let is_overtaken = waited > permille(probe.fifo_for, 1500);
        if !is_gone && !is_overtaken {
            return;
        }
        self.probe = None;
        let has_overtaken = waited < permille(probe.fifo_for, 750);
        let speaks_for = if has_overtaken || is_overtaken {
            Presence::Apart
        } else if waited >= permille(probe.fifo_for, 900) {
            Presence::Shared
        } else {
            // A coarse look at a short queue says neither.
            self.presence
        };
        self.against = if speaks_for == self.presence { 0 } else { self.against + 1 };
        if self.against >= PROBES_MIN {
            (self.presence, self.against) = (speaks_for, 0);
        }
    }
}

fn permille(span: Nanos, permille: u64) -> Nanos {
    Nanos(span.0.saturating_mul(permille) / 1000)
}
