//! A connection of HTTP/2 without TLS (prior knowledge), one request at a time: no more of RFC 9113 than it takes to hold thousands of
//! them and to time one, without a generator's own work in between.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::plan::Sample;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
/// The largest frame that a server may send unasked (RFC 9113 section 4.2).
const FRAME_BYTES_MAX: usize = 16_384;
/// The largest window, less the one there is at first (section 6.9): nothing ever waits for it.
const MORE_WINDOW: u32 = (1 << 31) - 1 - 65_535;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:method: GET` and `:scheme: http` of the static table (RFC 7541 appendix A), and the names `:authority` and `:path`.
const GET_HTTP: [u8; 2] = [0x82, 0x86];
const AUTHORITY: u8 = 0x01;
const PATH: u8 = 0x04;
const STATUS_200: u8 = 0x88;

pub struct Connection {
    stream: TcpStream,
    next_id: u32,
    frame: Vec<u8>,
}

impl Connection {
    pub fn new(mut stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        let settings = frame(SETTINGS, 0, 0, &[]);
        let window = frame(WINDOW_UPDATE, 0, 0, &MORE_WINDOW.to_be_bytes());
        stream.write_all(&[PREFACE, &settings, &window].concat())?;
        Ok(Connection { stream, next_id: 1, frame: vec![0; FRAME_BYTES_MAX] })
    }

    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends a request; returns an error unless the answer is 200 and exactly as long as the file.
    pub fn get(&mut self, sample: Sample) -> io::Result<()> {
        let id = self.next_id;
        self.next_id += 2;
        self.stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, id, &request(sample.name)))?;
        let (mut is_ok, mut got) = (false, 0);
        loop {
            let [kind, flags, of_stream] = self.read_frame()?;
            if of_stream == id && kind == u32::from(HEADERS) {
                is_ok = is_status_200(&self.frame);
            } else if of_stream == id && kind == u32::from(DATA) {
                got += self.frame.len() as u64;
            } else if of_stream == id {
                continue;
            }
            if of_stream == id && flags & u32::from(END_STREAM) != 0 {
                let is_right = is_ok && got == sample.size_bytes;
                return if is_right { Ok(()) } else { Err(wrong(&format!("200: {is_ok}, {got} bytes"))) };
            }
        }
    }

    /// Type, flags and stream of the next frame, whose payload is then in `frame`; those of the connection are answered.
    fn read_frame(&mut self) -> io::Result<[u32; 3]> {
        let mut head = [0; HEAD_BYTES];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let bytes = u32::from_be_bytes([0, a, b, c]) as usize;
        if bytes > FRAME_BYTES_MAX {
            return Err(wrong(&format!("a frame of {bytes} bytes")));
        }
        self.frame.resize(bytes, 0);
        self.stream.read_exact(&mut self.frame)?;
        match kind {
            SETTINGS if flags & ACK == 0 => self.stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            PING if flags & ACK == 0 => self.stream.write_all(&frame(PING, ACK, 0, &self.frame))?,
            GOAWAY => return Err(wrong("GOAWAY")),
            _ => {}
        }
        Ok([kind.into(), flags.into(), u32::from_be_bytes(stream)])
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::other(format!("the answer over HTTP/2 is not the file: {what}"))
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// A header block without a dynamic table and without Huffman's code; names are shorter than 127 bytes.
pub fn request(name: &str) -> Vec<u8> {
    let literal = |index: u8, value: String| [&[index, value.len() as u8], value.as_bytes()].concat();
    [GET_HTTP.to_vec(), literal(AUTHORITY, "bench".into()), literal(PATH, format!("/{name}"))].concat()
}

/// `:status` is first, behind changes of the size of a table that holds nothing (RFC 7541 section 6.3).
fn is_status_200(block: &[u8]) -> bool {
    let mut left = block.iter().copied();
    while let Some(byte) = left.next() {
        match byte {
            0x20..=0x3e => {}
            0x3f => while left.next().is_some_and(|byte| byte & 0x80 != 0) {},
            _ => return byte == STATUS_200,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::FEW_BYTES;
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    #[test]
    fn frames_and_requests_as_the_rfcs_have_them() {
        assert_eq!(frame(HEADERS, 5, 3, b"ab"), [0, 0, 2, 1, 5, 0, 0, 0, 3, b'a', b'b']);
        assert_eq!(request("x"), [b"\x82\x86\x01\x05bench", &b"\x04\x02/x"[..]].concat());
        assert!(is_status_200(&[0x88, 1]) && is_status_200(&[0x20, 0x3f, 0xe1, 0x1f, 0x88]));
        assert!(!is_status_200(&[0x8d]) && !is_status_200(&[]));
    }

    /// What is said of a server that says `answer` to a request on stream 1.
    fn got(answer: Vec<u8>) -> Result<(), String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&answer).unwrap();
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let found = {
            let mut connection = Connection::new(TcpStream::connect(address).unwrap()).unwrap();
            connection.get(FEW_BYTES).map_err(|e| e.to_string())
        };
        server.join().unwrap();
        found
    }

    #[test]
    fn only_the_whole_file_counts() {
        let settings = frame(SETTINGS, 0, 0, &[]);
        let answer = |status: u8, bytes: usize| {
            let parts = [
                settings.clone(),
                frame(HEADERS, END_HEADERS, 1, &[status]),
                frame(DATA, 0, 1, &[]),
                frame(DATA, END_STREAM, 1, &vec![b'x'; bytes]),
            ];
            got(parts.concat())
        };
        assert_eq!(answer(0x88, 16), Ok(()));
        assert!(answer(0x88, 15).unwrap_err().ends_with("200: true, 15 bytes"));
        assert!(answer(0x8d, 16).unwrap_err().ends_with("200: false, 16 bytes"));
        assert!(got(frame(GOAWAY, 0, 0, &[0; 8])).unwrap_err().ends_with("GOAWAY"));
    }
}
