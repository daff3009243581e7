//! The writer: the one thread that sends when responses are paced.
//!
//! The order has to hold across workers, so one place has to decide; and what decides had better also send, since a
//! grant that first has to wake another thread leaves the link idle meanwhile. Workers parse requests and post whole
//! responses here; the writer sends them as granted and posts back what has departed ([`crate::handover`]). One thread is
//! enough: it copies nothing (sendfile), and paced links are slower than a core.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use sched::JobId;
use units::Nanos;

use crate::clock;
use crate::handover::{Closed, ToWriter, worker_of};
use crate::log::AccessLog;
use crate::mailbox::{Kernel, Mailbox, Platform};
use crate::poll::Poll;
use crate::threads::Beat;
use crate::transmit::{Connection, Departure, Failure, Socket, Transmitter};

/// The workers' end.
pub struct Writer<S = Connection, P: Platform = Kernel> {
    pub inbox: Mailbox<ToWriter<S>, P>,
    /// By worker.
    outboxes: Vec<Arc<Mailbox<Departure, P>>>,
    pub closed: Closed,
    is_stopping: AtomicBool,
}

/// The thread's own end.
pub struct Desk<S: Socket> {
    transmitter: Transmitter<S>,
    /// By owner.
    jobs: HashMap<u64, JobId>,
    messages: Vec<ToWriter<S>>,
    stall_check_at: Nanos,
}

const STALL_CHECK_EVERY: Nanos = Nanos::from_secs(1);

impl Writer {
    /// The thread's main function.
    pub fn run(
        &self,
        mut poll: Poll,
        transmitter: Transmitter<Connection>,
        beat: &Beat,
        log: &AccessLog,
    ) -> io::Result<()> {
        // The default slack of 50 µs would be 4 % of the time a segment takes at 10 Mbit/s.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut desk = Desk::new(transmitter, clock::now());
        while !self.is_stopping() {
            beat.turn();
            let began_at = clock::now();
            let wake_at = self.send(&mut desk, &clock::now);
            poll.wait(wake_at.map(|at| at - clock::now()))?;
            let now = clock::now();
            let paused = clock::paused(now - began_at, wake_at.map(|at| at - began_at));
            if paused > Nanos::ZERO {
                desk.transmitter.on_pause(paused);
            }
            self.receive(&mut desk, now);
            for notice in desk.transmitter.notices() {
                log.error(&notice.to_string());
            }
        }
        if let Some(notice) = desk.transmitter.longest_wait() {
            log.error(&notice.to_string());
        }
        Ok(())
    }

    /// What the thread waits with.
    pub fn poll(&self) -> io::Result<Poll> {
        let poll = Poll::new()?;
        poll.add(&self.inbox, 0, EventFlags::IN)?;
        Ok(poll)
    }
}

impl<S: Socket + Clone, P: Platform> Writer<S, P> {
    pub fn new(inbox: Mailbox<ToWriter<S>, P>, outboxes: Vec<Arc<Mailbox<Departure, P>>>) -> Writer<S, P> {
        Writer { inbox, outboxes, closed: Closed::default(), is_stopping: AtomicBool::new(false) }
    }

    /// Ends [`Writer::run`]; called when no worker will dispatch any more.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.inbox.wake();
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Sends what is granted and posts what has departed. Gives when to go on at the latest.
    pub fn send(&self, desk: &mut Desk<S>, clock: &impl Fn() -> Nanos) -> Option<Nanos> {
        let grant_at = desk.transmitter.run(clock);
        for departure in desk.transmitter.departures() {
            desk.jobs.remove(&departure.owner);
            self.outboxes[worker_of(departure.owner)].post(departure);
        }
        match grant_at {
            Some(at) => Some(at.min(desk.stall_check_at)),
            None if desk.transmitter.is_empty() => None,
            None => Some(desk.stall_check_at),
        }
    }

    /// Does what the workers have asked for.
    pub fn receive(&self, desk: &mut Desk<S>, now: Nanos) {
        let mut messages = std::mem::take(&mut desk.messages);
        self.inbox.take(&mut messages);
        for message in messages.drain(..) {
            desk.handle(now, message);
        }
        desk.messages = messages;
        desk.transmitter.on_closed(now, self.closed.take());
        if now >= desk.stall_check_at {
            desk.transmitter.end_stalled(now);
            desk.transmitter.check_queue(now);
            desk.stall_check_at = now + STALL_CHECK_EVERY;
        }
    }
}

impl<S: Socket + Clone> Desk<S> {
    pub fn new(transmitter: Transmitter<S>, now: Nanos) -> Desk<S> {
        let stall_check_at = now + STALL_CHECK_EVERY;
        Desk { transmitter, jobs: HashMap::new(), messages: Vec::new(), stall_check_at }
    }

