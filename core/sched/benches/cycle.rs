//! The cost of one job's whole life in the scheduler (arrive, grant, sent, depart) while others are queued.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use sched::classes::{ByClass, ClassSpec, ClassTable};
use sched::{Arrival, ConnectionId, Guard, JobId, Pace, Precedence, Scheduler, Size, policy};
use units::Nanos;
use units::wire::Framing;

fn cycle(criterion: &mut Criterion) {
    for (label, guard) in [("", 0), ("-guard", 50)] {
        for queued in [10, 1_000, 10_000, 100_000] {
            for name in policy::NAMES {
                let mut scheduler =
                    Scheduler::new(policy::parse(name).unwrap(), Pace::UNLIMITED).with_guard(Guard::new(guard));
                let mut sizes = sizes();
                for _ in 0..queued {
                    scheduler.arrive(Nanos(0), Arrival::of(Size::Known(sizes.next().unwrap())));
                }
                criterion.bench_function(&format!("cycle/{name}{label}/{queued}"), |bencher| {
                    bencher.iter_batched(
                        || sizes.next().unwrap(),
                        |size| {
                            scheduler.arrive(Nanos(0), Arrival::of(Size::Known(size)));
                            depart_one(&mut scheduler);
                        },
                        BatchSize::SmallInput,
                    );
                });
            }
        }
    }
}

/// The same, on connections with several jobs each: a job arrives whenever one departs. Once with equal precedences,
/// and once with the larger jobs more urgent, so that every stage has to be computed.
fn connections(criterion: &mut Criterion) {
    const ALL: u64 = 60_000;
    let mixed = policy::NAMES.iter().map(|name| (*name, 6, false));
    let shapes = [(1, false), (6, false), (6, true), (100, false), (100, true)];
    let srpt = shapes.map(|(jobs, is_inverse)| ("srpt", jobs, is_inverse));
    for (name, jobs, is_inverse) in mixed.chain(srpt) {
        let mut scheduler = Scheduler::new(policy::parse(name).unwrap(), Pace::UNLIMITED);
        let mut sizes = sizes();
        // Connections, by the job's slot.
        let mut connection_of: Vec<Option<ConnectionId>> = vec![None; 2 * ALL as usize];
        let mut arrive = |scheduler: &mut Scheduler, connection_of: &mut [Option<ConnectionId>], connection| {
            let bytes = sizes.next().expect("without end");
            let urgency = if is_inverse { 7 - (bytes / 15_000) as u8 } else { 3 };
            let arrival = Arrival::of(Size::Known(bytes));
            let precedence = Precedence { urgency, is_incremental: false };
            let id = scheduler.arrive_on(Nanos(0), connection, arrival, precedence).expect("so many of a connection");
            connection_of[id.slot()] = Some(connection);
        };
        for _ in 0..ALL / jobs {
            let connection = scheduler.open(Framing::ETHERNET);
            (0..jobs).for_each(|_| arrive(&mut scheduler, &mut connection_of, connection));
        }
        let wishes = if is_inverse { "-inverse" } else { "" };
        criterion.bench_function(&format!("connections/{name}/{}x{jobs}{wishes}", ALL / jobs), |bencher| {
            bencher.iter(|| {
                let connection = connection_of[depart_one(&mut scheduler).slot()].expect("every job has a connection");
                arrive(&mut scheduler, &mut connection_of, connection);
            });
        });
    }
}

