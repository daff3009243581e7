//! The event loop of a run: waits for the next instant or the next byte, whichever comes first, and notifies the other
//! modules.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use record::Outcome as JobOutcome;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use units::Nanos;
use workload::{Ask, Source};

use crate::alarms::Alarms;
use crate::clock::{Clock, Timer};
use crate::connection::{self, Connection, Turn};
use crate::ledger::{Books, Ledger};
use crate::origin::{self, Origins, PORT_TRIES_MAX};
use crate::patience::Queue;
use crate::pool::{Number, Owner, Pool};
use crate::waiting::Waiting;
use crate::{LoadError, Outcome, Plan, Progress, Protocol};

/// The interval between calls of the progress function, and so the maximum time until it can stop a run.
pub const PROGRESS_EVERY: Nanos = Nanos::from_millis(100);

/// The maximum number of events taken from the kernel in one call. Due requests are checked between any two events.
const EVENTS_MAX: usize = 64;

/// The maximum number of requests submitted and given up before responses are read again. Without it, a generator that
/// has fallen behind would read nothing until it had caught up, and the delay would be blamed on the server.
const ACTS_MAX: usize = 64;

/// The size of a read buffer, large enough that one call nearly always takes everything that arrived during one turn.
const SCRATCH_BYTES: usize = 256 << 10;

/// The maximum number of requests in a run, which stops a source that never ends. Each request costs about 200 bytes.
const JOBS_MAX: usize = workload::REQUESTS_MAX;

/// The event number of the timer, in place of a connection's number.
const TIMER: u64 = u64::MAX;

/// Carries out a load as planned. Ends when every job has ended, when `grace` has passed since the last request, or
/// when `on_progress` returns `Break`.
///
/// Blocks the calling thread until the end. The descriptor limits that it raises stay raised.
pub fn run(
    plan: &Plan,
    source: &mut dyn Source,
    mut on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, LoadError> {
    plan.check()?;
    origin::check(plan)?;
    if source.due().is_none() {
        return Err(LoadError::NothingToAsk);
    }
    let mut engine = Engine::new(plan, source)?;
    let mut progress_at = PROGRESS_EVERY;
    let mut interrupted = false;
    loop {
        let now = engine.act_on_time()?;
        if engine.is_over(now) {
            break;
        }
        if now >= progress_at {
            progress_at = now + PROGRESS_EVERY;
            if on_progress(engine.progress(now)).is_break() || engine.is_full() {
                interrupted = true;
                break;
            }
        }
        engine.turn(progress_at)?;
    }
    let _ = on_progress(engine.progress(engine.clock.now()));
    Ok(engine.finish(interrupted))
}

/// The events requested once, when a connection starts. Edge triggering (`ET`) makes further calls unnecessary.
const ANSWER_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
/// The events of a connection that is not established, or has not sent all of a request.
const ALL_EVENTS: EventFlags = ANSWER_EVENTS.union(EventFlags::OUT);

/// A job to be requested now.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// A job that a connection gave back, to be requested over another connection.
    Unheard(usize),
    Waited(usize),
}

struct Engine<'a> {
    plan: &'a Plan,
    clock: Clock,
    ledger: Ledger<'a>,
    epoll: OwnedFd,
    timer: Timer,
    pool: Pool,
    connections_max: usize,
    connections_peak: usize,
    origins: Origins,
    /// The connection that carries each job, or carried it last.
    carriers: Vec<Option<Number>>,
    /// Jobs that wait for a connection of their client.
    waiting: Waiting,
    /// Jobs to be requested now: their connection was closed and gave them back, or their wait has ended.
    due: VecDeque<Due>,
    patience: Queue,
    alarms: Alarms,
    turned_away: u64,
    scratch: Box<[u8]>,
}

