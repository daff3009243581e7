//! The client that the attack should not affect: one connection of HTTP/1.1 that requests a small file every 10 ms,
//! from its own address.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::server::SMALL;

const EVERY: Duration = Duration::from_millis(10);
/// A time longer than the server's watchdog needs. A request that waits this long counts as refused.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    answered: AtomicU64,
    refused: AtomicU64,
    longest: Mutex<Duration>,
    /// The start of the request that is still waiting.
    since: Mutex<Option<Instant>>,
}

pub struct Honest {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Honest {
    /// Starts a client that requests this path, a kilobyte.
    pub fn start(server: SocketAddr, path: &'static str) -> Honest {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = thread::spawn(move || ask(server, path, &of_thread));
        Honest { shared, thread: Some(thread) }
    }

    /// Returns the longest wait since the last call, including the wait of a request in flight.
    pub fn take_longest(&self) -> Duration {
        let waiting = lock(&self.shared.since).map_or(Duration::ZERO, |since| since.elapsed());
        std::mem::take(&mut *lock(&self.shared.longest)).max(waiting)
    }

    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // It does not panic.
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn ask(server: SocketAddr, path: &str, shared: &Shared) {
    let mut open: Option<TcpStream> = None;
    while !shared.is_over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        *lock(&shared.since) = Some(begin);
        let stream = open.take().map_or_else(|| connect(server), Ok);
        open = stream.and_then(|mut stream| get(&mut stream, path).map(|()| stream)).ok();
        *lock(&shared.since) = None;
        let counter = if open.is_some() { &shared.answered } else { &shared.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut longest = lock(&shared.longest);
        *longest = longest.max(begin.elapsed());
        drop(longest);
        thread::sleep(EVERY.saturating_sub(begin.elapsed()));
    }
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Performs a request; an error unless the answer is 200 and as long as the file.
fn get(stream: &mut TcpStream, path: &str) -> io::Result<()> {
    stream.write_all(format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let got = stream.read(&mut part)?;
        answer.extend_from_slice(&part[..got]);
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
        match head {
            Some(at) if answer.len() == at + 4 + SMALL.1 && answer.starts_with(b"HTTP/1.1 200 ") => return Ok(()),
            // A refusal may leave the connection open.
            Some(_) if !answer.starts_with(b"HTTP/1.1 200 ") => return Err(io::Error::other("refused")),
            _ if got == 0 || answer.len() > 4096 + SMALL.1 => return Err(io::Error::other("not the file")),
            _ => {}
        }
    }
}
