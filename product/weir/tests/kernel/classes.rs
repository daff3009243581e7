//! Classes of responses, for servers that do not support them.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;

use crate::apply::Folder;
use crate::attach::attached;
use crate::floods::{OnDrop, count, drain, flood};
use crate::network::Network;
use crate::virtual_time::in_virtual_time;

/// The connections of a class that fills the link: so many that one that has lost a packet leaves no gap.
const CONNECTIONS: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(20);
const SETTLING: Duration = Duration::from_millis(1500);
const WINDOW_BYTES: u64 = 3_000_000;
/// The maximum number of windows that are measured, of which some may be void.
const LOOKS_MAX: usize = 500;
const WINDOWS_MAX: usize = 20;

const PORTS: [u16; 3] = [8080, 8081, 8082];
const FILE: &str = r#"[uplink]
port = [8080, 8081, 8082]
rate = "10mbit"
client_share = "off"

[[uplink.class]]
name = "gold"
weight = 3
[[uplink.class.rule]]
port = 8081

[[uplink.class]]
name = "capped"
max_rate = "10%"
[[uplink.class.rule]]
port = 8082
"#;

/// The classes in the output of `--list`.
fn classes(network: &Network) -> Vec<Value> {
    network.json("attach --list")[0]["classes"].as_array().unwrap().clone()
}

/// Returns the shares of the link that classes have in a window in which all `busy` classes had packets waiting.
fn parts(network: &Network, busy: &[usize]) -> Vec<f64> {
    let window = || {
        std::thread::sleep(SETTLING);
        let bytes = |classes: &[Value]| classes.iter().map(|class| count(class, "bytes")).collect::<Vec<_>>();
        let (before, is_void) = (bytes(&classes(network)), Cell::new(false));
        for _ in 0..LOOKS_MAX {
            let now = classes(network);
            is_void.set(is_void.get() || busy.iter().any(|class| count(&now[*class], "waiting_packets") == 0));
            let sent: Vec<u64> = bytes(&now).iter().zip(&before).map(|(now, before)| now - before).collect();
            let all: u64 = sent.iter().sum();
            if all >= WINDOW_BYTES {
                return (!is_void.get()).then(|| sent.iter().map(|sent| *sent as f64 / all as f64).collect());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    };
    let found = (0..WINDOWS_MAX).find_map(|_| window());
    println!("parts of the link: {found:.3?}");
    found.expect("void, each window: a class had nothing waiting; is the machine busy?")
}

fn is_near(found: &[f64], expected: &[f64]) -> bool {
    found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= 0.03)
}

/// The same file, with a minimum of half the line for gold, and a default class with a large weight.
fn with_a_minimum_rate() -> String {
    let text = FILE.replace("[uplink]\n", "[uplink]\ndefault_class = \"rest\"\n");
    let text = text.replace("weight = 3", "min_rate = \"5mbit\"");
    text + "[[uplink.class]]\nname = \"rest\"\nweight = 9\n"
}

/// The queues and classes of the interface. A flow of fq_codel is a class while it has a packet.
fn tree(network: &Network) -> String {
    let classes = network.command("tc class show dev uplink");
    let classes: Vec<&str> = classes.lines().filter(|line| !line.starts_with("class fq_codel ")).collect();
    network.command("tc qdisc show dev uplink") + &classes.join("\n")
}

/// Connections of a server on this port: the server's ends and the client's ends.
fn connections(network: &Network, port: u16) -> Vec<(TcpStream, TcpStream)> {
    let address = SocketAddr::new(network.cable.address().ip(), port);
    let listener = network.cable.at_server(|| TcpListener::bind(address).unwrap());
    rustix::net::sockopt::set_tcp_congestion(&listener, "reno").unwrap();
    let connect = |_| {
        let receiver = network.cable.at_client(|| TcpStream::connect(address).unwrap());
        (listener.accept().unwrap().0, receiver)
    };
    (0..CONNECTIONS).map(connect).collect()
}

/// Weights among the classes with traffic, a maximum rate, and a minimum rate despite a flood of another class.
#[test]
fn the_link_is_divided_as_the_file_says() {
    if in_virtual_time(the_link_is_divided_as_the_file_says) {
        return;
    }
    let (Some(network), folder) = (Network::new(), Folder::new("divided")) else { return };
    let file = folder.file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, FILE).unwrap();
    let apply = format!("apply --file {}", file.display());
    if !attached(&network, &apply) {
        return;
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        let fill = |port: u16| {
            for (sender, receiver) in connections(&network, port) {
                scope.spawn(|| flood(sender, &is_over));
                scope.spawn(|| drain(receiver, &is_over));
            }
        };
        PORTS[..2].iter().copied().for_each(fill);
        let two = parts(&network, &[0, 1]);
        assert!(is_near(&two, &[0.25, 0.75, 0.0]), "{two:?}");
        fill(PORTS[2]);
        let three = parts(&network, &[0, 1, 2]);
        assert!(is_near(&three, &[0.225, 0.675, 0.1]), "{three:?}");
        let bytes = || classes(&network).iter().map(|class| count(class, "bytes")).collect::<Vec<_>>();
        let before = bytes();
        fs::write(&file, with_a_minimum_rate()).unwrap();
        assert_eq!(network.printed(&apply), "weir: uplink: changed at 10mbit\n");
        // The change keeps the counters.
        assert!(before.iter().zip(bytes()).all(|(before, after)| after >= *before));
        // The minimum rate leaves half of the link, which the weights divide into 9, 1 and 1.
        let three = parts(&network, &[0, 1, 2]);
        assert!(is_near(&three, &[0.41, 0.545, 0.045]), "{three:?}");
        assert_eq!(network.printed(&apply), "weir: uplink: as it should be\n");
    });
}

