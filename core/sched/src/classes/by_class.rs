use units::{Nanos, Rate};

use super::lane::{Lane, Local, Sharer};
use super::{CLASSES_MAX, ClassSpec, PRIORITIES, WEIGHT_MAX};
use crate::policy::virtual_time::VirtualTime;
use crate::policy::{ClientShare, ClientTraits, Policy};
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Job, Path};

/// The number of fractions of a byte in which turns are counted, so that counts can be divided by weights. For the
/// heaviest class a segment is counted to half a percent, and 64 bits last for seven years at 10 Gbit/s.
const PARTS: u64 = 64;
/// The maximum link time by which a class may lag behind the others when its maximum rate releases it. Without a limit,
/// a class whose maximum is above its share would be owed all the bytes that it was not allowed to send, and would take
/// them for minutes. With a limit of zero, a class that is released late would always miss a turn.
const BEHIND_MAX: Nanos = Nanos::from_millis(5);
/// The number of fractional bits in the cost of a guaranteed byte, which is in bytes of the link.
const COST_BITS: u32 = 16;
/// The promise of a guaranteed rate to a class.
#[derive(Debug)]
struct Promise {
    /// The number of bytes that a busy link sends for each byte of the class if the class gets exactly its guaranteed
    /// rate.
    cost: u64,
    /// The value of the link's byte count at which the class's next byte is due.
    due_at: u64,
}

struct Class {
    spec: ClassSpec,
    /// The class whose queue holds this class's responses: itself, or the first pooled class of its priority.
    stands_in: u16,
    /// The fractions of a byte that the class has received, divided by its weight. Counting starts at the tag of its
    /// priority when the class last had nothing ready.
    tag: u64,
    promise: Option<Promise>,
    /// The class is at its maximum rate.
    is_held: bool,
    is_ready: bool,
    /// The link's byte count and idle time when the class last had a ready job.
    left: (u64, Nanos),
    lane: Option<Box<Lane>>,
}

/// The class of a job and the job's ids within it.
#[derive(Debug, Clone, Copy)]
struct Member {
    class: u16,
    local: Local,
    sharer: Sharer,
}

#[derive(Debug, Clone, Copy, Default)]
struct Client {
    generation: u32,
    traits: ClientTraits,
}

/// The order of the classes' jobs.
pub struct ByClass {
    name: String,
    share: Option<ClientShare>,
    link: Option<Rate>,
    classes: Vec<Class>,
    /// Classes with a ready job, by priority and then by turn.
    turns: RunQueue,
    /// The classes in `turns` that have a promise, ordered by the byte count at which it is due.
    due: RunQueue,
    /// For each priority, the tag that a class gets when it joins after having nothing ready.
    joins: [VirtualTime<u64>; PRIORITIES as usize],
    /// The bytes that the link has sent. Promises use it as their clock.
    sent: u64,
    idle: Nanos,
    /// Members, by slot.
    members: Vec<Option<Member>>,
    clients: Vec<Client>,
    /// The path of the job that arrives next.
    newcomer_path: Option<Path>,
}

impl ByClass {
    /// Makes an order of 1 to [`CLASSES_MAX`] classes. Promises are fractions of the link's rate, so there are none
    /// without a rate. `name` is the policy's name.
    pub fn new(name: String, specs: &[ClassSpec], share: Option<ClientShare>, link: Option<Rate>) -> ByClass {
        assert!((1..=CLASSES_MAX).contains(&specs.len()), "{} classes", specs.len());
        let mut policy = ByClass {
            name,
            share,
            link,
            classes: Vec::new(),
            turns: RunQueue::default(),
            due: RunQueue::default(),
            joins: [VirtualTime::starting_at(0); PRIORITIES as usize],
            sent: 0,
            idle: Nanos::ZERO,
            members: Vec::new(),
            clients: Vec::new(),
            newcomer_path: None,
        };
        policy.replace(specs);
        policy
    }

    /// Returns the class whose queue a new job joins. A class number that is too high counts as the last class.
    fn class_of(&self, job: &Job) -> u16 {
        self.classes[usize::from(job.class).min(self.classes.len() - 1)].stands_in
    }

    fn pool(&mut self) {
        let mut pools: [Option<u16>; PRIORITIES as usize] = [None; PRIORITIES as usize];
        for (at, class) in (0..).zip(&mut self.classes) {
            let pool = &mut pools[usize::from(class.spec.priority)];
            class.stands_in = if class.spec.is_pooled { *pool.get_or_insert(at) } else { at };
        }
    }

    fn member(&self, slot: u32) -> Option<Member> {
        self.members.get(slot as usize).copied().flatten()
    }

    fn lane(&mut self, class: u16) -> &mut Lane {
        let share = self.share;
        let class = &mut self.classes[usize::from(class)];
        class.lane.get_or_insert_with(|| Box::new(Lane::new(&class.spec.order, share)))
    }

