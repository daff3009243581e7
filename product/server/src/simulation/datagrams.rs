//! Datagrams between the server and clients of HTTP/3: some are lost, some overtake others, and no queue on their way is without an end.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::event::epoll::EventFlags;
use units::Nanos;

use super::client::Http3;
use super::random::Random;
use super::wire::{Link, Stop};
use super::world::{Event, World};
use crate::poll::Ready;

pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 255, 2)), 443);
/// Of the first client; the others follow.
const PORT: u16 = 20_000;
/// What would wait longer on its way is lost.
const WAITS_MAX: Nanos = Nanos::from_secs(2);
/// Datagrams that the server's kernel keeps for it.
const INBOX_MAX: usize = 2_000;
/// Room that comes of itself is there so soon.
const ROOM_AFTER: Nanos = Nanos::from_millis(1);

/// What happens to datagrams, and to those who send them.
#[derive(Debug, PartialEq)]
pub enum Passing {
    /// It has arrived at the server.
    Up { client: usize, bytes: Vec<u8> },
    /// It has arrived at its client.
    Down { client: usize, bytes: Vec<u8> },
    /// So much has left the server's socket.
    Departure { bytes: usize },
    /// There is room again.
    Room,
    /// A client begins, or acts again.
    Act { client: usize },
}

/// The way of one client.
#[derive(Debug, Clone, Copy)]
struct Way {
    delay: Nanos,
    rate_bytes_per_s: u64,
    /// Until then it carries what was given before.
    down_until: Nanos,
    up_until: Nanos,
}

/// The server's socket, and its clients.
#[derive(Default)]
pub struct Datagrams {
    /// Arrived, and not read.
    pub inbox: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Under which its readiness is announced, and of what.
    pub heard: Option<(u64, EventFlags)>,
    /// In the socket, on their way down.
    pub queued_bytes: usize,
    /// There is no room whatever is queued, for a moment.
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

    fn along(link: Link) -> Way {
        let Link { delay, rate_bytes_per_s, .. } = link;
        Way { delay, rate_bytes_per_s, down_until: Nanos::ZERO, up_until: Nanos::ZERO }
    }

    /// When what is given now is through, and from when on the way is free; `None` where too much waits.
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
    /// Clients of HTTP/3 begin as the others do.
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

    /// What epoll would say of the server's socket, again and again as long as it is so.
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
        // As sock_writeable.
        !is_short && queued_bytes < most / 2
    }

    /// The server sends; false where there is no room.
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
        let leaves_at = self.uplink_leaves_at(bytes.len());
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

    /// How much later than others a datagram arrives; `None` where it does not.
    fn passes(&mut self, bytes: usize) -> Option<Nanos> {
        let plan = self.plan.http3?;
        let late_by = Nanos(self.random.below(plan.jitter_max.0 + 1));
        let is_lost = self.random.below(1_000) < plan.lost_permille;
        (!is_lost && bytes <= plan.payload_bytes_max).then_some(late_by)
    }

    pub fn on_datagram(&mut self, passing: Passing) {
        match passing {
            Passing::Up { client, bytes } => {
                let from = SocketAddr::from(([198, 18, 200, client as u8 + 1], PORT + client as u16));
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

    /// A client takes a datagram, if one has come, and does what it can.
    fn act_http3(&mut self, number: usize, came: Option<&[u8]>) {
        let Some(mut client) = self.peers.datagrams.clients[number].take() else { return };
        if !client.is_done {
            let stop = self.peers.datagrams.stop;
            let acted = client.act(self.now, came, stop, &self.site, &mut self.random);
            while let Some(datagram) = client.say(self.now) {
                self.take_datagram_up(number, datagram);
            }
            // What was sent may have to be sent again.
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

    /// For the server's QUIC.
    pub fn seed(&self) -> [u8; 32] {
        quic_seed(&mut Random::new(!self.plan.http3.map_or(0, |http3| http3.seed)))
    }
}

/// WEIR_SHOW of the first of them.
const SHOWN_FROM: usize = 1_000;

pub fn quic_seed(random: &mut Random) -> [u8; 32] {
    let mut seed = [0; 32];
    seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.word().to_le_bytes()));
    seed
}
