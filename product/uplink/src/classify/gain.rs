//! The measurements of an attach's trials, kept in /run/weir until the interface is detached.

use crate::tree::leftovers;
use crate::{Error, Interface};

/// The prefix of the file names.
const KIND: &str = "gain";

/// Stores one line of text, replacing the previous line.
pub fn keep_gain(interface: &Interface, text: &str) -> Result<(), Error> {
    let write = || leftovers::write(&leftovers::path(KIND, interface)?, interface, text);
    write().map_err(|error| leftovers::unusable(KIND, interface, error))
}

/// Returns the line that is kept.
pub fn kept_gain(interface: &Interface) -> Option<String> {
    leftovers::read(&leftovers::path(KIND, interface).ok()?, interface)
}

pub(super) fn forget(interface: &Interface) {
    // Usually there is none.
    let _ = leftovers::path(KIND, interface).map(std::fs::remove_file);
}
