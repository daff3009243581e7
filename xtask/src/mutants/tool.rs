use std::path::{Path, PathBuf};
use std::process::Command;

/// Another version makes other mutants, and the list of accepted ones would no longer fit.
const VERSION: &str = "27.1.0";

/// Where cargo-mutants is, below `target/`; installed there first if it is not.
pub fn find_or_install(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/tools").join(format!("cargo-mutants-{VERSION}"));
    let program = folder.join("bin/cargo-mutants");
    if program.exists() {
        return Ok(program);
    }
    println!("+ cargo install --locked cargo-mutants@{VERSION}, into {}: takes minutes, once", folder.display());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["install", "--quiet", "--locked", "--root"]).arg(&folder).arg(format!("cargo-mutants@{VERSION}"));
    let status = command.status().map_err(|e| format!("cannot run cargo install: {e}"))?;
    if !status.success() {
        return Err(format!("cargo install of cargo-mutants {VERSION} failed ({status}); it needs the registry"));
    }
    Ok(program)
}
