//! The real thing, as root: namespaces, cable, bottleneck, nginx; and nothing left afterwards.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use lab::{Endpoint, Experiment, Interrupt, Link, Site, start_server};

/// Enough to fill the bottleneck's queue: a quarter of a second at 10 Mbit/s.
const FILE_BYTES: u64 = 300_000;

fn may_test() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    assert!(std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none_or(|v| v != "1"), "needs root: making namespaces");
    println!("SKIPPED: needs root: making namespaces");
    false
}

fn experiment(more: &str) -> Experiment {
    let text = format!(
        "question = \"\"\nlink = \"10mbit\"\nrho = 0.8\nseconds = 1\n{more}\n[[run]]\nname = \"a\"\nserver = \"nginx\"\n"
    );
    Experiment::parse(&text, Path::new("x.toml")).unwrap()
}

fn our_namespaces() -> Vec<String> {
    let ours = format!("weir-{}-", std::process::id());
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return vec![] };
    entries.flatten().filter_map(|e| e.file_name().into_string().ok()).filter(|name| name.starts_with(&ours)).collect()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-lab-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn fetch(address: SocketAddr, path: &str) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    Ok(answer.len() as u64)
}

#[test]
fn nginx_is_shaped_and_nothing_is_left() {
    if !may_test() {
        return;
    }
    let folder = folder("nginx");
    for shaper in ["shaper = \"htb\"\ngso_max_segs = 1", "shaper = \"tbf\"\ngso_max_segs = 1"] {
        one_fetch(&experiment(shaper), &folder);
    }
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
    let pair = Link::build(&experiment("congestion_control = \"cubic\"")).unwrap();
    assert_eq!(our_namespaces().len(), 2);
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap(), allowed);
    drop(pair);
    failed_steps_leave_nothing();
    assert_eq!(our_namespaces(), Vec::<String>::new());
    std::fs::remove_dir_all(folder).unwrap();
}

fn one_fetch(experiment: &Experiment, folder: &Path) {
    let site = Site::create(&folder.join("www"), &BTreeSet::from([FILE_BYTES])).unwrap();
    let link = Link::build(experiment).unwrap();
    let address = SocketAddr::new(link.server_address(), 8080);
    let endpoint = Endpoint { server: link.server(), client: link.client(), address };
    let command =
        lab::server_command(experiment, experiment.runs().next().unwrap(), address, site.folder(), folder, None);
    let path = format!("/{FILE_BYTES}.bin");
    let mut nginx = start_server(endpoint, &command.unwrap(), folder, &path, &Interrupt::default()).unwrap();
    let before = link.counters().unwrap();
    let got_bytes = link.client().enter(|| fetch(address, &path)).unwrap();
    let sent = link.counters().unwrap().since(before);
    assert!(got_bytes > FILE_BYTES);
    // A packet of 1,514 bytes carries at most 1,448 of them; anything larger would be an offload left on.
    assert!(sent.sent_bytes > got_bytes && sent.sent_packets >= FILE_BYTES.div_ceil(1448), "{sent:?}");
    let said = link.describe().unwrap();
    assert_eq!((said["tcp_congestion_control"].as_str(), said["tcp_no_metrics_save"].as_str()), ("cubic", "1"));
    assert!(said["qdisc"].contains("limit 100p") && !said["offloads"].contains(": on"), "{said:?}");
    nginx.check_running().unwrap();
}

/// A step that fails half-way, and a panic while everything is up.
fn failed_steps_leave_nothing() {
    let error = Link::build(&experiment("congestion_control = \"no-such\"")).unwrap_err();
    assert!(error.to_string().contains("congestion control `no-such`"), "{error}");
    assert_eq!(our_namespaces(), Vec::<String>::new());
    let panic = std::panic::catch_unwind(|| {
        let _link = Link::build(&experiment("")).unwrap();
        panic!("on purpose");
    });
    assert!(panic.is_err());
}
