//! `cargo xtask simulate`: a whole server in simulated time, from many seeds.
//!
//! The simulation is a test of the crate `server`, which runs a few seeds in every `make test`; here it is built for speed, with every assertion.

use std::path::Path;
use std::process::Command;

const TEST: &str = "simulation::every_seed_keeps_the_laws";
/// Fast, and every overflow and assertion counts.
const PROFILE: &str = "fuzz";

#[derive(clap::Args)]
pub struct Args {
    /// How many seeds.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Turns of the event loop after which a run counts as one without an end.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--locked", "--profile", PROFILE, "--package", "server", "--lib"]);
    command.args(["--", "--exact", TEST, "--nocapture"]);
    command.env("WEIR_SEEDS", args.seeds.to_string()).env("WEIR_SEED", args.seed.to_string());
    // What panics is told with its seed.
    command.env("RUST_BACKTRACE", "0").envs(args.steps.map(|steps| ("WEIR_STEPS", steps.to_string())));
    let status = command.current_dir(root).status().map_err(|e| format!("cannot run cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err("a seed breaks a law; see above".into()) }
}