impl<'a> Engine<'a> {
    fn new(plan: &'a Plan, source: &'a mut dyn Source) -> Result<Engine<'a>, LoadError> {
        let system = |what| move |errno| LoadError::System(what, errno);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        let timer = Timer::new().map_err(system("timerfd_create"))?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), flags).map_err(system("epoll_ctl for the timer"))?;
        let ledger = Ledger::new(plan, source);
        // The nanoseconds of the clock start each run at different ports.
        let origins = Origins::of(plan, Clock::start().began_unix().0);
        Ok(Engine {
            plan,
            carriers: Vec::with_capacity(ledger.count().unwrap_or(0)),
            waiting: Waiting::default(),
            due: VecDeque::new(),
            ledger,
            epoll,
            timer,
            pool: Pool::new(),
            connections_max: crate::limits::connections(plan),
            connections_peak: 0,
            origins,
            patience: Queue::default(),
            alarms: Alarms::default(),
            turned_away: 0,
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            clock: Clock::start(),
        })
    }

    /// Submits requests whose instant has come, gives up those whose patience has ended, and wakes connections, at most
    /// [`ACTS_MAX`] in total. Returns the time afterwards.
    fn act_on_time(&mut self) -> Result<Nanos, LoadError> {
        for _ in 0..ACTS_MAX {
            let now = self.clock.now();
            if self.ledger.due().is_some_and(|at| at <= now) {
                if let Some(job) = self.ledger.submit(now) {
                    self.carriers.push(None);
                    self.try_job(job, now)?;
                }
            } else if let Some(job) = self.patience.pop_due(now, &self.ledger) {
                self.give_up(job, now)?;
            } else if let Some(jobs) = self.ledger.take_leaving(now) {
                self.leave(jobs, now)?;
            } else if let Some(number) = self.alarms.pop_due(now) {
                self.wake(number)?;
            } else {
                return Ok(now);
            }
            self.ask_due()?;
        }
        Ok(self.clock.now())
    }

    /// Begins an attempt, over a connection with room if there is one.
    fn try_job(&mut self, job: usize, now: Nanos) -> Result<(), LoadError> {
        if let Some(patience) = self.plan.patience {
            self.patience.push(now + patience.abort_after, job, self.ledger.attempt(job));
        }
        self.ask(job)
    }

    fn ask(&mut self, job: usize) -> Result<(), LoadError> {
        let owner = self.owner(job);
        match self.pool.take(owner) {
            Some(number) => {
                self.ledger.on_start(job, self.clock.now());
                self.ask_again(job, number)
            }
            None if self.may_open(owner) => self.ask_anew(job),
            None => {
                // The client is late here, not the generator.
                self.ledger.on_start(job, self.clock.now());
                self.waiting.push(owner, job, self.ledger.attempt(job));
                Ok(())
            }
        }
    }

    /// Returns true if its client may open another connection.
    fn may_open(&self, owner: Owner) -> bool {
        self.plan.client_connections.is_none_or(|most| (self.pool.standing(owner) as u64) < most)
    }

    /// Makes the first job that waits for a connection of this client due, because one of its connections has changed.
    fn end_wait(&mut self, owner: Owner) {
        if self.plan.client_connections.is_some() && (self.pool.may_have_room(owner) || self.may_open(owner)) {
            self.due.extend(self.waiting.pop(owner, &self.ledger).map(Due::Waited));
        }
    }

    fn ask_due(&mut self) -> Result<(), LoadError> {
        while let Some(due) = self.due.pop_front() {
            match (due, self.plan.protocol) {
                (Due::Unheard(job) | Due::Waited(job), _) if self.ledger.has_ended(job) => {}
                // Other idle connections may have been closed too.
                (Due::Unheard(job), Protocol::Http1) if self.may_open(self.owner(job)) => self.ask_anew(job)?,
                (Due::Unheard(job) | Due::Waited(job), _) => self.ask(job)?,
            }
        }
        Ok(())
    }

    /// Requests a job over a new connection.
    fn ask_anew(&mut self, job: usize) -> Result<(), LoadError> {
        let Some(number) = self.open(job) else {
            self.ledger.end(job, JobOutcome::Refused, self.clock.now());
            self.end_wait(self.owner(job));
            return Ok(());
        };
        self.carriers[job] = Some(number);
        let connection = self.pool.get(number).expect("just inserted");
        let turn = connection.submit(self.plan, job, &mut self.ledger, &self.clock);
        if turn == Turn::Wait {
            let flags = if connection.is_sending() { ALL_EVENTS } else { ANSWER_EVENTS };
            epoll::add(&self.epoll, &*connection, EventData::new_u64(number.to_u64()), flags)
                .map_err(|errno| LoadError::System("epoll_ctl for a connection", errno))?;
        }
        self.after(turn, number)
    }

    /// Requests a job over an established connection.
    fn ask_again(&mut self, job: usize, number: Number) -> Result<(), LoadError> {
        self.carriers[job] = Some(number);
        let Some(connection) = self.pool.get(number) else { return Ok(()) };
        let turn = connection.submit(self.plan, job, &mut self.ledger, &self.clock);
        let is_blocked = turn == Turn::Wait && connection.is_sending();
        self.after(if is_blocked { Turn::More } else { turn }, number)
    }

    fn owner(&self, job: usize) -> Owner {
        let Ask { user, client, .. } = self.ledger.ask(job);
        let client = || client.map(Owner::Client);
        user.map(Owner::User).or_else(client).unwrap_or_else(|| Owner::Group(self.ledger.dealt(job).group))
    }

    /// Closes the connection or stream of a job whose user gives up, and retries if the plan says so.
    fn give_up(&mut self, job: usize, now: Nanos) -> Result<(), LoadError> {
        self.cancel(job)?;
        if self.ledger.give_up(job, now) { self.try_job(job, now) } else { Ok(()) }
    }

    /// Ends these jobs, whose user leaves.
    fn leave(&mut self, jobs: Vec<usize>, now: Nanos) -> Result<(), LoadError> {
        for job in jobs {
            self.cancel(job)?;
            // A connection that is lost meanwhile ends its other jobs.
            if !self.ledger.has_ended(job) {
                self.ledger.end(job, JobOutcome::Aborted, now);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, job: usize) -> Result<(), LoadError> {
        let number = self.carriers[job];
        let Some((number, connection)) = number.and_then(|number| Some((number, self.pool.get(number)?))) else {
            return Ok(());
        };
        let turn = connection.cancel(job, &mut self.ledger, &self.clock);
        let is_blocked = turn == Turn::Wait && connection.is_sending();
        self.after(if is_blocked { Turn::More } else { turn }, number)
    }

    fn open(&mut self, job: usize) -> Option<Number> {
        if self.pool.len() >= self.connections_max {
            self.turned_away += 1;
            return None;
        }
        let connection = match self.connect(job) {
            Ok(connection) => connection,
            Err(errno) => {
                self.turned_away += u64::from(is_our_own_limit(errno));
                return None;
            }
        };
        self.ledger.on_start(job, connection.started());
        let number = self.pool.insert(connection, self.owner(job));
        self.connections_peak = self.connections_peak.max(self.pool.len());
        Some(number)
    }

    fn connect(&mut self, job: usize) -> Result<Box<dyn Connection>, Errno> {
        let (dealt, standing) = (self.ledger.dealt(job), self.pool.len());
        for _ in 0..PORT_TRIES_MAX {
            let from = self.origins.next(dealt, standing);
            match connection::start(self.plan, from, &self.clock) {
                other if from.is_none() => return other,
                // Another program uses the port, or its last connection is still remembered.
                Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
                other => return other,
            }
        }
        // All our ports are taken. For a single address the kernel may find another, although that takes it time.
        match self.plan.clients.is_empty() {
            true => connection::start(self.plan, None, &self.clock),
            false => Err(Errno::ADDRNOTAVAIL),
        }
    }

    /// Waits for events until something is due, at most until `until`, and handles them.
    fn turn(&mut self, until: Nanos) -> Result<(), LoadError> {
        let due = [self.ledger.due(), self.ledger.leaves_at(), self.patience.next_at(), self.alarms.next_at()];
        let due = due.into_iter().flatten().min();
        let until = until.min(due.unwrap_or(self.deadline()));
        self.timer.arm(&self.clock, until).map_err(|errno| LoadError::System("timerfd_settime", errno))?;
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
        let (ready, _) = match epoll::wait(&self.epoll, &mut events, None) {
            Ok(ready) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(LoadError::System("epoll_wait", errno)),
        };
        for event in ready {
            match event.data.u64() {
                TIMER => self.timer.expired(),
                number => self.on_ready(Number::from_u64(number), event.flags)?,
            }
            self.ask_due()?;
            self.act_on_time()?;
        }
        Ok(())
    }

    fn wake(&mut self, number: Number) -> Result<(), LoadError> {
        let Some(connection) = self.pool.get(number) else { return Ok(()) };
        let turn = connection.on_time(&mut self.ledger, &self.clock);
        let is_blocked = turn == Turn::Wait && connection.is_sending();
        self.after(if is_blocked { Turn::More } else { turn }, number)
    }

    fn on_ready(&mut self, number: Number, flags: EventFlags) -> Result<(), LoadError> {
        // The connection was closed after the event occurred: there is nothing to do.
        let Some(connection) = self.pool.get(number) else { return Ok(()) };
        let turn = connection.on_ready(flags, &mut self.scratch, &mut self.ledger, &self.clock);
        self.after(turn, number)
    }

    /// Does what the turn of a connection requires.
    fn after(&mut self, turn: Turn, number: Number) -> Result<(), LoadError> {
        let Some(owner) = self.pool.owner(number) else { return Ok(()) };
        let Some(connection) = self.pool.get(number) else { return Ok(()) };
        self.due.extend(connection.take_unheard().into_iter().map(Due::Unheard));
        let ended = connection.take_ended();
        let has_left = connection.is_idle() && ended.is_some_and(|job| self.ledger.has_left(job));
        let is_over = turn == Turn::Done || has_left;
        if matches!(self.plan.protocol, Protocol::Http3 { .. }) {
            self.alarms.set(number, connection.due().filter(|_| !is_over));
        }
        if is_over {
            self.pool.remove(number);
        } else if turn == Turn::More {
            // Setting the same events again reports pending input as an event of the next turn.
            epoll::modify(&self.epoll, &*connection, EventData::new_u64(number.to_u64()), ALL_EVENTS)
                .map_err(|errno| LoadError::System("epoll_ctl for a connection", errno))?;
        }
        self.pool.release(number);
        self.end_wait(owner);
        Ok(())
    }

    /// The instant at which outstanding jobs are declared incomplete.
    fn deadline(&self) -> Nanos {
        Nanos(self.ledger.last_at().0.saturating_add(self.plan.grace.0))
    }

    fn is_over(&self, now: Nanos) -> bool {
        self.ledger.due().is_none() && (self.ledger.ended() == self.ledger.submitted() || now >= self.deadline())
    }

    fn is_full(&self) -> bool {
        self.ledger.submitted() >= JOBS_MAX && self.ledger.due().is_some()
    }

    fn progress(&self, now: Nanos) -> Progress {
        let (submitted, ended) = (self.ledger.submitted(), self.ledger.ended());
        Progress { elapsed: now, jobs: self.ledger.count(), submitted, ended }
    }

    fn finish(self, interrupted: bool) -> Outcome {
        let (elapsed, cpu) = (self.clock.now(), self.clock.cpu());
        let Books { records, lateness, pages } = self.ledger.close(elapsed);
        Outcome {
            records,
            pages,
            lateness,
            cpu,
            elapsed,
            started_unix_ns: self.clock.began_unix().0,
            connections_peak: self.connections_peak,
            turned_away: self.turned_away,
            interrupted,
        }
    }
}

/// Returns true if a connection failed because this machine lacks descriptors, memory or ports, and not because of the
/// server.
fn is_our_own_limit(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::MFILE
            | Errno::NFILE
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::ADDRNOTAVAIL
            | Errno::ADDRINUSE
            | Errno::AGAIN
    )
}
