//! `weir check` and `weir run` as an operator runs them: what they print, and their exit status.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

#[path = "configuration/check.rs"]
mod check;
#[path = "configuration/init.rs"]
mod init;
#[path = "configuration/logs.rs"]
mod logs;
#[path = "configuration/names.rs"]
mod names;

/// A folder for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn weir(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(words).current_dir(folder).output().unwrap()
}

/// The exit status and the output.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const RIGHT: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"www\"\nautoindex = true\n";

#[test]
fn check_says_what_is_wrong_and_exits_with_its_status() {
    let folder = Folder::new("check");
    folder.write("weir.toml", RIGHT);
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let right = "weir.toml: correct: 1 listener, 1 site, 0 classes\n";
    assert_eq!(said(&weir(&folder.0, &["check"])), (Some(0), right.into(), String::new()));

    folder.write("wrong.toml", &RIGHT.replace("true", "1").replace("root", "rot"));
    let (status, out, err) = said(&weir(&folder.0, &["check", "wrong.toml"]));
    let mistakes = "\
wrong.toml:3:1: site.root missing: expected a folder, or a redirect or a proxy of every path
wrong.toml:4:1: unknown key `site.rot`: did you mean `site.root`?
wrong.toml:5:13: site.autoindex `1`: expected true or false
";
    assert_eq!((status, &*out, &*err), (Some(1), mistakes, "weir: wrong.toml: 3 mistakes\n"));

    let (status, _, err) = said(&weir(&folder.0, &["check", "none.toml"]));
    assert!(status == Some(1) && err.contains("cannot read none.toml"), "{err}");
    for wrong in [&["check", "--client", "1.2.3.4"][..], &["check", "--explain", "a.org"], &["check", "--listnig"]] {
        assert_eq!(weir(&folder.0, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn check_explains_a_request_and_prints_the_schema() {
    let folder = Folder::new("explain");
    let class = "[[class]]\nname = \"gold\"\n[[class.rule]]\nnetwork = \"192.0.2.0/24\"\nheader = \"X-Tier: gold\"\n";
    folder.write("weir.toml", &format!("{RIGHT}{class}"));
    let question =
        ["check", "--explain", "http://a.org/b", "--client", "192.0.2.1", "--header", "x-tier: gold", "--all"];
    let (status, out, err) = said(&weir(&folder.0, &question));
    let first: Vec<&str> = out.lines().take(2).collect();
    assert_eq!(first, ["site: default, the default (weir.toml:3)", "class: gold, by a rule (weir.toml:8)"], "{err}");
    assert!(status == Some(0) && out.contains("\nclass.priority = 0 (default)\n"), "{out}");

    let (status, out, _) = said(&weir(&folder.0, &["check", "--schema"]));
    let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &schema["properties"]["limits"]["properties"]["head_fields"]["maximum"]),
        (Some(0), &1000.into())
    );
}

/// Starts `weir run` of a file. Returns it with the addresses that it prints.
fn run(file: &Path) -> (Running, Vec<String>) {
    let command = Command::new(env!("CARGO_BIN_EXE_weir")).arg("run").arg(file).stdout(Stdio::piped()).spawn();
    let mut running = Running(command.unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let addresses: Vec<String> =
        line.split("http://").skip(1).filter_map(|rest| Some(rest.split_once('/')?.0.to_string())).collect();
    assert!(!addresses.is_empty(), "{line}");
    (running, addresses)
}

/// The answer to a request for this path, with these fields before its `Host`.
fn get(address: &str, path: &str, host: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn run_serves_the_site_and_refuses_a_wrong_file() {
    let folder = Folder::new("run");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("www/a.txt", "from a file");
    folder.write("weir.toml", RIGHT);
    // From another folder: the root is relative to the file.
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    let answer = get(&addresses[0], "/a.txt", "a");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("from a file"), "{answer}");

    folder.write("wrong.toml", "[[site]]\n");
    let (status, _, err) = said(&weir(&folder.0, &["run", "wrong.toml"]));
    assert!(status == Some(1) && err.contains("wrong.toml:1:1: site.root missing"), "{err}");
}

const SITES: &str = "\
[[listener]]
address = \"127.0.0.1:0\"
[[listener]]
address = \"[::1]:0\"
[[site]]
hosts = [\"one.test\"]
root = \"one\"
[[site]]
hosts = [\"*.one.test\"]
root = \"many\"
index = [\"first.html\", \"second.html\"]
";

/// Each host has its own files, on every listener; the same path is a different file of each site.
#[test]
fn run_serves_sites_by_their_hosts_on_all_listeners() {
    let folder = Folder::new("sites");
    for site in ["one", "many", "rest"] {
        std::fs::create_dir(folder.0.join(site)).unwrap();
        folder.write(&format!("{site}/a.txt"), &format!("of {site}"));
    }
    folder.write("many/second.html", "the second");
    folder.write("weir.toml", SITES);
    let (running, addresses) = run(&folder.0.join("weir.toml"));
    assert_eq!(addresses.len(), 2);
    for address in &addresses {
        for (host, site) in [("one.test", "one"), ("x.one.test:81", "many"), ("ONE.test.", "one")] {
            // The second time the file comes from memory.
            for _ in 0..2 {
                let answer = get(address, "/a.txt", host);
                assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&format!("of {site}")), "{answer}");
            }
        }
        let index = [get(address, "/", "x.one.test"), get(address, "/", "one.test")];
        assert!(index[0].ends_with("the second") && index[1].starts_with("HTTP/1.1 403 "), "{index:?}");
        assert!(get(address, "/a.txt", "two.test").starts_with("HTTP/1.1 421 "));
    }
    drop(running);

    folder.write("weir.toml", &format!("{SITES}[[site]]\ndefault = true\nroot = \"rest\"\n"));
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    assert!(get(&addresses[1], "/a.txt", "two.test").ends_with("of rest"));
    let mut old = TcpStream::connect(&addresses[0]).unwrap();
    old.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    old.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("of rest"), "{answer}");
}

const ANSWERS: &str = "\
[[listener]]
address = \"127.0.0.1:0\"
[[site]]
default = true
root = \"www\"
[[site.redirect]]
from = \"/old/*\"
to = \"/new/*\"
status = 308
[[site.redirect]]
from_host = \"www.a.test\"
to = \"http://a.test*\"
[[site.header]]
name = \"X-Frame-Options\"
value = \"DENY\"
[[site.header]]
path = \"*.css\"
name = \"X-Style\"
value = \"yes\"
[[site.cache]]
path = \"/assets/*\"
control = \"max-age=60\"
[[site.error_page]]
status = 404
file = \"/errors/404.html\"
[[site]]
hosts = [\"moved.test\"]
[[site.redirect]]
to = \"https://a.test*\"
status = 301
";

/// A folder with the files of these sites.
fn answers(name: &str) -> Folder {
    let folder = Folder::new(name);
    for path in ["www", "www/assets", "www/errors"] {
        std::fs::create_dir(folder.0.join(path)).unwrap();
    }
    folder.write("www/assets/a.css", "style");
    folder.write("www/plain.txt", "plain");
    folder.write("www/errors/404.html", "<p>gone</p>");
    folder.write("weir.toml", ANSWERS);
    folder
}

fn holds(answer: &str, line: &str) -> bool {
    answer.contains(&format!("\r\n{line}\r\n"))
}

#[test]
fn a_site_redirects_before_any_file() {
    let folder = answers("redirects");
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    for (path, host, status, to) in [
        ("/old/b%20c/?x=1", "a.test", "308 ", "/new/b%20c/?x=1"),
        ("/assets/a.css", "www.a.test:81", "302 ", "http://a.test/assets/a.css"),
        ("/a%20b%3f", "www.a.test", "302 ", "http://a.test/a%20b%3f"),
        ("/a", "www.a.test.", "302 ", "http://a.test/a"),
        ("/a", "WWW.a.test.:81", "302 ", "http://a.test/a"),
        ("/any", "moved.test", "301 ", "https://a.test/any"),
    ] {
        let answer = get(&addresses[0], path, host);
        let is_right = answer.starts_with(&format!("HTTP/1.1 {status}")) && holds(&answer, &format!("Location: {to}"));
        assert!(is_right, "{answer}");
    }
}

/// Fields by path, and one body for all missing files.
#[test]
fn a_site_dresses_its_responses() {
    let folder = answers("dress");
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    let ask = |path: &str| get(&addresses[0], path, "a.test");
    let styled = ask("/assets/a.css");
    let fields = ["X-Frame-Options: DENY", "X-Style: yes", "Cache-Control: max-age=60", "Content-Length: 5"];
    assert!(fields.iter().all(|field| holds(&styled, field)) && styled.ends_with("\r\n\r\nstyle"), "{styled}");
    // A folder without its slash is redirected, which another folder in its place would not be.
    std::fs::create_dir_all(folder.0.join("www/assets/sub")).unwrap();
    let moved = ask("/assets/sub");
    assert!(moved.starts_with("HTTP/1.1 308 ") && !moved.contains("Cache-Control"), "{moved}");
    let plain = ask("/plain.txt");
    assert!(holds(&plain, "X-Frame-Options: DENY") && !plain.contains("X-Style"), "{plain}");
    let resolved = ask("/none/../assets/a.css");
    let fields = ["X-Frame-Options: DENY", "X-Style: yes", "Location: /assets/a.css"];
    assert!(resolved.starts_with("HTTP/1.1 308 ") && fields.iter().all(|field| holds(&resolved, field)), "{resolved}");
    let missing = ask("/assets/none");
    let fields = ["X-Frame-Options: DENY", "Content-Type: text/html; charset=utf-8", "Content-Length: 11"];
    assert!(missing.starts_with("HTTP/1.1 404 ") && fields.iter().all(|field| holds(&missing, field)), "{missing}");
    assert!(missing.ends_with("\r\n\r\n<p>gone</p>") && !missing.contains("Cache-Control"), "{missing}");
    // The page itself is an ordinary file.
    assert!(ask("/errors/404.html").starts_with("HTTP/1.1 200 "));

    std::fs::remove_file(folder.0.join("www/errors/404.html")).unwrap();
    let (status, out, _) = said(&weir(&folder.0, &["check"]));
    assert!(status == Some(1) && out.contains("www/errors/404.html` of status 404: No such file"), "{out}");
}

/// A request beyond the limit gets the page of its site. Bytes that are not a request belong to no site.
#[test]
fn a_refusal_has_the_page_of_its_site_and_no_request_has_none() {
    let folder = answers("refusals");
    let page = |status| format!("[[site.error_page]]\nstatus = {status}\nfile = \"/errors/404.html\"\n");
    let sites = ANSWERS.replace("[[site.error_page]]", &format!("{}{}[[site.error_page]]", page(429), page(400)));
    folder.write("weir.toml", &format!("{sites}[limits]\nclient_requests = 1\n"));
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    let refused = (0..100).map(|_| get(&addresses[0], "/plain.txt", "a.test")).find(|answer| answer.contains(" 429 "));
    let refused = refused.unwrap();
    assert!(refused.ends_with("\r\n\r\n<p>gone</p>") && holds(&refused, "X-Frame-Options: DENY"), "{refused}");
    assert!(refused.contains("\r\nRetry-After: "), "{refused}");
    let malformed = get(&addresses[0], "/plain.txt", "a test");
    assert!(malformed.starts_with("HTTP/1.1 400 ") && !malformed.contains("gone"), "{malformed}");
}

/// Sends the signal, and waits until the server reports the result.
fn reload(running: &Running, said: &mut impl BufRead) -> String {
    rustix::process::kill_process(rustix::process::Pid::from_child(&running.0), rustix::process::Signal::HUP).unwrap();
    let mut lines = String::new();
    while !lines.contains("configuration read again") {
        assert!(said.read_line(&mut lines).unwrap() > 0, "{lines}");
    }
    lines
}

/// Starts `weir run` with an error log that the test reads.
fn run_aloud(folder: &Folder) -> (Running, BufReader<std::process::ChildStderr>, String) {
    run_aloud_as(folder, SITES)
}

fn run_aloud_as(folder: &Folder, text: &str) -> (Running, BufReader<std::process::ChildStderr>, String) {
    for site in ["one", "many"] {
        std::fs::create_dir(folder.0.join(site)).unwrap();
        folder.write(&format!("{site}/a.txt"), &format!("of {site}"));
    }
    folder.write("weir.toml", text);
    run_aloud_file(folder)
}

/// `weir run` of the file of this folder.
fn run_aloud_file(folder: &Folder) -> (Running, BufReader<std::process::ChildStderr>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("run").arg(folder.0.join("weir.toml")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let said = BufReader::new(running.0.stderr.take().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    (running, said, address.to_string())
}

/// The new file takes effect completely or not at all.
#[test]
fn a_file_read_again_counts_whole_or_not_at_all() {
    let folder = Folder::new("again");
    let (running, mut log, address) = run_aloud(&folder);
    assert!(get(&address, "/a.txt", "one.test").ends_with("of one"));

    folder.write(
        "weir.toml",
        &format!("{}root = \"one\"\n", SITES.split("[[site]]").next().unwrap().to_owned() + "[[site]]\n"),
    );
    assert!(reload(&running, &mut log).contains("1 site is in force"));
    folder.write("weir.toml", &SITES.replace("root = \"one\"", "root = \"many\""));
    assert!(reload(&running, &mut log).contains("2 sites are in force"));
    assert!(get(&address, "/a.txt", "one.test").ends_with("of many"));
    for (wrong, reason) in [
        (SITES.replace("root = \"one\"", "root = \"none\""), "cannot serve `"),
        (SITES.replace("one.test", "one test"), "weir.toml:6:10: site.hosts"),
        (format!("{SITES}[server]\nworkers = 3\n"), "server.workers one per core → 3 ("),
        (format!("{SITES}[uplink]\nrate = \"off\"\n"), "shaping is paced and would be off: run `weir upgrade`"),
        (format!("{SITES}[uplink]\nrate = \"1mb"), "weir.toml:13:"),
        (String::new(), "site missing"),
    ] {
        folder.write("weir.toml", &wrong);
        let said = reload(&running, &mut log);
        assert!(said.contains(reason) && said.contains("stays in force"), "{said}");
        assert!(get(&address, "/a.txt", "one.test").ends_with("of many"));
    }
}

/// The server is found by its process number and by a file that contains it; the exit status is that of the reload.
#[test]
fn weir_reload_waits_for_the_outcome() {
    let folder = Folder::new("asked");
    let (running, mut log, address) = run_aloud(&folder);
    let pid = running.0.id().to_string();
    folder.write("pid", &format!("{pid}\n"));
    folder.write("weir.toml", &SITES.replace("root = \"one\"", "root = \"many\""));
    let mut lines = String::new();
    for (round, words) in [["reload", "--pid", &pid], ["reload", "--pid-file", "pid"]].into_iter().enumerate() {
        let (status, out, err) = said(&weir(&folder.0, &words));
        let changed = format!("site one.test: site.root one → many ({}:7)\n", folder.0.join("weir.toml").display());
        let verdict = format!("weir: server {pid}: configuration read again: 2 sites are in force\n");
        let expected = if round == 0 { format!("{changed}{verdict}") } else { verdict };
        assert_eq!((status, &*out, &*err), (Some(0), &*expected, ""));
        while lines.matches("in force\n").count() <= round {
            assert!(log.read_line(&mut lines).unwrap() > 0, "{lines}");
        }
        assert!(get(&address, "/a.txt", "one.test").ends_with("of many"));
    }
    // As root it first prints a warning about that.
    let lines = lines.lines().filter(|line| !line.contains("WARNING"));
    // Each line of a running server has its time.
    let lines: Vec<&str> = lines.map(|line| line.split_once("Z ").expect("a time").1).collect();
    assert!(lines[0].starts_with("weir: site one.test: site.root one → many ("), "{lines:?}");
    assert_eq!(lines[1..], ["weir: configuration read again: 2 sites are in force"; 2]);

    folder.write("weir.toml", &SITES.replace("root = \"one\"", "root = \"none\""));
    let (status, out, err) = said(&weir(&folder.0, &["reload", "--pid", &pid]));
    assert!(status == Some(1) && out.is_empty(), "{out}");
    let place = format!("{}:7:8", folder.0.join("weir.toml").display());
    let expected = format!("weir: server {pid}: {place}: cannot serve `");
    assert!(err.starts_with(&expected) && err.contains("stays in force"), "{err}");
    assert!(get(&address, "/a.txt", "one.test").ends_with("of many"));
}

#[test]
fn weir_reload_names_what_it_does_not_find() {
    let folders = [Folder::new("server1"), Folder::new("server2")];
    let [(one, ..), (other, ..)] = folders.each_ref().map(run_aloud);
    let folder = &folders[0];
    let elsewhere = Folder::new("no-server");
    let (status, _, err) = said(&weir(&elsewhere.0, &["reload"]));
    assert!(status == Some(2) && err.contains("no server of this user was started from this folder"), "{err}");
    for running in [one, other] {
        let pid = running.0.id();
        assert!(err.contains(&format!("\n  weir reload --pid {pid}   # ")) && err.contains("/weir.toml"), "{err}");
        drop(running);
        let (status, _, err) = said(&weir(&folder.0, &["reload", "--pid", &pid.to_string()]));
        assert!(status == Some(1) && err.contains(&format!("process {pid} is not a Weir server of this")), "{err}");
    }
    folder.write("pid", "none\n");
    let (status, _, err) = said(&weir(&folder.0, &["reload", "--pid-file", "pid"]));
    assert!(status == Some(1) && err.contains("pid: `none` is not the number of a process"), "{err}");
    for wrong in [&["reload", "--pid", "0"][..], &["reload", "--pid", "1", "--pid-file", "pid"]] {
        assert_eq!(weir(&folder.0, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Names of sockets belong to a network namespace, so a separate one has no other server.
#[test]
fn weir_reload_finds_the_only_server() {
    let folder = Folder::new("only");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("weir.toml", RIGHT);
    let script = "\
\"$0\" reload
\"$0\" run >said &
until grep -q serving said; do sleep 0.05; done
\"$0\" reload; status=$?
kill $!; wait; exit $status";
    let mut command = Command::new("unshare");
    let output = command.args(["-rn", "sh", "-c", script, env!("CARGO_BIN_EXE_weir")]).current_dir(&folder.0).output();
    let (status, out, err) = said(&output.unwrap());
    if err.starts_with("unshare: ") {
        assert!(std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none(), "{err}");
        return println!("SKIPPED: {err}");
    }
    assert!(err.starts_with("weir: no server runs here; start one with `weir run FILE`"), "{err}");
    assert!(status == Some(0) && out.ends_with(": configuration read again: 1 site is in force\n"), "{out} {err}");
}

/// Ten reloads, with a client that sends requests on one connection: each response comes from one configuration or the
/// other.
#[test]
fn no_request_is_lost_beside_a_reload() {
    let folder = Folder::new("beside");
    let (running, mut log, address) = run_aloud(&folder);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let ask = || {
        let mut client = TcpStream::connect(&address).unwrap();
        let mut counts = [0u32; 2];
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: one.test\r\n\r\n").unwrap();
            let mut answer = String::new();
            while !answer.contains("\r\n\r\nof ") || !(answer.ends_with("one") || answer.ends_with("many")) {
                let mut bytes = [0; 4096];
                let count = client.read(&mut bytes).unwrap();
                assert!(count > 0, "{answer}");
                answer.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            }
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            counts[usize::from(answer.ends_with("many"))] += 1;
        }
        counts
    };
    std::thread::scope(|scope| {
        let client = scope.spawn(ask);
        for turn in 0..10 {
            let root = ["many", "one"][turn % 2];
            folder.write("weir.toml", &SITES.replace("root = \"one\"", &format!("root = \"{root}\"")));
            assert!(reload(&running, &mut log).contains("2 sites are in force"));
            assert!(get(&address, "/a.txt", "one.test").ends_with(&format!("of {root}")));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let counts = client.join().unwrap();
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    });
}

/// All addresses of both families on one port, as in the example.
#[test]
fn both_families_have_a_listener_on_one_port() {
    let folder = Folder::new("families");
    folder.write("a.txt", "of both");
    let port = std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
    let listener = |address: &str| format!("[[listener]]\naddress = \"{address}:{port}\"\n");
    folder.write("weir.toml", &format!("{}{}[[site]]\nroot = \".\"\n", listener("0.0.0.0"), listener("[::]")));
    let (_running, addresses) = run(&folder.0.join("weir.toml"));
    assert_eq!(addresses.len(), 2);
    for address in ["127.0.0.1", "[::1]"] {
        let answer = get(&format!("{address}:{port}"), "/a.txt", "a");
        assert!(answer.ends_with("of both"), "{answer}");
    }
}

#[test]
fn a_site_or_listener_that_cannot_be_is_named() {
    let folder = Folder::new("absent");
    for site in ["one", "many"] {
        std::fs::create_dir(folder.0.join(site)).unwrap();
    }
    folder.write("weir.toml", &SITES.replace("[::1]:0", "192.0.2.1:1"));
    let (status, _, err) = said(&weir(&folder.0, &["run"]));
    assert!(status == Some(1) && err.starts_with("weir: weir.toml:4:11: cannot listen on 192.0.2.1:1"), "{err}");
    let (status, _, err) = said(&weir(&folder.0, &["serve", "none"]));
    assert!(status == Some(1) && err.starts_with("weir: cannot serve `none`"), "the folder of the command: {err}");
}

/// Earlier the message said what was wrong, but not where.
#[test]
fn a_start_that_fails_names_the_place_of_each_fault() {
    let folder = Folder::new("unstarted");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let site =
        |more: &str| format!("[[site]]\nhosts = ['a']\nroot = 'www'\n{more}\n[[listener]]\naddress = '127.0.0.1:0'\n");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (text, said_first) in [
        (site("cert = 'no.pem'\nkey = 'no.key'"), "weir.toml:4:8: cannot read `no.pem`: No such file"),
        (site("access_log = 'no/a.log'"), "weir.toml:4:14: cannot open access log `no/a.log`"),
        (site("[server]\nuser = 'no-such-user'"), "weir.toml:5:8: server.user: user `no-such-user` is not known"),
        (site("[server]\naccess_log = 'no/a.log'"), "weir.toml:5:14: server.access_log: cannot open access log"),
        (
            site(&format!("[server]\nadmin = '{taken}'\n[[listener]]\naddress = '{taken}'")),
            "weir.toml:5:9: server.admin",
        ),
        (site("[uplink]\nshaping = 'bands'"), "weir.toml:5:11: uplink.shaping: "),
    ] {
        folder.write("weir.toml", &text);
        let (status, _, err) = said(&weir(&folder.0, &["run"]));
        assert!(status == Some(1) && err.starts_with(&format!("weir: {said_first}")), "{text}: {err}");
    }
    folder.write(
        "weir.toml",
        &(site("cert = 'no.pem'\nkey = 'no.key'") + "[[site]]\nhosts = ['b']\nroot = 'www'\naccess_log = 'no/b'\n"),
    );
    let (_, _, err) = said(&weir(&folder.0, &["run"]));
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines.len() == 3 && lines[2].starts_with("weir.toml:11:14: cannot open access log"), "{err}");
}

/// Earlier a disk that was not mounted yet stopped all sites.
#[test]
fn a_site_whose_root_is_missing_stops_no_other() {
    let folder = Folder::new("unmounted");
    std::fs::create_dir(folder.0.join("one")).unwrap();
    folder.write("one/a.txt", "of one");
    let page = "[[site.error_page]]\nstatus = 404\nfile = '/404.html'\n";
    folder.write("weir.toml", &format!("{}{page}", SITES.replace("root = \"many\"", "root = \"disk/many\"")));
    let file = folder.0.join("weir.toml");
    let (running, mut said, address) = run_aloud_file(&folder);
    let mut lines = String::new();
    while !lines.contains("error page") {
        assert!(said.read_line(&mut lines).unwrap() > 0, "{lines}");
    }
    for line in [
        "cannot serve `",
        "disk/many`: No such file or directory; expected a readable folder; its files are missing until it is there\n",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
    let places = SITES.lines().position(|line| line.contains("many")).unwrap() + 1;
    assert!(lines.contains(&format!("weir: {}:{places}:8: cannot serve `", file.display())), "{lines}");
    assert!(get(&address, "/a.txt", "one.test").ends_with("of one"));
    assert!(get(&address, "/a.txt", "a.one.test").starts_with("HTTP/1.1 404 "));
    let (status, out, _) = crate::said(&weir(&folder.0, &["check"]));
    assert!(status == Some(1) && out.contains(&format!("weir.toml:{places}:8: cannot serve `disk/many`")), "{out}");
    assert!(reload(&running, &mut said).contains("2 sites are in force"), "a reload of the rest is not refused");
    std::fs::create_dir_all(folder.0.join("disk/many")).unwrap();
    folder.write("disk/many/a.txt", "of many");
    while !get(&address, "/a.txt", "a.one.test").ends_with("of many") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    folder.write("disk/many/404.html", "lost");
    reload(&running, &mut said);
    assert!(get(&address, "/none", "a.one.test").ends_with("lost"));
}
