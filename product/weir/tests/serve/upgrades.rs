//! `weir upgrade`: another process takes over the sockets, and no client is refused.

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::common::tls::Made;
use crate::common::{Client, Server, Site, content, get, run_to_end, wait_until, weir_under};

const SMALL: usize = 1 << 10;
/// A size beyond the buffers of two sockets.
const HUGE: usize = 16 << 20;

/// The process that serves now, which is ended with the test.
#[derive(Debug)]
pub struct Serving(pub u32);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = kill_process(pid(self.0), Signal::KILL);
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).unwrap()
}

fn has_ended(number: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    test_kill_process(pid(number)).is_err() || state.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"))
}

/// Returns the process number of the next process, or the error message.
pub fn upgrade(old: u32) -> Result<Serving, String> {
    by(&["upgrade"], old)
}

fn by(command: &[&str], old: u32) -> Result<Serving, String> {
    serving(run_to_end(&[command, &["--pid", &old.to_string()]].concat()))
}

pub fn serving(output: Output) -> Result<Serving, String> {
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let new = out.lines().find_map(|line| line.strip_prefix("weir: process ")?.split(' ').next()?.parse().ok());
    match new.filter(|_| output.status.code() == Some(0)) {
        Some(new) => Ok(Serving(new)),
        None => Err(err),
    }
}

/// A port that was free a moment ago. The next process must have the same one, so it cannot be 0.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn file(site: &Site, port: u16, text: &str) -> std::path::PathBuf {
    let whole =
        format!("{text}\n[[listener]]\naddress = '127.0.0.1:{port}'\n[[site]]\nroot = '{}'\n", site.served().display());
    let file = site.outside("weir.toml");
    std::fs::write(&file, whole).unwrap();
    file
}

#[test]
fn five_upgrades_lose_no_request_and_cut_no_download() {
    for settings in ["", "[uplink]\nshaping = 'off'\n[server]\nworkers = 2"] {
        let site = Site::of_sizes(&[SMALL, HUGE]);
        let server = Server::run(&file(&site, free_port(), settings));
        let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let mut download = server.connect();
        download.send(get(&format!("/size-{HUGE}")));
        download.wait_for_first_byte();
        // Closed by the server if another process replaces its process; never refused, and never without a response.
        let ask = || {
            while !is_over.load(Ordering::Relaxed) {
                let mut client = server.connect();
                client.send("GET /size-1024 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                assert_eq!(client.response().body, content(SMALL));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let clients = [scope.spawn(ask), scope.spawn(ask)];
            let mut serving = upgrade(server.pid()).unwrap();
            for _ in 1..5 {
                let before = answered.load(Ordering::Relaxed);
                let next = upgrade(serving.0).unwrap();
                let old = std::mem::replace(&mut serving, next);
                wait_until("the end of a process without responses", || has_ended(old.0));
                wait_until("more requests", || answered.load(Ordering::Relaxed) > before + 20);
            }
            assert!(!has_ended(server.pid()), "its download is under way");
            is_over.store(true, Ordering::Relaxed);
            clients.into_iter().for_each(|client| client.join().unwrap());
            assert!(download.response().body == content(HUGE));
            assert_eq!(server.exit_status().code(), Some(0));
            kill_process(pid(serving.0), Signal::TERM).unwrap();
            wait_until("the end", || has_ended(serving.0));
        });
        println!("5 upgrades, {} requests answered, 0 failed, 0 refused", answered.load(Ordering::Relaxed));
    }
}

/// An upgrade makes changes that a reload cannot; the admin page keeps its address.
#[test]
fn an_upgrade_takes_the_new_file() {
    let site = Site::of_sizes(&[SMALL]);
    let (port, admin) = (free_port(), free_port());
    let settings = format!("[server]\nadmin = '127.0.0.1:{admin}'\n");
    let server = Server::run(&file(&site, port, &settings));
    let workers = format!("{settings}workers = 2\n[uplink]\nshaping = 'off'\n");
    file(&site, port, &workers);
    let refused = run_to_end(&["reload", "--pid", &server.pid().to_string()]);
    assert_eq!(refused.status.code(), Some(1));
    let serving = by(&["reload", "--upgrade"], server.pid()).unwrap();
    assert_eq!(server.exit_status().code(), Some(0));
    assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
    let threads = std::fs::read_dir(format!("/proc/{}/task", serving.0)).unwrap().flatten();
    let names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap());
    assert_eq!(names.filter(|name| name.starts_with("weir-worker-")).count(), 2);
    let mut health = Client::connect(([127, 0, 0, 1], admin).into());
    health.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(health.response().status, 200);
}

