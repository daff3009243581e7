use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt};

use super::PATIENCE;

/// A connection. Anything that violates HTTP/1.1 causes a panic, and so fails the test.
pub struct Client {
    stream: TcpStream,
    /// The bytes received and not yet used.
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The status line and field lines, without the empty line.
    pub head: String,
    pub body: Vec<u8>,
}

/// A plain GET on a connection that stays open.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).unwrap())
    }

    /// Connects with the smallest receive buffer, so that unread bytes stay with the server.
    pub fn connect_narrow(address: SocketAddr) -> Client {
        // CLOEXEC, or servers started in the meantime would inherit it.
        let flags = SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP)).unwrap();
        sockopt::set_socket_recv_buffer_size(&fd, 1).unwrap();
        connect(&fd, &address).unwrap();
        Client::over(TcpStream::from(fd))
    }

    /// Connects from this address, with port 0 for any.
    pub fn connect_from(local: &str, address: SocketAddr) -> Client {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP)).unwrap();
        bind(&socket, &local.parse::<SocketAddr>().unwrap()).unwrap();
        connect(&socket, &address).unwrap();
        Client::over(TcpStream::from(socket))
    }

    fn over(stream: TcpStream) -> Client {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The sending side, for a thread of its own.
    pub fn writer(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// The number of packets received from the server, including bare acknowledgements and those of the handshake.
    pub fn packets_received(&self) -> u32 {
        let port = self.stream.local_addr().unwrap().port();
        let said =
            Command::new("ss").args(["-tinH", "sport", "=", &format!(":{port}")]).output().expect("ss of iproute2");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let count = said.split_whitespace().find_map(|word| word.strip_prefix("segs_in:")?.parse().ok());
        count.unwrap_or_else(|| panic!("no segs_in of port {port}: {said}"))
    }

    /// Sends bytes that the server may refuse to take.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Reads the response to a GET, or any other response with a body.
    pub fn response(&mut self) -> Response {
        let (status, head) = self.head();
        let has_none = status < 200 || status == 204 || status == 304;
        let bytes = if has_none { 0 } else { content_length(&head) };
        Response { status, head, body: self.body(bytes) }
    }

    pub fn response_to_head(&mut self) -> Response {
        let (status, head) = self.head();
        Response { status, head, body: Vec::new() }
    }

    /// Sends a GET and reads its response.
    pub fn get(&mut self, target: &str) -> Response {
        self.send(get(target));
        self.response()
    }

    /// Reads a head and returns its status with it; the body stays unread.
    pub fn head(&mut self) -> (u16, String) {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8(self.buffer.drain(..end + 4).take(end).collect()).unwrap();
                return (check_head(&head), head);
            }
            assert!(self.more(), "the connection ended inside a head: {:?}", self.buffer.escape_ascii().to_string());
        }
    }

    /// Reads exactly this many bytes.
    pub fn body(&mut self, bytes: usize) -> Vec<u8> {
        while self.buffer.len() < bytes {
            assert!(self.more(), "the body ended at {} of {bytes} bytes", self.buffer.len());
        }
        self.buffer.drain(..bytes).collect()
    }

    /// Reads everything until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.buffer)
    }

    /// Waits for bytes and returns their number, at least one; they stay unread.
    pub fn waiting_bytes(&self) -> usize {
        self.stream.peek(&mut vec![0; 1 << 20]).unwrap()
    }

    /// Returns whether a response begins before the connection ends.
    pub fn is_answered(&self) -> bool {
        self.stream.peek(&mut [0]).is_ok_and(|bytes| bytes == 1)
    }

    /// Asserts that the server closes without sending anything else.
    pub fn assert_end(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "more came: {}", rest.escape_ascii());
    }

    /// Waits for the first byte of a response, which stays unread.
    pub fn wait_for_first_byte(&mut self) {
        assert_eq!(self.stream.peek(&mut [0]).unwrap(), 1, "the connection ended");
    }

    /// Asserts that the server ends the connection, by a close or, if it had not read everything, by a reset.
    pub fn assert_gone(&mut self) {
        match self.stream.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("not gone: {other:?}"),
        }
    }

    /// Asserts that no byte has arrived and that the server has not closed. It only checks for a moment.
    pub fn assert_silent(&mut self) {
        assert!(self.is_silent(), "not silent: {:?}", self.buffer.escape_ascii().to_string());
    }

    /// Returns whether neither bytes nor the end arrive within 100 ms.
    pub fn is_silent(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let kind = self.stream.peek(&mut [0]).map_err(|error| error.kind());
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        self.buffer.is_empty() && kind == Err(ErrorKind::WouldBlock)
    }

    /// Closes the sending side; responses are still read.
    pub fn finish(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Ends the connection with a reset, like a process that is killed.
    pub fn reset(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// Reads more bytes. Returns false at the end.
    fn more(&mut self) -> bool {
        let mut bytes = vec![0; 64 << 10];
        let read = match self.stream.read(&mut bytes) {
            Ok(read) => read,
            // A read with a timeout ends in this way if the process was stopped and continues (signal(7)).
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) => panic!("{error} after {:?}", self.buffer.escape_ascii().to_string()),
        };
        self.buffer.extend_from_slice(&bytes[..read]);
        read > 0
    }
}

impl Response {
    /// The value of a field that occurs at most once.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut values = head.split("\r\n").skip(1).filter_map(|line| {
        let (found, value) = line.split_once(": ").unwrap_or_else(|| panic!("not a field line: {line}"));
        found.eq_ignore_ascii_case(name).then_some(value)
    });
    let value = values.next();
    assert_eq!(values.next(), None, "{name} twice: {head}");
    value
}

fn content_length(head: &str) -> usize {
    field(head, "Content-Length").and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("no length: {head}"))
}

/// Checks a head and returns its status. Every response has Server and Date.
fn check_head(head: &str) -> u16 {
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("not a status line: {head}"));
    if status >= 200 {
        // The response of an upstream keeps its own.
        let is_passed_on = head.split("\r\n").any(|line| ["Via: 1.1 weir", "Via: 2 weir"].contains(&line));
        assert!(field(head, "Server") == Some("weir") || is_passed_on, "{head}");
        assert!(field(head, "Date").is_some_and(|date| date.ends_with(" GMT")), "{head}");
    }
    status
}
