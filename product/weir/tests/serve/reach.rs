//! A reload that needs more than the sandbox allowed at the start is refused as a whole, and `weir reload --upgrade`
//! performs it in a new process.

use std::cell::Cell;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::Signal;

use crate::common::{Server, Site, Upstream, answer, run_to_end, wait_until};
use crate::privileges::has_landlock;
use crate::upgrades::{Serving, free_port, serving};

/// The request and the body of its response.
type Expected = (&'static str, &'static str);

/// A server, and folders that its sandbox does not allow: the folder above a root may be read.
struct Apart {
    site: Site,
    elsewhere: Site,
    /// A different port for each server, because one that was killed may hold its port for a moment.
    port: Cell<u16>,
}

impl Apart {
    fn new() -> Apart {
        let site = Site::with(&[("page", b"page")]);
        std::fs::create_dir(site.outside("spool")).unwrap();
        let elsewhere = Site::with(&[("file", b"accelerated"), ("404.html", b"lost")]);
        Apart { site, elsewhere, port: Cell::new(free_port()) }
    }

    /// Writes the file with these lines in its tables for the server and the site.
    fn write(&self, of_server: &str, of_site: &str) {
        let (root, spool) = (self.site.served(), self.site.outside("spool"));
        let text = format!(
            "[server]\nspool_folder = '{}'\n{of_server}\n[[listener]]\naddress = '127.0.0.1:{}'\n[[site]]\nroot = '{}'\n{of_site}\n",
            spool.display(),
            self.port.get(),
            root.display()
        );
        std::fs::write(self.site.outside("weir.toml"), text).unwrap();
    }

    fn run(&self) -> Server {
        Server::run(&self.site.outside("weir.toml"))
    }
}

/// Answers each request, and a path with `accel` by a file.
fn program() -> Upstream {
    Upstream::start(|asked, socket| {
        let field = if asked.path().contains("accel") { "X-Accel-Redirect: /file\r\n" } else { "" };
        answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n", field.as_bytes(), b"\r\nprogram"])
    })
}

