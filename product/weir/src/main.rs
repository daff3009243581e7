//! weir: what an operator installs. It serves a directory, shortest response first.

#[cfg(feature = "bpf")]
mod attach;
#[cfg(not(feature = "bpf"))]
#[path = "no_attach.rs"]
mod attach;
mod serve;
mod uplink;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "weir", version, about = "Serves a directory, shortest response first")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a directory over HTTP/1.1.
    Serve(serve::Args),
    /// The tree of bands at an interface: make it, remove it, watch it.
    Uplink(uplink::Args),
    /// Put size-aware order under the server that already runs.
    Attach(attach::Args),
}

fn main() -> std::process::ExitCode {
    let outcome = match cli::parse::<Cli>("weir").command {
        Command::Serve(args) => serve::main(args),
        Command::Uplink(args) => uplink::main(args),
        Command::Attach(args) => attach::main(args),
    };
    cli::exit_code("weir", outcome)
}
