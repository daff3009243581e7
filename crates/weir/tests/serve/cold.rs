//! Files of a disk that does not answer. The disk of the laboratory stands in for one: see there why.

use std::time::Duration;

use lab::SlowDisk;

use crate::common::{Site, content, get, on_every_path};

/// Longer than the test.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[test]
fn a_disk_that_hangs_keeps_nobody_else_waiting() {
    let site = Site::of_sizes(&[10, 300_000]);
    on_every_path(&site, &["--workers", "1"], |server| {
        // Unmounted before the server is ended: a thread that reads there cannot be.
        let _disk = match SlowDisk::mount(&site.served(), "disk", FOR_EVER) {
            Err(why) if std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none() => return println!("SKIPPED: {why}"),
            disk => disk.unwrap(),
        };
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
        // Whoever leaves is let go, disk or not.
        waiting.drain(..).for_each(crate::common::Client::reset);
        assert!(server.connect().get("/size-300000").body == content(300_000));
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
    });
}
