//! The client that a connection to an upstream announces with the PROXY protocol.

use std::net::SocketAddr;

use http::proxy_header::encode_proxy_header;

/// The announcement at the beginning of a connection. The connection carries only transfers with the same announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// No client is announced: the connection begins with the first request.
    Nobody,
    Ourselves,
    Client(SocketAddr),
}

impl Announced {
    /// Returns the header of the PROXY protocol; empty if nothing is announced.
    pub fn preface(self) -> Vec<u8> {
        let mut preface = Vec::new();
        match self {
            Announced::Nobody => {}
            Announced::Ourselves => encode_proxy_header(&mut preface, None),
            Announced::Client(client) => encode_proxy_header(&mut preface, Some(client)),
        }
        preface
    }
}
