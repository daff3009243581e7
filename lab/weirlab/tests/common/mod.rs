//! Shared code of the tests of `weirlab` as a program.

use std::path::{Path, PathBuf};

/// A folder for one test, which is removed when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder. `of` is the subject of the tests, so that two tests of the same name do not conflict.
    pub fn new(of: &str, test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weirlab-{of}-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder can be made");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
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