/// A grant to a client that stays while many others wait, with and without the share between clients. 100,000 clients
/// are known. With the share, demand exceeds supply and most waiting clients are beyond their allowance, so they take
/// turns as under `fair`.
fn clients(criterion: &mut Criterion) {
    const KNOWN: u32 = 100_000;
    let spec: policy::PolicySpec = "srpt".parse().expect("a policy");
    let share = policy::ClientShare { allowance_bytes: 100_000, idle_bytes_per_s: 1 };
    for waiting in [10, 1_000, 10_000] {
        let fair = policy::parse("fair").expect("a policy");
        for (name, policy) in [("off", spec.build()), ("on", spec.build_shared(share)), ("fair", fair)] {
            let mut scheduler = Scheduler::new(policy, Pace::UNLIMITED);
            let mut sizes = sizes();
            let arrival = |client, bytes| Arrival { client, ..Arrival::of(Size::Known(bytes)) };
            (0..KNOWN).for_each(|client| scheduler.on_client(client, policy::ClientTraits::default()));
            for client in 0..waiting {
                let bytes = sizes.next().expect("without end");
                scheduler
                    .arrive(Nanos(0), arrival(client * 7 % KNOWN, if client % 2 == 0 { bytes } else { bytes << 20 }));
            }
            let mut client = 0;
            criterion.bench_function(&format!("clients/{name}/{waiting}"), |bencher| {
                bencher.iter(|| {
                    client = (client + 7919) % KNOWN;
                    let bytes = 1 + sizes.next().expect("without end");
                    scheduler.arrive(Nanos(0), arrival(client, bytes));
                    depart_one(&mut scheduler);
                });
            });
            criterion.bench_function(&format!("client-grants/{name}/{waiting}"), |bencher| {
                bencher.iter(|| {
                    let grant = scheduler.poll_grant(Nanos(0)).expect("jobs are queued");
                    let sent = scheduler.on_sent(Nanos(0), grant.job, grant.bytes_max.min(1448));
                    if sent.is_departed() {
                        client = (client + 7919) % KNOWN;
                        let bytes = (1 + sizes.next().expect("without end")) << 10;
                        scheduler.arrive(Nanos(0), arrival(client, bytes));
                    }
                });
            });
        }
    }
}

/// A grant, and a new response for each that departs, among `count` waiting classes with different priorities and
/// weights. Every second class has a guarantee. Measured with and without slots.
fn classes(criterion: &mut Criterion) {
    let order = |spec: &str| spec.parse::<policy::PolicySpec>().expect("a policy").order().clone();
    let link: units::Rate = "10gbit".parse().expect("a rate");
    for count in [10u64, 1_000, 10_000] {
        for (label, concurrent_max) in [("", None), ("-slots", Some(2))] {
            let class = |at: u64| ClassSpec {
                priority: (at % 3) as u8,
                weight: 1 + (at % 10) as u32,
                guaranteed: at.is_multiple_of(2).then(|| "100kbit".parse().expect("a rate")),
                concurrent_max,
                ..ClassSpec::plain("c", order("srpt"))
            };
            let table = ClassTable { classes: (0..count).map(class).collect(), slot_sharing: sched::Sharing::Own };
            let share = policy::ClientShare { allowance_bytes: 3_000_000, idle_bytes_per_s: 1_250_000 };
            let policy = ByClass::new("classes".into(), &table.classes, Some(share), Some(link));
            let mut scheduler = Scheduler::new(Box::new(policy), Pace::UNLIMITED).with_classes(&table);
            let mut sizes = sizes();
            let mut class_of = vec![0u16; 65_536];
            let mut arrive = |scheduler: &mut Scheduler, class_of: &mut [u16], class: u16| {
                let bytes = (1 + sizes.next().expect("without end")) << 4;
                let id = scheduler
                    .arrive(Nanos(0), Arrival { class, client: class.into(), ..Arrival::of(Size::Known(bytes)) });
                class_of[id.slot()] = class;
            };
            (0..4 * count).for_each(|at| arrive(&mut scheduler, &mut class_of, (at % count) as u16));
            criterion.bench_function(&format!("class-grants{label}/{count}"), |bencher| {
                bencher.iter(|| {
                    let grant = scheduler.poll_grant(Nanos(0)).expect("jobs are queued");
                    if scheduler.on_sent(Nanos(0), grant.job, grant.bytes_max.min(1448)).is_departed() {
                        let class = class_of[grant.job.slot()];
                        arrive(&mut scheduler, &mut class_of, class);
                    }
                });
            });
        }
    }
}

/// Grants until a job departs. Each grant covers a whole response, as for a small response.
fn depart_one(scheduler: &mut Scheduler) -> JobId {
    loop {
        let grant = scheduler.poll_grant(Nanos(0)).expect("jobs are queued");
        if scheduler.on_sent(Nanos(0), grant.job, grant.bytes_max).is_departed() {
            return grant.job;
        }
    }
}

/// Sizes spread over three decades by a fixed linear congruence, all smaller than one grant.
fn sizes() -> impl Iterator<Item = u64> {
    let mut state = 1u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        100 + (state >> 33) % 100_000
    })
}

criterion_group!(benches, cycle, connections, clients, classes);
criterion_main!(benches);
