use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::codec::digest_of;
use crate::codec::testing::{decoded, decoded_with, text};
use crate::files::temporary::Folder;
use crate::files::{Content, Way};
use http::Coding::{Brotli, Gzip, Zstd};

const MANY: u64 = 256 << 20;

fn body(form: &Entry) -> &[u8] {
    let Content::Held(body) = &form.content else { panic!("a form is in memory") };
    body
}

/// Runs all jobs of a level that wait; returns how many.
fn run(coder: &Coder, level: Level) -> usize {
    std::iter::from_fn(|| coder.begin(level)).map(|job| coder.run(job)).count()
}

fn ready(coder: &Coder, entry: &Arc<Entry>, coding: Coding) -> Option<Arc<Entry>> {
    match coder.find(entry, coding, 1) {
        Known::Ready(form) => Some(form),
        _ => None,
    }
}

/// A file of text that is in memory, with a name of its own.
fn page(folder: &Folder, number: usize, bytes: usize) -> Arc<Entry> {
    let mut content = text(bytes);
    content[..8].copy_from_slice(format!("{number:08}").as_bytes());
    folder.put(format!("{number}.html"), content);
    folder.entry(&format!("{number}.html"))
}

/// A file of digits, which no coding reduces by half.
fn digits(folder: &Folder, number: usize, bytes: usize) -> Arc<Entry> {
    let mut state = number as u64 + 1;
    let mut digit = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from_digit((state >> 33) as u32 % 16, 16).expect("below 16")
    };
    let content: String = (0..bytes).map(|_| digit()).collect();
    folder.put(format!("{number}.txt"), content);
    folder.entry(&format!("{number}.txt"))
}

fn waiter(number: u64) -> (Waiter, Receiver<()>) {
    let (woken, wakes) = channel();
    (Waiter { exchange: ExchangeId::new(number, 0), done: Arc::new(Done::new(move || woken.send(()).unwrap())) }, wakes)
}

fn posted(waiter: &Waiter) -> Vec<u64> {
    let mut posted = Vec::new();
    waiter.done.take(&mut posted);
    posted.into_iter().map(ExchangeId::token).collect()
}

#[test]
fn a_form_is_made_once_for_all_who_ask() {
    let (folder, coder) = (Folder::new(), Coder::new(MANY));
    let entry = page(&folder, 1, 20_000);
    for coding in Coding::ALL {
        assert!(matches!(coder.find(&entry, coding, 1), Known::Pending(ready_in) if ready_in > Nanos::ZERO));
        assert!(matches!(coder.find(&entry, coding, 2), Known::Pending(_)) && coder.ready(&entry, coding).is_none());
        let ((first, wakes), (second, _)) = (waiter(7), waiter(8));
        assert!(coder.wait(FormId::of(&entry, coding), first.clone()));
        assert!(coder.wait(FormId::of(&entry, coding), second.clone()));
        coder.leave(FormId::of(&entry, coding), &second);
        assert_eq!(run(&coder, Level::Fast), 1, "one job for two clients");
        wakes.try_recv().expect("the event loop is woken");
        assert_eq!((posted(&first), posted(&second)), (vec![7], vec![]));
        let form = ready(&coder, &entry, coding).unwrap();
        assert!(decoded(coding, body(&form)) == body(&entry) && form.len < entry.len / 2);
        assert_eq!(form.etag, entry.tag_of(&Way { coding, level: Level::Fast.number(coding), dictionary: None }));
        assert!(!coder.wait(FormId::of(&entry, coding), first), "there is nothing to wait for");
    }
}

