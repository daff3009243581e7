//! The rate that the line carries, measured by the bytes that arrived.

use units::Nanos;

use super::history::{Run, permille_of};
use super::losses::{LOST_BYTES_MIN, Lost};
use super::{BUSY_PERMILLE, Estimator, Signal};

/// If a queue is ours, we sent at least this part, in thousandths, of the line's rate or of the pace while it stood.
pub(super) const MOSTLY_PERMILLE: u64 = 300;
/// The part of a full pace, in thousandths, below which arrivals show that the line is slower than the pace, if they
/// stay below it for `PLATEAU_FOR`.
pub(super) const PLATEAU_PERMILLE: u64 = 930;
/// The minimum time of a plateau.
const PLATEAU_FOR: Nanos = Nanos::from_millis(300);
/// The part of the bytes sent, in thousandths, from which arrivals show that losses have ended.
const ARRIVES_PERMILLE: u64 = 985;

/// The rate that the line carries, in bits per second; a lower bound if the line was not full all the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    pub line: u64,
    pub is_full: bool,
}

impl Estimator {
    /// Returns the pace without its lost part, if the pace limits sending; otherwise the rate that arrived.
    ///
    /// A line that drops the excess carries exactly that rate. If the clients' paths lose packets instead, a cut
    /// reveals that and costs little.
    pub(super) fn left_over(&self, lost: Lost) -> Option<Measure> {
        let run = self.history.filled(BUSY_PERMILLE);
        let is_plateau = run.is_enough() && run.arrived_permille() < ARRIVES_PERMILLE;
        match self.pace {
            Some(pace) if pace / 11 * 10 <= self.history.peak() && !is_plateau && !lost.is_plain() => {
                Some(Measure { line: pace / 1000 * 1000u64.saturating_sub(lost.permille), is_full: true })
            }
            _ => self.measured(run),
        }
    }

    /// Returns the measure of the bytes that arrived while the pace was used in full.
    pub(super) fn filled(&self) -> Option<Measure> {
        let run = self.history.filled(BUSY_PERMILLE);
        run.is_enough().then(|| Measure { line: self.history.rate(&run), is_full: true })
    }

    /// Returns whether everything that is sent at full pace arrives.
    pub(super) fn arrives(&self) -> bool {
        let run = self.history.filled(BUSY_PERMILLE);
        run.is_enough() && run.arrived_permille() >= ARRIVES_PERMILLE
    }

    /// Returns the rate of a run in which the line was full. If the run is too short, returns the maximum rate that
    /// arrived, which may be lower.
    pub(super) fn measured(&self, run: Run) -> Option<Measure> {
        if run.is_enough() {
            return Some(Measure { line: self.history.rate(&run), is_full: true });
        }
        self.history.most().map(|line| Measure { line, is_full: false })
    }

    /// Returns whether there is no pace, or one so far above all rates that arrived that it limits nothing.
    pub(super) fn is_open(&self) -> bool {
        self.pace.is_none_or(|pace| pace / 2 > self.history.peak())
    }

    /// Returns the signal and a measure of arrivals in two cases: not all of a full pace arrives, or a backlog meets a
    /// queue or losses and no more arrives than before.
    pub(super) fn plateau(&self) -> Option<(Signal, Measure)> {
        if !self.is_open() {
            let run = self.history.filled(BUSY_PERMILLE);
            let permille = run.perhaps_arrived_permille();
            let is_long = run.is_enough() && run.lasted >= PLATEAU_FOR;
            let measure = Measure { line: self.history.rate(&run), is_full: true };
            return (is_long && permille < PLATEAU_PERMILLE).then_some((Signal::Plateau(permille), measure));
        }
        let mut halves = [Run::default(); 2];
        for interval in self.history.known().take_while(|interval| interval.is_backlogged) {
            halves[usize::from(halves[0].lasted >= PLATEAU_FOR)] += interval.run;
        }
        let is_long = halves[1].lasted >= PLATEAU_FOR && halves[0].is_enough();
        let is_flat = self.history.rate(&halves[0]) <= self.history.rate(&halves[1]) / 10 * 11;
        let is_congested = is_long && is_flat && self.losses.evidence.is_congested(self.threshold());
        let measure = || Some(Measure { line: self.history.most()?, is_full: true });
        Some((Signal::Plateau(1000), measure().filter(|_| is_congested)?))
    }

    /// Returns the measure of the bytes that the line carried while a queue was there.
    pub(super) fn carried(&self) -> Option<Measure> {
        let run = self.queued();
        if self.is_open() || run.is_enough() { self.measured(run) } else { None }
    }

    /// Returns the latest consecutive intervals with a queue.
    pub(super) fn queued(&self) -> Run {
        self.history.queued(Nanos(self.threshold().0 / 2))
    }

    /// Returns whether, while the queue stood, we sent about as much as the line carried or the pace allowed.
    pub(super) fn is_ours(&self) -> bool {
        let run = self.queued();
        let line = self.history.peak().min(self.pace.unwrap_or(u64::MAX));
        let is_most = |lasted, bytes| permille_of(line, lasted, bytes) >= MOSTLY_PERMILLE;
        if run.is_enough() || self.is_open() {
            return is_most(run.lasted, run.charged_bytes);
        }
        // A short queue never stands for so long, because TCP sends less when it is full.
        let (lasted, bytes) = self.history.charged_while_queued();
        self.is_losing() && is_most(lasted, bytes)
    }

    /// Returns whether all clients have lost bytes recently.
    pub(super) fn is_losing(&self) -> bool {
        self.losses.evidence.lost_by_all_bytes() >= LOST_BYTES_MIN
    }
}
