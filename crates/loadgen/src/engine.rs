//! The loop: waits for the next instant or the next byte, whichever comes first, and tells the other modules.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use record::Outcome as JobOutcome;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use units::Nanos;

use crate::clock::{Clock, Timer};
use crate::connection::{Connection, Turn};
use crate::ledger::Ledger;
use crate::limits::connections_max;
use crate::{LoadError, Outcome, Plan, Progress};

/// How often the progress function is called, and so how soon it can stop a run.
pub const PROGRESS_EVERY: Nanos = Nanos::from_millis(100);

/// Events taken from the kernel at once; due requests are looked for between any two of them.
const EVENTS_MAX: usize = 64;

/// One read: large enough that what came at one turn is nearly always taken by one call.
const SCRATCH_BYTES: usize = 256 << 10;

/// Stands for the timer where connections have their number.
const TIMER: u64 = u64::MAX;

/// Carries out a plan and waits for every job, or for `grace` after the last request, or until `on_progress` says
/// `Break`.
///
/// Holds the calling thread all the time. The soft limit on descriptors and the timer slack of the thread stay as it
/// needs them.
pub fn run(plan: &Plan, mut on_progress: impl FnMut(Progress) -> ControlFlow<()>) -> Result<Outcome, LoadError> {
    plan.check()?;
    // Without it every wait may end up to 50 µs late. Refused or not, lateness is measured.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut engine = Engine::new(plan)?;
    let mut progress_at = PROGRESS_EVERY;
    let mut interrupted = false;
    loop {
        let now = engine.submit_due()?;
        if engine.is_over(now) {
            break;
        }
        if now >= progress_at {
            progress_at = now + PROGRESS_EVERY;
            if on_progress(engine.progress(now)).is_break() {
                interrupted = true;
                break;
            }
        }
        engine.turn(progress_at)?;
    }
    let _ = on_progress(engine.progress(engine.clock.now()));
    Ok(engine.finish(interrupted))
}

/// Asked for once, when a connection starts: being told of changes only (`ET`) costs no further call.
const ALL_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

struct Engine<'a> {
    plan: &'a Plan,
    clock: Clock,
    ledger: Ledger<'a>,
    epoll: OwnedFd,
    timer: Timer,
    /// By number, counted up from 0: an event of a connection that is gone can never be taken for another's.
    connections: HashMap<u64, Connection>,
    connections_max: usize,
    connections_started: u64,
    /// Group of the job submitted last, and the connection it went to; later jobs of that group go there too.
    current: Option<(u64, u64)>,
    turned_away: u64,
    scratch: Box<[u8]>,
}

impl<'a> Engine<'a> {
    fn new(plan: &'a Plan) -> Result<Engine<'a>, LoadError> {
        let system = |what| move |errno| LoadError::System(what, errno);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        let timer = Timer::new().map_err(system("timerfd_create"))?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), flags).map_err(system("epoll_ctl for the timer"))?;
        Ok(Engine {
            plan,
            ledger: Ledger::new(plan),
            epoll,
            timer,
            connections: HashMap::new(),
            connections_max: connections_max(),
            connections_started: 0,
            current: None,
            turned_away: 0,
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            clock: Clock::start(),
        })
    }

    /// Submits every request whose instant has come, and gives the time after that.
    fn submit_due(&mut self) -> Result<Nanos, LoadError> {
        loop {
            let now = self.clock.now();
            match self.ledger.next_at() {
                Some(at) if at <= now => self.submit(now)?,
                _ => return Ok(now),
            }
        }
    }

    fn submit(&mut self, now: Nanos) -> Result<(), LoadError> {
        let job = self.ledger.submit(now);
        let Some(number) = self.connection_for(job)? else {
            self.ledger.end(job, JobOutcome::Refused, self.clock.now());
            return Ok(());
        };
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        if connection.submit(self.plan, job, &mut self.ledger, now) == Turn::Done {
            self.connections.remove(&number);
        }
        Ok(())
    }

    /// The connection a job belongs on, opened if it is not; `None` if it cannot be.
    fn connection_for(&mut self, job: usize) -> Result<Option<u64>, LoadError> {
        let group = self.plan.group_of(job);
        if let Some((current, number)) = self.current
            && current == group
            && self.connections.contains_key(&number)
        {
            return Ok(Some(number));
        }
        let number = self.open()?;
        self.current = number.map(|number| (group, number));
        Ok(number)
    }

    fn open(&mut self) -> Result<Option<u64>, LoadError> {
        if self.connections.len() >= self.connections_max {
            self.turned_away += 1;
            return Ok(None);
        }
        let connection = match Connection::start(self.plan.target) {
            Ok(connection) => connection,
            Err(errno) => {
                self.turned_away += u64::from(is_our_own_limit(errno));
                return Ok(None);
            }
        };
        let number = self.connections_started;
        epoll::add(&self.epoll, &connection, EventData::new_u64(number), ALL_EVENTS)
            .map_err(|errno| LoadError::System("epoll_ctl for a connection", errno))?;
        self.connections_started += 1;
        self.connections.insert(number, connection);
        Ok(Some(number))
    }

    /// Waits for events, at most until the next request is due or `until`, and handles them.
    fn turn(&mut self, until: Nanos) -> Result<(), LoadError> {
        let until = until.min(self.ledger.next_at().unwrap_or(self.deadline()));
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
                number => self.on_ready(number, event.flags)?,
            }
            self.submit_due()?;
        }
        Ok(())
    }

    fn on_ready(&mut self, number: u64, flags: EventFlags) -> Result<(), LoadError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        match connection.on_ready(flags, &mut self.scratch, &mut self.ledger, &self.clock) {
            Turn::Wait => {}
            Turn::Done => drop(self.connections.remove(&number)),
            Turn::More => {
                // Setting the same events again makes what is already there an event of the next turn.
                epoll::modify(&self.epoll, &*connection, EventData::new_u64(number), ALL_EVENTS)
                    .map_err(|errno| LoadError::System("epoll_ctl for a connection", errno))?;
            }
        }
        Ok(())
    }

    /// When outstanding jobs are declared incomplete.
    fn deadline(&self) -> Nanos {
        Nanos(self.plan.last_at().0.saturating_add(self.plan.grace.0))
    }

    fn is_over(&self, now: Nanos) -> bool {
        self.ledger.next_at().is_none() && (self.ledger.ended() == self.ledger.submitted() || now >= self.deadline())
    }

    fn progress(&self, now: Nanos) -> Progress {
        let (submitted, ended) = (self.ledger.submitted(), self.ledger.ended());
        Progress { elapsed: now, jobs: self.plan.requests.len(), submitted, ended }
    }

    fn finish(self, interrupted: bool) -> Outcome {
        let (elapsed, cpu) = (self.clock.now(), self.clock.cpu());
        let (records, lateness) = self.ledger.close(elapsed);
        let (turned_away, started_unix_ns) = (self.turned_away, self.clock.began_unix().0);
        Outcome { records, lateness, cpu, elapsed, started_unix_ns, turned_away, interrupted }
    }
}

/// Whether a connection failed for want of descriptors, memory or ports here, not because of the server.
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
