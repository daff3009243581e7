//! The floor: the least that a server on this machine does for a request, one wait, one `recv` and one `send` of bytes made beforehand.
//!
//! It parses nothing but which sample is asked for, keeps no time and no limits, and is measured like any other server:
//! the distance to it is all that a better server could still gain. Bodies are copied to the socket from memory, where the
//! servers use `sendfile`, so that with large files it is a server of another kind, not a bound.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};
use socket2::{Domain, Socket, Type};

use super::plan::SAMPLES;

const LISTENER: u64 = u64::MAX;
const EVENTS_PER_TURN_MAX: usize = 512;
/// A request of the bench is one packet.
const REQUEST_BYTES_MAX: usize = 4096;
const BACKLOG: i32 = 4096;

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    listen: SocketAddr,
}

struct Client {
    socket: OwnedFd,
    /// The response being sent, and how much of it is gone.
    sending: Option<(usize, usize)>,
}

pub fn main(args: &Args) -> Result<(), String> {
    run(args.listen).map_err(|e| format!("floor on {}: {e}", args.listen))
}

fn run(address: SocketAddr) -> io::Result<()> {
    let listener = listen(address)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let responses: Vec<Vec<u8>> = SAMPLES.iter().map(|sample| response(sample.size_bytes)).collect();
    // A client's descriptor is its place, so that nothing has to be looked up.
    let mut clients: Vec<Option<Client>> = Vec::new();
    loop {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_PER_TURN_MAX];
        let (events, _) = match epoll::wait(&epoll, &mut events, None) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        for event in events.iter() {
            match event.data.u64() {
                LISTENER => accept(&listener, &epoll, &mut clients)?,
                at => {
                    let place = &mut clients[at as usize];
                    if place.as_mut().is_some_and(|client| client.go_on(&responses).is_err()) {
                        *place = None;
                    }
                }
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn response(body_bytes: u64) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n").into_bytes();
    response.extend((0..body_bytes).map(|at| b'a' + (at % 26) as u8));
    response
}

fn accept(listener: &OwnedFd, epoll: &OwnedFd, clients: &mut Vec<Option<Client>>) -> io::Result<()> {
    loop {
        let socket = match acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, _)) => socket,
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let at = usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&socket)).expect("a descriptor is not negative");
        epoll::add(epoll, &socket, EventData::new_u64(at as u64), EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
        if clients.len() <= at {
            clients.resize_with(at + 1, || None);
        }
        clients[at] = Some(Client { socket, sending: None });
    }
}

impl Client {
    /// Sends what is left of the last response, or reads the next request and answers it. An error ends the connection.
    fn go_on(&mut self, responses: &[Vec<u8>]) -> io::Result<()> {
        if self.sending.is_none() {
            let mut buffer = [0; REQUEST_BYTES_MAX];
            let request = match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, bytes)) => &buffer[..bytes],
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.sending = Some((asked_for(request).ok_or(io::ErrorKind::InvalidData)?, 0));
        }
        while let Some((response, gone)) = &mut self.sending {
            match send(&self.socket, &responses[*response][*gone..], SendFlags::NOSIGNAL) {
                Ok(bytes) => *gone += bytes,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if *gone == responses[*response].len() {
                self.sending = None;
            }
        }
        Ok(())
    }
}

/// Which sample a request, which has arrived whole, is for.
fn asked_for(request: &[u8]) -> Option<usize> {
    let path = request.strip_prefix(b"GET /")?;
    SAMPLES.iter().position(|sample| path.starts_with(sample.name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::{KB, MB_10};
    use crate::bench::server::get;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    /// Ends with the process: the floor has no way to stop, as the bench kills it.
    #[test]
    fn answers_with_the_sample_again_and_again() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        std::thread::spawn(move || run(address).unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(e) => assert!(Instant::now() < deadline, "{e}"),
            }
        };
        for sample in [KB, MB_10, KB] {
            get(&mut stream, sample).unwrap();
        }
    }

    #[test]
    fn the_path_decides() {
        assert_eq!(asked_for(b"GET /1k.html HTTP/1.1\r\n\r\n"), Some(0));
        assert_eq!(asked_for(b"GET /10m.html HTTP/1.1\r\n\r\n"), Some(2));
        assert_eq!(asked_for(b"GET /other HTTP/1.1\r\n\r\n"), None);
    }
}
