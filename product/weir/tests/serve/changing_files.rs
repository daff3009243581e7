//! Files that change while they are being sent, or between two requests.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{Client, Server, Site, content, get, on_every_path, wait_until};

/// A size beyond the buffers of a socket and of a client that does not read, so that most of it still has to be read
/// from the file.
const LARGE: usize = 12 << 20;

/// A client that has requested the large file and has read only the head.
fn begun(server: &Server) -> Client {
    let mut client = Client::connect_narrow(server.address);
    client.send(get(&format!("/size-{LARGE}")));
    let (status, head) = client.head();
    assert_eq!(status, 200, "{head}");
    client
}

/// Runs a test on each write path with a separate site that it may change.
fn on_every_path_alone(test: impl Fn(&Site, &Server) + Sync) {
    let sites = [(); 3].map(|()| Site::of_sizes(&[LARGE]));
    let test = &test;
    std::thread::scope(|scope| {
        for (site, path) in sites.iter().zip(crate::common::WRITE_PATHS) {
            scope.spawn(move || {
                let server = Server::start(site, path);
                test(site, &server);
                server.assert_alive();
            });
        }
    });
}

#[test]
fn a_file_that_shrinks_ends_in_a_close_and_a_line() {
    on_every_path_alone(|site, server| {
        let mut client = begun(server);
        File::options().write(true).open(site.path(format!("size-{LARGE}"))).unwrap().set_len(100).unwrap();
        // The bytes handed down before are also gone from the file, so they are not compared.
        assert!(client.rest().len() < LARGE, "more was sent than there is");
        wait_until("a line about it", || {
            server.stderr().iter().any(|line| line.contains("127.0.0.1") && line.contains("shorter"))
        });
        assert_eq!(server.stderr().len(), 1, "{:?}", server.stderr());
        let again = server.connect().get(&format!("/size-{LARGE}"));
        assert!(again.body == content(LARGE)[..100]);
    });
}

#[test]
fn a_file_that_grows_is_sent_as_long_as_was_promised() {
    on_every_path_alone(|site, server| {
        let mut client = begun(server);
        let mut file = OpenOptions::new().append(true).open(site.path(format!("size-{LARGE}"))).unwrap();
        file.write_all(&[b'x'; 100_000]).unwrap();
        assert!(client.body(LARGE) == content(LARGE));
        client.send(format!("GET /size-{LARGE} HTTP/1.1\r\nHost: a\r\nRange: bytes={}-\r\n\r\n", LARGE - 1));
        assert_eq!(client.response().body.len(), 100_001, "the longer file is not served");
    });
}

#[test]
fn a_file_that_vanishes_is_sent_whole() {
    on_every_path_alone(|site, server| {
        let mut client = begun(server);
        let path = site.path(format!("size-{LARGE}"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o0)).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(client.body(LARGE) == content(LARGE));
        assert_eq!(client.get(&format!("/size-{LARGE}")).status, 404);
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
    });
}

#[test]
fn a_file_that_is_replaced_while_it_is_sent_is_sent_as_it_was() {
    on_every_path_alone(|site, server| {
        let mut client = begun(server);
        site.replace(&format!("size-{LARGE}"), b"new");
        assert!(client.body(LARGE) == content(LARGE));
        assert_eq!(client.get(&format!("/size-{LARGE}")).text(), "new");
    });
}

/// The next request sees a file that was changed in any way, on the same connection and on a new one.
#[test]
fn the_next_request_sees_the_change() {
    type Change = fn(&Site, &[u8]);
    let ways: [(&str, Change); 4] = [
        ("replaced", |site, content| site.replace("a", content)),
        ("written over", |site, content| site.write("a", content)),
        ("written in place", |site, content| {
            let file = OpenOptions::new().write(true).open(site.path("a")).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, content, 0).unwrap();
            file.set_len(content.len() as u64).unwrap();
        }),
        ("removed and made", |site, content| {
            std::fs::remove_file(site.path("a")).unwrap();
            site.write("a", content);
        }),
    ];
    let site = Site::with(&[("a", b"first")]);
    on_every_path(&site, &[], |server| {
        let mut client = server.connect();
        for (way, change) in ways {
            for size in [0, 1, 100, 100, 65_536, 65_537, 200_000, 200_000, 5] {
                let mut bytes = content(size);
                bytes.iter_mut().for_each(|byte| *byte ^= way.len() as u8);
                change(&site, &bytes);
                assert!(client.get("/a").body == bytes, "{way}: not the new {size} bytes");
                assert!(server.connect().get("/a").body == bytes, "{way}: not the new {size} bytes");
            }
        }
        std::fs::remove_file(site.path("a")).unwrap();
        assert_eq!(client.get("/a").status, 404);
        site.write("a", b"first");
        assert_eq!(client.get("/a").text(), "first");
    });
}

/// This also holds if it arrives in one turn with older requests, of which there are always some, on kept and on new
/// connections.
#[test]
fn the_next_request_sees_the_change_however_busy_the_server() {
    const ROUNDS: usize = 1500;
    let site = Site::with(&[("a", b"0")]);
    on_every_path(&site, &["--workers", "1"], |server| {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for is_new in [true, true, false] {
                let is_over = &is_over;
                scope.spawn(move || keep_busy(server, is_new, is_over));
            }
            let mut kept = server.connect();
            let stale = (0..ROUNDS).filter(|round| {
                let version = round.to_string();
                site.replace("a", version.as_bytes());
                let response = if round % 2 == 0 { server.connect().get("/a") } else { kept.get("/a") };
                response.text() != version
            });
            let stale = stale.count();
            is_over.store(true, Relaxed);
            assert_eq!(stale, 0, "of {ROUNDS} responses so many were older than the request");
        });
    });
}

fn keep_busy(server: &Server, is_new: bool, is_over: &AtomicBool) {
    let mut client = server.connect();
    while !is_over.load(Relaxed) {
        if is_new {
            client = server.connect();
        }
        client.get("/a");
    }
}

/// Many readers while a file is replaced repeatedly: each response is one complete version with its own tag and length.
#[test]
fn no_response_mixes_two_versions() {
    const ROUNDS: usize = 150;
    let site = Site::with(&[("a", &[b'a'; 70_000])]);
    on_every_path(&site, &[], |server| {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let body = server.connect().get("/a").body;
                        assert!(body.iter().all(|byte| *byte == body[0]), "two versions in one response");
                        let size = if body[0] == b'a' { 70_000 } else { 30_000 };
                        assert_eq!(body.len(), size, "the length is not that of version {}", body[0] as char);
                    }
                });
            }
            for round in 0..ROUNDS {
                let version: &[u8] = if round % 2 == 0 { &[b'b'; 30_000] } else { &[b'a'; 70_000] };
                site.replace("a", version);
            }
            site.replace("a", &[b'a'; 70_000]);
        });
    });
}
