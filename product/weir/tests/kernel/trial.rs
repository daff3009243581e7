//! `weir attach --try`: finds an existing gain, and restores the interface.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use socket2::SockRef;

use crate::attach::attached;
use crate::cable::{SERVER, at, ip};
use crate::floods::OnDrop;
use crate::network::Network;
use crate::virtual_time::in_virtual_time;

/// A time limit that is reached only if a response stalls.
const PATIENCE: Duration = Duration::from_secs(300);
/// Interval at which the server checks whether the test is over.
const TURN: Duration = Duration::from_millis(100);
const SMALL_BYTES: usize = 3000;
const LARGE_BYTES: usize = 2_000_000;
/// The number of small fetches at a time, so that slow responses do not make them rare.
const SMALL: usize = 8;
const BETWEEN_FETCHES: Duration = Duration::from_millis(400);
const LARGE: usize = 3;

/// A host behind the other end of the cable, which is a router with a queue of 150 KB in front of 10 Mbit/s.
struct Far(String);

impl Far {
    fn beyond(network: &Network) -> Far {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir-test-{}-{}-far", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        ip(&format!("netns add {name}"));
        let far = Far(name);
        let name = &far.0;
        network.cable.at_client(|| {
            ip(&format!("link add near type veth peer name far netns {name}"));
            ip("addr add 198.18.61.2/24 dev near");
            ip("link set near up gso_max_segs 1");
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            let queue = "qdisc add dev near root tbf rate 10mbit burst 3000 limit 150000";
            assert!(Command::new("tc").args(queue.split(' ')).status().unwrap().success());
        });
        ip(&format!("-n {name} addr add 198.18.61.1/24 dev far"));
        ip(&format!("-n {name} link set far up"));
        ip(&format!("-n {name} route add default via 198.18.61.2"));
        network.command("ip route add 198.18.61.0/24 via 198.18.60.2");
        far
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Runs a trial on a server with this many downloads at a time, and occasional small fetches. `None` without the
/// privilege.
fn tried(large: usize) -> Option<Value> {
    let network = Network::new()?;
    if !attached(&network, "attach uplink --port 80 --rate 9500kbit --no-watch") {
        return None;
    }
    network.printed("attach --detach uplink");
    let far = Far::beyond(&network);
    let before = qdiscs(&network);
    let tried = loaded(&network, &far, large, || network.json("attach uplink --port 80 --rate 9500kbit --try 60s"));
    println!("{tried}");
    assert_eq!(qdiscs(&network), before);
    assert!(network.printed("attach --list").contains("nothing is attached"));
    Some(tried)
}

/// Acts while a server has this many downloads at a time, and occasional small fetches.
fn loaded<T>(network: &Network, far: &Far, large: usize, act: impl FnOnce() -> T) -> T {
    let listener = network.cable.at_server(|| TcpListener::bind(SERVER).unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        let is_over = &is_over;
        scope.spawn(move || serve(&listener, is_over));
        for _ in 0..large {
            scope.spawn(|| fetch_again(far, LARGE_BYTES, Duration::ZERO, is_over));
        }
        for _ in 0..SMALL {
            scope.spawn(|| fetch_again(far, SMALL_BYTES, BETWEEN_FETCHES, is_over));
        }
        act()
    })
}

/// The qdiscs and the device, without the count of packets that bypassed the bands, which may include the kernel's own.
fn qdiscs(network: &Network) -> String {
    let shown = network.command("tc qdisc show dev uplink") + &network.command("ip -d link show dev uplink");
    let mut words: Vec<&str> = shown.split_inclusive([' ', '\n']).collect();
    if let Some(counter) = words.iter().position(|word| word.trim() == "direct_packets_stat") {
        words.remove(counter + 1);
    }
    words.concat()
}

/// Answers each connection, which requests a number of bytes, and closes it.
fn serve(listener: &TcpListener, is_over: &AtomicBool) {
    // accept(2) takes the timeout of reads.
    SockRef::from(listener).set_read_timeout(Some(TURN)).unwrap();
    std::thread::scope(|scope| {
        while !is_over.load(Ordering::Relaxed) {
            let Ok((mut connection, _)) = listener.accept() else { continue };
            scope.spawn(move || {
                connection.set_write_timeout(Some(PATIENCE)).unwrap();
                let mut request = [0; 8];
                if connection.read_exact(&mut request).is_ok() {
                    // The end of the test cuts this client short. A socket that is closed before its client has all
                    // bytes is an orphan, which the kernel gives up silently if a band refuses its packets.
                    let _ = connection.write_all(&vec![b'x'; u64::from_ne_bytes(request) as usize]);
                    let _ = connection.shutdown(Shutdown::Write);
                    let _ = connection.read(&mut request);
                }
            });
        }
    });
}

/// Repeatedly fetches this many bytes over a new connection. The end of the test may cut the last one short, because
/// the server accepts no more.
fn fetch_again(far: &Far, body_bytes: usize, pause: Duration, is_over: &AtomicBool) {
    let fetch = || {
        let mut connection = TcpStream::connect(SERVER)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(&(body_bytes as u64).to_ne_bytes())?;
        let mut response = Vec::new();
        connection.read_to_end(&mut response)?;
        std::io::Result::Ok(response.len())
    };
    at(&far.0, || {
        while !is_over.load(Ordering::Relaxed) {
            match fetch() {
                Ok(bytes) => assert!(bytes == body_bytes || is_over.load(Ordering::Relaxed), "{bytes}"),
                Err(error) => assert!(is_over.load(Ordering::Relaxed), "{error}"),
            }
            std::thread::sleep(pause);
        }
    });
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_gain_behind_a_slow_router_is_found() {
    if in_virtual_time(a_gain_behind_a_slow_router_is_found) {
        return;
    }
    let Some(tried) = tried(LARGE) else { return };
    assert_eq!(tried["conclusion"], "helps", "{tried}");
    let small = &tried["small"];
    assert!(number(&small["with"]) * 3.0 < number(&small["without"]), "{tried}");
    assert!(number(&tried["largest"]["factor"]) > 0.5, "{tried}");
    assert!((0.8..1.1).contains(&number(&tried["carried"]["factor"])), "{tried}");
}

#[test]
fn without_a_queue_no_gain_is_found() {
    if in_virtual_time(without_a_queue_no_gain_is_found) {
        return;
    }
    let Some(tried) = tried(0) else { return };
    assert_eq!(tried["conclusion"], "no gain", "{tried}");
    assert!(tried["said"].as_str().unwrap().contains("no queue forms"), "{tried}");
}

/// The process that follows the rate stands still during a trial, and goes on from the rate that it had. The gain is kept
/// until a detach.
#[test]
fn a_trial_of_a_rate_that_is_followed_leaves_it_and_is_kept() {
    if in_virtual_time(a_trial_of_a_rate_that_is_followed_leaves_it_and_is_kept) {
        return;
    }
    let Some(network) = Network::new() else { return };
    if !attached(&network, "attach uplink --rate 9500kbit --no-watch") {
        return;
    }
    network.printed("attach --detach uplink");
    let far = Far::beyond(&network);
    let mut follower = network.start("attach uplink --port 80");
    let now = || network.json("attach --list")[0].clone();
    let rate = || now()["line"]["rate_bits_per_s"].as_f64();
    let [before, tried, after, gain] = loaded(&network, &far, LARGE, || {
        while rate().is_none() {
            std::thread::sleep(TURN);
        }
        std::thread::sleep(Duration::from_secs(10));
        let before = now();
        let tried = network.json("attach uplink --try 60s");
        let gain = now()["gain"].clone();
        std::thread::sleep(Duration::from_secs(20));
        [before, tried, now(), gain]
    });
    println!("{tried} {gain}");
    assert_eq!(tried["conclusion"], "helps", "{tried}");
    assert_eq!((&gain["small"], &gain["small_counts"]), (&tried["small"], &tried["small_counts"]));
    assert_eq!(after["line"]["process"], follower.id());
    let [before, after] = [before, after].map(|it| number(&it["line"]["rate_bits_per_s"]));
    assert!((0.85..1.1).contains(&(after / before)), "{before} {after}");
    let said = network.printed("attach --list");
    assert!(said.contains(" min ago: the order helps: responses up to 100 KB: "), "{said}");
    assert!(
        network.printed("attach --list --prometheus").contains("weir_attach_gain_ratio_low{interface=\"uplink\"} 0.")
    );
    network.printed("attach --detach uplink");
    follower.wait().unwrap();
    network.printed("attach uplink --port 80 --rate 9mbit --no-watch");
    assert_eq!(now()["gain"], Value::Null);
}

/// Starts a trial, and waits until it has begun.
fn start(network: &Network, args: &str, time: &str) -> Child {
    let mut child = network.start(&format!("attach uplink {args} --try {time}"));
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let slices = if time == "1h" { "180 slices of 20.0 s" } else { "6 slices of 3.0 s" };
    assert!(line.starts_with(&format!("weir: uplink: {slices}, half with the order at ")), "{line}");
    while !network.refused("attach uplink --try 1s").contains("another `weir attach uplink --try` runs") {
        std::thread::sleep(TURN);
    }
    child
}

fn ended(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_signal_leaves_the_interface_as_it_was() {
    let Some(network) = Network::new() else { return };
    let before = qdiscs(&network);
    if !attached(&network, "attach uplink --rate 9mbit --policy las --port 8080 --cuts 4KB,64KB --no-watch") {
        return;
    }
    let of = || ["ports", "policy", "cuts"].map(|key| network.json("attach --list")[0][key].to_string());
    let (settings, tree) = (of(), qdiscs(&network));
    for (args, signal) in [("", Signal::INT), ("--rate 8mbit --policy psjf --port 80", Signal::TERM)] {
        let child = start(&network, args, "1h");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let (status, said) = ended(child);
        assert!(said.starts_with("weir: stopped after 0 s; uplink: attached, as before"), "{said}");
        assert_eq!((status, of(), qdiscs(&network)), (Some(1), settings.clone(), tree.clone()), "{args}");
        assert!(network.printed("uplink show uplink").contains("at 9mbit"), "{args}");
    }
    network.printed("attach --detach uplink");
    assert_eq!(qdiscs(&network), before);
    let child = start(&network, "--rate 8mbit", "1h");
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert!(ended(child).1.starts_with("weir: stopped after 0 s; uplink: detached, as before"));
    assert_eq!(qdiscs(&network), before);
    // When killed, it leaves the attach, and nothing of the trial.
    let mut child = start(&network, "--rate 8mbit", "1h");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(network.refusal("attach uplink --try 1s", 2).contains("--try 1s is too short: write 18s or more"));
    network.printed("attach --detach uplink");
    assert_eq!(qdiscs(&network), before);
}

/// The trial's figures would belong to a different order, and the result of the other command must not be undone.
#[test]
fn another_command_ends_a_trial_and_has_the_last_word() {
    let Some(network) = Network::new() else { return };
    for (command, left) in
        [("attach uplink --rate 7mbit --no-watch", "rate 7mbit"), ("attach --detach uplink", "nothing is attached")]
    {
        if !attached(&network, "attach uplink --rate 9mbit --no-watch") {
            return;
        }
        let mut child = start(&network, "--rate 8mbit", "18s");
        network.printed(command);
        let is_early = child.wait().unwrap().code() == Some(1);
        let (_, said) = ended(child);
        assert!(is_early && said.contains("another command"), "{command}: {said}");
        let list = network.printed("attach --list");
        assert!(list.contains(left), "{command}: {list}");
    }
}

#[test]
fn an_interface_that_vanishes_ends_a_trial() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, "attach uplink --rate 9mbit --no-watch") {
        return;
    }
    network.printed("attach --detach uplink");
    let child = start(&network, "--rate 9mbit", "1h");
    network.command("ip link del uplink");
    let (status, said) = ended(child);
    assert!(status == Some(1) && said.contains("the interface is gone, and the attach with it"), "{said}");
    assert!(network.printed("attach --list").contains("nothing is attached"));
}
