//! `weir top`, and the responses in flight.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::common::{
    Client, PATIENCE, Server, Site, Upstream, WEIR, answer, content, get, run_to_end, wait_until, weir_under,
};
use crate::http3::{Asking, LARGE, SLOW};
use crate::upgrades::{file, free_port, upgrade};

/// A size beyond the buffers of two sockets.
const HUGE: usize = 16 << 20;

fn told(server: &Server) -> Value {
    let output = run_to_end(&["status", "--json", "--pid", &server.pid().to_string()]);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The responses that are listed individually.
fn rows(server: &Server) -> Vec<Value> {
    told(server)["under_way"]["responses"].as_array().unwrap().clone()
}

fn left(server: &Server) -> Option<u64> {
    rows(server).first()?["left_bytes"].as_u64()
}

/// Waits until the condition is true of the first response, and returns it.
fn row(server: &Server, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, || rows(server).first().is_some_and(&is_so));
    rows(server).remove(0)
}

fn top(server: &Server) -> String {
    let output = run_to_end(&["top", "--pid", &server.pid().to_string()]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_download_is_listed_with_what_is_left_until_it_is_sent() {
    let site = Site::of_sizes(&[HUGE]);
    for uplink in [["--uplink", "off"], ["--uplink", "80mbit"]] {
        let server = Server::start(&site, &uplink);
        assert_eq!(told(&server)["under_way"]["count"], 0);
        let mut client = Client::connect_narrow(server.address);
        client.send(get("/size-16777216"));
        client.head();
        let row = row(&server, "the download", |row| row["sent_bytes"].as_u64() > Some(0));
        let size = row["size_bytes"].as_u64().unwrap();
        assert!(size > HUGE as u64 && size < HUGE as u64 + 1000, "its head too: {row}");
        assert_eq!(
            (&row["protocol"], &row["client"], &row["class"]),
            (&"HTTP/1.1".into(), &"127.0.0.1".into(), &"".into())
        );
        let before = left(&server).unwrap();
        let first = client.body(HUGE / 2);
        wait_until("less to be left", || left(&server).is_some_and(|left| left < before));
        assert!([first, client.body(HUGE / 2)].concat() == content(HUGE));
        wait_until("its end", || told(&server)["under_way"]["count"] == 0);
    }
}

#[test]
fn a_client_that_stopped_reading_is_named_and_no_byte_of_its_request_moves_a_cursor() {
    let site = Site::of_sizes(&[HUGE]);
    let log = site.outside("log");
    let server = Server::start(&site, &["--uplink", "80mbit", "--access-log", &log.display().to_string()]);
    let mut client = Client::connect_narrow(server.address);
    client.send(get("/size-16777216?<b>\"%1B[2J"));
    client.wait_for_first_byte();
    let row = row(&server, "it to wait for its client", |row| row["waits_for"] == "client");
    assert_eq!(row["request"], "GET /size-16777216?<b>\"%1B[2J");
    assert_eq!((&told(&server)["under_way"]["waiting"]["client"], &row["site"]), (&1.into(), &"".into()));
    let said = top(&server);
    assert!(said.contains("responses in progress: 1, waiting 1 for their clients\n"), "{said}");
    let line = said.lines().find(|line| line.contains("its client")).unwrap();
    assert!(line.contains("16.8 MB") && line.contains("127.0.0.1") && line.ends_with("%1B[2J"), "{said}");
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
    // Its sent bytes are recorded once a second.
    wait_until("its client to be told", || told(&server)["clients"][0]["bytes_lately"].as_u64() > Some(0));
    let clients = &told(&server)["clients"][0];
    assert_eq!(
        (&clients["client"], &clients["under_way"], &clients["connections"]),
        (&"127.0.0.1".into(), &1.into(), &1.into())
    );
    // A name that could move the cursor is not a valid request, or is a path that is displayed escaped.
    for (hostile, status) in [("\x1b[2J", 400), ("\u{9b}2J", 400), ("\u{202e}", 404)] {
        let mut other = server.connect();
        other.send(get(&format!("/{hostile}")));
        assert_eq!(other.response().status, status, "{hostile:?}");
    }
    wait_until("three lines", || fs::read_to_string(&log).is_ok_and(|lines| lines.lines().count() == 3));
    let lines = fs::read(&log).unwrap();
    assert!(lines.iter().all(|&byte| matches!(byte, b' '..=b'~' | b'\n')), "{}", lines.escape_ascii());
}

/// A frame of HTTP/2 (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = &(payload.len() as u32).to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn a_stream_whose_window_is_shut_waits_for_its_client() {
    let site = Site::of_sizes(&[HUGE]);
    let server = Server::start(&site, &["--uplink", "80mbit"]);
    let mut client = TcpStream::connect(server.address).unwrap();
    let path = b"/size-16777216";
    // GET, http, and the path and authority as literals (RFC 7541 section 6.2.2).
    let fields = [&[0x82, 0x86, 0x04, path.len() as u8], &path[..], &[0x01, 1, b'a']].concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    client.write_all(&[&preface[..], &frame(4, 0, 0, b""), &frame(1, 5, 1, &fields)].concat()).unwrap();
    let row = row(&server, "its window to be shut", |row| row["waits_for"] == "client");
    // RFC 9113 section 6.9.2.
    assert!(row["sent_bytes"].as_u64().is_some_and(|sent| (65_535..70_000).contains(&sent)), "{row}");
    assert_eq!(row["protocol"], "HTTP/2.0");
    drop(client);
    wait_until("its end", || told(&server)["under_way"]["count"] == 0);
}

#[test]
fn a_response_over_http3_is_told_of() {
    let site = Site::of_sizes(&[LARGE]);
    let server = Server::start(&site, &SLOW);
    let mut client = Asking::to(&server);
    client.begin_large();
    let row = row(&server, "the response", |row| row["sent_bytes"].as_u64() > Some(0));
    assert_eq!((&row["protocol"], &row["client"]), (&"HTTP/3.0".into(), &"127.0.0.1".into()));
    assert!(row["size_bytes"].as_u64() > Some(LARGE as u64) && row["left_bytes"].as_u64() > Some(0), "{row}");
}

#[test]
fn a_response_of_an_upstream_has_a_size_when_one_is_known() {
    let upstream = Upstream::start(|asked, socket| {
        match asked.path() {
            "/begun" => answer(socket, &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]),
            "/sized" => answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nhello"]),
            _ => true,
        };
        // Until the client has left.
        let _ = socket.read(&mut [0]);
        false
    });
    for uplink in ["off", "80mbit"] {
        let mut command = weir_under(&[]);
        command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0", "--uplink", uplink]);
        let server = Server::spawn(command);
        for (path, is_sent, is_sized) in [("/begun", true, false), ("/sized", true, true), ("/silent", false, false)] {
            let mut client = server.connect();
            client.send(get(path));
            let is_so =
                |row: &Value| row["waits_for"] == "upstream" && (row["sent_bytes"].as_u64() > Some(0)) == is_sent;
            let row = row(&server, path, is_so);
            assert_eq!(
                (row["size_bytes"].is_number(), row["left_bytes"].is_number()),
                (is_sized, is_sized),
                "{path}: {row}"
            );
            assert!(top(&server).contains("its upstream"));
            client.reset();
            wait_until("its end", || told(&server)["under_way"]["count"] == 0);
        }
    }
}

