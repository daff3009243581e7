//! `weir top`: shows the activity of a running server, and of interfaces with `weir attach`, once a second.

#[cfg(feature = "bpf")]
mod attached;
#[cfg(not(feature = "bpf"))]
#[path = "top/no_attached.rs"]
mod attached;
mod layout;
mod page;
mod screen;

use std::io::Write;
use std::time::{Duration, Instant};

use cli::Failure;
use serde_json::Value;

use crate::running::{Which, servers_here, successor_of};
use crate::serve::control::STATUS_NAME;
use crate::status;
use attached::Attaches;
use layout::{Block, lines};
use page::page;
use screen::{Screen, Woken};

const EVERY: Duration = Duration::from_secs(1);

/// Show what a running server does, and what `weir attach` does, once a second; Ctrl-C ends it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir top
  weir top --pid 1234

responses in progress: the longest silent first, those that wait for upstreams last; 20 at most. silent: since
the last byte. lately: a minute ago counts a half. turns: the time that the same responses would have taken
if all that are ready shared the rate evenly. Ended responses are counted by servers with --admin
(server.admin). Interfaces with `weir attach` stand below, for root; without a server they stand alone.
Where the output is no terminal it is printed once. NO_COLOR=1 leaves colours out.")]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let mut attaches = Attaches::default();
    attaches.read();
    let is_alone = !attaches.is_empty() && args.which.is_any() && servers_here().is_empty();
    let server = if is_alone { None } else { Some(ask(&args.which)?) };
    let told = Told { server: server.map(|(pid, now)| OfServer { pid, now, before: None }), attaches };
    if screen::is_one() {
        return watch(told);
    }
    let lines: String = lines(&told.blocks(None), usize::MAX).iter().map(|line| format!("{}\n", line.text)).collect();
    Ok(std::io::stdout().write_all(lines.as_bytes())?)
}

fn ask(which: &Which) -> Result<(u32, Value), Failure> {
    let (pid, answer) = which.ask(STATUS_NAME, "top")?;
    Ok((pid, status::read(pid, &answer)?))
}

/// Everything that is shown.
struct Told {
    server: Option<OfServer>,
    attaches: Attaches,
}

/// The status of a server: the latest, and the one before.
struct OfServer {
    pid: u32,
    now: Value,
    before: Option<(Duration, Value)>,
}

impl Told {
    /// Returns the page, for a screen of this many rows if there is one.
    fn blocks(&self, screen_rows: Option<usize>) -> Vec<Block> {
        let attached = self.attaches.blocks();
        let Some(OfServer { pid, now, before }) = &self.server else { return attached };
        let lately = before.as_ref().map(|(passed, told)| (*passed, told));
        let taken = lines(&attached, usize::MAX).len() + usize::from(!attached.is_empty());
        let mut blocks = page(*pid, now, lately, screen_rows.map(|rows| rows.saturating_sub(taken)));
        if !attached.is_empty() {
            blocks.push(Block::Gap);
        }
        blocks.extend(attached);
        blocks
    }

    /// Reads everything again, after the time `passed`.
    fn again(&mut self, passed: Duration) -> Result<(), Failure> {
        self.attaches.read();
        if let Some(server) = &mut self.server {
            server.again(passed)?;
        }
        Ok(())
    }
}

impl OfServer {
    /// Queries the server again. If a server that has answered before no longer serves, it has ended or has a
    /// successor, which is shown instead.
    fn again(&mut self, passed: Duration) -> Result<(), Failure> {
        match ask(&Which::fixed(self.pid)) {
            Ok((_, now)) => self.before = Some((passed, std::mem::replace(&mut self.now, now))),
            Err(failure) if servers_here().contains(&self.pid) => return Err(failure),
            Err(_) => {
                let ended = || Failure::Failed(format!("server {} has ended", self.pid));
                let (pid, now) = ask(&Which::fixed(successor_of(self.pid).ok_or_else(ended)?))?;
                *self = OfServer { pid, now, before: None };
            }
        }
        Ok(())
    }
}

/// Shows the page until ctrl-c or until the server ends.
fn watch(mut told: Told) -> Result<(), Failure> {
    let mut screen = Screen::open()?;
    let mut at = Instant::now();
    loop {
        screen.draw(&told.blocks(Some(screen::size().1)))?;
        match screen.wait(at + EVERY) {
            Woken::Resized => {}
            Woken::End => return Ok(screen.leave()?),
            Woken::Time => {
                if let Err(failure) = told.again(at.elapsed()) {
                    screen.leave()?;
                    return Err(failure);
                }
                at = Instant::now();
            }
        }
    }
}
