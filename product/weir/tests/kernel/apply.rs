//! `weir attach --save` and `weir apply`: a file of attaches, which are made again where they are missing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use crate::attach::attached;
use crate::network::{Network, WEIR};

const UNIT: &str = include_str!("../../../../packaging/systemd/weir-attach@.service");

/// A folder for one test, removed with its contents.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-apply-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("new/attach.toml")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program(network: &Network) -> u64 {
    network.json("attach --list")[0]["program"]["id"].as_u64().unwrap()
}

#[test]
fn a_saved_attach_is_made_again_and_only_if_it_must() {
    let (Some(network), folder) = (Network::new(), Folder::new("again")) else { return };
    let file = folder.file();
    let save = format!("--save={}", file.display());
    let told = "attach uplink --port 8080,8081 --rate 9mbit --policy las --client-share 5MB --cuts 4KB,64KB --no-watch";
    if !attached(&network, &format!("{told} {save}")) {
        return;
    }
    let apply = || network.printed(&format!("apply --file {}", file.display()));
    let settings = || network.json("attach --list")[0]["cuts"].to_string() + &network.printed("uplink show uplink");
    let before = program(&network);
    assert_eq!(apply(), "weir: uplink: as it should be\n");
    assert_eq!(program(&network), before);
    // A rate changes without a new tree.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("9mbit", "5000001bit")).unwrap();
    assert_eq!(apply(), "weir: uplink: changed at 5000.001kbit\n");
    // The kernel stores rates in whole bytes, so it has a slightly different one.
    assert_eq!(apply(), "weir: uplink: as it should be\n");
    fs::write(&file, text.replace("9mbit", "5mbit")).unwrap();
    assert_eq!(apply(), "weir: uplink: changed at 5mbit\n");
    assert!(settings().contains("at 5mbit") && settings().starts_with("[4000,64000]"), "{}", settings());
    assert_eq!(apply(), "weir: uplink: as it should be\n");
    for gone in ["tc qdisc del dev uplink root", "tc qdisc del dev uplink parent 5745:13"] {
        network.command(gone);
        assert_eq!(apply(), "weir: uplink: changed at 5mbit\n", "{gone}");
        assert_eq!(apply(), "weir: uplink: as it should be\n", "{gone}");
    }
    network.printed("attach --detach uplink");
    assert_eq!(apply(), "weir: uplink: attached at 5mbit\n");
    // A further attach changes only the settings that it is given, also in the file.
    network.printed(&format!("attach uplink --port 80 --rate 9mbit --no-watch {save}"));
    assert_eq!(fs::read_to_string(&file).unwrap(), text.replace("[8080, 8081]", "[80]"));
    assert_eq!(apply(), "weir: uplink: as it should be\n");
    network.printed(&format!("attach --detach uplink {save}"));
    assert!(apply().ends_with("has no tables: nothing to attach\n"));
    assert!(network.printed("attach --list").contains("nothing is attached"));
}

/// The other interfaces are attached all the same.
#[test]
fn an_interface_that_is_missing_is_named() {
    let (Some(network), folder) = (Network::new(), Folder::new("missing")) else { return };
    let file = folder.file();
    if !attached(&network, &format!("attach uplink --rate 9mbit --no-watch --save={}", file.display())) {
        return;
    }
    network.printed("attach --detach uplink");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("[gone0]\nrate = \"1mbit\"\n{text}")).unwrap();
    let apply = |args: &str| {
        let output = network.weir(&format!("apply --file {} {args}", file.display()));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, done, said) = apply("");
    assert_eq!((status, done.as_str()), (Some(1), "weir: uplink: attached at 9mbit\n"));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("weir: gone0: there is no interface gone0"), "{said}");
    assert!(
        lines[1].starts_with("weir: 1 of 2 interfaces are not as ") && lines[1].contains("says: gone0; "),
        "{said}"
    );
    assert_eq!(apply("uplink"), (Some(0), "weir: uplink: as it should be\n".into(), String::new()));
    let (status, _, said) = apply("gone0 --wait 1");
    assert!(status == Some(1) && said.contains("there is no interface gone0"), "{said}");
    let (status, _, said) = apply("eth7");
    assert!(status == Some(1) && said.contains("has no table [eth7]; write one: weir attach eth7"), "{said}");
    // With a mistake anywhere, nothing is attached.
    network.printed("attach --detach uplink");
    fs::write(&file, text + "polcy = \"las\"\n").unwrap();
    let (status, done, said) = apply("");
    assert_eq!((status, done.as_str()), (Some(1), ""));
    assert!(said.starts_with(&format!("weir: {}:", file.display())) && said.contains("unknown key `polcy`"), "{said}");
    fs::remove_file(&file).unwrap();
    assert!(apply("").2.contains("write one: weir attach"));
}

