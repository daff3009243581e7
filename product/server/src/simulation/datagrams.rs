//! The datagrams between the server and HTTP/3 clients. Some are lost, some overtake others, and every queue on the
//! path is bounded.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::event::epoll::EventFlags;
use units::Nanos;

use super::client::Http3;
use super::random::Random;
use super::wire::{Stop, WireSettings};
use super::world::{Event, World};
use crate::poll::Ready;

pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 255, 2)), 443);
/// The port of the first client; the other clients have the ports that follow.
const PORT: u16 = 20_000;
/// The maximum time in a queue on the path; a datagram that would wait longer is lost.
const WAITS_MAX: Nanos = Nanos::from_secs(2);
/// The maximum number of datagrams that the server's kernel queues for it.
const INBOX_MAX: usize = 2_000;
/// The time after which room becomes available by itself.
const ROOM_AFTER: Nanos = Nanos::from_millis(1);

/// Events of datagrams and their senders.
#[derive(Debug, PartialEq)]
pub enum Passing {
    /// The datagram has arrived at the server.
    Up { client: usize, bytes: Vec<u8> },
    /// The datagram has arrived at its client.
    Down { client: usize, bytes: Vec<u8> },
    /// This many bytes have left the server's socket.
    Departure { bytes: usize },
    /// The server's socket has room again.
    Room,
    /// A client starts, or acts again.
    Act { client: usize },
}

/// The path of one client.
#[derive(Debug, Clone, Copy)]
struct Way {
    delay: Nanos,
    rate_bytes_per_s: u64,
    /// The time until which the path is busy with earlier datagrams to the client.
    down_until: Nanos,
    up_until: Nanos,
}

/// The server's socket, and its clients.
#[derive(Default)]
pub struct Datagrams {
    /// The datagrams that have arrived and were not read yet.
    pub inbox: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The token under which the socket's readiness is announced, and the events.
    pub heard: Option<(u64, EventFlags)>,
    /// The bytes in the socket, on their way down.
    pub queued_bytes: usize,
    /// True while the socket has no room, whatever is queued.
    is_short: bool,
    pub clients: Vec<Option<Http3>>,
    ways: Vec<Way>,
    pub stop: Option<Stop>,
}

impl Way {
    fn of(random: &mut Random) -> Way {
        Way {
            delay: random.micros(20, 100_000),
            rate_bytes_per_s: random.one_of(&[20_000, 200_000, 2_000_000, 100_000_000]),
            down_until: Nanos::ZERO,
            up_until: Nanos::ZERO,
        }
    }

    fn along(link: WireSettings) -> Way {
        let WireSettings { delay, rate_bytes_per_s, .. } = link;
        Way { delay, rate_bytes_per_s, down_until: Nanos::ZERO, up_until: Nanos::ZERO }
    }

    /// Returns the time at which a datagram sent now has passed, and the path is free again; `None` if too much waits
    /// already.
    fn carry(&self, now: Nanos, until: Nanos, bytes: usize) -> Option<Nanos> {
        let through_at = until.max(now) + Nanos(bytes as u64 * 1_000_000_000 / self.rate_bytes_per_s);
        (through_at <= now + WAITS_MAX).then_some(through_at)
    }
}

impl Datagrams {
    pub fn are_done(&self) -> bool {
        self.clients.iter().flatten().all(|client| client.is_done)
    }

    pub fn answered(&self) -> u64 {
        self.clients.iter().flatten().map(|client| client.answered).sum()
    }

    pub fn asked(&self) -> u64 {
        self.clients.iter().flatten().map(|client| client.asked).sum()
    }
}

impl World {
    /// Starts the HTTP/3 clients at random times, as other clients are started.
    pub fn begin_datagrams(&mut self) {
        let Some(plan) = self.plan.http3 else { return };
        let random = &mut Random::new(plan.seed);
        for client in 0..plan.clients {
            let at = self.now + Nanos::from_millis(random.below(self.plan.arrivals_over.0 / 1_000_000));
            self.peers.datagrams.clients.push(Some(Http3::new(&self.plan, &self.site, random)));
            self.peers.datagrams.ways.push(self.plan.link.map_or_else(|| Way::of(random), Way::along));
            self.schedule(at, Event::Datagram(Passing::Act { client }));
        }
    }

