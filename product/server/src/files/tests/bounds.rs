//! Limits hold, and running out of something is survived.

use super::*;

#[test]
fn entries_files_and_bytes_stay_within_limits() {
    let mut site = Site::new(Options::default());
    let large = "x".repeat(BODY_BYTES_HELD_MAX as usize + 1);
    for i in 0..40 {
        site.folder.put(format!("small{i}"), "s".repeat(i * 7));
        site.folder.put(format!("large{i}"), &large);
        assert_eq!(site.get(&format!("/small{i}")).len(), i * 7);
        assert_eq!(site.get(&format!("/large{i}")).len(), large.len());
        let (entries, open, bytes) = site.cache.usage();
        assert!(entries <= LIMITS.entries && open <= LIMITS.files_open && bytes <= LIMITS.body_bytes);
    }
    assert_eq!(site.cache.usage().1, LIMITS.files_open);
    site.cache.clear();
    assert_eq!(site.cache.usage(), (0, 0, 0));
}

#[test]
fn a_used_entry_gets_a_second_chance() {
    let mut site = Site::new(Options::default());
    site.folder.put("keep", "k");
    let keep = site.entry("/keep");
    for i in 0..100 {
        site.folder.put(format!("{i}"), "");
        site.get(&format!("/{i}"));
        assert!(Arc::ptr_eq(&keep, &site.entry("/keep")), "{i}");
    }
}

#[test]
fn what_never_fits_is_served_all_the_same() {
    let mut site = Site::new(Options::default());
    site.folder.put("a", "a".repeat(LIMITS.body_bytes + 1));
    assert_eq!(site.get("/a").len(), LIMITS.body_bytes + 1);
    let long = format!("/b{}", "%78".repeat(250));
    site.folder.put(format!("b{}", "x".repeat(250)), "long");
    site.folder.put(format!("d{0}/d{0}/d{0}/d{0}/e", "y".repeat(250)), "deep");
    let deep = format!("/d{0}/d{0}/d{0}/d{0}/e", "%79".repeat(250));
    assert_eq!([site.get(&long), site.get(&deep)], ["long", "deep"]);
    assert_eq!(site.cache.usage().0, 1);
}

#[test]
fn limits_are_shared_among_workers() {
    let all = CacheLimits::per_worker(1);
    let (entries, files_open, body_bytes) = (ENTRIES_MAX, FILES_OPEN_MAX, BODY_BYTES_MAX);
    assert_eq!(all, CacheLimits { entries, files_open, body_bytes, listing_bytes: LISTING_BYTES_MAX });
    assert_eq!(CacheLimits::per_worker(4).entries, ENTRIES_MAX / 4);
    assert!(CacheLimits::per_worker(0) == all && CacheLimits::per_worker(usize::MAX).files_open == 1);
}

/// The limit of descriptors is the process's, so this test runs in a process of its own.
#[test]
fn out_of_descriptors() {
    const CHILD: &str = "WEIR_TEST_OUT_OF_DESCRIPTORS";
    if std::env::var_os(CHILD).is_some() {
        return out_of_descriptors_child();
    }
    let name = format!("{}::out_of_descriptors", module_path!().split_once("::").unwrap().1);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &name]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn out_of_descriptors_child() {
    let mut site = Site::new(Options::default());
    let large = "x".repeat(BODY_BYTES_HELD_MAX as usize + 1);
    ["1", "2", "3", "4"].iter().for_each(|name| drop(site.folder.put(name, &large)));
    site.folder.put("small", "small");
    assert_eq!([site.get("/1"), site.get("/2")], [large.as_str(); 2]);
    assert_eq!(site.get("/small"), "small");
    let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let mut others: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // The files kept open make room for the one requested.
    assert_eq!([site.get("/3"), site.get("/4")], [large.as_str(); 2]);
    site.cache.clear();
    others.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    assert_eq!(site.get("/1"), "Exhausted");
    others.truncate(others.len() - 2);
    assert_eq!(site.get("/small"), "small");
    others.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    site.now += REVALIDATE_AFTER;
    assert_eq!(site.get("/small"), "small");
}

#[test]
fn errors_are_told_apart() {
    for (errno, expected) in [
        (Errno::MFILE, "Exhausted"),
        (Errno::NFILE, "Exhausted"),
        (Errno::ACCESS, "Forbidden"),
        (Errno::XDEV, "Outside(None)"),
    ] {
        assert_eq!(format!("{:?}", Missing::from(errno)), expected);
    }
    assert!(matches!(Missing::from(Errno::IO), Missing::Failed(_)));
}
