//! From root to a user without privileges: in all threads, permanently, and with regard to files that are opened later.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::common::{Server, Site, WEIR, run_to_end, wait_until, weir_under};

const NOBODY: u32 = 65534;

pub fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        assert!(std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none(), "only root becomes another user");
        println!("SKIPPED: only root becomes another user");
    }
    is_root
}

/// A line of the status of every thread.
pub fn of_threads(server: &Server, line: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten();
    let statuses = threads.map(|thread| std::fs::read_to_string(thread.path().join("status")).unwrap());
    let mut lines: Vec<String> = statuses
        .map(|status| {
            status
                .lines()
                .find_map(|found| found.strip_prefix(line))
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert!(lines.len() > 2, "workers, the log and the watch: {lines:?}");
    lines.dedup();
    lines
}

#[test]
fn every_thread_is_the_user_without_privileges() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("a", b"hello"), ("secret", b"of root")]);
    std::fs::set_permissions(site.served().join("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    for group in [&[][..], &["--group", "54321"]] {
        let server = Server::start(&site, &[&["--user", "65534"], group].concat());
        let gid = if group.is_empty() { "65534" } else { "54321" };
        assert_eq!(of_threads(&server, "Uid:"), [[NOBODY.to_string().as_str(); 4].join(" ")]);
        assert_eq!(of_threads(&server, "Gid:"), [[gid; 4].join(" ")]);
        assert_eq!(of_threads(&server, "Groups:"), [gid]);
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(of_threads(&server, set), ["0000000000000000"], "{set}");
        }
        assert_eq!(of_threads(&server, "NoNewPrivs:"), ["1"]);
        assert!(server.stdout()[0].contains("; as user "), "{:?}", server.stdout());
        assert_eq!(server.connect().get("/a").text(), "hello");
        assert_eq!(server.connect().get("/secret").status, 403);
        // The kernel distinguishes a hung disk from a hung thread.
        let owner = std::fs::metadata(format!("/proc/{}/task/{}/syscall", server.pid(), server.pid())).unwrap().uid();
        assert_eq!(owner, NOBODY);
    }
}

/// Files opened as the user from the start can be opened again.
#[test]
fn logs_are_the_users_own_and_rotate() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("a", b"hello")]);
    let (folder, log) = (site.outside("logs"), site.outside("logs/access"));
    std::fs::create_dir(&folder).unwrap();
    let name = log.display().to_string();
    let dir = site.served().display().to_string();
    // The folder of a clone may not be accessible to other users.
    let state = site.outside("state").display().to_string();
    let args = ["--user", "nobody", "--access-log", &name, "--state", &state];
    let output = run_to_end(&[&["serve", &dir, "--listen", "127.0.0.1:0"], &args[..]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("weir: as user nobody: cannot open access log") && said.contains("Permission"), "{said}");
    assert!(!log.exists());

    chown(&folder, Some(NOBODY), None).unwrap();
    let server = Server::start(&site, &args);
    let ask = |count: usize| {
        assert_eq!(server.connect().get("/a").status, 200);
        wait_until("a line in the log", || std::fs::read_to_string(&log).unwrap_or_default().lines().count() == count);
        assert_eq!(std::fs::metadata(&log).unwrap().uid(), NOBODY);
    };
    ask(1);
    std::fs::rename(&log, site.outside("logs/old")).unwrap();
    server.signal(Signal::USR1);
    wait_until("the log to be opened again", || log.exists());
    ask(1);
    assert!(server.stderr().is_empty(), "{:?}", server.stderr());
}

#[test]
fn mistakes_about_users_are_told() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let told = |args: &[&str]| {
        let output = run_to_end(&[&["serve", &dir, "--listen", "127.0.0.1:0"], args].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (args, status, said) in [
        (&["--user", "no-such-user"][..], 1, "user `no-such-user` is not known"),
        (&["--user", "nobody", "--group", "no-such-group"], 1, "group `no-such-group` is not known"),
        (&["--user", "root"], 1, "user `root` is root"),
        (&["--group", "nogroup"], 2, "--user"),
    ] {
        let (code, told) = told(args);
        assert!(code == Some(status) && told.contains(said) && told.lines().count() == 1, "{told}");
    }
}

/// A copy, because another user may not have access to the build folder.
#[test]
fn only_root_becomes_somebody_else() {
    let site = Site::with(&[("a", b"hello")]);
    let copy = site.outside("weir-copy");
    std::fs::copy(WEIR, &copy).unwrap();
    let serve = |user: &str| {
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&copy);
            command
        } else {
            Command::new(&copy)
        };
        command.arg("serve").arg(site.served()).args(["--listen", "127.0.0.1:0", "--user", user, "--group", "65534"]);
        command
    };
    let output = serve("12345").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot become user 12345: weir runs as user ") && said.contains("sudo"), "{said}");
    if is_root() {
        assert_eq!(Server::spawn(serve("65534")).connect().get("/a").text(), "hello");
    }
}

/// The situation in a container: no list of users, and a root without root's privileges.
#[test]
fn a_container_has_numbers_alone() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("a", b"hello")]);
    let serve = |under: &[&str], args: &[&str]| {
        let mut command = weir_under(under);
        command.arg("serve").arg(site.served()).args(["--listen", "127.0.0.1:0"]).args(args);
        command
    };
    let unlisted = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /etc && exec \"$0\" \"$@\""];
    let server = Server::spawn(serve(&unlisted, &["--user", "12345", "--group", "12345"]));
    assert_eq!(of_threads(&server, "Uid:"), [["12345"; 4].join(" ")]);
    assert_eq!(of_threads(&server, "Groups:"), ["12345"]);
    assert_eq!(server.connect().get("/a").text(), "hello");

    let bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"];
    for (under, user, said) in [
        (&unlisted[..], "12345", "user 12345 is not in the user database, so its group is not known; expected a group"),
        (&unlisted, "nobody", "user `nobody` is not known"),
        (&bare, "nobody", "cannot become user nobody: setting its groups: Operation not permitted"),
        (&bare, "nobody", "this needs CAP_SETUID and CAP_SETGID"),
    ] {
        let output = serve(under, &["--user", user]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && told.contains(said), "{told}");
    }
}

/// The file is read again at SIGHUP, as the user.
#[test]
fn a_configuration_that_the_user_cannot_read_fails_the_start() {
    if !is_root() {
        return;
    }
    let site = Site::new();
    let file = site.outside("weir.toml");
    let text = format!(
        "[server]\nuser = \"nobody\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n",
        site.served().display()
    );
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let run = |file: &Path| run_to_end(&["run", &file.display().to_string()]);
    let said = String::from_utf8(run(&file).stderr).unwrap();
    assert!(said.contains("again as server.user: Permission denied") && said.contains("chmod g+r"), "{said}");
}
