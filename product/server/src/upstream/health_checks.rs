//! Health checks of upstreams: a request to each every few seconds. An upstream that cannot be reached, does not answer
//! or answers with an error gets no requests until it is healthy again. Then its share of the requests grows gradually,
//! so that its caches and connections can fill.
//!
//! Each event loop makes its own checks. Two equal results in a row change the state, so that a single lost request
//! changes nothing; HAProxy and nginx use two or three.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use http::gateway::RequestHead;
use http::{BodyLength, Method, Status};
use units::Nanos;
use units::memory::Account;

use super::{Announced, ClientConnection, Endpoint, EndpointAddress, Fault, Group, Head, HealthCheck, Transfer};
use crate::exchange_id::ExchangeId;

/// The number of consecutive equal results that change the state of an upstream.
const RESULTS: u8 = 2;
/// The share of an upstream that has just become healthy again, in thousandths.
const SHARE_PERMILLE_MIN: u64 = 100;

/// The checked upstreams, by address. If several proxies have the same upstream, the health check of the first proxy
/// applies.
#[derive(Debug, Default)]
pub struct Checks {
    by_endpoint: HashMap<Endpoint, Checked>,
    /// The number of the last check.
    count: u32,
    /// The number of the next upstream to be added.
    number: u64,
}

#[derive(Debug)]
struct Checked {
    /// The number of the upstream; upstreams are checked in the order in which they were added.
    number: u64,
    check: HealthCheck,
    /// A group that contains only this upstream.
    group: Arc<Group>,
    health: Health,
    is_wanted: bool,
}

#[derive(Debug, Default)]
struct Health {
    is_asked: bool,
    due_at: Nanos,
    is_down: bool,
    /// The number of successive results that contradict the state.
    contrary: u8,
    /// The time at which the upstream became healthy again.
    up_at: Option<Nanos>,
}

impl Checks {
    /// Checks the upstreams of these groups from now on, and drops the state of all others.
    pub fn watch<'g>(&mut self, groups: impl Iterator<Item = &'g Arc<Group>>) {
        self.by_endpoint.values_mut().for_each(|checked| checked.is_wanted = false);
        for group in groups {
            let Some(check) = &group.health else { continue };
            for endpoint in group.endpoints().iter() {
                let number = self.number;
                self.number += 1;
                let new = || Checked::new(number, group, endpoint);
                let checked = self.by_endpoint.entry(endpoint.clone()).or_insert_with(new);
                if !checked.is_wanted && checked.check != *check {
                    *checked = new();
                }
                checked.is_wanted = true;
            }
        }
        self.by_endpoint.retain(|_, checked| checked.is_wanted);
    }

    /// Returns the requests of the checks that are due.
    pub fn due(&mut self, now: Nanos) -> Vec<Transfer> {
        let mut due: Vec<_> = self.by_endpoint.values_mut().filter(|checked| checked.health.is_due(now)).collect();
        due.sort_by_key(|checked| checked.number);
        let mut requests = Vec::with_capacity(due.len());
        for checked in due {
            checked.health.is_asked = true;
            self.count = self.count.wrapping_add(1);
            requests.push(checked.request(ExchangeId::of_check(self.count)));
        }
        requests
    }

    /// Records the result of a check. Returns a line for the log if the result changes the state of the upstream.
    pub fn on_result(&mut self, now: Nanos, group: &Group, result: Result<Status, Fault>) -> Option<String> {
        let endpoints = group.endpoints();
        let endpoint = endpoints.first()?;
        let checked = self.by_endpoint.get_mut(endpoint)?;
        let why = match &result {
            Ok(Status(200..=399)) => None,
            Ok(status) => Some(format!("status {}", status.0)),
            Err(fault) => Some(fault.to_string()),
        };
        let changes = checked.health.on_result(now, checked.check.every, why.is_none());
        changes.then(|| line(endpoint, why))
    }

    pub fn is_down(&self, endpoint: &Endpoint) -> bool {
        self.by_endpoint.get(endpoint).is_some_and(|checked| checked.health.is_down)
    }

    /// The current share of an upstream in the requests, in thousandths.
    pub fn share_permille(&self, now: Nanos, endpoint: &Endpoint) -> u64 {
        let share = |checked: &Checked| checked.health.share_permille(now, checked.check.slow_start);
        self.by_endpoint.get(endpoint).map_or(1000, share)
    }
}

fn line(endpoint: impl Display, why: Option<String>) -> String {
    match why {
        Some(why) => format!("upstream {endpoint} is down: {why}"),
        None => format!("upstream {endpoint} is up again"),
    }
}

impl Checked {
    fn new(number: u64, group: &Arc<Group>, endpoint: &Endpoint) -> Checked {
        let check = group.health.clone().expect("it is checked");
        let group = Arc::new(group.probing(endpoint));
        Checked { number, check, group, health: Health::default(), is_wanted: true }
    }

    fn request(&self, exchange: ExchangeId) -> Transfer {
        let group = &self.group;
        let endpoint = &group.endpoints()[0];
        let host = match (&group.host, &endpoint.address) {
            (Some(host), _) => host.clone(),
            (None, EndpointAddress::Tcp(address)) => address.to_string(),
            (None, EndpointAddress::Unix(_)) => "localhost".into(),
            (None, EndpointAddress::Tls(to)) => to.name.clone(),
        };
        let path = &self.check.path;
        let head = match group.is_http2() {
            true => Head::Fields(RequestHead::of_get(group.scheme, &host, path)),
            false => format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: weir\r\n\r\n").into_bytes().into(),
        };
        let account = Account::default();
        let mut client = ClientConnection::new(&account);
        if group.tells_client {
            client.announced = Announced::Ourselves;
        }
        Transfer::new(exchange, Arc::clone(group), Method::Get, head, BodyLength::None, &account, client)
    }
}