/// The best level replaces the fast one and has a separate tag, because its bytes differ.
#[test]
fn the_best_level_is_swapped_in() {
    let (folder, coder) = (Folder::new(), Coder::new(MANY));
    let entry = page(&folder, 1, 60_000);
    coder.find(&entry, Brotli, 1);
    run(&coder, Level::Fast);
    let fast = ready(&coder, &entry, Brotli).unwrap();
    assert_eq!(run(&coder, Level::Best), 1);
    let best = ready(&coder, &entry, Brotli).unwrap();
    assert!(best.len < fast.len && best.etag != fast.etag && decoded(Brotli, body(&best)) == body(&entry));
    assert_eq!(run(&coder, Level::Best), 0, "there is nothing better");
    let (bytes, _) = coder.usage();
    assert_eq!(bytes, best.len + fast.len, "a response may still send the other");
    drop(fast);
    assert_eq!(coder.usage().0, best.len);
}

#[test]
fn what_does_not_shrink_is_remembered() {
    let (folder, coder) = (Folder::new(), Coder::new(MANY));
    let noise: Vec<u8> =
        (0..5_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ at as u8).collect();
    let shuffled: Vec<u8> =
        noise.iter().zip(noise.iter().rev()).map(|(a, b)| a.wrapping_mul(31) ^ b.rotate_left(3)).collect();
    folder.put("a.html", &shuffled);
    let entry = folder.entry("a.html");
    coder.find(&entry, Gzip, 1);
    assert_eq!(run(&coder, Level::Fast), 1);
    let is_known = matches!(coder.find(&entry, Gzip, 1), Known::None);
    assert!(is_known && run(&coder, Level::Fast) == 0, "it is not tried again");
    assert_eq!(coder.usage(), (0, 1));
}

/// A client that requests many files uses no more memory than another.
#[test]
fn jobs_and_forms_are_bounded_however_many_files_are_asked_for() {
    let (folder, coder) = (Folder::new(), Coder::new(4 << 20));
    let (mut refused, mut done) = (0, 0);
    for number in 0..400 {
        let entry = page(&folder, number, 30_000);
        refused += usize::from(matches!(coder.find(&entry, Gzip, 1), Known::Busy));
        if number % 100 == 99 {
            done += run(&coder, Level::Fast);
        }
    }
    assert_eq!((refused, done), (400 - 4 * JOBS_WAITING_MAX, 4 * JOBS_WAITING_MAX));
    let (bytes, forms) = coder.usage();
    assert!(bytes <= 2 << 20 && forms <= FORMS_MAX, "{bytes} bytes of {forms}");
}

/// The least recently used form is removed first.
#[test]
fn a_full_cache_gives_way() {
    let folder = Folder::new();
    let entries: Vec<Arc<Entry>> = (0..3).map(|number| digits(&folder, number, 60_000)).collect();
    let lengths: Vec<u64> = {
        let coder = Coder::new(MANY);
        entries.iter().for_each(|entry| drop(coder.find(entry, Gzip, 1)));
        run(&coder, Level::Fast);
        entries.iter().map(|entry| ready(&coder, entry, Gzip).unwrap().len).collect()
    };
    assert!(lengths.iter().all(|len| *len > 15_000), "{lengths:?}");
    let coder = Coder::new(4 << 20);
    let bytes_max = lengths.iter().sum::<u64>() - 1;
    coder.state().forms.account().set_bytes_max(bytes_max);
    for entry in &entries[..2] {
        coder.find(entry, Gzip, 1);
        run(&coder, Level::Fast);
    }
    assert!(ready(&coder, &entries[0], Gzip).is_some() && ready(&coder, &entries[1], Gzip).is_some());
    assert!(ready(&coder, &entries[0], Gzip).is_some(), "it was used last");
    coder.find(&entries[2], Gzip, 1);
    run(&coder, Level::Fast);
    assert!(coder.ready(&entries[1], Gzip).is_none() && coder.ready(&entries[0], Gzip).is_some());
    assert!(ready(&coder, &entries[2], Gzip).is_some() && coder.usage().0 <= bytes_max);
}

