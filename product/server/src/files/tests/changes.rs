//! A change is seen by the next request.

use super::*;

/// Applies a change to `/a`, which holds `old` and is cached; the very next request must see it.
fn seen_at_once(change: impl Fn(&Folder), expected: &str) {
    for large in [false, true] {
        for mut site in Site::each_way(Options::default()).map(Site::large) {
            let padding = " ".repeat(if large { BODY_BYTES_HELD_MAX as usize } else { 0 });
            site.folder.put("a", format!("old{padding}"));
            assert_eq!(site.get("/a").trim_end(), "old");
            let tag = site.entry("/a").etag.clone();
            std::thread::sleep(TICK);
            change(&site.folder);
            assert_eq!(site.get_after_change("/a").trim_end(), expected);
            if let Ok(Found::File(entry)) = site.lookup("/a") {
                assert_ne!(entry.etag, tag);
            }
        }
    }
}

#[test]
fn written() {
    seen_at_once(|folder| drop(folder.put("a", "new")), "new");
}

#[test]
fn written_twice_in_a_row() {
    seen_at_once(|folder| ["odd", "new"].iter().for_each(|text| drop(folder.put("a", text))), "new");
}

#[test]
fn truncated() {
    let truncate = |folder: &Folder| File::options().write(true).open(folder.path("a")).unwrap().set_len(2).unwrap();
    seen_at_once(truncate, "ol");
}

#[test]
fn replaced_by_a_rename() {
    seen_at_once(
        |folder| {
            folder.put("b", "new");
            fs::rename(folder.path("b"), folder.path("a")).unwrap();
        },
        "new",
    );
}

#[test]
fn moved_away() {
    seen_at_once(|folder| fs::rename(folder.path("a"), folder.path("b")).unwrap(), "not found");
}

#[test]
fn deleted() {
    seen_at_once(|folder| fs::remove_file(folder.path("a")).unwrap(), "not found");
}

#[test]
fn replaced_by_a_folder() {
    seen_at_once(
        |folder| {
            fs::remove_file(folder.path("a")).unwrap();
            fs::create_dir(folder.path("a")).unwrap();
        },
        "to /a/",
    );
}

#[test]
fn a_file_that_appears_is_served_at_once() {
    let mut site = Site::new(Options::default());
    assert_eq!(site.get("/a"), "not found");
    site.folder.put("a", "a");
    assert_eq!(site.get_after_change("/a"), "a");
}

#[test]
fn all_spellings_of_a_changed_file_are_forgotten() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "old");
    symlink("a", site.folder.path("b")).unwrap();
    for path in ["/a", "/%61", "/b"] {
        assert_eq!(site.get(path), "old");
    }
    site.folder.put("a", "new");
    for path in ["/a", "/%61", "/b"] {
        assert_eq!(site.get_after_change(path), "new");
    }
}

#[test]
fn forgetting_one_spelling_keeps_the_watch_for_the_other() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "old");
    assert_eq!([site.get("/a"), site.get("/%61")], ["old", "old"]);
    let limit = LIMITS.entries;
    // Used entries survive, so that eviction takes `/%61`, not `/a`.
    for i in 0..limit - 1 {
        site.folder.put(format!("f{i}"), "");
        site.get("/a");
        site.get(&format!("/f{i}"));
    }
    assert!(site.cache.usage().0 == limit);
    site.folder.put("a", "new");
    assert_eq!([site.get_after_change("/a"), site.get("/%61")], ["new", "new"]);
}

/// The entry displaced by a new spelling may be the last user of the watch that the new one needs.
#[test]
fn a_spelling_that_displaces_another_keeps_its_watch() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "old");
    assert_eq!(site.get("/a"), "old");
    for i in 1..LIMITS.entries {
        site.folder.put(format!("f{i}"), "");
        site.get(&format!("/f{i}"));
    }
    let other = site.entry("/%61");
    assert_eq!(site.cache.usage().0, LIMITS.entries);
    site.cache.on_change();
    assert!(Arc::ptr_eq(&other, &site.entry("/%61")), "it was told that the file is watched no more");
    site.folder.put("a", "new");
    assert_eq!(site.get_after_change("/%61"), "new");
}

