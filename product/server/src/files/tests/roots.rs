//! Replacement of a root by another folder, and symlinks that lead out of a root.

use super::*;
use crate::files::replaced_roots::FOLLOW_EVERY;

/// A site whose root is a folder in a temporary one.
fn site_below(change: impl Fn(Root) -> Root) -> Site {
    let folder = Folder::new();
    folder.put("site/index.html", "one");
    folder.put("site/large", vec![b'1'; BODY_BYTES_HELD_MAX as usize + 1]);
    let root = change(Root::open(&folder.path("site"), listed()).unwrap());
    Site { folder, cache: Cache::new(root.into(), LIMITS), now: Nanos::from_secs(100) }.large()
}

fn each_way() -> [Site; 3] {
    [site_below(|root| root), site_below(Root::uncached), site_below(Root::walking)]
}

/// No event reports it before it is looked for: a rename of a folder is not an event of a file in it.
#[test]
fn another_folder_at_the_path_is_served() {
    for mut site in each_way() {
        assert_eq!(site.get("/"), "one");
        site.folder.put("site.new/index.html", "two");
        fs::rename(site.folder.path("site"), site.folder.path("site.old")).unwrap();
        fs::rename(site.folder.path("site.new"), site.folder.path("site")).unwrap();
        site.now += FOLLOW_EVERY;
        // A root that is looked at by another thread is found to be replaced at the next comparison of a file.
        site.now += REVALIDATE_AFTER;
        assert_eq!(site.get_after_change("/"), "two");
        let said = site.cache.take_lines();
        assert!(said.len() == 1 && said[0].ends_with("site` is another folder now"), "{said:?}");
        // Removed, and created again.
        fs::remove_dir_all(site.folder.path("site")).unwrap();
        site.now += REVALIDATE_AFTER;
        assert_eq!([site.get_after_change("/"), site.get("/large")], ["not found", "not found"]);
        let said = site.cache.take_lines();
        assert!(said.len() == 1 && said[0].contains("is gone: its files are missing"), "{said:?}");
        site.folder.put("site/index.html", "three");
        site.now += REVALIDATE_AFTER;
        assert_eq!(site.get_after_change("/"), "three");
    }
}

/// As a disk that is mounted after the server has started.
#[test]
fn a_root_that_is_missing_at_first_is_served_once_it_is_there() {
    for change in [|root| root, Root::uncached, Root::walking] {
        for is_asked_before in [true, false] {
            let folder = Folder::new();
            let root = change(Root::awaited(&folder.path("disk/site"), listed()).unwrap());
            assert!(root.try_out().is_err());
            let mut site = Site { folder, cache: Cache::new(root.into(), LIMITS), now: Nanos::from_secs(100) };
            if is_asked_before {
                assert_eq!(site.get_after_change("/"), "not found");
                assert!(site.cache.take_lines().is_empty(), "the start has said it");
            }
            site.folder.put("disk/site/index.html", "one");
            site.now += REVALIDATE_AFTER;
            assert_eq!(site.get_after_change("/"), "one");
            let said = site.cache.take_lines();
            assert!(said.len() == 1 && said[0].ends_with("disk/site` is there now"), "{said:?}");
        }
    }
}

