//! Worker and writer in every order their steps can take (loom, up to the preemptions named below): the real mailboxes,
//! the real [`Writer`] and its transmitter, and the real state of a connection; kernel, socket and the worker's reading are
//! played by the model. A wake-up that is lost, or an end that nobody acts on, leaves a thread waiting for ever, which loom
//! reports as a deadlock.
//!
//! Each fault was put in, one at a time, and was found: without `is_client_gone` in [`InFlight::on_departure`] (the lost HUP
//! as it was) `a_reset_after_the_response` deadlocks; without the abort, in the worker or in the writer,
//! `a_reset_while_the_socket_is_full` does; with the same owner for all tenants of a slot `a_slot_with_a_new_tenant` finds
//! its response aborted; a [`Mailbox`] that clears its wake-up behind the messages, or does not wake for the first of them,
//! deadlocks; a writer that does not forget a departed job, and a worker that closes after every response, fail too.

use std::fs::File;
use std::io::IoSlice;
use std::sync::atomic::AtomicBool as PlainBool;
use std::sync::atomic::Ordering::Relaxed;
use std::{io, sync};

use loom::sync::atomic::{AtomicBool, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use sched::{Drain, Pace, policy};
use slab::Slab;
use units::Nanos;

use super::*;
use crate::mailbox::{Lock, Mailbox, Platform, Wake};
use crate::transmit::{Departure, End, Outgoing, Patience, Socket, Status, Stream, Transmitter};
use crate::writer::{Desk, Writer};

/// Threads that may be interrupted anywhere, this often; most faults need one or two (Musuvathi and Qadeer 2007).
const PREEMPTIONS_MAX: usize = 2;
const NOW: Nanos = Nanos::from_secs(1);

struct Model;

impl Platform for Model {
    type Lock<V> = Mutex<V>;
    type Wake = Bell;
}

impl<V> Lock<V> for Mutex<V> {
    fn new(value: V) -> Mutex<V> {
        Mutex::new(value)
    }

    fn with<R>(&self, act: impl FnOnce(&mut V) -> R) -> R {
        act(&mut self.lock().unwrap())
    }
}

/// One thread's epoll.
#[derive(Default)]
struct Poll {
    ready: Mutex<Ready>,
    changed: Condvar,
}

#[derive(Default, Clone)]
struct Ready {
    /// The mailbox's eventfd, which stays ready until it is cleared.
    has_mail: bool,
    /// Hang-ups, each told once.
    hangups: Vec<u64>,
}

impl Poll {
    /// Waits, as epoll does, until something is ready.
    fn wait(&self) -> Ready {
        let mut ready = self.ready.lock().unwrap();
        while !ready.has_mail && ready.hangups.is_empty() {
            ready = self.changed.wait(ready).unwrap();
        }
        let told = ready.clone();
        ready.hangups.clear();
        told
    }

    fn tell(&self, change: impl FnOnce(&mut Ready)) {
        change(&mut self.ready.lock().unwrap());
        self.changed.notify_one();
    }
}

/// The eventfd in somebody's epoll.
struct Bell(Arc<Poll>);

impl Wake for Bell {
    fn set(&self) {
        self.0.tell(|ready| ready.has_mail = true);
    }

    fn clear(&self) {
        self.0.tell(|ready| ready.has_mail = false);
    }
}

/// The server's end of a connection.
#[derive(Clone)]
struct Tube {
    /// Takes no bytes, and never will.
    is_full: bool,
    is_reset: Arc<AtomicBool>,
}

impl Tube {
    fn new(is_full: bool) -> Tube {
        Tube { is_full, is_reset: Arc::new(AtomicBool::new(false)) }
    }
}

impl Socket for Tube {
    type Weak = Tube;

    fn downgrade(&self) -> Tube {
        self.clone()
    }

    fn upgrade(weak: &Tube) -> Option<Tube> {
        Some(weak.clone())
    }

    fn send(&self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        match self.is_reset.load(SeqCst) {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false if self.is_full => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(bytes.len()),
        }
    }

    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.send(&all, more)
    }

    fn send_file(&self, _file: &File, _offset: u64, _count: usize) -> io::Result<usize> {
        unreachable!("no files here")
    }

    fn cork(&self, _is_corked: bool) {}

    fn finish(&self) {}

    fn status(&self) -> Status {
        Status::default()
    }

    fn client(&self) -> u64 {
        0
    }

    fn has_room(&self) -> bool {
        !self.is_full
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        Some(0)
    }

    fn set_priority(&self, _priority: u32) {}

    fn tell(&self, _map: &uplink::ToldMap, _begin: u64, _end: u64) {}
}