#[test]
fn of_several_upgrades_at_once_one_takes_over() {
    let site = Site::of_sizes(&[SMALL]);
    let server = Server::run(&file(&site, free_port(), ""));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| upgrade(server.pid()))).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for said in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        // Closed if it was requested from the old process.
        let old = server.pid();
        let why = [
            format!("server {old} serves on"),
            format!("server {old} has ended too"),
            format!("server {old} has been followed by another process"),
            format!("server {old} has just been followed by another process"),
            format!("process {old} has ended"),
            "or another has followed it".to_string(),
        ];
        assert!(why.iter().any(|why| said.contains(why.as_str())), "{said}");
    }
    assert_eq!(server.exit_status().code(), Some(0));
    assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
}

/// The file of the program is replaced, as by a package.
#[test]
fn a_reload_by_another_program_puts_that_in_place() {
    let site = Site::of_sizes(&[SMALL]);
    let server = Server::run(&file(&site, free_port(), ""));
    let words = ["reload", "--upgrade", "--pid", &server.pid().to_string()];
    let same = run_to_end(&words);
    assert_eq!(same.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&same.stdout).contains("in place of"), "nothing needs another process");

    let other = site.outside("weir");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_weir")).arg(&other).status().unwrap();
    assert!(copied.success());
    let serving = serving(Command::new(&other).args(words).output().unwrap()).unwrap();
    assert_eq!(std::fs::read_link(format!("/proc/{}/exe", serving.0)).unwrap(), other);
    assert_eq!(server.exit_status().code(), Some(0));
    assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
}

/// Earlier the command ended with a panic, although the new process served.
#[test]
fn an_upgrade_and_a_reload_of_which_nobody_reads_succeed() {
    let site = Site::of_sizes(&[SMALL]);
    let server = Server::run(&file(&site, free_port(), ""));
    for word in ["reload", "upgrade"] {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let mut command = weir_under(&[]);
        command.args([word, "--pid", &server.pid().to_string()]);
        let output = command.stdout(write).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{word}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let next = successor(server.pid());
    assert_eq!(server.exit_status().code(), Some(0));
    assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
    drop(next);
}

/// The process that was started to replace this one.
fn successor(old: u32) -> Serving {
    let variable = format!("WEIR_PREDECESSOR={old}");
    let is_it = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Serving(processes.find(is_it).expect("a process after it"))
}

/// Earlier it continued to listen there, and commands still reached the process that finishes a download.
#[test]
fn a_listener_that_is_gone_is_closed_and_the_old_process_is_not_asked() {
    let site = Site::of_sizes(&[SMALL, HUGE]);
    let (one, other) = (free_port(), free_port());
    let server = Server::run(&file(&site, one, ""));
    let mut download = server.connect();
    download.send(get(&format!("/size-{HUGE}")));
    download.wait_for_first_byte();
    file(&site, other, "");
    let serving = upgrade(server.pid()).unwrap();
    assert_eq!(Client::connect(([127, 0, 0, 1], other).into()).get("/size-1024").body, content(SMALL));
    let is_refused = || std::net::TcpStream::connect(("127.0.0.1", one)).is_err();
    wait_until("the end of the listener", is_refused);
    let status = |pid: u32| run_to_end(&["status", "--pid", &pid.to_string()]).status.code();
    assert!(!has_ended(server.pid()), "{:?}", server.stderr());
    assert_eq!([status(serving.0), status(server.pid())], [Some(0), Some(1)]);
    assert!(download.response().body == content(HUGE));
}

/// Earlier it wrote to the file that the rotation had moved away, for as long as a download took.
#[test]
fn a_process_that_finishes_a_download_reopens_its_log() {
    let site = Site::of_sizes(&[SMALL, HUGE]);
    let log = site.outside("access.log");
    let server = Server::run(&file(&site, free_port(), &format!("[server]\naccess_log = '{}'", log.display())));
    let mut download = server.connect();
    download.send(get(&format!("/size-{HUGE}")));
    download.wait_for_first_byte();
    let _serving = upgrade(server.pid()).unwrap();
    for signal in [Signal::USR1, Signal::HUP] {
        let old = site.outside("access.log.1");
        std::fs::rename(&log, &old).unwrap();
        server.signal(signal);
        wait_until("another log", || log.exists());
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "");
    }
    assert!(download.response().body == content(HUGE));
    assert_eq!(server.exit_status().code(), Some(0));
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.lines().count() == 1 && said.contains(&format!("/size-{HUGE} ")), "{said}");
}

