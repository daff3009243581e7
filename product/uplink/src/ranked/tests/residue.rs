//! What is left of it: nothing, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::pair::{Flow, Pair, wait_for};
use super::*;
use crate::testing::run;

#[test]
fn what_is_installed_is_found_adjusted_and_removed() {
    with_ranked(|| {
        let pair = Pair::new();
        assert_eq!(find(&pair.sender).unwrap(), None);
        assert!(!remove(&pair.sender).unwrap());
        run("tc qdisc replace dev weir0 root handle 5745: htb default 1");
        let first = install(&pair.sender, rate("10mbit"), 64).unwrap();
        assert_eq!(find(&pair.sender).unwrap(), Some(first.clone()));
        let same = install(&pair.sender, rate("20mbit"), 64).unwrap();
        assert_eq!((same.kind.as_str(), same.settings.rate), (first.kind.as_str(), rate("20mbit")));
        assert_eq!(find(&pair.sender).unwrap(), Some(same));
        let other = install(&pair.sender, rate("20mbit"), 128).unwrap();
        assert_ne!(other.kind, first.kind);
        assert_eq!(find(&pair.sender).unwrap(), Some(other));
        assert!(remove(&pair.sender).unwrap());
        assert_eq!(find(&pair.sender).unwrap(), None);
    });
}

#[test]
fn adding_and_removing_under_load_leaks_no_packet() {
    with_ranked(|| {
        let pair = Pair::new();
        let flows: Vec<Flow> = (0..2).map(|number| Flow::new(number, number * 100)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let senders: Vec<_> = flows
            .into_iter()
            .map(|flow| {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    (0..).take_while(|_| !stop.load(Ordering::Relaxed)).for_each(|nth| flow.send(nth, 1000));
                    flow
                })
            })
            .collect();
        let mut kinds = Vec::new();
        for round in 0..4 {
            let ranked = install(&pair.sender, rate("2mbit"), 100 + round).unwrap();
            wait_for("packets wait", || ranked.stats().unwrap().backlog_packets > 0);
            kinds.push(ranked.kind);
            if round % 2 == 0 {
                assert!(remove(&pair.sender).unwrap());
            }
        }
        // A downed interface resets its qdisc.
        run("ip link set weir0 down");
        let ranked = find(&pair.sender).unwrap().unwrap();
        wait_for("the reset qdisc is empty", || ranked.stats().unwrap().flows == 0);
        stop.store(true, Ordering::Relaxed);
        let flows: Vec<Flow> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        run("ip link set weir0 up");
        assert!(remove(&pair.sender).unwrap());
        for flow in &flows {
            wait_for("every packet is freed", || flow.unsent_bytes() == 0);
        }
        for kind in kinds {
            wait_for("its maps are freed", || kernel::read_settings(&kind).is_err());
        }
    });
}

#[test]
fn an_interface_that_goes_takes_everything_along() {
    with_ranked(|| {
        let pair = Pair::new();
        let ranked = install(&pair.sender, rate("1kbit"), 64).unwrap();
        let flow = Flow::new(1, 9);
        (0..10).for_each(|nth| flow.send(nth, 100));
        run("ip link del weir0");
        wait_for("every packet is freed", || flow.unsent_bytes() == 0);
        wait_for("its maps are freed", || ranked.stats().is_err());
    });
}

/// The link is a file: the kernel drops it with the process, so one killed on the way leaves nothing either.
#[test]
fn a_name_is_known_only_while_it_is_being_installed() {
    with_ranked(|| {
        let pair = Pair::new();
        let kind = new_kind();
        let registered = kernel::register(&kind, &Settings::new(rate("10mbit"), 64)).unwrap();
        assert!(kernel::read_settings(&kind).is_ok());
        drop(registered);
        let add =
            std::process::Command::new("tc").args(["qdisc", "add", "dev", "weir0", "root", &kind]).output().unwrap();
        assert!(!add.status.success());
        wait_for("its maps are freed", || kernel::read_settings(&kind).is_err());
        assert_eq!(find(&pair.sender).unwrap(), None);
    });
}
