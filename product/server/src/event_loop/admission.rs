//! Decides which connections and requests are admitted, and which idle connections are closed for them. The functions
//! return lines for the error log that report refusals to the operator.

use std::net::IpAddr;
use std::sync::Arc;

use sched::Scheduler;
use sched::policy::ClientTraits;
use units::Nanos;
use units::memory::Account;

use super::known_clients::KnownClients;
use super::longest_idle::Idle;
use super::shortage::{self, Shortage};
use crate::clients::{Busy, Client, ClientWeights, Clients, Column, NetworkList, Refusal};
use crate::clock::ClientTime;
use crate::connection::{Connection, Connections};
use crate::connection_places::Places;
use crate::limits::Limits;
use crate::net::Socket;

pub struct Admission {
    /// The number of this worker among those that share places and clients.
    worker: usize,
    places: Arc<Places>,
    clients: Arc<Clients>,
    weights: ClientWeights,
    /// The proxies whose connections carry many clients and are not limited in number.
    pub(super) trusted_proxies: NetworkList,
    /// True if no connection is closed for a newcomer.
    holds_places: bool,
    known: KnownClients,
    idle: Idle,
    /// The maximum number of open streams over all connections: the maximum number of jobs, minus one job per
    /// connection.
    streams_max: usize,
    pub(super) shortage: Shortage,
    /// The account of the connections' memory.
    memory: Account,
}

/// A client whose connection was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admitted {
    /// The index of the client's account.
    pub client: u32,
    /// The weight and network of the client, if the client is new under this index.
    pub traits: Option<ClientTraits>,
}

/// What happens to a client that found no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The client waits, because another worker may soon free a place.
    Wait,
    Refused,
}

impl Admission {
    /// Creates the admission control of a worker whose connections may use `memory_bytes_max` bytes.
    pub fn new(
        worker: usize,
        places: Arc<Places>,
        clients: Arc<Clients>,
        memory_bytes_max: u64,
        limits: &Limits,
    ) -> Admission {
        Admission {
            worker,
            streams_max: sched::JOBS_MAX.saturating_sub(places.max()),
            shortage: Shortage::default(),
            memory: Account::of_at_most(memory_bytes_max),
            places,
            clients,
            weights: limits.client_weights.clone(),
            trusted_proxies: limits.trusted_proxies.clone(),
            holds_places: limits.holds_places,
            known: KnownClients::default(),
            idle: Idle::default(),
        }
    }

    /// Applies new limits from now on. Admitted connections stay.
    pub(super) fn adopt(&mut self, memory_bytes_max: u64, limits: &Limits) {
        self.streams_max = sched::JOBS_MAX.saturating_sub(self.places.max());
        self.memory.set_bytes_max(memory_bytes_max);
        self.trusted_proxies = limits.trusted_proxies.clone();
        self.weights = limits.client_weights.clone();
    }

    /// Takes a place for a connection. Returns false if there is none. Otherwise, [`Admission::enter`] or
    /// [`Admission::give_back_place`] must follow.
    pub(super) fn take_place(&self) -> bool {
        self.places.take()
    }

    pub(super) fn give_back_place(&self) {
        self.places.give_back();
    }

    /// The account of the connections' memory.
    pub(super) fn memory(&self) -> &Account {
        &self.memory
    }

    /// Returns true if hardly any memory is left for connections.
    pub(super) fn is_memory_short(&self) -> bool {
        shortage::is_near(&self.memory)
    }

    pub(super) fn has_room(&self) -> bool {
        !self.is_memory_short() && self.places.has_room()
    }

    /// Returns true if a client is waiting for a place at any worker.
    pub(super) fn is_place_wanted(&self) -> bool {
        self.places.is_wanted() && !self.places.has_room()
    }

    /// Records that a client waits for a place at this worker.
    pub(super) fn wait_for_place(&self) {
        self.places.wait(self.worker);
    }

    pub(super) fn wait_no_more(&self) {
        self.places.wait_no_more(self.worker);
    }

    /// Decides what happens to a client that found no place and cannot wait in a listening socket's queue.
    pub(super) fn without_place(&self) -> NoPlace {
        if self.places.workers() > 1 && !self.holds_places { NoPlace::Wait } else { NoPlace::Refused }
    }

    /// Returns the idle connection to close next, and its deadline when it was found idle.
    pub(super) fn next_idle(
        &mut self,
        now: Nanos,
        connections: &Connections<impl Socket>,
    ) -> Option<(u64, ClientTime)> {
        if self.holds_places { None } else { self.idle.next(now, connections) }
    }

    /// Returns the time at which a waiting client may find a place.
    pub(super) fn room_at(&self) -> Option<Nanos> {
        (self.is_place_wanted() && !self.holds_places).then_some(self.idle.next_look_at())
    }

