//! Files on a disk that does not answer.

use std::time::Duration;

use crate::common::{Site, SlowDisk, content, get, on_every_path};

/// Longer than the test.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[test]
fn a_disk_that_hangs_keeps_nobody_else_waiting() {
    let site = Site::of_sizes(&[10, 300_000]);
    on_every_path(&site, &["--workers", "1"], |server| {
        // Unmounted before the server is ended: a thread that reads there cannot be ended.
        let Some(_disk) = SlowDisk::mount(&site, FOR_EVER) else { return };
        let mut waiting: Vec<_> = (0..10).map(|_| server.connect()).collect();
        for client in &mut waiting {
            client.send(get("/cold-disk/file.bin"));
            assert_eq!(client.head().0, 200);
        }
        for _ in 0..20 {
            assert!(server.connect().get("/size-10").body == content(10));
            assert!(server.connect().get("/size-300000").body == content(300_000));
        }
        waiting.pop().unwrap().assert_silent();
        // A client that leaves is removed, whatever the disk does.
        waiting.drain(..).for_each(crate::common::Client::reset);
        assert!(server.connect().get("/size-300000").body == content(300_000));
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
    });
}

/// Earlier the worker waited together with the client of such a file.
#[test]
fn a_file_that_is_never_found_keeps_nobody_else_waiting() {
    for name in ["slow-to-look-at.bin", "slow-to-open.bin"] {
        let site = Site::of_sizes(&[10, 20, 300_000]);
        on_every_path(&site, &["--workers", "1"], |server| {
            let Some(_disk) = SlowDisk::mount(&site, FOR_EVER) else { return };
            assert!(server.connect().get("/size-10").body == content(10));
            let mut waiting: Vec<_> = (0..10).map(|_| server.connect()).collect();
            waiting.iter_mut().for_each(|client| client.send(get(&format!("/cold-disk/{name}"))));
            for _ in 0..20 {
                // A file that was requested before, and one that was not.
                assert!(server.connect().get("/size-10").body == content(10));
                assert!(server.connect().get("/size-20").body == content(20));
                assert!(server.connect().get("/size-300000").body == content(300_000));
            }
            waiting.pop().unwrap().assert_silent();
            waiting.drain(..).for_each(crate::common::Client::reset);
            assert!(server.connect().get("/size-300000").body == content(300_000));
            assert!(server.stderr().is_empty(), "{:?}", server.stderr());
        });
    }
}
