//! The client that a connection to an upstream is announced for.

use std::net::SocketAddr;

use http::proxy_header::encode_proxy_header;

/// The beginning of the connection: it serves only transfers that announce the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// The connection begins with the first request.
    Nobody,
    Ourselves,
    Client(SocketAddr),
}

impl Announced {
    /// Returns the header of the PROXY protocol, or nothing without one.
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
