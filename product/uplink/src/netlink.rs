//! The small part of netlink that we need: requests, replies and acknowledgements, and attributes (RFC 3549).
//!
//! Crates with typed messages support neither HTB nor TBF. We need a dozen message types, and the encoding is only a
//! few aligned lengths.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

/// Maximum size of a reply datagram (`NLMSG_GOODSIZE` is a page; dumps use up to 32 KiB).
const REPLY_BYTES_MAX: usize = 32 << 10;
/// Maximum number of reply datagrams read for one request: enough for tens of thousands of routes, and finite.
pub const REPLIES_MAX: usize = 1024;
const REPLY_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);
/// The timeout of a change. It is long because the kernel may start a program to load a module, and wait for that
/// program.
const CHANGE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// Flag of a change: replace an existing object.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Flag of a change: fail if the object exists.
pub const NLM_F_EXCL: u16 = 0x200;
/// Flag of a change: create the object if it does not exist.
pub const NLM_F_CREATE: u16 = 0x400;
const HEADER_BYTES: usize = 16;

pub struct Socket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Socket {
    pub fn open() -> io::Result<Socket> {
        // NETLINK_ROUTE is protocol 0, which `None` selects.
        Socket::open_protocol(None)
    }

    /// Opens a socket for queries about sockets rather than interfaces.
    pub fn open_sock_diag() -> io::Result<Socket> {
        Socket::open_protocol(Some(net::netlink::SOCK_DIAG))
    }

    /// Opens a socket for reports about sockets, of the groups with these numbers.
    pub fn open_sock_diag_groups(groups: &[u32]) -> io::Result<Socket> {
        Socket::open_with(Some(net::netlink::SOCK_DIAG), mask(groups))
    }

    /// Opens a socket for reports about interfaces and their queues, of the groups with these numbers.
    pub fn open_route_groups(groups: &[u32]) -> io::Result<Socket> {
        Socket::open_with(None, mask(groups))
    }

    fn open_protocol(protocol: Option<net::Protocol>) -> io::Result<Socket> {
        Socket::open_with(protocol, 0)
    }

