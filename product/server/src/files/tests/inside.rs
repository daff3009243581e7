//! Files inside the folder are served, and nothing outside it is.

use super::*;

#[test]
fn plain_files() {
    for mut site in Site::each_way(Options::default()) {
        site.folder.put("a.txt", "a");
        site.folder.put("d/e/f g.html", "f");
        site.folder.put("leer", "");
        assert_eq!(site.get("/a.txt"), "a");
        assert_eq!(site.get("/%61.txt"), "a");
        assert_eq!(site.get("/d/e/f%20g.html"), "f");
        assert_eq!(site.get("/leer"), "");
        assert_eq!(site.get("/b.txt"), "not found");
        assert_eq!(site.get("/a.txt/"), "not found");
        assert_eq!(site.get("/a.txt/b"), "not found");
        assert_eq!(site.get(&format!("/{}", "x".repeat(5000))), "not found");
    }
}

#[test]
fn dots_lead_nowhere() {
    for mut site in Site::each_way(nothing_hidden()) {
        site.folder.put("d/a", "a");
        for path in [
            "/../d/a",
            "/d/../d/a",
            "/%2e%2e/a",
            "/.%2e/a",
            "/%c0%ae%c0%ae/a",
            "/%ff/../a",
            "/..%2fa",
            "/d%2fa",
            "/%00",
            "/d\\a",
            "a",
            "",
        ] {
            assert_eq!(site.get(path), "bad path", "{path}");
        }
    }
}

#[test]
fn even_without_decoding_nothing_above_is_opened() {
    // Tests the second line of defence: as if the decoding had let these through.
    for site in Site::each_way(nothing_hidden()) {
        let name = site.folder.path(".").parent().unwrap().file_name().unwrap().to_owned();
        let root = Root::open(&site.folder.path("."), nothing_hidden()).unwrap();
        for path in ["..", ".", "a/..", "../x", "a\0b"] {
            assert!(!root.admits(path.as_bytes()), "{path}");
        }
        for path in ["..".to_string(), format!("../{}", name.to_str().unwrap()), "/etc/passwd".into()] {
            let entered = root.enter(Wait::Allowed).unwrap();
            assert!(entered.look(path.as_bytes(), Wait::Allowed).is_err(), "{path}");
            assert!(entered.read(path.as_bytes(), Wait::Allowed).is_err(), "{path}");
        }
    }
}

#[test]
fn symlinks_that_leave_are_refused() {
    let outside = Folder::new();
    let secret = outside.put("secret", "secret");
    for mut site in Site::each_way(Options::default()) {
        let above = format!("../{}/secret", outside.path(".").parent().unwrap().file_name().unwrap().to_str().unwrap());
        symlink(&secret, site.folder.path("absolute")).unwrap();
        symlink(above, site.folder.path("relative")).unwrap();
        symlink(outside.path("."), site.folder.path("folder")).unwrap();
        symlink("/proc/self/root", site.folder.path("magic")).unwrap();
        symlink("loop", site.folder.path("loop")).unwrap();
        for path in ["/absolute", "/relative", "/folder/secret", "/folder/", "/folder", "/magic/", "/loop"] {
            // Without openat2, their targets are not even examined.
            assert!(["outside", "not found"].contains(&site.get(path).as_str()), "{path}");
        }
    }
}

#[test]
fn symlinks_that_stay_are_followed_where_the_kernel_can_tell() {
    let [mut beneath, _, mut walking] = Site::each_way(Options::default());
    for (site, expected) in [(&mut beneath, ["a", "a", "a"]), (&mut walking, ["not found"; 3])] {
        site.folder.put("d/a", "a");
        symlink("d/a", site.folder.path("file")).unwrap();
        symlink("d", site.folder.path("folder")).unwrap();
        symlink("../d/a", site.folder.path("d/up")).unwrap();
        assert_eq!([site.get("/file"), site.get("/folder/a"), site.get("/d/up")], expected);
    }
}

