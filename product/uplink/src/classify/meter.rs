//! Measures the times of responses behind an attached classifier, with and without its order (see bpf/trial.bpf.c).
//!
//! Only this process keeps the programs loaded: if it ends in any way, the kernel removes them and the order is back.
//! Without the order, all packets bypass the bands and leave immediately, so they wait in the same queue as before the
//! attach. The tree stays unchanged, so no packet is lost at a switch; packets that wait in the bands leave after the
//! first packets that bypass them.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};
use rustix::time::{ClockId, clock_gettime};
use units::Nanos;

use super::program::{Facts, SETTINGS_MAP, has_name, info};
use super::tcx::{self, Side, link_after};
use super::{Attached, Hook, find};
use crate::netlink::{u32_at, u64_at};
use crate::tree::PAST_BANDS;
use crate::{Error, Interface};

/// The object file of the programs; empty if there was no clang at build time.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trial.bpf.o"));
const OUT: &str = super::filter::NAME_TRIED;
const IN: &str = "weir_trial_in";
const ENDED_MAP: &str = "weir_ended";
const METERS_MAP: &str = "weir_meters";
const TURN_MAP: &str = "weir_turn";
const COUNTS_MAP: &str = "weir_counts";
/// `SEEN` of bpf/classify.h.
const SEEN: u8 = 1;

/// A completed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The arrival of the request, on the kernel's monotonic clock. The next field is the arrival of the last
    /// acknowledgement.
    pub begun: Nanos,
    pub ended: Nanos,
    pub bytes: u64,
}

/// The responses that could not be measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missed {
    /// Responses that did not end.
    pub unfinished: u64,
    /// Responses that were not read in time.
    pub lost: u64,
}

/// The programs of a trial. Dropping the meter removes them.
pub struct Meter {
    object: Object,
    doing: String,
    _links: [OwnedFd; 2],
}

impl Meter {
    /// Starts measuring, with the order.
    pub fn start(interface: &Interface) -> Result<Meter, Error> {
        interface.explain(Meter::start_at(interface))
    }

    fn start_at(interface: &Interface) -> Result<Meter, Error> {
        let name = &interface.name;
        let Some(Attached { place: Hook::Tcx, settings: Some(settings), facts, .. }) = find(interface)? else {
            return Err(Error::missing(format!(
                "{name} has no classifier at TCX (Linux 6.6), behind which to measure"
            )));
        };
        if OBJECT.is_empty() {
            return Err(Error::missing("this weir was built without clang: build it with clang 15 or newer"));
        }
        libbpf_rs::set_print(None);
        let doing = format!("measuring responses at {name}");
        let failure = |error: libbpf_rs::Error| Error::other(doing.clone(), error);
        let object = load(&settings.to_bytes()).map_err(failure)?;
        let link = |side, program: &str| {
            let program = object.progs().find(|found| found.name() == program);
            let program = program.ok_or_else(|| Error::new(format!("{doing}: the object file lacks a program")))?;
            let after = if side == Side::Leaving { Some(facts.id) } else { None };
            link_after(side, program.as_fd(), interface.index, after).map_err(|error| Error::kernel(&doing, error))
        };
        let links = [link(Side::Leaving, OUT)?, link(Side::Arriving, IN)?];
        let meter = Meter { object, doing: doing.clone(), _links: links };
        meter.turn(true)?;
        Ok(meter)
    }

    /// Turns the order on or off, and returns the time of the switch.
    pub fn turn(&self, is_ordered: bool) -> Result<Nanos, Error> {
        let words = [u32::from(is_ordered), PAST_BANDS];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.map(TURN_MAP)?.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(|error| self.failure(error))?;
        Ok(now())
    }

    /// Returns the bytes that clients have acknowledged since the start, on connections of these ports.
    pub fn acked_bytes(&self) -> Result<u64, Error> {
        Ok(self.counts()?[2])
    }

