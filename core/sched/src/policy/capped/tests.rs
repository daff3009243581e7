//! The rule against its plainest statement: the fluid model of the shared link, and a scan of all jobs at every step.

use std::collections::HashMap;

use proptest::prelude::*;
use units::wire::Framing;

use super::*;
use crate::policy::PolicySpec;
use crate::shared_link::tests::{Flow, Model};
use crate::{Arrival, JobId, Pace, Precedence, Scheduler, Why};

const CLIENTS: u32 = 4;
/// So few jobs that each is ranked anew with each grant.
const JOBS_MAX: usize = REFRESHED;
const NOW: Nanos = Nanos::ZERO;

fn scheduler(allowance_bytes: Option<u64>) -> Scheduler {
    let share = allowance_bytes.map(|allowance_bytes| ClientShare { allowance_bytes, idle_bytes_per_s: 1 });
    let spec: PolicySpec = "capped".parse().unwrap();
    Scheduler::new(spec.build_among_clients(share), Pace::UNLIMITED)
}

fn arrival(client: u32, bytes: u64) -> Arrival {
    Arrival { framing: Framing::ETHERNET.with_segment(1), client, ..Arrival::of(Size::Known(bytes)) }
}

/// A job as the reference sees it; its flow is that of the model at the same place.
#[derive(Debug, Clone, Copy)]
struct Live {
    id: JobId,
    client: u32,
    flow: usize,
    left: u64,
    is_ready: bool,
    due_at: f64,
}

struct Reference {
    live: Vec<Live>,
    model: Model,
    tags: [f64; CLIENTS as usize],
    clock: f64,
    allowance: f64,
}

impl Reference {
    fn arrive(&mut self, id: JobId, client: u32, bytes: u64) {
        let (rest, groups) = (bytes as f64, vec![(client, 1)]);
        self.model.flows.push(Flow { groups, weight: 1, rest, floor: 0.0, ready: rest });
        let flow = self.model.flows.len() - 1;
        self.live.push(Live { id, client, flow, left: bytes, is_ready: true, due_at: f64::INFINITY });
    }

    fn rank(&self, job: &Live) -> f64 {
        let beyond = (self.tags[job.client as usize] - self.clock - self.allowance).max(0.0);
        let slack = (self.allowance as u64 / SLACK_PART) as f64;
        let due = job.due_at - self.model.time + slack + beyond;
        due.min(beyond.floor() + job.left as f64)
    }

    /// Updates when each is due: of one that is there on the virtual link, it stays.
    fn look(&mut self) {
        for job in self.live.iter_mut().filter(|job| job.is_ready) {
            let due = self.model.due(job.flow);
            job.due_at = if due > 0.0 { self.model.time + due } else { job.due_at.min(self.model.time) };
        }
    }

    fn on_sent(&mut self, at: usize, bytes: u64) {
        let mut clients: Vec<&(u32, u32)> =
            self.model.flows.iter().filter(|flow| flow.left() > 0.0).flat_map(|flow| &flow.groups).collect();
        clients.sort_unstable();
        clients.dedup();
        self.clock += bytes as f64 / (clients.len() as f64 + 1.0);
        let tag = &mut self.tags[self.live[at].client as usize];
        *tag = tag.max(self.clock) + bytes as f64;
        self.clock = self.clock.max(*tag - AHEAD_MAX * self.allowance);
        self.model.carry(bytes as f64);
        self.live[at].left -= bytes;
        if self.live[at].left == 0 {
            self.live.remove(at);
        }
    }

    fn end(&mut self, at: usize) -> JobId {
        let Live { id, flow, left, .. } = self.live.remove(at);
        let flow = &mut self.model.flows[flow];
        (flow.floor, flow.rest) = (0.0, (flow.rest - left as f64).max(0.0));
        id
    }

    /// Makes a job wait, or no longer; returns it.
    fn pause(&mut self, at: usize) -> Live {
        let job = &mut self.live[at];
        job.is_ready = !job.is_ready;
        self.model.flows[job.flow].floor = if job.is_ready { 0.0 } else { job.left as f64 };
        *job
    }
}

