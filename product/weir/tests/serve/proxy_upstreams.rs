//! The choice of an upstream, the number of its requests, and the fields about the client that it receives.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::common::{Asked, Cable, Client, PATIENCE, Server, Site, Upstream, answer, get, ip, wait_until, weir_under};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Starts a server in front of these upstreams, with these keys of the proxy and of the file.
fn proxy(to: &[SocketAddr], keys: &str) -> Server {
    let site = Site::new();
    let to: Vec<String> = to.iter().map(|address| format!("\"{address}\"")).collect();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [{}]\n{keys}\n",
        to.join(", ")
    );
    site.write("weir.toml", text.as_bytes());
    Server::run(&site.path("weir.toml"))
}

/// An upstream with a health check at `/healthz`; `/gate` is answered when the gate opens.
struct Checked {
    upstream: Upstream,
    is_well: Arc<AtomicBool>,
    gate: Arc<Mutex<()>>,
}

impl Checked {
    fn start() -> Checked {
        let (is_well, gate) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(())));
        let (well, opened) = (Arc::clone(&is_well), Arc::clone(&gate));
        let upstream = Upstream::start(move |asked, socket| {
            if asked.path() == "/gate" {
                drop(opened.lock());
            }
            let is_fine = asked.path() != "/healthz" || well.load(Ordering::SeqCst);
            answer(socket, &[if is_fine { OK } else { b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" }])
        });
        Checked { upstream, is_well, gate }
    }

    fn requests(&self) -> usize {
        self.upstream.asked().iter().filter(|asked| asked.path() != "/healthz").count()
    }

    /// Sets its health, and waits until the server knows.
    fn turn(&self, server: &Server, is_well: bool) {
        self.is_well.store(is_well, Ordering::SeqCst);
        let what = if is_well { "is up again" } else { "is down: status 500" };
        let line = format!("weir: upstream {} {what}", self.upstream.address);
        let before = server.stderr().iter().filter(|said| **said == line).count();
        wait_until(&line, || server.stderr().iter().filter(|said| **said == line).count() > before);
    }
}

const HEALTH: &str = "health_uri = \"/healthz\"\nhealth_interval = \"1s\"";

#[test]
fn an_upstream_that_is_down_is_asked_for_nothing_until_it_is_up() {
    let alone = Checked::start();
    let server = proxy(&[alone.upstream.address], HEALTH);
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/").status, 200);
        alone.turn(&server, false);
        let before = alone.requests();
        assert_eq!(client.get("/").status, 503);
        assert_eq!(alone.requests(), before);
        alone.turn(&server, true);
    }
    assert_eq!(client.get("/").status, 200);
    server.assert_alive();
}

/// Upstreams with the same load take turns. One that has returned has a tenth of its share at first.
#[test]
fn others_have_the_requests_of_one_that_is_down_and_most_of_them_when_it_is_back() {
    let (first, second) = (Checked::start(), Checked::start());
    let to = [first.upstream.address, second.upstream.address];
    let server = proxy(&to, &format!("{HEALTH}\nslow_start = \"10h\"\n[server]\nworkers = 1"));
    let mut client = server.connect();
    let mut ask = |first_has: usize, second_has: usize| {
        let before = (first.requests(), second.requests());
        (0..10).for_each(|_| assert_eq!(client.get("/").status, 200));
        assert_eq!((first.requests() - before.0, second.requests() - before.1), (first_has, second_has));
    };
    ask(5, 5);
    first.turn(&server, false);
    ask(0, 10);
    first.turn(&server, true);
    ask(0, 10);
    // If the other has nine, it gets one.
    let (before, gates) = (first.requests(), [first.gate.lock().unwrap(), second.gate.lock().unwrap()]);
    let mut waiting: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send(get("/gate")));
    wait_until("one for the first", || first.requests() == before + 1);
    drop(gates);
    waiting.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    server.assert_alive();
}

