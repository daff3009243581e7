//! `scripts/put-back.sh`: leftovers of killed runs are removed; leftovers of a live process or of another owner stay.

use std::path::Path;
use std::process::Command;

use crate::network::Network;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/put-back.sh");

#[test]
fn what_killed_runs_left_is_put_back_and_nothing_else() {
    if !Path::new(SCRIPT).exists() {
        return println!("SKIPPED: this machine does not see the repository"); // the virtual one sees no /tmp
    }
    // Its namespaces belong to this process, which is alive.
    let Some(network) = Network::new() else { return };
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let dead = ended.id();
    let leftovers = [format!("weir-test-{dead}-0-s"), format!("weir-{dead}-1-0-server")];
    let stranger = format!("weird-{dead}-1-0-server");
    let file = format!("/run/weir/segments-2-{dead}");
    for name in leftovers.iter().chain([&stranger]) {
        assert!(Command::new("ip").args(["netns", "add", name]).status().unwrap().success());
    }
    std::fs::create_dir_all("/run/weir").unwrap();
    std::fs::write(&file, "weir0 1 1\n").unwrap();
    let output = Command::new(SCRIPT).output().unwrap();
    let stays = |name: &str| Path::new("/run/netns").join(name).exists();
    let stranger_stays = stays(&stranger);
    assert!(Command::new("ip").args(["netns", "delete", &stranger]).status().unwrap().success());

    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        leftovers.iter().all(|name| said.contains(&format!("namespace {name}: deleted")) && !stays(name)),
        "{said}"
    );
    // Another test's `uplink up` may have removed it first.
    assert!(!Path::new(&file).exists(), "{said}");
    assert!(stranger_stays && !said.contains("weird-"), "{said}");
    assert!(network.command("ip -brief link show dev uplink").starts_with("uplink"));
}
