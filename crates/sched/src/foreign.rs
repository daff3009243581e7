//! Foreign traffic in the queue below us: an upload, a backup, another server behind the same shaper.
//!
//! A queue that holds others' bytes says nothing about ours. Where they stand in *our* FIFO, whoever sends less loses:
//! then we hand down at the link's rate less a named share, and TCP on the other side finds that share by itself. Where
//! they stand in a queue of their own (a sibling class, another flow of fq_codel) the shaper already divides the link:
//! then we keep a few packets of our own below us and take whatever it gives.
//!
//! Nobody tells which of the two it is, but a FIFO has a law: bytes handed down behind `q` others cannot leave before the
//! link has sent `q`. Bytes that are gone well before that overtook, so there is a queue of our own
//! ([`Presence::Apart`]); and bytes that stay that long although only a few are below us are in a FIFO after all.

use units::{Nanos, Rate};

use crate::ledger::Reading;

/// The share of the link that foreign traffic keeps while it waits in our queue, in thousandths, unless told otherwise:
/// half, what two equals would get.
pub const FOREIGN_SHARE_PERMILLE: u32 = 500;

/// Foreign bytes below this are not a backlog: acknowledgements, a shell's keystrokes.
const STANDING_BYTES_MIN: u64 = 2 * 1514;
/// On faster links, so much time of the link instead: what a burst of a millisecond's grant leaves behind.
const STANDING_FOR_MIN: Nanos = Nanos::from_micros(500);
/// A backlog counts as foreign traffic once it has stood this long without a gap, and as gone after such a gap.
const STANDS_AFTER: Nanos = Nanos::from_millis(25);
/// What we use of the rest, in thousandths: a little less, so that a queue of our own would run empty now and then, which is
/// how it is found out.
const SHARED_PERMILLE: u64 = 980;
/// How often in a row our bytes have to overtake before we believe in a queue of our own.
const OVERTAKINGS_MIN: u32 = 3;
/// What we keep in a queue of our own, so that the shaper finds something there whenever it is our turn.
const APART_BYTES_MAX: u64 = 3 * 1514;

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
    last: Option<Reading>,
    probe: Option<Probe>,
    overtakings: u32,
    /// Since when more than [`APART_BYTES_MAX`] are in a queue that we take for our own, and what stood before them.
    held: Option<(Nanos, u64)>,
}

/// Bytes handed down while nothing of ours was below: when they were, and when a FIFO lets them out.
#[derive(Debug, Clone, Copy)]
struct Probe {
    at: Nanos,
    fifo_for: Nanos,
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
            overtakings: 0,
            held: None,
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
    pub(crate) fn on_charged(&mut self, now: Nanos, rate: Rate) {
        let Some(last) = self.last else { return };
        if self.presence == Presence::Shared && self.probe.is_none() && last.own_bytes == 0 {
            self.probe = Some(Probe { at: now, fifo_for: rate.time_for(last.queued_bytes), drops: last.drops });
        }
    }

    /// The queue was measured on a link of this rate; gives how many bytes of our own should hold us back.
    pub(crate) fn on_reading(&mut self, now: Nanos, reading: Reading, rate: Rate) -> u64 {
        let own = reading.own_bytes.min(reading.queued_bytes);
        self.bytes = reading.queued_bytes - own;
        self.follow(now, rate);
        let holding = match self.presence {
            Presence::Absent => own,
            Presence::Shared => {
                self.look_for_overtaking(now, reading);
                // Our part of a FIFO is our share of it; only what is beyond is a queue that we built.
                let share = u128::from(reading.queued_bytes) * u128::from(1000 - self.share_permille) / 1000;
                own.saturating_sub(share as u64 + APART_BYTES_MAX)
            }
            Presence::Apart => {
                self.look_for_fifo(now, own, rate);
                own.saturating_sub(APART_BYTES_MAX)
            }
        };
        self.last = Some(Reading { own_bytes: own, ..reading });
        holding
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
        (self.differs_since, self.probe, self.held, self.overtakings) = (None, None, None, 0);
    }

    /// Nothing of ours is left: did the last of it overtake?
    fn look_for_overtaking(&mut self, now: Nanos, reading: Reading) {
        let Some(probe) = self.probe else { return };
        let waited = now - probe.at;
        let is_early = waited < three_quarters(probe.fifo_for);
        if reading.own_bytes > 0 && is_early {
            return;
        }
        self.probe = None;
        // A packet that was dropped is gone early too, and has overtaken nobody.
        self.overtakings = match is_early && reading.drops == probe.drops {
            true => self.overtakings + 1,
            false => 0,
        };
        if self.overtakings >= OVERTAKINGS_MIN {
            self.enter(Presence::Apart);
        }
    }

    /// A few packets that stay as long as a FIFO would keep them are in one.
    fn look_for_fifo(&mut self, now: Nanos, own: u64, rate: Rate) {
        if own <= APART_BYTES_MAX {
            self.held = None;
            return;
        }
        let (since, ahead) = *self.held.get_or_insert((now, self.bytes));
        if now - since >= three_quarters(rate.time_for(ahead + own)) {
            self.enter(Presence::Shared);
        }
    }
}

fn three_quarters(span: Nanos) -> Nanos {
    Nanos(span.0 / 4 * 3)
}
