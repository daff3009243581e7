//! A site's folder is the one to which its path leads: it is replaced, created again, mounted over, or unmounted while
//! it is served. Also symlinks that lead out of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Server, Site, wait_until, weir_under};
use crate::user::is_root;

/// A size beyond the limit of memory, so that the file stays open.
const LARGE: usize = 200 << 10;

fn make(folder: PathBuf, text: &str) {
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("index.html"), text).unwrap();
    fs::write(folder.join("large"), vec![b'x'; LARGE]).unwrap();
}

/// Runs with the default sandbox, and sends no signal to the server.
#[test]
fn a_folder_in_the_place_of_the_root_is_served() {
    let site = Site::with(&[("index.html", b"one")]);
    let [root, old, new] = [site.served(), site.outside("old"), site.outside("new")];
    let server = Server::start(&site, &["--uplink", "off", "--workers", "1"]);
    let mut client = server.connect();
    let mut get = |path: &str| client.get(path);
    assert_eq!(get("/").text(), "one");
    for text in ["two", "three"] {
        make(new.clone(), text);
        fs::rename(&root, &old).unwrap();
        fs::rename(&new, &root).unwrap();
        wait_until("the new pages", || get("/").text() == text);
        assert_eq!(get("/large").body.len(), LARGE);
        fs::remove_dir_all(&old).unwrap();
    }
    let said = |what: &str| server.stderr().iter().any(|line| line.contains(what));
    wait_until("a line about the other folder", || {
        said(&format!("site root `{}` is another folder now", root.display()))
    });
    fs::remove_dir_all(&root).unwrap();
    // The files are removed before the server next checks the folder, which only a request causes.
    wait_until("404 and a line about it", || get("/").status == 404 && said("is gone: its files are missing"));
    make(root.clone(), "four");
    wait_until("the folder that was made anew", || get("/").text() == "four");
}

/// A disk is mounted over the root while it is served, and can be unmounted once no client requests its files.
#[test]
fn a_disk_over_the_root_is_served_and_can_be_unmounted() {
    if !is_root() {
        return;
    }
    let site = Site::with(&[("index.html", b"below")]);
    let root = site.served().display().to_string();
    let server = Server::start_under(&["unshare", "--mount"], "127.0.0.1:0", &site, &["--uplink", "off"]);
    let pid = server.pid().to_string();
    let inside = |script: &str| {
        let words = ["-t", &pid, "--mount", "sh", "-c", script, &root];
        Command::new("nsenter").args(words).output().unwrap().status.success()
    };
    let get = |path: &str| server.connect().get(path);
    assert_eq!(get("/").text(), "below");
    assert!(inside(
        "mount -t tmpfs none \"$0\" && echo -n disk > \"$0/index.html\" && head -c 200000 /dev/zero > \"$0/large\""
    ));
    wait_until("the disk", || get("/").text() == "disk");
    assert_eq!(get("/large").body.len(), 200_000);
    wait_until("the end of the mount", || inside("umount \"$0\""));
    wait_until("what was below", || get("/").text() == "below");
    assert_eq!(get("/large").status, 404);
}

#[test]
fn a_symlink_out_of_the_root_is_told_of_and_followed_where_its_folder_is_named() {
    let site = Site::with(&[("index.html", b"i")]);
    let media = site.outside("media");
    fs::create_dir(&media).unwrap();
    fs::write(media.join("film"), "film").unwrap();
    fs::write(site.outside("secret"), "secret").unwrap();
    site.link(&media, "films");
    site.link("../secret", "other");
    let media = media.canonicalize().unwrap().display().to_string();
    let server = Server::start(&site, &["--uplink", "off"]);
    assert_eq!(server.connect().get("/films/film").status, 404);
    let line = format!("films`: it is a symlink to `{media}`, outside the root");
    let cure = format!("name `{media}` in site.follow_symlinks_into (--follow-symlinks-into) to serve it");
    wait_until("a line about it", || server.stderr().iter().any(|said| said.contains(&line) && said.contains(&cure)));

    let server = Server::start(&site, &["--uplink", "off", "--follow-symlinks-into", &media]);
    assert_eq!(server.connect().get("/films/film").text(), "film");
    assert_eq!(server.connect().get("/other").status, 404, "another folder");
    fs::write(format!("{media}/film"), "cut").unwrap();
    assert_eq!(server.connect().get("/films/film").text(), "cut");
}