#[test]
fn a_root_is_followed_at_once_where_nothing_is_waited_for() {
    let mut site = site_below(|root| root);
    assert_eq!(site.get("/"), "one");
    let old = site.folder.path("site.old");
    fs::rename(site.folder.path("site"), &old).unwrap();
    site.folder.put("site/index.html", "two");
    assert_eq!(site.get("/"), "one", "within the time");
    site.now += FOLLOW_EVERY;
    assert_eq!(site.get("/"), "two");
    fs::remove_dir_all(site.folder.path("site")).unwrap();
    site.now += FOLLOW_EVERY;
    // A file system need not remember that there is no such name: then another thread looks it up.
    assert_eq!(site.get_after_change("/"), "not found");
    fs::rename(old, site.folder.path("site")).unwrap();
    site.now += FOLLOW_EVERY;
    assert_eq!(site.get("/"), "one");
    let said = site.cache.take_lines();
    let ends = ["is another folder now", "is gone: its files are missing until it is there again", "is there now"];
    assert!(said.len() == 3 && said.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{said:?}");
    assert!(site.cache.take_lines().is_empty());
}

/// A listing and missing names belong to the folder before.
#[test]
fn listings_and_missing_names_are_followed_too() {
    let mut site = site_below(Root::uncached);
    fs::create_dir(site.folder.path("site/d")).unwrap();
    assert_eq!([site.get("/d/"), site.get("/d/x")], ["listing", "not found"]);
    fs::rename(site.folder.path("site"), site.folder.path("site.old")).unwrap();
    site.folder.put("site/d/x", "x");
    site.now += REVALIDATE_AFTER;
    assert_eq!(site.get("/d/x"), "x");
    let Ok(Found::Listing(page)) = site.lookup("/d/") else { panic!("a listing") };
    assert!(String::from_utf8_lossy(&page).contains("href=\"x\""));
}

/// A lookup that began before is answered, but not kept.
#[test]
fn what_is_found_in_the_folder_before_is_not_kept() {
    let disk = fake_disk::FakeDisk::of(&["a"]);
    let mut site = site_below(|root| root.on(disk.clone()));
    site.folder.put("site/a", "one");
    let CacheAnswer::Offload(lookup) = site.cache.lookup(0, b"/a", site.now) else { panic!("it is on the disk") };
    let found = lookup.run();
    fs::rename(site.folder.path("site"), site.folder.path("site.old")).unwrap();
    site.folder.put("site/a", "two");
    site.now += FOLLOW_EVERY;
    site.get("/");
    let CacheAnswer::Ready(Ok(Found::File(entry))) = site.cache.finish(found) else { panic!("it was found") };
    assert_eq!(content(&entry), "one", "it was asked for before");
    assert_eq!(site.get("/a"), "two");
}

/// The root is not open without requests.
#[test]
fn a_root_that_nobody_asks_for_is_not_open() {
    let mut site = site_below(|root| root);
    let below = site.folder.path("site").canonicalize().unwrap();
    let open = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        links.filter(|path| path.starts_with(&below)).count()
    };
    assert_eq!((open(), site.cache.is_due()), (0, false));
    let kept = site.entry("/large");
    site.cache.close_idle(site.now + Nanos::from_secs(60));
    assert_eq!((open(), site.cache.usage().1), (1, 1), "it is being sent: to open it once more would gain nothing");
    drop(kept);
    assert_eq!((open(), site.cache.is_due()), (1, true));
    for (seconds, is_open) in [(2, 1), (3, 0)] {
        site.cache.close_idle(site.now + Nanos::from_secs(seconds));
        assert_eq!(open(), is_open, "{seconds} s after it was asked for");
    }
    assert!(!site.cache.is_due());
    assert_eq!(site.entry("/large").len, BODY_BYTES_HELD_MAX + 1);
}

/// Once, 40 files took 40 more descriptors with each reload, up to 256.
#[test]
fn nothing_of_a_root_that_is_served_no_more_is_kept() {
    let mut site = site_below(Root::uncached);
    let begin = |site: &mut Site, number| match site.cache.lookup(number, b"/large", site.now) {
        CacheAnswer::Offload(lookup) => lookup,
        CacheAnswer::Ready(found) => panic!("{found:?}"),
    };
    for first in 1..4 {
        let [lookup, late] = [begin(&mut site, first - 1), begin(&mut site, first - 1)];
        site.cache.finish(lookup.run());
        assert_eq!(site.cache.usage(), (1, 1, 0));
        let root = Root::open(&site.folder.path("site"), listed()).unwrap().uncached();
        site.cache.replace_roots(Roots { first, folders: [Some(Arc::new(root))].into() });
        assert_eq!(site.cache.usage(), (0, 0, 0));
        assert!(matches!(site.cache.finish(late.run()), CacheAnswer::Ready(Ok(Found::File(_)))));
        assert_eq!(site.cache.usage(), (0, 0, 0), "it began before, and ends after");
    }
}

