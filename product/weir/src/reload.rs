//! `weir reload`: asks a running server to read its configuration again, and waits for what came of it.

use cli::Failure;

use crate::running::Which;
use crate::serve::control::{NAME, USED};

const AFTER_HELP: &str = "\
Examples:
  weir reload
  weir reload --pid 1234
  weir reload --pid-file /run/weir.pid

It exits with 1 and prints the reason if the configuration from before stays in force. It
reaches servers of the same user, or any as root; logs are opened anew too.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let (pid, answer) = args.which.ask(NAME, "reload")?;
    let (verdict, lines) = answer.split_once('\n').unwrap_or_default();
    match verdict {
        USED if lines.trim().is_empty() => {
            println!("weir: server {pid}: logs opened anew; it was started without a file to read again")
        }
        USED => println!("weir: server {pid}: {}", lines.trim_end()),
        _ => return Err(Failure::Failed(format!("server {pid}: {}", lines.trim_end()))),
    }
    Ok(())
}
