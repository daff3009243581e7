//! Measures the server from outside, as commands of `cargo xtask`: floods, its cost compared with other servers, and
//! the verdicts of third-party programs.

mod attack;
mod bench;
mod conformance;
#[path = "../../../xtask/src/programs.rs"]
mod programs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "measure", bin_name = "cargo xtask", about = "Measurements of the Weir workspace")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure Weir beside nginx (and H2O and lighttpd) on loopback.
    Bench(bench::Args),
    /// Let others' checkers and clients judge `weir serve` over TLS: sslyze, curl, browsers, h2spec, h2load.
    ///
    /// On loopback, with certificates of its own, and with what `scripts/setup.sh conformance` installs. A check whose program is missing is
    /// SKIPPED, with --all an error. What the programs said is left in target/conformance/.
    Conformance(conformance::Args),
    /// Flood `weir` and nginx on loopback, and print what each flood costs them and an honest client.
    ///
    /// Each server is started here, with an access log and one event loop, and nothing else is ever attacked. Prints a table in Markdown;
    /// docs/notebook/attacks.md explains it.
    Attack(attack::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Attack(args) => attack::main(&root(), &args),
        Command::Bench(args) => bench::main(&root(), &args).map(|()| ExitCode::SUCCESS),
        Command::Conformance(args) => conformance::main(&root(), &args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|reason| {
        eprintln!("measure: {reason}");
        ExitCode::FAILURE
    })
}

/// Returns the workspace's folder, two levels above this package's.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("lab/measure"), PathBuf::from);
    package.ancestors().nth(2).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