/// The recipe for logrotate signals only the main process of the service, which is the new one. Earlier the signal also
/// ended a running `weir reload` and a DNS hook.
#[test]
fn the_new_process_has_the_old_one_reopen_its_log() {
    let site = Site::of_sizes(&[SMALL, HUGE]);
    let log = site.outside("access.log");
    let server = Server::run(&file(&site, free_port(), &format!("[server]\naccess_log = '{}'", log.display())));
    let mut download = server.connect();
    download.send(get(&format!("/size-{HUGE}")));
    download.wait_for_first_byte();
    let serving = upgrade(server.pid()).unwrap();
    let open = |process: u32| {
        let names = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
        names.filter_map(|name| std::fs::read_link(name.path()).ok()).any(|file| file == log)
    };
    for _ in 0..2 {
        std::fs::rename(&log, site.outside("access.log.1")).unwrap();
        assert!(!open(server.pid()) && !open(serving.0));
        kill_process(pid(serving.0), Signal::USR1).unwrap();
        wait_until("another log in both", || open(server.pid()) && open(serving.0));
    }
    assert!(download.response().body == content(HUGE));
    assert_eq!(server.exit_status().code(), Some(0));
}

/// Earlier the second process ended as soon as it had nothing to do. The third took that for the end of the first,
/// which was then not notified of rotations.
#[test]
fn a_process_two_upgrades_ago_is_not_forgotten() {
    let site = Site::of_sizes(&[SMALL, HUGE]);
    let (made, port, plain, log) =
        (Made::new(&site, "a", &["a.test"]), free_port(), free_port(), site.outside("access.log"));
    let text = format!(
        "[server]\naccess_log = '{}'\n[[listener]]\naddress = '127.0.0.1:{plain}'\n[[listener]]\naddress = '127.0.0.1:{port}'\ntls = true\n[[site]]\nroot = '{}'\ncert = '{}'\nkey = '{}'\n",
        log.display(),
        site.served().display(),
        made.cert.display(),
        made.key.display()
    );
    let file = site.outside("weir.toml");
    std::fs::write(&file, text).unwrap();
    let server = Server::run(&file);
    let leads_to_http3 = || {
        let mut client = made.trust().connect(([127, 0, 0, 1], port).into(), "a.test");
        client.send("GET /size-1024 HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.response().0.contains("Alt-Svc: h3=")
    };
    assert!(leads_to_http3());
    let mut download = Client::connect(([127, 0, 0, 1], plain).into());
    download.send(get(&format!("/size-{HUGE}")));
    download.wait_for_first_byte();
    let second = upgrade(server.pid()).unwrap();
    assert!(!leads_to_http3(), "the first still reads the datagrams");
    let third = upgrade(second.0).unwrap();
    wait_until("the end of the second", || has_ended(second.0));
    std::mem::forget(second);
    let open = |process: u32| {
        let names = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
        names.filter_map(|name| std::fs::read_link(name.path()).ok()).any(|file| file == log)
    };
    std::fs::rename(&log, site.outside("access.log.1")).unwrap();
    kill_process(pid(third.0), Signal::USR1).unwrap();
    wait_until("another log in both", || open(server.pid()) && open(third.0));
    assert!(!leads_to_http3(), "the first still reads the datagrams");
    assert!(download.response().body == content(HUGE));
    assert_eq!(server.exit_status().code(), Some(0));
    wait_until("HTTP/3 for newcomers", leads_to_http3);
}

/// A server that has given up root could be compromised by now: its messages are not commands for root.
#[test]
fn root_says_itself_how_a_server_of_another_user_is_followed() {
    if !crate::user::is_root() {
        return;
    }
    let site = Site::of_sizes(&[SMALL]);
    let file = file(&site, free_port(), "[server]\nuser = 'nobody'");
    let server = Server::run(&file);
    let Err(said) = upgrade(server.pid()) else { panic!("root took its word") };
    assert!(said.contains("does not run a command that another user names") && said.contains("-- run "), "{said}");
    assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
    let words = ["upgrade", "--pid", &server.pid().to_string(), "--", "run", file.to_str().unwrap()];
    let output = run_to_end(&words);
    let said = String::from_utf8(output.stdout).unwrap();
    let new = said.lines().find_map(|line| line.strip_prefix("weir: process ")?.split(' ').next()?.parse().ok());
    let serving = Serving(new.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))));
    assert_eq!(server.exit_status().code(), Some(0));
    assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.0)).unwrap();
    assert!(status.contains("\nUid:\t65534\t65534\t65534\t65534\n"), "{status}");
}

