//! The events of a running server: signals, `weir reload`, `weir status` and others. The main thread waits for all of
//! them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use cli::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use server::Server;
use server::service_manager::{NamedSocket, Notifier};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Handle;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use super::admin::Admin;
use super::before::{Before, Heard, hear};
use super::control::{Control, FIXED, NAME, ROUTES_NAME, STATUS_NAME, UNUSED, USED};
use super::handover::{ADMIN, Handover, Predecessor, Successor};
use super::reload_config::{Outcome, Source, Verdict, reload};
use super::status::{self, Asker};
use super::unmet::Unmet;

/// The interval at which the found rate of the uplink is saved.
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// Interval of checks if waiting fails.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub struct Events {
    signals: SignalDelivery<UnixStream, SignalOnly>,
    control: Option<Control>,
    status: Option<Control>,
    routes: Option<Control>,
    admin: Option<Admin>,
    handover: Option<Handover>,
    /// The processes before this one that have not ended.
    before: Before,
    /// Lines about missing sockets, and about the address of the admin listener.
    remarks: Vec<String>,
}

/// The events that have occurred.
#[derive(Default)]
struct Asked {
    reload: bool,
    status: bool,
    routes: bool,
    admin: bool,
    handover: bool,
    /// True if a process before this one has ended.
    has_ended: bool,
}

impl Outcome {
    /// The outcome in the form that `weir reload` reads.
    fn text(&self) -> String {
        format!(
            "{}\n{}\n",
            match self.verdict {
                Verdict::Used => USED,
                Verdict::Unused => UNUSED,
                Verdict::Fixed => FIXED,
            },
            self.lines.join("\n")
        )
    }
}

impl Events {
    /// Opens the sockets. `taken` is the socket of the admin listener, if the previous process had it.
    pub fn new(admin: Option<SocketAddr>, taken: Option<OwnedFd>) -> Result<Events, Unmet> {
        let unwatched = |e| Failure::Failed(format!("cannot watch for signals: {e}"));
        let (read, write) = UnixStream::pair().map_err(unwatched)?;
        read.set_nonblocking(true).map_err(unwatched)?;
        let watched = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        let signals = SignalDelivery::with_pipe(read, write, SignalOnly, watched).map_err(unwatched)?;
        let mut remarks = Vec::new();
        let mut open = |name, command: &str, otherwise: &str| {
            let opened = Control::open(name);
            let said = |error| format!("`weir {command}` does not reach this server: {error}{otherwise}");
            opened.map_err(|error| remarks.push(said(error))).ok()
        };
        let (control, status) = (open(NAME, "reload", "; SIGHUP does"), open(STATUS_NAME, "status", ""));
        let routes = open(ROUTES_NAME, "status --routes", "");
        let handover = Handover::open();
        let handover =
            handover.map_err(|error| remarks.push(format!("`weir upgrade` does not reach this server: {error}"))).ok();
        let admin = admin.map(|address| Admin::open(address, taken)).transpose();
        let admin = admin.map_err(|failure| Unmet::Key("server.admin", failure))?;
        let address = admin.as_ref().and_then(|admin| admin.listener().local_addr().ok());
        remarks.extend(address.map(|address| format!("what it does: http://{address}/ (for this machine only)")));
        Ok(Events { signals, control, status, routes, admin, handover, before: Before::default(), remarks })
    }

    /// Takes over from another process, and watches for its end and for the end of earlier processes.
    pub fn follow(&mut self, mut predecessor: Predecessor) -> Result<(), Failure> {
        predecessor.take_over().map_err(|error| Failure::Failed(format!("cannot take over: {error}")))?;
        self.before = predecessor.into_before();
        Ok(())
    }

    /// Closes the sockets, because another process serves from now on. Until the process ends, a thread continues to
    /// reopen logs at SIGUSR1, at SIGHUP and at the successor's request, because logs may be rotated while a long
    /// download continues. The successor holds the connections to the earlier processes.
    pub fn leave(mut self, server: &Server, successor: &Successor) {
        (self.control, self.status, self.routes, self.admin) = (None, None, None, None);
        (self.handover, self.before) = (None, Before::default());
        let reopen = server.logs_reopener();
        let mut connection = successor.connection().ok();
        let reopen_logs = move || {
            loop {
                let is_signalled = self.signals.pending().filter(|signal| is_for_logs(*signal)).count() > 0;
                let heard = connection.as_ref().map(hear);
                if is_signalled || heard == Some(Heard::Reopen) {
                    reopen();
                }
                connection.take_if(|_| heard == Some(Heard::End));
                self.wait_for_reopening(connection.as_ref());
            }
        };
        if let Err(error) = std::thread::Builder::new().name("weir-signals".into()).spawn(reopen_logs) {
            server.tell(&format!("logs are not reopened while this process ends: no thread weir-signals: {error}"));
        }
    }

    /// Waits for a signal or for a message from the successor.
    fn wait_for_reopening(&self, successor: Option<&OwnedFd>) {
        let signals = PollFd::new(self.signals.get_read(), PollFlags::IN);
        let successor = successor.map(|successor| PollFd::new(successor, PollFlags::IN));
        let mut sources: Vec<_> = [signals].into_iter().chain(successor).collect();
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }

    /// Returns a handle with which any thread can end [`Events::handle`].
    pub fn closer(&self) -> Handle {
        self.signals.handle()
    }

