//! Sockets passed by a service manager: they are served in addition to others, and clients wait in them from one server
//! to the next.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::Signal;
use socket2::SockRef;

use crate::common::{Client, Server, Site, WEIR, WRITE_PATHS, content, get};
use crate::upgrades::upgrade;
use crate::{common::wait_until, http3::Asking};

/// A descriptor above those that the shell uses.
const HIGH: i32 = 100;

/// The sockets as a manager passes them: from 3 on, to the process that it starts. They are kept open, as by a manager.
struct Passed(Vec<OwnedFd>);

impl Passed {
    fn new(sockets: &[OwnedFd]) -> Passed {
        let high = sockets.iter().map(|socket| {
            let socket = fcntl_dupfd_cloexec(socket, HIGH).unwrap();
            fcntl_setfd(&socket, FdFlags::empty()).unwrap();
            socket
        });
        Passed(high.collect())
    }

    fn command(&self, names: &str, args: &[&str]) -> Command {
        let moves: Vec<String> =
            self.0.iter().zip(3..).map(|(socket, fd)| format!("{fd}<&{}", socket.as_raw_fd())).collect();
        let count = self.0.len();
        let script = format!(
            "exec {}; LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names} exec \"$0\" \"$@\"",
            moves.join(" ")
        );
        // Other shells support only descriptors of one digit.
        let mut command = Command::new("bash");
        command.args(["-c", &script, WEIR]).args(args);
        command
    }
}

