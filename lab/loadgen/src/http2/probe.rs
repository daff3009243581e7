//! Probes a server before a run over HTTP/2, so that a wrong protocol costs seconds and not a run of minutes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::frames::{FRAME_HEAD_BYTES, Frame, SETTINGS};
use crate::Tls;

/// The time limit for the connection, and for each response.
const WITHIN: Duration = Duration::from_secs(5);

/// The client's first bytes (RFC 9113 section 3.4), with an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The reason why there is no HTTP/2.
#[derive(Debug, thiserror::Error)]
pub enum NoHttp2 {
    /// The protocol that the server chose.
    #[error(
        "the server does not choose HTTP/2 for a connection over TLS (ALPN gave {0}, expected h2): leave --h2 out, or give \
         the server HTTP/2 (nginx: `listen ... ssl http2`)"
    )]
    Alpn(String),
    #[error(
        "the server does not speak HTTP/2 without TLS ({0}, expected a SETTINGS frame): leave --h2 out, write --tls too, or give the \
         server cleartext HTTP/2 (nginx: `listen ... http2`)"
    )]
    Cleartext(String),
    #[error(
        "the TLS handshake failed ({0}), expected one that ends within {WITHIN:?}: leave --tls out if the server speaks none"
    )]
    Handshake(String),
    #[error(
        "the probe for HTTP/2 failed ({0}), expected an answer within {WITHIN:?}: see whether the server runs at this address"
    )]
    Io(#[from] io::Error),
}

/// Checks that a server speaks HTTP/2: over TLS if `tls` is given, otherwise in cleartext with prior knowledge.
pub fn check_http2(target: SocketAddr, tls: Option<&Tls>) -> Result<(), NoHttp2> {
    let mut socket = TcpStream::connect_timeout(&target, WITHIN)?;
    socket.set_read_timeout(Some(WITHIN))?;
    socket.set_write_timeout(Some(WITHIN))?;
    if let Some(tls) = tls {
        return match tls.chosen_protocol(&mut socket).map_err(NoHttp2::Handshake)?.as_deref() {
            Some(b"h2") => Ok(()),
            Some(other) => Err(NoHttp2::Alpn(format!("`{}`", String::from_utf8_lossy(other)))),
            None => Err(NoHttp2::Alpn("nothing".into())),
        };
    }
    socket.write_all(PREFACE)?;
    let mut head = [0; FRAME_HEAD_BYTES];
    if let Err(error) = socket.read_exact(&mut head) {
        return Err(NoHttp2::Cleartext(format!("it sent no frame: {error}")));
    }
    match Frame::parse(head) {
        Frame { kind: SETTINGS, stream: 0, .. } => Ok(()),
        _ => Err(NoHttp2::Cleartext(format!("it sent `{}`", head.escape_ascii()))),
    }
}
