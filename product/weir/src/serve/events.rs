//! What a running server is asked for: by signals, and by `weir reload`. The main thread waits for both at once.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use cli::Failure;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use server::Server;
use server::service::Notifier;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Handle;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use super::control::Control;
use super::{Hosted, Source};

/// Where waiting fails.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub struct Events {
    signals: SignalDelivery<UnixStream, SignalOnly>,
    control: Result<Control, String>,
}

/// What became of a reload, and lines about it.
pub struct Outcome {
    pub is_used: bool,
    pub lines: Vec<String>,
}

impl Events {
    pub fn new() -> Result<Events, Failure> {
        let unwatched = |e| Failure::Failed(format!("cannot watch for signals: {e}"));
        let (read, write) = UnixStream::pair().map_err(unwatched)?;
        read.set_nonblocking(true).map_err(unwatched)?;
        let watched = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        let signals = SignalDelivery::with_pipe(read, write, SignalOnly, watched).map_err(unwatched)?;
        Ok(Events { signals, control: Control::open() })
    }

    /// Ends [`Events::handle`], from any thread.
    pub fn closer(&self) -> Handle {
        self.signals.handle()
    }

    /// Why `weir reload` does not reach this server.
    pub fn unasked(&self) -> Option<&String> {
        self.control.as_ref().err()
    }

    /// Until the server is asked to stop, or has failed.
    pub fn handle(&mut self, server: &Server, source: Option<&Source>, notifier: &Notifier, status: &str) {
        let reload = || {
            notifier.reloading();
            server.reopen_logs();
            let outcome = reload(server, source);
            outcome.lines.iter().for_each(|line| server.tell(line));
            let failure = if outcome.is_used { String::new() } else { format!("; {}", outcome.lines.join("; ")) };
            notifier.ready(&format!("{status}{failure}"));
            outcome
        };
        let mut is_asked = false;
        while !self.signals.handle().is_closed() {
            for signal in self.signals.pending() {
                match signal {
                    SIGHUP => drop(reload()),
                    SIGUSR1 => server.reopen_logs(),
                    SIGUSR2 => server.tell_clients(),
                    _ => return,
                }
            }
            if let (true, Ok(control)) = (is_asked, &self.control) {
                control.answer(reload);
            }
            is_asked = self.wait();
        }
    }

    /// For a signal, the end, or somebody who asks: then it is true.
    fn wait(&self) -> bool {
        let control = self.control.iter().map(|control| PollFd::new(control.listener(), PollFlags::IN));
        let mut sources: Vec<_> = control.chain([PollFd::new(self.signals.get_read(), PollFlags::IN)]).collect();
        match poll(&mut sources, None) {
            Ok(_) => self.control.is_ok() && !sources[0].revents().is_empty(),
            // As good as a signal: a look that finds none costs nothing.
            Err(Errno::INTR) => false,
            // Refused by a filter, or short of memory: a look now and then.
            Err(_) => {
                std::thread::sleep(LOOK_EVERY);
                true
            }
        }
    }
}

/// All of the file as it is now, or nothing of it.
fn reload(server: &Server, source: Option<&Source>) -> Outcome {
    let Some(source) = source else { return Outcome { is_used: true, lines: vec![] } };
    let replaced = (source.again)().and_then(|Hosted { sites, classes }| {
        server.replace_sites(&sites, classes.as_ref())?;
        Ok(sites.len())
    });
    match replaced {
        Ok(count) => {
            let sites = if count == 1 { "1 site is".to_string() } else { format!("{count} sites are") };
            let line = format!("configuration read again: {sites} in force");
            Outcome { is_used: true, lines: vec![line] }
        }
        Err(Failure::Failed(reason) | Failure::Usage(reason)) => {
            let verdict = "configuration read again and not used: that from before stays in force";
            let lines = reason.lines().chain([verdict]).map(Into::into).collect();
            Outcome { is_used: false, lines }
        }
    }
}