fn listening(address: &str) -> (OwnedFd, SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

#[test]
fn passed_sockets_are_served_by_all_event_loops() {
    let site = Site::of_sizes(&[10, 300_000]);
    let dir = site.served().display().to_string();
    for path in WRITE_PATHS {
        let [(one, first), (other, second)] = [listening("127.0.0.1:0"), listening("127.0.0.1:0")];
        let passed = Passed::new(&[one, other]);
        let server = Server::spawn(passed.command("web:", &[&["serve", &*dir, "--workers", "4"], path].concat()));
        let said = server.stdout()[0].clone();
        let expected = format!("; passed by the service manager: {first} (web), {second}; bound: none");
        assert!(
            said.contains(&format!(" at http://{first}/, http://{second}/ (")) && said.contains(&expected),
            "{said}"
        );
        let mut clients: Vec<Client> = (0..40).map(|nth| Client::connect([first, second][nth % 2])).collect();
        clients.iter_mut().for_each(|client| client.send(get("/size-300000") + &get("/size-10")));
        for client in &mut clients {
            assert!(client.response().body == content(300_000) && client.response().body == content(10));
        }
        for socket in &passed.0 {
            // The same as on sockets that the server binds: accepted sockets inherit the options.
            let socket = SockRef::from(socket);
            assert!(socket.tcp_nodelay().unwrap() && socket.nonblocking().unwrap());
            assert!(!socket.tcp_quickack().unwrap());
            assert_eq!(socket.tcp_notsent_lowat().unwrap() == 2 * 1460 + 1, path.contains(&"paced"));
        }
        server.assert_alive();
    }
}

/// Passed addresses are not bound again; the other addresses are bound.
#[test]
fn a_listener_that_was_not_passed_is_bound() {
    let site = Site::with(&[("a", b"hello")]);
    let dir = site.served().display().to_string();
    let (socket, address) = listening("127.0.0.1:0");
    let passed = Passed::new(&[socket]);
    let same = address.to_string();
    let server = Server::spawn(passed.command("", &["serve", &dir, "--listen", &same]));
    assert!(server.stdout()[0].contains(&format!("passed by the service manager: {same}; bound: none")));
    drop(server);
    let server = Server::spawn(passed.command("", &["serve", &dir, "--listen", "127.0.0.1:0"]));
    let said = server.stdout()[0].clone();
    let bound: SocketAddr = said.split("http://").nth(2).unwrap().split('/').next().unwrap().parse().unwrap();
    for address in [address, bound] {
        assert_eq!(Client::connect(address).get("/a").text(), "hello");
    }
}

/// Earlier a missing name was an empty record, which reads as the end, and the next process got no socket.
#[test]
fn a_socket_without_a_name_goes_to_the_next_process() {
    let site = Site::with(&[("a", b"hello")]);
    let dir = site.served().display().to_string();
    let (socket, address) = listening("127.0.0.1:0");
    let passed = Passed::new(&[socket]);
    let server = Server::spawn(passed.command("", &["serve", &dir]));
    let next = upgrade(server.pid());
    assert_eq!(server.exit_status().code(), Some(0));
    assert_eq!(Client::connect(address).get("/a").text(), "hello");
    drop(next);
}

/// A file without a listener uses the passed sockets; one with another listener binds that too.
#[test]
fn a_configuration_is_served_on_passed_sockets() {
    let site = Site::with(&[("a", b"hello")]);
    let file = site.outside("weir.toml");
    let text = format!("[[site]]\nroot = \"{}\"\n", site.served().display());
    for (listener, is_alone) in [("", true), ("[[listener]]\naddress = \"127.0.0.1:0\"\n", false)] {
        std::fs::write(&file, format!("{listener}{text}")).unwrap();
        let (socket, address) = listening("127.0.0.1:0");
        let passed = Passed::new(&[socket]);
        let server = Server::spawn(passed.command("", &["run", &file.display().to_string()]));
        let said = server.stdout()[0].clone();
        assert!(said.contains(&format!("; passed by the service manager: {address}; bound: ")), "{said}");
        assert_eq!(said.contains("; bound: none"), is_alone, "{said}");
        assert_eq!(Client::connect(address).get("/a").text(), "hello");
    }
}

/// The socket outlives the server: a client that arrives between two servers is answered by the next.
#[test]
fn clients_wait_from_one_server_to_the_next() {
    let site = Site::with(&[("a", b"hello")]);
    let dir = site.served().display().to_string();
    let (socket, address) = listening("127.0.0.1:0");
    let passed = Passed::new(&[socket]);
    for path in WRITE_PATHS {
        let args = [&["serve", &*dir, "--workers", "3"], path].concat();
        let server = Server::spawn(passed.command("web", &args));
        assert_eq!(Client::connect(address).get("/a").text(), "hello");
        server.signal(Signal::TERM);
        assert_eq!(server.exit_status().code(), Some(0), "{:?}", server.stderr());
        let mut between = Client::connect(address);
        between.send(get("/a"));
        let _next = Server::spawn(passed.command("web", &args));
        assert_eq!(between.response().text(), "hello");
    }
}

#[test]
fn what_does_not_listen_is_named() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let (right, _) = listening("127.0.0.1:0");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let path = site.outside("socket");
    let listening_unix = std::os::unix::net::UnixListener::bind(path).unwrap();
    for (wrong, said) in [
        (OwnedFd::from(udp), "passed socket fd 4 (dns) is a datagram socket of 127.0.0.1:"),
        (unix.into(), "passed socket fd 4 (dns) is not an internet socket"),
        (listening_unix.into(), "passed socket fd 4 (dns) is not an internet socket"),
    ] {
        let passed = Passed::new(&[right.try_clone().unwrap(), wrong]);
        let output = passed.command("web:dns", &["serve", &dir]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{told}");
        assert!(told.contains(said) && told.contains("expected a listening TCP socket"), "{told}");
    }
    for (count, said) in [
        ("LISTEN_FDS=2", "passed socket fd 3 is not open; expected 2 descriptors"),
        ("LISTEN_FDS=many", "LISTEN_FDS `many`: expected a number of sockets from 0 to 64"),
        ("LISTEN_FDS=65", "LISTEN_FDS `65`"),
    ] {
        let script = format!("LISTEN_PID=$$ {count} exec \"$0\" serve \"$1\"");
        let output = Command::new("sh").args(["-c", &script, WEIR, &dir]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && told.contains(said), "{told}");
    }
}

/// For any number of event loops: nothing distributes clients among loops that would share the socket.
#[test]
fn a_datagram_socket_beside_a_listening_one_has_http3() {
    let site = Site::of_sizes(&[10, 300_000]);
    let dir = site.served().display().to_string();
    for path in WRITE_PATHS {
        let (tcp, address) = listening("127.0.0.1:0");
        let udp = UdpSocket::bind(address).expect("a port that is free for UDP too");
        // In any order.
        let passed = Passed::new(&[udp.into(), tcp]);
        let args = [&["serve", &*dir, "--workers", "4", "--tls-self-signed"], path].concat();
        for _ in 0..2 {
            let server = Server::spawn(passed.command("web:web", &args));
            let said = server.stdout()[0].clone();
            assert!(said.contains(&format!("passed by the service manager: {address} (web); bound: none")), "{said}");
            assert!(said.contains(&format!("; HTTP/3 over UDP at {address}")), "{said}");
            for _ in 0..4 {
                let mut asking = Asking::to(&server);
                assert_eq!(asking.get("/size-300000").body, content(300_000));
            }
            server.signal(Signal::TERM);
            assert_eq!(server.exit_status().code(), Some(0), "{:?}", server.stderr());
        }
    }
}

#[test]
fn without_a_passed_datagram_socket_one_is_bound_or_missed_aloud() {
    let site = Site::of_sizes(&[10]);
    let dir = site.served().display().to_string();
    let (tcp, address) = listening("127.0.0.1:0");
    let passed = Passed::new(&[tcp]);
    let start = || Server::spawn(passed.command("https", &["serve", &dir, "--workers", "2", "--tls-self-signed"]));
    let server = start();
    assert_eq!(Asking::to(&server).get("/size-10").body, content(10));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_status().code(), Some(0), "{:?}", server.stderr());
    let _other = UdpSocket::bind(address).unwrap();
    let server = start();
    assert!(!server.stdout()[0].contains("HTTP/3 over UDP"), "{:?}", server.stdout());
    let missed = format!("HTTP/3 is off at {address}: UDP: ");
    wait_until("line", || {
        server.stderr().iter().any(|line| line.contains(&missed) && line.contains("ListenDatagram="))
    });
}

