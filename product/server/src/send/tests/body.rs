//! Bodies read into a buffer, as an encoder needs them, whatever their pieces are.

use std::sync::Arc;

use super::*;
use crate::files::temporary::Folder;
use crate::storage::{COPIED_BYTES_MAX, InMemory};

const FILE: usize = 3 * COPIED_BYTES_MAX;

fn content() -> Vec<u8> {
    (0..FILE).map(|at| (at * 31 / 7) as u8).collect()
}

/// Bytes, part of an open file, part of a held one, and a page, with their concatenation.
fn pieces(folder: &Folder) -> (Body, Vec<u8>) {
    folder.put("open", content());
    folder.put("held", &content()[..100]);
    let page = Arc::new(vec![9; 50]);
    let body = [
        Piece::Bytes(vec![7; 10]),
        Piece::File { entry: folder.entry("open"), range: 5..FILE as u64 },
        Piece::Bytes(vec![]),
        Piece::File { entry: folder.entry("held"), range: 20..90 },
        Piece::Page { page, at: 30 },
    ];
    (body.into_iter().collect(), [&[7; 10], &content()[5..], &content()[20..90], &[9; 20]].concat())
}

#[test]
fn every_piece_is_read_in_order_however_much_at_a_time() {
    let folder = Folder::new();
    for bytes_max in [1 << 30, FILE as u64, 1_000, 33] {
        let (mut body, whole) = pieces(&folder);
        let mut into = b"head".to_vec();
        assert_eq!(body.len(), whole.len() as u64);
        while !body.is_empty() {
            let (before, left) = (into.len(), body.len());
            let read = body.read(&mut InMemory, &mut into, bytes_max).unwrap();
            assert_eq!((read, read), (left.min(bytes_max), (into.len() - before) as u64));
            assert_eq!(body.len(), left - read);
        }
        assert!(into[..4] == *b"head" && into[4..] == whole, "at {bytes_max} a time");
        assert_eq!(body.read(&mut InMemory, &mut into, bytes_max).unwrap(), 0);
    }
}

/// There are more of them than memory: none are stored, and what follows them comes last.
#[test]
fn zeros_are_made_as_they_are_read() {
    let mut body: Body = [Piece::Zeros(8 << 30), Piece::Bytes(vec![7; 3])].into_iter().collect();
    assert_eq!((body.len(), body.alive_bytes()), ((8 << 30) + 3, 0));
    let mut into = Vec::new();
    assert_eq!(body.read(&mut InMemory, &mut into, 200_000).unwrap(), 200_000);
    assert!(into.iter().all(|byte| *byte == 0));
    body.advance((8 << 30) - 200_001);
    into.clear();
    assert_eq!(body.read(&mut InMemory, &mut into, 100).unwrap(), 4);
    assert_eq!((into, body.is_empty()), (vec![0, 7, 7, 7], true));
}

#[test]
fn small_reads_are_copies_and_large_ones_of_a_file_are_for_sendfile() {
    let folder = Folder::new();
    let (mut body, _) = pieces(&folder);
    assert_eq!(body.available(&mut InMemory, 4).unwrap(), Available::Memory(&[7; 4]));
    body.advance(10);
    let much = 2 * COPIED_BYTES_MAX as u64;
    assert_eq!(body.available(&mut InMemory, much).unwrap(), Available::File(much));
    assert_eq!(Body::default().available(&mut InMemory, 4).unwrap(), Available::Memory(&[]));
}

/// The file was cut after its length was announced, noticed by a read of its end or of a part behind it.
#[test]
fn a_file_that_became_shorter_is_told() {
    let folder = Folder::new();
    folder.put("open", content());
    let entry = folder.entry("open");
    folder.put("open", &content()[..1_000]);
    for (range, read) in [(0..FILE as u64, 1_000), (2_000..FILE as u64, 0)] {
        for bytes_max in [500, FILE as u64] {
            let mut body = Body::from(Piece::File { entry: entry.clone(), range: range.clone() });
            let mut into = Vec::new();
            let failure = loop {
                if let Err(failure) = body.read(&mut InMemory, &mut into, bytes_max) {
                    break failure;
                }
            };
            assert!(matches!(failure, Failure::Truncated { path } if &*path == "open"));
            assert_eq!(into.len(), read);
        }
    }
}
