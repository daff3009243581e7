//! A name that a folder is known not to have is no longer looked up, but is seen as soon as it exists.

use super::super::absent::{FOLDERS_MAX, NAMES_MAX, READ_EVERY};
use super::fake_disk::FakeDisk;
use super::*;

type Change<'a> = &'a dyn Fn(&Folder);

/// Returns true if the path was found to be absent without access to the file system.
fn is_known_absent(site: &mut Site, path: &str) -> bool {
    match site.cache.lookup(0, path.as_bytes(), site.now) {
        CacheAnswer::Ready(Err(Missing::NotFound)) => true,
        CacheAnswer::Ready(found) => panic!("{path}: {found:?}"),
        CacheAnswer::Offload(_) => false,
    }
}

/// A site in which every lookup would have to wait, so every immediate answer comes without a lookup.
fn all_aside() -> Site {
    Site::with(Options::default(), Root::uncached)
}

#[test]
fn the_second_miss_in_a_folder_asks_the_disk_nothing() {
    let disk = FakeDisk::of(&["x", "y", "y/index.html", "y/z", "d/x", "d/y"]);
    let mut site = Site::with(Options::default(), |root| root.on(disk.clone()));
    site.folder.put("a", "a");
    site.folder.put("d/a", "d/a");
    for (asked, (first, others)) in
        [("/x", ["/y", "/%79", "/y/", "/y/z"].as_slice()), ("/d/x", &["/d/y"])].into_iter().enumerate()
    {
        assert!(!is_known_absent(&mut site, others[0]), "{first} was never looked for");
        site.now += READ_EVERY;
        assert_eq!(site.get(first), "not found");
        for path in others {
            assert!(is_known_absent(&mut site, path), "{path}");
        }
        assert_eq!(disk.asked(), asked + 1);
    }
    assert_eq!([site.get("/a"), site.get("/d/a"), site.get("/d")], ["a", "d/a", "to /d/"]);
    assert_eq!(site.get("/"), "no index");
}

#[test]
fn a_name_that_comes_is_served_at_once() {
    let changes: [(&str, Change); 7] = [
        ("/d/x", &|folder| drop(folder.put("d/x", "new"))),
        ("/d/x", &|folder| fs::rename(folder.path("moved"), folder.path("d/x")).unwrap()),
        ("/d/x", &|folder| fs::hard_link(folder.path("moved"), folder.path("d/x")).unwrap()),
        ("/d/x/", &|folder| drop(folder.put("d/x/index.html", "new"))),
        ("/d/e/x", &|folder| fs::rename(folder.path("folder"), folder.path("d/e")).unwrap()),
        ("/d/x", &|folder| {
            fs::rename(folder.path("d"), folder.path("other")).unwrap();
            fs::rename(folder.path("folder"), folder.path("d")).unwrap();
        }),
        ("/d/x", &|folder| {
            fs::remove_dir_all(folder.path("d")).unwrap();
            folder.put("d/x", "new");
        }),
    ];
    for (number, (path, change)) in changes.into_iter().enumerate() {
        for mut site in Site::each_way(Options::default()) {
            site.folder.put("d/a", "");
            site.folder.put("moved", "new");
            site.folder.put("folder/x", "new");
            assert_eq!(site.get(path), "not found");
            assert!(is_known_absent(&mut site, path), "{number}");
            change(&site.folder);
            assert_eq!(site.get_after_change(path), "new", "{number}");
        }
    }
}

/// While the folder is being read, only the kernel and that lookup know that it is watched.
#[test]
fn a_name_that_comes_while_its_folder_is_read_is_served_at_once() {
    for is_told_before in [true, false] {
        let mut site = all_aside();
        let CacheAnswer::Offload(lookup) = site.cache.lookup(0, b"/x", site.now) else { panic!("it would wait") };
        let done = lookup.run();
        site.folder.put("x", "new");
        if is_told_before {
            site.cache.on_change();
        }
        assert!(matches!(site.cache.finish(done), CacheAnswer::Ready(Err(Missing::NotFound))));
        assert_eq!(site.get_after_change("/x"), "new");
    }
}

/// No event reports these.
#[test]
fn a_change_above_is_noticed_before_long() {
    let changes: [Change; 2] = [
        &|folder| {
            fs::rename(folder.path("above"), folder.path("other")).unwrap();
            folder.put("above/d/x", "new");
        },
        &|folder| {
            fs::remove_file(folder.path("link")).unwrap();
            symlink("else", folder.path("link")).unwrap();
        },
    ];
    for (path, change) in ["/above/d/x", "/link/x"].into_iter().zip(changes) {
        let mut site = Site::new(Options::default());
        site.folder.put("above/d/a", "");
        site.folder.put("else/x", "new");
        symlink("above/d", site.folder.path("link")).unwrap();
        assert_eq!(site.get(path), "not found");
        change(&site.folder);
        site.now += REVALIDATE_AFTER;
        assert_eq!(site.get_after_change(path), "new");
    }
}

