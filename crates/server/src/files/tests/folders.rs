//! Redirects, indexes and listings.

use super::*;

#[test]
fn without_slash_redirect() {
    for mut site in Site::both(Options::default()) {
        site.folder.put("d/ä ?&/a", "");
        assert_eq!(site.get("/d"), "to /d/");
        assert_eq!(site.get("/d/%C3%A4%20%3F%26"), "to /d/%C3%A4%20%3F%26/");
        // `//host/` would lead to another server.
        assert_eq!(site.get("//d"), "bad path");
    }
}

#[test]
fn index_else_listing_if_allowed_else_forbidden() {
    for (options, expected) in [(Options::default(), "forbidden"), (LISTING, "listing")] {
        for mut site in Site::both(options) {
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
    let mut site = Site::new(LISTING);
    site.folder.put("d/<b>&\"'.txt", "12345");
    site.folder.put("d/z/x", "");
    site.folder.put("d/a b", "");
    site.folder.put("d/.hidden", "");
    symlink("/etc/passwd", site.folder.path("d/leaves")).unwrap();
    symlink("a b", site.folder.path("d/stays")).unwrap();
    let not_utf8 = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"d/\xff");
    site.folder.put(Path::new(not_utf8), "");
    let page = listing(&mut site, "/d/");
    let names: Vec<&str> =
        page.lines().filter_map(|line| line.split("<a href=").nth(1)?.split("</a>").next()).collect();
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
    assert!(page.contains("</a></td><td>5</td><td>") && page.contains(" GMT</td>"), "{page}");
    assert!(!listing(&mut site, "/").contains("../"));
    assert_eq!(site.get("/d/%3Cb%3E%26%22%27.txt"), "12345");
}

#[test]
fn listing_is_cut_with_a_note() {
    let mut site = Site::new(LISTING);
    (0..LISTING_NAMES_MAX).for_each(|i| drop(site.folder.put(format!("{i}"), "")));
    let page = listing(&mut site, "/");
    assert!(page.matches("<a href").count() == LISTING_NAMES_MAX && !page.contains("<p>"));
    site.folder.put("one more", "");
    let page = listing(&mut site, "/");
    assert_eq!(page.matches("<a href").count(), LISTING_NAMES_MAX);
    assert!(page.contains("<p>Only 1000 names of this folder are shown; it has more.</p>"));
}
