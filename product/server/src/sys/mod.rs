//! System calls that no safe crate wraps. This is the server's only module with `unsafe`.
#![allow(unsafe_code)]

#[cfg(test)]
pub mod counting;

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;

/// Makes the kernel hold back a new connection until its first bytes arrive, or for this many seconds. That saves a
/// read that finds nothing, a registration with epoll, and a wake-up per connection.
pub fn set_defer_accept(listener: impl AsFd, seconds: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `seconds`, which lives through the call and is only read; the
    // descriptor is borrowed, so it is open.
    let status = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel deliver each QUIC datagram to one of `count` sockets of this port, by the first byte of its
/// connection ID modulo `count` (`quic::Steering`). A datagram that is too short for an ID goes to any of them. Needs
/// no privilege.
pub fn steer_by_connection_id(socket: impl AsFd, count: usize) -> io::Result<()> {
    let line = |code: u32, jump_true, jump_false, value: u32| libc::sock_filter {
        code: u16::try_from(code).expect("codes are two bytes"),
        jt: jump_true,
        jf: jump_false,
        k: value,
    };
    let load = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    // The header's form (RFC 8999 section 5): a long header continues with the version and the ID's length, a short one
    // with the ID.
    let mut program = [
        line(load, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 2, 0x80),
        line(load, 0, 0, 6),
        line(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
        line(load, 0, 0, 1),
        line(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, u32::try_from(count).unwrap_or(u32::MAX).max(1)),
        line(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the pointer and the length describe `filter`, whose own pointer and length describe `program`; both live through the call, in
    // which the kernel copies them. The descriptor is borrowed, so it is open.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel deliver each datagram as it arrived, rather than several of one sender in one piece (UDP_GRO).
pub fn receive_one_by_one(socket: impl AsFd) -> io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the pointer and the length describe `off`, which lives through the call and is only read; the descriptor is borrowed, so it is
    // open.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A ready descriptor, as the kernel writes it.
pub type EpollEvent = libc::epoll_event;

/// Calls `take` with the token and the flags of as many ready descriptors as `events` has room for, without waiting.
pub fn epoll_take(
    epoll: impl AsFd,
    events: &mut [EpollEvent],
    mut take: impl FnMut(u64, u32),
) -> Result<(), rustix::io::Errno> {
    let room = libc::c_int::try_from(events.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel writes at most `room` events, which `events` has room for and outlives the call; the descriptor is
    // borrowed, so it is open.
    let ready = unsafe { libc::epoll_wait(epoll.as_fd().as_raw_fd(), events.as_mut_ptr(), room, 0) };
    let Ok(ready) = usize::try_from(ready) else {
        return Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO));
    };
    for event in &events[..ready] {
        take(event.u64, event.events);
    }
    Ok(())
}

/// Takes the descriptors from `first` on with which this process was started, and sets close-on-exec. An entry is an
/// error if its descriptor is not open. Only the first call returns descriptors, so that each has one owner.
pub fn take_passed(first: i32, count: usize) -> Vec<io::Result<OwnedFd>> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    let count = if ARE_TAKEN.swap(true, Ordering::AcqRel) { 0 } else { count };
    let take = |raw: i32| {
        // SAFETY: only queries by number whether the descriptor is open.
        if unsafe { libc::fcntl(raw, libc::F_GETFD) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is open, the service manager opened it for this process, and it is taken once.
        let owned = unsafe { OwnedFd::from_raw_fd(raw) };
        rustix::io::fcntl_setfd(&owned, FdFlags::CLOEXEC)?;
        Ok(owned)
    };
    (first..).take(count).map(take).collect()
}

/// The kernel's `struct sched_attr` in its first form (sched_setattr(2)).
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Sets the nice value of the calling thread (sched(7)). A value below 0 needs CAP_SYS_NICE or a suitable RLIMIT_NICE,
/// and threads and processes that the thread starts begin at 0 again.
pub fn set_thread_nice(nice: i32) -> io::Result<()> {
    const RESET_ON_FORK: u64 = 1;
    let attributes = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: RESET_ON_FORK,
        nice,
        priority: 0,
        runtime_ns: 0,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: the pointer is to `attributes`, whose first field is its size; it lives through the call and is only read. 0 is the calling
    // thread.
    let status = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns free memory held by the allocator to the kernel.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and the allocator has locks of its own.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_accepted_with_its_first_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_defer_accept(&listener, 5).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        client.write_all(b"x").unwrap();
        listener.set_nonblocking(false).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn a_thread_s_nice_value_is_its_own() {
        fn nice() -> String {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().to_string()
        }
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: a nice value below 0 is for root");
            return;
        }
        let favoured = std::thread::spawn(|| {
            set_thread_nice(-3).unwrap();
            (nice(), std::thread::spawn(nice).join().unwrap())
        });
        // A child process does not inherit it.
        assert_eq!(favoured.join().unwrap(), ("-3".into(), "0".into()));
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        assert!(set_defer_accept(std::fs::File::open("/dev/null").unwrap(), 1).is_err());
    }
}
