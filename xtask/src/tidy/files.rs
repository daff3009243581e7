//! The tree as git would commit it: everything that `.gitignore` does not name. And what no file of it may hold.

use std::fs;
use std::io;
use std::path::Path;

/// Larger things are data: they are fetched or generated, and stay out of the history for good.
const FILE_BYTES_MAX: u64 = 1_000_000;

/// How deep folders may nest before the walk takes it for a loop.
const DEPTH_MAX: usize = 32;

/// Beginnings of paths that exist on one machine only; written in two parts so that this file may be committed.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// A file that is text; its path is relative to the workspace, with `/`.
pub struct TextFile {
    pub path: String,
    pub text: String,
}

/// All files that are not ignored.
#[derive(Default)]
pub struct Tree {
    pub texts: Vec<TextFile>,
    /// Path and bytes of every file, text or not.
    sizes: Vec<(String, u64)>,
}

impl Tree {
    pub fn text(&self, path: &str) -> Result<&str, String> {
        let found = self.texts.iter().find(|file| file.path == path);
        found.map(|file| file.text.as_str()).ok_or_else(|| format!("{path} is missing: tidy reads it"))
    }

    /// Whether this is a file of the tree, or a folder with one.
    pub fn holds(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.sizes.iter().any(|(file, _)| file == path || file.starts_with(&folder))
    }

    /// Of every file, text or not.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.sizes.iter().map(|(path, _)| path.as_str())
    }

    pub fn file_count(&self) -> usize {
        self.sizes.len()
    }
}

pub fn read(root: &Path) -> Result<Tree, String> {
    let ignore = fs::read_to_string(root.join(".gitignore")).map_err(|e| format!(".gitignore: {e}"))?;
    let ignored = Ignored::parse(&ignore)?;
    let mut tree = Tree::default();
    walk(root, "", DEPTH_MAX, &ignored, &mut tree).map_err(|e| format!("cannot read the tree: {e}"))?;
    Ok(tree)
}

pub fn check(tree: &Tree) -> Vec<String> {
    let large = tree.sizes.iter().filter(|(_, bytes)| *bytes > FILE_BYTES_MAX);
    let large =
        large.map(|(path, bytes)| format!("{path}: {bytes} bytes, at most {FILE_BYTES_MAX}; fetch or generate it"));
    large.chain(tree.texts.iter().flat_map(check_machine_paths)).collect()
}

fn walk(folder: &Path, below: &str, depth: usize, ignored: &Ignored, tree: &mut Tree) -> io::Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(|| io::Error::other(format!("{below} nests too deep")))?;
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if ignored.holds(&path) {
            continue;
        } else if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), depth, ignored, tree)?;
        } else if kind.is_file() {
            read_file(&entry.path(), path, tree)?;
        }
    }
    Ok(())
}

fn read_file(file: &Path, path: String, tree: &mut Tree) -> io::Result<()> {
    let bytes = fs::metadata(file)?.len();
    if bytes <= FILE_BYTES_MAX
        && let Ok(text) = String::from_utf8(fs::read(file)?)
    {
        tree.texts.push(TextFile { path: path.clone(), text });
    }
    tree.sizes.push((path, bytes));
    Ok(())
}

/// The few forms of `.gitignore` patterns this project uses: `/name` at the root and `*.suffix` anywhere.
struct Ignored {
    names: Vec<String>,
    suffixes: Vec<String>,
}

impl Ignored {
    fn parse(text: &str) -> Result<Ignored, String> {
        let mut ignored = Ignored { names: vec![".git".into()], suffixes: Vec::new() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match (line.strip_prefix('/'), line.strip_prefix('*')) {
                (Some(name), _) if !name.contains('*') => ignored.names.push(name.trim_end_matches('/').into()),
                (_, Some(suffix)) if !suffix.contains(['*', '/']) => ignored.suffixes.push(suffix.into()),
                _ => return Err(format!(".gitignore: tidy understands `/name` and `*.suffix`, not `{line}`")),
            }
        }
        Ok(ignored)
    }

    fn holds(&self, path: &str) -> bool {
        self.names.iter().any(|name| name == path) || self.suffixes.iter().any(|suffix| path.ends_with(suffix))
    }
}

fn check_machine_paths(file: &TextFile) -> Vec<String> {
    let named = |line: &str| MACHINE_PATHS.iter().find(|start| begins_path(line, start)).copied();
    let found = file.text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, named(line)?)));
    let problem =
        |(line, start)| format!("{}:{line}: `{start}` is a path of one machine; write a relative one", file.path);
    found.map(problem).collect()
}

/// Whether `start` stands in the line as the beginning of a path, not in the middle of one (`docs/home/`).
fn begins_path(line: &str, start: &str) -> bool {
    let is_inside = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "._-~$}*/".contains(c));
    line.match_indices(start).any(|(at, _)| !is_inside(&line[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found() {
        let [home, root] = [MACHINE_PATHS[2], MACHINE_PATHS[1]];
        let text = format!("cd {home}me\nGET /docs{home}\n\"{root}x\"\nhttps://example.org{home}\n");
        let problems = check_machine_paths(&TextFile { path: "a.sh".into(), text });
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("a.sh:1: ") && problems[1].starts_with("a.sh:3: "), "{problems:?}");
    }

    #[test]
    fn large_files_are_found() {
        let sizes = vec![("small".into(), FILE_BYTES_MAX), ("large".into(), FILE_BYTES_MAX + 1)];
        let problems = check(&Tree { texts: Vec::new(), sizes });
        assert!(problems.len() == 1 && problems[0].starts_with("large: 1000001 bytes"), "{problems:?}");
    }

    #[test]
    fn ignores_what_git_ignores() {
        let ignored = Ignored::parse("# built\n/target\n/out/\n*.profraw\n").unwrap();
        assert!(["target", "out", "a/b.profraw", ".git"].iter().all(|path| ignored.holds(path)));
        assert!(!["a/target", "targets", "src"].iter().any(|path| ignored.holds(path)));
        assert!(Ignored::parse("a/**/b\n").is_err_and(|e| e.contains("`a/**/b`")));
    }

    #[test]
    fn reads_text_and_sizes_below_a_folder() {
        let root = std::env::temp_dir().join(format!("xtask-files-{}", std::process::id()));
        fs::create_dir_all(root.join("a/target")).unwrap();
        fs::create_dir_all(root.join("target")).unwrap();
        for (path, bytes) in
            [(".gitignore", &b"/target\n"[..]), ("a/target/b.rs", b"x"), ("target/c", b"y"), ("d", b"\xff")]
        {
            fs::write(root.join(path), bytes).unwrap();
        }
        let tree = read(&root);
        fs::remove_dir_all(&root).unwrap();
        let tree = tree.unwrap();
        assert_eq!(tree.text("a/target/b.rs"), Ok("x"));
        assert!(tree.text("target/c").is_err_and(|e| e.contains("target/c is missing")));
        assert_eq!(tree.file_count(), 3);
    }
}
