//! `weir attach` in a build without BPF: it refuses with an explanation.

use ::uplink::Interface;
use cli::Failure;
use units::Rate;

#[derive(clap::Args)]
#[command(after_help = "\
This build of weir has no `attach`: build it with `--features bpf`, which needs libelf. Then:
  weir attach eth0 --rate 10mbit")]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<String>,
}

const MISSING: &str = "this build of weir has no `attach`; build it with `--features bpf`";

pub fn main(_args: Args) -> Result<(), Failure> {
    Err(Failure::Failed(MISSING.to_string()))
}

/// `weir apply`, which refuses too.
pub mod apply {
    use super::{Args as Any, Failure};

    #[derive(clap::Args)]
    pub struct Args {
        #[command(flatten)]
        any: Any,
    }

    pub fn main(args: Args) -> Result<(), Failure> {
        super::main(args.any)
    }
}

pub fn would(_interface: &Interface, _rate: Option<Rate>, _replace: bool) -> Result<String, &'static str> {
    Err(MISSING)
}
