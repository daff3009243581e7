//! Shared code of the tests of `weirlab` as a program.

use std::path::{Path, PathBuf};

/// A folder for one test, which is removed when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weirlab-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder can be made");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it, as an argument.
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("weirlab writes UTF-8")
}