/// A connection as its worker has it.
struct Conn {
    owner: u64,
    socket: Tube,
    flight: Option<InFlight>,
    /// Responses it still wants.
    wanted: u32,
}

struct Worker {
    poll: Arc<Poll>,
    mailbox: sync::Arc<Mailbox<Departure, Model>>,
    writer: sync::Arc<Writer<Tube, Model>>,
    conns: Slab<Conn>,
    owners: Owners,
    /// Owners of those closed with all they wanted, and of those cut off.
    answered: Vec<u64>,
    cut: Vec<u64>,
}

impl Worker {
    fn accept(&mut self, socket: Tube, wanted: u32) -> u64 {
        let owner = self.owners.next(self.conns.vacant_key());
        let at = self.conns.insert(Conn { owner, socket, flight: None, wanted });
        self.dispatch(at);
        owner
    }

    fn dispatch(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        conn.wanted -= 1;
        conn.flight = Some(InFlight::new(None));
        let (owner, socket) = (conn.owner, conn.socket.clone());
        let outgoing = Outgoing::new(vec![0; 100], Default::default(), End::Open);
        let stream = Stream::default();
        let dispatch = Dispatch { owner, socket, outgoing, sent_bytes: 0, class: 0, stream };
        self.writer.inbox.post(ToWriter::Dispatch(dispatch));
    }

    /// One turn of its loop.
    fn turn(&mut self) {
        let ready = self.poll.wait();
        for owner in ready.hangups {
            self.on_hangup(owner);
        }
        if ready.has_mail {
            let mut departures = Vec::new();
            self.mailbox.take(&mut departures);
            departures.into_iter().for_each(|departure| self.on_departure(departure));
        }
    }

    fn on_hangup(&mut self, owner: u64) {
        let Some(conn) = self.conns.get_mut(slot_of(owner)).filter(|conn| conn.owner == owner) else { return };
        match &mut conn.flight {
            Some(flight) => {
                flight.on_client_gone();
                self.writer.inbox.post(ToWriter::Abort(owner));
            }
            None => self.close(owner),
        }
    }

    fn on_departure(&mut self, departure: Departure) {
        let at = slot_of(departure.owner);
        let conn = &mut self.conns[at];
        assert_eq!(conn.owner, departure.owner, "a connection outlives its response");
        let flight = conn.flight.take().expect("a response departs once");
        match flight.on_departure(departure.failure.is_some()) {
            After::Close => self.close(departure.owner),
            After::GoOn if conn.wanted > 0 => self.dispatch(at),
            After::GoOn => {}
        }
    }

    fn close(&mut self, owner: u64) {
        let conn = self.conns.remove(slot_of(owner));
        let list = if conn.wanted == 0 { &mut self.answered } else { &mut self.cut };
        list.push(owner);
    }
}

/// Runs the writer in a thread of its own, beside what `work` does with a worker.
fn explore(work: impl Fn(&mut Worker) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS_MAX);
    model.check(move || {
        let (worker_poll, writer_poll) = (Arc::new(Poll::default()), Arc::new(Poll::default()));
        let mailbox = sync::Arc::new(Mailbox::with(Bell(worker_poll.clone())));
        let inbox = Mailbox::with(Bell(writer_poll.clone()));
        let writer = sync::Arc::new(Writer::new(inbox, vec![mailbox.clone()]));
        let running = thread::spawn({
            let writer = writer.clone();
            move || run_writer(&writer, &writer_poll)
        });
        let owners = Owners::of_worker(0);
        let (answered, cut) = (Vec::new(), Vec::new());
        let mut worker =
            Worker { poll: worker_poll, mailbox, writer: writer.clone(), conns: Slab::new(), owners, answered, cut };
        work(&mut worker);
        writer.stop();
        running.join().unwrap();
    });
}

