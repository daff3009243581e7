//! `weir attach` of a weir built without BPF: it says so.

use cli::Failure;

#[derive(clap::Args)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<String>,
}

pub fn main(_args: Args) -> Result<(), Failure> {
    Err(Failure::Failed("this weir was built without the feature bpf, which attach needs".to_string()))
}
