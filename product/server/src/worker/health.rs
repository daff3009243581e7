//! Health checks of upstreams. Their requests take the path of all others, and end with the response head.

use std::sync::Arc;

use http::Status;

use super::proxy::Proxy;
use super::proxy_context::ProxyContext;
use crate::net::Net;
use crate::upstream::{Fault, Group, Step};

impl<N: Net> Proxy<N> {
    /// Sends the health checks that are due.
    pub(super) fn check(&mut self, with: &mut ProxyContext<N>) {
        let now = with.timers.now();
        self.upstreams.checks.watch(with.service.handler.groups());
        for transfer in self.upstreams.checks.due(now) {
            let group = Arc::clone(&transfer.group);
            match self.upstreams.begin(with.net, now, transfer) {
                Ok(transfer) => self.go_on_with(with, transfer),
                Err((fault, _)) => self.note_health(with, &group, Err(fault)),
            }
        }
    }

    /// Handles a step of a health check; what follows the response head is not used.
    pub(super) fn take_probe(&mut self, with: &mut ProxyContext<N>, transfer: usize, step: Step) {
        let result = match step {
            Step::Wait | Step::Interim(_) => return,
            Step::Head(head) => Ok(head.status),
            Step::Done | Step::Unwanted => Err(Fault::Closed),
            Step::Failed(fault) => Err(fault),
        };
        let group = self.upstreams.get(transfer).map(|transfer| Arc::clone(&transfer.group));
        self.upstreams.end(with.net, with.timers.now(), transfer, false);
        if let Some(group) = group {
            self.note_health(with, &group, result);
        }
    }

    fn note_health(&mut self, with: &mut ProxyContext<N>, group: &Group, result: Result<Status, Fault>) {
        let line = self.upstreams.checks.on_result(with.timers.now(), group, result);
        line.into_iter().for_each(|line| with.service.journal.error(line));
    }
}
