//! Files that are not in memory are found by another thread.

use std::sync::mpsc::{Receiver, channel};

use rustix::fs::{Advice, fadvise};

use super::fake_disk::FakeDisk;
use super::*;
use crate::disk::{Jam, Lane, Pool, THREADS_PER_DEVICE_MAX};
use crate::exchange_id::ExchangeId;

/// The key of a path of the first site.
fn key(path: &str) -> Key {
    let mut bytes = Vec::new();
    Key::write(0, path.as_bytes(), &mut bytes);
    Key::from(bytes.as_slice())
}

fn on(disk: &FakeDisk, options: Options) -> Site {
    let disk = disk.clone();
    Site::with(options, |root| root.on(disk))
}

/// The lookup of a path that cannot be found at once.
fn offloaded(site: &mut Site, path: &str) -> Box<Lookup> {
    match site.cache.lookup(0, path.as_bytes(), site.now) {
        CacheAnswer::Offload(lookup) => lookup,
        CacheAnswer::Ready(found) => panic!("{path}: {found:?}"),
    }
}

fn at_once(site: &mut Site, path: &str) -> Result<Found, Missing> {
    match site.cache.lookup(0, path.as_bytes(), site.now) {
        CacheAnswer::Ready(found) => found,
        CacheAnswer::Offload(_) => panic!("{path} would wait"),
    }
}

fn entry(found: Result<Found, Missing>) -> Arc<Entry> {
    match found {
        Ok(Found::File(entry)) => entry,
        other => panic!("{other:?}"),
    }
}

fn finished(site: &mut Site, done: lookup::FinishedLookup) -> Arc<Entry> {
    match site.cache.finish(done) {
        CacheAnswer::Ready(found) => entry(found),
        CacheAnswer::Offload(_) => panic!("once was enough"),
    }
}

#[test]
fn what_is_in_memory_is_found_at_once() {
    let mut site = Site::new(listed());
    site.folder.put("a", "a");
    site.folder.put("d/index.html", "d");
    assert_eq!(content(&entry(at_once(&mut site, "/a"))), "a");
    assert_eq!(content(&entry(at_once(&mut site, "/d/"))), "d");
    assert!(matches!(at_once(&mut site, "/d"), Ok(Found::Redirect(_))));
    site.now += REVALIDATE_AFTER;
    assert_eq!(content(&entry(at_once(&mut site, "/a"))), "a");
}

#[test]
fn what_is_not_is_found_aside_and_then_known() {
    let disk = FakeDisk::of(&["cold", "d/index.html"]);
    let mut site = on(&disk, Options::default());
    for name in ["cold", "warm", "d/index.html"] {
        site.folder.put(name, name);
    }
    assert_eq!(content(&entry(at_once(&mut site, "/warm"))), "warm");
    for (path, expected) in [("/cold", "cold"), ("/d/", "d/index.html"), ("/c%6fld", "cold")] {
        let done = offloaded(&mut site, path).run();
        let found = finished(&mut site, done);
        assert_eq!(content(&found), expected);
        assert!(Arc::ptr_eq(&found, &entry(at_once(&mut site, path))), "{path}");
    }
}

/// Once a second, cached entries are compared with the file system.
#[test]
fn to_look_again_waits_no_more_than_to_find() {
    let disk = FakeDisk::of(&["cold"]);
    let mut site = on(&disk, Options::default());
    site.folder.put("cold", "old");
    let first = site.entry("/cold");
    site.now += REVALIDATE_AFTER;
    let done = offloaded(&mut site, "/cold").run();
    assert!(Arc::ptr_eq(&first, &finished(&mut site, done)), "unchanged");
    assert!(Arc::ptr_eq(&first, &entry(at_once(&mut site, "/cold"))), "and looked at");
    site.now += REVALIDATE_AFTER;
    let lookup = offloaded(&mut site, "/cold");
    site.folder.put("cold", "newer");
    assert_eq!(content(&finished(&mut site, lookup.run())), "newer");
    site.now += REVALIDATE_AFTER;
    fs::remove_file(site.folder.path("cold")).unwrap();
    let done = offloaded(&mut site, "/cold").run();
    assert!(matches!(site.cache.finish(done), CacheAnswer::Ready(Err(Missing::NotFound))));
    assert_eq!(site.cache.usage(), (0, 0, 0));
}