/// Asserts that a server with a wrong page in a site starts, names the page, and does not wait for it.
fn starts_and_names(file: &str, named: &str) {
    let server = Server::run(Path::new(file));
    let is_named = |line: &String| line.contains(named) && line.contains("it is a folder, a FIFO or a device");
    wait_until("a line about the page", || server.stderr().iter().any(is_named));
    assert_eq!(server.connect().get("/none").status, 404);
}

/// A reader of a FIFO waits for a writer.
#[test]
fn a_fifo_in_the_place_of_a_file_is_refused() {
    let site = Site::new();
    let fifo = site.outside("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    let (fifo, root) = (fifo.display().to_string(), site.served().display().to_string());
    std::os::unix::fs::symlink(&fifo, site.path("page.html")).unwrap();
    let file = |text: &str| {
        let file = site.outside("weir.toml");
        fs::write(&file, format!("[[listener]]\naddress = '127.0.0.1:0'\n{text}")).unwrap();
        file.display().to_string()
    };
    let site_with = |text: &str| file(&format!("[[site]]\nroot = '{root}'\n{text}\n"));
    let page = site_with("[[site.error_page]]\nstatus = 404\nfile = '/page.html'");
    let refused = |words: &[&str]| {
        // The program has the time limit and not the test, and is then ended.
        let output = weir_under(&["timeout", "30"]).args(words).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("it is a folder, a FIFO or a device; expected a regular file"), "{words:?}: {said}");
    };
    refused(&["check", &fifo]);
    refused(&["run", &fifo]);
    refused(&["reload", "--pid-file", &fifo]);
    refused(&["check", &page]);
    let listing = site_with("autoindex = true\nlisting_page = '/page.html'");
    refused(&["check", &listing]);
    starts_and_names(&site_with("[[site.error_page]]\nstatus = 404\nfile = '/page.html'"), ":5:1: error page ");
    starts_and_names(&site_with("autoindex = true\nlisting_page = '/page.html'"), ":6:16: listing page ");
    let secure = site_with(&format!("cert = '{fifo}'\nkey = '{fifo}'")).to_string();
    let text = fs::read_to_string(&secure).unwrap().replace("127.0.0.1:0'", "127.0.0.1:0'\ntls = true");
    fs::write(&secure, text).unwrap();
    refused(&["check", &secure]);
    refused(&["run", &secure]);
}

/// A site with its file, a folder from which servers are started, and one that belongs to no server.
struct Folders {
    _site: Site,
    file: PathBuf,
    started: PathBuf,
    other: PathBuf,
}

impl Folders {
    fn new() -> Folders {
        let site = Site::with(&[("a", b"a")]);
        let [file, started, other] = ["weir.toml", "started", "elsewhere"].map(|name| site.outside(name));
        [&started, &other].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let root = site.served().display().to_string();
        fs::write(&file, format!("[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = '{root}'\n")).unwrap();
        Folders { _site: site, file, started, other }
    }

    fn start(&self) -> Server {
        let mut command = weir_under(&[]);
        command.arg("run").arg(&self.file).current_dir(&self.started);
        Server::spawn(command)
    }
}

/// The exit status of a command run in this folder, and its whole output.
fn from(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = weir_under(&[]).args(words).current_dir(folder).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Earlier root's command affected the only server of the machine, whatever its folder.
#[test]
fn a_server_of_another_folder_is_not_changed_unless_it_is_named() {
    let folders = Folders::new();
    let server = folders.start();
    let pid = server.pid().to_string();
    for command in ["reload", "upgrade"] {
        let (status, said) = from(&folders.other, &[command]);
        let named = format!("\n  weir {command} --pid {pid}   # ");
        assert!(status == Some(2) && said.contains("choose one:") && said.contains(&named), "{said}");
        assert!(!server.has_ended() && server.stderr().is_empty(), "{:?}", server.stderr());
    }
    for folder in [&*folders.started, folders.file.parent().unwrap()] {
        let (status, said) = from(folder, &["reload"]);
        assert!(status == Some(0) && said.contains(&format!("server {pid}: configuration read again")), "{said}");
    }
    assert_eq!(from(&folders.other, &["reload", "--pid", &pid]).0, Some(0));
    assert_eq!(from(&folders.other, &["status", "--pid", &pid]).0, Some(0));
}

#[test]
fn of_two_servers_of_one_folder_one_is_to_be_named() {
    let folders = Folders::new();
    let [first, second] = [folders.start(), folders.start()];
    let (status, said) = from(&folders.started, &["reload"]);
    assert!(status == Some(2) && said.contains("2 servers of this user were started from this folder"), "{said}");
    let is_listed = |server: &Server| said.contains(&format!("weir reload --pid {} ", server.pid()));
    assert!(is_listed(&first) && is_listed(&second), "{said}");
}