/// No byte of a request has been sent to upstreams that refuse the connection, so each of the others is tried.
#[test]
fn one_of_five_that_is_there_answers() {
    let upstream = Upstream::start(|_, socket| answer(socket, &[OK]));
    let dead = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let to: Vec<SocketAddr> = dead.iter().map(|dead| dead.local_addr().unwrap()).chain([upstream.address]).collect();
    drop(dead);
    for keys in ["[server]\nworkers = 1", "[uplink]\nshaping = \"off\""] {
        let server = proxy(&to, keys);
        let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        server.assert_alive();
    }
}

/// A published port of a container whose program is away accepts connections and closes them. Because it is the
/// upstream with the fewest requests, it would otherwise get most of them.
#[test]
fn an_upstream_that_closes_without_a_response_is_avoided() {
    let upstream = Upstream::start(|_, socket| answer(socket, &[OK]));
    let away = Upstream::start(|_, _| false);
    let server = proxy(&[away.address, upstream.address], "[server]\nworkers = 1");
    let mut client = server.connect();
    (0..10).for_each(|_| assert_eq!(client.get("/").status, 200));
    assert_eq!((away.asked().len(), upstream.asked().len()), (1, 10));
    server.assert_alive();
}

/// An upstream may have done what a POST asks for before it closed the connection.
#[test]
fn a_post_that_may_have_been_processed_is_sent_once() {
    let upstream = Upstream::start(|_, socket| answer(socket, &[OK]));
    let away = Upstream::start(|_, _| false);
    let server = proxy(&[away.address, upstream.address], "[server]\nworkers = 1");
    let statuses = [(); 4].map(|()| {
        let mut client = server.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        client.response().status
    });
    assert_eq!(statuses, [502, 200, 200, 200]);
    assert_eq!((away.asked().len(), upstream.asked().len()), (1, 3));
    server.assert_alive();
}

/// The number of event loops makes no difference: the kernel distributes clients among them.
#[test]
fn all_event_loops_together_have_so_many_requests_under_way() {
    const AT_ONCE: usize = 3;
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, max) = (Arc::clone(&under_way), Arc::clone(&most));
    let upstream = Upstream::start(move |_, socket| {
        max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(1));
        now.fetch_sub(1, Ordering::SeqCst);
        answer(socket, &[OK])
    });
    let server = proxy(
        &[upstream.address],
        &format!(
            "max_concurrent_requests = {AT_ONCE}\nmax_concurrent_requests_per_client = {AT_ONCE}\n[server]\nworkers = 4\n[uplink]\nshaping = \"off\""
        ),
    );
    let together = Barrier::new(32);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut client = server.connect();
                together.wait();
                (0..20).for_each(|_| assert_eq!(client.get("/").text(), "ok"));
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    server.assert_alive();
}

/// Answers each connection with the bytes before its requests.
fn telling() -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, headers) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&headers);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, seen) = (socket.unwrap(), Arc::clone(&seen));
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            std::thread::spawn(move || {
                let header = header(&mut socket)?;
                seen.lock().unwrap().push(header);
                let (mut head, mut byte) = (Vec::new(), [0]);
                while socket.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        socket.write_all(OK).ok()?;
                    }
                }
                Some(())
            });
        }
    });
    (address, headers)
}

