//! Redirects, indexes and listings.

use super::*;

#[test]
fn without_slash_redirect() {
    for mut site in Site::each_way(Options::default()) {
        site.folder.put("d/ä ?&/a", "");
        assert_eq!(site.get("/d"), "to /d/");
        assert_eq!(site.get("/d/%C3%A4%20%3F%26"), "to /d/%C3%A4%20%3F%26/");
        // `//host/` would lead to another server.
        assert_eq!(site.get("//d"), "bad path");
    }
}

#[test]
fn index_else_listing_if_allowed_else_forbidden() {
    for (options, expected) in [(Options::default(), "no index"), (listed(), "listing")] {
        for mut site in Site::each_way(options) {
            assert_eq!(site.get("/"), expected);
            site.folder.put("index.html", "root");
            assert_eq!(site.get("/"), "root");
            site.folder.put("d/index.html", "d");
            site.folder.put("e/index.html/x", "x");
            assert_eq!([site.get("/d/"), site.get("/e/"), site.get("/f/")], ["d", expected, "not found"]);
            fs::remove_file(site.folder.path("d/index.html")).unwrap();
            assert_eq!(site.get_after_change("/d/"), expected);
        }
    }
}

fn listing(site: &mut Site, path: &str) -> String {
    match site.lookup(path) {
        Ok(Found::Listing(page)) => String::from_utf8(page.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn listing_escapes_names_and_leaves_out_what_is_not_served() {
    let mut site = Site::new(listed());
    site.folder.put("d/<b>&\"'.txt", "12345");
    site.folder.put("d/z/x", "");
    site.folder.put("d/a b", "");
    site.folder.put("d/.hidden", "");
    symlink("/etc/passwd", site.folder.path("d/leaves")).unwrap();
    symlink("a b", site.folder.path("d/stays")).unwrap();
    for unservable in ["d/a\\b", "d/a\nb", "d/.\\"] {
        site.folder.put(unservable, "");
    }
    let page = listing(&mut site, "/d/");
    let names: Vec<&str> = page
        .lines()
        .filter(|line| !line.contains("<th"))
        .filter_map(|line| line.split("<a href=").nth(1)?.split("</a>").next())
        .collect();
    assert_eq!(
        names,
        [
            "\"../\">../",
            "\"z/\">z/",
            "\"%3Cb%3E%26%22%27.txt\">&lt;b&gt;&amp;&quot;&#39;.txt",
            "\"a%20b\">a b",
            "\"stays\">stays"
        ]
    );
    assert!(page.contains("<td data-b=\"5\" title=\"5 bytes\">5 B</td><td>20"), "{page}");
    assert!(page.contains("<nav>4 names</nav>") && page.contains("2 more not served: a backslash"), "{page}");
    assert!(!listing(&mut site, "/").contains("../"));
    assert_eq!(site.get("/d/%3Cb%3E%26%22%27.txt"), "12345");
}

#[test]
fn names_that_are_not_utf8_are_listed_and_served_byte_for_byte() {
    for mut site in Site::each_way(listed()) {
        let of = |name: &'static [u8]| Path::new(OsStr::from_bytes(name));
        site.folder.put(of(b"caf\xe9/\xdcber \xff.txt"), "latin");
        site.folder.put("caf\u{e9}/a", "utf-8");
        site.folder.put(of(b"\xc0\xae\xc0\xae"), "overlong");
        assert_eq!(site.get("/caf%E9/%DCber%20%FF.txt"), "latin");
        assert_eq!((site.get("/caf%C3%A9/a"), site.get("/caf%E9/a")), ("utf-8".into(), "not found".into()));
        assert_eq!((site.get("/caf%EF%BF%BD/a"), site.get("/%c0%ae%c0%ae")), ("not found".into(), "bad path".into()));
        let top = listing(&mut site, "/");
        assert!(top.contains("<a href=\"caf%C3%A9/\">caf\u{e9}/</a>"), "{top}");
        assert!(top.contains("<a href=\"caf%E9/\">caf\u{fffd}/</a>") && top.contains("1 more not served"), "{top}");
        let inside = listing(&mut site, "/caf%E9/");
        assert!(inside.contains("<title>/caf\u{fffd}</title>"), "{inside}");
        assert!(inside.contains("<a href=\"%DCber%20%FF.txt\">\u{fffd}ber \u{fffd}.txt</a>"), "{inside}");
        let moved = site.lookup("/caf%E9");
        assert!(matches!(&moved, Ok(Found::Redirect(to)) if to == "/caf%E9/"), "{moved:?}");
        // Once more from the cache, and after a change.
        assert_eq!(site.get("/caf%E9/%DCber%20%FF.txt"), "latin");
        site.folder.put(of(b"caf\xe9/\xdcber \xff.txt"), "other");
        assert_eq!(site.get_after_change("/caf%E9/%DCber%20%FF.txt"), "other");
    }
}

#[test]
fn a_site_has_its_own_page_around_its_listings() {
    let page = ListingPage::read(b"<h1 title='{{path}}'>{{path}}</h1>{{listing}}<p>mine").unwrap();
    let mut site = Site::new(Options { page: Some(Arc::new(page)), ..listed() });
    site.folder.put("d'/{{listing}}.txt", "");
    let page = listing(&mut site, "/d%27/");
    assert!(page.starts_with("<h1 title='/d&#39;'>/d&#39;</h1><nav><a href=\"../\">../</a></nav>\n<table>"), "{page}");
    assert!(page.contains(">{{listing}}.txt</a></bdi></td>") && page.ends_with("<nav>1 name</nav>\n<p>mine"), "{page}");
    assert!(!page.contains("<style>"), "{page}");
    let own = listing(&mut Site::new(listed()), "/");
    assert!(own.contains("<style>") && !own.contains("<script"), "{own}");
}

#[test]
fn a_long_listing_has_pages_with_all_names_in_order() {
    let mut site = Site::new(listed());
    (0..LISTING_NAMES_MAX).for_each(|i| drop(site.folder.put(format!("f{i:04}"), "")));
    let page = listing(&mut site, "/");
    assert!(page.matches("<td><bdi><a href").count() == LISTING_NAMES_MAX && !page.contains("?page="));
    assert!(matches!(site.lookup("/?2"), Err(Missing::NotFound)));
    site.folder.put("E", "");
    site.folder.put("z/x", "");
    site.now += REVALIDATE_AFTER;
    let pages = ["/", "/?2"].map(|path| listing(&mut site, path));
    let names = pages.iter().flat_map(|page| {
        page.lines().filter_map(|line| Some(line.split("<td><bdi><a href=\"").nth(1)?.split('"').next()?.to_owned()))
    });
    let names: Vec<String> = names.collect();
    assert_eq!((names.len(), &names[0][..], &names[1][..], &names[2][..]), (1002, "z/", "E", "f0000"));
    assert!(names[2..].is_sorted());
    assert!(
        pages[0].contains("1002 names; page 1 of 2 · <a href=\"?page=2\">next</a>"),
        "{}",
        &pages[0][pages[0].len() - 900..]
    );
    assert!(pages[1].contains("page 2 of 2 · <a href=\"?page=1\">first</a> · <a href=\"?page=1\">previous</a></nav>"));
    assert!(matches!(site.lookup("/?3"), Err(Missing::NotFound)));
}

fn page(site: &mut Site, path: &str) -> Arc<Vec<u8>> {
    match site.lookup(path) {
        Ok(Found::Listing(page)) => page,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_listing_is_made_once_while_nothing_changes() {
    let mut site = Site::new(listed());
    site.folder.put("d/a", "12345");
    let first = page(&mut site, "/d/");
    site.cache.on_change();
    assert!(Arc::ptr_eq(&first, &page(&mut site, "/d/")));
    // A folder inside may have changed, which is not reported.
    site.now += REVALIDATE_AFTER;
    assert!(!Arc::ptr_eq(&first, &page(&mut site, "/d/")));
}

#[test]
fn a_listing_shows_every_change_at_once() {
    let mut site = Site::new(listed());
    site.folder.put("d/a", "12345");
    page(&mut site, "/d/");
    let mut shown = |change: &dyn Fn(&Folder), expected: &str, is_expected: bool| {
        change(&site.folder);
        site.cache.on_change();
        assert_eq!(listing(&mut site, "/d/").contains(expected), is_expected, "{expected}");
    };
    shown(&|folder| drop(folder.put("d/a", "1234567")), "7 B</td>", true);
    shown(&|folder| drop(folder.put("d/b", "")), ">b<", true);
    shown(&|folder| fs::rename(folder.path("d/b"), folder.path("d/c")).unwrap(), ">b<", false);
    shown(&|folder| fs::remove_file(folder.path("d/c")).unwrap(), ">c<", false);
}

#[test]
fn listings_kept_are_bounded() {
    let mut site = Site::new(listed());
    for i in 0..20 {
        site.folder.put(format!("{i}/a"), "");
        page(&mut site, &format!("/{i}/"));
        let (count, bytes) = site.cache.listings();
        assert!((1..=i + 1).contains(&count) && bytes <= LIMITS.listing_bytes, "{count} of {bytes}");
    }
    (0..100).for_each(|i| drop(site.folder.put(format!("long/{i}"), "")));
    let first = page(&mut site, "/long/");
    assert!(first.len() > LIMITS.listing_bytes && !Arc::ptr_eq(&first, &page(&mut site, "/long/")));
    site.cache.clear();
    assert_eq!(site.cache.listings(), (0, 0));
}

/// The names in the order of the page.
fn rows(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.split("<td><bdi><a href=\"").nth(1)?.split('"').next()).collect()
}

#[test]
fn a_listing_is_sorted_by_its_columns() {
    let mut site = Site::new(listed()).large();
    for (name, content) in [("file10", "1"), ("file2", "22"), ("d10/x", ""), ("d9/x", ""), ("b", "333")] {
        site.folder.put(name, content);
    }
    for (name, seconds) in [("file10", 3_000), ("file2", 1_000), ("d10", 5_000), ("d9", 4_000), ("b", 2_000)] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::open(site.folder.path(name)).unwrap().set_modified(time).unwrap();
    }
    for (suffix, names) in [
        ("", ["d9/", "d10/", "b", "file2", "file10"]),
        ("?1d", ["d10/", "d9/", "file10", "file2", "b"]),
        ("?1s", ["d9/", "d10/", "file10", "file2", "b"]),
        ("?1sd", ["d9/", "d10/", "b", "file2", "file10"]),
        ("?1t", ["d9/", "d10/", "file2", "b", "file10"]),
        ("?1td", ["d10/", "d9/", "file10", "b", "file2"]),
    ] {
        let page = listing(&mut site, &format!("/{suffix}"));
        assert_eq!(rows(&page), names, "{suffix}");
        assert_eq!(page.matches("<th aria-sort=").count(), 1, "{page}");
    }
    let page = listing(&mut site, "/?1sd");
    assert!(page.contains("<th aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size</a></th>"), "{page}");
    assert!(page.contains("<th><a href=\"?page=1\">Name</a></th>"), "{page}");
    assert_eq!([site.get("/?1x"), site.get("/?2")], ["not found"; 2]);
}

#[test]
fn a_listing_in_json_has_every_name() {
    let mut site = Site::new(listed());
    site.folder.put("d/a \"b\"", "12345");
    site.folder.put(Path::new(OsStr::from_bytes(b"d/\xe9")), "");
    site.folder.put("d/e/x", "");
    let page = listing(&mut site, "/d/?1j");
    let read: serde_json::Value = serde_json::from_str(&page).unwrap();
    let of = |at: usize, key: &str| read[at][key].as_str().unwrap_or_default().to_string();
    assert_eq!([of(0, "name"), of(0, "type"), of(0, "url")], ["e", "directory", "e/"]);
    assert_eq!([of(1, "name"), of(1, "type"), of(1, "url")], ["a \"b\"", "file", "a%20%22b%22"]);
    assert_eq!([of(2, "name"), of(2, "url")], ["\u{fffd}", "%E9"]);
    assert!(read[1]["size"] == 5 && read[0].get("size").is_none() && of(1, "mtime").ends_with(" GMT"), "{page}");
    assert_eq!(listing(&mut site, "/d/e/?1j").matches('{').count(), 1);
    assert_eq!(listing(&mut site, "/d/?1j"), page, "from the cache");
    assert!(listing(&mut site, "/d/").contains("<table>"));
}
