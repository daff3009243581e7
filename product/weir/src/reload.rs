//! `weir reload`: makes a running server read its configuration again, and waits for the outcome.

use std::os::unix::fs::MetadataExt;

use cli::Failure;

use crate::running::Which;
use crate::serve::control::{FIXED, NAME, USED};
use crate::serve::run::TAKES_A_PROCESS;
use crate::upgrade;

const AFTER_HELP: &str = "\
Examples:
  weir reload
  weir reload --pid 1234
  weir reload --pid-file /run/weir.pid
  weir reload --upgrade

If the new configuration cannot be used, the old one stays, and the reason is printed with status 1.
Without --pid it reaches your own server: of your user, and started from this folder, with
it, or with a file of it; otherwise it lists those that run and exits with 2. Logs are opened
anew too. A service: systemctl reload weir.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Start a new process, as `weir upgrade` does, if a change needs one or this program is
    /// another than that of the server
    #[arg(long, verbatim_doc_comment)]
    upgrade: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let which = Which::fixed(args.which.pid_to_change("reload")?);
    let (pid, answer) = which.ask(NAME, "reload")?;
    let (verdict, lines) = answer.split_once('\n').unwrap_or_default();
    if verdict == FIXED && args.upgrade {
        // Prints only the changes, because the verdict is about to be outdated.
        let (changed, _) = lines.trim_end().rsplit_once('\n').unwrap_or_default();
        changed.lines().filter(|line| *line != TAKES_A_PROCESS).for_each(cli::say);
        return upgrade::replace(pid, &[]);
    }
    if verdict != USED {
        return Err(Failure::Failed(format!("server {pid}: {}", lines.trim_end())));
    }
    // The changes, the notes and the verdict.
    let (told, last) = lines.trim_end().rsplit_once('\n').unwrap_or(("", lines.trim_end()));
    told.lines().for_each(cli::say);
    cli::say(&format!("weir: server {pid}: {last}"));
    if args.upgrade && runs_another_program(pid) {
        return upgrade::replace(pid, &[]);
    }
    Ok(())
}

/// Returns true if the program file was replaced after the server started, for example by a package. False if that is
/// unknown.
fn runs_another_program(pid: u32) -> bool {
    let file = |process: &str| std::fs::metadata(format!("/proc/{process}/exe")).map(|it| (it.dev(), it.ino())).ok();
    file(&pid.to_string()).is_some_and(|other| Some(other) != file("self"))
}
