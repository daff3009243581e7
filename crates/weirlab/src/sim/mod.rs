//! `weirlab sim`: one simulation. The models are the crate `sim`; here words become their configurations, and their
//! outcomes a table or JSON. A sweep calls [`check`] and [`run`] for every cell of its grid.

mod spec;

pub use spec::{Model, SimSpec};

use cli::Failure;
use serde_json::{Map, Value};
use sim::{Hooks, Summary};

/// What came of one simulation, whatever the model.
pub struct SimOutcome {
    pub summary: Summary,
    /// What only this model tells, as it stands in the JSON beside the summary; the same for the same spec.
    pub details: Map<String, Value>,
    /// Jobs that left, warm-up included: what a speed is counted in.
    pub simulated_jobs: u64,
}

/// Whether [`run`] would start: everything wrong with the spec is found here, and nothing is simulated.
pub fn check(spec: &SimSpec) -> Result<(), Failure> {
    match spec.model {
        Model::Queue | Model::Server | Model::Packet => Err(not_built(spec.model)),
    }
}

/// Simulates. Pure but for the trace it may read.
pub fn run(spec: &SimSpec, _hooks: Hooks) -> Result<SimOutcome, Failure> {
    match spec.model {
        Model::Queue | Model::Server | Model::Packet => Err(not_built(spec.model)),
    }
}

fn not_built(model: Model) -> Failure {
    Failure::Usage(format!("--model: {model:?} is not built yet"))
}

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    spec: SimSpec,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    check(&args.spec)?;
    let outcome = run(&args.spec, Hooks::none())?;
    let mut text = serde_json::to_value(&outcome.summary)?;
    text["simulated_jobs"] = outcome.simulated_jobs.into();
    text["details"] = outcome.details.into();
    if args.json {
        println!("{text}");
    }
    Ok(())
}
