//! The privileges that a server keeps: root's keys, its memory, and the files and calls that it may use.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::common::tls::Made;
use crate::common::{Server, Site, run_to_end, wait_until, weir_under};
use crate::user::{is_root, of_threads};

/// Gives the keys the mode for root alone.
fn of_root(made: &Made) {
    for file in [&made.cert, &made.key] {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    }
}

fn reload(server: &Server) -> (bool, String) {
    let output = run_to_end(&["reload", "--pid", &server.pid().to_string()]);
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// The processes that this one started.
fn children(server: &Server) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn has_ended(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
}

/// A certificate and its key, and a file that uses them with the user `nobody`.
fn as_nobody(site: &Site, name: &str) -> String {
    let dir = site.served().display().to_string();
    let files = ["pem", "key"].map(|end| site.outside(&format!("{name}.{end}")).display().to_string());
    format!(
        "[server]\nuser = 'nobody'\n[[listener]]\naddress = '127.0.0.1:0'\ntls = true\nhttp3 = false\n\
         [[site]]\nroot = '{dir}'\ncert = '{}'\nkey = '{}'\n",
        files[0], files[1]
    )
}

#[test]
fn keys_of_root_alone_are_read_at_the_start_and_at_each_reload() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("a", b"hello")]);
    let old = Made::new(&site, "own", &["localhost"]);
    of_root(&old);
    let server = Server::start(&site, &[&["--user", "nobody"][..], &old.flags()].concat());
    assert_eq!(old.trust().connect(server.address, "localhost").get("/a").1, b"hello");
    let helpers = children(&server);
    assert_eq!(helpers.len(), 1);
    // A signal to all processes of this name does not end it.
    for signal in [Signal::HUP, Signal::TERM, Signal::INT] {
        kill_process(Pid::from_raw(helpers[0]).unwrap(), signal).unwrap();
    }

    let new = Made::new(&site, "own", &["localhost"]);
    of_root(&new);
    let (is_used, said) = reload(&server);
    assert!(is_used && said.contains("1 site is in force"), "{said}");
    assert_eq!(new.trust().connect(server.address, "localhost").get("/a").1, b"hello");

    server.signal(Signal::TERM);
    assert!(server.exit_status().success());
    wait_until("the end of the helper", || has_ended(helpers[0]));
}

/// Folders of 0700, keys of 0600, and symlinks that a renewal changes to files of other names.
#[test]
fn what_certbot_keeps_for_root_is_read_again_after_a_renewal() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("a", b"hello")]);
    let folders = ["live", "archive", "live/localhost", "archive/localhost"].map(|name| site.outside(name));
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let renew = |nth: usize| {
        let made = Made::new(&site, &format!("archive/localhost/{nth}"), &["localhost"]);
        of_root(&made);
        for (link, file) in [("fullchain.pem", &made.cert), ("privkey.pem", &made.key)] {
            let (link, name) = (folders[2].join(link), file.file_name().unwrap());
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(std::path::Path::new("../../archive/localhost").join(name), link).unwrap();
        }
        made
    };
    let old = renew(1);
    let [cert, key] = ["fullchain.pem", "privkey.pem"].map(|name| folders[2].join(name).display().to_string());
    let server = Server::start(&site, &["--user", "nobody", "--cert", &cert, "--key", &key]);
    assert_eq!(old.trust().connect(server.address, "localhost").get("/a").1, b"hello");
    let new = renew(2);
    let (is_used, said) = reload(&server);
    assert!(is_used, "{said}");
    assert_eq!(new.trust().connect(server.address, "localhost").get("/a").1, b"hello");
}

/// A file of another name is read as the user, so that a compromised server cannot have any file read as root.
#[test]
fn a_key_that_was_not_named_at_the_start_is_read_as_the_user() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("a", b"hello")]);
    let [old, new] = ["old", "new"].map(|name| Made::new(&site, name, &["localhost"]));
    of_root(&old);
    of_root(&new);
    let file = site.outside("weir.toml");
    std::fs::write(&file, as_nobody(&site, "old")).unwrap();
    let server = Server::run(&file);
    std::fs::write(&file, as_nobody(&site, "new")).unwrap();
    let (is_used, said) = reload(&server);
    assert!(!is_used && said.contains("new.pem`: Permission denied"), "{said}");
    assert_eq!(old.trust().connect(server.address, "localhost").get("/a").1, b"hello");

    kill_process(Pid::from_raw(children(&server)[0]).unwrap(), Signal::KILL).unwrap();
    std::fs::write(&file, as_nobody(&site, "old")).unwrap();
    let (is_used, said) = reload(&server);
    assert!(!is_used && said.contains("(weir-keys) has ended; run `weir upgrade`"), "{said}");
    assert_eq!(old.trust().connect(server.address, "localhost").get("/a").1, b"hello");
}

/// The owner of the files that show the memory of a process: root, if they are hidden from the user.
fn owner_of_memory(pid: u32) -> u32 {
    std::fs::metadata(Path::new("/proc").join(pid.to_string()).join("mem")).unwrap().uid()
}

#[test]
fn a_process_with_keys_is_hidden_from_its_own_user() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("a", b"hello")]);
    let made = Made::new(&site, "own", &["localhost"]);
    let plain = Server::start(&site, &["--user", "nobody"]);
    assert_ne!(owner_of_memory(plain.pid()), 0);
    let server = Server::start(&site, &[&["--user", "nobody"][..], &made.flags()].concat());
    assert_eq!(owner_of_memory(server.pid()), 0);
}