#[test]
fn classes_are_kept_listed_saved_and_leave_nothing() {
    let (Some(network), folder) = (Network::new(), Folder::new("classes")) else { return };
    let file = folder.file();
    let qdiscs = || tree(&network);
    let before = qdiscs();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, FILE).unwrap();
    let apply = format!("apply --file {}", file.display());
    if !attached(&network, &apply) {
        return;
    }
    let listed = network.printed("attach --list");
    for said in [
        "; 3 classes\n",
        "gold      3            -            -",
        "class capped: port 8082\n",
        "class others: all else\n",
    ] {
        assert!(listed.contains(said), "{said}: {listed}");
    }
    // A further attach keeps the classes, also with another rate, and so does the file.
    let names = || classes(&network).iter().map(|class| class["name"].to_string()).collect::<Vec<_>>().join(" ");
    network.printed(&format!("attach uplink --rate 8mbit --no-watch --save={}", file.display()));
    assert_eq!(names(), r#""others" "gold" "capped""#);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.split_once("\n\n").unwrap().1, FILE.split_once("\n\n").unwrap().1);
    assert_eq!(network.printed(&apply), "weir: uplink: as it should be\n");
    // They are also written to another file.
    let other = folder.file().with_file_name("other.toml");
    network.printed(&format!("attach uplink --no-watch --save={}", other.display()));
    assert_eq!(network.printed(&format!("apply --file {}", other.display())), "weir: uplink: as it should be\n");
    // A file without classes removes them.
    fs::write(&file, "[uplink]\nport = 8080\nrate = \"8mbit\"\n").unwrap();
    assert_eq!(network.printed(&apply), "weir: uplink: changed at 8mbit\n");
    assert_eq!(names(), "");
    network.printed(&format!("apply --file {}", other.display()));
    network.printed(&format!("attach --detach uplink --save={}", other.display()));
    assert_eq!(qdiscs(), before);
    assert!(!fs::read_to_string(&other).unwrap().contains("uplink."));
}

#[test]
fn mistakes_are_refused_and_change_nothing() {
    let (Some(network), folder) = (Network::new(), Folder::new("mistakes")) else { return };
    let file = folder.file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let (name, apply) = (file.display().to_string(), format!("apply --file {}", file.display()));
    fs::write(&file, FILE).unwrap();
    if !attached(&network, &apply) {
        return;
    }
    let tree = || tree(&network);
    let before = tree();
    for (from, to, said) in [
        ("weight = 3", "weight = 0", ":8: key `class.weight`: 0: expected a number from 1 to 1000"),
        ("port = 8082", "port = 8081", ":15: key `class.rule`: the rule of class gold on line 9 has all its packets"),
        ("10%", "10", ":14: key `class.max_rate`: \"10\": "),
        ("weight = 3", "min_rate = \"9mbit\"", ":8: key `class.min_rate`: minimum rates of 9 Mbit/s together"),
        ("weight = 3", "wieght = 3", ":8: unknown key `class.wieght`"),
        (
            "port = 8081",
            "network = \"::ffff:10.0.0.0/104\"",
            ":10: key `class.rule.network`: \"::ffff:10.0.0.0/104\": ",
        ),
        (
            "port = 8081",
            "cgroup = \"weir-nothing/there\"",
            ":9: key `class.rule.cgroup`: \"weir-nothing/there\" is not there",
        ),
    ] {
        fs::write(&file, FILE.replacen(from, to, 1)).unwrap();
        let refused = network.refused(&apply);
        assert!(refused.contains(&format!("{name}{said}")), "{to}: {refused}");
        assert_eq!(tree(), before, "{to}");
    }
    network.printed("attach --detach uplink");
    network.printed("uplink up uplink --rate 10mbit");
    fs::write(&file, FILE).unwrap();
    assert!(network.refused(&apply).contains("run `weir uplink down uplink` first"));
}