#[test]
fn one_that_cannot_start_changes_nothing() {
    let site = Site::of_sizes(&[SMALL, HUGE]);
    let port = free_port();
    let server = Server::run(&file(&site, port, ""));
    for (text, reason) in [
        ("[server]\nuser = 'no such user'", "no such user"),
        ("[server]\naccess_log = '/none/of/that/name'", "cannot open access log"),
        ("[serv", "weir.toml:1:"),
    ] {
        file(&site, port, text);
        let Err(said) = upgrade(server.pid()) else { panic!("{text} is wrong") };
        assert!(said.contains(reason) && said.contains("serves on"), "{said}");
        assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
    }
    // This process is gone before it is ready.
    file(&site, port, "");
    let _serving = upgrade(server.pid()).unwrap();
    assert_eq!(server.connect().get("/size-1024").body, content(SMALL));
    let said = run_to_end(&["upgrade", "--pid", "1"]);
    assert_eq!(said.status.code(), Some(1));
}

/// Over TLS and HTTP/3, the sockets of both are passed on.
#[test]
fn tls_and_its_udp_socket_go_over() {
    let site = Site::of_sizes(&[SMALL]);
    let made = Made::new(&site, "a", &["a.test"]);
    let port = free_port();
    let text = format!(
        "[[listener]]\naddress = '127.0.0.1:{port}'\ntls = true\n[[site]]\nroot = '{}'\ncert = '{}'\nkey = '{}'\n",
        site.served().display(),
        made.cert.display(),
        made.key.display()
    );
    let file = site.outside("weir.toml");
    std::fs::write(&file, text).unwrap();
    let server = Server::run(&file);
    let first = upgrade(server.pid()).unwrap();
    assert_eq!(server.exit_status().code(), Some(0));
    let second = upgrade(first.0).unwrap();
    wait_until("the end of the first", || has_ended(first.0));
    std::mem::forget(first);
    // The second process is notified of that end a moment later, and offers HTTP/3 from then on.
    wait_until("an offer of HTTP/3", || {
        let mut client = made.trust().connect(server.address, "a.test");
        client.send("GET /size-1024 HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let (head, body) = client.response();
        assert!(head.starts_with("HTTP/1.1 200") && body == content(SMALL), "{head}");
        head.contains(&format!("Alt-Svc: h3=\":{port}\""))
    });
    drop(second);
}