impl Health {
    fn is_due(&self, now: Nanos) -> bool {
        !self.is_asked && now >= self.due_at
    }

    /// Records a result. Returns true if the state has changed.
    fn on_result(&mut self, now: Nanos, every: Nanos, is_well: bool) -> bool {
        (self.is_asked, self.due_at) = (false, now + every);
        self.contrary = if is_well == self.is_down { self.contrary + 1 } else { 0 };
        if self.contrary < RESULTS {
            return false;
        }
        (self.is_down, self.contrary, self.up_at) = (!is_well, 0, is_well.then_some(now));
        true
    }

    fn share_permille(&self, now: Nanos, slow_start: Nanos) -> u64 {
        let since = self.up_at.map_or(slow_start, |up_at| now - up_at);
        if since >= slow_start {
            return 1000;
        }
        (1000 * since.0 / slow_start.0).max(SHARE_PERMILLE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use config::{Proxy, UpstreamAddress};

    use super::*;
    use crate::disk::Room;

    const S: fn(u64) -> Nanos = Nanos::from_secs;

    fn group(to: &[&str], path: &str) -> Arc<Group> {
        let to = to.iter().map(|text| UpstreamAddress::new(text).unwrap()).collect();
        let group =
            Group::new("a", &Proxy::of_all(to), &Room::new(1), &|_| unreachable!(), &Default::default()).unwrap();
        let health = Some(HealthCheck { path: path.into(), every: S(5), slow_start: S(10) });
        Arc::new(Group { health, ..group })
    }

    #[test]
    fn two_results_make_a_change_and_a_share_grows() {
        let mut health = Health::default();
        let mut said = Vec::new();
        for (at, is_well) in [(0, true), (5, false), (10, true), (15, false), (20, false), (25, true), (30, false)] {
            assert!(health.is_due(S(at)));
            health.is_asked = true;
            assert!(!health.is_due(S(at + 100)), "one at a time");
            said.push(health.on_result(S(at), S(5), is_well));
            assert!(!health.is_due(S(at + 4)));
        }
        assert_eq!((said, health.is_down), (vec![false, false, false, false, true, false, false], true));
        assert!(!health.on_result(S(35), S(5), true) && health.on_result(S(40), S(5), true) && !health.is_down);
        let shares = [40, 41, 45, 50, 1000].map(|at| health.share_permille(S(at), S(10)));
        assert_eq!(shares, [100, 100, 500, 1000, 1000]);
        assert_eq!(health.share_permille(S(40), S(0)), 1000, "off");
        assert_eq!(Health::default().share_permille(S(0), S(10)), 1000, "one that was never down");
    }

    #[test]
    fn an_upstream_is_asked_and_what_came_of_it_is_told_once() {
        let mut checks = Checks::default();
        let (two, one) = (group(&[":1", ":2"], "/up"), group(&[":2"], "/other"));
        checks.watch([&two, &one].into_iter());
        let due = checks.due(S(0));
        let names: Vec<ExchangeId> = due.iter().map(|transfer| transfer.exchange).collect();
        assert!(due.len() == 2 && names[0] != names[1] && due.iter().all(Transfer::is_probe), "{names:?}");
        assert!(checks.due(S(100)).is_empty(), "they are under way");
        let first = two.endpoints()[0].clone();
        let probe = |checks: &mut Checks, at: u64, status| {
            let group = Arc::clone(&checks.by_endpoint[&first].group);
            checks.on_result(S(at), &group, status)
        };
        assert_eq!(probe(&mut checks, 1, Ok(Status(302))), None);
        assert_eq!(probe(&mut checks, 2, Err(Fault::Closed)), None);
        let said = probe(&mut checks, 3, Ok(Status(500)));
        assert_eq!(said.as_deref(), Some("upstream 127.0.0.1:1 is down: status 500"));
        assert!(checks.is_down(&first) && !checks.is_down(&two.endpoints()[1]));
        assert_eq!(probe(&mut checks, 4, Err(Fault::Closed)), None, "it was told");
        probe(&mut checks, 5, Ok(Status(204)));
        assert_eq!(probe(&mut checks, 6, Ok(Status(204))).as_deref(), Some("upstream 127.0.0.1:1 is up again"));
        assert_eq!([6, 11, 16].map(|at| checks.share_permille(S(at), &first)), [100, 500, 1000]);
    }

    #[test]
    fn what_is_not_in_force_is_forgotten_and_another_question_begins_anew() {
        let mut checks = Checks::default();
        let before = group(&[":1"], "/up");
        checks.watch([&before].into_iter());
        checks.due(S(0));
        for at in 0..2 {
            checks.on_result(S(at), &before, Err(Fault::Closed));
        }
        checks.watch([&before].into_iter());
        assert!(checks.is_down(&before.endpoints()[0]), "as before");
        checks.watch([&group(&[":1"], "/other")].into_iter());
        assert!(!checks.is_down(&before.endpoints()[0]) && checks.due(S(1)).len() == 1);
        let plain = Arc::new(before.probing(&before.endpoints()[0]));
        checks.watch([&plain].into_iter());
        assert!(checks.by_endpoint.is_empty() && checks.due(S(9)).is_empty());
    }
}