/// As [`Writer::run`], in a world without time.
fn run_writer(writer: &Writer<Tube, Model>, poll: &Poll) {
    let drain = Drain::new(policy::parse("fcfs").unwrap(), Pace::UNLIMITED);
    let patience = Patience { rate_bytes_per_s_min: 0, window: Nanos::MAX };
    let mut desk = Desk::new(Transmitter::new(drain, None, patience), NOW);
    while !writer.is_stopping() {
        let wake_at = writer.send(&mut desk, &|| NOW);
        if wake_at.is_none_or(|at| at > NOW) {
            poll.wait();
        }
        writer.receive(&mut desk, NOW);
    }
    assert!(desk.is_idle(), "a response is forgotten when it has departed");
}

/// A client that resets its connection at any moment.
fn reset(worker: &Worker, owner: u64) -> thread::JoinHandle<()> {
    let poll = worker.poll.clone();
    let socket = worker.conns[slot_of(owner)].socket.clone();
    thread::spawn(move || {
        socket.is_reset.store(true, SeqCst);
        poll.tell(|ready| ready.hangups.push(owner));
    })
}

#[test]
fn every_response_departs() {
    explore(|worker| {
        let owner = worker.accept(Tube::new(false), 2);
        while worker.conns[0].wanted > 0 || worker.conns[0].flight.is_some() {
            worker.turn();
        }
        worker.close(owner);
        assert_eq!(worker.answered, [owner]);
    });
}

/// Before the response was sent, after it, and while its departure is on the way: the connection closes.
#[test]
fn a_reset_after_the_response() {
    // The model has to get there, or it would show nothing.
    let (has_been_cut, has_been_answered) =
        (sync::Arc::new(PlainBool::new(false)), sync::Arc::new(PlainBool::new(false)));
    let seen = (has_been_cut.clone(), has_been_answered.clone());
    explore(move |worker| {
        let owner = worker.accept(Tube::new(false), 2);
        let client = reset(worker, owner);
        while !worker.conns.is_empty() {
            worker.turn();
        }
        client.join().unwrap();
        seen.0.fetch_or(!worker.cut.is_empty(), Relaxed);
        seen.1.fetch_or(!worker.answered.is_empty(), Relaxed);
    });
    assert!(has_been_cut.load(Relaxed) && has_been_answered.load(Relaxed));
}

/// Nothing but the abort ends such a response.
#[test]
fn a_reset_while_the_socket_is_full() {
    explore(|worker| {
        let owner = worker.accept(Tube::new(true), 1);
        let client = reset(worker, owner);
        while !worker.conns.is_empty() {
            worker.turn();
        }
        client.join().unwrap();
    });
}

/// A late abort and a late hang-up of the tenant before leave the new one alone.
#[test]
fn a_slot_with_a_new_tenant() {
    explore(|worker| {
        let first = worker.accept(Tube::new(false), 1);
        let client = reset(worker, first);
        while !worker.conns.is_empty() {
            worker.turn();
        }
        let second = worker.accept(Tube::new(false), 1);
        assert_eq!(slot_of(first), slot_of(second));
        // What the kernel had told before the slot changed hands comes late.
        worker.on_hangup(first);
        worker.writer.inbox.post(ToWriter::Abort(first));
        while worker.conns.get(0).is_some_and(|conn| conn.flight.is_some()) {
            worker.turn();
        }
        assert!(worker.conns.contains(0), "the second was cut off for the first");
        client.join().unwrap();
    });
}
