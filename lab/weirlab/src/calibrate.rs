//! `weirlab calibrate`: at which load an experiment's link is really full. One run of the experiment's jobs, in turn and
//! unordered, on a load that grows through 1; then what the shaper sent is held against what arrived (`testbed::Calibration`).
//! Sessions arrive by that load. Users in a closed loop cannot, and where users give up nothing can be counted: both are refused.

use std::path::PathBuf;

use record::{Run, Samples};
use testbed::{Calibration, ExperimentFile, Overrides};

use crate::run;
use cli::Failure;

/// Where the ramp begins and ends: long enough below to see what bytes cost, above to see what the link carries.
const RAMP: (f64, f64) = (0.6, 1.3);

#[derive(clap::Args)]
pub struct Args {
    /// The experiment whose link, limits and jobs are meant, for example experiments/pages/first-light.toml
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// How long requests arrive
    #[arg(long, value_name = "N", value_parser = run::seconds, default_value = "60")]
    seconds: u64,
    /// Which of its runs [default: the first that orders nothing]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Folder for the results [default: runs/NAME-calibration-<unix time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let profile = format!("ramp:{}s@{}-{}", args.seconds, RAMP.0, RAMP.1);
    let overrides = Overrides { profile: Some(profile), seconds: Some(args.seconds), ..Overrides::default() };
    let mut file = ExperimentFile::read(&args.file, &overrides)?;
    let wanted = args.run.clone().unwrap_or_else(|| unordered(&file));
    let point = file.points()[0].name.clone();
    if let Some(patience) = file.points()[0].experiment.load.abort {
        let (path, s) = (args.file.display(), patience.as_secs_f64());
        return Err(Failure::Failed(format!(
            "{path}: users give up after {s} s, and what was sent to them in part cannot be counted: \
             leave abort and retries out of what is calibrated"
        )));
    }
    file.keep_only(&[wanted], std::slice::from_ref(&point)).map_err(Failure::Usage)?;
    let out = args.out.unwrap_or_else(|| run::default_out(&format!("{}-calibration", file.name)));
    let runs = run::conduct(file, &out)?;
    let [done] = &runs[..] else { return Err(Failure::Failed("the run was left out".into())) };
    let samples = Samples::read(&out.join(point).join(&done.manifest.name))?.unwrap_or_default();
    let calibration = found(done, &samples)?;
    calibration.write(&out)?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&calibration)?),
        false => println!("{}: {}", done.manifest.name, calibration.describe()),
    }
    Ok(())
}

/// What the run tells; a void one was not of the link, but of the machine.
fn found(run: &Run, samples: &Samples) -> Result<Calibration, Failure> {
    if let Some(reason) = ::report::void_reason(run) {
        let name = &run.manifest.name;
        return Err(Failure::Failed(format!("{name} is void and calibrates nothing: {reason}")));
    }
    Calibration::of(run, samples).ok_or_else(|| {
        let seconds = run.manifest.seconds;
        Failure::Failed(format!("{seconds} s do not tell at which load the link is full: try longer with --seconds"))
    })
}

/// The first run that is FAIR; the very first, where every one orders.
fn unordered(file: &ExperimentFile) -> String {
    let experiment = &file.points()[0].experiment;
    let is_fair = |run: &&testbed::RunSpec| run.policy.is_fair() && run.attach.is_none();
    let fair = experiment.runs().find(is_fair).or_else(|| experiment.runs().next());
    fair.map_or(String::new(), |run| run.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_run_calibrates_nothing() {
        let text = r#"{"name":"a","server":"weir","policy":"fair","shaping":"off","link_bps":10000000,"rho":1,"seed":1,
            "per_connection":1,"seconds":9.0,"commit":"","kernel":"","command":[],"server_cpu":null,"client_cpu":null,
            "lateness_ns_p99":0,"wire_bytes":null,"void":null,"environment":{}}"#;
        let mut run = Run { manifest: serde_json::from_str(text).unwrap(), records: vec![], pages: vec![] };
        let said = |run: &Run| match found(run, &Samples::default()) {
            Err(Failure::Failed(reason)) => reason,
            _ => panic!("it has nothing to tell"),
        };
        assert!(said(&run).starts_with("9 s do not tell"), "{}", said(&run));
        run.manifest.server_cpu = Some(0.75);
        assert_eq!(said(&run), "a is void and calibrates nothing: the server used 0.75 of a core, more than 0.5");
    }
}
