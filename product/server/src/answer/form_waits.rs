//! Requests that wait until a coded form of their file is ready.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use units::{Nanos, Rate};

use crate::coded::{Coder, FormId, Waiter};
use crate::disk::Done;
use crate::exchange_id::ExchangeId;
use crate::files::{Entry, Found, Key, LookupResult, SearchStep};

/// The maximum time that a request waits for a form, because the thread that codes the file may have to wait for its
/// disk.
pub(super) const WAIT_MAX: Nanos = Nanos::from_secs(2);
/// A wait that no visitor notices: about a round trip to a nearby client.
const SHORT_WAIT: Nanos = Nanos::from_millis(20);
/// The assumed minimum ratio of a text's length to its coded length. A better estimate would change few decisions.
const CODED_PART: u64 = 3;

/// The bytes of a file that an event loop can code per second while sending, a low estimate.
const ON_ITS_WAY_PER_S: u64 = 50_000_000;

/// The rate, in bits per second, assumed while the line's rate is unknown. On slower lines a wait gains much; on faster
/// lines it costs a client a few milliseconds.
const RATE_UNTIL_KNOWN: u64 = 100_000_000;

/// The state of the line when an event loop answers a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct LineView {
    /// The rate of the line. `None` while the rate is unknown, or if nothing is paced.
    pub rate: Option<Rate>,
    /// The bytes handed to the kernel that have not left the host. Responses cannot overtake them.
    pub below_bytes: u64,
}

/// A form for which a request should wait, and the maximum wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wished {
    pub id: FormId,
    pub at_most: Nanos,
}

/// A request that waits for a form, before it has an exchange.
#[derive(Debug)]
pub struct FormWait {
    pub key: Key,
    pub wished: Wished,
    pub entry: Arc<Entry>,
    /// The step in which the file was found.
    pub step: SearchStep,
}

/// The requests of an event loop that wait for forms, by exchange.
pub struct FormWaits {
    pub coder: Arc<Coder>,
    done: Arc<Done<ExchangeId>>,
    waiting: HashMap<ExchangeId, Waiting>,
    /// The latest times at which the waits end, the earliest first.
    due: BTreeSet<(Nanos, ExchangeId)>,
    /// Exchanges that have already waited. They are answered with a form that is ready.
    settled: BTreeSet<ExchangeId>,
    ended: Vec<ExchangeId>,
}

struct Waiting {
    id: FormId,
    entry: Arc<Entry>,
    since: Nanos,
    until: Nanos,
}

impl LineView {
    /// Works like [`LineView::is_sooner`], for a form that is much shorter than the file. While the rate is unknown, a
    /// short wait is assumed to pay off.
    pub fn is_soon(&self, bytes: u64, ready_in: Nanos) -> bool {
        if self.rate.is_none() { ready_in < SHORT_WAIT } else { self.is_sooner(bytes, ready_in) }
    }

    /// Returns true if a response with a file of this length arrives sooner by waiting for a form than by starting now.
    pub fn is_sooner(&self, bytes: u64, ready_in: Nanos) -> bool {
        ready_in < self.worth(bytes)
    }

    /// Returns true if a file of this length arrives sooner if it is coded while it is sent. On a fast line the event
    /// loop's time is better spent on other work.
    pub fn is_sooner_on_its_way(&self, bytes: u64) -> bool {
        let micros = bytes.saturating_mul(1_000_000) / ON_ITS_WAY_PER_S;
        self.is_sooner(bytes, Nanos::from_micros(micros))
    }

    /// Returns the longest wait for a form after which a response with a file of this length still arrives sooner than
    /// an uncoded one that starts now. The coding thread may be late, and the longer the wait, the more a wrong
    /// estimate costs.
    pub fn worth(&self, bytes: u64) -> Nanos {
        let Some(rate) = self.rate.or(Rate::from_bits_per_s(RATE_UNTIL_KNOWN)) else { return Nanos::ZERO };
        let saved = rate.time_for(bytes) - rate.time_for(bytes / CODED_PART);
        let queue = if saved == Nanos::ZERO { Nanos::ZERO } else { rate.time_for(self.below_bytes) };
        (queue + saved).min(WAIT_MAX)
    }

    /// Works like [`LineView::worth`], for a form as in [`LineView::is_soon`].
    pub fn worth_of_short(&self, bytes: u64) -> Nanos {
        if self.rate.is_none() { SHORT_WAIT } else { self.worth(bytes) }
    }
}

impl FormWaits {
    /// Creates an empty set of waits. Another thread calls `wake` when [`FormWaits::take`] has results.
    pub fn new(coder: Arc<Coder>, wake: impl Fn() + Send + Sync + 'static) -> FormWaits {
        let (done, waiting) = (Arc::new(Done::new(wake)), HashMap::new());
        let (due, settled) = (BTreeSet::new(), BTreeSet::new());
        FormWaits { coder, done, waiting, due, settled, ended: Vec::new() }
    }

