//! `weirlab papers`: the page of all that the five papers claim.

use std::io::{self, Write};
use std::path::PathBuf;

use cli::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// Folder of the project: of experiments/, results/ and docs/
    #[arg(value_name = "DIR", default_value = ".")]
    project: PathBuf,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let page = ::report::Papers::read(&args.project).map_err(Failure::Failed)?.markdown();
    Ok(io::stdout().write_all(page.as_bytes())?)
}
