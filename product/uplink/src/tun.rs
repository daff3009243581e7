use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};

use crate::Error;

const DEVICE: &str = "/dev/net/tun";
/// Room for a name and its terminating zero (linux/if.h).
const IFNAMSIZ: usize = 16;

/// `struct ifreq` (linux/if.h) as TUNSETIFF reads it: a name, and flags at the start of a union of 24 bytes.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// Opens the TUN device of this name in the namespace of the calling thread, and creates it if there is none
/// (CAP_NET_ADMIN). A read returns one IP packet that was routed to it, and a write injects one as if it had come from
/// there; neither blocks.
pub fn open_tun(name: &str) -> Result<OwnedFd, Error> {
    let doing = format!("opening the TUN device {name}");
    let kernel = |error: io::Error| Error::kernel(&doing, error);
    let mut request = InterfaceRequest {
        name: [0; IFNAMSIZ],
        // Packets without the four bytes of packet information in front.
        flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        rest: [0; 22],
    };
    if name.is_empty() || name.len() >= IFNAMSIZ {
        return Err(Error::new(format!("`{name}` is not a name for an interface: write 1 to {} bytes", IFNAMSIZ - 1)));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let fd = open(DEVICE, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| kernel(error.into()))?;
    // SAFETY: `fd` is open, and `request` has the layout and the 40 bytes of `struct ifreq`, which is all that the
    // kernel reads and writes here; it outlives the call.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if status < 0 { Err(kernel(io::Error::last_os_error())) } else { Ok(fd) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, run, skip};

    /// A datagram sent to an address behind the device is read from it, and a datagram written to it is received.
    #[test]
    fn packets_come_out_and_go_in() {
        if !std::path::Path::new(DEVICE).exists() {
            return skip("this kernel has no TUN");
        }
        in_own_network(|| {
            let tun = open_tun("tun-test").unwrap();
            run("ip address add 198.18.90.1/24 dev tun-test");
            run("ip link set tun-test up");
            let socket = std::net::UdpSocket::bind("198.18.90.1:9000").unwrap();
            socket.send_to(b"hello", "198.18.90.2:9001").unwrap();
            let mut packet = [0u8; 2000];
            // The kernel may have sent packets of its own first.
            let got = std::iter::repeat_with(|| rustix::io::read(&tun, &mut packet[..]).unwrap())
                .find(|&length| length == 33)
                .unwrap();
            // Sent back: swapping addresses and ports leaves both checksums unchanged.
            let (from, to) = (packet[12..16].to_vec(), packet[16..20].to_vec());
            packet[12..16].copy_from_slice(&to);
            packet[16..20].copy_from_slice(&from);
            packet.swap(20, 22);
            packet.swap(21, 23);
            assert_eq!(rustix::io::write(&tun, &packet[..got]).unwrap(), got);
            let (length, sender) = socket.recv_from(&mut packet).unwrap();
            assert_eq!((&packet[..length], sender.to_string().as_str()), (&b"hello"[..], "198.18.90.2:9001"));
        });
    }

    #[test]
    fn a_name_that_cannot_be_is_refused() {
        for wrong in ["", "a name longer than any interface may have"] {
            assert!(open_tun(wrong).unwrap_err().to_string().starts_with(&format!("`{wrong}` is not a name")));
        }
    }
}