#[test]
fn the_watch_is_readable_exactly_when_something_changed() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "a");
    site.get("/a");
    let readable = |cache: &Cache| {
        let mut polled =
            [rustix::event::PollFd::from_borrowed_fd(cache.watch_fd().unwrap(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    };
    assert!(!readable(&site.cache));
    site.folder.put("a", "b");
    assert!(readable(&site.cache));
    site.cache.on_change();
    assert!(!readable(&site.cache));
    assert_eq!(site.cache.usage(), (0, 0, 0));
}

#[test]
fn what_events_cannot_show_is_seen_after_a_second() {
    let mut site = Site::new(Options::default());
    site.folder.put("v1/a", "old");
    site.folder.put("v2/a", "new");
    symlink("v1", site.folder.path("current")).unwrap();
    assert_eq!(site.get("/current/a"), "old");
    symlink("v2", site.folder.path("next")).unwrap();
    fs::rename(site.folder.path("next"), site.folder.path("current")).unwrap();
    site.now += REVALIDATE_AFTER;
    assert_eq!(site.get_after_change("/current/a"), "new");

    fs::rename(site.folder.path("v2"), site.folder.path("v3")).unwrap();
    site.now += REVALIDATE_AFTER;
    assert_eq!(site.get_after_change("/current/a"), "not found");
}

#[test]
fn an_unchanged_file_is_kept_when_compared() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "a");
    let first = site.entry("/a");
    site.now += REVALIDATE_AFTER;
    assert!(Arc::ptr_eq(&first, &site.entry("/a")));
}

#[test]
fn without_inotify_every_use_compares() {
    let mut site = Site::new(Options::default());
    site.cache.unwatched();
    assert!(site.cache.watch_fd().is_none());
    site.folder.put("a", "old");
    let first = site.entry("/a");
    assert!(Arc::ptr_eq(&first, &site.entry("/a")));
    site.folder.put("a", "newer");
    assert_eq!(site.get("/a"), "newer");
    fs::remove_file(site.folder.path("a")).unwrap();
    assert_eq!(site.get_after_change("/a"), "not found");
}

#[test]
fn content_set_back_in_time_is_a_change() {
    let mut site = Site::new(Options::default());
    site.cache.unwatched();
    let path = site.folder.put("a", "old");
    assert_eq!(site.get("/a"), "old");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    std::thread::sleep(TICK);
    site.folder.put("a", "new");
    File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(site.get("/a"), "new");
}

#[test]
fn permission_lost() {
    // Root may read anything, by two capabilities; capabilities belong to a thread.
    std::thread::spawn(|| {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        seen_at_once(|folder| fs::set_permissions(folder.path("a"), Permissions::from_mode(0o0)).unwrap(), "forbidden");
    })
    .join()
    .unwrap();
}

#[test]
fn what_is_being_sent_is_not_changed() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "old");
    let sending = site.entry("/a");
    site.folder.put("a", "newer");
    assert_eq!(site.get_after_change("/a"), "newer");
    assert_eq!(content(&sending), "old");
}

#[test]
fn a_body_read_while_writers_work_is_one_state() {
    let mut site = Site::new(Options::default());
    let path = site.folder.put("a", "0".repeat(500));
    let writer = std::thread::spawn(move || {
        for round in 0..400 {
            let new = path.with_extension("new");
            fs::write(&new, (round % 10).to_string().repeat(300 + round % 200)).unwrap();
            fs::rename(&new, &path).unwrap();
        }
    });
    while !writer.is_finished() {
        let body = site.get_after_change("/a");
        assert!(body.bytes().all(|byte| byte == body.as_bytes()[0]) && body.len() >= 300, "{body}");
    }
    writer.join().unwrap();
    // The last file renamed there, however the race went.
    assert_eq!(site.get_after_change("/a"), "9".repeat(499));
}

#[test]
fn a_file_exchanged_while_it_is_loaded_is_watched_all_the_same() {
    const ROUNDS: usize = 500;
    let mut site = Site::new(Options::default());
    let (a, b) = (site.folder.put("a", "0"), site.folder.put("b", "0"));
    let (start, started) = std::sync::mpsc::sync_channel::<()>(0);
    let (done, is_done) = std::sync::mpsc::sync_channel::<()>(0);
    let exchanger = std::thread::spawn(move || {
        while started.recv().is_ok() {
            rustix::fs::renameat_with(CWD, &a, CWD, &b, rustix::fs::RenameFlags::EXCHANGE).unwrap();
            done.send(()).unwrap();
        }
    });
    for round in 0..ROUNDS {
        site.cache.clear();
        start.send(()).unwrap();
        // Makes the exchange fall before, into and after the load in different rounds.
        (0..round % 50 * 20).for_each(|_| std::hint::spin_loop());
        site.get("/a");
        is_done.recv().unwrap();
        site.get_after_change("/a");
        site.folder.put("a", round.to_string());
        assert_eq!(site.get_after_change("/a"), round.to_string());
    }
    drop(start);
    exchanger.join().unwrap();
}
