//! TLS in the kernel (kTLS): keys go down by setsockopt, records of another type than data go through control messages.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_void, socklen_t};

/// Of `linux/tls.h`: the record's type goes with a message that is sent, and comes with one that is received.
const TLS_SET_RECORD_TYPE: c_int = 1;
const TLS_GET_RECORD_TYPE: c_int = 2;

/// Which way keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Sends,
    Receives,
}

/// Room for one control message with one byte.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Puts the kernel's TLS above a connected socket: nothing changes until keys come. `NotFound` where the kernel has none.
pub fn set_tls(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// From now on the kernel seals, or opens, with these keys, as `linux/tls.h` lays them out.
pub fn set_keys(socket: impl AsFd, direction: Direction, info: &[u8]) -> io::Result<()> {
    let option = match direction {
        Direction::Sends => libc::TLS_TX,
        Direction::Receives => libc::TLS_RX,
    };
    set(socket, libc::SOL_TLS, option, info)
}

fn set(socket: impl AsFd, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    let length = value.len() as socklen_t;
    // SAFETY: the pointer and the length describe `value`, which lives through the call and is only read; the descriptor is borrowed, so it
    // is open.
    let status =
        unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, value.as_ptr().cast::<c_void>(), length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends one record of this type.
pub fn send_record(socket: impl AsFd, record_type: u8, content: &[u8]) -> io::Result<()> {
    let mut control = Control([0; 32]);
    let mut part = libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    let message = message(&mut part, &mut control);
    // SAFETY: `message` names `control`, which has room for a header and a byte behind it (32 >= CMSG_SPACE(1)) and is aligned for one; the
    // kernel only reads what `message`, `part` and `control` name, all of which live through the call.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        libc::CMSG_DATA(header).write(record_type);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes content of the next record, and its type.
pub fn receive_record(socket: impl AsFd, content: &mut [u8]) -> io::Result<(usize, Option<u8>)> {
    let mut control = Control([0; 32]);
    let mut part = libc::iovec { iov_base: content.as_mut_ptr().cast(), iov_len: content.len() };
    let mut message = message(&mut part, &mut control);
    // SAFETY: the kernel writes at most as much as `content` and `control` have room for, and says so in `message`, of which CMSG_FIRSTHDR
    // gives a header that was written whole, or none; all live through the call.
    unsafe {
        let bytes = libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT);
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
        let header = libc::CMSG_FIRSTHDR(&raw const message).as_ref();
        let of_tls =
            header.filter(|header| (header.cmsg_level, header.cmsg_type) == (libc::SOL_TLS, TLS_GET_RECORD_TYPE));
        Ok((bytes, of_tls.map(|header| libc::CMSG_DATA(header).read())))
    }
}

fn message(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: a `msghdr` of zeros is one without a name, parts or control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    // SAFETY: only computes a number.
    let control_bytes = unsafe { libc::CMSG_SPACE(1) };
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), control_bytes as _);
    message
}
