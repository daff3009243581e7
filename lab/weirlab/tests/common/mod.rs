//! What tests of `weirlab` as a program share, whichever of its commands they call.

use std::path::{Path, PathBuf};

/// A folder of a test's own, removed when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    /// `of` is what is tested, so that two tests of one name do not meet.
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
