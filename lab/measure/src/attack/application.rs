//! The application behind the attacked servers: HTTP/1.1 on loopback, with a thread for each connection. The path
//! selects its behaviour, so that a flood can choose it: an immediate or late answer, a body that the server takes
//! slowly, a tunnel, or a length that no message can have.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// The bytes of the immediate answer and of the late one.
pub const ANSWER_BYTES: usize = 1024;
/// The bytes of a body that a server may have to buffer.
pub const KEPT_BYTES: usize = 60_000;
/// The delay of the late answer.
pub const LATE: Duration = Duration::from_secs(2);
/// The length of the listening queue in Node and php-fpm. A flood fills the 128 of the standard library. The kernel
/// then drops further handshakes, and an honest request waits a second for the retransmission, whatever the proxy does.
const BACKLOG: i32 = 511;
const STACK_BYTES: usize = 128 << 10;
const LINE_BYTES_MAX: u64 = 8 << 10;

pub const NOW: &str = "app/now";
pub const KEPT: &str = "app/kept";
pub const SLOW: &str = "app/slow";
pub const TUNNEL: &str = "app/tunnel";
/// The path that reads a body and then answers.
pub const UPLOAD: &str = "app/upload";
/// The paths whose heads have a length above every limit (2^64 - 1), and one that exceeds 64 bits together with the
/// head (2^64 - 16 after 60 KB).
pub const ENDLESS: &str = "app/endless";
pub const ENDLESS_HEAD: &str = "app/endless-head";

/// Starts the application, which ends with this program, and returns its port.
pub fn start() -> Result<u16, String> {
    let failed = |error: io::Error| format!("cannot start an application on loopback: {error}");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(failed)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    let listener = TcpListener::from(socket);
    let port = listener.local_addr().map_err(failed)?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // If no thread can be started, the connection is closed, which the row shows as a refusal.
            let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || serve(stream));
        }
    });
    Ok(port)
}

/// Serves the requests of a connection until either side ends it.
fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    while let Some((path, length)) = head(&mut input)? {
        io::copy(&mut (&mut input).take(length), &mut io::sink())?;
        let out = input.get_mut();
        match path.trim_start_matches('/') {
            KEPT => answer(out, KEPT_BYTES)?,
            SLOW => {
                thread::sleep(LATE);
                answer(out, ANSWER_BYTES)?;
            }
            TUNNEL => {
                let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
                write!(
                    out,
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
                )?;
                io::copy(&mut input, &mut io::sink())?;
                return Ok(());
            }
            ENDLESS => return endless(out, u64::MAX, 0),
            ENDLESS_HEAD => return endless(out, u64::MAX - 15, KEPT_BYTES),
            _ => answer(out, ANSWER_BYTES)?,
        }
    }
    Ok(())
}

/// Reads the next request head. Returns its path and the length of its body.
fn head(input: &mut BufReader<TcpStream>) -> io::Result<Option<(String, u64)>> {
    let (mut path, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        match (&path, line.split_once(':')) {
            (None, _) => path = line.split(' ').nth(1).map(str::to_owned),
            (Some(path), _) if line.is_empty() => return Ok(Some((path.clone(), length))),
            (_, Some(("content-length", value))) => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
}

fn answer(out: &mut TcpStream, bytes: usize) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {bytes}\r\n\r\n");
    out.write_all(&[head.as_bytes(), &vec![b'x'; bytes]].concat())
}

/// Sends a head with this length, a few bytes of body, and the end of the connection.
fn endless(out: &mut TcpStream, length: u64, more_bytes: usize) -> io::Result<()> {
    let field = "x".repeat(more_bytes / 15);
    let fields: String = (0..15).filter(|_| more_bytes > 0).map(|at| format!("X-{at}: {field}\r\n")).collect();
    write!(out, "HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\nhello")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &str, bytes_max: u64) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, start().unwrap())).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = Vec::new();
        stream.take(bytes_max).read_to_end(&mut said).unwrap();
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn each_path_has_its_answer() {
        let two = "POST /app/upload HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /app/endless HTTP/1.1\r\n\r\n";
        let said = asked(two, 1 << 20);
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.contains("Content-Length: 1024\r\n"), "{said}");
        assert!(said.ends_with("Content-Length: 18446744073709551615\r\n\r\nhello"), "{said}");
        let said = asked("GET /app/endless-head HTTP/1.1\r\n\r\n", 1 << 20);
        assert!(said.len() > KEPT_BYTES && said.contains("Content-Length: 18446744073709551600\r\n"));
        assert!(asked("GET /app/tunnel HTTP/1.1\r\nHost: a\r\n\r\n", 12).starts_with("HTTP/1.1 101"));
        assert_eq!(asked("GET /app/kept HTTP/1.1\r\n\r\n", KEPT_BYTES as u64).len(), KEPT_BYTES);
    }
}
