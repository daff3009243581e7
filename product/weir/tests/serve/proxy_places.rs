//! The places of an upstream: clients share them, requests without a body yet and tunnels hold none, and clients that
//! have gone leave.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use crate::common::{Asked, Client, Server, Site, Upstream, answer, get, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const SWITCHED: &[u8] = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
const UPGRADE: &str = "Host: a\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n";

fn proxy(upstream: &Upstream, keys: &str) -> Server {
    let site = Site::new();
    let text = format!(
        "[server]\naccess_log = \"-\"\nlog_format = \"json\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n\
         [[site.proxy]]\nto = [\"{}\"]\n{keys}\n",
        upstream.address
    );
    site.write("weir.toml", text.as_bytes());
    Server::run(&site.path("weir.toml"))
}

/// Waits until the error log contains this text.
fn says(server: &Server, text: &str) {
    wait_until(text, || server.stderr().iter().any(|line| line.contains(text)));
}

/// A client with another address than those at 127.0.0.1.
fn other(server: &Server) -> Client {
    Client::connect_from("127.0.0.2:0", server.address)
}

/// Answers `/held` when the gate opens, and records the connections that end before.
struct Gated {
    upstream: Upstream,
    gate: Arc<Mutex<()>>,
    cut: Arc<AtomicUsize>,
}

impl Gated {
    fn start() -> Gated {
        let (gate, cut) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let (opened, ended) = (Arc::clone(&gate), Arc::clone(&cut));
        let upstream = Upstream::start(move |asked, socket| match asked.path() {
            "/held" => {
                drop(opened.lock());
                answer(socket, &[OK])
            }
            "/never" => {
                let is_over = !matches!(socket.read(&mut [0]), Ok(1..));
                ended.fetch_add(usize::from(is_over), Ordering::SeqCst);
                false
            }
            "/begun" => {
                socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun").unwrap();
                let is_over = !matches!(socket.read(&mut [0]), Ok(1..));
                ended.fetch_add(usize::from(is_over), Ordering::SeqCst);
                false
            }
            _ => answer(socket, &[OK]),
        });
        Gated { upstream, gate, cut }
    }

    fn count(&self, path: &str) -> usize {
        self.upstream.asked().iter().filter(|asked| asked.path() == path).count()
    }
}

fn lines(server: &Server) -> Vec<serde_json::Value> {
    let lines = server.stdout();
    lines.iter().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The statuses and outcomes in the first lines of the log, once it has this number of lines.
fn logged(server: &Server, count: usize) -> Vec<(u64, String)> {
    wait_until("the lines", || lines(server).len() >= count);
    let of = |line: &serde_json::Value| (line["status"].as_u64().unwrap(), line["outcome"].as_str().unwrap().into());
    lines(server).iter().map(of).collect()
}

/// Earlier four requests of one client were enough to make another wait.
#[test]
fn a_client_has_half_of_the_places_and_others_the_rest() {
    let gated = Gated::start();
    let server = proxy(&gated.upstream, "max_concurrent_requests = 4");
    let shut = gated.gate.lock().unwrap();
    let mut greedy: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    greedy.iter_mut().for_each(|client| client.send(get("/held")));
    wait_until("its half", || gated.count("/held") == 2);
    (0..3).for_each(|_| assert_eq!(other(&server).get("/").text(), "ok"));
    assert_eq!(gated.count("/held"), 2, "one client has no more");
    drop(shut);
    greedy.iter_mut().for_each(|client| assert_eq!(client.response().text(), "ok"));
    server.assert_alive();
}

#[test]
fn an_operator_gives_a_client_all_places() {
    let gated = Gated::start();
    let server = proxy(&gated.upstream, "max_concurrent_requests = 3\nmax_concurrent_requests_per_client = 3");
    let shut = gated.gate.lock().unwrap();
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(get("/held")));
    wait_until("all places", || gated.count("/held") == 3);
    drop(shut);
    clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "ok"));
}

