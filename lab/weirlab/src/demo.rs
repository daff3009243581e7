//! `weirlab demo`: the product in half a minute, without root. One server on loopback behind one paced uplink, the
//! same jobs twice, in turn and then shortest first; then the table and the picture.

use std::path::{Path, PathBuf};

use testbed::{ExperimentFile, Overrides};

use crate::{report, run};
use cli::Failure;

/// Compiled in, so that the demo needs no file beside the program.
const EXPERIMENT: &str = include_str!("../../../experiments/demo.toml");
const PICTURE: &str = "response-by-size.svg";

#[derive(clap::Args)]
pub struct Args {
    /// How long requests arrive in each of the two runs
    #[arg(long, value_name = "N", value_parser = run::seconds, default_value = "20")]
    seconds: u64,
    /// Folder for the results [default: runs/demo-<unix time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let overrides = Overrides { seconds: Some(args.seconds), ..Overrides::default() };
    let experiment = ExperimentFile::parse(EXPERIMENT, Path::new("experiments/demo.toml"), &overrides)?;
    let out = args.out.unwrap_or_else(|| run::default_out("demo"));
    let runs = run::conduct(experiment, &out)?;
    report::print("demo", &runs, vec![], false)?;
    let picture = out.join(PICTURE);
    report::write_picture("demo", &runs, &picture)?;
    println!("\nresponse time by size: {}", picture.display());
    Ok(())
}
