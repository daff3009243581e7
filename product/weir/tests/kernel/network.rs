//! Runs the program at the server's end of a cable.

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::cable::Cable;

pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Two hosts; the server's has the interface `uplink`.
pub struct Network {
    pub cable: Cable,
}

impl Network {
    /// `None` without the privilege; see [`Cable::lay`].
    pub fn new() -> Option<Network> {
        Some(Network { cable: Cable::lay()? })
    }

    /// Runs a command on the host with `uplink`, which must succeed, and returns its output.
    pub fn command(&self, command: &str) -> String {
        let mut words = command.split_whitespace();
        let program = words.next().unwrap();
        succeeded(command, self.run(program, words))
    }

    /// Runs the program there.
    pub fn weir(&self, args: &str) -> Output {
        self.run(WEIR, args.split_whitespace())
    }

    /// Runs the program there with these variables.
    pub fn weir_with(&self, args: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(WEIR);
        command.args(args.split_whitespace()).envs(variables.iter().copied()).stdin(Stdio::null());
        self.cable.at_server(|| command.output().unwrap())
    }

    /// The output of the program, which must succeed.
    pub fn printed(&self, args: &str) -> String {
        succeeded(args, self.weir(args))
    }

    /// The output with `--json`.
    pub fn json(&self, args: &str) -> Value {
        json(&self.printed(&format!("{args} --json")))
    }

    /// The error output of the program, which must fail.
    pub fn refused(&self, args: &str) -> String {
        let output = self.weir(args);
        assert!(!output.status.success(), "{args}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The single line of error output of the program, which must fail with this exit status.
    pub fn refusal(&self, args: &str, status: i32) -> String {
        let output = self.weir(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{args}: {said}");
        assert!(said.starts_with("weir: ") && said.lines().count() == 1, "{args}: {said}");
        said
    }

    /// Starts the program there, with its output piped.
    pub fn start(&self, args: &str) -> Child {
        let mut command = Command::new(WEIR);
        command.args(args.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.cable.at_server(|| command.spawn().unwrap())
    }

    fn run<'a>(&self, program: &str, args: impl Iterator<Item = &'a str> + Send) -> Output {
        self.cable.at_server(|| Command::new(program).args(args).stdin(Stdio::null()).output().unwrap())
    }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn succeeded(command: &str, output: Output) -> String {
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
