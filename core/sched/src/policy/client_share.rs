//! A share of the link for each client, and the shortest response first within it: an order that does not reward
//! splitting.
//!
//! An order by size rewards a client that cuts its download into small requests or requests small pages endlessly. So
//! every client has an account of the bytes it has received. The account is compared with a clock that runs at the pace
//! of a fair share: with `k` clients waiting, at `1 / (k + 1)` of the link, and slower if they are a crowd. A client is
//! *ahead* by the bytes that it has received beyond the clock. While it is ahead by at most an allowance `A`, its
//! responses are served in the policy's own order, so a page or a lone response waits no longer than without accounts.
//! A response of a client that is `A + x` ahead is ranked as if it had `x` more bytes left, and in this comparison a
//! response has at most `A` bytes left. A visitor who shares an address with a download therefore waits for others'
//! small responses but not for their large ones; between large responses, the client that is least ahead goes first.
//! Clients that together want more than the link carries share it evenly, whatever they request and over however many
//! connections. If the policy does not rank by size, clients further ahead than `A` come after all others, the least
//! ahead first.
//!
//! The account follows start-time fair queueing (Goyal, Vin & Cheng, "Start-time fair queueing", 1996) with two
//! changes. First, the order follows the account only beyond an allowance, because fairness as the first rule gives
//! away the gain of an order by size (mean response time 2 to 12 times, docs/notebook/clients.md). Second, the clock
//! counts one client more than wait: a client that has the link to itself gets ahead too, and gives way immediately
//! when another comes. In a crowd, that one extra client would let nobody get ahead: each has its share of the link and
//! no more, and small requests of an endless stream of clients would keep all larger responses of others waiting. So
//! with more than ten clients waiting the clock runs at a third of that pace, and with more than thirty slower still:
//! the bytes of each client count longer, and clients that come seldom go before them. At most ten of the clients of
//! one network that wait at the same time count ([`networks`]), because addresses cost their owner nothing. An owner
//! who uses ten addresses at a time, each time different ones, is not detected.
//!
//! It follows that:
//! - A client is never more than `2 A` ahead, plus a grant, or plus n / 10 grants if n > 10 clients of its network
//!   wait: the
//!   clock keeps up with the client that is served.
//!   The bytes for which a client is held back are therefore bounded, and forgiven at the clock's pace. No client is
//!   ever behind: an idle client earns no credit beyond its allowance.
//! - Of `k` clients that always wait, each gets at least `1 / (k + 1)` of the link, minus `k A` once, unless other
//!   clients
//!   come: each newcomer has an allowance.
//! - Only bytes count. Splitting a response into requests or connections does not change the account.
//!
//! All this holds for an allowance of a grant or more. With an allowance of less than half a grant, clients take turns
//! of one grant each, however short it is.
//!
//! A client offers its best ready job, by [`Policy::within`], and the inner policy orders the offered jobs. A job of
//! unknown size is left to the inner policy. Responses of one client that have more than `A` left, and the same number
//! of bytes left up to a factor of two, take turns: it matters more that two long downloads both advance than which of
//! them ends first.

mod networks;
mod spec;
mod waiting;

use units::Nanos;

pub use networks::Network;
pub use spec::{CLIENT_SHARE_FORMS, ClientShare, ClientShareError, ClientShareSpec};
use waiting::{ClientKey, Waiting, WaitingClients};

use crate::scheduler::connection::power_of_two;
use crate::scheduler::job::OWN_RANK;
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Job, Path, Policy, grow};

/// The weight of the heaviest client.
pub const CLIENT_WEIGHT_MAX: u8 = 100;
/// The number of fractions of a byte in which accounts are kept, so that an account can be divided by a weight.
const PARTS: u64 = 16;
/// The number of waiting clients above which they are a crowd.
const CROWD: u64 = 10;
/// The factor by which the clock runs slower for a crowd; the ratio of the crowd's size to [`CROWD`] is used if it is
/// larger.
const CROWD_SLOWS: u64 = 3;
/// The maximum number of clients that return to the policy's order per grant; the rest return with the next grants.
const RETURNS_MAX: usize = 8;

