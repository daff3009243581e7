//! Whom a connection to an upstream is for.

use std::net::SocketAddr;

use http::proxy_header::encode_proxy_header;

/// By what the connection begins with: it serves no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// It begins with the first request.
    Nobody,
    Ourselves,
    Client(SocketAddr),
}

impl Announced {
    /// The header of the PROXY protocol, where there is one.
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
