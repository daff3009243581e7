//! The PROXY protocol of HAProxy: the header that a proxy sends before everything else on a connection to name its
//! client. Versions 1 (a line) and 2 (binary), <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>.
//!
//! Anybody can send such a header, so it is accepted only on connections of trusted proxies.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The maximum size of a header. It leaves room for the additional fields of version 2. nginx has the same limit.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;

/// The contents of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client. `None` if the connection is the proxy's own (such as a health check), or is not TCP over IP.
    pub client: Option<SocketAddr>,
    /// Bytes of the header; the connection's own data follows.
    pub bytes: usize,
}

/// The reason why there is no valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeaderFault(pub &'static str);

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The bytes before the addresses: the signature, the version and command, the family and transport, and the length of
/// the rest.
const FIXED_BYTES: usize = 16;
/// The bytes after the signature of version 2: its commands, then TCP over each address family.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const OVER_IPV4: u8 = 0x11;
const OVER_IPV6: u8 = 0x21;
const LINE_BEGIN: &[u8] = b"PROXY ";
/// Maximum line length of version 1, including the two bytes that end it.
const LINE_BYTES_MAX: usize = 107;

const NO_HEADER: ProxyHeaderFault = ProxyHeaderFault("it does not send a PROXY header");
const WRONG: ProxyHeaderFault = ProxyHeaderFault("a malformed PROXY header");