/// The traits of a client, apart from its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTraits {
    /// From 1 to [`CLIENT_WEIGHT_MAX`].
    pub weight: u8,
    pub network: Network,
}

impl ClientTraits {
    const USUAL: ClientTraits = ClientTraits { weight: 1, network: Network::NONE };
}

impl Default for ClientTraits {
    fn default() -> ClientTraits {
        ClientTraits::USUAL
    }
}

/// The account of a client, in 18 bytes, because there may be hundreds of thousands of accounts.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(2))]
struct Account {
    /// The fractions of a byte that the client has received, divided by its weight. Counting starts at the clock's
    /// value when the client was last not ahead.
    tag: u64,
    traits: ClientTraits,
    is_beyond: bool,
    /// The index in `waiting`, or [`NONE`].
    waiting: u32,
}

const NONE: u32 = u32::MAX;
const NEW: Account = Account { tag: 0, traits: ClientTraits::USUAL, is_beyond: false, waiting: NONE };

/// Waiting clients that are ahead beyond the allowance.
#[derive(Debug, Default)]
struct Beyond {
    /// The clients, ordered by tag plus the remaining fractions of a byte of the job that they offer.
    by_rank: RunQueue,
    by_tag: RunQueue,
}

impl Beyond {
    fn set(&mut self, client: u32, tag: u64, left: u64) {
        let key = |rank| Key { rank, number: client.into() };
        self.by_rank.set(client, key(tag.saturating_add(left)));
        self.by_tag.set(client, key(tag));
    }

    /// Removes a client; does nothing if the client is not beyond its allowance.
    fn remove(&mut self, client: u32) {
        self.by_rank.remove(client);
        self.by_tag.remove(client);
    }

    /// Returns the client that goes first among those beyond their allowance, and its rank.
    fn first(&self) -> Option<(u64, u32)> {
        self.by_rank.first_entry().map(|(key, client)| (key.rank, client))
    }

    /// Returns the client that is least ahead, and its tag.
    fn least_ahead(&self) -> Option<(u64, u32)> {
        self.by_tag.first_entry().map(|(key, client)| (key.rank, client))
    }
}

/// A ready job as passed to the inner policy. Its connection is replaced by its client, so that a round-robin policy
/// takes turns by client.
#[derive(Debug, Clone)]
struct Held {
    slot: u32,
    job: Job,
    /// The policy's key among the jobs of the client.
    key: u64,
    /// The key is a number of bytes.
    is_size: bool,
    /// Orders equal keys: by arrival, or by the time of the last turn.
    turn: u64,
}

impl Held {
    fn place(&self) -> ClientKey {
        (self.key, self.turn, self.slot)
    }
}

pub struct ByClient {
    inner: Box<dyn Policy>,
    inner_follows_jobs: bool,
    share: ClientShare,
    /// The service that a client has at least received if it has always been waiting, in fractions of a byte.
    clock: u64,
    /// The remainder that was too small to move the clock.
    carry: u64,
    /// Accounts, by client.
    accounts: Vec<Account>,
    waiting: WaitingClients,
    beyond: Beyond,
    /// The ready jobs, and for each slot its job's index among them, or [`NONE`]. A connection with several jobs has
    /// just one here.
    held: Vec<Held>,
    held_at: Vec<u32>,
}

impl ByClient {
    pub fn new(inner: Box<dyn Policy>, share: ClientShare) -> ByClient {
        ByClient {
            inner_follows_jobs: inner.follows_jobs(),
            inner,
            share,
            clock: 0,
            carry: 0,
            accounts: Vec::new(),
            waiting: WaitingClients::default(),
            beyond: Beyond::default(),
            held: Vec::new(),
            held_at: Vec::new(),
        }
    }