    /// Passes each response that has ended since the last call to `take`.
    pub fn read(&self, mut take: impl FnMut(Response)) -> Result<(), Error> {
        let ended = self.map(ENDED_MAP)?;
        let mut read = || {
            let mut buffer = RingBufferBuilder::new();
            buffer.add(&ended, |bytes| {
                let long = |at| u64_at(bytes, at).map(Nanos);
                if let (Some(begun), Some(ended), Some(bytes)) = (long(0), long(8), u64_at(bytes, 16)) {
                    take(Response { begun, ended, bytes });
                }
                0
            })?;
            buffer.build()?.consume()
        };
        read().map_err(|error| self.failure(error))
    }

    /// Passes to `take` each complete response that was the last on its connection, and returns the responses that were
    /// missed.
    pub fn finish(self, mut take: impl FnMut(Response)) -> Result<Missed, Error> {
        self.read(&mut take)?;
        let (meters, [unfinished, lost, _]) = (self.map(METERS_MAP)?, self.counts()?);
        let mut missed = Missed { unfinished, lost };
        for key in meters.keys() {
            // An entry may disappear at any time.
            let Ok(Some(meter)) = meters.lookup(&key, MapFlags::ANY) else { continue };
            match of_meter(&meter) {
                Some(response) if response.ended.0 > 0 => take(response),
                Some(_) => missed.unfinished += 1,
                None => {}
            }
        }
        Ok(missed)
    }

    /// Returns the kernel's information about the programs for outgoing and incoming packets.
    pub fn facts(&self) -> Result<[Facts; 2], Error> {
        let facts = [OUT, IN].map(|name| {
            let program = self.object.progs().find(|program| program.name() == name);
            program.map_or(Ok(Facts::default()), |program| info(program.as_fd()).map(|(facts, _)| facts))
        });
        let [leaving, arriving] = facts.map(|facts| facts.map_err(|error| Error::kernel(&self.doing, error)));
        Ok([leaving?, arriving?])
    }

    /// Returns the words of `struct counts` of bpf/trial.h.
    fn counts(&self) -> Result<[u64; 3], Error> {
        let counts = self.map(COUNTS_MAP)?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let counts = counts.map_err(|error| self.failure(error))?.unwrap_or_default();
        Ok([0, 8, 16].map(|at| u64_at(&counts, at).unwrap_or(0)))
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, Error> {
        let map = self.object.maps().find(|map| map.name() == name);
        map.ok_or_else(|| Error::new(format!("{}: the object file lacks {name}", self.doing)))
    }

    fn failure(&self, error: libbpf_rs::Error) -> Error {
        Error::other(self.doing.clone(), error)
    }
}

/// Returns true if a trial is running at this interface.
pub fn is_tried(interface: &Interface) -> Result<bool, Error> {
    let doing = format!("looking for a trial at {}", interface.name);
    let programs = tcx::programs(interface.index).map_err(|error| Error::kernel(&doing, error))?;
    for id in programs.unwrap_or_default() {
        if has_name(id, OUT)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the current time on the programs' clock.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn load(settings: &[u8]) -> Result<Object, libbpf_rs::Error> {
    let mut object = ObjectBuilder::default().open_memory(OBJECT)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.contains(".rodata.settings") || name == SETTINGS_MAP {
            map.set_initial_value(settings)?;
        }
    }
    object.load()
}

/// Parses the last response of a connection; `None` if it was passed on already. Its end is 0 if unknown. Reads `struct
/// meter` of bpf/trial.h, like `end_of` there.
fn of_meter(bytes: &[u8]) -> Option<Response> {
    let (sent, next_seq, acked) = (u64_at(bytes, 0)?, u32_at(bytes, 16)?, u32_at(bytes, 24)?);
    let (seen, sees_client) = (*bytes.get(33)?, *bytes.get(34)? != 0);
    let (begun, acked_at) = (u64_at(bytes, 48)?, u64_at(bytes, 56)?);
    let is_over = sees_client && acked == next_seq && acked_at >= begun;
    let ended = Nanos(if is_over { acked_at } else { 0 });
    (seen == SEEN && sent > 0).then_some(Response { begun: Nanos(begun), ended, bytes: sent })
}
