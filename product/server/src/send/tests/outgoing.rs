//! The way a response is handed down: in as few and as full segments as possible, and how its end is signalled.

use super::*;
use crate::files::{Entry, temporary::Folder};
use crate::storage::{InMemory, Look, ReadDone, Storage};
use std::sync::Arc;

const HEAD: u64 = 100;
const FILE: u64 = 200_000;

fn entry() -> (Arc<Entry>, Folder) {
    let folder = Folder::new();
    folder.put("file", vec![3; FILE as usize]);
    (folder.entry("file"), folder)
}

fn head(rest: impl IntoIterator<Item = Piece>, end: End) -> Outgoing {
    Outgoing::new(vec![1; HEAD as usize], rest.into_iter().collect(), end)
}

fn bytes(count: usize) -> Piece {
    Piece::Bytes(vec![2; count])
}

fn socket() -> FakeSocket {
    Bench::new("srpt", None).socket('A', u64::MAX)
}

/// Sends it in grants of `bytes_max`; returns the calls on the socket.
fn writes(mut outgoing: Outgoing, bytes_max: u64) -> Vec<Write> {
    let socket = socket();
    while outgoing.remaining_bytes() > 0 {
        let sent = outgoing.send_on(&socket, None, &mut InMemory, Room::unpaced(bytes_max));
        assert!(sent.failure.is_none() && sent.bytes <= bytes_max && sent.bytes > 0, "{sent:?}");
    }
    assert_eq!(socket.is_finished.get(), outgoing.ends_connection());
    socket.writes.take()
}

/// A short segment waits for what is sent at once after it, including the FIN, and for nothing else.
#[test]
fn the_last_segment_waits_for_the_fin_alone() {
    assert_eq!(writes(head([bytes(400)], End::Open), 1_000), [Write::Sent(2, false)]);
    assert_eq!(writes(head([bytes(400)], End::Finish), 1_000), [Write::Sent(2, true)]);
    // A grant that ends before the response does: the next response may take long.
    assert_eq!(writes(head([bytes(400)], End::Finish), 300), [Write::Sent(2, false), Write::Sent(1, true)]);
    assert_eq!(writes(head([], End::Open), 1_000), [Write::Sent(1, false)]);
}

/// Storage with nothing in memory.
pub(super) struct Cold;

impl Storage for Cold {
    fn look(&mut self, _: &Entry, _: u64, _: u64) -> io::Result<Look<'_>> {
        Ok(Look::Absent)
    }

    fn read_aside(&mut self, _: JobId, _: u32, _: &Arc<Entry>, _: std::ops::Range<u64>) -> io::Result<()> {
        unreachable!("nobody reads here")
    }

    fn take_done(&mut self, _: &mut Vec<ReadDone>) {}
}

/// The kernel used to hold it back for seconds: for a body that had yet to be read from a disk.
#[test]
fn a_head_does_not_wait_for_a_disk() {
    let (entry, _folder) = entry();
    let (socket, mut outgoing) = (socket(), head([Piece::File { entry, range: 0..FILE }], End::Open));
    let sent = outgoing.send_on(&socket, None, &mut Cold, Room::unpaced(u64::MAX));
    assert!(sent.bytes == HEAD && matches!(sent.failure, Some(Failure::Absent)), "{sent:?}");
    assert_eq!(socket.writes.take(), [Write::Sent(1, true), Write::Pushed]);
}

#[test]
fn a_head_waits_for_its_file_and_the_end_of_a_file_for_the_fin() {
    let (entry, _folder) = entry();
    let file = || Piece::File { entry: entry.clone(), range: 0..FILE };
    // The head; what sendfile hands down is a write of its own.
    let file_write = Write::Sent(1, false);
    assert_eq!(writes(head([file()], End::Open), u64::MAX), [Write::Sent(1, true), file_write]);
    assert_eq!(writes(head([file()], End::Finish), u64::MAX), [Write::Sent(1, true), Write::Corked, file_write]);
    let split = writes(head([file()], End::Finish), FILE);
    assert_eq!(split, [Write::Sent(1, true), file_write, Write::Corked, file_write]);
    assert_eq!(writes(head([file()], End::Open), HEAD)[0], Write::Sent(1, false), "nothing follows in this grant");
}

#[test]
fn pieces_go_down_eight_at_a_time() {
    let pieces = (0..17).map(|_| bytes(10));
    assert_eq!(
        writes(head(pieces, End::Open), u64::MAX),
        [Write::Sent(8, true), Write::Sent(8, true), Write::Sent(2, false)]
    );
}

/// A shared page, sent whole and in part.
#[test]
fn pages_are_sent_from_where_they_begin() {
    let page = Arc::new((0..200).collect::<Vec<u8>>());
    let piece = Piece::Page { page: page.clone(), at: 50 };
    assert_eq!((piece.len(), piece.is_empty()), (150, false));
    assert!(Piece::Page { page: page.clone(), at: 200 }.is_empty());
    let socket = socket();
    let mut outgoing = head([piece], End::Open);
    assert_eq!(outgoing.remaining_bytes(), HEAD + 150);
    while outgoing.remaining_bytes() > 0 {
        outgoing.send_on(&socket, None, &mut InMemory, Room::unpaced(70));
    }
    assert_eq!(socket.received.borrow()[HEAD as usize..], page[50..]);
    assert!(!outgoing.ends_connection() && outgoing.into_buffer() == vec![1; HEAD as usize]);
}

/// A waiting response needs no memory for what has left, and continues where it was.
#[test]
fn what_was_sent_is_given_back() {
    let socket = socket();
    let mut outgoing = head([bytes(40)], End::Open);
    outgoing.send_on(&socket, None, &mut InMemory, Room::unpaced(60));
    outgoing.shrink();
    let left = outgoing.send_on(&socket, None, &mut InMemory, Room::unpaced(1_000));
    assert_eq!((left.bytes, outgoing.remaining_bytes(), outgoing.into_buffer().len()), (80, 0, 40));
    assert_eq!(*socket.received.borrow(), [vec![1; 100], vec![2; 40]].concat());
}

/// A full socket is awaited, a client that is gone is not; a disk's error is reported with the file's name.
#[test]
fn failures_are_told_apart() {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidInput, NotConnected, TimedOut, WouldBlock};
    let (entry, _folder) = entry();
    let told = |outgoing: &mut Outgoing, kind| {
        let socket = socket();
        socket.fails.set(Some(kind));
        match outgoing.send_on(&socket, None, &mut InMemory, Room::unpaced(1_000)).failure {
            Some(Failure::Blocked) => "blocked",
            Some(Failure::Disconnected) => "disconnected",
            Some(Failure::Unreadable { path, .. }) if &*path == "file" => "unreadable",
            other => panic!("{other:?}"),
        }
    };
    let from_memory = [WouldBlock, ConnectionReset, InvalidInput].map(|kind| told(&mut head([], End::Open), kind));
    assert_eq!(from_memory, ["blocked", "disconnected", "disconnected"]);
    let from_file = [WouldBlock, BrokenPipe, ConnectionReset, NotConnected, TimedOut, InvalidInput].map(|kind| {
        let file = Piece::File { entry: entry.clone(), range: 0..FILE };
        told(&mut Outgoing::new(vec![], file.into(), End::Open), kind)
    });
    let gone = "disconnected";
    assert_eq!(from_file, ["blocked", gone, gone, gone, gone, "unreadable"]);
}
