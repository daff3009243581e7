//! Programs of strangers.

use super::initial::crypto;
use super::peer::CROWD_CLIENTS;
use super::{AGAIN, CROWD, CUT, FLIP, FRAMES, FROM, HAS_LITTLE_ROOM, HELLO, JOIN, NAME, PASS, RAW};
use crate::Script;

/// Transport parameters of a client (RFC 9000 section 18): pairs of number and value.
fn parameters(pairs: &[(u8, &[u8])]) -> Vec<u8> {
    pairs.iter().flat_map(|(number, value)| [&[*number, value.len() as u8][..], value].concat()).collect()
}

/// Those that browsers send most.
fn usual() -> Vec<u8> {
    parameters(&[(1, &[0x80, 0, 0x75, 0x30]), (3, &[0x45, 0xac]), (4, &[0x80, 0x10, 0, 0]), (0x0f, b"mine")])
}

fn program(choice: u8, said: &[Script]) -> Vec<u8> {
    said.iter().cloned().fold(Script::new(&[choice]), Script::then).done()
}

fn hello(parameters: &[u8]) -> Script {
    Script::new(&[HELLO, 0]).text(parameters)
}

fn frames(frames: &[u8]) -> Script {
    Script::new(&[FRAMES, 0]).text(frames)
}

fn raw(datagram: &[u8]) -> Script {
    Script::new(&[RAW]).text(datagram)
}

fn pass(ms: u16) -> Script {
    Script::new(&[PASS]).short(ms)
}

fn op(bytes: &[u8]) -> Script {
    Script::new(bytes)
}

pub fn all() -> Vec<Vec<u8>> {
    let mut seeds = handshakes();
    seeds.extend(packets());
    seeds
}

fn handshakes() -> Vec<Vec<u8>> {
    let usual = &usual();
    let more =
        parameters(&[(5, &[0x7f, 0xff]), (6, &[0x40, 9]), (8, &[0x40, 100]), (9, &[3]), (0x0b, &[25]), (0x0c, b"")]);
    let wrong = |pairs: &[(u8, &[u8])]| hello(&[usual, &parameters(pairs)[..]].concat());
    let not_mine = hello(&parameters(&[(0x0f, b"not mine")]));
    let backwards = op(&[HELLO, 1]).text(usual);
    vec![
        program(0, &[hello(usual), pass(200), pass(5000)]),
        program(0, &[hello(&[&usual[..], &more].concat()), frames(&[2, 0, 0, 0, 0]), pass(60_000)]),
        program(0, &[backwards, op(&[AGAIN, 3]), op(&[FLIP]).short(400).byte(1)]),
        program(0, &[wrong(&[(0, b"a server's")]), hello(&[1, 9, 1]), not_mine]),
        program(
            0,
            &[wrong(&[(3, &[0x44, 0x4c])]), wrong(&[(0x0a, &[21])]), wrong(&[(1, &[5])]), wrong(&[(0x0e, &[1])])],
        ),
        program(0, &[hello(usual), frames(&[0x1c, 0x0a, 0, 2, b'n', b'o']), pass(10_000)]),
        program(0, &[hello(usual), op(&[FROM, 9]), op(&[AGAIN, 1]), frames(&[1]), raw(b"\x408 bytes.")]),
    ]
}

fn packets() -> Vec<Vec<u8>> {
    let usual = &usual();
    let name = |version: u8, to: &[u8], token: &[u8]| op(&[NAME, version, 0]).text(to).text(b"mine").text(token);
    let (ping, cut) = (frames(&[1]), op(&[CUT]).short(1199));
    vec![
        program(
            0,
            &[frames(&crypto(0, b"\x01\0\0\x05hello")), frames(&crypto(20_000, b"far")), frames(&[0x1c, 0, 0, 0])],
        ),
        program(0, &[frames(&[8, 0, b'x']), frames(&[1, 1, 1]), frames(&[0x1e]), pass(1000)]),
        program(0, &[op(&[FRAMES, 1]).text(&[1]), op(&[JOIN]), hello(usual), cut]),
        program(0, &[name(0x0a, b"8 bytes.", b""), ping.clone(), name(0xff, b"8 bytes.", b""), ping.clone()]),
        program(0, &[name(0, b"short", b""), ping.clone(), name(0, &[7; 20], b"a token"), ping, name(0, b"", b"")]),
        program(0, &[op(&[CROWD, CROWD_CLIENTS]), name(0, b"8 bytes.", b"no token of ours"), hello(usual)]),
        program(HAS_LITTLE_ROOM, &[op(&[CROWD, 6]), pass(60_000), hello(usual)]),
        program(0, &[raw(b"\x40 short header, nobody's"), raw(&[0xc0, 0, 0, 0, 1, 255]), raw(b""), raw(&[0; 200])]),
    ]
}
