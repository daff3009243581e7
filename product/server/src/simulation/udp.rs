//! No datagrams yet: no listener of the simulation has a socket for them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quic::Datagrams;

use crate::transmit::Shared;
use crate::udp::{Came, DatagramSocket, Left, Pieces};

#[derive(Debug)]
pub enum SimulatedUdp {}

impl DatagramSocket for SimulatedUdp {
    fn local_address(&self) -> io::Result<SocketAddr> {
        match *self {}
    }

    fn control_priority(&self) -> u32 {
        match *self {}
    }

    fn number(&self) -> u64 {
        match *self {}
    }

    fn send(&self, _: &mut Datagrams, _: u32) -> (Left, io::Result<()>) {
        match *self {}
    }

    fn receive(&self, _: &mut Pieces, _: impl FnMut(Came<'_>)) -> bool {
        match *self {}
    }

    fn has_room(&self) -> bool {
        match *self {}
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        match *self {}
    }

    fn shared(this: &Arc<SimulatedUdp>) -> Option<Shared> {
        match **this {}
    }
}
