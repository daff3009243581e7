//! A baseline for a server that finds its line's rate: CAKE on the server's egress, whose rate follows delay and load as cake-autorate
//! has it (`autorate` of a run). The line's own queue is a router's, one hop on.
//!
//! The delay is that of ICMP echoes to the clients, 20 a second, as many as cake-autorate's six pingers make. The way back is idle, so
//! all of a rise is the way there, as a pinger of one-way delays would have it; by half a round trip (its `fping`) a queue would have to be
//! twice as long to be seen.

mod law;
mod ping;

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Deserialize;
use units::Rate;

use crate::experiment::rate;
use crate::link::write_setting;
use crate::namespace::Namespace;
use crate::{LabError, Place, said, tool};
use law::Law;
use ping::Pinger;

const PING_EVERY: Duration = Duration::from_millis(50);
const ACHIEVED_EVERY: Duration = Duration::from_millis(200);
/// The file of the kernel's counters of devices is shorter.
const COUNTERS_BYTES: usize = 16 << 10;

/// The value of `autorate` of a run: where the rate begins and whereto it goes back, and between what it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autorate {
    #[serde(deserialize_with = "rate")]
    pub least: Rate,
    #[serde(deserialize_with = "rate")]
    pub base: Rate,
    #[serde(deserialize_with = "rate")]
    pub most: Rate,
}

impl Autorate {
    pub(crate) fn check(self) -> Result<(), String> {
        let Autorate { least, base, most } = self;
        if least <= base && base <= most {
            return Ok(());
        }
        Err(format!("autorate: least {least}, base {base}, most {most}: write them in order of size"))
    }
}

/// An error where this kernel has no CAKE: no list of what it offers is as sure as the attempt.
pub(crate) fn check_kernel(limits: Autorate) -> Result<(), LabError> {
    let place = Namespace::create("server")?;
    let add = cake_command(place.name(), "add", "lo", limits.base);
    tool::run(&add).map(drop).map_err(|cause| LabError::Qdisc { name: "cake", cause: Box::new(cause) })
}

/// The device whose rate moves, and who answers echoes.
#[derive(Clone, Copy)]
pub(crate) struct Egress<'a> {
    pub(crate) server: &'a Namespace,
    pub(crate) device: &'static str,
    pub(crate) reflector: Ipv4Addr,
}

/// Moves the rate from a thread of its own until it is dropped.
pub(crate) struct Shaping {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<String, LabError>>>,
    folder: PathBuf,
}

impl Shaping {
    /// Puts CAKE on the device, and begins.
    pub(crate) fn start(limits: Autorate, egress: Egress<'_>, folder: &Path) -> Result<Shaping, LabError> {
        let place = Place::In(egress.server);
        write_setting(place, "net/ipv4/ping_group_range", "0 2147483647")?;
        let command = |verb: &str, rate: Rate| cake_command(egress.server.name(), verb, egress.device, rate);
        let cake = |cause| LabError::Qdisc { name: "cake", cause: Box::new(cause) };
        tool::run(&command("add", limits.base)).map_err(cake)?;
        let opened = place.enter(|| {
            // Of the namespace it is opened in, whichever thread reads it.
            Ok((Pinger::open(egress.reflector)?, File::open("/proc/thread-self/net/dev")?))
        });
        let (pinger, counters) = opened.map_err(|e| LabError::io("echoes to the clients", e))?;
        let sent = Sent { counters, device: egress.device };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, side) = (stop.clone(), egress.server.name().to_owned());
        let change = move |rate: Rate| tool::run(&cake_command(&side, "change", egress.device, rate)).map(drop);
        let thread = std::thread::spawn(move || follow(Law::new(limits), pinger, &sent, change, &stopped));
        Ok(Shaping { stop, thread: Some(thread), folder: folder.into() })
    }

    /// Ends it, and writes the rates it had as what was said of the line.
    pub(crate) fn finish(mut self) -> Result<(), LabError> {
        self.stop.store(true, Ordering::Release);
        let said = match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(said)) => said?,
            None => return Ok(()),
        };
        said::keep(&self.folder.join(said::FILE), &said)
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Moves the rate until it is told to stop; gives every rate it had, as rows of seconds and words.
fn follow(
    mut law: Law,
    mut pinger: Pinger,
    sent: &Sent,
    change: impl Fn(Rate) -> Result<(), LabError>,
    stop: &AtomicBool,
) -> Result<String, LabError> {
    let failed = |e| LabError::io("what the shaper's delay is", e);
    let (began, mut said) = (Instant::now(), String::new());
    let (mut next_ping, mut next_achieved) = (PING_EVERY, ACHIEVED_EVERY);
    let mut bytes = sent.bytes().map_err(failed)?;
    while !stop.load(Ordering::Acquire) {
        if began.elapsed() >= next_ping {
            pinger.send().map_err(failed)?;
            next_ping += PING_EVERY;
        }
        if began.elapsed() >= next_achieved {
            let now = sent.bytes().map_err(failed)?;
            law.on_achieved(8.0 * now.saturating_sub(bytes) as f64 / ACHIEVED_EVERY.as_secs_f64());
            (bytes, next_achieved) = (now, next_achieved + ACHIEVED_EVERY);
        }
        let wait = next_ping.min(next_achieved).saturating_sub(began.elapsed());
        let Some(delay) = pinger.receive(wait).map_err(failed)? else { continue };
        let before = law.rate();
        law.on_delay(began.elapsed(), delay);
        if law.rate() != before {
            change(law.rate())?;
            let (at, mbit) = (began.elapsed().as_secs_f64(), law.rate().bits_per_s() as f64 / 1e6);
            let _ = writeln!(said, "{at},\"autorate: {:.1} ms: {mbit:.3} Mbit/s\"", law.rise().as_secs_f64() * 1e3);
        }
    }
    Ok(said)
}

