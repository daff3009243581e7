//! `weir top`: shows the activity of a running server, once a second.

mod layout;
mod page;
mod screen;

use std::io::Write;
use std::time::{Duration, Instant};

use cli::Failure;
use serde_json::Value;

use crate::running::Which;
use crate::serve::control::STATUS_NAME;
use crate::status;
use layout::lines;
use page::page;
use screen::{Screen, Woken};

const EVERY: Duration = Duration::from_secs(1);

/// Show what a running server does, once a second; Ctrl-C ends it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir top
  weir top --pid 1234

responses under way: the longest silent first, those that wait for upstreams last; 20 at most. silent: since
the last byte. lately: a minute ago counts a half. turns: the time that the same responses would have taken
if all that are ready shared the rate evenly. Ended responses are counted by servers with --admin
(server.admin). Where the output is no terminal it is printed once. NO_COLOR=1 leaves colours out.")]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let asked = ask(&args.which)?;
    if screen::is_one() {
        return watch(&Which::fixed(asked.0), asked);
    }
    let (pid, told) = asked;
    let lines: String =
        lines(&page(pid, &told, None, None), usize::MAX).iter().map(|line| format!("{}\n", line.text)).collect();
    Ok(std::io::stdout().write_all(lines.as_bytes())?)
}

fn ask(which: &Which) -> Result<(u32, Value), Failure> {
    let (pid, answer) = which.ask(STATUS_NAME, "top")?;
    Ok((pid, status::read(pid, &answer)?))
}

/// Shows the page until ctrl-c or the end of the server.
fn watch(which: &Which, (pid, first): (u32, Value)) -> Result<(), Failure> {
    let mut screen = Screen::open()?;
    let (mut told, mut at) = (first, Instant::now());
    let mut before: Option<(Duration, Value)> = None;
    loop {
        let lately = before.as_ref().map(|(passed, told)| (*passed, told));
        screen.draw(&page(pid, &told, lately, Some(screen::size().1)))?;
        match screen.wait(at + EVERY) {
            Woken::Resized => {}
            Woken::End => return Ok(screen.leave()?),
            Woken::Time => {
                let answered = ask(which);
                if answered.is_err() {
                    screen.leave()?;
                }
                let (now, before_told) = (Instant::now(), std::mem::replace(&mut told, answered?.1));
                before = Some((now - at, before_told));
                at = now;
            }
        }
    }
}