    fn allowance(&self) -> u64 {
        self.share.allowance_bytes.saturating_mul(PARTS)
    }

    fn account(&mut self, client: u32) -> &mut Account {
        while self.accounts.len() <= client as usize {
            self.inner.on_open(self.accounts.len() as u32);
            grow::reserve_one(&mut self.accounts);
            self.accounts.push(NEW);
        }
        &mut self.accounts[client as usize]
    }

    /// Returns the fractions of a byte by which a ready job is compared with jobs of other clients: its remaining
    /// bytes, but at most the allowance. A job without a size counts with the allowance.
    fn left(&self, slot: u32) -> u64 {
        let held = &self.held[self.held_at[slot as usize] as usize];
        let left = if held.is_size { held.key.saturating_mul(PARTS) } else { u64::MAX };
        left.min(self.allowance())
    }

    /// Returns the best ready job of a client that waits.
    fn best_of(&self, client: u32) -> u32 {
        let waiting = &self.waiting[self.accounts[client as usize].waiting];
        let (.., slot) = waiting.best.expect("a client that waits has a ready job");
        slot
    }

    fn as_inner_sees(job: &Job) -> Job {
        Job { connection: job.client, ..job.clone() }
    }

    /// Stores a ready job; returns the key it had before, if any.
    fn hold(&mut self, held: Held) -> Option<ClientKey> {
        match self.held_at[held.slot as usize] {
            NONE => {
                self.held_at[held.slot as usize] = self.held.len() as u32;
                grow::reserve_one(&mut self.held);
                self.held.push(held);
                None
            }
            at => Some(std::mem::replace(&mut self.held[at as usize], held).place()),
        }
    }

    /// Removes a job that is no longer ready.
    fn let_go(&mut self, slot: u32) {
        let at = std::mem::replace(&mut self.held_at[slot as usize], NONE);
        self.held.swap_remove(at as usize);
        if let Some(moved) = self.held.get(at as usize) {
            self.held_at[moved.slot as usize] = at;
        }
    }

    /// Returns the client's ready jobs, so that the caller can add one.
    fn join(&mut self, client: u32) -> &mut Waiting {
        let Account { waiting, traits, .. } = *self.account(client);
        let at = if waiting == NONE { self.waiting.join(traits) } else { waiting };
        self.accounts[client as usize].waiting = at;
        &mut self.waiting[at]
    }

    /// Records that the client's last ready job is gone.
    fn leave(&mut self, client: u32) {
        self.beyond.remove(client);
        let account = &mut self.accounts[client as usize];
        account.is_beyond = false;
        self.waiting.leave(account.waiting, account.traits);
        account.waiting = NONE;
    }

    /// Offers the client's best job: in the policy's order, or among the clients beyond their allowance.
    fn offer(&mut self, client: u32) {
        let limit = self.clock.saturating_add(self.allowance());
        let best = self.best_of(client);
        let account = &mut self.accounts[client as usize];
        account.is_beyond = account.tag > limit;
        let (is_beyond, tag) = (account.is_beyond, account.tag);
        let offered = &mut self.waiting[account.waiting].offered;
        let before = std::mem::replace(offered, (!is_beyond).then_some(best));
        if is_beyond {
            self.beyond.set(client, tag, self.left(best));
        } else {
            self.beyond.remove(client);
            let held = &self.held[self.held_at[best as usize] as usize];
            self.inner.enqueue(best, &held.job);
        }
        if let Some(slot) = before.filter(|slot| is_beyond || *slot != best) {
            self.take_out(slot);
        }
    }

    /// Takes a job that is still ready out of the policy's order.
    fn take_out(&mut self, slot: u32) {
        let held = &self.held[self.held_at[slot as usize] as usize];
        self.inner.dequeue(slot, &held.job);
    }

    /// Moves the clock forward if the served client is ahead by more than twice the allowance.
    fn catch_up(&mut self, served: u32) {
        let Account { tag, is_beyond, .. } = self.accounts[served as usize];
        if is_beyond {
            self.clock = self.clock.max(tag.saturating_sub(self.allowance().saturating_mul(2)));
        }
    }

