//! A line whose rate changes during a run: `[[rate_change]]`, as a step or a ramp of small steps.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Deserialize;
use units::Rate;

use crate::experiment::{duration, rate};
use crate::{Experiment, LabError, Shaper, tool, wire};

/// The interval of the steps in a ramp; each takes two processes of `tc`.
const RAMP_EVERY: Duration = Duration::from_millis(500);
/// The maximum number of steps of all changes together.
const STEPS_MAX: usize = 10_000;
/// The file in the folder of a run whose line changes.
const FILE: &str = "line.csv";
/// The maximum time for which the end of a run has to wait for this thread.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The line gets another rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// The time at which it begins, from the start of the load.
    #[serde(deserialize_with = "duration")]
    pub at: Duration,
    #[serde(deserialize_with = "rate")]
    pub to: Rate,
    /// The duration of the change; zero is a step.
    #[serde(default, deserialize_with = "duration")]
    pub over: Duration,
}

/// Makes the changes in a separate thread until it is dropped.
#[derive(Debug)]
pub(crate) struct Changes {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), LabError>>>,
}

impl Changes {
    /// Starts changes at the shaper, and at the wire behind it if there is one, each given by its namespace and device.
    pub fn start(experiment: &Experiment, shaper: (&str, &str), wire: Option<(&str, &str)>) -> Changes {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let commands = |(at, rate)| {
            let shaped = change_line(shaper.0, shaper.1, rate, experiment.burst_bytes());
            let wired = wire.map(|(side, device)| wire::change_command(side, device, rate));
            [Some(shaped), wired].into_iter().flatten().map(move |command| (at, command))
        };
        let commands: Vec<(Duration, String)> =
            steps(experiment.link, &experiment.rate_changes).into_iter().flat_map(commands).collect();
        let (began, stopped) = (Instant::now(), stop.clone());
        let make = move || {
            for (at, command) in commands {
                while began.elapsed() < at {
                    if stopped.load(Ordering::Acquire) {
                        return Ok(());
                    }
                    std::thread::sleep(LOOK_EVERY.min(at.saturating_sub(began.elapsed())));
                }
                tool::run(&command)?;
            }
            Ok(())
        };
        Changes { thread: Some(std::thread::spawn(make)), stop }
    }

