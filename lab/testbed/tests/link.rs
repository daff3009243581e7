//! Real links, as root: namespaces, cable, bottleneck, nginx, and nothing left afterwards.

mod common;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{build, experiment_of, fetch, may_test};
use testbed::{Endpoint, Experiment, Interrupt, Site, start_server};

/// Fills the bottleneck's queue: a quarter of a second at 10 Mbit/s.
const FILE_BYTES: u64 = 300_000;

fn experiment(more: &str) -> Experiment {
    experiment_of(more, "server = \"nginx\"")
}

fn our_namespaces() -> Vec<String> {
    let ours = format!("weir-{}-", std::process::id());
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return vec![] };
    entries.flatten().filter_map(|e| e.file_name().into_string().ok()).filter(|name| name.starts_with(&ours)).collect()
}

/// Read under the lock of processes that change it temporarily, other test programs among them.
fn allowed_congestion_controls() -> String {
    let path = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    let lock = std::fs::File::open(path).unwrap();
    lock.lock().unwrap();
    std::fs::read_to_string(path).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-lab-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn nginx_is_shaped_and_nothing_is_left() {
    let Some(_alone) = may_test() else { return };
    let folder = folder("nginx");
    for shaper in ["shaper = \"htb\"\ngso_max_segs = 1", "shaper = \"tbf\"\ngso_max_segs = 1"] {
        one_fetch(&experiment(shaper), &folder);
    }
    let allowed = allowed_congestion_controls();
    let pair = build(&experiment("congestion_control = \"cubic\"")).unwrap();
    assert_eq!(our_namespaces().len(), 2);
    assert_eq!(allowed_congestion_controls(), allowed);
    drop(pair);
    failed_steps_leave_nothing();
    assert_eq!(our_namespaces(), Vec::<String>::new());
    std::fs::remove_dir_all(folder).unwrap();
}

/// All other servers, from a folder that only root may enter.
#[test]
fn every_server_is_shaped_and_ends() {
    let Some(_alone) = may_test() else { return };
    let folder = folder("servers");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    for server in ["apache", "caddy"] {
        one_fetch(&experiment_of("gso_max_segs = 1", &format!("server = \"{server}\"")), &folder);
        let left = processes_of(&folder);
        assert!(left.is_empty(), "{server}: {left:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The counters of every qdisc that this kernel has; missing ones are reported.
#[test]
fn every_queue_is_counted_and_gone_with_its_link() {
    let Some(_alone) = may_test() else { return };
    let folder = folder("queues");
    for (queue, kind) in [("fifo", "pfifo"), ("fq_codel", "fq_codel"), ("cake", "cake")] {
        let experiment = experiment_of("gso_max_segs = 1", &format!("server = \"nginx\"\nqdisc = \"{queue}\""));
        match build(&experiment) {
            Ok(link) => {
                let said = link.describe().unwrap();
                assert!(said["qdisc"].contains(&format!("qdisc {kind} ")), "{said:?}");
                drop(link);
                one_fetch(&experiment, &folder);
            }
            Err(error) => {
                assert!(error.to_string().starts_with(&format!("qdisc `{queue}` cannot be had here: `tc ")), "{error}");
                assert_ne!(queue, "fifo", "{error}");
                println!("SKIPPED: {error}");
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The command lines that name this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(&*folder.to_string_lossy())).collect()
}

fn one_fetch(experiment: &Experiment, folder: &Path) {
    let site = Site::create(folder, &BTreeSet::from([FILE_BYTES])).unwrap();
    let link = build(experiment).unwrap();
    let address = SocketAddr::new(link.server_address(), 8080);
    let endpoint = Endpoint { server: link.server(), client: link.client(), address };
    let spec = experiment.runs().next().unwrap();
    let command = testbed::server_command(experiment, spec, address, site.folder(), folder, None);
    let path = format!("/{FILE_BYTES}.bin");
    let mut server = start_server(endpoint, spec, &command.unwrap(), folder, &path, &Interrupt::default()).unwrap();
    let before = link.counters().unwrap();
    let got_bytes = link.client().enter(|| fetch(address, &path)).unwrap();
    let sent = link.counters().unwrap().since(before);
    assert!(got_bytes > FILE_BYTES);
    // A packet of 1,514 bytes carries at most 1,448 of payload; larger packets would mean that an offload was left on.
    assert!(sent.sent_bytes > got_bytes && sent.sent_packets >= FILE_BYTES.div_ceil(1448), "{sent:?}");
    let said = link.describe().unwrap();
    assert_eq!((said["tcp_congestion_control"].as_str(), said["tcp_no_metrics_save"].as_str()), ("cubic", "1"));
    assert!(!said["qdisc"].is_empty() && !said["offloads"].contains(": on"), "{said:?}");
    server.check_running().unwrap();
}

/// A step that fails half-way, and a panic while everything is up.
fn failed_steps_leave_nothing() {
    let error = build(&experiment("congestion_control = \"no-such\"")).unwrap_err();
    assert!(error.to_string().contains("congestion control `no-such`"), "{error}");
    assert_eq!(our_namespaces(), Vec::<String>::new());
    let panic = std::panic::catch_unwind(|| {
        let _link = build(&experiment("")).unwrap();
        panic!("on purpose");
    });
    assert!(panic.is_err());
}
