//! The class that a packet belongs to.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use super::*;
use crate::classify::class::cgroup_root;
use crate::testing::skip;
use crate::tree::{ClassShare, find as find_tree};

/// Makes classes 1, 2, ... with a rule each.
fn of(rules: Vec<Rule>) -> Classify {
    let class = |number: usize| Class { name: format!("class{number}"), share: ClassShare::default() };
    let count = rules.iter().map(|rule| rule.class).max().unwrap_or(0) + 1;
    let ports = vec![PORT, PORT + 1];
    Classify { ports, classes: Classes { all: (0..count).map(class).collect(), rules }, ..wanted(Policy::Psjf) }
}

fn network(text: &str) -> Option<(std::net::IpAddr, u8)> {
    text.split_once('/').map(|(address, bits)| (address.parse().unwrap(), bits.parse().unwrap()))
}

impl Site {
    /// Returns the classes to which data went during an action.
    fn classes_during(&self, action: impl FnOnce()) -> Vec<usize> {
        let packets = || find_tree(&self.interface).unwrap().unwrap().class_stats().unwrap();
        let before = packets();
        action();
        (0..before.len())
            .zip(packets())
            .filter(|(class, now)| now.packets > before[*class].packets)
            .map(|(class, _)| class)
            .collect()
    }

    /// Returns the one class of a response that a server sends to this client; the action prepares its socket.
    fn class_of(&self, client: &str, prepare: impl Fn(&TcpStream)) -> usize {
        let address = if client.contains(':') { "::1" } else { "127.0.0.1" };
        let mut pair = Pair::of(address, client);
        prepare(&pair.server);
        let classes = self.classes_during(|| pair.answer(&[&plain(5000)]));
        assert_eq!(classes.len(), 1, "{client}: {classes:?}");
        classes[0]
    }
}

pub(super) fn set(socket: &TcpStream, level: i32, option: i32, value: i32) {
    // SAFETY: the option's value is one int, which outlives the call.
    let status = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4) };
    assert_eq!(status, 0);
}

#[test]
fn the_first_rule_that_is_met_decides() {
    let rules = vec![
        Rule { class: 1, network: network("127.0.0.2/32"), ..Rule::default() },
        Rule { class: 2, network: network("127.0.0.0/30"), mark: Some(7), ..Rule::default() },
        Rule { class: 3, network: network("127.1.0.0/16"), ..Rule::default() },
        Rule { class: 4, network: network("2001:db8:0:1::/64"), ..Rule::default() },
        Rule { class: 5, network: network("2001:db8::4/127"), ..Rule::default() },
        Rule { class: 6, dscp: Some(46), ..Rule::default() },
        Rule { class: 3, mark: Some(u32::MAX), ..Rule::default() },
    ];
    with(of(rules), |site| {
        for address in ["2001:db8:0:1::5", "2001:db8::5", "2001:db8::6"] {
            run(&format!("ip addr add {address}/128 dev lo nodad"));
        }
        let plain = |_: &TcpStream| {};
        let mark = |value: i32| move |socket: &TcpStream| set(socket, libc::SOL_SOCKET, libc::SO_MARK, value);
        let expedited = |level: i32, option: i32| move |socket: &TcpStream| set(socket, level, option, 46 << 2 | 1);
        for (client, class) in [
            ("127.0.0.2", 1),
            ("127.0.0.1", 0),
            ("127.1.200.1", 3),
            ("127.2.0.1", 0),
            ("2001:db8:0:1::5", 4),
            ("2001:db8::5", 5),
            ("2001:db8::6", 0),
            ("::1", 0),
        ] {
            assert_eq!(site.class_of(client, plain), class, "{client}");
        }
        assert_eq!(site.class_of("127.0.0.2", mark(7)), 1);
        assert_eq!(site.class_of("127.0.0.3", mark(7)), 2);
        assert_eq!(site.class_of("127.0.0.3", mark(8)), 0);
        assert_eq!(site.class_of("127.9.0.3", mark(-1)), 3);
        assert_eq!(site.class_of("127.9.0.3", expedited(libc::IPPROTO_IP, libc::IP_TOS)), 6);
        assert_eq!(site.class_of("::1", expedited(libc::IPPROTO_IPV6, libc::IPV6_TCLASS)), 6);
        // The rule for the network comes first.
        assert_eq!(site.class_of("127.1.0.3", expedited(libc::IPPROTO_IP, libc::IP_TOS)), 3);
    });
}