    /// Advances the clock by the served fractions of a byte. Clients that are no longer beyond their allowance return
    /// to the policy's order.
    fn advance(&mut self, parts: u64) {
        let (total, clients) = (parts.saturating_add(self.carry), self.waiting.clock_parts());
        self.clock = self.clock.saturating_add(total / clients);
        self.carry = total % clients;
        let limit = self.clock.saturating_add(self.allowance());
        for _ in 0..RETURNS_MAX {
            match self.beyond.least_ahead() {
                Some((tag, client)) if tag <= limit => self.offer(client),
                _ => return,
            }
        }
    }
}

impl Policy for ByClient {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn first(&self) -> Option<u32> {
        let inner = self.inner.first();
        let Some((rank, client)) = self.beyond.first() else { return inner };
        let is_first =
            |slot: &u32| self.clock.saturating_add(self.allowance()).saturating_add(self.left(*slot)) <= rank;
        Some(inner.filter(is_first).unwrap_or_else(|| self.best_of(client)))
    }

    fn within(&self, slot: u32, job: &Job) -> u64 {
        self.inner.within(slot, &ByClient::as_inner_sees(job))
    }

    fn size_rank(&self, slot: u32, job: &Job) -> Option<u64> {
        self.inner.size_rank(slot, job)
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        grow::grow_to(&mut self.held_at, slot as usize + 1, || NONE);
        let seen = ByClient::as_inner_sees(job);
        let own = self.inner.within(slot, &seen);
        let is_size = self.inner.size_rank(slot, job).is_some();
        let key = if is_size { job.rank_or(own) } else { own };
        let allowance = self.share.allowance_bytes;
        let takes_turns = is_size && job.carried_rank == OWN_RANK && key > allowance;
        let (key, turn) =
            if takes_turns { (power_of_two(key).max(allowance + 1), self.clock) } else { (key, job.number) };
        let held = Held { slot, job: seen, key, is_size, turn };
        let place = held.place();
        let before = self.hold(held);
        let waiting = self.join(job.client);
        if let Some(before) = before {
            waiting.remove(before);
        }
        waiting.insert(place);
        self.offer(job.client);
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        let Some(&at) = self.held_at.get(slot as usize).filter(|at| **at != NONE) else { return };
        let place = self.held[at as usize].place();
        let client = job.client;
        let waiting = &mut self.waiting[self.accounts[client as usize].waiting];
        waiting.remove(place);
        if waiting.best.is_some() {
            self.offer(client);
        } else {
            if waiting.offered.take().is_some() {
                self.take_out(slot);
            }
            self.leave(client);
        }
        self.let_go(slot);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job) {
        self.account(job.client);
        if self.inner_follows_jobs {
            self.inner.on_arrival(slot, &ByClient::as_inner_sees(job));
        }
    }

    fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        if self.inner_follows_jobs {
            self.inner.on_size(slot, &ByClient::as_inner_sees(before), &ByClient::as_inner_sees(job));
        }
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        let parts = bytes.saturating_mul(PARTS);
        self.account(job.client);
        self.catch_up(job.client);
        let clock = self.clock;
        let traits = self.account(job.client).traits;
        let charge = self.waiting.charge(traits, parts);
        let account = self.account(job.client);
        account.tag = account.tag.max(clock).saturating_add(charge);
        self.advance(parts);
        if self.inner_follows_jobs {
            self.inner.on_sent(slot, &ByClient::as_inner_sees(job), bytes);
        }
    }

    fn on_departure(&mut self, slot: u32, job: &Job) {
        if self.inner_follows_jobs {
            self.inner.on_departure(slot, &ByClient::as_inner_sees(job));
        }
    }

    fn on_client(&mut self, client: u32, traits: ClientTraits) {
        assert!((1..=CLIENT_WEIGHT_MAX).contains(&traits.weight), "a client of weight {}", traits.weight);
        let account = self.account(client);
        let before = *account;
        (account.tag, account.traits) = (0, traits);
        if before.waiting != NONE {
            self.waiting.replace(before.traits, traits);
            self.offer(client);
        }
    }

    fn on_idle(&mut self, idle: Nanos) {
        let bytes = u128::from(idle.0) * u128::from(self.share.idle_bytes_per_s) / 1_000_000_000;
        if bytes > 0 {
            self.advance(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(PARTS));
        }
    }

    fn ahead_bytes(&self, client: u32) -> Option<u64> {
        let tag = self.accounts.get(client as usize).map_or(0, |account| account.tag);
        Some(tag.saturating_sub(self.clock) / PARTS)
    }

    fn on_ahead(&mut self, client: u32, bytes: u64) {
        let ahead = bytes.saturating_mul(PARTS).min(self.allowance().saturating_mul(2));
        let tag = self.clock.saturating_add(ahead);
        let account = self.account(client);
        account.tag = tag;
        if account.waiting != NONE {
            self.offer(client);
        }
    }

    fn can_starve(&self) -> bool {
        self.inner.can_starve()
    }

    fn bands(&self) -> usize {
        self.inner.bands()
    }

    /// Returns the last band for a job of a client beyond its allowance.
    fn band(&self, slot: u32, job: &Job) -> u8 {
        let limit = self.clock.saturating_add(self.allowance());
        match self.accounts.get(job.client as usize) {
            Some(account) if account.tag > limit => (self.inner.bands() - 1) as u8,
            _ => self.inner.band(slot, job),
        }
    }

    fn needs_path(&self) -> bool {
        self.inner.needs_path()
    }

    fn on_path(&mut self, slot: u32, path: &Path) {
        self.inner.on_path(slot, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::policy::{Ranked, Srpt};

    /// Together with 36 bytes and 6 of the server's and its index, it is within 68 per client.
    #[test]
    fn an_account_is_small() {
        assert_eq!(size_of::<Account>(), 18);
    }

    /// The share reports the same properties as the policy below it, and follows jobs itself.
    #[test]
    fn it_tells_what_the_policy_tells() {
        let share = ClientShare::of_link(None);
        for spec in ["srpt", "fair", "fcf", "srpt-bands:3,9", "quick-fix", "srrt:2", "fsp"] {
            let spec: crate::policy::PolicySpec = spec.parse().unwrap();
            let (plain, shared) = (spec.build(), spec.build_shared(share));
            let told = |policy: &dyn Policy| {
                (policy.name().to_string(), policy.can_starve(), policy.needs_path(), policy.bands())
            };
            assert_eq!(told(&*plain), told(&*shared));
            assert!(shared.follows_jobs() && shared.ahead_bytes(3) == Some(0) && plain.ahead_bytes(3).is_none());
            let job = Job::of_size(Size::Known(1001));
            assert_eq!(plain.band(0, &job), shared.band(0, &job), "{spec}");
        }
    }

    /// A grant returns at most [`RETURNS_MAX`] clients to the order.
    #[test]
    fn a_crowd_comes_back_a_few_at_a_time() {
        let share = ClientShare { allowance_bytes: 0, idle_bytes_per_s: 1 };
        let mut policy = ByClient::new(Box::new(Ranked::new(Srpt)), share);
        for client in 0..100 {
            let job = Job { client, number: client.into(), ..Job::of_size(Size::Known(10)) };
            policy.on_sent(client, &job, 10);
            policy.enqueue(client, &job);
        }
        assert!(policy.beyond.by_tag.len() > 5 * RETURNS_MAX);
        for _ in 0..50 {
            let before = policy.beyond.by_tag.len();
            policy.advance(100_000);
            assert!(before - policy.beyond.by_tag.len() <= RETURNS_MAX);
        }
        assert_eq!(policy.beyond.by_tag.len(), 0);
    }
}
