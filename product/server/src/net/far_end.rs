//! Connections for tests, whose other end only takes bytes and returns bytes.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::SystemTime;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use units::Nanos;

use super::{Net, Sink, Source, Status, Stream};
use crate::poll::Ready;
use crate::udp::Udp;
use crate::upstream::Endpoint;

/// The other end of a connection.
pub trait FarEnd: Debug {
    /// Takes bytes like [`Sink::send`].
    fn take(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Returns bytes like [`Stream::receive`].
    fn give(&self, into: &mut [u8]) -> rustix::io::Result<usize>;
}

impl<T: FarEnd> Sink for T {
    fn send(&self, bytes: &[u8], _: bool) -> io::Result<usize> {
        self.take(bytes)
    }
    fn send_slices(&self, slices: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
        self.take(slices.first().map_or(&[], |first| first))
    }
    fn send_file(&self, _: &File, _: u64, _: usize) -> io::Result<usize> {
        unreachable!("all is in memory")
    }
    fn cork(&self, _: bool) {}
    fn finish(&self) {}
    fn reset(&self) {}
}

impl<T: FarEnd> Stream for T {
    fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        self.give(into)
    }
    fn acknowledge(&self) {}
    fn segments(&self) -> Option<(u32, bool)> {
        None
    }
    fn status(&self) -> Status {
        Status::default()
    }
    fn has_room(&self) -> bool {
        true
    }
    fn queued_below_bytes(&self) -> Option<u64> {
        None
    }
    fn set_priority(&self, _: u32) {}
}

/// A network for tests, which opens connections to upstreams and does nothing else.
pub struct Connecting<T> {
    /// The far ends of all connections, in the order in which they were opened.
    pub made: RefCell<Vec<T>>,
    /// The number of connections that were closed.
    pub closed: Cell<usize>,
    /// The number of reports of everything that was ready.
    pub reports: Cell<u64>,
    /// True if all connections are ready and have not been taken yet.
    pub is_left: Cell<bool>,
    make: Box<dyn Fn() -> T>,
}

impl<T> Connecting<T> {
    /// Creates a network whose connections lead to the far ends that `make` returns.
    pub fn to(make: impl Fn() -> T + 'static) -> Connecting<T> {
        let (made, closed, reports, is_left) = Default::default();
        Connecting { made, closed, reports, is_left, make: Box::new(make) }
    }
}

impl<T> Debug for Connecting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a network of a test")
    }
}

impl<T: FarEnd + Clone> Net for Connecting<T> {
    type Listener = ();
    type Tcp = T;
    type Udp = Udp;

    fn now(&self) -> Nanos {
        unreachable!("time is an argument")
    }
    fn date(&self) -> SystemTime {
        unreachable!("nobody asks")
    }
    fn add(&self, _: Source<'_, Self>, _: u64, _: EventFlags) -> io::Result<()> {
        Ok(())
    }
    fn modify(&self, _: Source<'_, Self>, _: u64, _: EventFlags) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, _: Source<'_, Self>) -> io::Result<()> {
        self.closed.set(self.closed.get() + 1);
        Ok(())
    }
    fn wait(&mut self, _: Option<Nanos>) -> io::Result<()> {
        unreachable!("the test goes on by itself")
    }
    fn left(&self) -> usize {
        0
    }
    fn is_left(&self, _: u64) -> bool {
        self.is_left.get()
    }
    fn reports(&self) -> u64 {
        self.reports.get()
    }
    fn take(&mut self) -> Option<Ready> {
        None
    }
    fn accept(&self, (): &()) -> Result<(T, Option<SocketAddr>), Errno> {
        unreachable!("nobody listens")
    }
    fn is_client_waiting<'a>(&self, _: impl Iterator<Item = &'a ()>) -> bool
    where
        Self: 'a,
    {
        false
    }
    fn refuse(&self, (): &()) {}
    fn connect(&self, _: &Endpoint) -> io::Result<T> {
        let far = (self.make)();
        self.made.borrow_mut().push(far.clone());
        Ok(far)
    }
}