/// Earlier a body that arrived byte by byte held the only place.
#[test]
fn a_request_whose_body_has_not_come_holds_no_place() {
    let upstream = Upstream::start(|asked, socket| {
        let body = asked.body(socket);
        answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body])
    });
    let server = proxy(&upstream, "max_concurrent_requests = 1");
    let mut slow = server.connect();
    slow.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    let mut chunked = server.connect();
    chunked.send("POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    assert_eq!(server.connect().get("/").status, 200);
    assert!(upstream.asked().iter().all(|asked| asked.path() == "/"), "nothing of the others was passed on");
    slow.send("there");
    assert_eq!(slow.response().text(), "hellothere");
    chunked.send("5\r\nagain\r\n0\r\n\r\n");
    assert_eq!(chunked.response().text(), "helloagain");
    let mut large = server.connect();
    large.send("POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    large.send([b'x'; 70_000]);
    wait_until("its beginning is passed on", || upstream.asked().iter().any(|asked| asked.path() == "/large"));
    large.send([b'x'; 130_000]);
    assert_eq!(large.response().body.len(), 200_000);
}

#[test]
fn a_body_is_passed_on_as_it_comes_where_that_is_wished() {
    let upstream = Upstream::start(|_, socket| {
        let mut first = [0; 5];
        socket.read_exact(&mut first).unwrap();
        answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", &first])
    });
    let server = proxy(&upstream, "request_buffering = false");
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    assert_eq!(client.response().text(), "hello", "answered before the rest");
}

/// After a change of protocol, returns what it receives in capitals until its client has finished; then sends one word
/// more.
fn shouting() -> Upstream {
    Upstream::start(|asked: &Asked, socket: &mut TcpStream| {
        let body = asked.body(socket);
        if asked.field("Upgrade") != Some("tcp") {
            return answer(socket, &[OK]);
        }
        socket.write_all(SWITCHED).unwrap();
        socket.write_all(&body).unwrap();
        let mut heard = [0; 100];
        while let Ok(bytes @ 1..) = socket.read(&mut heard) {
            socket.write_all(&heard[..bytes].to_ascii_uppercase()).unwrap();
        }
        socket.write_all(b"bye").unwrap();
        false
    })
}

/// An upgrade by POST, as by `docker exec` and `kubectl exec`, which was not supported earlier.
#[test]
fn any_method_changes_the_protocol_behind_any_body() {
    let upstream = shouting();
    let server = proxy(&upstream, "max_concurrent_requests = 1\ntunnels = 16");
    let asks = [
        format!("POST / HTTP/1.1\r\n{UPGRADE}Content-Length: 5\r\n\r\nhello"),
        format!("POST / HTTP/1.1\r\n{UPGRADE}Content-Length: 0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{UPGRADE}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        format!("PUT / HTTP/1.1\r\n{UPGRADE}\r\n"),
        format!("GET / HTTP/1.1\r\n{UPGRADE}\r\n"),
    ];
    let mut open = Vec::new();
    for ask in asks {
        let mut client = server.connect();
        client.send(&ask);
        assert_eq!(client.head().0, 101, "{ask}");
        if ask.contains("hello") {
            assert_eq!(client.body(5), b"hello");
        }
        client.send("ls -l\n");
        assert_eq!(client.body(6), b"LS -L\n", "{ask}");
        open.push(client);
    }
    assert_eq!(other(&server).get("/").text(), "ok", "five tunnels hold none of the requests, which are one");
    for mut client in open {
        client.finish();
        assert_eq!(client.rest(), b"bye", "a client that has said its last still hears");
    }
    server.assert_alive();
}

#[test]
fn tunnels_have_a_bound_and_a_client_half_of_it() {
    let upstream = shouting();
    let server = proxy(&upstream, "tunnels = 2");
    let open = |mut client: Client| {
        client.send(format!("GET / HTTP/1.1\r\n{UPGRADE}\r\n"));
        (client.head().0, client)
    };
    let first = open(server.connect());
    assert_eq!((first.0, open(server.connect()).0), (101, 503));
    let second = open(other(&server));
    assert_eq!((second.0, open(other(&server)).0), (101, 503));
    drop(first);
    wait_until("its place is free", || open(server.connect()).0 == 101);
    says(&server, "it has too many tunnels, of all clients or of this one");
}

/// A change of protocol before the end of the request could be read in two ways.
#[test]
fn a_change_of_protocol_before_the_request_is_whole_is_refused() {
    let upstream = Upstream::start(|_, socket| {
        socket.write_all(SWITCHED).unwrap();
        false
    });
    let server = proxy(&upstream, "request_buffering = false");
    let mut client = server.connect();
    client.send(format!("POST / HTTP/1.1\r\n{UPGRADE}Content-Length: 10\r\n\r\nhello"));
    assert_eq!(client.head().0, 502);
}

/// Earlier the requests of a client that had left waited and ran as if it were there.
#[test]
fn a_client_that_shuts_its_side_leaves_the_queue_and_its_upstream() {
    let gated = Gated::start();
    let server = proxy(&gated.upstream, "max_concurrent_requests = 2");
    let mut first = server.connect();
    first.send(get("/never"));
    wait_until("its place", || gated.count("/never") == 1);
    let mut gone: Vec<Client> = (0..9).map(|_| server.connect()).collect();
    gone.iter_mut().for_each(|client| client.send(get("/never")));
    // The requests that wait come first; a client that stayed would get the place of the other.
    gone.iter().for_each(Client::finish);
    assert_eq!(logged(&server, 9), vec![(499, "aborted".to_string()); 9]);
    first.finish();
    wait_until("its request is cancelled", || gated.cut.load(Ordering::SeqCst) == 1);
    assert_eq!(logged(&server, 10), vec![(499, "aborted".to_string()); 10]);
    assert_eq!(gated.count("/never"), 1, "those that waited are not asked");
    assert_eq!(server.connect().get("/").text(), "ok");
    let mut begun = server.connect();
    begun.send(get("/begun"));
    assert_eq!(begun.head().0, 200);
    begun.finish();
    wait_until("its response is cancelled", || gated.cut.load(Ordering::SeqCst) == 2);
    assert_eq!(logged(&server, 12)[11], (200, "aborted".to_string()));
    let mut reset = server.connect();
    reset.send(get("/never"));
    wait_until("its place", || gated.count("/never") == 2);
    reset.reset();
    wait_until("it is cancelled", || gated.cut.load(Ordering::SeqCst) == 3);
    assert_eq!(logged(&server, 13)[12], (499, "aborted".to_string()));
}

#[test]
fn a_client_that_shuts_its_side_and_reads_has_its_response_where_the_site_says_so() {
    let gated = Gated::start();
    let server = proxy(&gated.upstream, "ignore_client_abort = true");
    let shut = gated.gate.lock().unwrap();
    let mut client = server.connect();
    client.send(get("/held"));
    client.finish();
    wait_until("it is asked", || gated.count("/held") == 1);
    drop(shut);
    assert_eq!(client.response().text(), "ok");
    client.assert_end();
    let mut reset = server.connect();
    reset.send(get("/never"));
    wait_until("it is asked", || gated.count("/never") == 1);
    reset.reset();
    wait_until("it is cancelled", || gated.cut.load(Ordering::SeqCst) == 1);
}

/// `printf 'GET …' | nc -N`: responses without an upstream are sent to such a client.
#[test]
fn a_file_is_sent_to_a_client_that_has_shut_its_side() {
    let site = Site::of_sizes(&[3_000_000]);
    let server = Server::start(&site, &[]);
    let mut client = server.connect();
    client.send("GET /size-3000000 HTTP/1.0\r\nHost: a\r\n\r\n");
    client.finish();
    assert_eq!(client.head().0, 200);
    assert_eq!(client.rest().len(), 3_000_000);
}

/// Earlier the mail of one user was shown to all.
#[test]
fn a_connection_that_a_client_has_logged_in_serves_no_other() {
    let users: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let upstream = Upstream::start(move |asked, socket| {
        let mut users = users.lock().unwrap();
        let token = asked.field("Authorization").and_then(|value| value.split_once(' ')).map(|(_, token)| token);
        if let Some(user) = token.and_then(|token| token.strip_prefix("type3-")) {
            users.push((asked.connection, user.to_string()));
        }
        let user = users.iter().rev().find(|(of, _)| *of == asked.connection).map(|(_, user)| user.clone());
        match (user, token) {
            (Some(user), _) => {
                answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{user}", user.len()).as_bytes()])
            }
            (None, _) => {
                let asks = "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=a\r\nWWW-Authenticate: Negotiate\r\n";
                answer(socket, &[asks.as_bytes(), b"Content-Length: 0\r\n\r\n"])
            }
        }
    });
    let server = proxy(&upstream, "");
    let ask = |client: &mut Client, more: &str| {
        client.send(format!("GET /mail HTTP/1.1\r\nHost: a\r\n{more}\r\n"));
        let response = client.response();
        (response.status, response.text().to_string())
    };
    let (mut anna, mut bert) = (server.connect(), server.connect());
    assert_eq!(ask(&mut anna, "").0, 401);
    assert_eq!(ask(&mut anna, "Authorization: Negotiate type1\r\n").0, 401);
    let of_anna = (200, "anna".to_string());
    assert_eq!(ask(&mut anna, "Authorization: negotiate type3-anna\r\n"), of_anna);
    assert_eq!([ask(&mut bert, "").0, ask(&mut server.connect(), "").0], [401; 2], "others are asked who they are");
    assert_eq!(ask(&mut anna, ""), of_anna, "it is still its own");
    assert_eq!(ask(&mut bert, "Authorization: NTLM type3-bert\r\n"), (200, "bert".to_string()));
    assert_eq!(ask(&mut anna, ""), of_anna);
    drop(anna);
    wait_until("anna has gone", || lines(&server).len() >= 8);
    (0..4).for_each(|_| assert_eq!(ask(&mut server.connect(), "").0, 401, "its connection ends with it"));
    server.assert_alive();
}

/// Earlier a name that did not resolve stopped the start of all sites.
#[test]
fn a_name_without_an_address_is_a_502_of_its_own_site() {
    let site = Site::with(&[("a", b"hello")]);
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"files.test\"]\ndefault = true\nroot = \"{}\"\n\
         [[site]]\nhosts = [\"app.test\"]\n[[site.proxy]]\nto = [\"not-started.invalid:3000\"]\n",
        site.served().display()
    );
    site.write("weir.toml", text.as_bytes());
    let server = Server::run(&site.path("weir.toml"));
    let mut client = server.connect();
    assert_eq!(client.get("/a").text(), "hello");
    client.send("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert_eq!(client.response().status, 502);
    says(&server, "cannot find upstream not-started.invalid:3000: ");
    says(&server, "no response from upstream not-started.invalid:3000: its name has no address");
}

/// Many clients at one small upstream, some of which leave: all that stay are answered.
#[test]
fn many_clients_share_one_place() {
    let upstream = Upstream::start(|_, socket| answer(socket, &[OK]));
    let server = proxy(&upstream, "max_concurrent_requests = 1");
    let together = Barrier::new(16);
    std::thread::scope(|scope| {
        for number in 0..16_u8 {
            let (server, together) = (&server, &together);
            scope.spawn(move || {
                together.wait();
                for _ in 0..10 {
                    let mut client = Client::connect_from(&format!("127.0.0.{}:0", 1 + number % 5), server.address);
                    client.send(get("/"));
                    if number % 4 == 3 {
                        client.finish();
                    } else {
                        assert_eq!(client.response().text(), "ok");
                    }
                }
            });
        }
    });
    server.assert_alive();
}