#[test]
fn serving_as_root_is_one_loud_line() {
    let site = Site::new();
    let server = Server::start(&site, &[]);
    if !geteuid().is_root() {
        assert!(server.warnings().is_empty());
        return;
    }
    wait_until("a warning", || !server.warnings().is_empty());
    assert!(
        server.warnings().len() == 1 && server.warnings()[0].contains("running as root"),
        "{:?}",
        server.warnings()
    );
    let user = Server::start(&site, &["--user", "nobody"]);
    assert_eq!(user.connect().get("/none").status, 404);
    user.signal(Signal::TERM);
    user.exit_status();
    assert!(user.warnings().is_empty());
}

/// A site with a folder next to it, a log and a file that names them.
fn sandboxed(site: &Site, root: &str, more: &str) -> String {
    let (dir, log) = (site.outside(root), site.outside("logs/access"));
    let (dir, log) = (dir.display(), log.display());
    format!(
        "[server]\naccess_log = '{log}'\n{more}[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = '{dir}'\nautoindex = true\n"
    )
}

/// In separate folders, because the configuration's folder is accessible.
fn run_apart(site: &Site, text: &str) -> Server {
    for folder in ["conf", "logs"] {
        std::fs::create_dir_all(site.outside(folder)).unwrap();
    }
    std::fs::write(site.outside("conf/weir.toml"), text).unwrap();
    Server::run(&site.outside("conf/weir.toml"))
}

pub fn has_landlock(server: &Server) -> bool {
    !server.stderr().iter().any(|line| line.contains("no Landlock"))
}

#[test]
fn every_thread_is_under_the_filter_unless_told_otherwise() {
    let site = Site::with(&[("a", b"hello")]);
    for (flags, mode, privileges) in [(&[][..], "2", "1"), (&["--no-sandbox"], "0", "0")] {
        let server = Server::start(&site, flags);
        assert_eq!(server.connect().get("/a").text(), "hello");
        assert_eq!(of_threads(&server, "Seccomp:"), [mode]);
        assert_eq!(of_threads(&server, "NoNewPrivs:"), [privileges]);
    }
}

/// Logs are rotated, reloads take effect, and the served folder changes: everything works as without the sandbox.
#[test]
fn under_the_sandbox_logs_turn_and_reloads_count() {
    let site = Site::with(&[("a", b"hello"), ("b/c", b"deeper")]);
    std::fs::write(site.outside("secret"), b"not served").unwrap();
    std::os::unix::fs::symlink("a", site.served().join("inside")).unwrap();
    std::os::unix::fs::symlink("../secret", site.served().join("outside")).unwrap();
    let text = sandboxed(&site, "site", "");
    let server = run_apart(&site, &text);
    let log = site.outside("logs/access");
    for round in 1..=2 {
        for (path, status) in [("/a", 200), ("/b/", 200), ("/inside", 200), ("/outside", 404), ("/none", 404)] {
            assert_eq!(server.connect().get(path).status, status, "{path}");
        }
        wait_until("lines in the log", || std::fs::read_to_string(&log).unwrap_or_default().lines().count() == 5);
        std::fs::rename(&log, site.outside("logs/old")).unwrap();
        if round == 1 {
            server.signal(Signal::USR1);
        } else {
            let (is_used, said) = reload(&server);
            assert!(is_used, "{said}");
        }
        wait_until("another log", || log.exists());
    }
    let status = run_to_end(&["status", "--pid", &server.pid().to_string()]);
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let is_expected =
        |line: &String| line.contains("1 site is in force") || line.contains("outside`: it is a symlink to");
    assert!(server.stderr().iter().all(is_expected), "{:?}", server.stderr());
}

/// The change is not used and the reason is reported; after a restart, or without a sandbox, it is served.
#[test]
fn a_folder_that_is_new_since_the_start_needs_a_restart() {
    let site = Site::with(&[("a", b"old")]);
    // The folder above a root may be read, so that a replaced root is found.
    let other = Site::with(&[("a", b"new")]);
    let new = other.served().display().to_string();
    for (more, is_taken) in [("", false), ("sandbox = false\n", true)] {
        let server = run_apart(&site, &sandboxed(&site, "site", more));
        if !has_landlock(&server) {
            println!("SKIPPED: no Landlock in this kernel");
            return;
        }
        std::fs::write(site.outside("conf/weir.toml"), sandboxed(&site, &new, more)).unwrap();
        let (is_used, said) = reload(&server);
        assert_eq!(is_used, is_taken, "{said}");
        assert!(is_taken || said.contains("Permission denied") && said.contains("run `weir upgrade`"), "{said}");
        assert_eq!(server.connect().get("/a").text(), if is_taken { "new" } else { "old" });
    }
}

/// A deployment changes a symlink to the next folder.
#[test]
fn a_symlink_to_another_release_is_followed_at_a_reload() {
    let site = Site::new();
    for release in ["1", "2"] {
        std::fs::create_dir_all(site.outside(&format!("releases/{release}"))).unwrap();
        std::fs::write(site.outside(&format!("releases/{release}/a")), release).unwrap();
    }
    let current = site.outside("current");
    std::os::unix::fs::symlink("releases/1", &current).unwrap();
    let server = run_apart(&site, &sandboxed(&site, "current", ""));
    assert_eq!(server.connect().get("/a").text(), "1");
    std::fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink("releases/2", &current).unwrap();
    let (is_used, said) = reload(&server);
    assert!(is_used, "{said}");
    assert_eq!(server.connect().get("/a").text(), "2");
    // This also holds for a server without a configuration file.
    let mut command = weir_under(&[]);
    command.arg("serve").arg(&current).args(["--listen", "127.0.0.1:0"]);
    let server = Server::spawn(command);
    assert_eq!(server.connect().get("/a").text(), "2");
    std::fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink("releases/1", &current).unwrap();
    let (is_used, said) = reload(&server);
    assert!(is_used, "{said}");
    assert_eq!(server.connect().get("/a").text(), "1");
}
