//! The lookups that other threads run for a worker, and the requests that wait for them.
//!
//! Requests for a path that arrive before its lookup has begun share the lookup. The lookup is in the queue of each of
//! their clients; otherwise a client with a long queue could make another one wait just as long. Requests that arrive
//! while the lookup runs do not get its result, which may be older than the request: a request must see the changes
//! made before it. They all wait for the next lookup of the path, which is rarely needed, because usually the first one
//! has put the file into the cache.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use units::Nanos;

use super::lookup::FinishedLookup;
use super::{Cache, CacheAnswer, Found, Key, Lookup, Missing};
use crate::disk::{Done, Lane, Pool};
use crate::exchange_id::ExchangeId;

/// The result of a lookup, for the exchange that requested it.
pub type LookupResult = (ExchangeId, Result<Found, Missing>);

/// The time after which a disk that has not answered a lookup is logged as slow.
pub const SLOW_AFTER: Nanos = Nanos::from_secs(10);

/// A worker's lookups. Each exchange waits for at most one path at a time.
pub struct Lookups {
    pool: Arc<Pool>,
    done: Arc<Done<Ended>>,
    under_way: HashMap<Key, Askers>,
    ended: Vec<Ended>,
    /// True once a slow disk was logged, until no lookup is slow.
    is_told: bool,
}

/// The requests that wait for a lookup, at most one per exchange.
struct Askers {
    began_at: Nanos,
    device: u64,
    waiting: Arc<Mutex<Waiting>>,
    /// The exchanges that requested the lookup before it began.
    first: BTreeSet<ExchangeId>,
    /// The clients in whose queues the lookup is.
    clients: BTreeSet<u32>,
    late: BTreeSet<ExchangeId>,
    late_clients: BTreeSet<u32>,
}

/// A lookup in the queues of the pool.
struct Waiting {
    /// The lookup, until the first queue that reaches it takes it.
    lookup: Option<Box<Lookup>>,
    /// False once all askers have left; the lookup is then skipped.
    is_wanted: bool,
}

enum Ended {
    Found(Box<FinishedLookup>),
    /// A lookup that was skipped because no exchange waited for it any more.
    Skipped(Key),
}

impl Lookups {
    /// Creates the lookups of a worker. Another thread calls `wake` when [`Lookups::take`] has results.
    pub fn new(pool: Arc<Pool>, wake: impl Fn() + Send + Sync + 'static) -> Lookups {
        Lookups { pool, done: Arc::new(Done::new(wake)), under_way: HashMap::new(), ended: Vec::new(), is_told: false }
    }

    /// Starts or joins the lookup of a file for this exchange of this client. Returns [`Missing::Exhausted`] if too
    /// many lookups are waiting already.
    pub fn ask(&mut self, lookup: Box<Lookup>, asker: ExchangeId, client: u32) -> Result<(), Missing> {
        if let Some(askers) = self.under_way.get_mut(lookup.key()) {
            let mut waiting = lock(&askers.waiting);
            if waiting.lookup.is_none() {
                askers.late.insert(asker);
                askers.late_clients.insert(client);
                return Ok(());
            }
            waiting.is_wanted = true;
            drop(waiting);
            askers.first.insert(asker);
            if askers.clients.insert(client) {
                // If that queue is full, the lookup is still in another.
                let _ = run_for(&self.pool, &self.done, client, askers.device, &askers.waiting);
            }
            return Ok(());
        }
        self.begin(lookup, BTreeSet::from([client]), BTreeSet::from([asker])).map_err(|_| Missing::Exhausted)
    }

    /// Records that the exchange no longer wants an answer.
    pub fn leave(&mut self, key: &Key, asker: ExchangeId) {
        if let Some(askers) = self.under_way.get_mut(key) {
            askers.first.remove(&asker);
            askers.late.remove(&asker);
            if askers.first.is_empty() && askers.late.is_empty() {
                lock(&askers.waiting).is_wanted = false;
            }
        }
    }

    /// Returns the exchanges that wait for a lookup, and the time at which the lookup began.
    pub fn askers(&self) -> impl Iterator<Item = (ExchangeId, Nanos)> {
        self.under_way
            .values()
            .flat_map(|askers| askers.first.iter().chain(&askers.late).map(|asker| (*asker, askers.began_at)))
    }

