//! The logs of sites, as `weir run` writes them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{Folder, get, reload, run, run_aloud_as};

const SITES: &str = "\
[[listener]]
address = \"127.0.0.1:0\"
[server]
workers = 1
access_log = \"all.log\"
[[site]]
hosts = [\"one.test\"]
root = \"one\"
access_log = \"one.log\"
[[site]]
hosts = [\"many.test\"]
root = \"many\"
access_log = \"one.log\"
[[site]]
hosts = [\"json.test\"]
root = \"many\"
log_format = \"json\"
access_log = \"json.log\"
[[site]]
hosts = [\"rest.test\"]
root = \"one\"
";

/// Runs without the sandbox, which has no access to folders of logs that a reload adds.
fn unconfined() -> String {
    format!("[server]\nsandbox = false\n{}", super::SITES)
}

fn lines(folder: &Folder, log: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.0.join(log)).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// The requests of a log, once it has this number of lines.
fn requests(folder: &Folder, log: &str, count: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(30);
    while lines(folder, log).len() < count {
        assert!(Instant::now() < until, "{log}: {:?}", lines(folder, log));
        std::thread::sleep(Duration::from_millis(1));
    }
    lines(folder, log).iter().map(|line| line.split('"').nth(1).unwrap().to_string()).collect()
}

fn with_folders(name: &str) -> Folder {
    let folder = Folder::new(name);
    for site in ["one", "many"] {
        std::fs::create_dir(folder.0.join(site)).unwrap();
        folder.write(&format!("{site}/a"), "a file");
    }
    folder
}

#[test]
fn each_site_has_its_log_and_the_rest_that_of_the_server() {
    let folder = with_folders("site-logs");
    folder.write("weir.toml", SITES);
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    let ask = |path: &str, host: &str| get(&addresses[0], path, host);
    for (path, host) in [("/a?1", "one.test"), ("/a?2", "many.test"), ("/none", "one.test:80"), ("/a?3", "json.test")] {
        ask(path, host);
    }
    assert!(ask("/a?4", "rest.test").ends_with("a file"));
    assert!(ask("/a?5", "nobody.test").starts_with("HTTP/1.1 421 "));
    assert!(ask("/a?6", "bad host").starts_with("HTTP/1.1 400 "));
    assert_eq!(requests(&folder, "one.log", 3), ["GET /a?1 HTTP/1.1", "GET /a?2 HTTP/1.1", "GET /none HTTP/1.1"]);
    assert_eq!(requests(&folder, "all.log", 3), ["GET /a?4 HTTP/1.1", "GET /a?5 HTTP/1.1", "GET /a?6 HTTP/1.1"]);
    requests(&folder, "json.log", 1);
    let line = &lines(&folder, "json.log")[0];
    let parts = ["\"uri\":\"/a?3\",\"host\":\"", "\"protocol\":\"HTTP/1.1\",\"status\":200"];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    assert!(!folder.0.join("bad host").exists());
}

/// Whatever a host name contains, it appears in no line and names no file.
#[test]
fn no_host_gets_into_a_log() {
    let folder = with_folders("log-hosts");
    folder.write("weir.toml", &SITES.replace("hosts = [\"rest.test\"]", "default = true"));
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    let hosts = ["../x", "a\"b", "a\\x0a", "\x1b[31m", "a\tb", "\u{e9}", "", "one.test/../../x", "one.test\0"];
    for (at, host) in hosts.into_iter().enumerate() {
        let mut client = TcpStream::connect(&addresses[0]).unwrap();
        write!(client, "GET /{at} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
    }
    let all = requests(&folder, "all.log", hosts.len());
    assert_eq!(all, (0..hosts.len()).map(|at| format!("GET /{at} HTTP/1.1")).collect::<Vec<_>>());
    for line in lines(&folder, "all.log") {
        assert!(line.starts_with("127.0.0.1 - - [") && line.ends_with("\"-\" \"-\""), "{line}");
    }
    let mut names: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["all.log", "json.log", "many", "one", "one.log", "weir.toml"]);
}

/// A response is logged in the log in which it began, and a log that cannot be opened changes nothing.
#[test]
fn a_reload_moves_logs_whole_or_not_at_all() {
    let folder = Folder::new("log-reload");
    let (running, mut log, address) = run_aloud_as(&folder, &unconfined());
    let large = 16 << 20;
    folder.write("one/large", &"x".repeat(large));
    let with = |key: &str| unconfined().replace("root = \"one\"\n", &format!("root = \"one\"\n{key}\n"));
    folder.write("weir.toml", &with("access_log = \"first\""));
    assert!(reload(&running, &mut log).contains("2 sites are in force"));
    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(b"GET /large HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n").unwrap();
    client.read_exact(&mut [0; 100]).unwrap();

    folder.write("weir.toml", &with("access_log = \"second\""));
    assert!(reload(&running, &mut log).contains("2 sites are in force"));
    get(&address, "/a.txt?1", "one.test");
    assert_eq!(requests(&folder, "second", 1), ["GET /a.txt?1 HTTP/1.1"]);

    folder.write("weir.toml", &with("access_log = \"one\""));
    let said = reload(&running, &mut log);
    assert!(said.contains("cannot open access log `") && said.contains("/one`: Is a directory"), "{said}");
    assert!(said.contains("stays in force"), "{said}");
    get(&address, "/a.txt?2", "one.test");
    assert_eq!(requests(&folder, "second", 2)[1], "GET /a.txt?2 HTTP/1.1");

    folder.write("weir.toml", &unconfined());
    reload(&running, &mut log);
    get(&address, "/a.txt?3", "one.test");
    assert_eq!(lines(&folder, "first").len(), 0, "it is under way");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > large - 200);
    assert_eq!(requests(&folder, "first", 1), ["GET /large HTTP/1.1"]);
    assert_eq!(lines(&folder, "second").len(), 2);
}

/// This holds at the start and at a reload, and the logs in use stay as they are.
#[test]
fn a_file_that_does_not_come_into_force_leaves_no_logs() {
    let folder = Folder::new("log-left");
    let (running, mut log, address) = run_aloud_as(&folder, &unconfined());
    folder.write("kept", "");
    let with = |one: &str, two: &str| {
        let text = unconfined().replace("root = \"one\"\n", &format!("root = \"one\"\naccess_log = \"{one}\"\n"));
        text.replace("root = \"many\"\n", &format!("root = \"many\"\naccess_log = \"{two}\"\n"))
    };
    folder.write("weir.toml", &with("first", "second"));
    assert!(reload(&running, &mut log).contains("2 sites are in force"));
    let is_there = |name: &str| folder.0.join(name).exists();
    for wrong in [with("third", "one"), with("kept", "missing/x"), with("first", "one")] {
        folder.write("weir.toml", &wrong);
        let said = reload(&running, &mut log);
        assert!(said.contains("stays in force"), "{said}");
        assert_eq!(["first", "second", "third", "kept"].map(is_there), [true, true, false, true], "{wrong}");
    }
    folder.write("weir.toml", &with("third", "second"));
    assert!(reload(&running, &mut log).contains("2 sites are in force"));
    get(&address, "/a.txt", "one.test");
    assert_eq!(requests(&folder, "third", 1), ["GET /a.txt HTTP/1.1"]);
    drop(running);

    folder.write("weir.toml", &with("fourth", "one"));
    let (status, _, said) = super::said(&super::weir(&folder.0, &["run"]));
    assert!(status == Some(1) && said.contains("cannot open access log") && !is_there("fourth"), "{said}");
}

/// Tests the signal that follows a rotation.
#[test]
fn a_signal_opens_the_logs_of_all_sites_anew() {
    let folder = with_folders("log-rotation");
    folder.write("weir.toml", SITES);
    let (running, addresses) = run(&folder.0.join("weir.toml"));
    let ask = |path: &str| ["one.test", "rest.test"].map(|host| get(&addresses[0], path, host));
    ask("/a?before");
    for log in ["one.log", "all.log"] {
        requests(&folder, log, 1);
        std::fs::rename(folder.0.join(log), folder.0.join(format!("{log}.1"))).unwrap();
    }
    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    for log in ["one.log", "all.log"] {
        while !folder.0.join(log).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    ask("/a?after");
    for log in ["one.log", "all.log"] {
        assert_eq!(requests(&folder, log, 1), ["GET /a?after HTTP/1.1"]);
        assert_eq!(lines(&folder, &format!("{log}.1")).len(), 1);
    }
}
