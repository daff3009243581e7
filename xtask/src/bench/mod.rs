//! bench
use std::path::Path;
#[derive(clap::Args)]
pub struct Args {}
pub fn main(_root: &Path, _args: &Args) -> Result<(), String> {
    Ok(())
}
