//! `weir init` writes a file that `weir check` accepts.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Folder, said, weir};

/// The output of `weir init` with these flags and this input.
fn init(folder: &Folder, flags: &[&str], lines: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let command = command.arg("init").args(flags).current_dir(&folder.0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // It may have ended by now.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    said(&child.wait_with_output().unwrap())
}

#[test]
fn init_writes_a_file_that_is_correct_and_no_second_one() {
    let folder = Folder::new("init");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let init = || init(&folder, &["--listen", "127.0.0.1:0"], "folder\nwww\na.test\nnone\n10mbit\n");
    let written =
        "Written: weir.toml\nweir.toml: correct: 1 listener, 1 site, 0 classes\nServe it: weir run weir.toml\n";
    assert_eq!(init(), (Some(0), written.into(), String::new()));
    let refused = "weir: weir.toml exists: edit it, or give another name: weir init FILE\n";
    assert_eq!(init(), (Some(1), String::new(), refused.into()));
    assert_eq!(weir(&folder.0, &["check"]).status.code(), Some(0));
}

/// Each kind of recipe with flags alone: the file is correct, and has the keys of the kind.
#[test]
fn init_asks_nothing_that_flags_answer() {
    let folder = Folder::new("init-flags");
    for name in ["www", "dist/assets", "wordpress/wp-content"] {
        std::fs::create_dir_all(folder.0.join(name)).unwrap();
    }
    folder.write("dist/index.html", "app");
    folder.write("wordpress/index.php", "<?php");
    // The socket exists; otherwise a remark would say that it does not.
    let _php = std::os::unix::net::UnixListener::bind(folder.0.join("php.sock")).unwrap();
    let socket = format!("unix:{}", folder.0.join("php.sock").display());
    for (name, flags, keys) in [
        ("folder", &["--folder", "www"][..], &["root = "][..]),
        (
            "program",
            &["--serve", "program", "--program", ":3000", "--domain", "a.test b.test", "--certificate", "none"],
            &["hosts = [\"a.test\", \"b.test\"]", "to = [\":3000\"]"],
        ),
        (
            "app",
            &["--serve", "app", "--uplink", "10mbit"],
            &["fallback = \"/index.html\"", "path = \"/assets/*\"", "rate = \"10mbit\""],
        ),
        (
            "php",
            &["--serve", "php", "--folder", "wordpress", "--php-fpm", &socket],
            &["fallback = \"/index.php\"", "fastcgi_except = [\"/wp-content/uploads/*\"]", "php.sock"],
        ),
    ] {
        let file = format!("{name}.toml");
        let flags = [&["--defaults", "--listen", "127.0.0.1:0", &file], flags].concat();
        let (status, out, err) = init(&folder, &flags, "");
        let expected = format!("Written: {file}\n{file}: correct: 1 listener, 1 site, 0 classes\n");
        assert!(status == Some(0) && out.starts_with(&expected) && err.is_empty(), "{flags:?}: {out}{err}");
        let text = std::fs::read_to_string(folder.0.join(&file)).unwrap();
        assert!(keys.iter().all(|key| text.contains(key)), "{text}");
        assert_eq!(weir(&folder.0, &["check", &file]).status.code(), Some(0));
    }
}

/// With a certificate by ACME it listens on both ports and redirects. Impossible combinations are refused with advice,
/// and nothing is written.
#[test]
fn init_knows_what_a_certificate_needs() {
    let folder = Folder::new("init-acme");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let refused = |flags: &[&str]| {
        let (status, _, err) = init(&folder, &[&["--defaults"], flags].concat(), "");
        assert!(!folder.0.join("weir.toml").exists(), "{err}");
        (status, err)
    };
    for (flags, status, expected) in [
        (&["--certificate", "acme"][..], 2, "weir: --certificate: `acme`: a certificate is for host names; expected"),
        (&["--domain", "*.a.org"], 1, "weir: site.hosts `*.a.org`: only dns-01 can prove a wildcard: expected"),
        (&["--certificate", "own"], 1, "weir: `fullchain.pem`: expected a PEM file that exists"),
        (&["--cert", "a"], 2, "weir: --cert has no effect with --certificate none; expected one of them alone"),
        (&["--serve", "app"], 1, "/dist`: expected a folder that exists"),
        (&["--uplink", "fast"], 2, "weir: --uplink: uplink.rate `fast`: expected"),
        (&["--listen", "80"], 2, "weir: --listen: listener.address `80`: expected"),
    ] {
        let (is, err) = refused(flags);
        assert!(is == Some(status) && err.contains(expected), "{flags:?}: {err}");
    }
    let (_, out, err) = init(&folder, &["--defaults", "--domain", "a.org"], "");
    let text = std::fs::read_to_string(folder.0.join("weir.toml")).unwrap_or_default();
    for key in [
        "address = \":80\"",
        "address = \":443\"\ntls = true",
        "[acme]",
        "hosts = [\"a.org\"]",
        "https_redirect = true",
    ] {
        assert!(text.contains(key), "{key}: {text}{out}{err}");
    }
    assert_eq!(weir(&folder.0, &["check", "--syntax-only"]).status.code(), Some(0));
}

/// After a wrong answer the question is repeated; an empty one selects the value in brackets.
#[test]
fn init_asks_at_a_terminal_until_an_answer_is_right() {
    let folder = Folder::new("init-terminal");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave: OwnedFd = File::options().read(true).write(true).open(path).unwrap().into();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["init", "--listen", "127.0.0.1:0"]).current_dir(&folder.0);
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = File::from(master);
    terminal.write_all(b"all\nfolder\nnowhere\n\na.test\nnone\nfast\n10mbit\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // A terminal whose program has ended returns its text, then an error.
    let mut said = Vec::new();
    let _ = terminal.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    for expected in ["`all`: expected folder, program", "/nowhere`: expected a folder", "[www]: ", "uplink.rate `fast`"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(said.contains("Written: weir.toml") && said.contains("weir.toml: correct: 1 listener"), "{said}");
}
