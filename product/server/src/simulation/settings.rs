//! Reloads: an operator changes the order and the pace while clients are served.

use std::sync::Arc;
use std::time::Duration;

use sched::{Guard, Pace, Settings};
use units::Rate;

use super::plan::Plan;
use super::server::order;
use crate::event_loop::{Change, Changes, LinkChange, MemoryShare, NewSettings};
use crate::files::CacheLimits;
use crate::limits::Limits;
use crate::send::{LineSettings, LinkSettings};
use crate::wake::Wake;

/// Policies with a guard, so that its promise holds throughout.
const POLICIES: [&str; 3] = ["las", "psjf", "srpt"];
/// The reciprocal of the share of plans with reloads.
const PLANS: usize = 3;
/// The minimum number of turns between two reloads; the maximum is twice as many.
const TURNS: usize = 50;

/// Reloads, derived from other decisions of the plan, so that the runs of existing seeds do not change.
pub struct Reloads {
    changes: Arc<Changes>,
    /// The number of turns between two reloads; `None` for no reloads.
    every: Option<u64>,
    done: usize,
}

impl Reloads {
    pub fn of(plan: &Plan) -> Reloads {
        let every = plan.clients.is_multiple_of(PLANS).then_some((TURNS + plan.places % TURNS) as u64);
        Reloads { changes: Arc::default(), every, done: 0 }
    }

    /// The queue in which the worker finds the reloads.
    pub fn changes(&self) -> Arc<Changes> {
        Arc::clone(&self.changes)
    }

    /// Hands over the next reload, if it is due at this turn.
    pub fn at_turn(&mut self, turn: u64, plan: &Plan, limits: &Limits, wake: &Wake) {
        if self.every.is_some_and(|every| turn.is_multiple_of(every)) {
            self.done += 1;
            let change = Change::Settings(Box::new(self.next(plan, limits.clone())));
            self.changes.hand_over(change, || wake.set(), Duration::ZERO);
        }
    }

    /// The settings of the next reload: another policy, at the uplink's rate or half of it.
    fn next(&self, plan: &Plan, limits: Limits) -> NewSettings {
        let policy: sched::policy::PolicySpec = match plan.policy {
            "srpt" | "las" | "psjf" => POLICIES[self.done % POLICIES.len()],
            other => other,
        }
        .parse()
        .expect("a policy");
        let rate =
            plan.uplink_bytes_per_s.and_then(|rate| Rate::from_bits_per_s(8 * rate / (1 + self.done as u64 % 2)));
        let pace = rate.map_or(Pace::UNLIMITED, Pace::of_line);
        let built = policy.build();
        let is_direct = !built.follows_jobs() && !built.needs_path();
        let bounds = rate.map(sched::line::Bounds::told);
        let scheduler = Settings { order: Some((built, Guard::new(crate::GUARD_PERMILLE))), pace };
        let settings = LinkSettings { scheduler, line: Some(LineSettings { bounds, gauge: None }) };
        NewSettings {
            limits,
            memory: MemoryShare { connections_bytes: plan.memory_bytes, cache: CacheLimits::per_worker(1) },
            client_rate: None,
            link: Some(LinkChange { settings, order: order(plan, &policy), is_direct }),
        }
    }
}
