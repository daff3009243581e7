//! A TLS client that checks certificates.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{PATIENCE, Site};

/// A self-signed certificate and its key, as files next to a site.
pub struct Made {
    pub cert: PathBuf,
    pub key: PathBuf,
    pem: String,
}

/// Connects with these versions and trusted certificates.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

pub struct TlsClient {
    pub stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Made {
    pub fn new(site: &Site, name: &str, hosts: &[&str]) -> Made {
        let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
        Made::of(site, name, rcgen::CertificateParams::new(hosts).unwrap())
    }

    pub fn of(site: &Site, name: &str, params: rcgen::CertificateParams) -> Made {
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let made = Made { cert: site.outside(&format!("{name}.pem")), key: site.outside(&format!("{name}.key")), pem };
        std::fs::write(&made.cert, &made.pem).unwrap();
        std::fs::write(&made.key, key.serialize_pem()).unwrap();
        made
    }

    /// The flags for `weir serve`.
    pub fn flags(&self) -> [&str; 4] {
        ["--cert", self.cert.to_str().unwrap(), "--key", self.key.to_str().unwrap()]
    }

    pub fn trust(&self) -> Trust {
        Trust::of(&[self], &[&TLS13, &TLS12])
    }

    pub fn trust_1_2(&self) -> Trust {
        Trust::of(&[self], &[&TLS12])
    }
}

impl Trust {
    pub fn of(made: &[&Made], versions: &[&'static rustls::SupportedProtocolVersion]) -> Trust {
        let pems: Vec<&str> = made.iter().map(|made| &*made.pem).collect();
        Trust::of_roots(&pems, versions)
    }

    /// Trusts these certificates of authorities.
    pub fn of_pem(pems: &[&str]) -> Trust {
        Trust::of_roots(pems, &[&TLS13, &TLS12])
    }

    fn of_roots(pems: &[&str], versions: &[&'static rustls::SupportedProtocolVersion]) -> Trust {
        let mut roots = RootCertStore::empty();
        for pem in pems {
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let mut config = builder.with_webpki_verifier(verifier.unwrap()).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Trust(Arc::new(config))
    }

    pub fn both(made: &[&Made]) -> Trust {
        Trust::of(made, &[&TLS13, &TLS12])
    }

    /// Connects; panics if the client refuses the handshake.
    pub fn connect(&self, address: SocketAddr, host: &str) -> TlsClient {
        let host = ServerName::try_from(host.to_string()).unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.0), host).unwrap();
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        TlsClient { stream: StreamOwned::new(connection, socket) }
    }

    /// Returns true if the host's certificate is trusted there now.
    pub fn accepts(&self, address: SocketAddr, host: &str) -> bool {
        let mut client = self.connect(address, host);
        client.stream.conn.complete_io(&mut client.stream.sock).is_ok() && !client.stream.conn.is_handshaking()
    }

    /// The first bytes that it would send.
    pub fn hello(&self) -> Vec<u8> {
        let mut hello = Vec::new();
        let host = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::clone(&self.0), host).unwrap().write_tls(&mut hello).unwrap();
        hello
    }
}

impl TlsClient {
    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Reads a head, including its empty line.
    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    /// Reads a response that has a length. Returns its head and body.
    pub fn response(&mut self) -> (String, Vec<u8>) {
        let head = self.head();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        let mut body = vec![0; length.parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        (head, body)
    }

    pub fn get(&mut self, target: &str) -> (String, Vec<u8>) {
        self.send(&super::get(target));
        self.response()
    }

    /// Asserts that the server has announced the end with an alert; an end without one is an error in rustls.
    pub fn assert_end(&mut self) {
        assert_eq!(self.stream.read(&mut [0; 10]).unwrap(), 0);
    }

    pub fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }
}