    /// The reasons why `weir reload` or `weir status` cannot reach this server, and the address of its admin page.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Handles events until the server must stop, has failed, or was replaced by another process, which is returned.
    pub fn handle(
        &mut self,
        server: &Server,
        source: &dyn Source,
        notifier: &Notifier,
        status: &str,
    ) -> Option<Successor> {
        let again = || again(server, source, notifier, status);
        let mut asked = Asked::default();
        let mut kept_at = Instant::now();
        while !self.signals.handle().is_closed() {
            for signal in self.signals.pending() {
                pass_on(signal, &self.before);
                match signal {
                    SIGHUP => drop(again()),
                    SIGUSR1 => server.reopen_logs(),
                    SIGUSR2 => server.tell_clients(),
                    _ => return None,
                }
            }
            self.answer(&asked, server, || again().text());
            if asked.handover
                && let Some(successor) = self.hand_over(server)
            {
                return Some(successor);
            }
            if asked.has_ended && self.before.forget_ended() {
                server.on_predecessor_ended();
            }
            if server.keeps_rate() && kept_at.elapsed() >= KEEP_EVERY {
                server.keep_rate();
                kept_at = Instant::now();
            }
            if let Some(admin) = &mut self.admin {
                admin.on_time(server);
            }
            asked = self.wait(server.keeps_rate());
        }
        None
    }

    fn answer(&mut self, asked: &Asked, server: &Server, again: impl FnOnce() -> String) {
        if let Some(control) = self.control.as_ref().filter(|_| asked.reload) {
            pass_on(SIGHUP, &self.before);
            control.answer(again);
        }
        if let Some(control) = self.status.as_ref().filter(|_| asked.status) {
            control.answer(|| status::answer(server, Asker::Operator));
        }
        if let Some(control) = self.routes.as_ref().filter(|_| asked.routes) {
            control.answer(|| status::routes(server));
        }
        if let Some(admin) = self.admin.as_mut().filter(|_| asked.admin) {
            admin.answer(server);
        }
    }

    /// Answers a request for the sockets. Returns the process that serves with them from now on.
    fn hand_over(&mut self, server: &Server) -> Option<Successor> {
        let admin = self.admin.as_ref().map(|admin| admin.listener().as_fd().try_clone_to_owned());
        let sockets = || {
            let mut sockets = self.before.to_pass()?;
            sockets.extend(server.sockets()?);
            sockets.extend(admin.transpose()?.map(|socket| NamedSocket { name: ADMIN.into(), socket }));
            Ok(sockets)
        };
        match self.handover.as_mut()?.answer(sockets) {
            Ok(successor) => successor,
            Err(line) => {
                server.tell(&line);
                None
            }
        }
    }

    /// Waits for a signal, the end of the server, a client, or the next time to save the rate, take a sample or drop a
    /// slow client.
    fn wait(&self, keeps: bool) -> Asked {
        let control = [&self.control, &self.status, &self.routes].map(|control| control.iter());
        let control = control.into_iter().flatten().map(|control| PollFd::new(control.listener(), PollFlags::IN));
        let admin: Vec<_> = self.admin.iter().flat_map(Admin::descriptors).collect();
        let of_admin = admin.len();
        let handover = self.handover.iter().flat_map(Handover::descriptors).map(|fd| PollFd::new(fd, PollFlags::IN));
        let before = self.before.descriptors().iter().map(|process| PollFd::new(process, PollFlags::IN));
        let signals = PollFd::new(self.signals.get_read(), PollFlags::IN);
        let of_others = control.chain(admin).chain(before).chain(handover);
        let mut sources: Vec<_> = [signals].into_iter().chain(of_others).collect();
        let for_admin = self.admin.as_ref().map(Admin::time_left);
        let for_successor = self.handover.as_ref().and_then(Handover::time_left);
        let timeout = keeps.then_some(KEEP_EVERY).into_iter().chain(for_admin).chain(for_successor).min();
        let timeout =
            timeout.map(|wait| Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() });
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) => {
                let mut is_ready = sources[1..].iter().map(|source| !source.revents().is_empty());
                let mut of = |is_there: bool| is_there && is_ready.next().unwrap_or(false);
                let [reload, status, routes] =
                    [&self.control, &self.status, &self.routes].map(|control| of(control.is_some()));
                let admin = (0..of_admin).filter(|_| of(true)).count() > 0;
                let has_ended = self.before.descriptors().iter().filter(|_| of(true)).count() > 0;
                let is_late = self.handover.as_ref().and_then(Handover::time_left) == Some(Duration::ZERO);
                let handover = is_ready.any(|is_ready| is_ready) || is_late;
                Asked { reload, status, routes, admin, handover, has_ended }
            }
            // Treated as a signal: a check that finds none costs nothing.
            Err(Errno::INTR) => Asked::default(),
            // Refused by a filter, or out of memory: checks at intervals.
            Err(_) => {
                std::thread::sleep(LOOK_EVERY);
                Asked { reload: true, status: true, routes: true, admin: true, handover: true, has_ended: true }
            }
        }
    }
}

fn is_for_logs(signal: i32) -> bool {
    matches!(signal, SIGHUP | SIGUSR1)
}

/// Asks the earlier processes, which may continue to send for a day, to reopen their logs after a signal that reopens
/// the logs of this one.
fn pass_on(signal: i32, before: &Before) {
    if is_for_logs(signal) {
        before.reopen_logs();
    }
}

/// Reads the configuration again, and reports the outcome in the log and to the service manager.
fn again(server: &Server, source: &dyn Source, notifier: &Notifier, status: &str) -> Outcome {
    notifier.reloading();
    server.reopen_logs();
    let outcome = reload(server, source);
    outcome.lines.iter().for_each(|line| server.tell(line));
    let failure =
        if outcome.verdict == Verdict::Used { String::new() } else { format!("; {}", outcome.lines.join("; ")) };
    notifier.ready(&format!("{status}{failure}"));
    outcome
}
