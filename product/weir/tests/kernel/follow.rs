//! `weir attach` without a rate: one process follows the line. Everything that ends it is tested.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout};

use rustix::process::{Pid, Signal, kill_process};

use crate::attach::attached;
use crate::network::Network;

/// A follower whose first line of output was read, so that it is attached.
struct Follower {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(network: &Network, args: &str) -> Follower {
        let mut child = network.start(&format!("attach uplink {args}"));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut follower = Follower { child, lines };
        assert!(follower.line().starts_with("weir: attached to uplink: "));
        follower.line();
        // It follows as soon as the list contains its process number.
        let follows = || network.json("attach --list")[0]["line"]["process"] == follower.child.id();
        while !follows() {
            std::thread::yield_now();
        }
        follower
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the last line, the exit status, and the output on standard error.
    fn ended(mut self) -> (String, Option<i32>, String) {
        let last = self.lines.by_ref().map(Result::unwrap).last().unwrap_or_default();
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (last, status.code(), said)
    }
}

fn network() -> Option<Network> {
    let network = Network::new()?;
    attached(&network, "attach uplink --rate 9mbit --no-watch").then(|| {
        network.printed("attach --detach uplink");
        network
    })
}

#[test]
fn one_process_follows_and_leaves_the_order() {
    let Some(network) = network() else { return };
    let follower = Follower::start(&network, "");
    let second = network.weir("attach uplink --port 8080");
    let said = String::from_utf8(second.stderr).unwrap();
    let pid = follower.child.id();
    assert!(second.status.success() && said.contains(&format!("process {pid} follows the line already")), "{said}");
    let list = network.json("attach --list");
    assert_eq!((list[0]["ports"].to_string(), &list[0]["line"]["rate_bits_per_s"]), ("[8080]".into(), &().into()));
    let said = network.printed("uplink show uplink");
    assert!(said.contains("rate not found yet") && said.contains(&format!("followed by process {pid}")), "{said}");
    follower.signal(Signal::INT);
    let (last, status, _) = follower.ended();
    assert!(status == Some(0) && last.contains("not found, so the bands order nothing"), "{status:?} {last}");
    assert!(network.printed("attach --list").contains("no process follows the line: `weir attach uplink` goes on"));
}

#[test]
fn a_rate_that_is_told_or_a_detach_ends_the_follower() {
    let Some(network) = network() else { return };
    for command in ["attach uplink --rate 5mbit --no-watch", "attach --detach uplink"] {
        let follower = Follower::start(&network, "--rate auto");
        network.printed(command);
        let (last, status, said) = follower.ended();
        assert!(status == Some(0) && last.contains("no longer followed"), "{command}: {status:?} {last} {said}");
        let list = network.printed("attach --list");
        assert_eq!(list.contains("rate 5mbit, as given"), command.contains("5mbit"), "{list}");
        assert_eq!(list.contains("nothing is attached"), command.contains("detach"), "{list}");
    }
}

#[test]
fn a_refused_attach_leaves_the_follower() {
    let Some(network) = network() else { return };
    let follower = Follower::start(&network, "");
    let said = network.refusal("attach uplink --rate 20gbit", 1);
    assert!(said.contains("above the 10gbit of uplink"), "{said}");
    let line = &network.json("attach --list")[0]["line"];
    assert_eq!(line["process"], follower.child.id());
    follower.signal(Signal::INT);
    assert_eq!(follower.ended().1, Some(0));
}

/// `weir uplink` changes the bands under a follower.
#[test]
fn bands_that_are_told_a_rate_are_followed_no_longer() {
    let Some(network) = network() else { return };
    for command in ["uplink up uplink --rate 5mbit", "uplink down uplink"] {
        let follower = Follower::start(&network, "--rate auto");
        network.printed(command);
        let (last, status, said) = follower.ended();
        assert!(status == Some(0) && last.contains("no longer followed"), "{command}: {status:?} {last} {said}");
        if command.contains("5mbit") {
            assert!(network.printed("uplink show uplink").contains("at 5mbit"));
            let planned = network.printed("attach uplink --dry-run");
            assert!(!planned.contains("found and followed"), "{planned}");
        }
    }
    // Like `tc class change`, which removes no mark.
    let follower = Follower::start(&network, "--rate auto");
    network.command("tc class change dev uplink classid 5745:1 htb rate 7gbit ceil 7gbit");
    let (last, status, said) = follower.ended();
    assert!(status == Some(0) && last.contains("another command set 7gbit"), "{status:?} {last} {said}");
    assert!(network.printed("uplink show uplink").contains("at 7gbit"));
}

#[test]
fn an_attach_that_fails_marks_nothing() {
    let Some(network) = network() else { return };
    network.command("tc qdisc replace dev uplink root handle 7: pfifo limit 77");
    let said = network.refusal("attach uplink", 1);
    assert!(said.contains("--replace"), "{said}");
    network.command("tc qdisc del dev uplink root");
    network.printed("uplink up uplink --rate 9mbit");
    let shown = network.printed("uplink show uplink");
    assert!(!shown.contains("followed"), "{shown}");
    let planned = network.printed("attach uplink --dry-run");
    assert!(!planned.contains("found and followed"), "{planned}");
}

/// A network card gets a carrier, and may then be slower than the rate of the open bands.
#[test]
fn a_device_that_becomes_slower_stays_attached() {
    let Some(network) = network() else { return };
    network.command("ip link del uplink");
    network.command("ip tuntap add uplink mode tap");
    network.command("ip link set uplink up");
    network.command("ethtool -s uplink speed 10000");
    let file = std::env::temp_dir().join(format!("weir-slower-{}.toml", std::process::id()));
    network.printed(&format!("attach uplink --no-watch --save={}", file.display()));
    network.command("ethtool -s uplink speed 1000");
    let applied = network.weir(&format!("apply --file {}", file.display()));
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8(applied.stderr).unwrap();
    assert!(applied.status.success() && network.printed("uplink show uplink").contains("at 1gbit"), "{said}");
    let follower = Follower::start(&network, "");
    for (mbit, rate) in [(100, "at 100mbit"), (10_000, "at 10gbit")] {
        network.command(&format!("ethtool -s uplink speed {mbit}"));
        // It checks the classifier every five seconds.
        std::thread::sleep(std::time::Duration::from_secs(7));
        let shown = network.printed("uplink show uplink");
        assert!(shown.contains(rate) && shown.contains("followed by process"), "{mbit}: {shown}");
    }
    follower.signal(Signal::INT);
    assert_eq!(follower.ended().1, Some(0));
}

#[test]
fn an_interface_that_is_down_for_a_while_is_followed_on() {
    let Some(network) = network() else { return };
    let follower = Follower::start(&network, "");
    network.command("ip link set uplink down");
    // It checks the classifier every five seconds.
    std::thread::sleep(std::time::Duration::from_secs(7));
    network.command("ip link set uplink up");
    assert_eq!(network.json("attach --list")[0]["line"]["process"], follower.child.id());
    follower.signal(Signal::INT);
    let (last, status, said) = follower.ended();
    assert!(status == Some(0) && last.contains("the bands order nothing"), "{status:?} {last}");
    assert!(said.lines().count() == 1 && said.contains("uplink is down"), "{said}");
}

#[test]
fn a_lost_order_is_said_and_a_killed_follower_replaced() {
    let Some(network) = network() else { return };
    let killed = Follower::start(&network, "");
    killed.signal(Signal::KILL);
    assert_eq!(killed.ended().1, None);
    let list = network.printed("attach --list");
    assert!(list.contains("no process follows the line"), "{list}");
    for (gone, said) in [
        (
            "tc qdisc replace dev uplink root handle 7: pfifo limit 77",
            "another program removed the bands or replaced them",
        ),
        ("ip link del uplink", "the interface uplink has gone"),
    ] {
        let follower = Follower::start(&network, if gone.starts_with("tc") { "" } else { "--replace" });
        network.command(gone);
        let (_, status, stderr) = follower.ended();
        assert!(status == Some(1) && stderr.contains(said) && stderr.lines().count() == 1, "{status:?} {stderr}");
    }
}

/// A table of the file without a rate, while a follower of the same line already runs.
#[test]
fn a_watch_follows_each_table_without_a_rate() {
    let Some(network) = network() else { return };
    let file = std::env::temp_dir().join(format!("weir-follow-{}.toml", std::process::id()));
    let save = format!("--save={}", file.display());
    network.printed(&format!("attach uplink --no-watch {save}"));
    assert!(std::fs::read_to_string(&file).unwrap().contains("rate = \"auto\""));
    let watch = || network.start(&format!("apply --watch --file {}", file.display()));
    let mut first = watch();
    let follows = |child: &Child| network.json("attach --list")[0]["line"]["process"] == child.id();
    while !follows(&first) {
        std::thread::yield_now();
    }
    let mut second = watch();
    let mut mistakes = BufReader::new(second.stderr.take().unwrap()).lines();
    let said = mistakes.next().unwrap().unwrap();
    assert!(said.ends_with(&format!("uplink: process {} follows the line already", first.id())), "{said}");
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    // The other one takes over.
    while !follows(&second) {
        std::thread::yield_now();
    }
    // It reports why it no longer follows, and attaches again according to the file.
    network.printed("uplink up uplink --rate 5mbit");
    let mut lines = BufReader::new(second.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.contains("no longer followed")).unwrap();
    assert!(said.starts_with("weir: uplink: "), "{said}");
    while !follows(&second) {
        std::thread::yield_now();
    }
    second.kill().unwrap();
    second.wait().unwrap();
    std::fs::remove_file(&file).unwrap();
    // The order outlasts both processes.
    assert!(network.printed("attach --list").contains("no process follows the line"));
}

/// The bands begin at nine tenths of the rate last found on the line.
#[test]
fn a_rate_that_was_kept_is_begun_with() {
    let Some(network) = network() else { return };
    let folder = std::env::temp_dir().join(format!("weir-follow-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    std::fs::write(folder.join("uplink"), format!("uplink - 10000000 {now}\n")).unwrap();
    let state = [("STATE_DIRECTORY", folder.to_str().unwrap())];
    // A trial does the same, and is too short here. Without a rate that was found, the message names the cure.
    let too_short = String::from_utf8(network.weir_with("attach uplink --try 1s", &state).stderr).unwrap();
    let none = folder.join("none").display().to_string();
    let without = network.weir_with("attach uplink --try 60s", &[("STATE_DIRECTORY", &none)]);
    let without = (without.status.code(), String::from_utf8(without.stderr).unwrap());
    let begun = network.weir_with("attach uplink --no-watch", &state);
    let (said, status) = (String::from_utf8(begun.stdout).unwrap(), begun.status);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(status.success() && said.contains(" at 9.00 Mbit/s until the line's rate is found"), "{said}");
    assert!(too_short.contains("--try 1s is too short"), "{too_short}");
    // Without a follower they stay at their rate; open bands order nothing.
    let after = network.refusal("attach uplink --try 1s", 2);
    assert!(after.contains("--try 1s is too short"), "{after}");
    network.printed("attach --detach uplink");
    network.printed("attach uplink --no-watch");
    let open = network.refusal("attach uplink --try 1s", 2);
    assert!(open.contains("--try needs a rate that stays"), "{open}");
    assert!(without.0 == Some(2) && without.1.contains("--try needs a rate that stays"), "{without:?}");
}

/// It is killed while the line's queue is emptied, when the bands are at half of the line's rate.
#[test]
fn what_a_follower_killed_in_a_drain_left_is_put_right() {
    let Some(network) = network() else { return };
    network.printed("attach uplink --rate 4500kbit --no-watch");
    network.printed("attach uplink --rate auto --no-watch");
    let namespace = network.command("stat -Lc %i /proc/self/ns/net");
    let index = network.command("ip -o link show uplink");
    let file = format!("/run/weir/line-{}-{}", namespace.trim(), index.split(':').next().unwrap());
    let recorded = std::fs::read_to_string(&file).unwrap();
    // The record that it writes when it reduces the pace: the line's rate, and half of it.
    let cut = recorded.replacen(" - - ", " 9000000 4500000 ", 1);
    assert_ne!(cut, recorded);
    std::fs::write(&file, cut).unwrap();
    let follower = Follower::start(&network, "");
    let list = network.json("attach --list")[0].clone();
    assert_eq!(list["line"]["rate_bits_per_s"], 9_000_000, "{list}");
    let shown = network.printed("uplink show uplink");
    assert!(shown.contains("8865kbit") || shown.contains("8.86") || shown.contains("8.87"), "{shown}");
    follower.signal(Signal::INT);
    assert_eq!(follower.ended().1, Some(0));
}
