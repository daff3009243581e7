//! Watches the kernel's reports of changes to interfaces, their queues and their filters, so that a process need not
//! poll them every few seconds.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Error;
use crate::netlink::{Socket, u32_at};
use crate::tc::{RTM_DELTCLASS, RTM_NEWTCLASS};

/// The numbers of the groups of reports: about interfaces, and about queueing disciplines, classes and filters.
const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_TC: u32 = 4;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;

/// A change that the kernel has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The interface was created, removed, renamed, set up or down, or its packet size changed.
    Link { interface: u32 },
    /// A class of the interface changed, for example its rate.
    Class { interface: u32 },
    /// A queueing discipline or a filter of the interface.
    Queue { interface: u32 },
    /// The kernel had no room for more reports, so anything may have changed.
    Unknown,
}

/// Receives the reports of the network namespace of the thread that opened it. Programs at TCX are not reported.
pub struct ChangeWatch {
    netlink: Socket,
}

impl ChangeWatch {
    pub fn open() -> Result<ChangeWatch, Error> {
        let opened = Socket::open_route_groups(&[RTNLGRP_LINK, RTNLGRP_TC]);
        let netlink = opened.map_err(|error| Error::kernel("watching the interfaces", error))?;
        Ok(ChangeWatch { netlink })
    }

    /// Waits until a report arrives, `other` becomes readable, or `until` has come.
    pub fn wait(&self, other: BorrowedFd<'_>, until: Instant) -> Result<(), Error> {
        let for_time = until.saturating_duration_since(Instant::now());
        let for_time = Timespec::try_from(for_time).expect("a wait of less than an age");
        let mut awaited = [PollFd::new(&self.netlink, PollFlags::IN), PollFd::from_borrowed_fd(other, PollFlags::IN)];
        match poll(&mut awaited, Some(&for_time)) {
            // A signal is no reason to wait on.
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::kernel("watching the interfaces", error.into())),
        }
    }

    /// Passes on the reports that have arrived.
    pub fn read(&mut self, mut each: impl FnMut(Changed)) -> Result<(), Error> {
        let read = self.netlink.reported(|kind, payload| each(changed(kind, payload)));
        if !read.map_err(|error| Error::kernel("watching the interfaces", error))? {
            each(Changed::Unknown);
        }
        Ok(())
    }
}

/// Returns the change that a report describes. The interface's number is at the same offset in `struct ifinfomsg` and
/// `struct tcmsg`.
fn changed(kind: u16, payload: &[u8]) -> Changed {
    let Some(interface) = u32_at(payload, 4) else { return Changed::Unknown };
    match kind {
        RTM_NEWLINK | RTM_DELLINK => Changed::Link { interface },
        RTM_NEWTCLASS | RTM_DELTCLASS => Changed::Class { interface },
        _ => Changed::Queue { interface },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interface;
    use crate::testing::{in_own_network, run};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn each_change_is_reported_with_its_interface() {
        in_own_network(|| {
            let mut watch = ChangeWatch::open().unwrap();
            let mut reported = || {
                let mut all = Vec::new();
                watch.read(|changed| all.push(changed)).unwrap();
                all
            };
            run("ip link add weir0 type veth peer name weir1");
            let interface = Interface::by_name("weir0").unwrap().index;
            assert!(reported().contains(&Changed::Link { interface }));
            assert_eq!(reported(), []);
            run("tc qdisc replace dev weir0 root handle 7: htb default 1");
            assert_eq!(reported(), [Changed::Queue { interface }]);
            run("tc class add dev weir0 parent 7: classid 7:1 htb rate 1mbit");
            assert_eq!(reported(), [Changed::Class { interface }]);
            run("tc qdisc add dev weir0 clsact");
            assert_eq!(reported(), [Changed::Queue { interface }]);
            run("ip link delete weir0");
            assert!(reported().contains(&Changed::Link { interface }));
        });
    }

    #[test]
    fn a_report_or_the_other_descriptor_ends_a_wait() {
        in_own_network(|| {
            let watch = ChangeWatch::open().unwrap();
            let (mut one, other) = std::os::unix::net::UnixStream::pair().unwrap();
            let far = Instant::now() + Duration::from_secs(3600);
            std::io::Write::write_all(&mut one, b"x").unwrap();
            watch.wait(other.as_fd(), far).unwrap();
            let (_one, quiet) = std::os::unix::net::UnixStream::pair().unwrap();
            watch.wait(quiet.as_fd(), Instant::now()).unwrap();
            run("ip link set lo up");
            watch.wait(quiet.as_fd(), far).unwrap();
        });
    }

    #[test]
    fn more_reports_than_fit_are_a_change_of_anything() {
        in_own_network(|| {
            let mut watch = ChangeWatch::open().unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&watch.netlink, 2048).unwrap();
            for _ in 0..8 {
                run("ip link set lo up");
                run("ip link set lo down");
            }
            let mut has_lost = false;
            watch.read(|changed| has_lost |= changed == Changed::Unknown).unwrap();
            assert!(has_lost);
        });
    }
}