    fn open_with(protocol: Option<net::Protocol>, groups: u32) -> io::Result<Socket> {
        let fd = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(REPLY_TIMEOUT))?;
        Ok(Socket { fd, buffer: vec![0; REPLY_BYTES_MAX], sequence: 0 })
    }

    /// Requests all objects of a kind and passes the payload of every reply to `each`. The kernel ignores most of
    /// `body` and reports every interface. A request for one object would be shorter, but Linux 6.18 sends its answer
    /// to listeners for changes instead of to the requester.
    pub fn dump(&mut self, kind: u16, body: &[u8], each: impl FnMut(&[u8])) -> io::Result<()> {
        match self.dump_at_most(REPLIES_MAX, kind, body, each)? {
            true => Ok(()),
            false => Err(io::Error::other("netlink: the reply does not end")),
        }
    }

    /// Requests all objects like [`Socket::dump`], but reads at most this many datagrams. Returns false if more would
    /// follow; the socket is then unusable.
    pub fn dump_at_most(
        &mut self,
        replies_max: usize,
        kind: u16,
        body: &[u8],
        each: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        self.request(replies_max, kind, NLM_F_DUMP, body, each)
    }

    /// Requests a change and waits until the kernel has made it. `flags` are the `NLM_F_` flags of changes; use 0 for a
    /// deletion.
    pub fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, Some(CHANGE_TIMEOUT))?;
        let outcome = self.request(REPLIES_MAX, kind, flags | NLM_F_ACK, body, |_| ()).map(drop);
        sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, Some(REPLY_TIMEOUT))?;
        outcome
    }

    /// Passes the kinds and payloads of arrived reports to `each`. Returns false if reports are missing because the
    /// kernel's buffer was full, or because more would follow.
    pub fn reported(&mut self, mut each: impl FnMut(u16, &[u8])) -> io::Result<bool> {
        let mut is_whole = true;
        for _ in 0..REPLIES_MAX {
            match net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => {
                    for message in messages(&self.buffer[..bytes.min(REPLY_BYTES_MAX)]) {
                        let Message { kind, payload, .. } = message?;
                        each(kind, payload);
                    }
                }
                Err(rustix::io::Errno::NOBUFS) => is_whole = false,
                Err(rustix::io::Errno::AGAIN) => return Ok(is_whole),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    fn request(
        &mut self,
        replies_max: usize,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend((HEADER_BYTES as u32 + body.len() as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        net::sendto(&self.fd, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        for _ in 0..replies_max {
            let (_, bytes) = net::recv(&self.fd, &mut self.buffer[..], RecvFlags::empty())?;
            if read_replies(&self.buffer[..bytes.min(REPLY_BYTES_MAX)], self.sequence, &mut each)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The body of a request under construction: the fixed part, then attributes.
pub struct Body(Vec<u8>);

impl Body {
    /// Creates a body. `fixed` is the structure that requests of this kind begin with (`struct tcmsg`, `struct
    /// ifinfomsg`).
    pub fn new(fixed: &[u8]) -> Body {
        Body(fixed.to_vec())
    }

    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Body {
        let length = ATTRIBUTE_HEAD_BYTES + value.len();
        self.0.extend(u16::try_from(length).expect("attributes are short").to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(align(self.0.len()), 0);
        self
    }

    /// Appends a text attribute, with the final zero that the kernel requires.
    pub fn text(self, kind: u16, text: &str) -> Body {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Appends an attribute that contains attributes.
    pub fn nested(self, kind: u16, inside: Body) -> Body {
        self.attribute(kind | NESTED, &inside.0)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the bits of groups with these numbers.
fn mask(groups: &[u32]) -> u32 {
    groups.iter().fold(0, |mask, group| mask | 1 << (group - 1))
}

struct Message<'m> {
    kind: u16,
    sequence: u32,
    payload: &'m [u8],
}

/// Iterates over the messages of one datagram.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = io::Result<Message<'_>>> {
    std::iter::from_fn(move || {
        if rest.len() < HEADER_BYTES {
            return None;
        }
        let length = u32_at(rest, 0).unwrap_or(0) as usize;
        if length < HEADER_BYTES || length > rest.len() {
            rest = &[];
            return Some(Err(io::Error::other("netlink: a reply is cut short")));
        }
        let (kind, sequence) = (u16_at(rest, 4).unwrap_or(0), u32_at(rest, 8).unwrap_or(0));
        let payload = &rest[HEADER_BYTES..length];
        rest = rest.get(align(length)..).unwrap_or_default();
        Some(Ok(Message { kind, sequence, payload }))
    })
}

/// Parses the replies in one datagram. Returns true if they included the request's last message.
fn read_replies(datagram: &[u8], sequence: u32, each: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    for message in messages(datagram) {
        let message = message?;
        match message.kind {
            // A reply to an earlier request that timed out is skipped.
            _ if message.sequence != sequence => {}
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let errno = u32_at(message.payload, 0).unwrap_or(0) as i32;
                return if errno == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(-errno)) };
            }
            _ => each(message.payload),
        }
    }
    Ok(false)
}

/// Iterates over the attributes of a payload, as (type, value).
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)?;
        let value = rest.get(ATTRIBUTE_HEAD_BYTES..length)?;
        rest = rest.get(align(length)..).unwrap_or_default();
        Some((kind & !NESTED, value))
    })
}

/// Returns the value of the first attribute of this type.
pub fn attribute(payload: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(payload).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

const NESTED: u16 = 1 << 15;
/// The bytes of an attribute's length and type.
const ATTRIBUTE_HEAD_BYTES: usize = 4;

fn align(length: usize) -> usize {
    length.div_ceil(4) * 4
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_stop_at_a_broken_length() {
        let mut bytes = vec![8, 0, 1, 0, 1, 2, 3, 4];
        bytes.extend([200, 0, 2, 0]);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(1, &[1, 2, 3, 4][..])]);
        assert_eq!(attribute(&bytes, 2), None);
        assert_eq!(attributes(&[0, 0, 0, 0]).count(), 0);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let inside = Body::new(&[]).attribute(3, &[1, 2, 3, 4, 5]).attribute(4, &[9; 4]);
        let body = Body::new(&[7; 8]).text(1, "htb").nested(2, inside);
        assert_eq!(body.bytes().len() % 4, 0);
        assert_eq!(attribute(&body.bytes()[8..], 1), Some(&b"htb\0"[..]));
        let nested = attribute(&body.bytes()[8..], 2).unwrap();
        assert_eq!(attributes(nested).collect::<Vec<_>>(), [(3, &[1, 2, 3, 4, 5][..]), (4, &[9; 4][..])]);
    }

    #[test]
    fn a_reply_cut_short_is_an_error() {
        let mut each = |_: &[u8]| panic!("nothing whole was sent");
        assert!(read_replies(&[255; 16], 1, &mut each).is_err());
        assert!(!read_replies(&[0; 3], 1, &mut each).unwrap());
    }
}
