//! What stands in for the programs in a build without the feature `bpf`: the sentence that there are none.

use super::layout::{Settings, Stats};
use crate::Error;

/// What a build with the programs holds while the kernel is to know their name.
pub struct Registered;

fn none<T>() -> Result<T, Error> {
    Err(Error::missing("this weir was built without BPF and has no ranked qdisc: build it with the feature bpf"))
}

pub fn available() -> Result<(), Error> {
    none()
}

pub fn register(_kind: &str, _settings: &Settings) -> Result<Registered, Error> {
    none()
}

pub fn read_settings(_kind: &str) -> Result<Settings, Error> {
    none()
}

pub fn write_settings(_kind: &str, _settings: &Settings) -> Result<(), Error> {
    none()
}

pub fn read_stats(_kind: &str) -> Result<Stats, Error> {
    none()
}
