//! What `weir attach` refuses, detects and leaves behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::apply::Folder;
use crate::attach::attached;
use crate::network::Network;

const ATTACH: &str = "attach uplink --rate 9mbit --no-watch";
/// The maximum time for a program to end; otherwise it would run without end.
const END_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The file of this kind in /run/weir for `uplink`.
fn record(network: &Network, kind: &str) -> PathBuf {
    let namespace = network.cable.at_server(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
    let link = network.command("ip -o link show dev uplink");
    PathBuf::from(format!("/run/weir/{kind}-{namespace}-{}", link.split(':').next().unwrap()))
}

fn segments(network: &Network, interface: &str) -> u32 {
    let link = network.command(&format!("ip -d link show dev {interface}"));
    let mut words = link.split_whitespace().skip_while(|word| *word != "gso_max_segs");
    words.nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_detach_without_the_right_to_change_the_interface_is_refused() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, ATTACH) {
        return;
    }
    let lock = record(&network, "change");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let said = ["attach --detach uplink", ATTACH].map(|command| network.refusal(command, 1));
    fs::remove_dir(&lock).unwrap();
    for said in said {
        let place = format!("weir: cannot write {}: ", lock.display());
        assert!(said.starts_with(&place) && said.contains("a folder has that name: remove it"), "{said}");
    }
    assert!(network.printed("attach --list").starts_with("uplink: psjf "));
    network.printed("attach --detach uplink");
}

#[test]
fn flags_of_an_attach_are_refused_where_nothing_is_attached() {
    let Some(network) = Network::new() else { return };
    for (args, said) in [
        ("attach uplink --prometheus", "--prometheus"),
        ("attach uplink --rate 9mbit --prometheus=/proc/none/x.prom", "--prometheus"),
        ("attach --list --rate 9mbit", "--rate"),
        ("attach --list --save", "--save"),
        ("attach --list uplink", "[INTERFACE]"),
    ] {
        let answer = network.refusal(args, 2);
        assert!(answer.contains("cannot be used with") && answer.contains(said), "{args}: {answer}");
    }
    assert_eq!(network.printed("attach --list"), "weir: nothing is attached\n");
    if !attached(&network, ATTACH) {
        return;
    }
    for flag in ["--dry-run", "--rate 5mbit", "--policy las", "--no-watch", "--try 60s", "--list"] {
        let answer = network.refusal(&format!("attach --detach uplink {flag}"), 2);
        assert!(answer.contains("cannot be used with"), "{flag}: {answer}");
    }
    assert!(network.printed("attach --list").starts_with("uplink: psjf "));
    network.printed("attach --detach uplink");
}

#[test]
fn bands_without_a_classifier_are_named_by_a_detach() {
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 9mbit");
    let said = network.refusal("attach --detach uplink", 1);
    assert!(said.contains("uplink has no classifier of weir, but bands: run `weir uplink down uplink`"), "{said}");
    network.printed("uplink down uplink");
    let said = network.refusal("attach --detach uplink", 1);
    assert!(said.contains("uplink has no classifier of weir; run `weir attach --list`"), "{said}");
}

/// The upper interface passes its packets down unchanged, and was created with the default size.
#[test]
fn an_interface_that_comes_above_later_gets_small_packets() {
    let (Some(network), folder) = (Network::new(), Folder::new("above")) else { return };
    let file = folder.file();
    if !attached(&network, &format!("{ATTACH} --save={}", file.display())) {
        return;
    }
    let apply = || network.printed(&format!("apply --file {}", file.display()));
    assert_eq!(apply(), "weir: uplink: as it should be\n");
    network.command("ip link add above link uplink type macvlan mode bridge");
    let before = segments(&network, "above");
    assert!(before > 1, "{before}");
    assert_eq!(apply(), "weir: uplink: changed at 9mbit\n");
    assert_eq!((segments(&network, "above"), segments(&network, "uplink")), (1, 1));
    assert_eq!(apply(), "weir: uplink: as it should be\n");
    network.printed("attach --detach uplink");
    assert_eq!(segments(&network, "above"), before);
}

#[test]
fn a_watch_ends_with_its_reader() {
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 9mbit");
    let mut watching = network.start("uplink show uplink --watch");
    let mut line = String::new();
    // The pipe is closed after the first line.
    BufReader::new(watching.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("uplink: 15 bands of htb"), "{line}");
    for _ in 0..END_MAX.as_millis() / LOOK_EVERY.as_millis() {
        if let Some(status) = watching.try_wait().unwrap() {
            return assert_eq!(status.code(), Some(0));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    watching.kill().unwrap();
    panic!("it goes on, though nobody reads");
}

#[test]
fn a_trial_of_an_interface_that_goes_leaves_no_record() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, &format!("{ATTACH} --dry-run")) {
        return;
    }
    let trial = network.start("attach uplink --rate 9mbit --try 18s");
    while !network.printed("attach --list").contains("uplink: psjf") {
        std::thread::sleep(LOOK_EVERY);
    }
    network.command("ip link del uplink");
    let output = trial.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && said.contains("the interface is gone, and the attach with it"),
        "{said}"
    );
    network.command("ip link add uplink type veth peer name other");
    assert_eq!(network.printed("attach --list"), "weir: nothing is attached\n");
}

/// As in a container with the host's network and a separate /run.
#[test]
fn what_the_records_of_an_attach_held_is_restored_or_named_without_them() {
    let Some(network) = Network::new() else { return };
    network.command("tc qdisc add dev uplink root handle 77: pfifo limit 33");
    network.command("ip link set dev uplink gso_max_segs 40");
    let before = segments(&network, "uplink");
    if !attached(&network, &format!("{ATTACH} --replace")) {
        return;
    }
    assert_eq!(segments(&network, "uplink"), 1);
    for kind in ["segments", "replaced", "attached"] {
        fs::remove_file(record(&network, kind)).unwrap();
    }
    // The settings in the program preserve it over a further attach.
    network.printed("attach uplink --policy las --no-watch");
    let detached = network.weir("attach --detach uplink");
    let said = String::from_utf8(detached.stderr).unwrap();
    assert!(detached.status.success(), "{said}");
    assert!(said.contains("uplink had a pfifo, whose settings are lost") && said.lines().count() == 1, "{said}");
    assert!(said.contains("run `tc qdisc replace dev uplink root pfifo`"), "{said}");
    assert_eq!(segments(&network, "uplink"), before);
    // With the records, nothing is reported.
    network.printed(ATTACH);
    assert!(network.weir("attach --detach uplink").stderr.is_empty());
    assert_eq!(segments(&network, "uplink"), before);
}
