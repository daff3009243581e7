//! `trace cut` and `trace make`: a log in, or a seed, and our CSV out.

use workload::{Filter, Log, Synthetic};

use super::Source;
use super::output::Output;
use super::when::When;
use cli::Failure;

#[derive(clap::Args)]
pub struct CutArgs {
    #[command(flatten)]
    source: Source,
    /// From this second on: 1998-05-01T16:00:00Z, or 16:00 of the trace's first busy day (both UTC), or epoch seconds.
    #[arg(long, value_name = "T")]
    from: Option<When>,
    /// Before this second.
    #[arg(long, value_name = "T")]
    to: Option<When>,
    /// Only this HTTP status; requests whose status the trace does not record stay.
    #[arg(long)]
    status: Option<u16>,
    /// Only sizes from this on, for example 1 or 64KiB.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    min: Option<u64>,
    /// Only sizes up to this.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    max: Option<u64>,
    /// At most this many, the earliest.
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    #[command(flatten)]
    output: Output,
}

pub fn cut(args: &CutArgs) -> Result<(), Failure> {
    args.output.refuse(&args.source.file)?;
    let log = args.source.read()?;
    let filter = args.filter(&log)?;
    super::warn_of_bad_lines(&args.source.file, &log);
    let kept = log.cut(&filter);
    if kept.requests.is_empty() {
        let read = log.requests.len();
        return Err(super::about(&args.source.file, format_args!("none of its {read} requests passes the conditions")));
    }
    args.output.write(&args.source.file.to_string_lossy(), &kept)
}

impl CutArgs {
    fn filter(&self, log: &Log) -> Result<Filter, Failure> {
        let filter = Filter {
            status: self.status,
            size_bytes_min: self.min.unwrap_or(0),
            size_bytes_max: self.max.unwrap_or(u64::MAX),
            from_s: self.from.map(|when| when.epoch_s(log)),
            to_s: self.to.map(|when| when.epoch_s(log)),
            first: self.first,
        };
        if filter.size_bytes_min > filter.size_bytes_max {
            return Err(Failure::Usage("--min is above --max: no size is between them".into()));
        }
        if let (Some(from), Some(to)) = (filter.from_s, filter.to_s)
            && from >= to
        {
            let (from, to) = (workload::iso(from), workload::iso(to));
            return Err(Failure::Usage(format!("--from {from} is not before --to {to}: no second is between them")));
        }
        Ok(filter)
    }
}

#[derive(clap::Args)]
pub struct MakeArgs {
    #[arg(long, default_value_t = Synthetic::SHIPPED.seed)]
    seed: u64,
    /// How many requests; a longer trace begins with the shorter one.
    #[arg(long, default_value_t = Synthetic::SHIPPED.jobs)]
    jobs: usize,
    #[command(flatten)]
    output: Output,
}

pub fn make(args: &MakeArgs) -> Result<(), Failure> {
    if !(2..=workload::REQUESTS_MAX).contains(&args.jobs) {
        let most = workload::REQUESTS_MAX;
        return Err(Failure::Usage(format!("--jobs {}: write 2 to {most}, so that the trace has a span", args.jobs)));
    }
    let log = Synthetic { seed: args.seed, jobs: args.jobs, ..Synthetic::SHIPPED }.log();
    args.output.write(&format!("seed {}", args.seed), &log)
}