    /// Returns a line for the error log stating that all places are taken, if one is due.
    pub(super) fn on_full(&self, now: Nanos) -> Option<String> {
        let consequence = if self.holds_places {
            "new clients wait"
        } else {
            "a new client replaces the longest idle one, or waits; raise --connections (server.connections) or ulimit -n"
        };
        self.places.tell(now).then(|| format!("all {} connections are in use: {consequence}", self.places.max()))
    }

    /// Assigns a newcomer that has a place to its client's account. If the client has reached its limit of connections,
    /// gives the place back; the error contains a log line if one is due.
    pub(super) fn enter(&mut self, now: Nanos, address: IpAddr) -> Result<Admitted, Option<String>> {
        if self.trusted_proxies.contain(address) {
            return Ok(self.enter_account(now, address));
        }
        match self.clients.enter(address, now) {
            Ok(client) => Ok(self.admitted(client, address)),
            Err(refusal) => {
                self.places.give_back();
                Err(refusal.notice)
            }
        }
    }

    /// Moves a connection to another client's account. If that client has reached its limit of connections, the error
    /// contains a log line if one is due.
    pub(super) fn change(&mut self, now: Nanos, client: u32, address: IpAddr) -> Result<Admitted, Option<String>> {
        let admitted = if self.trusted_proxies.contain(address) {
            self.enter_account(now, address)
        } else {
            let entered = self.clients.enter(address, now).map_err(|refusal| refusal.notice)?;
            self.admitted(entered, address)
        };
        self.leave_account(now, client);
        Ok(admitted)
    }

    /// Returns the account of a client that needs no place of its own, because it comes through a proxy.
    pub(super) fn enter_account(&mut self, now: Nanos, address: IpAddr) -> Admitted {
        let client = self.clients.enter_unbounded(address, now);
        self.admitted(client, address)
    }

    fn admitted(&mut self, client: Client, address: IpAddr) -> Admitted {
        let traits = self.known.is_new(client).then(|| self.traits_of(address));
        Admitted { client: client.index, traits }
    }

    fn traits_of(&self, address: IpAddr) -> ClientTraits {
        ClientTraits { weight: self.weights.of(address), network: self.clients.network_of(address) }
    }

    /// Registers the clients of open connections and requests with a new scheduler. Other clients are registered when
    /// they come back.
    pub(super) fn introduce_again(&mut self, connections: &Connections<impl Socket>, scheduler: &mut Scheduler) {
        let mut clients: Vec<(u32, IpAddr)> = connections.iter().flat_map(|(_, conn)| clients_of(conn)).collect();
        clients.sort_unstable();
        clients.dedup_by_key(|(client, _)| *client);
        self.known.keep_introduced(clients.iter().map(|(client, _)| *client));
        clients.into_iter().for_each(|(client, address)| scheduler.on_client_again(client, self.traits_of(address)));
    }

    /// Records that a connection has ended. After a client's last connection, its index may be reused for another
    /// client.
    pub(super) fn leave(&mut self, now: Nanos, client: u32) {
        self.leave_account(now, client);
        self.places.give_back();
    }

    /// Releases an account that [`Admission::enter_account`] returned.
    pub(super) fn leave_account(&mut self, now: Nanos, client: u32) {
        let bytes = self.known.take_bytes(client);
        self.clients.leave(client, bytes, now);
    }

    /// The number of workers that share the places.
    pub(super) fn workers(&self) -> usize {
        self.places.workers()
    }

    /// Returns whether a connection from this address would displace another one, or would leave its client only few
    /// more. In that case the address must be validated.
    pub(super) fn is_scarce(&self, address: IpAddr) -> bool {
        !self.places.has_room() || self.clients.has_half(address)
    }

    /// Counts a request of a client against its limits.
    pub(super) fn on_request(&self, now: Nanos, client: u32) -> Result<(), Refusal> {
        self.clients.on_request(client, now)
    }

    /// Undoes the count of a request that will be counted again.
    pub(super) fn on_postponed(&self, client: u32) {
        self.clients.on_postponed(client);
    }

    /// Adds `bytes` to the bytes sent to a client.
    pub(super) fn spend(&mut self, client: u32, bytes: u64) {
        self.known.add(client, bytes);
    }

    /// Adds the bytes sent to a client, including `bytes_under_way` of responses in progress, to its account.
    pub(super) fn book(&mut self, now: Nanos, client: u32, bytes_under_way: u64) {
        let bytes = self.known.take_bytes(client) + bytes_under_way;
        if bytes > 0 {
            self.clients.on_bytes(client, bytes, now);
        }
    }

    /// Returns a line about refusals if one is due. Called about once a second, until it returns `None`.
    pub(super) fn notice(&self, now: Nanos) -> Option<String> {
        self.clients.notice(now)
    }

