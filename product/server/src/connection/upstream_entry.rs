//! The part of an access log line about the upstream that answered the request.

use std::sync::Arc;

use units::Nanos;

use crate::logging::{PassedOn, SizeFrom};
use crate::upstream::{Attempt, Prediction};

/// Data about the upstream, kept with the log entry of a response.
#[derive(Debug)]
pub struct UpstreamEntry {
    pub upstream: Arc<str>,
    /// The time at which enough of the request had arrived to queue it.
    queued_at: Nanos,
    attempt: Attempt,
    /// The time at which the response was ready to be sent.
    answered_at: Option<Nanos>,
    size_from: Option<SizeFrom>,
    prediction: Prediction,
    /// The bytes of the response that were written to a spool file.
    pub spooled_bytes: u64,
}

impl UpstreamEntry {
    /// Creates the record of a request that was sent to this upstream, or has waited for it since `queued_at`.
    pub fn new(upstream: Arc<str>, queued_at: Nanos, attempt: Attempt) -> UpstreamEntry {
        let (answered_at, size_from, prediction) = (None, None, Prediction::default());
        UpstreamEntry { upstream, queued_at, attempt, answered_at, size_from, prediction, spooled_bytes: 0 }
    }

    /// Records that the response has arrived, or enough of it to start sending.
    pub fn answered(self, now: Nanos, size_from: Option<SizeFrom>, prediction: Prediction) -> UpstreamEntry {
        UpstreamEntry { answered_at: Some(now), size_from, prediction, ..self }
    }

    /// Records where the final size is in the predicted distribution, as a quantile.
    pub fn measure(&mut self, quantile: Option<f64>) {
        self.prediction.quantile = self.prediction.quantile.or(quantile);
    }

    /// Records that the size is known only from similar responses, or unknown.
    pub fn guess_size(&mut self, is_learned: bool) {
        self.size_from.get_or_insert(if is_learned { SizeFrom::Learned } else { SizeFrom::Nothing });
    }

    /// Removes the size that the upstream's head announced, because the body is compressed while it is sent.
    pub fn lose_size(&mut self) {
        self.size_from = None;
    }

    /// Returns this part of the log line, for a request that arrived at `arrived_at` and whose response began to be
    /// sent `first_byte` later.
    pub fn view(&self, arrived_at: Nanos, first_byte: Option<Nanos>) -> PassedOn<'_> {
        let Attempt { begun_at, connected_at, first_byte_at, .. } = self.attempt;
        let since = |from: Option<Nanos>, to: Option<Nanos>| from.zip(to).map(|(from, to)| to - from);
        PassedOn {
            upstream: &self.upstream,
            queue: since(Some(self.queued_at), begun_at),
            connect: since(begun_at, connected_at),
            first_byte: since(begun_at, first_byte_at),
            link: since(self.answered_at, first_byte.map(|after| arrived_at + after)),
            size_from: self.size_from,
            predicted_bytes: self.prediction.median_bytes,
            quantile: self.prediction.quantile,
            spooled_bytes: self.spooled_bytes,
        }
    }
}