/// Forms that responses hold count until the responses end, even if other forms have replaced them.
#[test]
fn forms_under_way_are_counted() {
    let (folder, coder) = (Folder::new(), Coder::new(MANY));
    let (first, second) = (digits(&folder, 1, 60_000), digits(&folder, 2, 60_000));
    coder.find(&first, Gzip, 1);
    run(&coder, Level::Fast);
    let held = ready(&coder, &first, Gzip).unwrap();
    coder.state().forms.account().set_bytes_max(held.len + 100);
    coder.find(&second, Gzip, 1);
    run(&coder, Level::Fast);
    assert!(matches!(coder.find(&second, Gzip, 1), Known::None), "its room is taken");
    // The first is forgotten and only held by its response, so nothing can make room for a third.
    let third = digits(&folder, 3, 60_000);
    assert!(matches!(coder.find(&third, Gzip, 1), Known::None) && run(&coder, Level::Fast) == 0);
    assert!(coder.ready(&first, Gzip).is_none() && coder.usage().0 == held.len);
    drop(held);
    assert!(matches!(coder.find(&first, Gzip, 1), Known::None | Known::Pending(_)));
    coder.state().forms.account().set_bytes_max(1 << 20);
    assert!(matches!(coder.find(&third, Gzip, 1), Known::Pending(_)));
}

/// Bytes and tag of a form come from one state of the file.
#[test]
fn a_file_that_changes_while_it_is_coded_has_no_form() {
    let (folder, coder) = (Folder::new(), Coder::new(MANY));
    for (name, bytes) in [("held.html", 10_000), ("open.html", 100_000)] {
        folder.put(name, text(bytes));
        let before = folder.entry(name);
        coder.find(&before, Gzip, 1);
        let job = coder.begin(Level::Fast).unwrap();
        // The file changes in place, with the same length: a descriptor reads the new bytes.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut changed = text(bytes);
        changed[5_000..6_000].fill(b'!');
        folder.put(name, &changed);
        coder.run(job);
        let form = ready(&coder, &before, Gzip);
        // A content in memory is one state for as long as its entry exists.
        assert!(form.as_ref().is_none_or(|form| decoded(Gzip, body(form)) == text(bytes)), "{name}");
        assert_eq!(form.is_some(), bytes == 10_000, "{name}");
        let after = folder.entry(name);
        assert!(coder.ready(&after, Gzip).is_none(), "{name}: the form of another state");
        coder.find(&after, Gzip, 1);
        run(&coder, Level::Fast);
        let form = ready(&coder, &after, Gzip).unwrap();
        assert!(decoded(Gzip, body(&form)) == changed && form.etag.starts_with(&after.etag[..17]), "{name}");
    }
}

#[test]
fn an_encoder_that_does_not_fit_is_not_offered() {
    let folder = Folder::new();
    let entry = page(&folder, 1, 60_000);
    let offers = |bytes_max| Coder::new(bytes_max).offers(&entry).iter().collect::<Vec<_>>();
    assert_eq!(offers(MANY), [Brotli, Zstd, Gzip]);
    assert_eq!(offers(8 << 20), [Zstd, Gzip]);
    assert_eq!(offers(2 << 20), [Gzip]);
    assert_eq!(offers(768 << 10), []);
    let short = page(&folder, 2, 255);
    assert!(Coder::new(MANY).offers(&short).is_empty(), "the head is most of it");
}

