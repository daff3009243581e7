//! What is learned about upstreams: the sizes of their responses, and the time in which they produce them.

use std::sync::Arc;

use sched::routes::{Curve, RouteKey, Routes, Row, ServiceTimes};
use units::Nanos;

use super::{Transfer, Upstreams};
use crate::body::Tally;
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
    /// The sizes of the route's responses.
    pub sizes: Row,
    /// The mean duration of the route's requests; `None` while too little is known.
    pub service: Option<Nanos>,
}

/// The maximum number of routes in one status, whose JSON then stays below 128 KB.
pub const ROUTES_TOLD_MAX: usize = 256;

/// The maximum number of responses that are tracked while they are being compressed. If there are more, they belong to
/// few routes anyway.
const CODED_MAX: usize = 1024;

/// The predicted size of a response of a route, if enough is known.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Prediction {
    pub median_bytes: Option<u64>,
    /// The quantile of the actual size, from 0 to 1.
    pub quantile: Option<f64>,
}

/// A response that is compressed while it is sent.
#[derive(Debug)]
pub struct CodedBody {
    /// The length that the upstream announced.
    pub length: Option<u64>,
    pub tally: Arc<Tally>,
}

impl<N: Net> Upstreams<N> {
    /// The distribution of the sizes of similar responses, for a response of unknown size.
    pub fn curve(&mut self, at: usize, coded: Option<&CodedBody>) -> Option<Arc<Curve>> {
        let route = self.transfers.get(at)?.route?;
        match coded {
            Some(coded) => self.learned.routes.coded_curve(route, coded.length),
            None => self.learned.routes.curve(route),
        }
    }

    /// Registers a response that is compressed while it is sent, to learn from it at its end.
    pub fn learn_from(&mut self, at: usize, coded: CodedBody) {
        let route = self.transfers.get(at).and_then(|transfer| transfer.route);
        route.into_iter().for_each(|route| self.learned.begin_coded(route, coded.tally.clone()));
    }

    /// The prediction for the response to a transfer; for a complete response, also the quantile of its size.
    pub fn prediction(&self, at: usize, is_whole: bool) -> Prediction {
        let route = self.transfers.get(at).and_then(|transfer| transfer.route);
        let median_bytes = route.and_then(|route| self.learned.routes.quantile(route, 0.5));
        Prediction { median_bytes, quantile: self.quantile(at, is_whole) }
    }

    /// The quantile of the size of the complete response to a transfer.
    pub fn quantile(&self, at: usize, is_whole: bool) -> Option<f64> {
        let transfer = self.transfers.get(at).filter(|_| is_whole)?;
        self.learned.routes.share_below(transfer.route?, transfer.body_bytes())
    }
}

#[derive(Debug, Default)]
pub struct Learned {
    pub routes: Routes,
    pub services: ServiceTimes,
    /// The responses that are being compressed, with their routes.
    coded: Vec<(RouteKey, Arc<Tally>)>,
}

impl Learned {
    /// Learns from a transfer that has ended, with or without a complete response. Returns the quantile of a complete
    /// response's size in the distribution known before.
    pub fn note(&mut self, transfer: &Transfer, now: Nanos, is_whole: bool) -> Option<f64> {
        if let Some((route, took)) = transfer.service(now).filter(|_| is_whole) {
            self.services.note(route, took);
        }
        let (route, bytes) = (transfer.route?, transfer.body_bytes());
        if is_whole {
            return self.routes.note(route, bytes);
        }
        self.routes.note_censored(route, bytes);
        None
    }

    /// Registers a response that is being compressed, so that its ratio is learned at its end, unless too many are
    /// registered.
    fn begin_coded(&mut self, route: RouteKey, tally: Arc<Tally>) {
        if self.coded.len() < CODED_MAX {
            self.coded.push((route, tally));
        }
    }

    /// Learns from the compressed responses that have ended since the last call. Ignores responses that were cut off.
    pub fn learn_ratios(&mut self) {
        let routes = &mut self.routes;
        self.coded.retain(|(route, tally)| match tally.whole() {
            Some((taken_bytes, given_bytes)) => {
                routes.note_coded(*route, taken_bytes, given_bytes);
                false
            }
            None => Arc::strong_count(tally) > 1,
        });
    }

    /// The status for an operator.
    pub fn status(&self) -> RoutesStatus {
        let rows = self.routes.top_rows(ROUTES_TOLD_MAX);
        let top = rows.into_iter().map(|row| RouteStatus { service: self.services.known(row.service), sizes: row });
        RoutesStatus { top: top.collect(), count: self.routes.len() }
    }
}

#[cfg(test)]
mod tests {
    use sched::routes::{RATIOS_MIN, Route};

    use super::*;

    #[test]
    fn a_ratio_is_learned_at_the_end_and_bodies_that_are_gone_are_forgotten() {
        let mut learned = Learned::default();
        let route = learned.routes.enter(&Route { site: b"a", method: b"GET", path: b"/x", ..Route::default() });
        for _ in 0..RATIOS_MIN {
            learned.begin_coded(route, Arc::new(Tally::of(1_000, 250)));
        }
        let [under_way, gone] = [Arc::<Tally>::default(), Arc::default()];
        learned.begin_coded(route, Arc::clone(&under_way));
        learned.begin_coded(route, gone);
        assert_eq!(learned.routes.coded_curve(route, Some(4_000)), None);
        learned.learn_ratios();
        assert_eq!(learned.routes.coded_curve(route, Some(4_000)).unwrap().rank(0), 1_000);
        assert_eq!(learned.coded.len(), 1, "the one that is under way");
        (0..2 * CODED_MAX).for_each(|_| learned.begin_coded(route, Arc::clone(&under_way)));
        assert_eq!(learned.coded.len(), CODED_MAX);
        drop(under_way);
        learned.coded.truncate(1);
        learned.learn_ratios();
        assert!(learned.coded.is_empty());
    }
}