#[test]
fn a_class_and_a_site_have_names() {
    let site = Site::of_sizes(&[HUGE]);
    let text = format!(
        "[server]\nadmin = \"127.0.0.1:0\"\n[uplink]\nshaping = \"off\"\n[[class]]\nname = \"slow\"\nmax_concurrent_requests = 1\n[[class.rule]]\npath = \"/*\"\n\
         [[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\nhosts = [\"a\"]\n",
        site.served().display()
    );
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    let server = Server::run(&site.outside("weir.toml"));
    let mut clients = [(); 2].map(|()| Client::connect_narrow(server.address));
    clients[0].send(get("/size-16777216"));
    clients[0].wait_for_first_byte();
    clients[1].send(get("/size-16777216"));
    wait_until("two", || rows(&server).len() == 2);
    let rows = rows(&server);
    assert!(rows.iter().all(|row| row["class"] == "slow" && row["site"] == "a"), "{rows:?}");
    let mut waiting: Vec<&str> = rows.iter().filter_map(|row| row["waits_for"].as_str()).collect();
    waiting.sort_unstable();
    assert_eq!(waiting, ["client", "slot"]);
}

/// The output of `weir top` on a terminal of this size.
struct Terminal {
    top: Child,
    written: File,
    kept: Vec<u8>,
}

impl Terminal {
    fn open(server: &Server, columns: u16, rows: u16, variables: &[(&str, &str)]) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave: OwnedFd = File::options().read(true).write(true).open(path).unwrap().into();
        tcsetwinsize(&slave, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = Command::new(WEIR);
        command.args(["top", "--pid", &server.pid().to_string()]).env("TERM", "xterm").env_remove("NO_COLOR");
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stderr(slave.try_clone().unwrap()).stdout(slave);
        Terminal { top: command.spawn().unwrap(), written: File::from(master), kept: Vec::new() }
    }