    fn sharer(&self, slot: u32, job: &Job) -> (Sharer, ClientTraits) {
        if self.share.is_none() {
            return (Sharer { number: job.turn(slot), generation: 0 }, ClientTraits::default());
        }
        let known = self.clients.get(job.client as usize);
        let Client { generation, traits } = known.copied().unwrap_or_default();
        (Sharer { number: job.client, generation }, traits)
    }

    /// Returns the class that is most overdue below its guaranteed rate.
    fn most_due(&self) -> Option<u16> {
        self.due.first_entry().filter(|(key, _)| key.rank < self.sent).map(|(_, class)| class as u16)
    }

    fn first_class(&self) -> Option<u16> {
        self.most_due().or_else(|| self.turns.first().map(|class| class as u16))
    }

    /// Adds a class whose first job became ready. It starts at the tag of its priority and is owed nothing.
    fn join(&mut self, at: u16) {
        let class = &mut self.classes[usize::from(at)];
        class.tag = class.tag.max(self.joins[usize::from(class.spec.priority)].now());
        if let Some(promise) = &mut class.promise {
            promise.due_at = promise.due_at.max(self.sent);
        }
        // The link time that others used while the class had nothing ready was available to its clients.
        let (sent, idle) = class.left;
        let by_others = self.share.map_or(0, |share| {
            u128::from(self.sent - sent) * 1_000_000_000 / u128::from(share.idle_bytes_per_s.max(1))
        });
        let idle = self.idle - idle + Nanos(u64::try_from(by_others).unwrap_or(u64::MAX));
        if idle > Nanos::ZERO {
            self.lane(at).on_idle(idle);
        }
    }

    /// Limits the bytes owed to a class that its maximum rate held back.
    fn release(&mut self, at: u16) {
        let behind_bytes = self.link.map_or(0, |link| link.bytes_in(BEHIND_MAX));
        let class = &mut self.classes[usize::from(at)];
        let behind = behind_bytes.saturating_mul(PARTS) / u64::from(class.spec.weight);
        class.tag = class.tag.max(self.joins[usize::from(class.spec.priority)].now().saturating_sub(behind));
        if let Some(promise) = &mut class.promise {
            promise.due_at = promise.due_at.max(self.sent.saturating_sub(behind_bytes));
        }
    }

    /// Moves the class to its position among the others.
    fn settle(&mut self, at: u16) {
        let class = &mut self.classes[usize::from(at)];
        let is_ready = class.lane.as_ref().is_some_and(|lane| lane.first().is_some());
        let had_been = std::mem::replace(&mut class.is_ready, is_ready);
        if had_been && !is_ready {
            class.left = (self.sent, self.idle);
        }
        if is_ready && !had_been {
            self.join(at);
        }
        let class = &self.classes[usize::from(at)];
        if !is_ready || class.is_held {
            self.turns.remove(at.into());
            return self.due.remove(at.into());
        }
        self.turns.set(at.into(), Key { rank: class.spec.priority.into(), number: class.tag });
        match &class.promise {
            Some(promise) => self.due.set(at.into(), Key { rank: promise.due_at, number: at.into() }),
            None => self.due.remove(at.into()),
        }
    }

    /// Charges bytes that were sent for the class, either because they were due (`was_due`) or because it was the
    /// class's turn.
    fn charge(&mut self, at: u16, bytes: u64, was_due: bool) {
        self.sent = self.sent.saturating_add(bytes);
        let class = &mut self.classes[usize::from(at)];
        self.joins[usize::from(class.spec.priority)].advance_to(class.tag);
        let parts = bytes.saturating_mul(PARTS);
        class.tag = class.tag.saturating_add(parts.div_ceil(class.spec.weight.into()));
        if let Some(promise) = &mut class.promise {
            let cost = (u128::from(bytes) * u128::from(promise.cost)) >> COST_BITS;
            let next = promise.due_at.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
            // Bytes that the class receives by its turn count towards the promise, and do not reduce it later.
            promise.due_at = if was_due { next } else { promise.due_at.max(next.min(self.sent)) };
        }
    }

    /// Computes the cost of promises: a byte of a class that is promised a tenth of the link costs ten bytes of the
    /// link.
    fn price(&mut self) {
        let Some(link) = self.link else {
            self.classes.iter_mut().for_each(|class| class.promise = None);
            return;
        };
        let promised = self.classes.iter().filter_map(|class| class.spec.guaranteed);
        let sum: u128 = promised.map(|rate| u128::from(rate.bits_per_s())).sum();
        // A total above the link's rate cannot be promised: each class then has its part of the link.
        let whole = sum.max(link.bits_per_s().into());
        for class in &mut self.classes {
            let due_at = class.promise.as_ref().map_or(self.sent, |promise| promise.due_at);
            class.promise = class.spec.guaranteed.map(|rate| {
                let cost = (whole << COST_BITS) / u128::from(rate.bits_per_s());
                Promise { cost: u64::try_from(cost).unwrap_or(u64::MAX), due_at }
            });
        }
    }
}

impl Policy for ByClass {
    fn name(&self) -> &str {
        &self.name
    }

    fn first(&self) -> Option<u32> {
        self.classes[usize::from(self.first_class()?)].lane.as_ref()?.first()
    }

