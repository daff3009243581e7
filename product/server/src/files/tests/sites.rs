//! Sites of one cache: their own files, and their replacement by others.

use super::*;

fn root(site: &Site, change: impl FnOnce(Root) -> Root) -> Option<Arc<Root>> {
    Some(Arc::new(change(Root::open(&site.folder.path("."), Options::default()).unwrap())))
}

fn lookup(cache: &mut Cache, site: SiteNumber, path: &str) -> String {
    let mut answer = cache.lookup(site, path.as_bytes(), Nanos::from_secs(100));
    loop {
        match answer {
            CacheAnswer::Ready(Ok(Found::File(entry))) => return content(&entry),
            CacheAnswer::Ready(other) => return format!("{other:?}"),
            CacheAnswer::Offload(lookup) => answer = cache.finish(lookup.run()),
        }
    }
}

#[test]
fn a_path_is_a_file_of_each_site() {
    let (one, other) = (Site::new(Options::default()), Site::new(Options::default()));
    one.folder.put("a", "of one");
    other.folder.put("a", "of the other");
    let folders = [root(&one, |root| root), root(&other, |root| root), None].into();
    let mut cache = Cache::new(Roots { first: 0, folders }, LIMITS);
    for _ in 0..2 {
        assert_eq!([0, 1].map(|site| lookup(&mut cache, site, "/a")), ["of one", "of the other"]);
        assert_eq!(lookup(&mut cache, 2, "/a"), "Err(NotFound)", "it has no folder");
    }
}

/// A lookup begun for one set ends as it began, even if the next set is in force; for the set after that it is too old.
#[test]
fn what_is_under_way_ends_as_it_began() {
    let (one, other) = (Site::new(Options::default()), Site::new(Options::default()));
    one.folder.put("a", "of one");
    other.folder.put("a", "of the other");
    let set = |first, site: &Site| Roots { first, folders: [root(site, Root::uncached)].into() };
    let mut cache = Cache::new(set(0, &one), LIMITS);
    let now = Nanos::from_secs(100);
    let mut begun = || match cache.lookup(0, b"/a", now) {
        CacheAnswer::Offload(lookup) => lookup,
        CacheAnswer::Ready(found) => panic!("{found:?}"),
    };
    let [first, second] = [begun(), begun()];
    cache.replace_roots(set(1, &other));
    assert_eq!(lookup(&mut cache, 1, "/a"), "of the other");
    let CacheAnswer::Ready(Ok(Found::File(entry))) = cache.finish(first.run()) else { panic!("it was found") };
    assert_eq!(content(&entry), "of one");
    // An asker that arrived during the lookup asks again.
    assert_eq!([0, 1].map(|site| lookup(&mut cache, site, "/a")), ["of one", "of the other"]);
    cache.replace_roots(set(2, &one));
    let CacheAnswer::Ready(Ok(Found::File(entry))) = cache.finish(second.run()) else { panic!("it was found") };
    assert_eq!(content(&entry), "of one");
    assert!(matches!(cache.lookup(0, b"/b", now), CacheAnswer::Ready(Err(Missing::Exhausted))));
    assert_eq!([1, 2].map(|site| lookup(&mut cache, site, "/a")), ["of the other", "of one"]);
}
