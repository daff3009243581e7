//! A host whose processor is busy: the server's processes are stopped and run in turns, each for a random time.
//!
//! In virtual time computing takes no time, so no other program can take the processor from a server, and no wake-up is late. Stopped
//! (SIGSTOP), a process is as late as it would be behind others on a busy processor, whatever server it is; the kernel goes on for it, as
//! for one that waits for its turn.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Deserializer};

use crate::{Experiment, LabError, Program};

/// The bounds of a mean: shorter than a packet of any link takes, longer than any host is busy at a stretch.
const MEAN_MIN: Duration = Duration::from_micros(10);
const MEAN_MAX: Duration = Duration::from_secs(10);
/// So many times the mean at most: one in 22,000 times is cut.
const TIMES_MEAN_MAX: f64 = 10.0;

/// The time that the server's processes are stopped: `exp:4ms` is exponential times of 4 ms in the mean, with equal
/// times between in which they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLate {
    mean: Duration,
    text: String,
}

impl HostLate {
    /// Returns the text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl FromStr for HostLate {
    type Err = String;

    fn from_str(text: &str) -> Result<HostLate, String> {
        let mean = text.strip_prefix("exp:").and_then(|mean| units::parse_duration(mean).ok());
        mean.filter(|mean| (MEAN_MIN..=MEAN_MAX).contains(mean))
            .map(|mean| HostLate { mean, text: text.into() })
            .ok_or_else(|| {
                format!("`{text}` is no lateness of a host: write exp: and a mean from 10us to 10s, such as exp:4ms")
            })
    }
}

impl<'de> Deserialize<'de> for HostLate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HostLate, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Stops and continues a server until it is dropped; then the server runs.
pub(crate) struct BusyHost {
    is_over: Arc<AtomicBool>,
    group: Pid,
    thread: Option<JoinHandle<()>>,
}

impl BusyHost {
    /// Starts what the experiment says of its host, if anything.
    pub fn of(experiment: &Experiment, server: &Program) -> Result<Option<BusyHost>, LabError> {
        let late = experiment.host_late.as_ref();
        late.map(|late| BusyHost::start(late, experiment.load.seed, server)).transpose()
    }

    /// Starts the turns of this server, which leads its process group. The same seed gives the same times.
    fn start(late: &HostLate, seed: u64, server: &Program) -> Result<BusyHost, LabError> {
        let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw).expect("a child has an id");
        let is_over = Arc::new(AtomicBool::new(false));
        let (mean, until) = (late.mean, Arc::clone(&is_over));
        let run = move || take_turns(mean, seed, group, &until);
        let thread = std::thread::Builder::new().name("busy-host".into()).spawn(run);
        let thread = Some(thread.map_err(|error| LabError::io("the thread of a busy host", error))?);
        Ok(BusyHost { is_over, group, thread })
    }
}

fn take_turns(mean: Duration, seed: u64, group: Pid, is_over: &AtomicBool) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut next = || {
        let uniform: f64 = random.random();
        mean.mul_f64((-(1.0 - uniform).ln()).min(TIMES_MEAN_MAX))
    };
    while !is_over.load(Ordering::Relaxed) {
        for signal in [Signal::CONT, Signal::STOP] {
            // A server that has ended is found by those who watch it.
            let _ = kill_process_group(group, signal);
            std::thread::sleep(next());
        }
    }
}

impl Drop for BusyHost {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = kill_process_group(self.group, Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Place;

    #[test]
    fn a_lateness_is_a_distribution_and_a_mean() {
        let late: HostLate = "exp:4ms".parse().unwrap();
        assert_eq!((late.mean, late.text()), (Duration::from_millis(4), "exp:4ms"));
        for wrong in ["4ms", "exp:", "exp:0ms", "exp:11s", "exp:-1ms", "uniform:4ms", ""] {
            let said = wrong.parse::<HostLate>().unwrap_err();
            assert!(said.starts_with(&format!("`{wrong}` is no lateness")), "{said}");
        }
    }

    #[test]
    fn a_program_is_stopped_and_goes_on() {
        let log = std::env::temp_dir().join(format!("weir-busy-host-{}.log", std::process::id()));
        let command = ["sh", "-c", "while :; do sleep 0.001; done"].map(String::from);
        let program = Program::start(Place::Here, "sh", &command, &log).unwrap();
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        let late: HostLate = "exp:2ms".parse().unwrap();
        let busy = BusyHost::start(&late, 1, &program).unwrap();
        while state() != 'T' {}
        while state() == 'T' {}
        drop(busy);
        assert_ne!(state(), 'T');
        std::fs::remove_file(log).unwrap();
    }
}