/// Returns the folder of the control groups, if a group with this name can be made there.
fn root_for(name: &str) -> Option<&'static Path> {
    let has_all = |root: &&Path| root.join("cgroup.procs").exists() && root.join("cgroup.subtree_control").exists();
    let can_make =
        |root: &&Path| fs::create_dir(root.join(name)).and_then(|()| fs::remove_dir(root.join(name))).is_ok();
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let root = roots.into_iter().find(has_all).filter(can_make);
    if root.is_none() {
        println!("SKIPPED: no group of processes of version 2 can be made");
    }
    root
}

/// The host routes for this container, whose sockets are in another network namespace. No packet matches its control
/// group. `weir apply` did not report it: the class of podman's container stayed empty.
#[test]
fn a_cgroup_with_a_network_of_its_own_is_named() {
    let (Some(network), folder) = (Network::new(), Folder::new("container")) else { return };
    let name = format!("weir-container-{}", std::process::id());
    let Some(root) = root_for(&name) else { return };
    let file = folder.file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, FILE.replace("port = 8081\n", &format!("cgroup = \"{name}\"\n"))).unwrap();
    if !attached(&network, "attach uplink --rate 9mbit --no-watch") {
        return;
    }
    // Above the process, as an engine's group of all its containers is.
    let inner = root.join(&name).join("inner");
    fs::create_dir_all(&inner).unwrap();
    let words = ["--net", "sleep", "60"];
    let mut container = std::process::Command::new("unshare").args(words).spawn().unwrap();
    fs::write(inner.join("cgroup.procs"), container.id().to_string()).unwrap();
    // `unshare` enters its network before it becomes the other program.
    let path = format!("/proc/{}/comm", container.id());
    while fs::read_to_string(&path).unwrap() != "sleep\n" {
        std::thread::sleep(LOOK_EVERY);
    }
    let apply = format!("apply --file {}", file.display());
    let said = || String::from_utf8(network.weir(&apply).stderr).unwrap();
    let rule = || classes(&network)[1]["rules"][0].as_str().unwrap().to_string();
    let with_container = (said(), rule());
    container.kill().unwrap();
    container.wait().unwrap();
    let mut here = network.start(&format!("apply --watch --file {}", file.display()));
    fs::write(inner.join("cgroup.procs"), here.id().to_string()).unwrap();
    let with_own = (said(), rule());
    here.kill().unwrap();
    here.wait().unwrap();
    fs::remove_dir(&inner).unwrap();
    fs::remove_dir(root.join(&name)).unwrap();
    let expected = format!("key `class.rule.cgroup`: \"{name}\" has a network of its own");
    assert!(with_container.0.contains(&expected), "{with_container:?}");
    assert_eq!(with_container.1, format!("cgroup \"{name}\", with a network of its own"));
    assert_eq!(with_own, (String::new(), format!("cgroup \"{name}\"")));
}

/// A unit's cgroup appears after the attach, and is created again when the unit restarts.
#[test]
fn a_cgroup_that_comes_or_is_made_anew_is_found() {
    let (Some(network), folder) = (Network::new(), Folder::new("cgroup")) else { return };
    let name = format!("weir-watched-{}", std::process::id());
    let Some(root) = root_for(&name) else { return };
    let file = folder.file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, FILE.replace("port = 8081\n", &format!("cgroup = \"{name}\"\n"))).unwrap();
    if !attached(&network, "attach uplink --rate 9mbit --no-watch") {
        return;
    }
    let mut watch = network.start(&format!("apply --watch --file {}", file.display()));
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    let rule = || classes(&network)[1]["rules"][0].as_str().unwrap().to_string();
    assert_eq!(next(), "weir: uplink: changed at 10mbit");
    assert_eq!(rule(), format!("cgroup \"{name}\", which is not there"));
    let mut mistakes = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert!(mistakes.next().unwrap().unwrap().contains(&format!("key `class.rule.cgroup`: \"{name}\" is not there")));
    for _ in 0..2 {
        // It gets a new number each time.
        fs::create_dir(root.join(&name)).unwrap();
        assert_eq!(next(), "weir: uplink: changed at 10mbit");
        assert_eq!(rule(), format!("cgroup \"{name}\""));
        fs::remove_dir(root.join(&name)).unwrap();
        fs::create_dir(root.join(&name)).unwrap();
        assert_eq!(next(), "weir: uplink: changed at 10mbit");
        fs::remove_dir(root.join(&name)).unwrap();
        assert_eq!(next(), "weir: uplink: changed at 10mbit");
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
}
