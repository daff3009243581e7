use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The index of "bytes sent and not freed yet" in the array of `SO_MEMINFO` (linux/sock_diag.h, `SK_MEMINFO_VARS`
/// entries of 32 bits).
const WMEM_ALLOC: usize = 2;
const ENTRIES: usize = 9;

/// The request number of SIOCOUTQNSD, from linux/sockios.h. The libc crate has only SIOCOUTQ, which also counts bytes
/// that were sent but not acknowledged.
const SIOCOUTQNSD: u64 = 0x894B;

/// Returns the memory in bytes of packets that TCP has sent and that have not left this machine, because they wait in a
/// queueing discipline or in the device. If it is zero, packets sent from now on cannot overtake earlier packets of
/// this connection here.
pub fn queued_below_bytes(socket: impl AsFd) -> io::Result<u32> {
    let mut entries = [0u32; ENTRIES];
    let mut length = size_of_val(&entries) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `entries`, which outlives the call, and the kernel writes at most
    // `length` bytes; the descriptor is borrowed, so it is open.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            entries.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status == 0 { Ok(entries[WMEM_ALLOC]) } else { Err(io::Error::last_os_error()) }
}

/// Returns the bytes written to a connection that TCP has not sent yet, because the congestion window or the receiver's
/// window is full.
pub fn unsent_bytes(socket: impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQNSD writes one int, which outlives the call; the descriptor is borrowed, so it is open.
    let status = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCOUTQNSD as _, &raw mut bytes) };
    if status == 0 { Ok(bytes.try_into().unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_quiet_connection_has_nothing_below() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(queued_below_bytes(&stream).unwrap(), 0);
    }

    #[test]
    fn what_the_reader_does_not_take_is_unsent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        assert_eq!(unsent_bytes(&stream).unwrap(), 0);
        // Until the reader's buffer and ours are full, because the peer does not read.
        let mut written = 0;
        while let Ok(bytes) = (&stream).write(&[0; 65_536]) {
            written += bytes;
        }
        let unsent = unsent_bytes(&stream).unwrap();
        assert!(unsent > 0 && (unsent as usize) < written, "{unsent} of {written} unsent");
    }

    #[test]
    fn refuses_what_is_no_socket() {
        assert!(queued_below_bytes(std::fs::File::open("/dev/null").unwrap()).is_err());
        assert!(unsent_bytes(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
