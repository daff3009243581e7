//! Changes of settings while a worker runs. Another thread queues them, and the worker applies them in its next turn.
//!
//! All steps that can fail have been done before: sockets are bound, files are open. New limits and timeouts apply to
//! new connections and requests, and to the next deadline of existing ones. Link settings apply from the next grant.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Worker;
use crate::clients::ClientRate;
use crate::files::CacheLimits;
use crate::limits::Limits;
use crate::net::Net;
use crate::send::{LinkSettings, Order, ReaderSettings};

/// A change that another thread leaves for a worker.
pub enum Change {
    Settings(Box<NewSettings>),
    /// The previous process has ended and no longer reads datagrams.
    PredecessorEnded,
}

/// Settings for one worker.
pub struct NewSettings {
    pub limits: Limits,
    pub memory: MemoryShare,
    /// The rate limit of one client; `None` means unlimited.
    pub client_rate: Option<Arc<dyn ClientRate>>,
    /// New link settings; `None` keeps the current ones.
    pub link: Option<LinkChange>,
}

/// A worker's share of the memory.
#[derive(Debug, Clone, Copy)]
pub struct MemoryShare {
    pub connections_bytes: u64,
    pub cache: CacheLimits,
}

pub struct LinkChange {
    pub settings: LinkSettings,
    pub order: Order,
    pub is_direct: bool,
}

/// The changes that a worker has not applied yet, one per reload since its last turn.
#[derive(Default)]
pub struct Changes {
    left: Mutex<LeftChanges>,
    adopted: Condvar,
}

#[derive(Default)]
struct LeftChanges {
    /// The changes, oldest first.
    changes: Vec<Change>,
    /// The number of changes ever queued; `adopted` counts those that were applied.
    count: u64,
    adopted: u64,
}

impl Changes {
    /// Queues a change and calls `wake` so that the worker takes it. Waits up to `wait` until the change is applied;
    /// after that it is applied later.
    pub fn hand_over(&self, change: Change, wake: impl FnOnce(), wait: Duration) {
        let mut left = self.left();
        left.changes.push(change);
        left.count += 1;
        let own = left.count;
        wake();
        let _ = self.adopted.wait_timeout_while(left, wait, |left| left.adopted < own);
    }

    fn left(&self) -> MutexGuard<'_, LeftChanges> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Change> {
        std::mem::take(&mut self.left().changes)
    }

    /// Records that `count` changes have been applied.
    fn tell(&self, count: usize) {
        self.left().adopted += count as u64;
        self.adopted.notify_all();
    }
}

impl<N: Net> Worker<N> {
    /// Applies the pending changes, if there are any.
    pub(super) fn take_changes(&mut self) {
        let changes = Arc::clone(&self.responder.setup.changes);
        let taken = changes.take();
        let count = taken.len();
        if count > 0 {
            taken.into_iter().for_each(|change| self.adopt(change));
            changes.tell(count);
        }
    }

    fn adopt(&mut self, change: Change) {
        match change {
            Change::Settings(settings) => self.adopt_settings(*settings),
            Change::PredecessorEnded => {
                self.acceptor.on_predecessor_ended();
                for (address, error) in self.udp.hear(&self.responder.net) {
                    let said = format_args!("HTTP/3 is off at {address}: cannot wait for datagrams: {error}");
                    self.responder.service.journal.error(said);
                }
            }
        }
    }

    fn adopt_settings(&mut self, settings: NewSettings) {
        let NewSettings { limits, memory, client_rate, link } = settings;
        let with = &mut self.responder;
        let now = with.timers.now();
        with.service.admission.adopt(memory.connections_bytes, &limits);
        with.service.handler.set_cache_limits(memory.cache);
        ReaderSettings { patience: limits.patience, client_rate }.apply_to(&mut with.transmitter);
        self.udp.set_limits(&limits);
        with.proxy.set_limits(limits.request.into());
        with.limits = limits;
        if let Some(LinkChange { settings, order, is_direct }) = link {
            let is_reordered = settings.scheduler.order.is_some();
            settings.apply_to(now, &mut with.transmitter.link);
            if is_reordered {
                with.service.admission.introduce_again(&with.connections, with.transmitter.link.scheduler_mut());
            }
            (with.transmitter.order, with.transmitter.is_direct) = (order, is_direct);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The caller continues only when the change is in force.
    #[test]
    fn a_change_is_waited_for() {
        let changes = Arc::new(Changes::default());
        let worker = Arc::clone(&changes);
        let change = || Change::PredecessorEnded;
        changes.hand_over(change(), || (), Duration::ZERO);
        let wake = move || {
            std::thread::spawn(move || {
                let taken = worker.take();
                assert_eq!(taken.len(), 2, "with the one that was not waited for");
                // Taking a change does not adopt it yet.
                worker.adopted.notify_all();
                assert_eq!(worker.left().adopted, 0);
                worker.tell(taken.len());
            });
        };
        changes.hand_over(change(), wake, Duration::from_secs(60));
        assert!(changes.take().is_empty() && changes.left().adopted == 2);
    }
}