fn cake_command(side: &str, verb: &str, device: &str, rate: Rate) -> String {
    format!("tc -n {side} qdisc {verb} dev {device} root cake bandwidth {}bit", rate.bits_per_s())
}

/// The count of what a device has sent.
struct Sent {
    counters: File,
    device: &'static str,
}

impl Sent {
    fn bytes(&self) -> io::Result<u64> {
        let mut text = vec![0; COUNTERS_BYTES];
        let length = self.counters.read_at(&mut text, 0)?;
        sent_bytes(&String::from_utf8_lossy(&text[..length]), self.device)
            .ok_or_else(|| io::Error::other(format!("/proc/net/dev has no device {}", self.device)))
    }
}

/// The ninth number behind a device's name in /proc/net/dev.
fn sent_bytes(counters: &str, device: &str) -> Option<u64> {
    let of_device = |line: &str| line.trim_start().strip_prefix(device)?.strip_prefix(':').map(str::to_owned);
    counters.lines().find_map(of_device)?.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    #[test]
    fn what_a_device_sent_is_the_ninth_number() {
        let text =
            "Inter-|   Receive\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 10\n cable: 11 2 3 4 5 6 7 8 99 10\n";
        assert_eq!((sent_bytes(text, "cable"), sent_bytes(text, "cab")), (Some(99), None));
    }

    #[test]
    fn the_rate_of_cake_is_changed_in_place() {
        let want = "tc -n S qdisc change dev cable root cake bandwidth 9500000bit";
        assert_eq!(cake_command("S", "change", "cable", "9.5mbit".parse().unwrap()), want);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let parse = |top: &str, keys: &str| {
            let text = format!(
                "question = \"\"\nlink = \"10mbit\"\nrho = 0.8\nseconds = 1\n{top}\n[[run]]\nname = \"a\"\nserver = \"nginx\"\n\
                 autorate = {{ {keys} }}\n"
            );
            Experiment::parse(&text, Path::new("x.toml")).map_err(|e| e.to_string())
        };
        let (router, good) = ("network = \"router\"", "least = \"1mbit\", base = \"10mbit\", most = \"20mbit\"");
        assert!(parse(router, good).is_ok());
        for (top, keys, says) in [
            ("", good, "run `a`: autorate shapes before a router's queue: write network = \"router\""),
            (router, "least = \"1mbit\", base = \"10mbit\"", "missing field `most`"),
            (
                router,
                "least = \"2mbit\", base = \"1mbit\", most = \"3mbit\"",
                "least 2mbit, base 1mbit, most 3mbit: write",
            ),
            (router, "least = \"x\", base = \"1mbit\", most = \"3mbit\"", "`x` is not a rate"),
        ] {
            let said = parse(top, keys).unwrap_err();
            assert!(said.contains(says), "{keys}: {said}");
        }
    }
}