    /// Returns the path of the slowest lookup if it has taken at least [`SLOW_AFTER`]. Returns no further path until no
    /// lookup is that slow.
    pub fn slow(&mut self, now: Nanos) -> Option<String> {
        let slow = self.under_way.iter().filter(|(_, askers)| now - askers.began_at >= SLOW_AFTER);
        let longest = slow.min_by_key(|(_, askers)| askers.began_at);
        let was_told = std::mem::replace(&mut self.is_told, longest.is_some());
        longest.filter(|_| !was_told).map(|(key, _)| String::from_utf8_lossy(key.raw_path()).into_owned())
    }

    /// Passes the lookups that ended since the last call to the cache, and adds the answers for their exchanges to
    /// `into`.
    pub fn take(&mut self, cache: &mut Cache, now: Nanos, into: &mut impl Extend<LookupResult>) {
        if self.under_way.is_empty() {
            return;
        }
        let mut ended = std::mem::take(&mut self.ended);
        self.done.take(&mut ended);
        if !ended.is_empty() {
            // Exchanges that asked late must see every change made before they asked.
            cache.on_change();
        }
        for done in ended.drain(..) {
            let key = match &done {
                Ended::Found(done) => done.key().clone(),
                Ended::Skipped(key) => key.clone(),
            };
            let Askers { first, mut clients, late, late_clients, .. } =
                self.under_way.remove(&key).expect("a lookup ends once");
            let Ended::Found(done) = done else {
                self.look_up(cache, &key, late_clients, late, now, into);
                continue;
            };
            match cache.finish(*done) {
                // The lookup begins only now.
                CacheAnswer::Offload(lookup) => {
                    clients.extend(late_clients);
                    self.begin_or_refuse(lookup, clients, &first | &late, into);
                }
                CacheAnswer::Ready(found) => {
                    tell(&found, first, into);
                    self.look_up(cache, &key, late_clients, late, now, into);
                }
            }
        }
        self.ended = ended;
    }

    fn look_up(
        &mut self,
        cache: &mut Cache,
        key: &Key,
        clients: BTreeSet<u32>,
        askers: BTreeSet<ExchangeId>,
        now: Nanos,
        into: &mut impl Extend<LookupResult>,
    ) {
        if askers.is_empty() {
            return;
        }
        match cache.lookup(key.site(), key.raw_path(), now) {
            CacheAnswer::Ready(found) => tell(&found, askers, into),
            CacheAnswer::Offload(lookup) => self.begin_or_refuse(lookup, clients, askers, into),
        }
    }

    fn begin_or_refuse(
        &mut self,
        lookup: Box<Lookup>,
        clients: BTreeSet<u32>,
        askers: BTreeSet<ExchangeId>,
        into: &mut impl Extend<LookupResult>,
    ) {
        if let Err(askers) = self.begin(lookup, clients, askers) {
            tell(&Err(Missing::Exhausted), askers, into);
        }
    }

    /// Starts a lookup. Returns the askers if the pool accepts no more lookups.
    fn begin(
        &mut self,
        lookup: Box<Lookup>,
        mut clients: BTreeSet<u32>,
        first: BTreeSet<ExchangeId>,
    ) -> Result<(), BTreeSet<ExchangeId>> {
        let (key, began_at, device) = (lookup.key().clone(), lookup.began_at(), lookup.device());
        let waiting = Arc::new(Mutex::new(Waiting { lookup: Some(lookup), is_wanted: true }));
        clients.retain(|&client| run_for(&self.pool, &self.done, client, device, &waiting).is_ok());
        if clients.is_empty() {
            return Err(first);
        }
        let (late, late_clients) = (BTreeSet::new(), BTreeSet::new());
        self.under_way.insert(key, Askers { began_at, device, waiting, first, clients, late, late_clients });
        Ok(())
    }
}

/// Puts a lookup into a client's queue.
fn run_for(
    pool: &Pool,
    done: &Arc<Done<Ended>>,
    client: u32,
    device: u64,
    waiting: &Arc<Mutex<Waiting>>,
) -> io::Result<()> {
    let (done, waiting) = (Arc::clone(done), Arc::clone(waiting));
    pool.run_for(client, device, Lane::Lookup, move || {
        let mut waiting = lock(&waiting);
        let (lookup, is_wanted) = (waiting.lookup.take(), waiting.is_wanted);
        drop(waiting);
        let Some(lookup) = lookup else { return };
        done.post(match is_wanted {
            true => Ended::Found(Box::new(lookup.run())),
            false => Ended::Skipped(lookup.key().clone()),
        });
    })
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().expect("no thread panics while it holds a lookup")
}

fn tell(found: &Result<Found, Missing>, askers: BTreeSet<ExchangeId>, into: &mut impl Extend<LookupResult>) {
    into.extend(askers.into_iter().map(|asker| (asker, found.clone())));
}