/// The signature of the PROXY protocol, version 2.
fn header(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut header = vec![0; 16];
    socket.read_exact(&mut header).ok()?;
    let bytes = usize::from(u16::from_be_bytes([header[14], header[15]]));
    header.resize(16 + bytes, 0);
    socket.read_exact(&mut header[16..]).ok()?;
    Some(header)
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

#[test]
fn an_upstream_is_told_the_client_before_the_first_byte() {
    let (address, headers) = telling();
    let server = proxy(&[address], "proxy_protocol = true");
    for last in [2, 3, 2] {
        let mut client = Client::connect_from(&format!("127.0.0.{last}:0"), server.address);
        (0..2).for_each(|_| assert_eq!(client.get("/").text(), "ok"));
    }
    let headers = headers.lock().unwrap().clone();
    assert_eq!(headers.len(), 3, "a connection is one client's: {headers:?}");
    for (header, last) in headers.iter().zip([2, 3, 2]) {
        let (signature, rest) = header.split_at(12);
        // PROXY, TCP over IPv4, 12 bytes: addresses and ports.
        assert_eq!((signature, &rest[..4]), (SIGNATURE, &[0x21, 0x11, 0, 12][..]));
        assert_eq!(rest[4..8], Ipv4Addr::new(127, 0, 0, last).octets());
        assert_ne!(rest[12..14], [0, 0], "the client's port");
    }
    server.assert_alive();
}

#[test]
fn a_health_check_is_of_nobody() {
    let (address, headers) = telling();
    let server = proxy(&[address], &format!("proxy_protocol = true\n{HEALTH}"));
    wait_until("a check", || !headers.lock().unwrap().is_empty());
    let header = headers.lock().unwrap()[0].clone();
    assert_eq!((&header[..12], &header[12..14]), (SIGNATURE, &[0x20, 0][..]), "LOCAL");
    server.assert_alive();
}

#[test]
fn an_upstream_listens_on_ipv6() {
    let say = |asked: &Asked, socket: &mut TcpStream| {
        let said = asked.field("Host").unwrap_or("none");
        answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()).as_bytes()])
    };
    let upstream = Upstream::start_at("[::1]:0", say);
    let server = proxy(&[upstream.address], HEALTH);
    assert_eq!(server.connect().get("/").text(), "a");
    let checks = || upstream.asked().into_iter().filter(|asked| asked.path() == "/healthz").collect::<Vec<_>>();
    wait_until("a check", || !checks().is_empty());
    assert_eq!(checks()[0].field("Host"), Some(upstream.address.to_string().as_str()));
    assert_eq!(server.stderr(), [""; 0]);
}

/// A container that is made anew has another address. Its requests once had 502 until the next lookup, for up to 10 s.
#[test]
fn a_name_that_has_moved_is_looked_up_when_its_old_address_is_refused() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: it needs root");
        return println!("SKIPPED: a file in place of /etc/hosts needs root");
    }
    let upstream = Upstream::start_at("127.0.0.3:0", |_, socket| answer(socket, &[OK]));
    let site = Site::new();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"moved.test:{}\"]\n",
        upstream.address.port()
    );
    site.write("weir.toml", text.as_bytes());
    site.write("hosts", b"127.0.0.2 moved.test\n");
    let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
    let hosts = site.path("hosts").display().to_string();
    let mut command = weir_under(&["unshare", "--mount", "sh", "-c", script, "sh", &hosts]);
    command.arg("run").arg(site.path("weir.toml"));
    let server = Server::spawn(command);
    assert_eq!(server.connect().get("/").status, 502);
    site.write("hosts", b"127.0.0.3 moved.test\n");
    // A name is looked up once a second at most, and every ten seconds at least.
    std::thread::sleep(Duration::from_millis(1100));
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.response().status, 200);
    wait_until("the line", || server.stderr().iter().any(|line| line.contains("is at 127.0.0.3 now")));
}

/// Link-local addresses of IPv6 were refused: they need the interface, on whose link they are.
#[test]
fn a_link_local_address_has_its_interface() {
    let Some(cable) = Cable::lay() else { return };
    let echo = |asked: &Asked, socket: &mut TcpStream| {
        let host = asked.field("Host").unwrap_or_default();
        answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{host}", host.len()).as_bytes()])
    };
    let (server, upstream) = cable.at_server(|| {
        ip("addr add fe80::60:1/64 dev uplink nodad");
        let zoned = config::zoned("fe80::60:1%uplink").expect("an address with its interface");
        let address = config::in_zone(zoned, 0).expect("the interface").to_string();
        let upstream = Upstream::start_at(&address, echo);
        let site = Site::new();
        let text = format!(
            "[[listener]]\naddress = \"[fe80::60:1%uplink]:0\"\n[[site]]\n[[site.proxy]]\nto = [\"[fe80::60:1%uplink]:{}\"]\n",
            upstream.address.port()
        );
        site.write("weir.toml", text.as_bytes());
        (Server::run(&site.path("weir.toml")), upstream)
    });
    let mut client = cable.at_server(|| server.connect());
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().text(), format!("[fe80::60:1]:{}", upstream.address.port()), "without the zone");
}
