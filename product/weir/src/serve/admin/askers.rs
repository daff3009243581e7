//! The clients of the admin listener: their requests as they arrive, and their answers as they read them.
//!
//! No read and no write waits: the main thread also handles signals and commands, and a client may read as slowly as it
//! likes. So the rest of an answer is kept, with a deadline that progress does not extend.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

/// The maximum number of clients. The oldest one is dropped to make room for another.
const ASKERS_MAX: usize = 64;
/// The time within which a client must send its request.
const REQUEST_MAX: Duration = Duration::from_secs(2);
/// The time within which a client must read its answer: Prometheus gives up after this time.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Maximum size of the head of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// The maximum total size of kept answers. The oldest are dropped to make room; the newest is kept whatever its size.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The clients, oldest first.
#[derive(Default)]
pub struct Askers {
    all: Vec<Asker>,
}

struct Asker {
    stream: TcpStream,
    state: State,
    until: Instant,
}

enum State {
    /// The part of the request that has arrived.
    Asking(Vec<u8>),
    /// An answer, and the number of its bytes that have been written.
    Answered(Vec<u8>, usize),
}

impl Askers {
    /// Adds a client that has just connected.
    pub fn add(&mut self, stream: TcpStream, now: Instant) {
        if self.all.len() >= ASKERS_MAX {
            self.all.remove(0);
        }
        if stream.set_nonblocking(true).is_ok() {
            self.all.push(Asker { stream, state: State::Asking(Vec::new()), until: now + REQUEST_MAX });
        }
    }

    /// Reads what has arrived, answers each complete request with `answer`, and writes as much as the clients accept
    /// immediately.
    pub fn go_on(&mut self, now: Instant, mut answer: impl FnMut(&[u8]) -> Vec<u8>) {
        // An error means that the client has gone or sends no request.
        self.all.retain_mut(|asker| asker.go_on(now, &mut answer).unwrap_or(false));
        let mut kept_bytes = 0;
        for at in (0..self.all.len()).rev() {
            let bytes = self.all[at].kept_bytes();
            kept_bytes += bytes;
            if kept_bytes > KEPT_BYTES_MAX && kept_bytes > bytes && bytes > 0 {
                kept_bytes -= bytes;
                self.all.remove(at);
            }
        }
    }

    /// Drops the clients whose time is up.
    pub fn forget_late(&mut self, now: Instant) {
        self.all.retain(|asker| now < asker.until);
    }

    /// The next time at which a client's time is up.
    pub fn due(&self) -> Option<Instant> {
        self.all.iter().map(|asker| asker.until).min()
    }

    /// The events that the clients wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.all.iter().map(|asker| match asker.state {
            State::Asking(_) => PollFd::new(&asker.stream, PollFlags::IN),
            State::Answered(..) => PollFd::new(&asker.stream, PollFlags::OUT),
        })
    }
}

impl Asker {
    /// Advances one client. Returns whether the client still has something to send or receive.
    fn go_on(&mut self, now: Instant, answer: &mut impl FnMut(&[u8]) -> Vec<u8>) -> std::io::Result<bool> {
        if let State::Asking(head) = &mut self.state {
            if !read(&mut self.stream, head)? {
                return Ok(true);
            }
            self.state = State::Answered(answer(head), 0);
            self.until = now + ANSWER_MAX;
        }
        let State::Answered(bytes, written) = &mut self.state else { return Ok(true) };
        while *written < bytes.len() {
            match self.stream.write(&bytes[*written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => *written += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn kept_bytes(&self) -> usize {
        match &self.state {
            State::Asking(_) => 0,
            State::Answered(bytes, _) => bytes.len(),
        }
    }
}

/// Reads the bytes of a head that have arrived. Returns whether the head is complete.
fn read(stream: &mut TcpStream, head: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut part = [0; 1024];
    while head.len() <= REQUEST_BYTES_MAX {
        match stream.read(&mut part) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => head.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(true);
        }
    }
    Err(ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::event::poll;

    use super::*;

    /// A size beyond the buffers of two sockets of loopback.
    const HUGE: usize = KEPT_BYTES_MAX / 2 - 1;

    /// A client that has sent a request and read nothing.
    fn asked(askers: &mut Askers, now: Instant) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        askers.add(listener.accept().unwrap().0, now);
        poll(&mut [PollFd::new(&askers.all.last().unwrap().stream, PollFlags::IN)], None).unwrap();
        client
    }

    /// Each of six slow readers held the main thread for as long as it read, so that SIGTERM had to wait.
    #[test]
    fn slow_readers_are_not_waited_for_and_their_time_is_not_prolonged() {
        let (mut askers, begin) = (Askers::default(), Instant::now());
        let mut clients = [(); 2].map(|()| asked(&mut askers, begin));
        askers.go_on(begin, |_| vec![7; HUGE]);
        assert_eq!(askers.all.len(), 2, "both have a part, and neither was waited for");
        let due = askers.due();
        let mut part = vec![0; 1 << 20];
        clients[0].read_exact(&mut part).unwrap();
        askers.go_on(begin + ANSWER_MAX / 2, |_| panic!("answered before"));
        assert_eq!((due, askers.due()), (Some(begin + ANSWER_MAX), due));
        askers.forget_late(begin + ANSWER_MAX);
        assert!(askers.all.is_empty() && askers.due().is_none());
    }

    #[test]
    fn a_slow_reader_gets_every_byte() {
        let (mut askers, begin) = (Askers::default(), Instant::now());
        let mut client = asked(&mut askers, begin);
        let whole: Vec<u8> = (0..HUGE).map(|at| (at % 251) as u8).collect();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            client.read_to_end(&mut got).map(|_| got)
        });
        while !askers.all.is_empty() {
            poll(&mut askers.descriptors().collect::<Vec<_>>(), None).unwrap();
            askers.go_on(begin, |request| {
                assert_eq!(request, b"GET / HTTP/1.1\r\n\r\n");
                whole.clone()
            });
        }
        assert!(reader.join().unwrap().unwrap() == whole);
    }

    #[test]
    fn the_oldest_make_room_for_clients_and_for_bytes() {
        let (mut askers, begin) = (Askers::default(), Instant::now());
        let clients = [(); 3].map(|()| asked(&mut askers, begin));
        askers.go_on(begin, |_| vec![7; HUGE]);
        assert_eq!(askers.all.len(), 2, "three are too large together");
        assert_eq!(askers.all[0].stream.peer_addr().unwrap(), clients[1].local_addr().unwrap());
        let one = asked(&mut askers, begin);
        askers.go_on(begin, |_| vec![7; KEPT_BYTES_MAX + 1]);
        assert_eq!(askers.all.len(), 1, "the newest, whatever its size");
        assert_eq!(askers.all[0].stream.peer_addr().unwrap(), one.local_addr().unwrap());
        let many: Vec<TcpStream> = (0..=ASKERS_MAX).map(|_| asked(&mut askers, begin)).collect();
        assert_eq!(askers.all.len(), ASKERS_MAX);
        assert_eq!(askers.all[0].stream.peer_addr().unwrap(), many[1].local_addr().unwrap());
    }
}
