use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Of `SO_MEMINFO`'s array (linux/sock_diag.h, `SK_MEMINFO_VARS` entries of 32 bits): what was sent and not freed yet.
const WMEM_ALLOC: usize = 2;
const ENTRIES: usize = 9;

/// Bytes of memory held by packets that TCP has sent and that have not left this machine yet: they wait in a queueing
/// discipline, or in the device. Zero means that nothing sent from now on can overtake anything of this connection here.
pub fn queued_below_bytes(socket: impl AsFd) -> io::Result<u32> {
    let mut entries = [0u32; ENTRIES];
    let mut length = size_of_val(&entries) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `entries`, which lives through the call, and the kernel writes at
    // most `length` bytes; the descriptor is borrowed, so it is open.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_quiet_connection_has_nothing_below() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(queued_below_bytes(&stream).unwrap(), 0);
    }

    #[test]
    fn refuses_what_is_no_socket() {
        assert!(queued_below_bytes(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
