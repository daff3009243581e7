//! The properties of an entry's file.

use super::*;

#[test]
fn what_a_head_says() {
    let mut site = Site::new(Options::default());
    let path = site.folder.put("a.css", "body{}");
    let modified = SystemTime::UNIX_EPOCH + Duration::new(784_111_777, 999);
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    let entry = site.entry("/a.css");
    assert_eq!((entry.len, entry.mime.as_str()), (6, "text/css; charset=utf-8"));
    assert_eq!(entry.last_modified, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
    let response = http::Response::new(http::Status::OK, ()).of(entry.fields.whole());
    let fields: [(&[u8], &[u8]); 5] = [
        (b"Content-Type", b"text/css; charset=utf-8"),
        (b"ETag", entry.etag.as_bytes()),
        (b"Last-Modified", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (b"Accept-Ranges", b"bytes"),
        (b"Content-Length", b"6"),
    ];
    assert_eq!(response.fields().collect::<Vec<_>>(), fields);
}

#[test]
fn only_small_files_are_held_in_memory() {
    let mut site = Site::new(Options::default()).large();
    let most = "x".repeat(BODY_BYTES_HELD_MAX as usize);
    site.folder.put("small", &most);
    site.folder.put("large", most.clone() + "x");
    assert!(matches!(site.entry("/small").content, Content::Held(_)));
    assert!(matches!(site.entry("/large").content, Content::Open(_)));
    assert_eq!(site.get("/large"), most + "x");
    assert_eq!(site.cache.usage(), (2, 1, BODY_BYTES_HELD_MAX as usize));
}

/// Two files as on two hosts between which rsync copies: another inode, another time of change.
#[test]
fn copies_have_the_same_tag() {
    for bytes in [100, BODY_BYTES_HELD_MAX as usize + 1] {
        let mut sites = [Site::new(Options::default()), Site::new(Options::default())];
        let tags = sites.each_mut().map(|site| {
            let path = site.folder.put("a", "x".repeat(bytes));
            let modified = SystemTime::UNIX_EPOCH + Duration::new(784_111_777, 999);
            File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
            site.entry("/a").etag.clone()
        });
        assert_eq!(tags[0], tags[1]);
    }
}

/// A deployment may give every file the same time: a held content is distinguished by its bytes.
#[test]
fn another_content_of_the_same_size_and_time_has_another_tag() {
    let mut site = Site::new(Options::default());
    let tags = ["old", "new"].map(|content| {
        let path = site.folder.put("next", content);
        File::options().write(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        fs::rename(path, site.folder.path("a")).unwrap();
        site.cache.on_change();
        site.entry("/a").etag.clone()
    });
    assert_ne!(tags[0], tags[1]);
}

#[test]
fn a_hit_is_the_same_entry() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "a");
    let first = site.entry("/a");
    assert!(Arc::ptr_eq(&first, &site.entry("/a")));
    assert!(!Arc::ptr_eq(&first, &site.entry("/%61")));
}
