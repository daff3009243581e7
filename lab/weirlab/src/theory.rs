//! `weirlab theory`: the results of formulas for the flags of `weirlab sim`, so that each can check the other.

mod alternating;
mod mg1;
pub(crate) mod rank;

use cli::Failure;
use workload::Distribution;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Mean response time and slowdown with Poisson arrivals at a load below 1 (M/G/1), exact.
    Mg1(mg1::Args),
    /// The same with a load that alternates between overload and recovery, approximate.
    Alternating(alternating::Args),
}

pub fn main(command: Command) -> Result<(), Failure> {
    match command {
        Command::Mg1(args) => mg1::main(&args),
        Command::Alternating(args) => alternating::main(&args),
    }
}

/// The prefix of a trace in `--dist`.
const TRACE: &str = "trace:";

/// The distribution that `--dist` names. For a trace it consists of the sizes that an experiment would replay.
pub(crate) fn distribution(spec: &str) -> Result<Distribution, Failure> {
    let sizes = match spec.strip_prefix(TRACE) {
        Some(file) => {
            // The seed only affects arrivals within a second, and only the sizes are used.
            let trace = crate::trace::read_for_schedule(file.as_ref(), 0)?;
            let sizes: Vec<u64> = trace.arrivals.iter().map(|arrival| arrival.size_bytes).collect();
            Distribution::empirical(&sizes)
        }
        None => spec.parse(),
    };
    sizes.map_err(wrong("--dist"))
}

/// A mistake in one flag: `--rho: what is wrong`.
fn wrong<E: std::fmt::Display>(flag: &str) -> impl Fn(E) -> Failure {
    move |reason| Failure::Usage(format!("{flag}: {reason}"))
}

/// Parses a size of at least one byte from a flag.
fn size(flag: &str, text: &str) -> Result<f64, Failure> {
    match units::parse_size(text).map_err(wrong(flag))? {
        0 => Err(wrong(flag)("no job has 0 bytes: write at least 1")),
        bytes => Ok(bytes as f64),
    }
}