#[test]
fn a_listing_is_made_aside_and_then_known() {
    let mut site = Site::new(listed());
    site.folder.put("d/a", "a");
    let done = offloaded(&mut site, "/d/").run();
    let CacheAnswer::Ready(Ok(Found::Listing(page))) = site.cache.finish(done) else { panic!("no listing") };
    let Ok(Found::Listing(known)) = at_once(&mut site, "/d/") else { panic!("no listing") };
    assert!(Arc::ptr_eq(&page, &known));
    site.folder.put("d/b", "b");
    site.cache.on_change();
    offloaded(&mut site, "/d/");
}

/// The name is in memory, the content is not.
#[test]
fn a_body_that_is_not_in_memory_is_loaded_aside() {
    let mut site = Site::new(Options::default());
    let file = File::open(site.folder.put("a", "a".repeat(900))).unwrap();
    file.sync_all().unwrap();
    // The look itself starts the kernel's read-ahead: a disk faster than a busy processor has the page in memory before
    // the look ends.
    let lookup = (0..100).find_map(|_| {
        site.cache.clear();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        match site.cache.lookup(0, b"/a", site.now) {
            CacheAnswer::Offload(lookup) => Some(lookup),
            CacheAnswer::Ready(found) => {
                found.expect("it is there");
                std::thread::sleep(std::time::Duration::from_millis(1));
                None
            }
        }
    });
    let Some(lookup) = lookup else { return println!("SKIPPED: the temporary folder's pages cannot be dropped") };
    let done = lookup.run();
    assert_eq!(content(&finished(&mut site, done)).len(), 900);
    site.cache.clear();
    assert_eq!(content(&entry(at_once(&mut site, "/a"))).len(), 900);
}

/// Between the load and the end of the lookup, only the kernel knows that the file is watched.
#[test]
fn a_change_during_a_find_is_seen() {
    for spelling in ["/a", "/%61"] {
        let mut site = Site::with(Options::default(), Root::uncached);
        site.folder.put("a", "old");
        // The other spelling's watch is the same one, and is released meanwhile.
        site.entry("/a");
        site.now += REVALIDATE_AFTER;
        let lookup = offloaded(&mut site, spelling);
        if spelling != "/a" {
            let done = lookup.run();
            site.cache.clear();
            assert_eq!(content(&finished(&mut site, done)), "old");
        } else {
            site.folder.put("a", "mid");
            site.cache.on_change();
            let done = lookup.run();
            site.folder.put("a", "old");
            site.cache.on_change();
            assert_eq!(content(&finished(&mut site, done)), "mid");
        }
        assert_eq!(site.get_after_change(spelling), "old");
        site.folder.put("a", "new");
        assert_eq!(site.get_after_change(spelling), "new");
    }
}

/// Some forgotten event may have concerned this file.
#[test]
fn a_find_that_takes_too_long_is_not_remembered() {
    let mut site = Site::with(Options::default(), Root::uncached);
    site.folder.put("a", "a");
    let lookup = offloaded(&mut site, "/a");
    let other = site.folder.put("b", "b");
    for _ in 0..2000 {
        site.get("/b");
        fs::write(&other, "b").unwrap();
        site.cache.on_change();
    }
    let done = lookup.run();
    assert_eq!(content(&finished(&mut site, done)), "a");
    assert_eq!(site.cache.usage(), (0, 0, 0));
}

/// A worker's lookups, on a disk that hangs.
struct Bench {
    site: Site,
    disk: FakeDisk,
    pool: Arc<Pool>,
    lookups: Lookups,
    wakes: Receiver<()>,
    answers: Vec<LookupResult>,
}

impl Bench {
    fn new(cold: &[&str]) -> Bench {
        let disk = FakeDisk::of(cold);
        disk.set_hanging(true);
        let (pool, (wake, wakes)) = (Pool::new(), channel());
        let lookups = Lookups::new(pool.clone(), move || {
            // The test may be over.
            let _ = wake.send(());
        });
        Bench { site: on(&disk, Options::default()), disk, pool, lookups, wakes, answers: Vec::new() }
    }

    fn ask(&mut self, path: &str, asker: u64) -> Result<(), Missing> {
        self.ask_for(0, path, asker)
    }

    fn ask_for(&mut self, client: u32, path: &str, asker: u64) -> Result<(), Missing> {
        let lookup = offloaded(&mut self.site, path);
        self.lookups.ask(lookup, ExchangeId::new(asker, 0), client)
    }