    fn within(&self, slot: u32, job: &Job) -> u64 {
        let Some(member) = self.member(slot) else { return u64::MAX };
        let class = &self.classes[usize::from(member.class)];
        class.lane.as_ref().map_or(0, |lane| lane.within(member.local, job))
    }

    fn lane_of(&self, slot: u32) -> u16 {
        self.member(slot).map_or(0, |member| member.class)
    }

    fn turn_of(&self, lane: u16) -> Option<(u8, u64)> {
        let class = self.classes.get(usize::from(lane)).filter(|class| class.is_ready && !class.is_held)?;
        Some(if self.most_due() == Some(lane) { (0, 0) } else { (1 + class.spec.priority, class.tag) })
    }

    fn size_rank(&self, slot: u32, job: &Job) -> Option<u64> {
        let member = self.member(slot)?;
        self.classes[usize::from(member.class)].lane.as_ref()?.size_rank(member.local, job)
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let member = self.member(slot).expect("an enqueued job has come");
        self.lane(member.class).enqueue(member.local, job);
        self.settle(member.class);
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        let Some(member) = self.member(slot) else { return };
        self.lane(member.class).dequeue(member.local, job);
        self.settle(member.class);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job) {
        let class = self.class_of(job);
        let (sharer, traits) = self.sharer(slot, job);
        let path = self.newcomer_path.take();
        let local = self.lane(class).admit(slot, sharer, traits, job, path.as_ref());
        if self.members.len() <= slot as usize {
            self.members.resize(slot as usize + 1, None);
        }
        self.members[slot as usize] = Some(Member { class, local, sharer });
    }

    fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        let Some(member) = self.member(slot) else { return };
        self.lane(member.class).on_size(member.local, before, job);
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        let Some(member) = self.member(slot) else { return };
        let was_due = self.most_due() == Some(member.class);
        self.charge(member.class, bytes, was_due);
        self.lane(member.class).on_sent(member.local, job, bytes);
        // A ready job is placed next, or departs, and its class is placed with it.
        if !job.is_ready() {
            self.settle(member.class);
        }
    }

    fn on_departure(&mut self, slot: u32, job: &Job) {
        let Some(member) = self.members.get_mut(slot as usize).and_then(Option::take) else { return };
        self.lane(member.class).dismiss(member.local, member.sharer, job);
    }

    fn on_client(&mut self, client: u32, traits: ClientTraits) {
        let at = client as usize;
        if self.clients.len() <= at {
            self.clients.resize(at + 1, Client::default());
        }
        let generation = self.clients[at].generation.wrapping_add(1);
        self.clients[at] = Client { generation, traits };
    }

    fn on_idle(&mut self, idle: Nanos) {
        self.idle += idle;
    }

    fn ahead_bytes(&self, client: u32) -> Option<u64> {
        self.share?;
        let generation = self.clients.get(client as usize).map_or(0, |client| client.generation);
        let sharer = Sharer { number: client, generation };
        let lanes = self.classes.iter().filter_map(|class| class.lane.as_ref());
        Some(lanes.filter_map(|lane| lane.ahead_bytes(sharer)).max().unwrap_or(0))
    }

    fn needs_path(&self) -> bool {
        self.classes.iter().any(|class| class.spec.order.needs_path())
    }

    /// Stores the path of a new job. Called before its arrival, which gives it a slot.
    fn on_path(&mut self, slot: u32, path: &Path) {
        match self.member(slot) {
            Some(member) => self.lane(member.class).on_path(member.local, path),
            None => self.newcomer_path = Some(*path),
        }
    }

    fn on_rate(&mut self, link: Rate) {
        self.link = Some(link);
        self.price();
    }

    fn hold(&mut self, class: u16, is_held: bool) {
        let was_held = std::mem::replace(&mut self.classes[usize::from(class)].is_held, is_held);
        if was_held && !is_held {
            self.release(class);
        }
        self.settle(class);
    }

    /// Replaces the classes. A class keeps its position, its jobs and the policy that it was created with.
    fn replace(&mut self, specs: &[ClassSpec]) {
        assert!((self.classes.len().max(1)..=CLASSES_MAX).contains(&specs.len()), "{} classes", specs.len());
        for (at, spec) in specs.iter().enumerate() {
            assert!(spec.priority < PRIORITIES && (1..=WEIGHT_MAX).contains(&spec.weight), "class {spec:?}");
            if let Some(class) = self.classes.get_mut(at) {
                if class.spec.priority != spec.priority {
                    class.tag = self.joins[usize::from(spec.priority)].now();
                }
                class.spec = ClassSpec { order: class.spec.order.clone(), ..spec.clone() };
                continue;
            }
            self.classes.push(Class {
                spec: spec.clone(),
                stands_in: at as u16,
                tag: 0,
                promise: None,
                is_held: false,
                is_ready: false,
                left: (self.sent, self.idle),
                lane: None,
            });
        }
        self.pool();
        self.price();
        (0..specs.len() as u16).for_each(|class| self.settle(class));
    }
}
