//! Outages of applications, and the health checks by which the server detects them. An application that the server must
//! know to be down must not receive a request.

use units::Nanos;

use super::plan::UpstreamPlan;
use super::random::Random;
use super::world::BEGINS_AT;

/// The path of health checks.
pub const HEALTH: &str = "/up";
/// The maximum number of applications.
const ENDPOINTS: usize = 3;
/// The time that the server has to detect an outage: it checks once a second, and a request may have been on its way
/// when it did.
const SLACK: Nanos = Nanos::from_secs(5);
/// The number of equal results that change the state.
const RESULTS: u64 = 2;

/// The settings of health checks, and the outages of applications.
#[derive(Debug, Clone, Copy)]
pub struct HealthPlan {
    pub every: Nanos,
    pub slow_start: Nanos,
    /// The outage of each endpoint, if it has one.
    outages: [Option<Outage>; ENDPOINTS],
}

#[derive(Debug, Clone, Copy)]
struct Outage {
    from: Nanos,
    to: Nanos,
    kind: OutageKind,
}

/// The kinds of outage. Other requests than health checks are answered as usual, unless connections are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageKind {
    /// The health check reports an error.
    Error,
    /// A health check gets no response.
    Silence,
    /// The application refuses connections.
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

    /// The outage of an application at this time, if it has one.
    pub fn outage(&self, endpoint: usize, now: Nanos) -> Option<OutageKind> {
        let outage = self.outages[endpoint].filter(|outage| (outage.from..outage.to).contains(&now));
        outage.map(|outage| outage.kind)
    }

    /// Returns true if the server must have detected that the application is down, and must have ended all requests to
    /// it.
    pub fn is_known_down(&self, endpoint: usize, now: Nanos, plan: &UpstreamPlan) -> bool {
        // A silent application has the connect timeout twice: for the connection, and for its first byte.
        let found_after = RESULTS * (self.every.0 + 2 * plan.connect_timeout.0);
        // A request may have waited for a place.
        let waits = if plan.has_queue() { plan.read_timeout.0 } else { 0 };
        let known_after = Nanos(found_after + waits) + SLACK;
        self.outages[endpoint].is_some_and(|outage| (outage.from + known_after..outage.to).contains(&now))
    }

    /// The application's response to a request for [`HEALTH`].
    pub fn says(&self, endpoint: usize, now: Nanos) -> &'static [u8] {
        match self.outage(endpoint, now) {
            Some(OutageKind::Error) => b"HTTP/1.1 503 Down\r\nContent-Length: 4\r\n\r\ndown",
            Some(OutageKind::Silence) => b"",
            // For a connection that was already open.
            Some(OutageKind::Refusal) => b"HTTP/1.1 500 Down\r\nTransfer-Encoding: chunked\r\n\r\n",
            None => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup",
        }
    }
}
