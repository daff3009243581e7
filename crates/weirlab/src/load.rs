use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {}

pub fn main(_args: Args) -> Result<(), Failure> {
    Err(Failure::Failed("not built yet".into()))
}
