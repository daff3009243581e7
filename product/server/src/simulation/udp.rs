//! The server's UDP socket.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use quic::Datagrams;

use super::datagrams::SERVER;
use super::world::World;
use crate::net::Shared;
use crate::udp::{Came, DatagramSocket, Left, Pieces};

/// The maximum number of datagrams in one call, as with the kernel.
const RECEIVED_AT_ONCE: usize = 8;

pub struct SimulatedUdp {
    world: Rc<RefCell<World>>,
}

impl SimulatedUdp {
    /// Returns `None` if no client uses HTTP/3.
    #[expect(clippy::arc_with_non_send_sync, reason = "a worker shares it with its connections alone, as the kernel's")]
    pub fn of(world: &Rc<RefCell<World>>) -> Option<Arc<SimulatedUdp>> {
        let has_clients = world.borrow().plan.http3.is_some();
        has_clients.then(|| Arc::new(SimulatedUdp { world: Rc::clone(world) }))
    }
}

impl fmt::Debug for SimulatedUdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated socket for datagrams")
    }
}

impl DatagramSocket for SimulatedUdp {
    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(SERVER)
    }

    fn control_priority(&self) -> u32 {
        0
    }

    fn number(&self) -> u64 {
        u64::MAX - 10
    }

    fn send(&self, datagrams: &mut Datagrams, _: u32) -> (Left, io::Result<()>) {
        let mut world = self.world.borrow_mut();
        world.enter();
        let mut left = Left::default();
        while let Some(datagram) = datagrams.first() {
            if !world.take_datagram_down(datagram.to, datagram.bytes) {
                return (left, Err(io::ErrorKind::WouldBlock.into()));
            }
            left = Left { datagrams: left.datagrams + 1, bytes: left.bytes + datagram.bytes.len() as u64 };
            datagrams.advance();
        }
        (left, Ok(()))
    }

    fn receive(&self, _: &mut Pieces, mut each: impl FnMut(Came<'_>)) -> bool {
        let mut world = self.world.borrow_mut();
        world.enter();
        let inbox = &mut world.peers.datagrams.inbox;
        let came: Vec<_> = inbox.drain(..inbox.len().min(RECEIVED_AT_ONCE)).collect();
        drop(world);
        let to = Some(SERVER.ip());
        came.iter().for_each(|(from, bytes)| each(Came { from: *from, to, ecn: None, bytes }));
        came.len() == RECEIVED_AT_ONCE
    }

    fn has_room(&self) -> bool {
        self.world.borrow_mut().has_datagram_room()
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        Some(self.world.borrow().peers.datagrams.queued_bytes as u64)
    }

    fn shared(_: &Arc<SimulatedUdp>) -> Option<Shared> {
        None
    }
}
