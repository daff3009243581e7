//! Reads the files of a site from its folder.

use std::fs;
use std::path::Path;

use workload::{DOCUMENTS_BYTES_MAX, DOCUMENTS_MAX, Documents};

use cli::Failure;

/// The files below this folder from which pages are formed. Links are followed, as by a web server.
pub(super) fn read(folder: &Path) -> Result<Documents, Failure> {
    let (mut files, mut bytes) = (vec![], 0);
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, below)) = folders.pop() {
        let failed = |error| Failure::Failed(format!("--site: {}: {error}", folder.display()));
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(name) = entry.file_name().to_str().map(String::from) else { continue };
            // A server does not serve a broken link either.
            let Ok(found) = fs::metadata(entry.path()) else { continue };
            let is_link = entry.file_type().map_err(failed)?.is_symlink();
            if found.is_dir() && !is_link {
                folders.push((entry.path(), format!("{below}{name}/")));
            } else if found.is_file() && Documents::kind_of(&name).is_some() {
                bytes += found.len();
                if files.len() == DOCUMENTS_MAX || bytes > DOCUMENTS_BYTES_MAX {
                    let most = format!("{DOCUMENTS_MAX} files and {DOCUMENTS_BYTES_MAX} bytes");
                    return Err(Failure::Usage(format!("--site: more than {most}: name a smaller site")));
                }
                files.push((format!("{below}{name}"), fs::read(entry.path()).map_err(failed)?));
            }
        }
    }
    Documents::new(files).map_err(|reason| Failure::Usage(format!("--site: {}: {reason}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_pages_are_read_and_no_others() {
        let folder = std::env::temp_dir().join(format!("weir-documents-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        for (path, text) in [("a/b/c.html", "<p>"), ("a/x.css", "p {}"), ("a/notes.txt", "no"), ("secret", "no")] {
            fs::write(folder.join(path), text).unwrap();
        }
        std::os::unix::fs::symlink("x.css", folder.join("a/y.css")).unwrap();
        std::os::unix::fs::symlink("..", folder.join("a/b/up")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all.css", folder.join("z.css")).unwrap();
        let documents = read(&folder).unwrap();
        assert_eq!(documents.pages().len(), 1);
        let paths: Vec<&str> = (0..3).map(|file| documents.get(file).path.as_str()).collect();
        assert_eq!(paths, ["a/b/c.html", "a/x.css", "a/y.css"]);
        fs::remove_dir_all(&folder).unwrap();
        let Err(Failure::Failed(said)) = read(&folder) else { panic!("there is no folder") };
        assert!(said.starts_with("--site: ") && said.contains("weir-documents-"), "{said}");
    }
}