/// Reads the header at the start of `bytes`. Returns `Ok(None)` if more bytes are needed.
pub fn parse_proxy_header(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderFault> {
    if begins_alike(bytes, SIGNATURE) {
        return binary(bytes);
    }
    if begins_alike(bytes, LINE_BEGIN) {
        return line(bytes);
    }
    Err(NO_HEADER)
}

/// Appends a version 2 header that names this client, in the client's address family. `None` marks the connection as
/// our own. The destination address is the unspecified one: the address at which the client reached us is not sent.
pub fn encode_proxy_header(out: &mut Vec<u8>, client: Option<SocketAddr>) {
    out.extend_from_slice(SIGNATURE);
    let Some(client) = client else { return out.extend_from_slice(&[LOCAL, 0, 0, 0]) };
    let (kind, addresses) = match client.ip().to_canonical() {
        IpAddr::V4(source) => (OVER_IPV4, [source.octets(), [0; 4]].concat()),
        IpAddr::V6(source) => (OVER_IPV6, [source.octets(), [0; 16]].concat()),
    };
    let [port_high, port_low] = client.port().to_be_bytes();
    let ports = [port_high, port_low, 0, 0];
    out.extend_from_slice(&[PROXY, kind, 0, (addresses.len() + ports.len()) as u8]);
    out.extend(addresses);
    out.extend(ports);
}

fn begins_alike(bytes: &[u8], known: &[u8]) -> bool {
    bytes.iter().zip(known).all(|(byte, known)| byte == known)
}

/// Parses version 2.
fn binary(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderFault> {
    let Some(fixed) = bytes.get(..FIXED_BYTES) else { return Ok(None) };
    let (command, kind) = (fixed[12], fixed[13]);
    let end = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if end > PROXY_HEADER_BYTES_MAX {
        return Err(ProxyHeaderFault("a PROXY header of more than 4096 bytes"));
    }
    let Some(told) = bytes.get(FIXED_BYTES..end) else { return Ok(None) };
    let client = match (command, kind) {
        (LOCAL, _) => None,
        (PROXY, OVER_IPV4) => Some(ends::<4>(told)?),
        (PROXY, OVER_IPV6) => Some(ends::<16>(told)?),
        // The connection is not IP, or its family is unspecified.
        (PROXY, 0x00 | 0x31 | 0x32) => None,
        _ => return Err(WRONG),
    };
    Ok(Some(ProxyHeader { client, bytes: end }))
}

/// Returns the source address and port from two addresses of `BYTES` bytes and the two ports behind them.
fn ends<const BYTES: usize>(told: &[u8]) -> Result<SocketAddr, ProxyHeaderFault>
where
    IpAddr: From<[u8; BYTES]>,
{
    let (Some(source), Some(port)) = (told.first_chunk::<BYTES>(), told.get(2 * BYTES..2 * BYTES + 2)) else {
        return Err(WRONG);
    };
    told.get(2 * BYTES + 2..2 * BYTES + 4).ok_or(WRONG)?;
    Ok(SocketAddr::new(IpAddr::from(*source), u16::from_be_bytes([port[0], port[1]])))
}

/// Parses version 1.
fn line(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderFault> {
    let within = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = within.iter().position(|&byte| byte == b'\n') else {
        return if within.len() < LINE_BYTES_MAX { Ok(None) } else { Err(WRONG) };
    };
    let line = within[..end].strip_suffix(b"\r").and_then(|line| str::from_utf8(line).ok()).ok_or(WRONG)?;
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let client = match words[..] {
        // The rest of such a line is ignored.
        ["UNKNOWN", ..] => None,
        ["TCP4", source, destination, port, other] => {
            Some(source_of::<Ipv4Addr>([source, destination], [port, other])?)
        }
        ["TCP6", source, destination, port, other] => {
            Some(source_of::<Ipv6Addr>([source, destination], [port, other])?)
        }
        _ => return Err(WRONG),
    };
    Ok(Some(ProxyHeader { client, bytes: end + 1 }))
}

fn source_of<A: core::str::FromStr + Into<IpAddr>>(
    addresses: [&str; 2],
    ports: [&str; 2],
) -> Result<SocketAddr, ProxyHeaderFault> {
    let [source, destination] = addresses.map(|address| address.parse::<A>().ok());
    let [port, other] = ports.map(|port| {
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        port.parse::<u16>().ok().filter(|_| is_number)
    });
    match (source, destination, port, other) {
        (Some(source), Some(_), Some(port), Some(_)) => Ok(SocketAddr::new(source.into(), port)),
        _ => Err(WRONG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_v2(command: u8, kind: u8, told: &[u8]) -> Vec<u8> {
        [SIGNATURE, &[command, kind], &(told.len() as u16).to_be_bytes(), told].concat()
    }

    fn v4() -> Vec<u8> {
        vec![192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 80]
    }

    fn client(bytes: &[u8]) -> Result<Option<String>, ProxyHeaderFault> {
        let header = parse_proxy_header(&[bytes, b"GET /"].concat())?.expect("a whole header");
        assert_eq!(header.bytes, bytes.len());
        Ok(header.client.map(|client| client.to_string()))
    }

    #[test]
    fn headers_tell_the_client() {
        let v6: Vec<u8> = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[7], &[1; 16], &[0, 99, 0, 80]].concat();
        let with_more = [v4(), vec![4, 0, 3, 1, 2, 3]].concat();
        for (bytes, expected) in [
            (b"PROXY TCP4 192.0.2.1 10.0.0.1 4660 80\r\n".to_vec(), Some("192.0.2.1:4660")),
            (b"PROXY TCP6 2001:db8::7 ::1 99 80\r\n".to_vec(), Some("[2001:db8::7]:99")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n".to_vec(), None),
            (of_v2(0x21, 0x11, &v4()), Some("192.0.2.1:4660")),
            (of_v2(0x21, 0x11, &with_more), Some("192.0.2.1:4660")),
            (of_v2(0x21, 0x21, &v6), Some("[2001:db8::7]:99")),
            (of_v2(0x20, 0x00, b""), None),
            (of_v2(0x20, 0x11, &v4()), None),
            (of_v2(0x21, 0x31, &[0; 216]), None),
        ] {
            assert_eq!(client(&bytes), Ok(expected.map(String::from)), "{bytes:?}");
            for end in 0..bytes.len() {
                assert_eq!(parse_proxy_header(&bytes[..end]), Ok(None), "{end} bytes of {bytes:?}");
            }
        }
    }

    #[test]
    fn what_is_told_is_read_back() {
        for (told, expected) in [
            (Some("192.0.2.1:4660"), Some("192.0.2.1:4660")),
            (Some("[2001:db8::7]:99"), Some("[2001:db8::7]:99")),
            (Some("[::ffff:192.0.2.1]:1"), Some("192.0.2.1:1")),
            (None, None),
        ] {
            let mut out = Vec::new();
            encode_proxy_header(&mut out, told.map(|told| told.parse().unwrap()));
            assert_eq!(client(&out), Ok(expected.map(String::from)));
        }
    }

    #[test]
    fn what_is_no_header_is_refused_as_soon_as_it_can_be_told() {
        for bytes in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"PROXYTCP4".to_vec(),
            b"\x16\x03\x01".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4660 80\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1  4660 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 +466 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 65536 80\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::1 1 80\r\n".to_vec(),
            b"PROXY TCP6 192.0.2.1 10.0.0.1 1 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 1\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.1 10.0.0.1 1 80\r\n".to_vec(),
            b"PROXY \xff\r\n".to_vec(),
            [&b"PROXY UNKNOWN "[..], &[b'x'; 93]].concat(),
            of_v2(0x11, 0x11, &v4()),
            of_v2(0x22, 0x11, &v4()),
            of_v2(0x21, 0x12, &v4()),
            of_v2(0x21, 0x11, &v4()[..11]),
            of_v2(0x21, 0x21, &v4()),
            of_v2(0x21, 0x11, &[0; 4081]),
        ] {
            assert!(parse_proxy_header(&bytes).is_err(), "{bytes:?}");
        }
    }
}