    /// Waits for the end of one lookup.
    fn take(&mut self) -> Vec<(u64, String)> {
        self.wakes.recv().unwrap();
        self.lookups.take(&mut self.site.cache, self.site.now, &mut self.answers);
        let text = |found| match found {
            Ok(Found::File(entry)) => content(&entry),
            other => format!("{other:?}"),
        };
        self.answers.drain(..).map(|(asker, found)| (asker.token(), text(found))).collect()
    }
}

#[test]
fn those_who_want_the_same_share_a_find() {
    let mut bench = Bench::new(&["cold"]);
    bench.site.folder.put("cold", "cold");
    bench.ask("/cold", 3).unwrap();
    bench.disk.wait_asked(1);
    for asker in [1, 2, 7] {
        bench.ask("/cold", asker).unwrap();
    }
    bench.lookups.leave(&key("/cold"), ExchangeId::new(7, 0));
    bench.disk.set_hanging(false);
    assert_eq!(bench.take(), [3, 1, 2].map(|asker| (asker, "cold".to_string())));
    // It was looked at and opened.
    assert_eq!(bench.disk.asked(), 2);
    assert_eq!(content(&entry(at_once(&mut bench.site, "/cold"))), "cold");
}

/// The result may be older than the request of a late asker; late askers get what is there after all of them have
/// asked.
#[test]
fn late_askers_see_what_changed_before_they_asked() {
    let mut bench = Bench::new(&["cold"]);
    bench.ask("/cold", 1).unwrap();
    bench.disk.set_hanging(false);
    // Its end has not been taken yet.
    let () = bench.wakes.recv().unwrap();
    bench.site.folder.put("cold", "new");
    for asker in [2, 3] {
        bench.ask("/cold", asker).unwrap();
    }
    bench.lookups.take(&mut bench.site.cache, bench.site.now, &mut bench.answers);
    assert!(matches!(bench.answers[..], [(id, Err(Missing::NotFound))] if id == ExchangeId::new(1, 0)));
    bench.answers.clear();
    assert_eq!(bench.take(), [2, 3].map(|asker| (asker, "new".to_string())));
}

#[test]
fn a_find_whose_askers_have_left_is_remembered_all_the_same() {
    let mut bench = Bench::new(&["cold"]);
    bench.site.folder.put("cold", "cold");
    bench.ask("/cold", 1).unwrap();
    bench.disk.wait_asked(1);
    bench.lookups.leave(&key("/cold"), ExchangeId::new(1, 0));
    bench.disk.set_hanging(false);
    assert!(bench.take().is_empty());
    assert_eq!(content(&entry(at_once(&mut bench.site, "/cold"))), "cold");
}

/// If an asker joins before the lookup is skipped, it is run.
#[test]
fn a_find_that_nobody_awaits_is_skipped() {
    let mut bench = Bench::new(&["cold"]);
    bench.disk.set_hanging(false);
    let device = offloaded(&mut bench.site, "/cold").device();
    let jam = Jam::new(&bench.pool);
    (0..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(device, Lane::Lookup)));
    jam.wait_begun(THREADS_PER_DEVICE_MAX);
    bench.ask("/cold", 1).unwrap();
    bench.ask("/cold", 2).unwrap();
    bench.lookups.leave(&key("/cold"), ExchangeId::new(1, 0));
    bench.lookups.leave(&key("/cold"), ExchangeId::new(2, 0));
    drop(jam);
    assert!(bench.take().is_empty());
    assert_eq!(bench.disk.asked(), 0, "the disk was asked for nobody");
    let jam = Jam::new(&bench.pool);
    (0..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(device, Lane::Lookup)));
    jam.wait_begun(THREADS_PER_DEVICE_MAX);
    bench.ask("/cold", 3).unwrap();
    bench.lookups.leave(&key("/cold"), ExchangeId::new(3, 0));
    bench.ask("/cold", 4).unwrap();
    drop(jam);
    assert_eq!(bench.take(), [(4, "Err(NotFound)".to_string())]);
}

