use crate::failure::Failure;

#[derive(clap::Subcommand)]
pub enum Command {
    Info {},
}

pub fn main(_command: Command) -> Result<(), Failure> {
    Err(Failure::Failed("not built yet".into()))
}
