//! Probes a server before a run over HTTP/3, so that a server without it costs seconds and not a run of minutes.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quinn_proto::{ConnectionError, Event, TransportErrorCode};
use units::Nanos;

use super::fault::NO_ERROR;
use super::quic::Quic;
use crate::Tls;
use crate::clock::Clock;

/// The time limit of the handshake.
const WITHIN: Duration = Duration::from_secs(5);

/// A size above that of any datagram of a server.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// The TLS alert for no common protocol (RFC 7301 section 3.2).
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// The reason why there is no HTTP/3.
#[derive(Debug, thiserror::Error)]
pub enum NoHttp3 {
    #[error(
        "the server speaks QUIC and not HTTP/3 (ALPN has no h3 in common): leave --h3 out, or give the server HTTP/3"
    )]
    Alpn,
    #[error(
        "the QUIC handshake failed ({0}), expected one that ends within {WITHIN:?}: leave --h3 out if the server has no HTTP/3"
    )]
    Handshake(String),
    #[error(
        "no answer over UDP ({0}), expected one within {WITHIN:?}: leave --h3 out if the server has no HTTP/3, or let UDP through \
         to its port"
    )]
    Silent(String),
    #[error("no handshake of QUIC can begin ({0}): write the address and port of the server, and --tls or https://")]
    Unusable(String),
}

/// Checks that a server speaks HTTP/3.
pub fn check_http3(target: SocketAddr, tls: &Tls) -> Result<(), NoHttp3> {
    let config = tls.quic().ok_or_else(|| NoHttp3::Unusable("TLS of another protocol".into()))?;
    let clock = Clock::start();
    let mut quic = Quic::connect(config, target, clock.now()).map_err(|error| NoHttp3::Unusable(error.to_string()))?;
    let shaken = socket_to(target).and_then(|socket| shake_hands(&mut quic, &socket, &clock));
    match shaken {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(of_lost(&reason)),
        Err(error) => Err(NoHttp3::Silent(error.to_string())),
    }
}

fn socket_to(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    Ok(socket)
}

/// Attempts a handshake. Returns the reason for a failure if the connection reports one.
fn shake_hands(quic: &mut Quic, socket: &UdpSocket, clock: &Clock) -> io::Result<Option<ConnectionError>> {
    let (mut out, mut datagram) = (vec![], vec![0; DATAGRAM_BYTES_MAX]);
    loop {
        while quic.transmit(clock.now(), &mut out).is_some() {
            socket.send(&out)?;
        }
        while let Some(event) = quic.poll() {
            match event {
                Event::Connected => {
                    quic.close(clock.now(), NO_ERROR);
                    while quic.transmit(clock.now(), &mut out).is_some() {
                        socket.send(&out)?;
                    }
                    return Ok(None);
                }
                Event::ConnectionLost { reason } => return Ok(Some(reason)),
                _ => {}
            }
        }
        let now = clock.now();
        if now >= Nanos::from(WITHIN) {
            return Err(ErrorKind::TimedOut.into());
        }
        let until = quic.due().unwrap_or(Nanos::MAX).min(WITHIN.into());
        // A timeout of zero would mean no timeout.
        let wait = Duration::from(until).saturating_sub(now.into()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(wait))?;
        match socket.recv(&mut datagram) {
            Ok(bytes) => quic.receive(clock.now(), None, &datagram[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        if quic.due().is_some_and(|at| at <= clock.now()) {
            quic.on_time(clock.now());
        }
    }
}

fn of_lost(reason: &ConnectionError) -> NoHttp3 {
    let code = match reason {
        ConnectionError::TransportError(error) => Some(error.code),
        ConnectionError::ConnectionClosed(close) => Some(close.error_code),
        _ => None,
    };
    match code {
        Some(code) if code == TransportErrorCode::crypto(NO_APPLICATION_PROTOCOL) => NoHttp3::Alpn,
        _ => NoHttp3::Handshake(reason.to_string()),
    }
}