/// If a client has queued many lookups before it asks for a path, others that want that path wait no longer than their
/// own turn.
#[test]
fn a_find_waits_in_the_queue_of_each_client_that_wants_it() {
    let mut bench = Bench::new(&["a", "b", "c", "cold"]);
    bench.site.folder.put("cold", "cold");
    bench.disk.set_hanging(false);
    let device = offloaded(&mut bench.site, "/cold").device();
    let (jam, last) = (Jam::new(&bench.pool), Jam::new(&bench.pool));
    (1..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(device, Lane::Lookup)));
    jam.wait_begun(THREADS_PER_DEVICE_MAX - 1);
    assert!(last.add(device, Lane::Lookup));
    last.wait_begun(1);
    for (asker, path) in (1..).zip(["/a", "/b", "/c", "/cold"]) {
        bench.ask_for(7, path, asker).unwrap();
    }
    bench.ask_for(8, "/cold", 5).unwrap();
    // One thread, so that they are found in the order of the queues.
    drop(last);
    let mut answers = Vec::new();
    while answers.len() < 5 {
        answers.extend(bench.take().into_iter().map(|(asker, _)| asker));
    }
    assert_eq!(answers, [1, 4, 5, 2, 3]);
}

#[test]
fn a_disk_that_hangs_is_told_of_once() {
    let mut bench = Bench::new(&["cold"]);
    let began_at = bench.site.now;
    bench.ask("/cold", 1).unwrap();
    let said = |bench: &mut Bench, after: Nanos| bench.lookups.slow(began_at + after);
    assert_eq!(said(&mut bench, SLOW_AFTER - Nanos(1)), None);
    assert_eq!(said(&mut bench, SLOW_AFTER).as_deref(), Some("/cold"));
    assert_eq!(said(&mut bench, SLOW_AFTER + SLOW_AFTER), None);
    bench.disk.set_hanging(false);
    bench.take();
    assert_eq!(said(&mut bench, SLOW_AFTER + SLOW_AFTER), None);
    bench.disk.set_hanging(true);
    bench.site.folder.put("cold", "new");
    bench.site.cache.on_change();
    bench.ask("/cold", 1).unwrap();
    assert_eq!(said(&mut bench, SLOW_AFTER).as_deref(), Some("/cold"), "another time");
    bench.disk.set_hanging(false);
}

#[test]
fn more_finds_than_can_wait_are_refused() {
    let mut bench = Bench::new(&["cold", "other"]);
    bench.site.folder.put("cold", "cold");
    // This lookup takes the turn to read the names of the folder.
    let device = offloaded(&mut bench.site, "/other").device();
    bench.ask("/cold", 1).unwrap();
    bench.disk.wait_asked(1);
    let jam = Jam::new(&bench.pool);
    (1..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(device, Lane::Lookup)));
    jam.wait_begun(THREADS_PER_DEVICE_MAX - 1);
    jam.fill(device, Lane::Lookup);
    assert!(matches!(bench.ask("/other", 2), Err(Missing::Exhausted)));
    // The running lookup accepts more askers; the further lookup that they would need is refused when it ends.
    bench.ask("/cold", 3).unwrap();
    fs::remove_file(bench.site.folder.path("cold")).unwrap();
    bench.disk.set_hanging(false);
    jam.wait_begun(1);
    jam.fill(device, Lane::Lookup);
    assert_eq!(bench.take(), [(1, "Err(NotFound)".to_string()), (3, "Err(Exhausted)".to_string())]);
}

#[test]
fn a_file_system_nobody_has_asked_is_not_asked_by_who_cannot_wait() {
    use super::mounts::{Kind, Mounts};
    let folder = Folder::new();
    let (file, mounts) = (File::open(folder.put("a", "a")).unwrap(), Mounts::default());
    assert_eq!(mounts.kind(&file), Kind::Remote);
    let learned = mounts.learn(&file);
    assert_eq!((mounts.kind(&file), mounts.learn(&file)), (learned, learned));
    assert_eq!(mounts.kind(&File::open("/proc/self/stat").unwrap()), Kind::Remote);
}

/// The device of what is there, or else of where it would be.
#[test]
fn a_find_is_for_the_device_it_asks() {
    use std::os::unix::fs::MetadataExt;
    let site = Site::with(Options::default(), Root::uncached);
    let own = fs::metadata(site.folder.path(".")).unwrap().dev();
    assert_eq!(
        Root::open(Path::new("/"), Options::default()).unwrap().device(b"proc/self/none/x"),
        fs::metadata("/proc").unwrap().dev()
    );
    assert_eq!(Root::open(&site.folder.path("."), Options::default()).unwrap().device(b"no/ne"), own);
    assert_eq!(Root::open(&site.folder.path("."), Options::default()).unwrap().uncached().device(b"a"), own);
}
