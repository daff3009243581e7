//! The hooks for programs if the kernel has TCX (Linux 6.6). Our programs come before all others, for outgoing and for
//! incoming packets. The filters of a clsact see only packets that all programs at TCX pass on.
//!
//! Our programs are attached without a link, so that they stay when the attaching process ends, and disappear with
//! their interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_sys::{
    BPF_F_AFTER, BPF_F_BEFORE, BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_link_create_opts, bpf_prog_attach_opts,
    bpf_prog_query_opts,
};

/// Maximum number of programs at one hook (BPF_MPROG_MAX).
const PROGRAMS_MAX: usize = 64;

/// The direction of the packets that a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Leaving,
    Arriving,
}

impl Side {
    fn number(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Side::Leaving => BPF_TCX_EGRESS,
            Side::Arriving => BPF_TCX_INGRESS,
        }
    }
}

#[cfg(test)]
thread_local! {
    /// True if this thread treats the kernel as if it had no TCX.
    pub static IS_OFF: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Returns the numbers of the programs for packets that leave the interface, in the order in which they run; `None` if
/// the kernel has no TCX.
pub fn programs(interface: u32) -> io::Result<Option<Vec<u32>>> {
    programs_at(Side::Leaving, interface)
}

/// Returns the same numbers for the given direction.
pub fn programs_at(side: Side, interface: u32) -> io::Result<Option<Vec<u32>>> {
    #[cfg(test)]
    if IS_OFF.get() {
        return Ok(None);
    }
    let mut ids = [0u32; PROGRAMS_MAX];
    let mut options = bpf_prog_query_opts {
        sz: size_of::<bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = PROGRAMS_MAX as u32;
    // SAFETY: the kernel writes at most `count` numbers to `ids`, which outlives the call, and libbpf writes nothing
    // beyond `sz` of `options`.
    let status = unsafe { libbpf_sys::bpf_prog_query_opts(interface as i32, side.number(), &mut options) };
    match checked(status).map_err(|error| (error.raw_os_error(), error)) {
        Ok(()) => {}
        Err((Some(libc::EINVAL), _)) => return Ok(None),
        // The first kernels with TCX return ENOENT for a hook without programs; ENODEV means that the interface has
        // disappeared.
        Err((Some(libc::ENOENT | libc::ENODEV), _)) => return Ok(Some(Vec::new())),
        Err((_, error)) => return Err(error),
    }
    // SAFETY: both members of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count };
    Ok(Some(ids[..(count as usize).min(PROGRAMS_MAX)].to_vec()))
}

/// Attaches the program before all others. Fails if it is attached already.
pub fn attach_first(side: Side, program: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let options = bpf_prog_attach_opts {
        sz: size_of::<bpf_prog_attach_opts>() as libbpf_sys::size_t,
        flags: BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: libbpf reads `sz` bytes of `options`, which outlives the call; the descriptor is borrowed, so it is open.
    checked(unsafe { libbpf_sys::bpf_prog_attach_opts(program.as_raw_fd(), interface as i32, side.number(), &options) })
}

/// Attaches the program directly after the one with this number, or after all others. It stays attached as long as the
/// returned link is open.
pub fn link_after(side: Side, program: BorrowedFd<'_>, interface: u32, after: Option<u32>) -> io::Result<OwnedFd> {
    let mut options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: BPF_F_AFTER,
        ..Default::default()
    };
    options.__bindgen_anon_1.tcx.relative_id = after.unwrap_or(0);
    // SAFETY: libbpf reads `sz` bytes of `options`, which outlives the call; the descriptor is borrowed, so it is open.
    let link = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), interface as i32, side.number(), &options) };
    checked(link)?;
    // SAFETY: the kernel has just made this descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

pub fn detach(side: Side, program: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    // SAFETY: without options libbpf reads no memory; the descriptor is borrowed, so it is open.
    checked(unsafe {
        libbpf_sys::bpf_prog_detach_opts(program.as_raw_fd(), interface as i32, side.number(), std::ptr::null())
    })
}

fn checked(status: i32) -> io::Result<()> {
    if status < 0 { Err(io::Error::from_raw_os_error(-status)) } else { Ok(()) }
}
