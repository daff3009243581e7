//! Applications that are not well for a while, and the requests by which the server finds that out. One that it must know to be down is asked for
//! nothing.

use units::Nanos;

use super::plan::UpstreamPlan;
use super::random::Random;
use super::world::BEGINS_AT;

/// What applications are asked to tell how they are.
pub const HEALTH: &str = "/up";
/// Most applications.
const ENDPOINTS: usize = 3;
/// The server looks once a second, and a request may have been on its way when that was found out.
const SLACK: Nanos = Nanos::from_secs(5);
/// Results that make a change.
const RESULTS: u64 = 2;

/// How the server asks, and when applications are not well.
#[derive(Debug, Clone, Copy)]
pub struct HealthPlan {
    pub every: Nanos,
    pub slow_start: Nanos,
    /// By endpoint.
    outages: [Option<Outage>; ENDPOINTS],
}

#[derive(Debug, Clone, Copy)]
struct Outage {
    from: Nanos,
    to: Nanos,
    kind: OutageKind,
}

/// Other requests are answered as ever, but for connections that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageKind {
    /// It says so.
    Error,
    /// It does not say how it is.
    Silence,
    /// It takes no connections.
    Refusal,
}

impl HealthPlan {
    pub fn of(random: &mut Random) -> HealthPlan {
        let has_outages = random.once_in(2);
        let mut outage = || {
            let from = BEGINS_AT + random.micros(1, 40_000_000);
            let to = from + random.micros(1_000_000, 200_000_000);
            let kind = random.one_of(&[OutageKind::Error, OutageKind::Silence, OutageKind::Refusal]);
            (has_outages && random.once_in(2)).then_some(Outage { from, to, kind })
        };
        let outages = std::array::from_fn(|_| outage());
        HealthPlan {
            every: Nanos::from_secs(random.between(1, 3)),
            slow_start: random.one_of(&[Nanos::ZERO, Nanos::from_secs(10)]),
            outages,
        }
    }

    pub fn has_outages(&self) -> bool {
        self.outages.iter().any(Option::is_some)
    }

    /// What an application has now.
    pub fn outage(&self, endpoint: usize, now: Nanos) -> Option<OutageKind> {
        let outage = self.outages[endpoint].filter(|outage| (outage.from..outage.to).contains(&now));
        outage.map(|outage| outage.kind)
    }

    /// The server must know that an application is down, and have no request for it left.
    pub fn is_known_down(&self, endpoint: usize, now: Nanos, plan: &UpstreamPlan) -> bool {
        // One that is silent has the time to connect twice: for that, and for its first byte.
        let found_after = RESULTS * (self.every.0 + 2 * plan.connect_timeout.0);
        // A request may have waited for a place.
        let waits = if plan.has_queue() { plan.read_timeout.0 } else { 0 };
        let known_after = Nanos(found_after + waits) + SLACK;
        self.outages[endpoint].is_some_and(|outage| (outage.from + known_after..outage.to).contains(&now))
    }

    /// What an application says to the request for [`HEALTH`].
    pub fn says(&self, endpoint: usize, now: Nanos) -> &'static [u8] {
        match self.outage(endpoint, now) {
            Some(OutageKind::Error) => b"HTTP/1.1 503 Down\r\nContent-Length: 4\r\n\r\ndown",
            Some(OutageKind::Silence) => b"",
            // One that has the connection already.
            Some(OutageKind::Refusal) => b"HTTP/1.1 500 Down\r\nTransfer-Encoding: chunked\r\n\r\n",
            None => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup",
        }
    }
}
