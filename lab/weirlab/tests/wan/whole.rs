//! Whole experiments with clients behind wide-area paths, as a person runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::network::may_test;

const EXPERIMENT: &str = r#"question = "who is far away?"
link = "10mbit"
rho = 0.3
seconds = 3
wan = "own"
[[client]]
name = "near"
share = 2
[[client]]
name = "far"
rtt = "60ms"
[[run]]
name = "first"
server = "nginx"
"#;
/// Longest a step may take before it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(60);

/// A folder with the experiment in it; removed at its end.
struct Bench(PathBuf);

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = std::env::temp_dir().join(format!("weirlab-wide-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("wide.toml"), EXPERIMENT).unwrap();
        Bench(folder)
    }

    fn start(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weirlab"));
        command.current_dir(&self.0).args(["run", "wide.toml", "--out", "out", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn has_nginx() -> bool {
    let has = ["/usr/sbin/nginx", "/usr/bin/nginx"].iter().any(|file| Path::new(file).exists());
    if !has {
        crate::network::skip("needs nginx");
    }
    has
}

#[test]
fn far_clients_wait_longer_and_the_manifest_says_why() {
    if !may_test() || !has_nginx() {
        return;
    }
    let bench = Bench::new("far");
    let output = bench.start().wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = record::Run::read(&bench.0.join("out/first")).unwrap();
    assert_eq!(run.manifest.environment["wan"], "own");
    assert_eq!(
        run.manifest.environment["wan_paths"],
        "far=198.18.24.0/21,rtt=60ms,jitter=0s,shape=normal,loss=0,ways=both"
    );
    let counted: serde_json::Value = serde_json::from_str(&run.manifest.environment["wan_counted"]).unwrap();
    let of_group = |group| run.records.iter().filter(move |record| record.group == group);
    let (near, far) = (of_group(0).count(), of_group(1).count());
    assert!(near > far && far > 0 && near + far == run.records.len(), "{near} {far}");
    // A handshake and a request: two round trips, each packet on the path once.
    assert!(of_group(1).all(|record| record.response_time() >= units::Nanos::from_millis(120)));
    // On whatever a machine needs for both: a starved one needs much.
    let [near, far_first] = [0, 1].map(|group| of_group(group).map(|record| record.response_time()).min().unwrap());
    assert!(near + units::Nanos::from_millis(60) < far_first, "{near:?} {far_first:?}");
    assert!(counted["groups"][0]["to_client"]["passed"].as_u64().unwrap() > 3 * far as u64, "{counted}");
    assert_eq!(
        (&counted["strangers"], &counted["groups"][0]["to_client"]["lost"]),
        (&0.into(), &0.into()),
        "{counted}"
    );
}

/// The kernel ends the link with its experiment; its namespaces go with the next start.
#[test]
fn a_killed_experiment_leaves_no_link() {
    if !may_test() || !has_nginx() {
        return;
    }
    let bench = Bench::new("killed");
    let mut child = bench.start();
    let ours = format!("weir-{}-", child.id());
    let is_loaded = || bench.0.join("out/first/load.log").exists() && !processes_with(&ours).is_empty();
    wait_until("the run is under load", is_loaded);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the kernel has ended the link", || processes_with(&ours).is_empty());
    // The start of a test beside this one may have removed them already.
    testbed::remove_leftovers().unwrap();
    assert_eq!(namespaces(&ours), Vec::<String>::new());
}

/// Nobody is answered any more; the load would wait for minutes.
#[test]
fn a_link_that_ends_ends_the_run() {
    if !may_test() || !has_nginx() {
        return;
    }
    let bench = Bench::new("ends");
    let mut child = bench.start();
    let ours = format!("weir-{}-", child.id());
    let load_log = bench.0.join("out/first/load.log");
    wait_until("the run is under load", || load_log.exists());
    let is_link = |line: &str| line.contains("\0link\0") && line.contains(&ours);
    let link = processes().find(|(_, line)| is_link(line)).unwrap().0;
    assert!(Command::new("kill").args(["-KILL", &link]).status().unwrap().success());
    wait_until("the run has ended", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("weirlab link ended unasked (signal 9)") && output.status.code() == Some(1), "{said}");
    assert_eq!(namespaces(&ours), Vec::<String>::new());
}

fn namespaces(prefix: &str) -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with(prefix)).collect()
}

/// Command lines that name this.
fn processes_with(name: &str) -> Vec<String> {
    processes().map(|(_, line)| line).filter(|line| line.contains(name)).collect()
}

/// Every process with its command line, whose words end with zeros.
fn processes() -> impl Iterator<Item = (String, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let line = |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).ok();
    entries.filter_map(move |entry| Some((entry.file_name().into_string().ok()?, line(&entry)?)))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < HUNG_AFTER, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
