//! A reload with another order, which begins the accounts of clients anew.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::time::Duration;

use sched::policy::ClientTraits;
use sched::{Guard, Job, Policy, Settings};

use super::*;
use crate::event_loop::{Change, LinkChange, MemoryShare, NewSettings};
use crate::send::LinkSettings;

/// Records the clients that it is given, and has no jobs.
#[derive(Default)]
struct Given(Arc<Mutex<Vec<(u32, ClientTraits)>>>);

impl Policy for Given {
    fn name(&self) -> &str {
        "given"
    }

    fn first(&self) -> Option<u32> {
        None
    }

    fn enqueue(&mut self, _slot: u32, _job: &Job) {}

    fn dequeue(&mut self, _slot: u32, _job: &Job) {}

    fn on_client(&mut self, client: u32, traits: ClientTraits) {
        self.0.lock().unwrap().push((client, traits));
    }
}

fn with_order(policy: Given) -> NewSettings {
    let scheduler = Settings { order: Some((Box::new(policy), Guard::default())), pace: Pace::UNLIMITED };
    NewSettings {
        limits: Limits::default(),
        memory: MemoryShare { connections_bytes: u64::MAX, cache: CacheLimits::per_worker(1) },
        client_rate: None,
        link: Some(LinkChange {
            settings: LinkSettings { scheduler, line: None },
            order: Order::Arrival,
            is_direct: false,
        }),
    }
}

/// Without their networks and weights, the clients of a crowd would count in full for as long as they are remembered.
#[test]
fn a_new_order_gets_the_traits_of_known_clients() {
    let mut bench = Bench::new("reordered", "fair");
    let mut open = bench.connect();
    open.send(HEAD);
    while open.responses() == 0 {
        bench.turn();
    }
    let connected = bench.worker.responder.connections.iter().next().unwrap().1.client;
    let other = IpAddr::from(Ipv4Addr::new(198, 18, 7, 1));
    let enter = |bench: &mut Bench, address| {
        let admission = &mut bench.worker.responder.service.admission;
        let admitted = admission.enter_account(Nanos::ZERO, address);
        admission.leave_account(Nanos::ZERO, admitted.client);
        admitted.traits
    };
    let before = enter(&mut bench, other).unwrap();
    assert_eq!(enter(&mut bench, other), None);

    let policy = Given::default();
    let given = Arc::clone(&policy.0);
    let setup = &bench.worker.responder.setup;
    let change = Change::Settings(Box::new(with_order(policy)));
    setup.changes.hand_over(change, || setup.wake.set(), Duration::ZERO);
    bench.turn();
    assert_eq!(given.lock().unwrap().iter().map(|(client, _)| *client).collect::<Vec<_>>(), [connected]);
    assert_eq!(enter(&mut bench, Ipv4Addr::LOCALHOST.into()), None, "its connection is open");
    assert_eq!(enter(&mut bench, other), Some(before));
}
