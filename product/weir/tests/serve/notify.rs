//! Messages to the service manager, as received on its socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::process::Signal;

use crate::common::{PATIENCE, Server, Site, weir_under};

/// The manager's end of the socket.
struct Manager(UnixDatagram);

impl Manager {
    fn at(address: &SocketAddr) -> Manager {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager(socket)
    }

    fn hear(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let count = self.0.recv(&mut bytes).expect("word of the server");
        std::str::from_utf8(&bytes[..count]).unwrap().lines().map(Into::into).collect()
    }

    fn is_silent(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        self.0.recv(&mut [0; 16]).is_err()
    }
}

fn start(site: &Site, variables: &[(&str, &str)]) -> Server {
    let mut command = weir_under(&[]);
    command.arg("serve").arg(site.served()).args(["--listen", "127.0.0.1:0", "--shutdown-timeout", "2s"]);
    Server::spawn({
        command.envs(variables.iter().copied());
        command
    })
}

/// For a path, and for an abstract name.
#[test]
fn it_says_when_it_is_ready_reloads_and_stops() {
    let site = Site::with(&[("a", b"hello")]);
    let path = site.outside("notify").display().to_string();
    let name = format!("weir-test-{}", std::process::id());
    let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
    for (address, named) in [(SocketAddr::from_pathname(&path).unwrap(), path), (abstract_address, format!("@{name}"))]
    {
        let manager = Manager::at(&address);
        let server = start(&site, &[("NOTIFY_SOCKET", &named)]);
        let ready = manager.hear();
        let status = format!("STATUS=serving {} at http://{}/", site.served().display(), server.address);
        assert_eq!(ready, ["READY=1".to_string(), status.clone()]);
        assert_eq!(server.connect().get("/a").text(), "hello");

        server.signal(Signal::HUP);
        let reloading = manager.hear();
        let since: u64 = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!(reloading[0] == "RELOADING=1" && since > 0, "{reloading:?}");
        assert_eq!(manager.hear(), ["READY=1".to_string(), status]);

        server.signal(Signal::TERM);
        assert_eq!(manager.hear(), ["STOPPING=1", "STATUS=finishing responses", "EXTEND_TIMEOUT_USEC=7000000"]);
        assert_eq!(server.exit_status().code(), Some(0));
        assert!(manager.is_silent(), "there is no watchdog");
        // A separate thread reads the line.
        crate::common::wait_until("the line about it", || !server.stderr().is_empty());
        assert_eq!(server.stderr(), ["weir: configuration read again: 1 site is in force"]);
    }
}

/// At half of its interval; while the process is stopped nothing is sent.
#[test]
fn a_watchdog_is_fed() {
    let site = Site::new();
    let path = site.outside("notify").display().to_string();
    let manager = Manager::at(&SocketAddr::from_pathname(&path).unwrap());
    let server = start(&site, &[("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", "200000")]);
    // On a busy machine the threads feed it before the server is ready.
    while manager.hear()[0] != "READY=1" {}
    (0..3).for_each(|_| assert_eq!(manager.hear(), ["WATCHDOG=1"]));
    server.freeze();
    manager.0.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    while manager.0.recv(&mut [0; 64]).is_ok() {}
    manager.0.set_read_timeout(Some(PATIENCE)).unwrap();
    server.signal(Signal::CONT);
    assert_eq!(manager.hear(), ["WATCHDOG=1"]);
}

/// Serving does not depend on it; a stale name is reported.
#[test]
fn a_manager_that_is_not_there_is_told_and_does_without() {
    let site = Site::with(&[("a", b"hello")]);
    for (named, reason) in
        [("/nowhere/notify", "No such file"), ("nonsense", "expected a path"), ("@none-of-that-name", "")]
    {
        let server = start(&site, &[("NOTIFY_SOCKET", named)]);
        assert_eq!(server.connect().get("/a").text(), "hello");
        crate::common::wait_until("a line about it", || !server.stderr().is_empty());
        let said = server.stderr();
        let begins = "weir: cannot notify the service manager: NOTIFY_SOCKET: ";
        assert!(said.len() == 1 && said[0].starts_with(begins) && said[0].contains(reason), "{said:?}");
    }
}