    /// Returns the readiness that epoll would report for the server's socket (level-triggered).
    pub fn ready_datagrams(&mut self) -> Option<Ready> {
        let (token, wanted) = self.peers.datagrams.heard?;
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !self.peers.datagrams.inbox.is_empty());
        flags.set(EventFlags::OUT, self.has_datagram_room());
        let flags = flags & wanted;
        (!flags.is_empty()).then_some(Ready { token, flags })
    }

    pub fn has_datagram_room(&self) -> bool {
        let most = self.plan.http3.map_or(0, |http3| http3.buffer_bytes);
        let Datagrams { is_short, queued_bytes, .. } = self.peers.datagrams;
        // As `sock_writeable` in the kernel.
        !is_short && queued_bytes < most / 2
    }

    /// Takes a datagram that the server sends. Returns false if there is no room.
    pub fn take_datagram_down(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        let Some(plan) = self.plan.http3 else { return true };
        let datagrams = &mut self.peers.datagrams;
        if datagrams.is_short || datagrams.queued_bytes >= plan.buffer_bytes {
            return false;
        }
        if self.plan.has_socket_faults && self.random.once_in(50) {
            datagrams.is_short = true;
            let at = self.now + ROOM_AFTER;
            self.schedule(at, Event::Datagram(Passing::Room));
            return false;
        }
        self.note(bytes.len() as u64);
        let client = usize::from(to.port() - PORT);
        let is_local = client < self.plan.local_clients;
        let leaves_at = if is_local { self.now } else { self.uplink_leaves_at(bytes.len()) };
        self.peers.datagrams.queued_bytes += bytes.len();
        self.schedule(leaves_at, Event::Datagram(Passing::Departure { bytes: bytes.len() }));
        let way = &mut self.peers.datagrams.ways[client];
        let Some(through_at) = way.carry(leaves_at, way.down_until, bytes.len()) else { return true };
        way.down_until = through_at;
        let arrives_at = through_at + way.delay;
        if let Some(late_by) = self.passes(bytes.len()) {
            self.schedule(arrives_at + late_by, Event::Datagram(Passing::Down { client, bytes: bytes.into() }));
        }
        true
    }

    fn take_datagram_up(&mut self, client: usize, bytes: Vec<u8>) {
        let now = self.now;
        let way = &mut self.peers.datagrams.ways[client];
        let Some(through_at) = way.carry(now, way.up_until, bytes.len()) else { return };
        way.up_until = through_at;
        let arrives_at = through_at + way.delay;
        if let Some(late_by) = self.passes(bytes.len()) {
            self.schedule(arrives_at + late_by, Event::Datagram(Passing::Up { client, bytes }));
        }
    }

    /// Returns the extra delay of a datagram; `None` if it is lost.
    fn passes(&mut self, bytes: usize) -> Option<Nanos> {
        let plan = self.plan.http3?;
        let late_by = Nanos(self.random.below(plan.jitter_max.0 + 1));
        let is_lost = self.random.below(1_000) < plan.lost_permille;
        (!is_lost && bytes <= plan.payload_bytes_max).then_some(late_by)
    }

    pub fn on_datagram(&mut self, passing: Passing) {
        match passing {
            Passing::Up { client, bytes } => {
                let [first, second] = self.plan.network_of(client);
                let from = SocketAddr::from(([first, second, 200, client as u8 + 1], PORT + client as u16));
                if self.peers.datagrams.inbox.len() < INBOX_MAX {
                    self.peers.datagrams.inbox.push_back((from, bytes));
                }
            }
            Passing::Down { client, bytes } => self.act_http3(client, Some(&bytes)),
            Passing::Act { client } => self.act_http3(client, None),
            Passing::Departure { bytes } => self.peers.datagrams.queued_bytes -= bytes,
            Passing::Room => self.peers.datagrams.is_short = false,
        }
    }

    /// Makes a client receive a datagram, if one has arrived, and act as far as possible now.
    fn act_http3(&mut self, number: usize, came: Option<&[u8]>) {
        let Some(mut client) = self.peers.datagrams.clients[number].take() else { return };
        if !client.is_done {
            let stop = self.peers.datagrams.stop;
            let acted = client.act(self.now, came, stop, &self.site, &mut self.random);
            while let Some(datagram) = client.say(self.now) {
                self.take_datagram_up(number, datagram);
            }
            // Sent data may have to be retransmitted.
            match acted.and_then(|()| client.acts_again_at(self.now)) {
                Ok(Some(again_at)) => self.wake(again_at, Event::Datagram(Passing::Act { client: number })),
                Ok(None) => {}
                Err(why) => self.fail(format!("client {number} of HTTP/3 ({}): {why}", client.describe())),
            }
            self.note(client.heard_bytes);
            if self.outcome.shown == Some(number + SHOWN_FROM) {
                println!("{:.6} {}", self.now.as_secs_f64(), client.describe());
            }
        }
        self.peers.datagrams.clients[number] = Some(client);
    }

    /// The seed of the server's QUIC.
    pub fn seed(&self) -> [u8; 32] {
        quic_seed(&mut Random::new(!self.plan.http3.map_or(0, |http3| http3.seed)))
    }
}

/// The value of WEIR_SHOW for the first HTTP/3 client.
const SHOWN_FROM: usize = 1_000;

pub fn quic_seed(random: &mut Random) -> [u8; 32] {
    let mut seed = [0; 32];
    seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.word().to_le_bytes()));
    seed
}
