//! What is learned of upstreams: the sizes of their responses, and how long they take to make them.

use sched::routes::{Routes, ServiceTimes};
use units::Nanos;

use super::Transfer;
use crate::objectives::{ROUTES_TOLD_MAX, RouteStatus, RoutesStatus};

#[derive(Debug, Default)]
pub struct Learned {
    pub routes: Routes,
    pub services: ServiceTimes,
}

impl Learned {
    /// A transfer has ended, with its whole response or without.
    pub fn note(&mut self, transfer: &Transfer, now: Nanos, is_whole: bool) {
        match transfer.route {
            Some(route) if is_whole => drop(self.routes.note(route, transfer.body_bytes())),
            Some(route) => self.routes.note_censored(route, transfer.body_bytes()),
            None => {}
        }
        if let Some((route, took)) = transfer.service(now).filter(|_| is_whole) {
            self.services.note(route, took);
        }
    }

    /// For an operator.
    pub fn status(&self) -> RoutesStatus {
        let rows = self.routes.top_rows(ROUTES_TOLD_MAX);
        let top = rows.into_iter().map(|row| RouteStatus { service: self.services.known(row.service), sizes: row });
        RoutesStatus { top: top.collect(), count: self.routes.len() }
    }
}