/// A client, what is done, and bytes.
type Step = (u32, u8, u64);

fn follow(steps: &[Step], allowance: u64) -> Result<(), TestCaseError> {
    let mut scheduler = scheduler(Some(allowance));
    let (live, model) = (Vec::new(), Model::default());
    let mut reference =
        Reference { live, model, tags: [0.0; CLIENTS as usize], clock: 0.0, allowance: allowance as f64 };
    for &(client, what, bytes) in steps {
        let at = (bytes as usize).checked_rem(reference.live.len()).unwrap_or(0);
        match what {
            0..3 if reference.live.len() < JOBS_MAX => {
                let id = scheduler.arrive(NOW, arrival(client, bytes));
                reference.arrive(id, client, bytes);
            }
            3 if !reference.live.is_empty() => match reference.pause(at) {
                Live { id, is_ready: true, .. } => scheduler.on_wait_over(NOW, id, Why::Connection),
                Live { id, .. } => scheduler.on_wait(id, Why::Connection),
            },
            4 if !reference.live.is_empty() => scheduler.on_end(reference.end(at)),
            _ => {}
        }
        reference.look();
        let Some(grant) = scheduler.poll_grant(NOW) else { continue };
        let at = reference.live.iter().position(|job| job.id == grant.job).unwrap();
        let least = reference.live.iter().filter(|job| job.is_ready).map(|job| reference.rank(job));
        let (rank, least) = (reference.rank(&reference.live[at]), least.fold(f64::INFINITY, f64::min));
        prop_assert!(rank <= least + 1.1, "rank {rank} is served before {least}");
        let sent = bytes.min(grant.bytes_max).min(20);
        let _ = scheduler.on_sent(NOW, grant.job, sent);
        reference.on_sent(at, sent);
    }
    Ok(())
}

proptest! {
    /// The one that is served has the least rank, whichever clients come, wait and go.
    #[test]
    fn the_order_is_that_of_the_definition(
        steps in prop::collection::vec((0..CLIENTS, 0..12u8, 1..400u64), 1..200),
        allowance in 0..300u64,
    ) {
        follow(&steps, allowance)?;
    }

    /// While nobody is late or beyond the allowance it is SRPT.
    #[test]
    fn within_the_slack_it_is_srpt(sizes in prop::collection::vec((0..CLIENTS, 1..2000u64, 1..300u64), 1..30)) {
        let mut scheduler = scheduler(Some(1 << 40));
        for (client, size, sent) in sizes {
            scheduler.arrive(NOW, arrival(client, size));
            let id = scheduler.poll_grant(NOW).unwrap().job;
            let least = scheduler.jobs().iter().map(|(_, job, _)| job.remaining()).min();
            let left = scheduler.jobs().get(id).unwrap().remaining();
            prop_assert_eq!(Some(left), least);
            let _ = scheduler.on_sent(NOW, id, sent.min(left));
        }
    }

    /// Each client that always wants more has at least half of its share, in whatever way it splits that, but for what is
    /// asked for at once and what one may be ahead. A response waits for small ones until it is due, and takes its own
    /// time then: who asks for one after the other has less than its share.
    #[test]
    fn clients_that_want_more_have_half_their_share(
        clients in prop::collection::vec((1..7usize, 1..1000u64), 2..5),
        allowance in 50..300u64,
    ) {
        const GRANT: u64 = 10;
        let mut scheduler = scheduler(Some(allowance));
        let (mut had, mut owners) = (vec![0; clients.len()], HashMap::new());
        let first = (0..).zip(&clients).flat_map(|(client, (count, _))| std::iter::repeat_n(client, *count));
        let mut ask: Vec<u32> = first.collect();
        let asked_bytes: u64 = clients.iter().map(|(count, bytes)| *count as u64 * bytes).sum();
        for _ in 0..4000 {
            for client in ask.drain(..) {
                let id = scheduler.arrive(NOW, arrival(client, clients[client as usize].1));
                owners.insert(id.number, client);
            }
            let grant = scheduler.poll_grant(NOW).unwrap();
            let (client, sent) = (owners[&grant.job.number], grant.bytes_max.min(GRANT));
            had[client as usize] += sent;
            ask.extend(scheduler.on_sent(NOW, grant.job, sent).is_departed().then_some(client));
            let share = had.iter().sum::<u64>() / clients.len() as u64;
            let owed = (share / 2).saturating_sub(asked_bytes + 8 * allowance);
            prop_assert!(had.iter().all(|had| *had >= owed), "{had:?}, {owed} each");
        }
    }
}