/// Tools write links as absolute paths (`ln -s "$PWD/..."`, `artisan storage:link`), or from the folder above.
#[test]
fn symlinks_that_leave_and_come_back_are_followed_where_the_kernel_can_tell() {
    let [mut beneath, mut uncached, mut walking] = Site::each_way(Options::default());
    for (site, expected) in [(&mut beneath, "a"), (&mut uncached, "a"), (&mut walking, "not found")] {
        let file = site.folder.put("d/a", "a");
        let root = site.folder.path(".").canonicalize().unwrap();
        let name = root.file_name().unwrap().to_str().unwrap();
        symlink(&file, site.folder.path("absolute")).unwrap();
        symlink(file.parent().unwrap(), site.folder.path("folder")).unwrap();
        symlink(format!("../{name}/d/a"), site.folder.path("up")).unwrap();
        symlink(format!("../../{name}/folder/a"), site.folder.path("d/twice")).unwrap();
        for path in ["/absolute", "/folder/a", "/up", "/d/twice"] {
            assert_eq!(site.get(path), expected, "{path}");
        }
        // The request, not the symlink, comes back.
        symlink("..", site.folder.path("above")).unwrap();
        assert!(["outside", "not found"].contains(&site.get(&format!("/above/{name}/d/a")).as_str()));
        // A neighbour whose name begins alike, and what is missing.
        symlink(format!("{}2/a", root.display()), site.folder.path("like")).unwrap();
        symlink(root.join("gone"), site.folder.path("dangling")).unwrap();
        for path in ["/like", "/dangling"] {
            assert!(["outside", "not found"].contains(&site.get(path).as_str()), "{path}");
        }
    }
}

/// The place of the root is the place of the folder that a lookup has opened.
#[test]
fn symlinks_come_back_to_the_root_that_took_the_place_of_another() {
    let folder = Folder::new();
    for (release, text) in [("1", "one"), ("2", "two")] {
        folder.put(format!("{release}/a"), text);
        symlink(folder.path("current/a"), folder.path(format!("{release}/link"))).unwrap();
    }
    symlink("1", folder.path("current")).unwrap();
    let root = Root::open(&folder.path("current"), Options::default()).unwrap();
    let read = || {
        let mut text = String::new();
        let entered = root.enter(Wait::Allowed).unwrap();
        std::io::Read::read_to_string(&mut entered.read(b"link", Wait::Allowed).unwrap(), &mut text).unwrap();
        text
    };
    assert_eq!(read(), "one");
    std::fs::remove_file(folder.path("current")).unwrap();
    symlink("2", folder.path("current")).unwrap();
    assert_eq!(read(), "two");
}

#[test]
fn hidden_names() {
    for (options, expected) in [(Options::default(), "not found"), (nothing_hidden(), "h")] {
        for mut site in Site::each_way(options) {
            site.folder.put(".git/config", "h");
            site.folder.put("d/.env", "h");
            site.folder.put(".well-known/security.txt", "w");
            site.folder.put(".well-known/.x", "h");
            for path in ["/.git/config", "/%2egit/config", "/d/.env", "/.well-known/.x"] {
                assert_eq!(site.get(path), expected, "{path}");
            }
            assert_eq!(site.get("/.well-known/security.txt"), "w");
        }
    }
}

#[test]
fn only_regular_files() {
    for mut site in Site::each_way(Options::default()) {
        // Opening a FIFO for reading waits for a writer, unless it is non-blocking.
        mknodat(CWD, site.folder.path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        let _socket = UnixListener::bind(site.folder.path("socket")).unwrap();
        assert_eq!(site.get("/fifo"), "not found");
        assert_eq!(site.get("/socket"), "not found");
        assert_eq!(site.cache.usage(), (0, 0, 0));
    }
}

#[test]
fn a_fifo_swapped_in_does_not_block() {
    let site = Site::new(Options::default());
    mknodat(CWD, site.folder.path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let root = Root::open(&site.folder.path("."), Options::default()).unwrap();
    assert!(!root.enter(Wait::Allowed).unwrap().read(b"fifo", Wait::Allowed).unwrap().metadata().unwrap().is_file());
}

#[test]
fn a_missing_folder_or_a_file_is_no_root() {
    let folder = Folder::new();
    let file = folder.put("file", "");
    for path in [folder.path("missing"), file] {
        assert!(Root::open(&path, Options::default()).is_err());
    }
}
