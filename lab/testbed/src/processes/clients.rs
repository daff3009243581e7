//! Closed clients: each sends its next request as soon as it has its response, on a new connection, as WebStone's do.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

/// The time after which a client without a response gives up, so that no measurement hangs.
const GIVE_UP_AFTER: Duration = Duration::from_secs(90);

/// The requests of one class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// The times from the connection to the last byte. An unfinished request counts with the time that it had waited.
    pub times: Vec<Duration>,
    pub finished: u64,
    pub failed: u64,
}

impl Answers {
    pub fn mean_ms(&self) -> f64 {
        let sum: Duration = self.times.iter().sum();
        sum.as_secs_f64() * 1000.0 / self.times.len().max(1) as f64
    }

    fn add(&mut self, other: Answers) {
        self.times.extend(other.times);
        self.finished += other.finished;
        self.failed += other.failed;
    }
}

/// The period in which requests count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub from: Instant,
    pub to: Instant,
}

/// Runs this many clients for each path until the window ends. Then calls `on_end` and abandons open requests.
pub(super) fn ask(
    address: SocketAddr,
    paths: &[(&str, usize)],
    window: Window,
    processor: Option<usize>,
    on_end: &AtomicBool,
) -> Vec<Answers> {
    std::thread::scope(|scope| {
        let of_path = |(path, clients): &(&str, usize)| {
            let path = path.to_string();
            let start = || {
                let path = path.clone();
                scope.spawn(move || client(address, &path, window, processor))
            };
            (0..*clients).map(|_| start()).collect::<Vec<_>>()
        };
        let running: Vec<_> = paths.iter().map(of_path).collect();
        std::thread::sleep(window.to.saturating_duration_since(Instant::now()));
        on_end.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for clients in running {
            let mut answers = Answers::default();
            clients.into_iter().for_each(|client| answers.add(client.join().unwrap_or_default()));
            all.push(answers);
        }
        all
    })
}

fn client(address: SocketAddr, path: &str, window: Window, processor: Option<usize>) -> Answers {
    if let Some(processor) = processor {
        let mut only = CpuSet::new();
        only.set(processor);
        let _ = sched_setaffinity(None, &only);
    }
    let mut answers = Answers::default();
    while Instant::now() < window.to {
        let began = Instant::now();
        let outcome = request(address, path);
        let ended = Instant::now();
        if ended < window.from {
            continue;
        }
        answers.times.push(ended.min(window.to) - began.min(window.to));
        match outcome {
            _ if ended > window.to => {}
            Ok(()) => answers.finished += 1,
            Err(_) => answers.failed += 1,
        }
    }
    answers
}

fn request(address: SocketAddr, path: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(GIVE_UP_AFTER))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut bytes = [0; 16 << 10];
    let mut status = Vec::new();
    loop {
        match stream.read(&mut bytes)? {
            0 if status.starts_with(b"HTTP/1.1 200 ") => return Ok(()),
            0 => return Err(io::ErrorKind::InvalidData.into()),
            count if status.len() < 16 => status.extend_from_slice(&bytes[..count.min(16)]),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finished_counts_with_the_time_it_waited() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = AtomicBool::new(false);
        let now = Instant::now();
        let window = Window { from: now, to: now + Duration::from_millis(50) };
        let answers = std::thread::scope(|scope| {
            // No client has a response before the end.
            let server = scope.spawn(|| {
                let accepted: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
                while !over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                for mut stream in accepted {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                }
            });
            let answers = ask(address, &[("/a", 2)], window, None, &over);
            server.join().unwrap();
            answers
        });
        assert_eq!((answers[0].finished, answers[0].failed, answers[0].times.len()), (0, 0, 2));
        assert!(answers[0].mean_ms() <= 50.0 && answers[0].mean_ms() > 0.0);
    }
}
