//! Tools of cargo's registry, installed below `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool of this version, below `target/`; installed there first if it is not.
pub fn installed(root: &Path, name: &str, version: &str) -> Result<PathBuf, String> {
    let folder = root.join("target/tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    println!("+ cargo install --locked {name}@{version}, into {}: takes minutes, once", folder.display());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["install", "--quiet", "--locked", "--root"]).arg(&folder).arg(format!("{name}@{version}"));
    let status = command.status().map_err(|e| format!("cannot run cargo install: {e}"))?;
    if !status.success() {
        return Err(format!("cargo install of {name} {version} failed ({status}); it needs the registry"));
    }
    Ok(program)
}
