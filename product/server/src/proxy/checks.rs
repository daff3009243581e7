//! Health checks of upstreams. Their requests take the same path as all others, and end with the response head.

use std::sync::Arc;

use http::Status;
use units::Nanos;

use super::{Effect, Proxy};
use crate::net::Net;
use crate::upstream::{Fault, Group, Transfer, TransferStep};

impl<N: Net> Proxy<N> {
    /// Returns the health checks of these groups that are due, for [`Proxy::begin_check`].
    pub fn due_checks<'g>(&mut self, now: Nanos, groups: impl Iterator<Item = &'g Arc<Group>>) -> Vec<Transfer> {
        self.upstreams.checks.watch(groups);
        self.upstreams.checks.due(now)
    }

    pub fn begin_check(&mut self, net: &N, now: Nanos, check: Transfer) {
        let group = Arc::clone(&check.group);
        if let Err((fault, _)) = self.begin(net, now, check) {
            self.note_health(now, &group, Err(fault));
        }
    }

    /// Handles a step of a health check. Bytes after the response head are ignored.
    pub(super) fn end_check(&mut self, net: &N, now: Nanos, at: usize, step: TransferStep) {
        let result = match step {
            TransferStep::Wait | TransferStep::Interim(_) => return,
            TransferStep::Head(head) => Ok(head.status),
            TransferStep::Done | TransferStep::Unwanted => Err(Fault::Closed),
            TransferStep::Failed(fault) => Err(fault),
        };
        let group = self.upstreams.transfer(at).map(|transfer| Arc::clone(&transfer.group));
        self.upstreams.end(net, now, at, false);
        if let Some(group) = group {
            self.note_health(now, &group, result);
        }
    }

    fn note_health(&mut self, now: Nanos, group: &Group, result: Result<Status, Fault>) {
        let line = self.upstreams.checks.on_result(now, group, result);
        self.effects.extend(line.map(Effect::Note));
    }
}