    /// Returns lines about the busiest clients, if they were requested. Each has the bytes by which the client is ahead
    /// of its share, if those are tracked.
    pub(super) fn busiest(&self, now: Nanos, ahead_bytes: impl Fn(u32) -> Option<u64>) -> Vec<String> {
        if !self.clients.take_asked() {
            return Vec::new();
        }
        let ahead = |one: &Busy| ahead_bytes(one.client.index).unwrap_or(0).to_string();
        let columns: &[Column] = if ahead_bytes(0).is_some() { &[("ahead", &ahead)] } else { &[] };
        self.clients.lines(now, columns)
    }

    /// Returns the reason why no further request can be admitted: too many streams are open, or memory is full. `None`
    /// if one can be.
    pub(super) fn why_full(&self, open_streams: usize) -> Option<String> {
        if open_streams >= self.streams_max {
            return Some(format!("{} other requests are open", self.streams_max));
        }
        shortage::is_full(&self.memory).then(|| format!("others hold {} MB of memory", self.memory.bytes() >> 20))
    }
}

#[cfg(test)]
impl Admission {
    pub(super) fn clients(&self) -> &Clients {
        &self.clients
    }

    pub fn set_streams_max(&mut self, max: usize) {
        self.streams_max = max;
    }
}

/// Returns the client of a connection, and the clients of requests that a proxy has passed on over it.
fn clients_of(conn: &Connection<impl Socket>) -> impl Iterator<Item = (u32, IpAddr)> {
    let origins = conn.peer.origins.iter().flat_map(|origins| &origins.requests);
    origins.map(|(_, origin)| (origin.client, origin.address)).chain([(conn.client, conn.peer.address)])
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use units::memory::Charge;

    use super::*;
    use crate::wake::Wake;

    const NOW: Nanos = Nanos::from_secs(5);

    fn admission(places: usize, limits: &Limits) -> Admission {
        let places = Places::new(places, &[Arc::new(Wake::new().unwrap())]);
        let clients = Clients::new(limits.clients(places.max()));
        Admission::new(0, Arc::new(places), Arc::new(clients), u64::MAX, limits)
    }

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    #[test]
    fn a_client_with_as_many_connections_as_it_may_have_gives_its_place_back() {
        let limits = Limits { client_connections_max: Some(1), ..Limits::default() };
        let mut admission = admission(2, &limits);
        assert!(admission.take_place());
        let first = admission.enter(NOW, address(1)).unwrap();
        assert!(first.traits.is_some(), "its account begins");
        assert!(admission.take_place() && !admission.has_room());
        let notice = admission.enter(NOW, address(1)).unwrap_err().unwrap();
        assert!(notice.starts_with("refused 1 connection"), "{notice}");
        assert!(admission.has_room() && admission.take_place());
        let other = admission.enter(NOW, address(2)).unwrap();
        assert_ne!(first.client, other.client);
        admission.leave(NOW, first.client);
        assert!(admission.take_place());
        let again = admission.enter(NOW, address(1)).unwrap();
        assert_eq!((again.client, again.traits), (first.client, None), "it was there before");
    }

    #[test]
    fn what_was_sent_is_booked_with_what_is_under_way_and_once() {
        let mut admission = admission(2, &Limits::default());
        assert!(admission.take_place());
        let client = admission.enter(NOW, address(1)).unwrap().client;
        admission.spend(client, 1000);
        admission.book(NOW, client, 24);
        admission.book(NOW, client, 0);
        assert_eq!(admission.clients().busiest(NOW)[0].bytes, 1024);
        admission.clients().ask_lines();
        assert!(!admission.busiest(NOW, |_| None).is_empty());
        assert!(admission.busiest(NOW, |_| None).is_empty(), "once");
    }

    #[test]
    fn when_all_places_are_taken_idle_connections_give_way_unless_they_hold_theirs() {
        let mut gives_way = admission(1, &Limits::default());
        let mut holds = admission(1, &Limits { holds_places: true, ..Limits::default() });
        for (admission, end) in [(&mut gives_way, "ulimit -n"), (&mut holds, "new clients wait")] {
            assert!(admission.take_place() && !admission.take_place());
            assert!(admission.on_full(NOW).unwrap().ends_with(end));
            assert_eq!((admission.on_full(NOW), admission.is_place_wanted()), (None, false));
            admission.wait_for_place();
            assert!(admission.is_place_wanted());
        }
        assert!(gives_way.room_at().is_some() && holds.room_at().is_none());
        gives_way.wait_no_more();
        assert!(gives_way.room_at().is_none());
    }

    #[test]
    fn streams_are_bounded_by_jobs_and_by_memory() {
        let mut admission = admission(2, &Limits::default());
        admission.set_streams_max(2);
        assert_eq!(admission.why_full(1), None);
        assert_eq!(admission.why_full(2).unwrap(), "2 other requests are open");
        admission.set_streams_max(1000);
        assert_eq!(admission.why_full(2), None);
        let _held = Charge::new(&admission.memory().part(), 1 << 10);
        admission.memory().set_bytes_max(1 << 10);
        assert!(admission.why_full(2).unwrap().ends_with("of memory"));
    }
}
