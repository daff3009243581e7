//! `weir demo` as a visitor runs it.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

fn demo(folder: &PathBuf, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("demo").args(words).env("TMPDIR", folder).output().unwrap()
}

/// The sentence depends on the machine.
#[test]
fn it_ends_with_a_sentence_and_leaves_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("weir-demo-test-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let output = demo(&folder, &["--text", "--time", "1s", "--rate", "20mbit"]);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    match output.status.code() {
        Some(0) => {
            assert!(out.starts_with("Beside 2 downloads a page took ") && out.lines().count() == 1, "{out}{err}")
        }
        status => assert!(status == Some(1) && out.is_empty() && err.contains("weir: no result: "), "{out}{err}"),
    }
    for wrong in [["--time", "0s"], ["--rate", "10gbit"]] {
        let output = demo(&folder, &[&["--text"][..], &wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }

    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = demo(&folder, &["--listen", &used.local_addr().unwrap().to_string()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("another program uses it"), "{said}");
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    std::fs::remove_dir(&folder).unwrap();
}
