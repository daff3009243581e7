//! weirlab: the program for performance engineers and students, with one file per command.

mod load;
mod run;
mod sim;
mod trace;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "weirlab", version, about = "Load, experiments and simulations for Weir")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay requests against a server, open loop.
    Load(Box<load::Args>),
    /// Run an experiment in network namespaces (needs root).
    Run(run::Args),
    Upstream(upstream::Args),
    /// Simulate one policy under one load.
    Sim(Box<sim::Args>),
}

fn main() -> std::process::ExitCode {
    // With a handler, a file that is too large for `ulimit -f` causes a write error, which names the file.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let outcome = match cli::parse::<Cli>("weirlab", config::gone).command {
        Command::Load(args) => load::main(*args),
        Command::Run(args) => run::main(args),
        Command::Upstream(args) => upstream::main(args),
        Command::Sim(args) => sim::main(*args),
    };
    cli::exit_code("weirlab", outcome)
}