    /// Ends the changes; returns an error if one of them failed.
    pub fn finish(mut self) -> Result<(), LabError> {
        self.stop.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(made)) => made,
            None => Ok(()),
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Checks the changes of an experiment.
pub(crate) fn check(experiment: &Experiment) -> Result<(), String> {
    let changes = &experiment.rate_changes;
    if changes.is_empty() {
        return Ok(());
    }
    if experiment.shaper != Shaper::Htb {
        return Err("the rate of a line changes only under shaper = \"htb\"".into());
    }
    if experiment.runs().any(|run| !experiment.qdisc_of(run).is_under_shaper()) {
        return Err("the rate of a line changes only over qdisc = \"fifo\" or \"fq_codel\"".into());
    }
    if changes.windows(2).any(|pair| pair[1].at < pair[0].at + pair[0].over) {
        return Err("a rate_change begins before the one above it ends: write them in order of time".into());
    }
    if steps(experiment.link, changes).len() > STEPS_MAX {
        return Err(format!("the ramps of rate_change take more than {STEPS_MAX} steps of 500ms: make them shorter"));
    }
    Ok(())
}

/// Returns true if the line's rate changes.
pub(crate) fn is_changing(experiment: &Experiment) -> bool {
    !experiment.rate_changes.is_empty()
}

/// Returns true if the run in this folder had a changing line.
pub(crate) fn is_kept(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Writes the rates of a changing line into `line.csv` of the run's folder, starting with the link's: seconds since the
/// load began, bits per second.
pub(crate) fn write(experiment: &Experiment, folder: &Path) -> Result<(), LabError> {
    if !is_changing(experiment) {
        return Ok(());
    }
    let mut text = String::from("at_s,rate_bps\n");
    for (at, rate) in
        std::iter::once((Duration::ZERO, experiment.link)).chain(steps(experiment.link, &experiment.rate_changes))
    {
        let _ = writeln!(text, "{},{}", at.as_secs_f64(), rate.bits_per_s());
    }
    let file = folder.join(FILE);
    std::fs::write(&file, text).map_err(|e| LabError::path(&file, e))
}

/// The times and rates of the steps.
fn steps(link: Rate, changes: &[RateChange]) -> Vec<(Duration, Rate)> {
    let mut steps = vec![];
    let mut from = link;
    for change in changes {
        let count = change.over.as_millis().div_ceil(RAMP_EVERY.as_millis()).clamp(1, STEPS_MAX as u128 + 1) as u32;
        for step in 1..=count {
            let part = f64::from(step) / f64::from(count);
            let bits = from.bits_per_s() as f64 + part * (change.to.bits_per_s() as f64 - from.bits_per_s() as f64);
            let at = change.at + if count == 1 { Duration::ZERO } else { change.over.mul_f64(part) };
            steps.extend(Rate::from_bits_per_s(bits.round() as u64).map(|rate| (at, rate)));
        }
        from = change.to;
    }
    steps
}

fn change_line(side: &str, device: &str, rate: Rate, burst_bytes: u64) -> String {
    let bits = rate.bits_per_s();
    format!(
        "tc -n {side} class change dev {device} parent 1: classid 1:1 htb rate {bits}bit ceil {bits}bit burst {burst_bytes} cburst {burst_bytes} quantum 1514"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &str) -> Result<Experiment, String> {
        crate::testing::parse("", &format!("server = \"nginx\"\n{more}"))
    }

    #[test]
    fn a_step_is_one_and_a_ramp_is_many() {
        let text = "[[rate_change]]\nat = \"5s\"\nto = \"5mbit\"\n[[rate_change]]\nat = \"10s\"\nto = \"10mbit\"\nover = \"2s\"\n";
        let experiment = parse(text).unwrap();
        let steps: Vec<(u128, u64)> = steps(experiment.link, &experiment.rate_changes)
            .iter()
            .map(|(at, rate)| (at.as_millis(), rate.bits_per_s()))
            .collect();
        let want =
            [(5000, 5_000_000), (10_500, 6_250_000), (11_000, 7_500_000), (11_500, 8_750_000), (12_000, 10_000_000)];
        assert_eq!(steps, want);
    }

    #[test]
    fn what_cannot_be_changed_is_said() {
        for (more, says) in [
            ("[[rate_change]]\nat = \"5s\"\n", "missing field `to`"),
            ("[[rate_change]]\nat = \"5s\"\nto = \"fast\"\n", "`fast` is not a rate"),
            (
                "qdisc = \"cake\"\n[[rate_change]]\nat = \"5s\"\nto = \"5mbit\"\n",
                "the rate of a line changes only over qdisc = \"fifo\"",
            ),
            (
                "[[rate_change]]\nat = \"5s\"\nto = \"5mbit\"\nover = \"9s\"\n[[rate_change]]\nat = \"8s\"\nto = \"9mbit\"\n",
                "a rate_change begins before the one above it ends",
            ),
            (
                "[[rate_change]]\nat = \"5s\"\nto = \"5mbit\"\nover = \"9000s\"\n",
                "the ramps of rate_change take more than 10000 steps",
            ),
        ] {
            let said = parse(more).unwrap_err();
            assert!(said.contains(says), "{more}: {said}");
        }
    }

    #[test]
    fn the_rates_of_a_line_are_kept_with_the_run() {
        let folder = std::env::temp_dir().join(format!("weir-line-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        write(&parse("").unwrap(), &folder).unwrap();
        assert!(!is_kept(&folder), "it never changes");
        write(&parse("[[rate_change]]\nat = \"500ms\"\nto = \"5mbit\"\n").unwrap(), &folder).unwrap();
        let kept = std::fs::read_to_string(folder.join(FILE)).unwrap();
        assert_eq!(kept, "at_s,rate_bps\n0,10000000\n0.5,5000000\n");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_class_is_changed_in_place() {
        let line = change_line("R", "far", "5mbit".parse().unwrap(), 1600);
        let want = "tc -n R class change dev far parent 1: classid 1:1 htb rate 5000000bit ceil 5000000bit burst 1600 cburst 1600 quantum 1514";
        assert_eq!(line, want);
    }
}