/// Another program replaces the queue, and the file changes.
#[test]
fn a_watched_attach_is_made_again_by_itself() {
    let (Some(network), folder) = (Network::new(), Folder::new("watch")) else { return };
    let file = folder.file();
    let save = format!("--save={}", file.display());
    if !attached(&network, &format!("attach uplink --rate 9mbit --no-watch --replace {save}")) {
        return;
    }
    let mut watch = network.start(&format!("apply --watch --file {}", file.display()));
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "weir: uplink: as it should be");
    network.command("tc qdisc replace dev uplink root handle 7: pfifo limit 77");
    assert_eq!(next(), "weir: uplink: changed at 9mbit");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, "[uplink]\nrate = 9\n").unwrap();
    let mut mistakes = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert!(mistakes.next().unwrap().unwrap().contains("attach.toml:2: key `rate`"));
    fs::write(&file, text.replace("9mbit", "8mbit")).unwrap();
    assert_eq!(next(), "weir: uplink: changed at 8mbit");
    network.printed("attach --detach uplink");
    assert_eq!(next(), "weir: uplink: attached at 8mbit");
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(mistakes.next().is_none(), "each mistake once");
}

/// A removed table is not a mistake in the file: the earlier attach does not stay in force.
#[test]
fn a_watched_interface_whose_table_goes_is_not_attached_again() {
    let (Some(network), folder) = (Network::new(), Folder::new("table")) else { return };
    let file = folder.file();
    let save = format!("--save={}", file.display());
    if !attached(&network, &format!("attach uplink --rate 9mbit --no-watch {save}")) {
        return;
    }
    let text = fs::read_to_string(&file).unwrap();
    let mut watch = network.start(&format!("apply --watch --file {} -- uplink", file.display()));
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "weir: uplink: as it should be");
    network.printed(&format!("attach --detach uplink {save}"));
    let mut mistakes = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert!(mistakes.next().unwrap().unwrap().contains("has no table [uplink]"));
    fs::write(&file, text.replace("9mbit", "8mbit")).unwrap();
    let next = lines.next().unwrap().unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(next, "weir: uplink: attached at 8mbit");
}

/// systemd ends the watching process first; scripts/check-service.sh tests that with systemd.
#[test]
fn the_unit_leaves_nothing_attached_when_it_stops() {
    let (Some(network), folder) = (Network::new(), Folder::new("unit")) else { return };
    let file = folder.file();
    if !attached(&network, &format!("attach uplink --rate 9mbit --no-watch --save={}", file.display())) {
        return;
    }
    let mut watch = network.start(&format!("apply --watch --file {} -- uplink", file.display()));
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "weir: uplink: as it should be");
    network.command(&format!("kill {}", watch.id()));
    assert!(watch.wait().unwrap().success());
    assert!(network.printed("attach --list").contains("uplink: psjf"), "without the process the order stays");
    let commands: Vec<&str> = UNIT.lines().filter_map(|line| line.strip_prefix("ExecStop=-")).collect();
    assert_eq!(commands.len(), 1);
    network.command(&commands[0].replace("/usr/local/bin/weir", WEIR).replace("%I", "uplink"));
    assert!(network.printed("attach --list").contains("nothing is attached"));
}

/// The table is removed while `weir apply`, which has read it, waits for the command that removes it.
#[test]
fn an_apply_that_comes_late_attaches_nothing() {
    let (Some(network), folder) = (Network::new(), Folder::new("late")) else { return };
    let file = folder.file();
    if !attached(&network, &format!("attach uplink --rate 9mbit --no-watch --save={}", file.display())) {
        return;
    }
    network.printed("attach --detach uplink");
    let namespace = network.command("stat -Lc %i /proc/self/ns/net");
    let index = network.command("ip -o link show uplink");
    let change = format!("/run/weir/change-{}-{}", namespace.trim(), index.split(':').next().unwrap());
    let change = fs::OpenOptions::new().create(true).append(true).open(change).unwrap();
    change.lock().unwrap();
    let apply = network.start(&format!("apply --file {}", file.display()));
    std::thread::sleep(std::time::Duration::from_secs(2));
    fs::write(&file, "").unwrap();
    drop(change);
    let said = String::from_utf8(apply.wait_with_output().unwrap().stderr).unwrap();
    assert!(network.printed("attach --list").contains("nothing is attached"), "{said}");
}

/// Either both are removed or neither.
#[test]
fn an_attach_whose_table_cannot_be_removed_stays() {
    let (Some(network), folder) = (Network::new(), Folder::new("stays")) else { return };
    if !attached(&network, "attach uplink --rate 9mbit --no-watch") {
        return;
    }
    let file = folder.0.join("attach.toml");
    fs::write(&file, "uplink = { rate = \"9mbit\" }\n").unwrap();
    let said = network.refusal(&format!("attach --detach uplink --save={}", file.display()), 1);
    assert!(said.contains("uplink is not a table of its own there"), "{said}");
    assert!(network.printed("attach --list").contains("uplink"));
}

#[test]
fn an_interface_that_is_down_is_awaited() {
    let (Some(network), folder) = (Network::new(), Folder::new("down")) else { return };
    let file = folder.file();
    if !attached(&network, &format!("attach uplink --rate 9mbit --no-watch --save={}", file.display())) {
        return;
    }
    network.printed("attach --detach uplink");
    network.command("ip link set uplink down");
    let output = network.weir(&format!("apply --file {}", file.display()));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("weir: uplink: uplink is down: run `ip link set uplink up` first"), "{said}");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| network.printed(&format!("apply --file {} --wait 60", file.display())));
        network.command("ip link set uplink up");
        assert_eq!(waits.join().unwrap(), "weir: uplink: attached at 9mbit\n");
    });
}