#[test]
fn a_folder_that_stays_as_it_is_is_read_once() {
    let disk = FakeDisk::of(&["x"]);
    let mut site = Site::with(Options::default(), |root| root.on(disk.clone()));
    for _ in 0..5 {
        assert_eq!(site.get_after_change("/x"), "not found");
        site.now += REVALIDATE_AFTER;
    }
    assert_eq!(disk.asked(), 1);
}

#[test]
fn folders_remembered_are_bounded() {
    let mut site = all_aside();
    for i in 0..FOLDERS_MAX + 10 {
        site.folder.put(format!("{i}/a"), "");
        assert_eq!(site.get_after_change(&format!("/{i}/x")), "not found");
        assert_eq!(site.cache.absent_folders(), (i + 1).min(FOLDERS_MAX));
        assert!(is_known_absent(&mut site, &format!("/{i}/x")));
        // The next one has to wait for its turn.
        site.get(&format!("/{i}/a/x"));
        site.now += READ_EVERY;
    }
    site.cache.clear();
    assert_eq!(site.cache.absent_folders(), 0);
}

#[test]
fn a_folder_is_read_in_its_turn() {
    let mut site = all_aside();
    site.folder.put("d/a", "");
    assert_eq!([site.get("/x"), site.get("/d/x")], ["not found"; 2]);
    assert!(is_known_absent(&mut site, "/x") && !is_known_absent(&mut site, "/d/x"));
    assert_eq!(site.cache.absent_folders(), 1);
    site.now += READ_EVERY;
    assert_eq!(site.get("/d/x"), "not found");
    assert!(is_known_absent(&mut site, "/d/x"));
}

#[test]
fn a_large_folder_is_not_remembered() {
    let mut site = all_aside();
    // The two others are the folder and what is above.
    (2..NAMES_MAX).for_each(|i| drop(site.folder.put(i.to_string(), "")));
    for (names, is_known) in [(NAMES_MAX, true), (NAMES_MAX + 1, false)] {
        assert_eq!(site.get_after_change("/x"), "not found");
        assert_eq!(is_known_absent(&mut site, "/x"), is_known, "{names} names");
        site.folder.put("one more", "");
        site.now += READ_EVERY;
        site.cache.on_change();
    }
}

/// The names of a remote folder may change without an event.
#[test]
fn a_folder_of_a_remote_file_system_is_not_remembered() {
    for (dir, is_known) in [(None, true), (Some("/proc/sys"), false)] {
        let mut site = all_aside();
        if let Some(dir) = dir {
            let root = Root::open(Path::new(dir), Options::default()).unwrap();
            site.cache = Cache::new(root.uncached().into(), LIMITS);
        }
        assert_eq!(site.get("/x"), "not found");
        assert_eq!(is_known_absent(&mut site, "/x"), is_known);
    }
}

#[test]
fn without_watches_nothing_is_remembered() {
    let mut site = all_aside();
    site.cache.unwatched();
    assert_eq!(site.get("/x"), "not found");
    assert!(!is_known_absent(&mut site, "/x"));
}

#[test]
fn other_sites_have_other_names() {
    let mut site = all_aside();
    assert_eq!(site.get("/x"), "not found");
    let other = all_aside();
    other.folder.put("x", "of the other");
    let root = Root::open(&other.folder.path("."), Options::default()).unwrap().uncached();
    site.cache.replace_roots(Roots { first: 1, folders: [Some(Arc::new(root))].into() });
    assert_eq!(site.cache.absent_folders(), 0);
    let CacheAnswer::Offload(lookup) = site.cache.lookup(1, b"/x", site.now) else { panic!("it would wait") };
    assert!(matches!(site.cache.finish(lookup.run()), CacheAnswer::Ready(Ok(Found::File(_)))));
}

/// The names of a page and of missing files share a watch, and the page needs more events.
#[test]
fn a_listing_still_shows_every_change() {
    let mut site = Site::new(listed());
    site.folder.put("a", "12345");
    for (size, is_page_first) in [("1 B</td>", true), ("2 B</td>", false)] {
        let paths = if is_page_first { ["/", "/x"] } else { ["/x", "/"] };
        for path in paths {
            site.get(path);
            site.now += READ_EVERY;
        }
        assert!(is_known_absent(&mut site, "/x"));
        site.folder.put("a", if is_page_first { "1" } else { "12" });
        site.cache.on_change();
        let Ok(Found::Listing(page)) = site.lookup("/") else { panic!("no listing") };
        assert!(String::from_utf8_lossy(&page).contains(size), "{size}");
        site.cache.clear();
        site.now += READ_EVERY;
    }
}
