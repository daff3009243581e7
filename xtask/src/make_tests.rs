//! `make run` and `make install` on a fresh machine, with a set-up and a cargo that only write down what they are asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Makefile and scripts/build.sh in a folder of their own.
struct Machine(PathBuf);

impl Machine {
    /// `installs`: the set-up has what `weir attach` is built with from then on.
    fn new(name: &str, installs: bool) -> Machine {
        let machine = Machine(std::env::temp_dir().join(format!("weir-make-{}-{name}", std::process::id())));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is a folder of the workspace");
        for folder in ["scripts", "bin", "target/release", "examples"] {
            fs::create_dir_all(machine.0.join(folder)).unwrap();
        }
        for file in ["Makefile", "scripts/build.sh"] {
            fs::copy(root.join(file), machine.0.join(file)).unwrap();
        }
        let install = if installs { "touch installed" } else { "true" };
        machine.script(
            "scripts/setup.sh",
            &format!(
                "case $1 in\nrun) {install} ;;\n--missing) [ -e installed ] || echo /usr/include/libelf.h libelf-dev the BPF programs of weir attach ;;\nesac"
            ),
        );
        machine.script(
            "bin/cargo",
            "echo \"$@\" >>asked\nprintf '#!/bin/sh\\n' >target/release/weir\nchmod 755 target/release/weir",
        );
        machine
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What a target says, standard output and error.
    fn make(&self, target: &str) -> String {
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("make");
        command
            .arg(target)
            .current_dir(&self.0)
            .env("PATH", path)
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("MAKEFLAGS");
        let output = command.output().expect("make is there");
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()
    }

    /// What cargo was asked, line by line.
    fn asked(&self) -> String {
        fs::read_to_string(self.0.join("asked")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The first `make run` built no `weir attach`: make looked for the header before the set-up had installed it.
#[test]
fn the_first_run_builds_attach_with_what_the_set_up_installs() {
    for target in ["run", "demo"] {
        let machine = Machine::new(target, true);
        let said = machine.make(target);
        assert_eq!(machine.asked(), "build --release --locked --package weir\n", "make {target}: {said}");
        assert!(!said.contains("attach"), "{said}");
    }
}

#[test]
fn a_build_without_attach_says_what_it_lacks() {
    let machine = Machine::new("lacking", false);
    let said = machine.make("run");
    assert_eq!(machine.asked(), "build --release --locked --package weir --no-default-features\n", "{said}");
    assert!(said.contains("no `attach`; for that, install libelf-dev (/usr/include/libelf.h)"), "{said}");
}

/// The build that it names decides for itself.
#[test]
fn an_install_without_a_program_names_the_build() {
    let machine = Machine::new("install", true);
    let said = machine.make("install");
    assert!(said.contains("run: scripts/build.sh\n") && machine.asked().is_empty(), "{said}");
}
