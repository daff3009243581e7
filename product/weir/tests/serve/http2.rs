//! HTTP/2 as its clients see the program; frames are tested in the crate that makes them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::common::{PATIENCE, Server, Site};

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Reads the next frame and returns its type and payload.
pub fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 9];
    stream.read_exact(&mut header).unwrap();
    let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
    stream.read_exact(&mut payload).unwrap();
    (header[3], payload)
}

#[test]
fn a_preface_is_answered_in_frames_and_nonsense_behind_it_with_a_reason() {
    let site = Site::with(&[("a.txt", b"hello\n")]);
    let server = Server::start(&site, &[]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[PREFACE, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"].concat()).unwrap();
    assert_eq!(frame(&mut stream).0, SETTINGS);
    let (kind, _) = std::iter::repeat_with(|| frame(&mut stream)).find(|(kind, _)| *kind != SETTINGS).unwrap();
    assert_eq!(kind, GOAWAY);
    assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0, "nothing follows");
    crate::common::wait_until("a line about it", || {
        server.stderr().iter().any(|line| line.contains("HTTP/2 ended with 127.0.0.1:"))
    });
}

#[test]
fn curl_speaks_it_in_clear_and_under_tls() {
    for (flags, scheme, how) in
        [(&[][..], "http", "--http2-prior-knowledge"), (&["--tls-self-signed"][..], "https", "--http2")]
    {
        let site = Site::with(&[("a.txt", b"hello\n")]);
        let server = Server::start(&site, flags);
        let url = format!("{scheme}://localhost:{}/a.txt", server.address.port());
        let curl = Command::new("curl").args(["-skS", "--max-time", "60", how, "-w", "%{http_version}", &url]).output();
        assert_eq!(String::from_utf8_lossy(&curl.unwrap().stdout), "hello\n2", "{how}");
    }
}
