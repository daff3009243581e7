//! System calls refused, as by a container's filter, and threads killed in the middle of one: the server does without
//! if it can, and if a thread is lost the process ends and names it.
//!
//! A filter applies to the thread that sets it and to its children.

use std::collections::BTreeMap;
use std::process::Output;

use seccompiler::SeccompAction::{Allow, Errno, KillThread};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use crate::common::{Client, Server, Site, WRITE_PATHS, content, get, run_to_end, wait_until};

/// Runs `start` with this system call disabled.
fn without<T: Send>(
    call: libc::c_long,
    rules: Vec<SeccompRule>,
    instead: SeccompAction,
    start: impl FnOnce() -> T + Send,
) -> T {
    without_all(BTreeMap::from([(call, rules)]), instead, start)
}

/// Runs `start` with several system calls disabled.
fn without_all<T: Send>(
    rules: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    instead: SeccompAction,
    start: impl FnOnce() -> T + Send,
) -> T {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter: BpfProgram = SeccompFilter::new(rules, Allow, instead, arch).unwrap().try_into().unwrap();
    std::thread::scope(|scope| {
        let started = scope.spawn(move || {
            apply_filter(&filter).unwrap();
            start()
        });
        started.join().unwrap()
    })
}

fn run_without(call: libc::c_long, rules: Vec<SeccompRule>, errno: i32, path: &[&str]) -> (Output, String) {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let args = [&["serve", &dir, "--listen", "127.0.0.1:0"], path].concat();
    let output = without(call, rules, Errno(errno as u32), || run_to_end(&args));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    // Printed only for root.
    let said = said.split_inclusive('\n').filter(|line| !line.contains("running as root")).collect();
    (output, said)
}

/// `ipv6.disable=1`, and `RestrictAddressFamilies=AF_INET`: `:PORT` means the addresses that exist.
#[test]
fn without_ipv6_an_address_without_a_host_is_of_ipv4() {
    let site = Site::of_sizes(&[10]);
    let file = site.outside("weir.toml");
    let text = format!("[[listener]]\naddress = \":0\"\n[[site]]\nroot = {:?}\n", site.served());
    std::fs::write(&file, text).unwrap();
    let is_ipv6 = || {
        let family = libc::AF_INET6.unsigned_abs().into();
        let family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family).unwrap();
        vec![SeccompRule::new(vec![family]).unwrap()]
    };
    let refused = || Errno(libc::EAFNOSUPPORT.unsigned_abs());
    let by_flag = without(libc::SYS_socket, is_ipv6(), refused(), || Server::start_at(":0", &site, &[]));
    let by_file = without(libc::SYS_socket, is_ipv6(), refused(), || Server::run(&file));
    for server in [by_flag, by_file] {
        assert!(server.address.ip() == std::net::Ipv4Addr::UNSPECIFIED, "{}", server.address);
        let said = server.stdout().join("\n");
        assert!(said.contains("IPv4 only: this machine has no IPv6"), "{said}");
        let mut client = server.connect();
        client.send(get("/size-10"));
        assert!(client.response().body == content(10));
    }
}

/// Filters older than Linux 5.11 do not know `epoll_pwait2`.
#[test]
fn without_epoll_pwait2_it_serves_and_says_so_once() {
    let site = Site::of_sizes(&[10, 1_000_000]);
    for errno in [libc::ENOSYS, libc::EPERM] {
        for path in WRITE_PATHS {
            let start = || Server::start(&site, &[path, &["--workers", "3"]].concat());
            let server = without(libc::SYS_epoll_pwait2, vec![], Errno(errno as u32), start);
            for _ in 0..3 {
                let mut client = server.connect();
                client.send(get("/size-10") + &get("/size-1000000"));
                assert!(client.response().body == content(10) && client.response().body == content(1_000_000));
            }
            wait_until("it is told", || !server.stderr().is_empty());
            let said = server.stderr();
            assert!(said.len() == 1 && said[0].contains("epoll_pwait2 is refused"), "{said:?}");
            server.assert_alive();
        }
    }
}

