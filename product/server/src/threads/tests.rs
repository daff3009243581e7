use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// The number of looks in vain after which a thread counts as hung, without a watchdog.
const LOOKS_IN_VAIN_MAX: u64 = HUNG_AFTER.as_secs() / LOOK_EVERY.as_secs();

/// Threads whose failure is reported on a channel, and which only the test looks at.
fn threads() -> (Threads, Receiver<()>) {
    let (tell, told) = channel();
    (Threads::unwatched(None, move || tell.send(()).unwrap()), told)
}

fn failure(threads: &Threads, told: &Receiver<()>) -> String {
    told.recv().unwrap();
    // The lock is still held when the failure is reported.
    threads.failure().unwrap().to_string()
}

/// A thread that makes a turn for every message it gets, including the watcher's messages.
fn turning(threads: &Threads) -> Sender<()> {
    let (wake, woken) = channel();
    let asked = wake.clone();
    let main = move |beat: &Beat| {
        while woken.recv().is_ok() {
            beat.turn();
        }
        Ok(())
    };
    threads.spawn_loop("turning", move || asked.send(()).unwrap(), main).unwrap();
    wake
}

#[test]
fn an_end_is_a_failure_with_its_reason() {
    let (threads, told) = threads();
    threads.spawn("reader", || Err(io::Error::other("no paper"))).unwrap();
    assert_eq!(failure(&threads, &told), "thread reader ended: no paper");
}

#[test]
fn a_panic_is_a_failure_with_its_message() {
    let (threads, told) = threads();
    let number = threads.spawn("reader", || panic!("page {}", 7)).unwrap();
    assert_eq!(failure(&threads, &told), "thread reader ended: panic: page 7");
    assert!(threads.join(number).is_err());
}

/// The thread that orders certificates panics right after it has reported why it cannot continue; the report must still
/// be readable.
#[test]
fn a_panic_of_a_renewal_is_a_failure() {
    let Ok(roots) = tls::Roots::of_system(&|file| std::fs::read(file)) else {
        return println!("SKIPPED: the system has no authorities (package ca-certificates)");
    };
    let settings = acme::Settings {
        directory: "https://127.0.0.1:1/".into(),
        roots,
        email: None,
        challenges: vec![acme::ChallengeKind::Http01],
        external_account: None,
    };
    let renewer = acme::Renewer::new(acme::Folder::new("/proc/no-such-folder".into()), None);
    renewer.want(Some(settings), &["a.test".into()]);
    let (threads, told) = threads();
    let task = renewer.task().unwrap();
    let renew = move || {
        task.run(|line| panic!("planted: {line}"));
        Ok(())
    };
    threads.spawn("weir-acme", renew).unwrap();
    let said = failure(&threads, &told);
    assert!(said.starts_with("thread weir-acme ended: panic: planted: no certificate for a.test yet: "), "{said}");
    assert!(renewer.status()[0].outlook.as_ref().is_some_and(|outlook| outlook.failed.is_some()));
}

#[test]
fn a_return_is_a_failure_unless_it_was_asked_for() {
    let (first, told) = threads();
    first.spawn("reader", || Ok(())).unwrap();
    assert_eq!(failure(&first, &told), "thread reader ended unexpectedly");

    let (second, _told) = threads();
    second.expect_ends();
    let reader = second.spawn("reader", || Ok(())).unwrap();
    assert_eq!((second.join(reader), second.failure()), (Ok(()), None));
}

#[test]
fn the_first_failure_counts() {
    let (threads, told) = threads();
    threads.spawn("reader", || Err(io::Error::other("first"))).unwrap();
    assert!(failure(&threads, &told).contains("first"));
    let second = threads.spawn("writer", || Err(io::Error::other("second"))).unwrap();
    assert!(threads.join(second).unwrap_err().to_string().contains("first"));
    assert!(told.try_recv().is_err(), "told twice");
}

/// Waits until the test has ended.
fn wait(held: &Receiver<()>) -> io::Result<()> {
    let _ = held.recv();
    Ok(())
}

/// Looks at the threads as the watcher does periodically.
fn look(threads: &Threads, is_waiting_for_storage: bool) -> Option<String> {
    let mut state = threads.shared.state();
    threads.shared.look(&mut state, |_| is_waiting_for_storage);
    state.failure.as_ref().map(ToString::to_string)
}

