//! The values of an experiment's keys, checked where the line is known.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::Rate;
use workload::surge::ServerModel;
use workload::{LoadProfile, Routes, USERS_MAX, WebStone};

use crate::limits::within;

/// The maximum load, above any that is offered on purpose: the papers' overload stops at 5 (workload W7).
const RHO_MAX: f64 = 10.0;
/// A day; the papers' longest run takes 30 minutes.
const SECONDS_MAX: u64 = 86_400;
/// The minimum rate, as for the tree of bands.
const LINK_MIN_BITS_PER_S: u64 = 12_000;

/// The variant of SURGE, which determines the files. The load determines how requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Surge {
    /// No variant is named, which is possible on a command line.
    #[serde(skip)]
    Usual,
    /// 1,000 files of 14 KB on average: 000, section 4.
    #[serde(rename = "000")]
    Harchol2003,
    /// 2,000 files: 002, section 5.
    #[serde(rename = "002")]
    Alsadeh2008,
}

impl Surge {
    /// The named model; `None` if none is named.
    pub fn model(self) -> Option<&'static ServerModel> {
        match self {
            Surge::Usual => None,
            Surge::Harchol2003 => Some(&ServerModel::HARCHOL_2003),
            Surge::Alsadeh2008 => Some(&ServerModel::ALSADEH_2008),
        }
    }
}

impl FromStr for Surge {
    type Err = String;

    /// Parses the name of a variant, or an empty text.
    fn from_str(text: &str) -> Result<Surge, String> {
        if text.is_empty() {
            return Ok(Surge::Usual);
        }
        Surge::deserialize(StrDeserializer::<ValueError>::new(text)).map_err(|_| {
            let names = ServerModel::ALL.map(|model| model.name).join(", ");
            format!("`{text}` is no model: write one of {names}, such as --surge=000")
        })
    }
}

/// Checks a load from a file or a command line.
pub fn check_rho(rho: f64) -> Result<f64, String> {
    if rho > 0.0 && rho <= RHO_MAX {
        return Ok(rho);
    }
    Err(format!("`{rho}` is not a load: write a number above 0 and at most {RHO_MAX}, for example 0.8"))
}

/// Checks a duration from a file or a command line.
pub fn check_seconds(seconds: u64) -> Result<u64, String> {
    if (1..=SECONDS_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("`{seconds}` is not a length of run: write whole seconds, 1 to {SECONDS_MAX}"))
}

/// Parses the rate of the link. Below the minimum a full packet takes more than a second, and shapers count in bytes
/// per second.
pub(crate) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    let rate: Rate = parsed(deserializer)?;
    if rate.bits_per_s() < LINK_MIN_BITS_PER_S {
        return Err(D::Error::custom(format!(
            "`{rate}` is too slow for a link: write at least 12kbit, for example 10mbit"
        )));
    }
    Ok(rate)
}

pub(crate) fn rho<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    check_rho(f64::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// Checks a profile and keeps it as written, because the load generator reads it again.
pub(crate) fn profile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<LoadProfile>().map(|_| Some(text)).map_err(D::Error::custom)
}

pub(crate) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    check_seconds(u64::deserialize(deserializer)?).map(|seconds| Some(seconds as f64)).map_err(D::Error::custom)
}

/// Writes seconds in the form that [`seconds`] reads.
pub(crate) fn maybe_whole<S: Serializer>(seconds: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match seconds {
        Some(seconds) if seconds.fract() == 0.0 => serializer.serialize_u64(*seconds as u64),
        other => other.serialize(serializer),
    }
}

pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        0 => Err(D::Error::custom("`0` is too few: write a number of at least 1")),
        some => Ok(some),
    }
}

/// Parses the length of a FIFO; the maximum is minutes on any link.
pub(crate) fn packets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within::<1, 1_000_000, _>(deserializer).map(Option::unwrap_or_default)
}

pub(crate) fn users<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let users = count(deserializer)?;
    let possible = u32::try_from(users).ok().filter(|users| *users <= USERS_MAX);
    possible.map(Some).ok_or_else(|| D::Error::custom(format!("`{users}` users are too many: write 1 to {USERS_MAX}")))
}

/// Parses the text of a key.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

pub(crate) fn maybe_parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    parsed(deserializer).map(Some)
}

/// Writes routes in the form in which they are read.
pub(crate) fn maybe_routes<S: Serializer>(of: &Option<Routes>, serializer: S) -> Result<S::Ok, S::Error> {
    of.map(|routes| routes.to_string()).serialize(serializer)
}

/// Writes the name in the form in which it is read.
pub(crate) fn maybe_name<S: Serializer>(of: &Option<WebStone>, serializer: S) -> Result<S::Ok, S::Error> {
    of.map(WebStone::name).serialize(serializer)
}

pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    units::parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

pub(crate) fn maybe_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

/// Writes a duration in the form that [`duration`] reads, in the largest unit in which it is a whole number.
fn as_text<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let ns = time.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let (unit_ns, unit) = units.into_iter().find(|(unit_ns, _)| ns.is_multiple_of(*unit_ns)).unwrap_or((1, "ns"));
    serializer.collect_str(&format_args!("{}{unit}", ns / unit_ns))
}

pub(crate) fn maybe_as_text<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_text(time, serializer),
        None => serializer.serialize_none(),
    }
}

/// Checks the name of a run, a point or a group of clients, which becomes the name of a folder and a word on a command
/// line.
pub(crate) fn check_name(name: &str, of: &str) -> Result<(), String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_fine) {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not a name for {of}: write letters, digits, `-`, `_` and `.`, at most 64, a letter or digit first"
    ))
}
