//! Queries to a running server about its event loops, sites and connections.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::{STATUS_WAIT_MAX, Server};
use crate::clock;
use crate::objectives::{ClientStatus, Question, ResponsesStatus, Status, StatusChannel};
use crate::upstream::UpstreamStatus;

impl Server {
    /// Asks the first event loop; with a single order of responses it is the only one. Returns `None` if the loop does
    /// not answer in time.
    pub fn ask<T>(&self, question: impl FnOnce(&StatusChannel) -> &Question<T>) -> Option<T> {
        question(&self.status_channels[0]).ask(|| self.loops.wake_first(), STATUS_WAIT_MAX)
    }

    /// Returns the classes of the class file as the first event loop counts them, and the metrics of all loops. `None`
    /// if a loop does not answer in time.
    pub fn status(&self) -> Option<Status> {
        let mut status = self.ask(|channel| &channel.status)?;
        for (channel, wake) in self.status_channels.iter().zip(&self.loops.wakes).skip(1) {
            let other = channel.status.ask(|| wake.set(), STATUS_WAIT_MAX)?;
            if let (Some(metrics), Some(theirs)) = (&mut status.metrics, &other.metrics) {
                metrics.add(theirs);
            }
        }
        Some(status)
    }

    /// Returns the number of open connections, including HTTP/3.
    pub fn connections(&self) -> usize {
        self.places.taken()
    }

    /// Returns the sites that have a certificate, each with its expiry. Automatic certificates are listed by host.
    pub fn certificates(&self) -> Vec<(String, SystemTime)> {
        let served = self.current.served();
        let own = served.certificates().map(|(site, end)| (site.to_string(), end));
        let ordered = self.current.renewer().map(|renewer| renewer.expiries()).unwrap_or_default();
        own.chain(ordered.into_iter().filter_map(|(name, end)| Some((name, end?)))).collect()
    }

    /// Returns the state of the certificates by ACME.
    pub fn ordered_certificates(&self) -> Vec<acme::HostStatus> {
        self.current.renewer().map(acme::Renewer::status).unwrap_or_default()
    }

    /// Returns true if the server was started with automatic certificates.
    pub fn orders_certificates(&self) -> bool {
        self.current.renewer().is_some()
    }

    /// Returns the upstreams of all sites. An upstream counts as healthy unless an event loop has found otherwise.
    /// `None` if an event loop does not answer in time.
    pub fn upstreams(&self) -> Option<Vec<UpstreamStatus>> {
        let mut all: BTreeMap<String, UpstreamStatus> = BTreeMap::new();
        for (channel, wake) in self.status_channels.iter().zip(&self.loops.wakes) {
            for upstream in channel.upstreams.ask(|| wake.set(), STATUS_WAIT_MAX)? {
                let known = all.entry(upstream.name.clone()).or_insert_with(|| upstream.clone());
                known.is_healthy &= upstream.is_healthy;
                known.requests = known.requests.max(upstream.requests);
            }
        }
        Some(all.into_values().collect())
    }

    /// Returns the responses in progress in all event loops. `None` if a loop does not answer in time.
    pub fn responses(&self) -> Option<ResponsesStatus> {
        let mut all = ResponsesStatus::default();
        for (channel, wake) in self.status_channels.iter().zip(&self.loops.wakes) {
            all.add(channel.responses.ask(|| wake.set(), STATUS_WAIT_MAX)?);
        }
        Some(all)
    }

    /// Returns the clients with the most bytes sent recently. `responses` are the responses in progress.
    pub fn busiest(&self, responses: &ResponsesStatus) -> Vec<ClientStatus> {
        let of = |client| responses.by_client.get(&client).copied().unwrap_or(0);
        let busiest = self.clients.busiest_with(clock::now(), of).into_iter();
        let status = busiest.map(|busy| ClientStatus {
            prefix: self.clients.show(&busy),
            connections: busy.connections,
            responses: of(busy.client.index),
            bytes_lately: busy.bytes,
            refusals: busy.refusals,
        });
        status.collect()
    }
}
