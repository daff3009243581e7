//! The link between two descriptors: what is read from one is written to the other when its time has come.
//!
//! Anything that gives one packet for a read will do: TUN devices in the lab, socket pairs in tests.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, write};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use serde::Serialize;
use units::Nanos;

use crate::{GroupCounts, Link, Way};

/// The largest packet that fits a device of 64 KB MTU.
const PACKET_BYTES_MAX: usize = 65_536;
/// Packets read from one side before what is due is let go.
const READS_MAX: usize = 32;
/// Latenesses above a minute are all alike.
const LATENESS_NS_MAX: u64 = 60_000_000_000;

/// What a link did while it stood.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Carried {
    pub groups: Vec<GroupCounts>,
    /// Packets of no group.
    pub strangers: u64,
    /// Packets that a device would not take.
    pub refused: u64,
    /// How much later than they were to packets left: a busy machine delays more than was asked.
    pub lateness_us_mean: f64,
    pub lateness_us_p99: f64,
    pub lateness_us_max: f64,
    pub cpu_seconds: f64,
}

/// The two ends, the timer, and what ends it all.
struct Carrier<'a> {
    server_side: BorrowedFd<'a>,
    client_side: BorrowedFd<'a>,
    link: Link,
    timer: OwnedFd,
    /// What the timer is set to.
    armed: Option<Nanos>,
    lateness: Histogram<u64>,
    refused: u64,
    buffer: Vec<u8>,
}

/// Carries packets both ways until `stop` can be read; the ends must not block.
pub fn carry(server_side: impl AsFd, client_side: impl AsFd, stop: impl AsFd, link: Link) -> io::Result<Carried> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let lateness = Histogram::new_with_max(LATENESS_NS_MAX, 2).map_err(io::Error::other)?;
    let mut carrier = Carrier {
        server_side: server_side.as_fd(),
        client_side: client_side.as_fd(),
        link,
        timer,
        armed: None,
        lateness,
        refused: 0,
        buffer: vec![0; PACKET_BYTES_MAX],
    };
    loop {
        carrier.release()?;
        carrier.arm()?;
        let [from_server, from_client, is_over] = carrier.wait(stop.as_fd())?;
        if is_over {
            return Ok(carrier.carried());
        }
        if from_server {
            carrier.take(Way::ToClient)?;
        }
        if from_client {
            carrier.take(Way::ToServer)?;
        }
    }
}

