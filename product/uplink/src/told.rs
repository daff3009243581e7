//! The interface through which a server tells the classifier of a response's size: one entry in socket storage.
//!
//! The call is made as bpf(2) has it, since it is one call for every response, and a library would want the map opened
//! in its own way.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// `BPF_MAP_UPDATE_ELEM` of linux/bpf.h.
const MAP_UPDATE: libc::c_long = 2;

/// The fields of `union bpf_attr` for an update.
#[repr(C)]
struct Update {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The classifier's map for it.
#[derive(Debug)]
pub struct ToldMap {
    map: OwnedFd,
}

impl ToldMap {
    /// The map of the classifier that hangs at this interface; `None` where none does.
    #[cfg(feature = "bpf")]
    pub fn of(interface: &crate::Interface) -> Result<Option<ToldMap>, crate::Error> {
        Ok(crate::classify::told_map(interface)?.map(|map| ToldMap { map }))
    }

    /// Tells which bytes of a connection are one response: offsets in what was sent on it since it was accepted, `end` being
    /// that of the first byte behind. Takes the place of what was told before, and goes with the connection.
    pub fn tell(&self, socket: impl AsFd, begin: u64, end: u64) -> io::Result<()> {
        update(&self.map, socket.as_fd().as_raw_fd(), [begin, end])
    }
}

fn update(map: &OwnedFd, key: i32, value: [u64; 2]) -> io::Result<()> {
    let update = Update {
        map: map.as_raw_fd() as u32,
        _pad: 0,
        key: (&raw const key).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads `update`, and through it as many bytes of `key` and `value` as the map's entries have: four
    // and sixteen for the classifier's, and no other gets here. All three live through the call; the map's descriptor is
    // borrowed, so it is open.
    let status = unsafe { libc::syscall(libc::SYS_bpf, MAP_UPDATE, &raw const update, size_of::<Update>()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_map() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(update(&file.into(), 0, [0, 1]).is_err());
    }
}