/// A datagram from a port that the server's socket does not have belongs to a flow.
#[test]
fn datagrams_are_classed_by_their_port() {
    with(of(vec![Rule { class: 1, port: Some(PORT + 1), ..Rule::default() }]), |site| {
        for (port, class) in [(PORT, 0), (PORT + 1, 1)] {
            let server = std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap();
            let classes = site.classes_during(|| {
                server.send_to(&[0; 500], ("127.0.0.1", 9)).unwrap();
            });
            assert_eq!(classes, [class]);
        }
    });
}

/// A group of processes that the calling thread is in; the others of the program stay where they are.
struct Group {
    path: String,
    folder: PathBuf,
    parent: PathBuf,
}

impl Group {
    fn new(name: &str) -> std::io::Result<Group> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_string();
        let root = cgroup_root().map_err(|error| std::io::Error::other(error.to_string()))?;
        let parent = root.join(&own);
        let name = format!("weir-test-{name}-{}", std::process::id());
        let path = if own.is_empty() { name.clone() } else { format!("{own}/{name}") };
        let group = Group { path, folder: parent.join(name), parent };
        fs::create_dir(&group.folder)?;
        fs::write(group.folder.join("cgroup.type"), "threaded")?;
        Ok(group)
    }

    fn join(&self) {
        fs::write(self.folder.join("cgroup.threads"), "0").unwrap();
    }

    fn leave(&self) {
        fs::write(self.parent.join("cgroup.threads"), "0").unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.parent.join("cgroup.threads"), "0");
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_group_of_processes_is_known_by_the_socket_of_its_server() {
    let group = match Group::new("class") {
        Ok(group) => group,
        Err(error) => return skip(&format!("no group of processes can be made: {error}")),
    };
    let cgroup = |path: &str| Rule { class: 1, cgroup: Some(Cgroup::of(path)), ..Rule::default() };
    let wanted = of(vec![cgroup("weir-nothing"), cgroup(&group.path)]);
    assert!(!wanted.classes.rules[0].cgroup.as_ref().unwrap().is_there());
    with(wanted.clone(), move |site| {
        assert_eq!(site.class_of("127.0.0.1", |_| ()), 0);
        group.join();
        let mut pair = Pair::new("127.0.0.1");
        group.leave();
        assert_eq!(site.classes_during(|| pair.answer(&[&plain(5000)])), [1]);
        // A group that is created again has another number, which the next attach finds.
        drop(pair);
        let (path, folder) = (group.path.clone(), group.folder.clone());
        fs::remove_dir(&folder).unwrap();
        assert!(!is_in_place(&site.interface, &wanted).unwrap(), "{path} is gone");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("cgroup.type"), "threaded").unwrap();
        attach(&site.interface, &wanted).unwrap();
        assert!(is_in_place(&site.interface, &wanted).unwrap());
        group.join();
        assert_eq!(site.class_of("127.0.0.1", |_| ()), 1);
        group.leave();
    });
}