    /// Makes an exchange wait for a form. If the form was made or given up in the meantime, the wait ends immediately.
    pub fn begin(&mut self, wait: FormWait, exchange: ExchangeId, now: Nanos, into: &mut impl Extend<LookupResult>) {
        let FormWait { wished: Wished { id, at_most }, entry, .. } = wait;
        let until = now + at_most;
        self.waiting.insert(exchange, Waiting { id, entry, since: now, until });
        self.due.insert((until, exchange));
        if !self.coder.wait(id, self.waiter(exchange)) {
            self.end(exchange, into);
        }
    }

    /// Removes an exchange whose client has left.
    pub fn leave(&mut self, exchange: ExchangeId) {
        self.settled.remove(&exchange);
        if let Some(Waiting { id, until, .. }) = self.waiting.remove(&exchange) {
            self.due.remove(&(until, exchange));
            self.coder.leave(id, &self.waiter(exchange));
        }
    }

    /// Returns true, once, if this exchange has waited for a form.
    pub fn settle(&mut self, exchange: ExchangeId) -> bool {
        self.settled.remove(&exchange)
    }

    /// Adds the answers for exchanges whose wait has ended.
    pub fn take(&mut self, into: &mut impl Extend<LookupResult>) {
        let mut ended = std::mem::take(&mut self.ended);
        self.done.take(&mut ended);
        ended.drain(..).for_each(|exchange| self.end(exchange, into));
        self.ended = ended;
    }

    /// Ends waits that have reached their maximum.
    pub fn give_up(&mut self, now: Nanos, into: &mut impl Extend<LookupResult>) {
        while let Some((_, exchange)) = self.due.first().copied().filter(|(until, _)| *until <= now) {
            if let Some(waiting) = self.waiting.get(&exchange) {
                self.coder.leave(waiting.id, &self.waiter(exchange));
            }
            self.end(exchange, into);
        }
    }

    /// Returns the latest time at which the next wait ends.
    pub fn due(&self) -> Option<Nanos> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Returns the exchanges that wait, and the time since which each has waited.
    pub fn askers(&self) -> impl Iterator<Item = (ExchangeId, Nanos)> {
        self.waiting.iter().map(|(exchange, waiting)| (*exchange, waiting.since))
    }

    fn waiter(&self, exchange: ExchangeId) -> Waiter {
        Waiter { exchange, done: Arc::clone(&self.done) }
    }

    /// Ends the wait of an exchange; does nothing if the exchange no longer exists.
    fn end(&mut self, exchange: ExchangeId, into: &mut impl Extend<LookupResult>) {
        if let Some(Waiting { entry, until, .. }) = self.waiting.remove(&exchange) {
            self.due.remove(&(until, exchange));
            self.settled.insert(exchange);
            into.extend([(exchange, Ok(Found::File(entry)))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_waited_for_where_that_is_sooner() {
        let line = |mbit: u64, below_bytes| LineView { rate: Rate::from_bits_per_s(mbit * 1_000_000), below_bytes };
        let millis = Nanos::from_millis;
        // 300 KB take 24 ms plain and 8 ms coded.
        assert!(line(100, 0).is_sooner(300_000, millis(15)) && !line(100, 0).is_sooner(300_000, millis(17)));
        assert!(line(1, 0).is_sooner(300_000, millis(1_500)) && !line(1, 0).is_sooner(300_000, millis(1_700)));
        // The queue below leaves first in any case: the wait is free meanwhile.
        assert!(
            line(100, 125_000).is_sooner(300_000, millis(25)) && !line(100, 125_000).is_sooner(300_000, millis(27))
        );
        assert!(!line(1, 0).is_sooner(80_000_000, WAIT_MAX), "a wait that may never end");
        let unknown = LineView::default();
        assert!(unknown.is_sooner(300_000, millis(15)) && !unknown.is_sooner(300_000, millis(17)), "as on 100 Mbit/s");
        assert!(line(100, 0).is_sooner_on_its_way(300_000) && unknown.is_sooner_on_its_way(300_000));
        assert!(!line(1_000, 0).is_sooner_on_its_way(300_000) && !line(100, 0).is_sooner_on_its_way(0));
        assert!(!line(100, 0).is_sooner(0, Nanos::ZERO) && !line(100, 125_000).is_sooner(0, Nanos::ZERO));
        assert_eq!((line(100, 0).worth(300_000), unknown.worth_of_short(300_000)), (millis(16), SHORT_WAIT));
    }
}