    /// Nothing is with the writer, and nothing is remembered of what was.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.transmitter.is_idle()
    }

    fn handle(&mut self, now: Nanos, message: ToWriter<S>) {
        match message {
            ToWriter::Dispatch(dispatch) => {
                let owner = dispatch.owner;
                self.jobs.insert(owner, self.transmitter.dispatch(now, dispatch));
            }
            ToWriter::Writable(owner) => {
                if let Some(&job) = self.jobs.get(&owner) {
                    self.transmitter.on_writable(now, job);
                }
            }
            ToWriter::Abort(owner) => {
                if let Some(&job) = self.jobs.get(&owner) {
                    self.transmitter.abort(now, job, Failure::Disconnected);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use sched::{Drain, Pace, policy};

    use super::*;
    use crate::log::{Format, Target};
    use crate::threads::Threads;
    use crate::transmit::{Dispatch, End, Outgoing, Patience, Stream};

    const NOW: Nanos = Nanos::from_secs(1);
    /// Of the only worker.
    const OWNER: u64 = 256;

    /// A client, and the server's end of its connection.
    fn connection() -> (TcpStream, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        (client, Arc::new(OwnedFd::from(accepted)))
    }

    fn transmitter(rate: Option<&str>) -> Transmitter<Connection> {
        let pace = Pace { rate: rate.map(|rate| rate.parse().unwrap()), ..Pace::UNLIMITED };
        let patience = Patience { rate_bytes_per_s_min: 1000, window: Nanos::from_secs(5) };
        Transmitter::new(Drain::new(policy::parse("fcfs").unwrap(), pace), None, patience)
    }

    fn writer() -> (Arc<Writer>, Arc<Mailbox<Departure>>) {
        let outbox = Arc::new(Mailbox::new().unwrap());
        (Arc::new(Writer::new(Mailbox::new().unwrap(), vec![outbox.clone()])), outbox)
    }

    fn dispatch(socket: Connection, bytes: usize) -> ToWriter<Connection> {
        let outgoing = Outgoing::new(vec![7; bytes], Default::default(), End::Finish);
        let stream = Stream::default();
        ToWriter::Dispatch(Dispatch { owner: OWNER, socket, outgoing, sent_bytes: 0, class: 0, stream })
    }

    fn departed(outbox: &Mailbox<Departure>) -> Vec<Departure> {
        let mut departures = vec![];
        outbox.take(&mut departures);
        departures
    }

    /// As the thread does, at one instant; gives until when it would wait.
    fn turn(writer: &Writer, desk: &mut Desk<Connection>, now: Nanos) -> Option<Nanos> {
        writer.receive(desk, now);
        loop {
            let wake_at = writer.send(desk, &|| now);
            if wake_at.is_none_or(|at| at > now) {
                return wake_at;
            }
        }
    }

    #[test]
    fn the_thread_sends_what_is_posted_until_it_is_stopped() {
        let threads = Threads::start(|| ()).unwrap();
        let (log, _guard) = AccessLog::open(Target::Off, Format::Json, &threads).unwrap();
        let (writer, outbox) = writer();
        let (run, woken, poll) = (writer.clone(), writer.clone(), writer.poll().unwrap());
        let main = move |beat: &Beat| run.run(poll, transmitter(Some("100mbit")), beat, &log);
        let thread = threads.spawn_loop("writer", move || woken.inbox.wake(), main).unwrap();
        let (mut client, socket) = connection();
        client.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        writer.inbox.post(dispatch(socket, 1_000_000));
        let mut received = vec![];
        client.read_to_end(&mut received).unwrap();
        assert!(received == vec![7; 1_000_000], "{} bytes", received.len());
        threads.expect_ends();
        writer.stop();
        threads.join(thread).unwrap();
        assert_eq!(departed(&outbox).len(), 1);
    }

    /// With nothing to send it sleeps until somebody posts; behind a grant or a reader it looks after those who stall each
    /// second.
    #[test]
    fn it_wakes_for_grants_and_for_readers_that_stall() {
        let (writer, outbox) = writer();
        let mut desk = Desk::new(transmitter(None), NOW);
        assert_eq!(turn(&writer, &mut desk, NOW), None);
        let (_client, socket) = connection();
        writer.inbox.post(dispatch(socket, 64 << 20));
        let mut seconds = 0;
        while let Some(wake_at) = turn(&writer, &mut desk, NOW + Nanos::from_secs(seconds)) {
            seconds += 1;
            assert_eq!(wake_at, NOW + Nanos::from_secs(seconds));
        }
        assert_eq!(seconds, 10, "a window in which its buffers took some, and one in which they took nothing");
        let departures = departed(&outbox);
        assert!(matches!(departures[..], [Departure { owner: OWNER, failure: Some(Failure::Stalled), .. }]));
        assert!(desk.is_idle());
    }

    #[test]
    fn a_grant_that_is_due_sooner_wakes_it_sooner() {
        let (writer, _outbox) = writer();
        let mut desk = Desk::new(transmitter(Some("10mbit")), NOW);
        let (_client, socket) = connection();
        writer.inbox.post(dispatch(socket, 10_000));
        let wake_at = turn(&writer, &mut desk, NOW).unwrap();
        assert!(wake_at < NOW + Nanos::from_millis(10), "{wake_at:?}");
    }

    #[test]
    fn an_abort_ends_a_response_and_room_carries_it_on() {
        let (writer, outbox) = writer();
        let mut desk = Desk::new(transmitter(None), NOW);
        let (mut client, socket) = connection();
        writer.inbox.post(dispatch(socket, 64 << 20));
        turn(&writer, &mut desk, NOW);
        // What the sockets hold, and then more than that.
        let mut part = vec![0; 8 << 20];
        for _ in 0..4 {
            let mut read = 0;
            while read < part.len() {
                read += client.read(&mut part[read..]).unwrap();
                writer.inbox.post(ToWriter::Writable(OWNER));
                turn(&writer, &mut desk, NOW);
            }
        }
        assert!(departed(&outbox).is_empty());
        writer.inbox.post(ToWriter::Abort(OWNER));
        assert_eq!(turn(&writer, &mut desk, NOW), None);
        let departures = departed(&outbox);
        assert!(matches!(departures[..], [Departure { failure: Some(Failure::Disconnected), .. }]), "{departures:?}");
        assert!(departures[0].sent_bytes >= 32 << 20);
    }
}