/// System calls that `SystemCallFilter=` of packaging/systemd/weir.service refuses and a server might use: from the
/// sets privileged, resources, keyring, memlock, aio and ipc, and outside system-service.
const REFUSED_BY_THE_UNIT: [libc::c_long; 29] = [
    libc::SYS_bpf,
    libc::SYS_capset,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_chroot,
    libc::SYS_setuid,
    libc::SYS_setresuid,
    libc::SYS_setgroups,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_clock_settime,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_setpriority,
    libc::SYS_setrlimit,
    libc::SYS_keyctl,
    libc::SYS_mlock,
    libc::SYS_mlockall,
    libc::SYS_memfd_secret,
    libc::SYS_io_setup,
    libc::SYS_io_uring_setup,
    libc::SYS_shmget,
    libc::SYS_process_vm_readv,
    libc::SYS_mount,
    libc::SYS_ptrace,
    libc::SYS_perf_event_open,
];

#[test]
fn without_what_the_unit_refuses_it_serves() {
    let site = Site::of_sizes(&[10, 1_000_000]);
    for path in WRITE_PATHS {
        let rules = REFUSED_BY_THE_UNIT.map(|call| (call, vec![])).into();
        let start = || Server::start(&site, &[path, &["--workers", "2", "--access-log", "-"]].concat());
        let server = without_all(rules, Errno(libc::EPERM as u32), start);
        let mut client = server.connect();
        client.send(get("/size-10") + &get("/size-1000000"));
        assert!(client.response().body == content(10) && client.response().body == content(1_000_000));
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
        server.assert_alive();
    }
}

/// Earlier it printed "serving", without a thread to serve.
#[test]
fn a_thread_that_cannot_run_fails_the_start() {
    for (call, errno) in [(libc::SYS_epoll_pwait2, libc::EACCES), (libc::SYS_epoll_create1, libc::EPERM)] {
        for path in WRITE_PATHS {
            let (output, said) = run_without(call, vec![], errno, path);
            assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{path:?}: {said}");
            let error = std::io::Error::from_raw_os_error(errno).to_string();
            let error = error.split(" (os error").next().unwrap();
            assert!(said.starts_with(&format!("weir: cannot run thread weir-worker-0: {error};")), "{path:?}: {said}");
        }
    }
}

/// It can only wait for a while, which only an idle thread notices.
#[test]
fn a_thread_that_ends_ends_the_process() {
    const TIMEOUT: u8 = 3;
    for path in WRITE_PATHS {
        let no_timeout = SeccompCondition::new(TIMEOUT, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0).unwrap();
        let rules = vec![SeccompRule::new(vec![no_timeout]).unwrap()];
        let (output, said) = run_without(libc::SYS_epoll_pwait2, rules, libc::EIO, path);
        assert_eq!(output.status.code(), Some(1), "{path:?}: {said}");
        let lines: Vec<&str> = said.lines().collect();
        let is_said = lines.len() == 1 && lines[0].starts_with("weir: thread weir-w") && lines[0].contains(" ended: ");
        assert!(is_said, "{path:?}: {said}");
    }
}

/// It can no longer report anything; the missing turns are noticed.
#[test]
fn a_thread_that_is_killed_ends_the_process() {
    let site = Site::of_sizes(&[10]);
    const FLAGS: u8 = 3;
    // For a response, not for a query to the kernel.
    let flags = libc::MSG_NOSIGNAL as u64;
    let is_response = SeccompCondition::new(FLAGS, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, flags).unwrap();
    let to_client = vec![SeccompRule::new(vec![is_response]).unwrap()];
    // In a worker: `weir status` of another test makes the main thread accept without `SOCK_NONBLOCK`, and that thread
    // ends the process.
    let flags = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u64;
    let is_worker = SeccompCondition::new(FLAGS, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, flags).unwrap();
    let of_worker = vec![SeccompRule::new(vec![is_worker]).unwrap()];
    let cases = [(0, libc::SYS_accept4, of_worker), (2, libc::SYS_sendto, to_client)];
    std::thread::scope(|scope| {
        for (path, call, rules) in cases {
            let site = &site;
            scope.spawn(move || {
                let start = || Server::start(site, &[WRITE_PATHS[path], &["--workers", "1"]].concat());
                let server = without(call, rules, KillThread, start);
                let mut client = server.connect();
                client.try_send(get("/size-10"));
                assert_eq!(server.exit_status().code(), Some(1), "{:?}", server.stderr());
                wait_until("the reason", || !server.stderr().is_empty());
                let said = server.stderr();
                let expected = "weir: thread weir-worker-0 did not respond for 10 s";
                assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
                drop::<Client>(client);
            });
        }
    });
}