impl Carrier<'_> {
    /// Whether the server's side, the client's side and `stop` can be read, when one can or the timer fires.
    fn wait(&mut self, stop: BorrowedFd<'_>) -> io::Result<[bool; 3]> {
        let fd = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = [fd(self.server_side), fd(self.client_side), fd(stop), fd(self.timer.as_fd())];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok([false; 3]),
            Err(error) => return Err(error.into()),
        }
        let [server_side, client_side, stop, timer] = fds.map(|fd| !fd.revents().is_empty());
        if timer {
            // Reading it is what makes it quiet; how often it fired is of no interest.
            let _ = read(&self.timer, &mut [0u8; 8]);
            self.armed = None;
        }
        Ok([server_side, client_side, stop])
    }

    /// Takes what waits on one side, up to a bound.
    fn take(&mut self, way: Way) -> io::Result<()> {
        let from = match way {
            Way::ToClient => self.server_side,
            Way::ToServer => self.client_side,
        };
        for _ in 0..READS_MAX {
            match read(from, &mut self.buffer) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(count) => self.link.arrive(way, &self.buffer[..count], now()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Lets go what is due.
    fn release(&mut self) -> io::Result<()> {
        let Carrier { server_side, client_side, link, lateness, refused, .. } = self;
        let mut gone = Ok(());
        let mut at_now = now();
        while gone.is_ok()
            && link.release(at_now, |way, packet, at| {
                let to = match way {
                    Way::ToClient => &client_side,
                    Way::ToServer => &server_side,
                };
                lateness.saturating_record((at_now - at).0);
                match write(to, packet) {
                    Ok(_) => {}
                    // The device is gone.
                    Err(error @ (Errno::BADFD | Errno::PIPE | Errno::BADF)) => gone = Err(error.into()),
                    Err(_) => *refused += 1,
                }
            })
        {
            at_now = now();
        }
        gone
    }

    /// Sets the timer to the next departure, if it is not.
    fn arm(&mut self) -> io::Result<()> {
        let next = self.link.next_at();
        if next == self.armed {
            return Ok(());
        }
        // All zero disarms it; the monotonic clock is never there.
        let at = next.map_or(Nanos::ZERO, |at| at.max(Nanos(1)));
        let once = Itimerspec { it_interval: timespec(Nanos::ZERO), it_value: timespec(at) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.armed = next;
        Ok(())
    }

    fn carried(&self) -> Carried {
        let us = |ns: f64| (ns / 100.0).round() / 10.0;
        Carried {
            groups: self.link.counts(),
            strangers: self.link.strangers(),
            refused: self.refused,
            lateness_us_mean: us(self.lateness.mean()),
            lateness_us_p99: us(self.lateness.value_at_quantile(0.99) as f64),
            lateness_us_max: us(self.lateness.max() as f64),
            cpu_seconds: read_clock(ClockId::ProcessCPUTime).as_secs_f64(),
        }
    }
}

fn now() -> Nanos {
    read_clock(ClockId::Monotonic)
}

fn read_clock(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // These clocks never stand before their epoch.
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn timespec(at: Nanos) -> Timespec {
    Timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tcp_packet;
    use std::os::unix::net::UnixDatagram;

    const SERVER: [u8; 4] = [198, 18, 0, 1];
    const CLIENT: [u8; 4] = [198, 18, 16, 1];

    /// Sends packets through a link between socket pairs; gives what came out, when, and what was counted.
    fn carried(path: &str, count: u16) -> (Vec<(Vec<u8>, Nanos)>, Carried) {
        let pair = || UnixDatagram::pair().unwrap();
        let ((server, server_side), (client, client_side), (stopper, stop)) = (pair(), pair(), pair());
        server_side.set_nonblocking(true).unwrap();
        client_side.set_nonblocking(true).unwrap();
        let link = Link::new(vec![format!("a=198.18.16.0/24,{path}").parse().unwrap()], 1);
        std::thread::scope(|scope| {
            let carrier = scope.spawn(|| carry(&server_side, &client_side, &stop, link).unwrap());
            let mut got = vec![];
            for port in 0..count {
                let sent_at = now();
                server.send(&tcp_packet(SERVER, CLIENT, port, Way::ToClient, 1500)).unwrap();
                let mut buffer = [0; 2000];
                let received = client.recv(&mut buffer).unwrap();
                got.push((buffer[..received].to_vec(), now() - sent_at));
                client.send(&tcp_packet(SERVER, CLIENT, port, Way::ToServer, 60)).unwrap();
                assert_eq!(server.recv(&mut buffer).unwrap(), 60);
            }
            stopper.send(&[0]).unwrap();
            (got, carrier.join().unwrap())
        })
    }

    #[test]
    fn packets_come_out_whole_and_not_before_their_time() {
        let (got, counted) = carried("rtt=4ms", 20);
        for (port, (packet, took)) in (0..).zip(&got) {
            assert_eq!(*packet, tcp_packet(SERVER, CLIENT, port, Way::ToClient, 1500));
            assert!(*took >= Nanos::from_millis(2), "{took:?}");
        }
        assert_eq!((counted.groups[0].to_client.passed, counted.groups[0].to_server.passed), (20, 20));
        assert_eq!((counted.strangers, counted.refused), (0, 0));
        assert!(counted.lateness_us_max >= counted.lateness_us_p99 && counted.cpu_seconds > 0.0);
    }

    #[test]
    fn a_plain_path_needs_no_timer() {
        assert_eq!(carried("rtt=0ms", 3).0.len(), 3);
    }
}
