//! New settings for a write path in use. They apply from the next grant on.

use std::sync::Arc;

use sched::line::Bounds;
use sched::{Pace, Settings};
use units::Nanos;

use super::line_feedback::Observer;
use super::{Gauge, Link, Transmitter};
use crate::clients::ClientRate;
use crate::limits::Patience;

/// Settings of the link that an operator may change. They cannot change whether the link is paced.
pub struct LinkSettings {
    pub scheduler: Settings,
    /// The settings of the line; `None` to continue the search for the rate with the current estimate.
    pub line: Option<LineSettings>,
}

/// New facts about the line.
pub struct LineSettings {
    pub bounds: Option<Bounds>,
    pub gauge: Option<Gauge>,
}

impl LinkSettings {
    /// Applies the settings. There must be no outstanding grant.
    pub fn apply_to(self, now: Nanos, link: &mut Link) {
        if let Some(LineSettings { bounds, gauge }) = self.line {
            link.observer = bounds.map(Observer::new);
            link.gauge = gauge;
            return self.scheduler.apply_to(now, &mut link.scheduler);
        }
        // Grants get their initial length again. Responses that overtook each other may have shortened it.
        let Pace { cross_permille, grant_for, .. } = self.scheduler.pace;
        let pace = Pace { cross_permille, grant_for, ..*link.scheduler.pacer().pace() };
        Settings { pace, ..self.scheduler }.apply_to(now, &mut link.scheduler);
    }
}

/// Limits of clients: the minimum rate of a reader, and the maximum rate of one client, which is `None` if unlimited.
pub struct ReaderSettings {
    pub patience: Patience,
    pub client_rate: Option<Arc<dyn ClientRate>>,
}

impl ReaderSettings {
    pub fn apply_to(self, transmitter: &mut Transmitter) {
        transmitter.patience = self.patience;
        transmitter.limit.set_rate(self.client_rate);
    }
}

#[cfg(test)]
mod tests {
    use sched::{Scheduler, policy::PolicySpec};

    use super::*;

    /// Shortened grants once stayed short until the rate was set again.
    #[test]
    fn another_order_begins_with_whole_grants_and_keeps_the_rate() {
        let policy: PolicySpec = "srpt".parse().unwrap();
        let rate = "10mbit".parse().ok();
        let short = Pace { rate, grant_for: Nanos::from_micros(125), ..Pace::UNLIMITED };
        let mut link = Link::new(Scheduler::new(policy.build(), short), None);
        let pace = Pace { cross_permille: 300, ..Pace::UNLIMITED };
        LinkSettings { scheduler: Settings { order: None, pace }, line: None }.apply_to(Nanos::ZERO, &mut link);
        let held = link.scheduler.pacer().pace();
        assert_eq!((held.rate, held.grant_for, held.cross_permille), (rate, Pace::UNLIMITED.grant_for, 300));
    }
}
