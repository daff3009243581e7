//! Entries of the manifest about the machine and the program of a run.

use std::path::Path;
use std::process::{Command, Stdio};

/// The commit of this project, with `-dirty` if the tree has changes, or `unknown`: `WEIR_COMMIT` at build time if set,
/// otherwise the commit of the source tree in which this was built, if that still exists.
pub(crate) fn commit() -> String {
    option_env!("WEIR_COMMIT")
        .map(str::to_owned)
        .or_else(|| commit_of(Path::new(env!("CARGO_MANIFEST_DIR"))))
        .unwrap_or_else(|| "unknown".into())
}

fn commit_of(tree: &Path) -> Option<String> {
    let commit = git(tree, &["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(tree, &["status", "--porcelain"])?;
    Some(if changes.is_empty() { commit } else { commit + "-dirty" })
}

fn git(tree: &Path, words: &[&str]) -> Option<String> {
    // Experiments run as root in another user's tree, which git would refuse to read.
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*", "--no-optional-locks", "-C"]).arg(tree).args(words);
    let output = command.stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Returns the text of `uname -r`.
pub(crate) fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_outside_any_tree_has_no_commit() {
        assert_eq!(commit_of(Path::new("/proc/self")), None);
    }

    #[test]
    fn the_kernel_has_a_release() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel(), release.trim());
    }
}