/// It stands behind what came meanwhile, as if it had come when it began to read.
#[test]
fn who_does_not_read_is_not_due_when_it_reads() {
    let mut scheduler = scheduler(None);
    let stalled = scheduler.arrive(NOW, arrival(0, 1000));
    scheduler.on_wait(stalled, Why::Connection);
    let served = scheduler.arrive(NOW, arrival(1, 5000));
    for _ in 0..450 {
        let _ = scheduler.on_sent(NOW, served, 10);
    }
    scheduler.on_wait_over(NOW, stalled, Why::Connection);
    assert_eq!(scheduler.poll_grant(NOW).unwrap().job, served, "500 are left of it");
}

/// A client's second connection, and a closed one, change no other client's share.
#[test]
fn connections_that_close_are_forgotten() {
    let mut scheduler = scheduler(Some(1000));
    for _ in 0..1000 {
        let connection = scheduler.open(Framing::ETHERNET.with_segment(1));
        let job = scheduler.arrive_on(NOW, connection, arrival(0, 100), Precedence::default()).unwrap();
        let _ = scheduler.on_sent(NOW, job, 60);
        scheduler.close(connection);
    }
    scheduler.arrive(NOW, arrival(1, 10_000));
    let small = scheduler.arrive(NOW, arrival(0, 100));
    assert_eq!(scheduler.poll_grant(NOW).unwrap().job, small, "4,000 bytes beyond, and 10,000 are left of the other");
    assert!(scheduler.order().policy().ahead_bytes(0).is_some_and(|ahead| (4900..=5000).contains(&ahead)));
}

/// A page is ranked by its first view while that is not there, then by when all of it is due.
#[test]
fn a_page_stands_by_its_view_then_by_its_due() {
    let mut scheduler = scheduler(None);
    let urgent = |urgency| Precedence { urgency, is_incremental: false };
    let page = scheduler.open(Framing::ETHERNET.with_segment(1));
    let [html, style, image] = [(0, 300), (1, 300), (3, 5000)]
        .map(|(urgency, bytes)| scheduler.arrive_on(NOW, page, arrival(0, bytes), urgent(urgency)).unwrap());
    let [short, long] = [500, 2000].map(|bytes| scheduler.arrive(NOW, arrival(1, bytes)));
    let mut order = Vec::new();
    while let Some(grant) = scheduler.poll_grant(NOW) {
        if scheduler.on_sent(NOW, grant.job, grant.bytes_max.min(10)).is_departed() {
            order.push(grant.job);
        }
    }
    assert_eq!(order, [short, html, style, long, image], "500, 600 for both, 2000, and all of the page");
}

/// Its lower bound doubles as it is reached, and it has no more than its share by it.
#[test]
fn a_size_that_is_not_known_takes_its_share() {
    let mut scheduler = scheduler(None);
    let framing = Framing::ETHERNET.with_segment(1);
    let blind = scheduler.arrive(NOW, Arrival { framing, ..Arrival::of(Size::AtLeast(0)) });
    let long = scheduler.arrive(NOW, Arrival { framing, ..Arrival::of(Size::Known(1 << 20)) });
    let mut had = [0u64; 2];
    for _ in 0..1000 {
        let grant = scheduler.poll_grant(NOW).unwrap();
        had[usize::from(grant.job == long)] += 1000;
        let _ = scheduler.on_sent(NOW, grant.job, 1000);
    }
    assert!(had[0] >= 300_000 && had[1] >= 300_000, "{had:?}");
    scheduler.on_end(blind);
    assert_eq!(scheduler.poll_grant(NOW).unwrap().job, long);
}
