//! A pair of interfaces in namespaces of their own, and the program run there.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// `weir0` with 198.18.79.1 in one namespace, `weir1` with 198.18.79.2 in another; both go when this is dropped.
pub struct Network {
    pub near: String,
    pub far: String,
}

impl Network {
    /// `None` without the privilege, having said so; a failure where `WEIR_REQUIRE_PRIVILEGED=1` says it has to be there.
    pub fn new() -> Option<Network> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let [near, far] = ["near", "far"].map(|side| format!("weir-test-{}-{number}-{side}", std::process::id()));
        let network = Network { near, far };
        let Network { near, far } = &network;
        if !shell(&format!("ip netns add {near}")).status.success() {
            let why = "making a network namespace needs root";
            assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
            println!("SKIPPED: {why}");
            return None;
        }
        for command in [
            format!("ip netns add {far}"),
            format!("ip -n {near} link add weir0 type veth peer name weir1 netns {far}"),
            format!("ip -n {near} addr add 198.18.79.1/24 dev weir0"),
            format!("ip -n {far} addr add 198.18.79.2/24 dev weir1"),
            format!("ip -n {near} link set weir0 up"),
            format!("ip -n {far} link set weir1 up"),
        ] {
            let output = shell(&command);
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Some(network)
    }

    /// Runs a command where `weir0` is; it has to succeed, and gives what it printed.
    pub fn near(&self, command: &str) -> String {
        let output = shell(&format!("ip netns exec {} {command}", self.near));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Calls this where `weir0` is, on a thread of its own.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.near)).unwrap();
        let inside = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            action()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Runs the program where `weir0` is.
    pub fn weir(&self, args: &str) -> Output {
        shell(&format!("ip netns exec {} {WEIR} {args}", self.near))
    }

    /// What the program prints, having succeeded.
    pub fn printed(&self, args: &str) -> String {
        let output = self.weir(args);
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one line that the program says, having failed with this exit status.
    pub fn refusal(&self, args: &str, status: i32) -> String {
        let output = self.weir(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{args}: {said}");
        assert!(said.starts_with("weir: ") && said.lines().count() == 1, "{args}: {said}");
        said
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            shell(&format!("ip netns del {name}"));
        }
    }
}

fn shell(command: &str) -> Output {
    let mut words = command.split_whitespace();
    Command::new(words.next().unwrap()).args(words).stdin(Stdio::null()).output().unwrap()
}
