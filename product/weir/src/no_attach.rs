//! `weir attach` of a weir built without BPF: it says so.

use cli::Failure;

#[derive(clap::Args)]
#[command(after_help = "Example: weir attach eth0 --rate 10mbit  (in a weir built with the feature bpf)")]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<String>,
}

pub fn main(_args: Args) -> Result<(), Failure> {
    Err(Failure::Failed("this build of weir has no `attach`; build it with `--features bpf`".to_string()))
}
