use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::codec::testing::{decoded, text};
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

/// A file of digits that no coding makes less than half of.
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

/// The best level takes the place of the fast one, with a tag of its own: its bytes are others.
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

/// A client that asks for very many files has no more memory than another.
#[test]
fn jobs_and_forms_are_bounded_however_many_files_are_asked_for() {
    let (folder, coder) = (Folder::new(), Coder::new(4 << 20));
    let (mut refused, mut done) = (0, 0);
    for number in 0..400 {
        let entry = page(&folder, number, 30_000);
        refused += usize::from(matches!(coder.find(&entry, Gzip, 1), Known::None));
        if number % 100 == 99 {
            done += run(&coder, Level::Fast);
        }
    }
    assert_eq!((refused, done), (400 - 4 * JOBS_WAITING_MAX, 4 * JOBS_WAITING_MAX));
    let (bytes, forms) = coder.usage();
    assert!(bytes <= 2 << 20 && forms <= FORMS_MAX, "{bytes} bytes of {forms}");
}

/// The least recently used goes first.
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

/// Forms that responses hold count until these have ended, even when others have their place.
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
    // The first is forgotten, and only its response holds it: nothing could give way to a third.
    let third = digits(&folder, 3, 60_000);
    assert!(matches!(coder.find(&third, Gzip, 1), Known::None) && run(&coder, Level::Fast) == 0);
    assert!(coder.ready(&first, Gzip).is_none() && coder.usage().0 == held.len);
    drop(held);
    assert!(matches!(coder.find(&first, Gzip, 1), Known::None | Known::Pending(_)));
    coder.state().forms.account().set_bytes_max(1 << 20);
    assert!(matches!(coder.find(&third, Gzip, 1), Known::Pending(_)));
}

/// Bytes and tag of a form are those of one state of the file.
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
    assert_eq!(offers(12 << 20), [Zstd, Gzip]);
    assert_eq!(offers(2 << 20), [Gzip]);
    assert_eq!(offers(1 << 20), []);
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
