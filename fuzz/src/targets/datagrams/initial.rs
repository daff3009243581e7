//! Datagrams of a client that is unknown to its server: Initial packets, sealed by hand with the keys that anybody can
//! derive (RFC 9001 section 5.2).

use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Keys, Suite, Version};
use rustls::{CipherSuite, Side};

pub const V1: u32 = 1;
/// The minimum size of a first datagram (RFC 9000 section 14.1).
pub const DATAGRAM_BYTES_MIN: usize = 1200;
const TAG_BYTES: usize = 16;
const NUMBER_BYTES: usize = 4;
/// The offset from the packet number of the sample for header protection.
const SAMPLE_AT: usize = 4;

/// The parts of an Initial packet that a client chooses.
#[derive(Debug, Clone, Copy)]
pub struct Initial<'a> {
    pub version: u32,
    pub destination: &'a [u8],
    pub source: &'a [u8],
    pub token: &'a [u8],
    pub number: u32,
    pub frames: &'a [u8],
}

impl Initial<'_> {
    /// Returns the packet, padded to this many bytes with PADDING.
    pub fn seal(&self, bytes_min: usize) -> Vec<u8> {
        // A long header of type Initial, with a packet number of four bytes.
        let mut packet = vec![0xc0 | (NUMBER_BYTES as u8 - 1)];
        packet.extend(self.version.to_be_bytes());
        for id in [self.destination, self.source] {
            packet.push(id.len() as u8);
            packet.extend_from_slice(id);
        }
        varint(self.token.len(), &mut packet);
        packet.extend_from_slice(self.token);
        // The length, in two bytes, and the number.
        let begin = packet.len() + 2;
        let beside = begin + NUMBER_BYTES + TAG_BYTES;
        let payload = self.frames.len().max(bytes_min.saturating_sub(beside)).max(SAMPLE_AT);
        packet.extend((0x4000 | (NUMBER_BYTES + payload + TAG_BYTES) as u16).to_be_bytes());
        packet.extend(self.number.to_be_bytes());
        let mut content = self.frames.to_vec();
        content.resize(payload, 0);
        self.protect(packet, begin, content)
    }

    fn protect(&self, mut packet: Vec<u8>, number_at: usize, mut content: Vec<u8>) -> Vec<u8> {
        let Keys { local, .. } = suite().keys(self.destination, Side::Client, Version::V1);
        let tag = local.packet.encrypt_in_place(self.number.into(), &packet, &mut content).expect("sealing in memory");
        packet.extend(content);
        packet.extend_from_slice(tag.as_ref());
        let (head, rest) = packet.split_at_mut(number_at + NUMBER_BYTES);
        let (first, head) = head.split_first_mut().expect("a packet has a first byte");
        let sample = &rest[..local.header.sample_len()];
        local.header.encrypt_in_place(sample, first, &mut head[number_at - 1..]).expect("a whole sample");
        packet
    }
}

/// Returns a ClientHello with these transport parameters.
pub fn hello(parameters: &[u8]) -> Vec<u8> {
    let host = ServerName::try_from("localhost").expect("a name");
    let config = tls::testing::quic_client_config(b"h3");
    let client = ClientConnection::new(config, Version::V1, host, parameters.to_vec());
    let mut hello = Vec::new();
    client.expect("a configuration of QUIC").write_hs(&mut hello);
    hello
}

pub fn crypto(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![6];
    varint(offset, &mut frame);
    varint(bytes.len(), &mut frame);
    frame.extend_from_slice(bytes);
    frame
}

fn varint(value: usize, into: &mut Vec<u8>) {
    quic::testing::varint::write(value as u64, into);
}

fn suite() -> Suite {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let suites = provider.cipher_suites.iter();
    let mut found = suites.filter(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    let suite = found.next().and_then(|suite| suite.tls13()).and_then(|suite| suite.quic_suite());
    suite.expect("the provider has the suite of Initial packets")
}
