//! What is learned of upstreams: the sizes of their responses, and how long they take to make them.

use std::sync::Arc;

use sched::routes::{Curve, Routes, Row, ServiceTimes};
use units::Nanos;

use super::{Transfer, Upstreams};
use crate::net::Net;

/// What is known of the responses of upstreams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutesStatus {
    /// Those with the most samples, at most [`ROUTES_TOLD_MAX`], the most first.
    pub top: Vec<RouteStatus>,
    /// How many are known in all.
    pub count: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteStatus {
    /// Sizes of its responses.
    pub sizes: Row,
    /// How long its requests took, the mean; `None` while too little is known.
    pub service: Option<Nanos>,
}

/// Routes in one answer, which is below 128 KB as JSON.
pub const ROUTES_TOLD_MAX: usize = 256;

/// What a route says of the size of a response, where enough is known.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Prediction {
    pub median_bytes: Option<u64>,
    /// Of the size that came, from 0 to 1.
    pub quantile: Option<f64>,
}

impl<N: Net> Upstreams<N> {
    /// What the sizes of like responses say of one whose size is not known.
    pub fn curve(&mut self, at: usize) -> Option<Arc<Curve>> {
        self.learned.routes.curve(self.transfers.get(at)?.route?)
    }

    /// What is predicted of the response to a transfer; of one that is whole also where in that it lies.
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

    /// What is predicted of a response, the median, and where in that its size lies.
    fn prediction(&self, transfer: &Transfer, bytes: Option<u64>) -> Prediction {
        let Some(route) = transfer.route else { return Prediction::default() };
        let quantile = bytes.and_then(|bytes| self.routes.share_below(route, bytes));
        Prediction { median_bytes: self.routes.quantile(route, 0.5), quantile }
    }

    /// For an operator.
    pub fn status(&self) -> RoutesStatus {
        let rows = self.routes.top_rows(ROUTES_TOLD_MAX);
        let top = rows.into_iter().map(|row| RouteStatus { service: self.services.known(row.service), sizes: row });
        RoutesStatus { top: top.collect(), count: self.routes.len() }
    }
}