    /// The output up to this text.
    fn until(&mut self, end: &str) -> String {
        let (mut part, patience) = ([0; 4096], Timespec::try_from(PATIENCE).unwrap());
        while !String::from_utf8_lossy(&self.kept).contains(end) {
            let came = poll(&mut [PollFd::new(&self.written, PollFlags::IN)], Some(&patience));
            assert_eq!(came, Ok(1), "no {end:?} in {:?}", String::from_utf8_lossy(&self.kept));
            let read = self.written.read(&mut part).unwrap();
            self.kept.extend_from_slice(&part[..read]);
        }
        String::from_utf8_lossy(&std::mem::take(&mut self.kept)).into_owned()
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.top), Signal::INT).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.top.kill();
        let _ = self.top.wait();
    }
}

/// The text without colours and cursor movements.
fn visible(written: &str) -> Vec<String> {
    let parts = written.split("\x1b[").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
    let text: String = parts.map(|part| part.strip_prefix(['m', 'K', 'H', 'J']).unwrap_or(part)).collect();
    text.lines().map(|line| line.trim_end_matches('\r').to_string()).collect()
}

#[test]
fn a_terminal_of_forty_columns_is_drawn_on_until_ctrl_c() {
    let site = Site::of_sizes(&[1000, HUGE]);
    let server = Server::start(&site, &["--admin", "127.0.0.1:0", "--uplink", "80mbit"]);
    assert_eq!(server.connect().get("/size-1000").status, 200);
    let mut client = Client::connect_narrow(server.address);
    client.send(get("/size-16777216"));
    client.wait_for_first_byte();
    for (variables, has_colours) in [(&[][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let mut terminal = Terminal::open(&server, 40, 60, variables);
        let written = terminal.until("ctrl-c ends this");
        assert!(written.starts_with("\x1b[2J\x1b[H"), "{written:?}");
        assert_eq!(written.contains("\x1b[1m"), has_colours, "{written:?}");
        assert_eq!(written.contains("\x1b[32muplink"), has_colours, "the order holds: {written:?}");
        let lines = visible(&written);
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:#?}");
        for word in ["left ", "127.0.0.1", "up to 10 KB", "default"] {
            assert!(lines.iter().any(|line| line.contains(word)), "{word}: {lines:#?}");
        }
        terminal.until("leaving: ");
        terminal.interrupt();
        let mut status = None;
        wait_until("its end", || {
            status = terminal.top.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
    }
    let mut dumb = Terminal::open(&server, 40, 60, &[("TERM", "dumb")]);
    let written = dumb.until("MB\r\n");
    assert!(!written.contains('\x1b'), "{written:?}");
    let small = Terminal::open(&server, 20, 5, &[]).until("more lines");
    assert!(visible(&small).len() <= 5, "{small:?}");
}

#[test]
fn a_terminal_that_changes_its_size_is_drawn_on_anew() {
    let site = Site::of_sizes(&[1000]);
    let server = Server::start(&site, &["--uplink", "off"]);
    let mut terminal = Terminal::open(&server, 100, 30, &[]);
    let written = terminal.until("ctrl-c ends this");
    assert!(written.contains("\x1b[33muplink not searched"), "nothing is ordered: {written:?}");
    tcsetwinsize(&terminal.written, Winsize { ws_row: 30, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    kill_process(Pid::from_child(&terminal.top), Signal::WINCH).unwrap();
    let again = terminal.until("\x1b[2J") + &terminal.until("ctrl-c ends this");
    let (_, drawn) = again.split_once("\x1b[2J").unwrap();
    assert!(visible(drawn).iter().all(|line| line.chars().count() <= 40), "{drawn:?}");
    drop(server);
    let mut status = None;
    wait_until("its end with the server's", || {
        status = terminal.top.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(1));
}

/// Earlier it reported that the process is not a server.
#[test]
fn a_server_that_is_replaced_is_followed_and_one_that_ended_is_named() {
    let site = Site::of_sizes(&[1000]);
    let server = Server::run(&file(&site, free_port(), "[uplink]\nshaping = 'off'"));
    let mut terminal = Terminal::open(&server, 100, 30, &[]);
    terminal.until(&format!("weir {}", server.pid()));
    let new = upgrade(server.pid()).unwrap();
    terminal.until(&format!("weir {}", new.0));
    let pid = new.0;
    drop(new);
    terminal.until(&format!("server {pid} has ended"));
}