/// The kernel's resolution modes in which symlinks are followed.
const FOLLOWING: [fn(Root) -> Root; 2] = [|root| root, Root::uncached];

fn linked(into: &[&str], change: fn(Root) -> Root) -> Site {
    let folder = Folder::new();
    for (file, text) in
        [("site/index.html", "i"), ("media/films/a", "film"), ("media/films/index.html", "films"), ("secret/a", "s")]
    {
        folder.put(file, text);
    }
    for (to, link) in
        [("../media/films", "films"), ("../secret", "secret"), ("../media/films/a", "one"), ("../secret/a", "two")]
    {
        symlink(to, folder.path("site").join(link)).unwrap();
    }
    symlink(folder.path("media"), folder.path("site/absolute")).unwrap();
    symlink("../../secret/a", folder.path("media/films/onward")).unwrap();
    let links_into = into.iter().map(|into| folder.path(into)).collect();
    let root = change(Root::open(&folder.path("site"), Options { links_into, ..listed() }).unwrap());
    Site { folder, cache: Cache::new(root.into(), LIMITS), now: Nanos::from_secs(100) }
}

#[test]
fn a_symlink_is_followed_into_the_folders_that_are_named() {
    for change in FOLLOWING {
        let mut site = linked(&["media"], change);
        for (path, expected) in [
            ("/films/a", "film"),
            ("/films/", "films"),
            ("/films", "to /films/"),
            ("/one", "film"),
            ("/absolute/films/a", "film"),
            ("/absolute/", "listing"),
            ("/", "i"),
            ("/films/none", "not found"),
        ] {
            assert_eq!(site.get(path), expected, "{path}");
        }
        for path in ["/secret/a", "/two", "/films/onward", "/secret/"] {
            assert_eq!(site.get(path), "outside", "{path}");
        }
        // The target is watched like any file.
        site.folder.put("media/films/a", "cut");
        assert_eq!(site.get_after_change("/films/a"), "cut");
    }
    let mut walking = linked(&["media"], Root::walking);
    assert_eq!(walking.get("/films/a"), "not found", "without openat2 no symlink is followed");
}

#[test]
fn symlinks_at_the_top_that_are_not_followed_are_found() {
    let site = linked(&["media"], |root| root);
    let root = Root::open(&site.folder.path("site"), listed()).unwrap();
    assert_eq!(root.symlinks_out().len(), 5);
    let into = Options { links_into: vec![site.folder.path("media")], ..listed() };
    let lines = Root::open(&site.folder.path("site"), into).unwrap().symlinks_out();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("secret")), "{lines:?}");
}

#[test]
fn a_symlink_that_is_not_followed_is_told_of() {
    for change in FOLLOWING {
        let mut site = linked(&[], change);
        let Err(Missing::Outside(Some(line))) = site.lookup("/films/a") else { panic!("it leaves the root") };
        let media = site.folder.path("media/films").canonicalize().unwrap();
        assert!(
            line.contains("site/films`: it is a symlink to `") && line.contains(&media.display().to_string()),
            "{line}"
        );
        assert!(matches!(site.lookup("/films/other"), Err(Missing::Outside(None))), "once");
        assert!(matches!(site.lookup("/one"), Err(Missing::Outside(Some(_)))), "another");
        // The symlink of an index file is logged as well; symlinks in a listing are left out silently.
        fs::remove_file(site.folder.path("site/index.html")).unwrap();
        let Ok(Found::Listing(page)) = site.lookup("/") else { panic!("a listing") };
        assert!(!String::from_utf8_lossy(&page).contains("films"));
        symlink("../secret/a", site.folder.path("site/index.html")).unwrap();
        site.cache.on_change();
        let Err(Missing::Outside(Some(line))) = site.lookup("/") else { panic!("its index file leaves the root") };
        assert!(line.contains("site/index.html`: it is a symlink"), "{line}");
    }
}
