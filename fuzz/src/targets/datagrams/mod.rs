//! Datagrams to an endpoint without connections: raw bytes, sealed Initial packets with any frames, a ClientHello with
//! any transport parameters, and any of these cut, changed, joined or repeated. `choice`, then operations.
//!
//! Clients that have not validated their addresses are sent at most three times as much as they sent (RFC 9000 section
//! 8.1). The limit is for all of them together, because quinn-proto counts for a connection all bytes with its ID, from
//! any address, and begins a datagram while any allowance is left.

mod initial;
mod peer;
mod seeds;

use units::Nanos;

use crate::{Input, Reached, Target};
use initial::{DATAGRAM_BYTES_MIN, V1};
use peer::{CROWD_CLIENTS, DATAGRAMS_MAX, Peer};

pub const TARGET: Target = Target {
    name: "datagrams",
    run,
    reaches: &[
        "a datagram for a session",
        "a handshake begun",
        "a session",
        "a session broken",
        "a session over",
        "an attempt that could not be",
        "answered",
        "ignored",
        "refused for want of room",
        "retry",
        "version negotiation",
    ],
    seeds: seeds::all,
    mutants: 1_000,
};

const RAW: u8 = 0;
const FRAMES: u8 = 1;
const HELLO: u8 = 2;
/// The next datagram joins the previous one.
const JOIN: u8 = 3;
const CUT: u8 = 4;
const FLIP: u8 = 5;
const AGAIN: u8 = 6;
const FROM: u8 = 7;
const PASS: u8 = 8;
const NAME: u8 = 9;
const CROWD: u8 = 10;
const OPERATIONS: u8 = 11;

/// The maximum bytes of a connection ID (RFC 9000 section 17.2).
const ID_BYTES_MAX: usize = 20;

/// The bits of an input's first byte.
const HAS_LITTLE_ROOM: u8 = 1;

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let mut peer = Peer::new(input.byte());
    while !input.is_empty() && peer.datagrams <= DATAGRAMS_MAX {
        step(&mut peer, &mut input);
    }
    peer.pass(Nanos::from_secs(60));
    peer.reached
}

fn step(peer: &mut Peer, input: &mut Input<'_>) {
    match input.byte() % OPERATIONS {
        RAW => peer.send(input.text().to_vec()),
        FRAMES => {
            let bytes_min = if input.byte() % 2 == 1 { 0 } else { DATAGRAM_BYTES_MIN };
            let packet = peer.initial(input.text(), bytes_min);
            peer.send(packet);
        }
        HELLO => {
            let is_backwards = input.byte() % 2 == 1;
            peer.hello(input.text(), is_backwards);
        }
        JOIN => peer.joins = true,
        CUT => {
            peer.last.truncate(input.short().into());
            peer.deliver();
        }
        FLIP => peer.flip(input.short().into(), input.byte()),
        AGAIN => (0..input.byte() % 16).for_each(|_| peer.deliver()),
        FROM => peer.from.set_port(5000 + u16::from(input.byte())),
        PASS => peer.pass(Nanos::from_millis(input.short().into())),
        NAME => {
            let version = input.byte();
            peer.version = if version == 0 { V1 } else { u32::from_be_bytes([version; 4]) };
            peer.number = input.byte().into();
            [peer.destination, peer.source] =
                [(); 2].map(|()| input.text().iter().copied().take(ID_BYTES_MAX).collect());
            peer.token = input.text().to_vec();
        }
        _ => {
            if peer.datagrams == 0 {
                peer.crowd(input.byte() % (CROWD_CLIENTS + 2));
            }
        }
    }
}
