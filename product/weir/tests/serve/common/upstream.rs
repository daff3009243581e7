//! A server behind the tested one, which answers as a test specifies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::PATIENCE;

/// A request that an upstream has received.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The head with its empty line.
    pub head: String,
    /// The number of the connection on which it arrived, from 0.
    pub connection: usize,
}

/// How an upstream answers: receives the head, answers on the socket, and returns whether the connection stays.
type Answer = dyn Fn(&Asked, &mut TcpStream) -> bool + Send + Sync;

/// An upstream that listens until the test ends.
pub struct Upstream {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Asked {
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).expect("a request line")
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Reads the body of the request, framed as its head says.
    pub fn body(&self, socket: &mut TcpStream) -> Vec<u8> {
        let mut body = Vec::new();
        if self.field("Transfer-Encoding") == Some("chunked") {
            loop {
                let line = until(socket, b"\r\n");
                let bytes = usize::from_str_radix(line.trim_end(), 16).expect("a chunk's size");
                let mut chunk = vec![0; bytes + 2];
                socket.read_exact(&mut chunk).expect("a whole chunk");
                body.extend_from_slice(&chunk[..bytes]);
                if bytes == 0 {
                    return body;
                }
            }
        }
        body.resize(self.field("Content-Length").map_or(0, |bytes| bytes.parse().expect("a length")), 0);
        socket.read_exact(&mut body).expect("a whole body");
        body
    }
}

impl Upstream {
    pub fn start(answer: impl Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static) -> Upstream {
        Upstream::start_at("127.0.0.1:0", answer)
    }

    /// Starts an upstream that listens on this address.
    pub fn start_at(
        address: &str,
        answer: impl Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (asked, answer): (Arc<Mutex<Vec<Asked>>>, Arc<Answer>) = (Arc::default(), Arc::new(answer));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (connection, socket) in listener.incoming().enumerate() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                let mut socket = socket.expect("a connection");
                socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                std::thread::spawn(move || {
                    loop {
                        let head = until(&mut socket, b"\r\n\r\n");
                        if head.is_empty() {
                            return;
                        }
                        let asked = Asked { head, connection };
                        seen.lock().unwrap().push(asked.clone());
                        if !answer(&asked, &mut socket) {
                            return;
                        }
                    }
                });
            }
        });
        Upstream { address, asked }
    }

    /// The requests received so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads up to these bytes; returns an empty text if the client has left before.
fn until(socket: &mut TcpStream, end: &[u8]) -> String {
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(end) {
        match socket.read(&mut byte) {
            Ok(1) => read.push(byte[0]),
            _ => return String::new(),
        }
    }
    String::from_utf8(read).expect("text")
}

/// Writes a response, whose client may have left.
pub fn answer(socket: &mut TcpStream, parts: &[&[u8]]) -> bool {
    socket.write_all(&parts.concat()).is_ok()
}

/// Writes a response and ends the connection.
pub fn answer_last(socket: &mut TcpStream, parts: &[&[u8]]) -> bool {
    answer(socket, parts);
    false
}
