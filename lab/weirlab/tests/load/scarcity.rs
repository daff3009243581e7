//! A machine that cannot hold the requested connections: recorded as the generator's own fault.

use std::net::TcpListener;
use std::process::Command;

use record::Run;
use serde_json::Value;

use super::with_trace;

/// A limit of 80 descriptors; those that are not for connections are reserved.
const DESCRIPTORS: u32 = 80;
const FIT: u64 = 16;

/// `weirlab` with a limit that it cannot raise, even as root.
fn weirlab_with(descriptors: u32) -> Command {
    let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
    let mut words = match rustix::process::geteuid().is_root() {
        true => vec!["setpriv", "--bounding-set", "-sys_resource", "sh", "-c"],
        false => vec!["sh", "-c"],
    };
    words.extend([script.as_str(), env!("CARGO_BIN_EXE_weirlab"), "load"]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// The server accepts nothing, so every connection stays open until the end.
#[test]
fn want_of_descriptors_voids_the_run() {
    let folder = with_trace("descriptors");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (trace, out) = (folder.file("trace.csv"), folder.file("run"));
    let words = [&url, "--trace", &trace, "--rate", "1000", "--seconds", "0.1", "--uplink", "1gbit"];
    let more = ["--grace", "200ms", "--server", "mute", "--json", "--out", &out];
    let output = weirlab_with(DESCRIPTORS).args(words).args(more).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let refused = printed["jobs"].as_u64().unwrap() - FIT;
    assert_eq!(printed["outcomes"]["incomplete"], FIT);
    assert_eq!(
        (printed["outcomes"]["refused"].as_u64(), printed["connections_peak"].as_u64()),
        (Some(refused), Some(FIT))
    );
    let void = Run::read(out.as_ref()).unwrap().manifest.void.unwrap();
    assert!(void.contains(&format!("{refused} jobs found no descriptor or port free on the client")), "{void}");
}