#[test]
fn classes_are_read_back_changed_in_place_and_leave_nothing() {
    in_own_network(|| {
        let interface = lo();
        let plain = Classify { ports: vec![PORT, PORT + 1], ..wanted(Policy::Psjf) };
        let two = of(vec![Rule { class: 1, port: Some(PORT), ..Rule::default() }]);
        let before = crate::tc::qdiscs(&mut Socket::open().unwrap(), interface.index).unwrap();
        attach(&interface, &two).unwrap();
        let settings = || find(&interface).unwrap().unwrap().settings.unwrap();
        assert_eq!(settings().classes, two.classes);
        assert!(is_in_place(&interface, &two).unwrap() && !is_in_place(&interface, &plain).unwrap());
        let mut other = two.clone();
        other.classes.all[1].share = ClassShare { weight: 5, min_rate: "10%".parse().ok(), max_rate: None };
        attach(&interface, &other).unwrap();
        assert_eq!(settings().classes, other.classes);
        assert_eq!(find_tree(&interface).unwrap().unwrap().plan.classes, other.classes.shares());
        // Bands without the classes are reported, and repaired.
        let missing = || find(&interface).unwrap().unwrap().missing();
        assert_eq!(missing(), None);
        tree::up(&interface, &tree::Plan::new(Kind::Htb, "1gbit".parse().unwrap()), false).unwrap();
        assert!(missing().is_some_and(|said| said.starts_with("the classes are gone: ")));
        attach(&interface, &other).unwrap();
        assert_eq!(missing(), None);
        attach(&interface, &plain).unwrap();
        assert_eq!(find_tree(&interface).unwrap().unwrap().plan.classes, []);
        attach(&interface, &two).unwrap();
        detach(&interface).unwrap();
        assert_eq!(crate::tc::qdiscs(&mut Socket::open().unwrap(), interface.index).unwrap(), before);
    });
}

#[test]
fn what_cannot_be_kept_is_refused_and_changes_nothing() {
    in_own_network(|| {
        let interface = lo();
        let mut greedy = of(vec![Rule { class: 1, port: Some(PORT), ..Rule::default() }]);
        greedy.classes.all[1].share.min_rate = "900mbit".parse().ok();
        let said = attach(&interface, &greedy).unwrap_err().to_string();
        assert_eq!(
            said,
            "minimum rates of 900 Mbit/s together: write at most 785 Mbit/s, which 1gbit has without the 20 % of other traffic"
        );
        assert!(find(&interface).unwrap().is_none() && find_tree(&interface).unwrap().is_none());
        // A followed line may become slower at any time.
        attach(&interface, &Classify { is_followed: true, ..greedy.clone() }).unwrap();
        detach(&interface).unwrap();
        let plan = tree::Plan::new(Kind::Htb, "1gbit".parse().unwrap());
        tree::up(&interface, &plan, false).unwrap();
        let said = attach(&interface, &of(vec![])).unwrap_err().to_string();
        assert!(
            said.contains("are from `weir uplink up` and have no classes: run `weir uplink down lo` first"),
            "{said}"
        );
    });
}

/// Each client has a share of its class's part, by its weight.
#[test]
fn clients_of_two_classes_are_accounted_apart() {
    use sched::policy::ClientShareSpec;
    let clients =
        Clients { share: ClientShareSpec::Allowance(20_000), v4_bits: 32, v6_bits: 56, by: ClientBy::Address };
    let rules = vec![Rule { class: 1, network: network("127.0.0.2/32"), ..Rule::default() }];
    with(Classify { clients: Some(clients), ..of(rules) }, |site| {
        let [mut one, mut other] = ["127.0.0.2", "127.0.0.3"].map(|client| Pair::of("127.0.0.1", client));
        let counted = site.during(|| {
            for _ in 0..5 {
                one.answer(&[&plain(100_000)]);
                other.answer(&[&plain(1000)]);
            }
        });
        // Each client is the only one of its class.
        assert_eq!(counted.behind, 0, "{counted:?}");
        let mut third = Pair::of("127.0.0.1", "127.0.0.4");
        let counted = site.during(|| {
            third.answer(&[&plain(1000)]);
            other.answer(&[&plain(300_000)]);
            third.answer(&[&plain(1000)]);
        });
        assert!(counted.behind > 0, "{counted:?}");
    });
}
