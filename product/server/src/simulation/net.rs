//! The simulated world as a worker sees it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use units::Nanos;

use super::wire::SEGMENT_BYTES;
use super::world::{EVENTS_MAX, World};
use crate::net::{Net, Source};
use crate::net::{Sink, Status, Stream};
use crate::poll::Ready;
use crate::upstream::Endpoint;

/// The beginning of the simulation, since 1970.
const BEGAN_AT: Duration = Duration::from_secs(1_700_000_000);
/// The maximum number of bytes of a file that one `sendfile` call takes.
const FILE_BYTES_MAX: usize = 256 << 10;

pub struct SimulatedNet {
    world: Rc<RefCell<World>>,
    ready: VecDeque<Ready>,
    reports: u64,
}

pub struct SimulatedTcp {
    world: Rc<RefCell<World>>,
    at: usize,
}

impl SimulatedNet {
    pub fn of(world: &Rc<RefCell<World>>) -> SimulatedNet {
        SimulatedNet { world: Rc::clone(world), ready: VecDeque::new(), reports: 0 }
    }
}

impl fmt::Debug for SimulatedNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated net")
    }
}

impl fmt::Debug for SimulatedTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated connection {}", self.at)
    }
}

impl Net for SimulatedNet {
    type Listener = usize;
    type Tcp = SimulatedTcp;
    type Udp = super::udp::SimulatedUdp;

    fn now(&self) -> Nanos {
        self.world.borrow().now
    }

    fn date(&self) -> SystemTime {
        UNIX_EPOCH + BEGAN_AT + Duration::from(self.now())
    }

    fn seed(&self) -> Option<[u8; 32]> {
        Some(self.world.borrow().seed())
    }

    fn add(&self, source: Source<'_, SimulatedNet>, token: u64, flags: EventFlags) -> io::Result<()> {
        let mut world = self.world.borrow_mut();
        match source {
            Source::Wake(_) => world.readiness.wake_token = token,
            Source::Files(_) => {}
            Source::Listener(listener) => world.listeners.announce(*listener, Some(token)),
            Source::Tcp(socket) => {
                world.wires[socket.at].server.token = Some(token);
                world.mark(socket.at);
            }
            Source::Udp(_) => world.peers.datagrams.heard = Some((token, flags)),
        }
        Ok(())
    }

    fn modify(&self, source: Source<'_, SimulatedNet>, token: u64, flags: EventFlags) -> io::Result<()> {
        if let Source::Udp(_) = source {
            self.world.borrow_mut().peers.datagrams.heard = Some((token, flags));
        }
        Ok(())
    }

    fn remove(&self, source: Source<'_, SimulatedNet>) -> io::Result<()> {
        if let Source::Listener(listener) = source {
            self.world.borrow_mut().listeners.announce(*listener, None);
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        if self.ready.is_empty() {
            self.world.borrow_mut().wait(timeout, &mut self.ready);
            self.reports += u64::from(self.ready.len() < EVENTS_MAX);
        }
        Ok(())
    }

    fn left(&self) -> usize {
        self.ready.len()
    }

    fn is_left(&self, token: u64) -> bool {
        self.ready.iter().any(|ready| ready.token == token)
    }

    fn reports(&self) -> u64 {
        self.reports
    }

    fn take(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    fn accept(&self, listener: &usize) -> Result<(SimulatedTcp, Option<SocketAddr>), Errno> {
        let mut world = self.world.borrow_mut();
        world.enter();
        if !world.listeners.has_waiting(*listener) {
            return Err(Errno::AGAIN);
        }
        if world.plan.has_socket_faults && world.random.once_in(20) {
            return Err(world.random.one_of(&[Errno::MFILE, Errno::CONNABORTED, Errno::NOBUFS]));
        }
        let at = world.listeners.accept(*listener).ok_or(Errno::AGAIN)?;
        let peer = world.wires[at].peer;
        Ok((SimulatedTcp { world: Rc::clone(&self.world), at }, Some(peer)))
    }

    fn is_client_waiting<'a>(&self, mut listeners: impl Iterator<Item = &'a usize>) -> bool {
        let world = self.world.borrow();
        listeners.any(|listener| world.listeners.has_waiting(*listener))
    }

    fn refuse(&self, listener: &usize) {
        let mut world = self.world.borrow_mut();
        world.listeners.refuse(*listener).into_iter().for_each(|at| world.reset_client(at));
    }

    fn connect(&self, to: &Endpoint) -> io::Result<SimulatedTcp> {
        let at = self.world.borrow_mut().open_upstream(to)?;
        Ok(SimulatedTcp { world: Rc::clone(&self.world), at })
    }
}

impl Stream for SimulatedTcp {
    fn receive(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.world.borrow_mut().read(self.at, into)
    }

    fn acknowledge(&self) {
        self.world.borrow_mut().enter();
    }

    fn segments(&self) -> Option<(u32, bool)> {
        Some((SEGMENT_BYTES, true))
    }

    fn status(&self) -> Status {
        let world = self.world.borrow();
        world.wires[self.at].status(world.now)
    }

    fn has_room(&self) -> bool {
        let mut world = self.world.borrow_mut();
        let wire = &mut world.wires[self.at];
        let has_room = wire.server.has_reset || wire.has_room();
        wire.server.waits_for_room |= !has_room;
        world.show(self.at, || format!("has room: {has_room}"));
        has_room
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        Some(0)
    }

    fn set_priority(&self, _: u32) {}
}

impl Sink for SimulatedTcp {
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        self.world.borrow_mut().write(self.at, bytes, more)
    }

    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.send(&all, more)
    }

    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize> {
        let mut bytes = vec![0; count.min(FILE_BYTES_MAX)];
        let read = file.read_at(&mut bytes, offset)?;
        if read == 0 { Ok(0) } else { self.send(&bytes[..read], false) }
    }

    fn cork(&self, is_corked: bool) {
        self.world.borrow_mut().cork(self.at, is_corked);
    }

    fn take_all(&self) {
        self.world.borrow_mut().wires[self.at].link.unsent_bytes_max = usize::MAX;
    }

    fn reset(&self) {
        self.world.borrow_mut().wires[self.at].server.ends_with_reset = true;
    }

    fn finish(&self) {
        let mut world = self.world.borrow_mut();
        world.wires[self.at].down.is_ended = true;
        world.pump_down(self.at);
        // Both directions may have ended now.
        if world.wires[self.at].server.has_fin {
            world.mark(self.at);
        }
    }
}

impl Drop for SimulatedTcp {
    fn drop(&mut self) {
        if let Ok(mut world) = self.world.try_borrow_mut() {
            world.close(self.at);
        }
    }
}