#[test]
fn threads_make_forms_and_end() {
    let (folder, coder) = (Folder::new(), Arc::new(Coder::new(MANY)));
    let entry = page(&folder, 1, 20_000);
    let threads = [Level::Fast, Level::Best].map(|level| {
        let coder = Arc::clone(&coder);
        std::thread::spawn(move || coder.work(level))
    });
    let (waiter, wakes) = waiter(1);
    coder.find(&entry, Zstd, 1);
    if coder.wait(FormId::of(&entry, Zstd), waiter) {
        wakes.recv_timeout(std::time::Duration::from_secs(60)).expect("the form is made");
    }
    while ready(&coder, &entry, Zstd)
        .is_none_or(|form| form.etag != entry.tag_of(&Way { coding: Zstd, level: 19, dictionary: None }))
    {
        std::thread::yield_now();
    }
    coder.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A small host (limits.memory of 512 MiB, of which a 16th is for coding) makes the best form of a page, while the other
/// thread waits for the memory.
#[test]
fn a_small_host_makes_the_best_form_alone() {
    let (folder, coder) = (Folder::new(), Arc::new(Coder::new((512 << 20) / 16)));
    let entries: Vec<_> = (0..4).map(|number| page(&folder, number, 100_000)).collect();
    let best = |entry: &Arc<Entry>| entry.tag_of(&Way { coding: Brotli, level: 11, dictionary: None });
    let threads = [Level::Fast, Level::Best].map(|level| {
        let coder = Arc::clone(&coder);
        std::thread::spawn(move || coder.work(level))
    });
    let is_best = |entry| ready(&coder, entry, Brotli).is_some_and(|form| form.etag == best(entry));
    while !entries.iter().all(is_best) {
        let bytes: u64 = coder.state().encoding_bytes.iter().sum();
        assert!(bytes <= (512 << 20) / 32, "{bytes}");
        std::thread::yield_now();
    }
    coder.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(coder.state().encoding_bytes, [0; 2]);
    // Another job would have to wait.
    let job = Job { id: FormId::of(&entries[0], Brotli), level: Level::Best, entry: Arc::clone(&entries[0]) };
    assert!(coder.wait_for_memory(&job) && coder.state().encoding_bytes[Level::Best as usize] > (512 << 20) / 64);
    assert!(!coder.wait_for_memory(&job), "the coder has stopped");
}

/// The best level has the memory, at the lowest priority, so the time is unknown.
#[test]
fn a_form_that_waits_for_memory_is_not_expected_soon() {
    let (folder, coder) = (Folder::new(), Coder::new(24 << 20));
    let [first, second] = [0, 1].map(|number| page(&folder, number, 100_000));
    let expected = |entry| match coder.find(entry, Brotli, 1) {
        Known::Pending(ready_in) => ready_in,
        other => panic!("{other:?}"),
    };
    assert!(expected(&first) < Nanos::from_secs(1));
    let best = Job { id: FormId::of(&first, Brotli), level: Level::Best, entry: Arc::clone(&first) };
    assert!(coder.wait_for_memory(&best));
    assert_eq!([&first, &second].map(expected), [Nanos(u64::MAX); 2]);
}

/// The best level could start the next job immediately; the fast level, for which clients wait, must wake up first.
#[test]
fn the_fast_level_has_the_memory_before_the_next_best_form() {
    let (folder, coder) = (Folder::new(), Arc::new(Coder::new(24 << 20)));
    let entry = page(&folder, 0, 100_000);
    let job = |level| Job { id: FormId::of(&entry, Brotli), level, entry: Arc::clone(&entry) };
    let free = |coder: &Coder, level: Level| {
        coder.state().encoding_bytes[level as usize] = 0;
        coder.changed.notify_all();
    };
    assert!(coder.wait_for_memory(&job(Level::Best)));
    let (had, order) = channel();
    let fast = {
        let (coder, job) = (Arc::clone(&coder), job(Level::Fast));
        std::thread::spawn(move || {
            assert!(coder.wait_for_memory(&job));
            had.send(()).unwrap();
            free(&coder, Level::Fast);
        })
    };
    while !coder.state().fast_waits {
        std::thread::yield_now();
    }
    free(&coder, Level::Best);
    assert!(coder.wait_for_memory(&job(Level::Best)) && order.try_recv().is_ok());
    fast.join().unwrap();
}

/// Three pages, of which the first two are dictionaries of the third; each coder is of a process that has just started.
struct Kept {
    folder: Folder,
    pages: [Arc<Entry>; 3],
}

impl Kept {
    fn new() -> Kept {
        let folder = Folder::new();
        let pages = [1, 2, 3].map(|number| page(&folder, number, 20_000));
        Kept { folder, pages }
    }

    fn start(&self) -> Coder {
        let coder = Coder::new(MANY);
        let open = |(name, bytes_max): (&str, u64)| {
            Shelf::open(&self.folder.path("state"), name, bytes_max, |line| panic!("{line}")).ok().map(Arc::new)
        };
        coder.keep_on(SHELVES.map(open));
        coder
    }

    fn bytes(&self, page: usize) -> Vec<u8> {
        self.pages[page].whole().unwrap().into_owned()
    }

    fn dictionary(&self, page: usize) -> DictionaryId {
        DictionaryId { site: SiteKey(1), digest: digest_of(&self.bytes(page)) }
    }

    fn ask(&self, coder: &Coder, page: usize) -> Option<Arc<Entry>> {
        let id = FormId::of(&self.pages[2], Brotli).with(self.dictionary(page));
        match coder.find_with(&self.pages[2], id, 20_000, 1) {
            Known::Ready(form) => Some(form),
            Known::Pending(_) | Known::Busy | Known::None => None,
        }
    }

    /// The form of the last page with this one, asked for by a first client and made.
    fn made(&self, coder: &Coder, page: usize) -> Option<Arc<Entry>> {
        assert!(self.ask(coder, page).is_none());
        coder.carry_out(coder.begin(Level::Fast).expect("a form is wanted"));
        self.ask(coder, page)
    }

    /// Has dictionaries stored, and the best form with the first one made.
    fn make_best(&self) {
        let coder = self.start();
        self.pages[..2].iter().for_each(|page| assert!(coder.dictionaries.offer(SiteKey(1), page, b"/", 1)));
        coder.dictionaries.run();
        assert!(self.made(&coder, 0).is_some() && self.made(&coder, 1).is_some());
        assert!(self.names().is_empty(), "what is made in a moment is not worth a write");
        (0..3).for_each(|_| drop(self.ask(&coder, 0)));
        coder.carry_out(coder.begin(Level::Best).expect("a better one is wanted"));
    }

    fn names(&self) -> Vec<std::path::PathBuf> {
        let folder = std::fs::read_dir(self.folder.path("state").join(SHELVES[1].0)).unwrap();
        folder.map(|entry| entry.unwrap().path()).collect()
    }
}

/// A form that was made once still exists after a restart, in its own folder.
#[test]
fn forms_with_a_dictionary_outlive_the_process() {
    let kept = Kept::new();
    kept.make_best();
    assert_eq!((kept.names().len(), kept.folder.path("state/forms").read_dir().unwrap().count()), (1, 0));
    std::fs::remove_dir_all(kept.folder.path("state/dictionaries")).unwrap();
    let after = kept.start();
    let form = kept.made(&after, 0).unwrap();
    let way = Way { coding: Brotli, level: Level::Best.number(Brotli), dictionary: Some(kept.dictionary(0).digest) };
    assert_eq!(form.etag, kept.pages[2].tag_of(&way), "the best, without its dictionary");
    assert!(decoded_with(Brotli, body(&form), &kept.bytes(0)).unwrap() == kept.bytes(2));
    assert!(kept.made(&after, 1).is_none(), "another dictionary makes another form, and it is gone");
}

#[test]
fn a_kept_form_that_is_not_as_it_was_written_is_made_anew() {
    let kept = Kept::new();
    kept.make_best();
    let path = kept.names().pop().unwrap();
    let mut turned = std::fs::read(&path).unwrap();
    turned[60] ^= 1;
    std::fs::write(&path, turned).unwrap();
    let form = kept.made(&kept.start(), 0).unwrap();
    assert!(decoded_with(Brotli, body(&form), &kept.bytes(0)).unwrap() == kept.bytes(2));
    assert!(kept.names().is_empty());
}
