use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::pool::{
    LOOKUPS_PER_CLIENT_MAX, LOOKUPS_WAITING_MAX, READS_PER_DEVICE_MAX, TASKS_WAITING_MAX, THREADS_PER_DEVICE_MAX,
};
use super::*;

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A disk that hangs keeps its own threads busy, but not those for other disks.
#[test]
fn a_hung_device_keeps_no_other_waiting() {
    const HUNG: u64 = 1;
    const FINE: u64 = 2;
    let pool = Pool::new();
    let (begun, begins) = channel();
    let (releases, gates): (Vec<_>, Vec<Receiver<()>>) = (0..3 * THREADS_PER_DEVICE_MAX).map(|_| channel()).unzip();
    for (client, gate) in (0..).zip(gates) {
        let begun = begun.clone();
        let hang = move || {
            begun.send(()).unwrap();
            let _ = gate.recv();
        };
        pool.run_for(client, HUNG, Lane::Lookup, hang).unwrap();
    }
    for _ in 0..THREADS_PER_DEVICE_MAX {
        begins.recv_timeout(PATIENCE).expect("a device has its threads");
    }
    let (done, ends) = channel();
    for _ in 0..100 {
        let done = done.clone();
        pool.run(FINE, Lane::Read, move || done.send(()).unwrap()).unwrap();
    }
    for _ in 0..100 {
        ends.recv_timeout(PATIENCE).expect("a task of the other device");
    }
    assert!(begins.try_recv().is_err(), "the hung device has more threads than its share");
    drop(releases);
    for _ in 0..2 * THREADS_PER_DEVICE_MAX {
        begins.recv_timeout(PATIENCE).expect("when the device answers, what waited is done");
    }
}

/// The thread that is woken for the first task hangs in it. Once, the second task waited for the same thread.
#[test]
fn two_tasks_at_once_have_two_threads() {
    for _ in 0..100 {
        let pool = Pool::new();
        let (done, ends) = channel();
        let first = done.clone();
        pool.run(1, Lane::Read, move || first.send(()).unwrap()).unwrap();
        ends.recv_timeout(PATIENCE).unwrap();
        while pool.idle() == 0 {
            std::thread::yield_now();
        }
        let (release, gate) = channel::<()>();
        pool.run(1, Lane::Read, move || assert!(gate.recv().is_err())).unwrap();
        pool.run(1, Lane::Read, move || done.send(()).unwrap()).unwrap();
        ends.recv_timeout(PATIENCE).expect("the other task");
        drop(release);
        pool.stop();
    }
}

/// Reads that never end leave a thread to the lookups of their device.
#[test]
fn lookups_do_not_wait_for_reads() {
    let pool = Pool::new();
    let jam = Jam::new(&pool);
    (0..2 * THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(1, Lane::Read)));
    jam.wait_begun(READS_PER_DEVICE_MAX);
    let (done, ends) = channel();
    for _ in 0..100 {
        let done = done.clone();
        pool.run(1, Lane::Lookup, move || done.send(()).unwrap()).unwrap();
    }
    for _ in 0..100 {
        ends.recv_timeout(PATIENCE).expect("a lookup");
    }
    assert!(!jam.has_begun(), "reads have taken the thread of the lookups");
}

/// The lookups of one device leave room for lookups of others.
#[test]
fn waiting_lookups_are_bounded_by_device() {
    let pool = Pool::new();
    let jam = Jam::new(&pool);
    let accepted = jam.fill(1, Lane::Lookup);
    assert!((LOOKUPS_WAITING_MAX..=LOOKUPS_WAITING_MAX + THREADS_PER_DEVICE_MAX).contains(&accepted));
    assert!(jam.add(1, Lane::Read) && jam.add(2, Lane::Lookup));
}

/// A client with its maximum of lookups neither refuses nor delays others. One thread is left, so results arrive in the
/// order of the queues.
#[test]
fn clients_take_turns_to_look_up() {
    let pool = Pool::new();
    let busy = Jam::new(&pool);
    (1..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(busy.add(1, Lane::Lookup)));
    busy.wait_begun(THREADS_PER_DEVICE_MAX - 1);
    let last = Jam::new(&pool);
    assert!(last.add(1, Lane::Lookup));
    last.wait_begun(1);
    let (done, ends) = channel();
    let lookup = |client: u32| {
        let done = done.clone();
        pool.run_for(client, 1, Lane::Lookup, move || done.send(client).unwrap())
    };
    (0..LOOKUPS_WAITING_MAX).for_each(|_| lookup(7).unwrap());
    assert!(lookup(7).is_err());
    lookup(8).unwrap();
    drop(last);
    let order: Vec<u32> = (0..=LOOKUPS_WAITING_MAX).map(|_| ends.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(order[..3], [7, 8, 7]);
}

/// On a disk that serves one request at a time, another client's lookup waits for no more than two.
#[test]
fn a_client_has_two_lookups_at_a_disk() {
    let pool = Pool::new();
    let (jam, (done, ends)) = (Jam::new(&pool), channel());
    assert!(jam.fill(1, Lane::Lookup) >= LOOKUPS_WAITING_MAX);
    jam.wait_begun(LOOKUPS_PER_CLIENT_MAX);
    pool.run_for(8, 1, Lane::Lookup, move || done.send(()).unwrap()).unwrap();
    ends.recv_timeout(PATIENCE).unwrap();
    assert!(!jam.has_begun(), "the two others are for others");
}

/// Reads take turns too: a client with a hundred large files on a slow disk counts as one.
#[test]
fn clients_take_turns_to_read() {
    let pool = Pool::new();
    let busy = Jam::new(&pool);
    (1..READS_PER_DEVICE_MAX).for_each(|_| assert!(busy.add(1, Lane::Read)));
    busy.wait_begun(READS_PER_DEVICE_MAX - 1);
    let last = Jam::new(&pool);
    assert!(last.add(1, Lane::Read));
    last.wait_begun(1);
    let (done, ends) = channel();
    for client in std::iter::repeat_n(7, 100).chain([8]) {
        let done = done.clone();
        pool.run_for(client, 1, Lane::Read, move || done.send(client).unwrap()).unwrap();
    }
    drop(last);
    let order: Vec<u32> = (0..101).map(|_| ends.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(order[..3], [7, 8, 7]);
}

#[test]
fn tasks_that_wait_are_bounded() {
    let pool = Pool::new();
    let accepted = Jam::new(&pool).fill(1, Lane::Read);
    assert!((TASKS_WAITING_MAX..=TASKS_WAITING_MAX + THREADS_PER_DEVICE_MAX).contains(&accepted));
}