fn reload(server: &Server) -> (Option<i32>, String) {
    let output = run_to_end(&["reload", "--pid", &server.pid().to_string()]);
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn reload_with_upgrade(server: &Server) -> Serving {
    let output = run_to_end(&["reload", "--upgrade", "--pid", &server.pid().to_string()]);
    serving(output).unwrap_or_else(|said| panic!("{said}"))
}

/// Asserts that the server can reload `after`, which the sandbox of `before` does not allow, only in another process.
fn assert_needs_upgrade(apart: &Apart, before: &[&str; 2], after: &[&str; 2], said: &str, (path, body): Expected) {
    apart.port.set(free_port());
    apart.write(before[0], before[1]);
    let server = apart.run();
    if !has_landlock(&server) {
        println!("SKIPPED: no Landlock in this kernel");
        return;
    }
    apart.write(after[0], after[1]);
    let (status, reasons) = reload(&server);
    assert!(
        status == Some(1) && reasons.contains(said) && reasons.contains("run `weir upgrade`"),
        "{after:?}: {reasons}"
    );
    assert_eq!(server.connect().get("/page").text(), "page", "that from before stays in force");
    let _next = reload_with_upgrade(&server);
    // On a busy machine a name is found later than the start waits.
    wait_until(body, || server.connect().get(path).body == body.as_bytes());
}

/// Earlier it took effect, and each request then got 502 or 404.
#[test]
fn upstreams_that_the_sandbox_forbids_need_another_process() {
    let program = program();
    let apart = Apart::new();
    let port = program.address.port();
    let proxy = |to: &str, more: &str| format!("[[site.proxy]]\npath = '/p/*'\nto = ['{to}']\n{more}\n");
    let [by_address, by_name] = [format!("127.0.0.1:{port}"), format!("localhost:{port}")].map(|to| proxy(&to, ""));
    let accel = format!("accel_root = '{}'", apart.elsewhere.served().display());
    let accelerated = proxy(&format!("127.0.0.1:{port}"), &accel);
    let asked = format!("[[site.access]]\nauth_url = 'http://127.0.0.1:{port}/'\n");
    let errors = apart.elsewhere.served();
    let pages = format!("error_root = '{}'\n[[site.error_page]]\nstatus = 404\nfile = '/404.html'\n", errors.display());
    let cases: [(&str, &str, &str, Expected); 5] = [
        ("", &by_address, "weir.toml:8:1: a connection to `127.0.0.1:", ("/p/a", "program")),
        ("", &asked, "a connection to `127.0.0.1:", ("/page", "page")),
        (&by_address, &by_name, "the file `/etc/", ("/p/a", "program")),
        (&by_address, &accelerated, "`: Permission denied", ("/p/accel", "accelerated")),
        ("", &pages, "Permission denied", ("/none", "lost")),
    ];
    for (before, after, said, expected) in cases {
        assert_needs_upgrade(&apart, &["", before], &["", after], said, expected);
    }
}

/// Earlier slow clients held their upstreams, with a log line for each response.
#[test]
fn files_for_responses_that_the_sandbox_forbids_need_another_process() {
    let program = program();
    let apart = Apart::new();
    let proxy = format!("[[site.proxy]]\npath = '/p/*'\nto = ['{}']\n", program.address);
    let of_server = |bytes: &str| format!("[limits]\nspool = '{bytes}'");
    let [without, with] = ["0", "1GB"].map(of_server);
    assert_needs_upgrade(&apart, &[&without, &proxy], &[&with, &proxy], "limits.spool", ("/p/a", "program"));
}

/// A reload may use everything that the start allows: other ports, the same names, no files for responses.
#[test]
fn upstreams_that_the_sandbox_allows_are_reloaded() {
    let program = program();
    let apart = Apart::new();
    let socket = apart.site.outside("socket");
    let _listening = UnixListener::bind(&socket).unwrap();
    let unspooled = |to: &str| format!("[[site.proxy]]\npath = '/p/*'\nto = ['{to}']\nmax_temp_file_size = '0'\n");
    apart.write("", &unspooled(&unix(&socket)));
    let server = apart.run();
    apart.write("", &format!("{}{}", unspooled(&unix(&socket)), unspooled(&unix(&socket)).replace("/p/", "/q/")));
    assert_eq!(reload(&server).0, Some(0), "a socket is a file that nothing forbids");
    drop(server);
    apart.port.set(free_port());
    apart.write("", &format!("[[site.proxy]]\npath = '/p/*'\nto = ['localhost:{}']\n", free_port()));
    let server = apart.run();
    apart.write("", &format!("[[site.proxy]]\npath = '/p/*'\nto = ['localhost:{}']\n", program.address.port()));
    let (status, said) = reload(&server);
    assert_eq!(status, Some(0), "{said}");
    // On a busy machine the name is found later than the reload waits.
    wait_until("the address of the name", || server.connect().get("/p/a").body == b"program");
}

fn unix(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// Starts a server whose file is `conf/weir.toml`, which is not accessible through the folder above its root.
fn run_from(apart: &Apart, text: &str) -> Server {
    let conf = apart.elsewhere.outside("conf");
    std::fs::create_dir_all(&conf).unwrap();
    apart.port.set(free_port());
    apart.write("", "");
    let whole = std::fs::read_to_string(apart.site.outside("weir.toml")).unwrap();
    std::fs::write(conf.join("weir.toml"), format!("{text}\n{whole}")).unwrap();
    Server::run(&conf.join("weir.toml"))
}

/// Earlier the reason was just `Permission denied`, and `--upgrade` did not help.
#[test]
fn files_of_the_configuration_out_of_reach_need_another_process() {
    let apart = Apart::new();
    let conf = apart.elsewhere.outside("conf");
    let assert_upgrades = |server: &Server, said: &str| {
        let (status, reasons) = reload(server);
        let is_told = reasons.contains(said) && reasons.contains("is outside weir's sandbox: run `weir upgrade`");
        assert!(status == Some(1) && is_told, "{reasons}");
        let _next = reload_with_upgrade(server);
        assert_eq!(server.connect().get("/page").text(), "page");
    };
    let server = run_from(&apart, "");
    if !has_landlock(&server) {
        println!("SKIPPED: no Landlock in this kernel");
        return;
    }
    std::fs::rename(&conf, apart.elsewhere.outside("old")).unwrap();
    std::fs::create_dir(&conf).unwrap();
    std::fs::copy(apart.elsewhere.outside("old/weir.toml"), conf.join("weir.toml")).unwrap();
    assert_upgrades(&server, "weir.toml: Permission denied");
    drop(server);

    let server = run_from(&apart, "");
    let included = apart.elsewhere.outside("sites");
    std::fs::create_dir(&included).unwrap();
    std::fs::write(included.join("a.toml"), "[[class]]\nname = 'a'\n[[class.rule]]\npath = '/a'\n").unwrap();
    let whole = std::fs::read_to_string(conf.join("weir.toml")).unwrap();
    for pattern in ["*.toml", "a.toml"] {
        let text = format!("include = ['{}/{pattern}']\n{whole}", included.display());
        std::fs::write(conf.join("weir.toml"), text).unwrap();
        let (status, reasons) = reload(&server);
        assert!(status == Some(1) && reasons.contains("weir.toml:1:12: include `"), "{reasons}");
    }
    assert_upgrades(&server, "Permission denied");
}

#[test]
fn a_log_whose_folder_is_another_is_said_to_need_another_process() {
    let apart = Apart::new();
    let logs = apart.elsewhere.outside("logs");
    std::fs::create_dir(&logs).unwrap();
    apart.write(&format!("access_log = '{}/a.log'", logs.display()), "");
    let server = apart.run();
    if !has_landlock(&server) {
        println!("SKIPPED: no Landlock in this kernel");
        return;
    }
    std::fs::rename(&logs, apart.elsewhere.outside("old")).unwrap();
    std::fs::create_dir(&logs).unwrap();
    server.signal(Signal::USR1);
    let said = |line: &String| {
        line.contains("cannot reopen") && line.contains("is outside weir's sandbox: run `weir upgrade`")
    };
    wait_until("a line about the log", || server.stderr().iter().any(said));
}
