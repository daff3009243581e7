//! Bytes of streams that are split anywhere.

use http2::Priority;
use proptest::prelude::*;
use units::Nanos;

use crate::h3::fault::Fault;
use crate::h3::fields::Request;
use crate::h3::floods::Budget;
use crate::h3::request::{Incoming, Shared};
use crate::h3::uni::{Next, Seen, Uni};
use crate::testing::*;

fn request_of(pieces: &[&[u8]]) -> Result<(Vec<Request>, Vec<u8>), Fault> {
    let (mut incoming, mut shared, mut budget) = (
        Incoming::default(),
        Shared::new(http::Limits { head_bytes_max: 1000, ..http::Limits::default() }, true),
        Budget::default(),
    );
    let mut requests = Vec::new();
    let mut content = Vec::new();
    for mut piece in pieces.iter().copied() {
        while !piece.is_empty() {
            requests.extend(incoming.receive(Nanos(0), &mut piece, &mut shared, &mut budget, Some(&mut content))?);
        }
    }
    incoming.finish()?;
    assert_eq!(incoming.kept_bytes(), 0);
    Ok((requests, content))
}

fn updates_of(pieces: &[&[u8]]) -> Result<Vec<(u64, Priority)>, Fault> {
    let (mut uni, mut seen, mut budget) = (Uni::default(), Seen::default(), Budget::default());
    let mut updates = Vec::new();
    for mut piece in pieces.iter().copied() {
        loop {
            match uni.next(Nanos(0), &mut piece, &mut seen, &mut budget)? {
                Next::Update(update) => updates.push((update.id, update.priority)),
                Next::Stop => return Ok(updates),
                Next::More => break,
            }
        }
        assert!(piece.is_empty());
    }
    Ok(updates)
}

fn cut(bytes: &[u8], mut at: Vec<usize>) -> Vec<&[u8]> {
    at.iter_mut().for_each(|at| *at = (*at).min(bytes.len()));
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn requests() -> Vec<u8> {
    let get = request("/path", &[("priority", "u=2"), ("user-agent", "some browser")]);
    let unknown = frame(0x1f * 7 + 0x21, &[1; 70]);
    [&unknown[..], &get, &frame(DATA, &[0; 300]), &unknown, &frame(HEADERS, &section(&[("a", "b")])), &unknown].concat()
}

fn control() -> Vec<u8> {
    let settings = frame(SETTINGS, &[6, 0x44, 0, 0x33, 1]);
    [
        &[0][..],
        &settings,
        &frame(PRIORITY_UPDATE, b"\x04u=1"),
        &frame(0x21, &[0; 9]),
        &frame(PRIORITY_UPDATE, b"\x40\x80i"),
    ]
    .concat()
}

#[test]
fn a_byte_at_a_time() {
    let bytes = requests();
    let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
    let whole = request_of(&[&bytes]).unwrap();
    assert_eq!((whole.0.len(), whole.1.len()), (1, 300));
    assert_eq!(whole.0[0].priority.urgency, 2);
    assert_eq!(request_of(&pieces).unwrap(), whole);
    let bytes = control();
    let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
    let whole = updates_of(&[&bytes]).unwrap();
    assert_eq!(whole.iter().map(|(id, _)| *id).collect::<Vec<u64>>(), [4, 128]);
    assert_eq!(updates_of(&pieces).unwrap(), whole);
}

proptest! {
    #[test]
    fn cuts_change_nothing(at in proptest::collection::vec(0usize..700, 0..8)) {
        let bytes = requests();
        prop_assert_eq!(request_of(&cut(&bytes, at.clone())), request_of(&[&bytes]));
        let bytes = control();
        prop_assert_eq!(updates_of(&cut(&bytes, at)), updates_of(&[&bytes]));
    }

    #[test]
    fn cuts_of_anything_change_nothing(bytes: Vec<u8>, at in proptest::collection::vec(0usize..100, 0..5)) {
        prop_assert_eq!(request_of(&cut(&bytes, at.clone())), request_of(&[&bytes]));
        prop_assert_eq!(updates_of(&cut(&bytes, at)), updates_of(&[&bytes]));
    }
}
