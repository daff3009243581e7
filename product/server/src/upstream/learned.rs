//! Knowledge about upstreams: the sizes of their responses, and how long they take to make them.

use std::sync::Arc;

use sched::routes::{Curve, Routes, Row, ServiceTimes};
use units::Nanos;

use super::{Transfer, Upstreams};
use crate::net::Net;

/// The knowledge about the responses of upstreams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutesStatus {
    /// The routes with the most samples, in descending order, at most [`ROUTES_TOLD_MAX`].
    pub top: Vec<RouteStatus>,
    /// The number of known routes.
    pub count: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteStatus {
    /// The sizes of its responses.
    pub sizes: Row,
    /// The mean duration of its requests; `None` while too little is known.
    pub service: Option<Nanos>,
}

/// The maximum number of routes in one status, which then stays below 128 KB as JSON.
pub const ROUTES_TOLD_MAX: usize = 256;

/// The prediction of a route for the size of a response, if enough is known.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Prediction {
    pub median_bytes: Option<u64>,
    /// The quantile of the actual size, from 0 to 1.
    pub quantile: Option<f64>,
}

impl<N: Net> Upstreams<N> {
    /// The distribution of sizes of similar responses, for one whose size is not known.
    pub fn curve(&mut self, at: usize) -> Option<Arc<Curve>> {
        self.learned.routes.curve(self.transfers.get(at)?.route?)
    }

    /// The prediction for the response to a transfer, for a complete one with the quantile of its size.
    pub fn prediction(&self, at: usize, is_whole: bool) -> Prediction {
        let transfer = self.transfers.get(at);
        let bytes = transfer.filter(|_| is_whole).map(Transfer::body_bytes);
        transfer.map_or_else(Prediction::default, |transfer| self.learned.prediction(transfer, bytes))
    }
}

#[derive(Debug, Default)]
pub struct Learned {
    pub routes: Routes,
    pub services: ServiceTimes,
}

impl Learned {
    /// Learns from a transfer that has ended, with its complete response or without.
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

    /// The prediction for a response: the median, and the quantile of its size.
    fn prediction(&self, transfer: &Transfer, bytes: Option<u64>) -> Prediction {
        let Some(route) = transfer.route else { return Prediction::default() };
        let quantile = bytes.and_then(|bytes| self.routes.share_below(route, bytes));
        Prediction { median_bytes: self.routes.quantile(route, 0.5), quantile }
    }

    /// The status for an operator.
    pub fn status(&self) -> RoutesStatus {
        let rows = self.routes.top_rows(ROUTES_TOLD_MAX);
        let top = rows.into_iter().map(|row| RouteStatus { service: self.services.known(row.service), sizes: row });
        RoutesStatus { top: top.collect(), count: self.routes.len() }
    }
}