fn has_answered(threads: &Threads) -> bool {
    let state = threads.shared.state();
    let thread = state.threads.last().unwrap();
    !thread.beat.as_ref().unwrap().is_asked.load(Ordering::Relaxed)
}

#[test]
fn a_thread_that_turns_when_asked_is_well_however_long_it_idles() {
    let (threads, _told) = threads();
    let _turning = turning(&threads);
    for _ in 0..10 * LOOKS_IN_VAIN_MAX {
        while !has_answered(&threads) {
            std::thread::yield_now();
        }
        assert_eq!(look(&threads, false), None);
    }
}

#[test]
fn a_thread_that_makes_no_turn_is_a_failure() {
    let (threads, told) = threads();
    let (_hold, held) = channel::<()>();
    threads.spawn_loop("stuck", || {}, move |_| wait(&held)).unwrap();
    // The first look requests the turn.
    for _ in 0..LOOKS_IN_VAIN_MAX {
        assert_eq!(look(&threads, false), None);
    }
    let said = look(&threads, false).unwrap();
    assert!(said.contains("thread stuck did not respond for 10 s"), "{said}");
    told.try_recv().unwrap();
}

#[test]
fn a_thread_that_waits_for_storage_is_not() {
    let (threads, _told) = threads();
    let (_hold, held) = channel::<()>();
    let main = move |beat: &Beat| {
        beat.turn();
        wait(&held)
    };
    threads.spawn_loop("stuck", || {}, main).unwrap();
    for _ in 0..10 * LOOKS_IN_VAIN_MAX {
        assert_eq!(look(&threads, true), None);
    }
    // The thread went on, and now hangs elsewhere.
    assert!(look(&threads, false).is_some());
}

#[test]
fn a_thread_without_a_loop_may_wait_for_ever() {
    let (threads, _told) = threads();
    let (_hold, held) = channel::<()>();
    threads.spawn("log", move || wait(&held)).unwrap();
    for _ in 0..10 * LOOKS_IN_VAIN_MAX {
        assert_eq!(look(&threads, false), None);
    }
}

/// A watchdog, and the channel that receives its feedings.
fn watchdog(patience: Duration) -> (Watchdog, Receiver<()>) {
    let (feed, fed) = channel();
    (Watchdog { patience, feed: Box::new(move || _ = feed.send(())) }, fed)
}

#[test]
fn a_watchdog_has_four_looks_in_its_time_and_a_hung_thread_ten_seconds() {
    for (patience, look_every) in [(60_000, 2000), (4000, 1000), (600, 150), (1, 10)] {
        let (watchdog, _fed) = watchdog(Duration::from_millis(patience));
        let threads = Threads::unwatched(Some(watchdog), || {});
        assert_eq!(threads.shared.look_every, Duration::from_millis(look_every));
        let (_hold, held) = channel::<()>();
        threads.spawn_loop("stuck", || {}, move |_| wait(&held)).unwrap();
        for _ in 0..10_000u64.div_ceil(look_every) {
            assert_eq!(look(&threads, false), None);
        }
        assert!(look(&threads, false).unwrap().contains("did not respond for 10 s"));
    }
}

#[test]
fn a_watchdog_is_fed_while_all_loops_turn() {
    let (watchdog, fed) = watchdog(Duration::from_millis(80));
    let threads = Threads::start(Some(watchdog), || {}).unwrap();
    let _turning = turning(&threads);
    (0..3).for_each(|_| fed.recv().unwrap());
    let (hold, held) = channel::<()>();
    let main = move |beat: &Beat| {
        wait(&held)?;
        beat.turn();
        Ok(())
    };
    threads.spawn_loop("stuck", || {}, main).unwrap();
    while threads.shared.state().threads[1].looks_in_vain < 2 {
        std::thread::yield_now();
    }
    // Fed before it hung.
    while fed.try_recv().is_ok() {}
    while threads.shared.state().threads[1].looks_in_vain < 20 {
        std::thread::yield_now();
    }
    assert!(fed.try_recv().is_err(), "a loop hung");
    threads.expect_ends();
    drop(hold);
    fed.recv().unwrap();
}