/// It would stay open, and its clients would wait in vain.
#[test]
fn a_passed_datagram_socket_that_nobody_reads_is_named() {
    let site = Site::of_sizes(&[10]);
    let dir = site.served().display().to_string();
    let (tcp, address) = listening("127.0.0.1:0");
    let udp = UdpSocket::bind(address).expect("a port that is free for UDP too");
    let passed = Passed::new(&[tcp, udp.into()]);
    for (args, why) in [(&[][..], "do not use TLS"), (&["--tls-self-signed", "--no-http3"], "HTTP/3 is turned off")] {
        let server = Server::spawn(passed.command("web:web", &[&["serve", &*dir], args].concat()));
        let unread = format!("UDP socket {address}, passed by the service manager, is not read: ");
        wait_until("line", || server.stderr().iter().any(|line| line.contains(&unread) && line.contains(why)));
    }
}

#[test]
fn a_second_datagram_socket_is_named() {
    let site = Site::new();
    let (tcp, address) = listening("127.0.0.1:0");
    let udp = OwnedFd::from(UdpSocket::bind(address).unwrap());
    let passed = Passed::new(&[tcp, udp.try_clone().unwrap(), udp]);
    let output = passed.command("", &["serve", &site.served().display().to_string()]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("passed socket fd 5 is a second datagram socket of {address}")), "{told}");
    assert_eq!(output.status.code(), Some(1));
}

/// The sockets were meant for the process that started this one.
#[test]
fn sockets_of_another_process_are_left_alone() {
    let site = Site::new();
    let mut command = Command::new(WEIR);
    command.args(["serve", &site.served().display().to_string(), "--listen", "127.0.0.1:0"]);
    command.envs([("LISTEN_PID", "1"), ("LISTEN_FDS", "3")]);
    let server = Server::spawn(command);
    assert!(!server.stdout()[0].contains("passed"), "{:?}", server.stdout());
}
