//! `cargo xtask docs`: the pages of this workspace as a site, by mdBook; and the pages of a package ([`packaged`]).
//!
//! Pages of `docs/` keep their places; what they link to elsewhere in the workspace comes along below `project/`, and links follow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::tools;

const MDBOOK: &str = "0.5.4";
const OUT: &str = "target/docs";

/// The first pages, in the order of a reader; the others follow by their folders.
const FIRST: [&str; 15] = [
    "README.md",
    "docs/install.md",
    "docs/recipes.md",
    "docs/reference.md",
    "docs/configuration.md",
    "docs/service.md",
    "docs/proxy.md",
    "docs/certificates.md",
    "docs/protocols.md",
    "docs/line.md",
    "docs/policies.md",
    "docs/attach.md",
    "docs/measurements.md",
    "docs/maturity.md",
    "docs/weirlab.md",
];

/// Other pages, by their folders in the site.
const PARTS: [(&str, &str); 3] = [("Notebook", "notebook"), ("Papers", "reproduction"), ("Project", "project")];

pub fn main(root: &Path) -> Result<(), String> {
    let site = Site::collect(root)?;
    let out = root.join(OUT);
    let source = out.join("source");
    // From an earlier run.
    let _ = std::fs::remove_dir_all(&source);
    let write = |path: &Path, bytes: &[u8]| {
        let file = source.join(path);
        std::fs::create_dir_all(file.parent().unwrap_or(&source)).map_err(|e| format!("{}: {e}", file.display()))?;
        std::fs::write(&file, bytes).map_err(|e| format!("{}: {e}", file.display()))
    };
    for (path, bytes) in &site.files {
        write(&place(path), bytes)?;
    }
    write(Path::new("SUMMARY.md"), site.summary().as_bytes())?;
    let book =
        "[book]\ntitle = \"Weir\"\nlanguage = \"en\"\nsrc = \"source\"\n[output.html]\nno-section-label = true\n";
    std::fs::write(out.join("book.toml"), book).map_err(|e| format!("{OUT}/book.toml: {e}"))?;
    let mdbook = tools::installed(root, "mdbook", MDBOOK)?;
    let built = Command::new(mdbook).arg("build").arg(&out).arg("--dest-dir").arg(out.join("site")).status();
    let built = built.map_err(|e| format!("mdbook: {e}"))?;
    if !built.success() {
        return Err(format!("mdbook: {built}"));
    }
    println!("{} pages: {OUT}/site/index.html", site.pages().count());
    Ok(())
}

/// Files by their paths in the workspace, links in pages rewritten.
struct Site {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Site {
    /// All pages of `docs/`, and whatever they link to.
    fn collect(root: &Path) -> Result<Site, String> {
        let mut wanted: BTreeSet<PathBuf> = FIRST.iter().map(PathBuf::from).collect();
        for folder in ["docs", "docs/notebook", "docs/reproduction"] {
            let entries = std::fs::read_dir(root.join(folder)).map_err(|e| format!("{folder}: {e}"))?;
            let names = entries.flatten().map(|entry| Path::new(folder).join(entry.file_name()));
            wanted.extend(names.filter(|name| is_page(name)));
        }
        let mut files = BTreeMap::new();
        while let Some(path) = wanted.pop_first() {
            let bytes = std::fs::read(root.join(&path)).map_err(|e| format!("{}: {e}", path.display()))?;
            if !is_page(&path) {
                files.insert(path, bytes);
                continue;
            }
            let text = String::from_utf8(bytes).map_err(|e| format!("{}: {e}", path.display()))?;
            let (text, linked) = relinked(root, &SITE, &path, &text)?;
            files.insert(path, text.into_bytes());
            wanted.extend(linked.into_iter().filter(|linked| !files.contains_key(linked)));
        }
        Ok(Site { files })
    }

    fn pages(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path).filter(|path| is_page(path))
    }

    /// The first pages, then parts by folders.
    fn summary(&self) -> String {
        let line = |path: &Path| format!("- [{}]({})\n", title(&self.files[path]), place(path).display());
        let is_first = |path: &Path| FIRST.iter().any(|first| Path::new(first) == path);
        let others = |folder: &'static str| {
            // Pages of other folders of the workspace, as of `traces`, are of the project too; results have a part of their own.
            let is_project = move |path: &Path| folder == "project" && !path.starts_with("results");
            let is_there = move |path: &&Path| {
                let place = place(path);
                place.parent() == Some(Path::new(folder)) || (is_project(path) && place.starts_with(folder))
            };
            self.pages().filter(is_there).filter(|path| !is_first(path)).map(line)
        };
        let mut summary = "# Summary\n\n".to_string();
        summary.extend(FIRST.iter().map(|first| line(Path::new(first))).chain(others("")));
        for (part, folder) in PARTS {
            let _ = write!(summary, "\n# {part}\n\n{}", others(folder).collect::<String>());
        }
        let results = self.pages().filter(|path| path.starts_with("results")).map(line).collect::<String>();
        summary + "\n# Results\n\n" + &results
    }
}

/// Where files stand, and which of them there are.
struct Layout {
    place: fn(&Path) -> PathBuf,
    has: fn(&Path) -> bool,
}

/// The site has every file that a page links to.
const SITE: Layout = Layout { place, has: |_| true };
/// A package has the pages below `docs/` and a few of the workspace, in their places.
const PACKAGE: Layout = Layout { place: Path::to_path_buf, has: is_packaged };
const PACKAGED: [&str; 2] = ["README.md", "CHANGELOG.md"];

fn is_packaged(path: &Path) -> bool {
    path.starts_with("docs") || PACKAGED.iter().any(|page| path == Path::new(page))
}

/// The files of a package's documentation by their paths in the workspace. A link to a file that it lacks is left out, and its words stay.
pub fn packaged(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let mut paths: Vec<PathBuf> = PACKAGED.iter().map(PathBuf::from).collect();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder)).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if root.join(&path).is_dir() { folders.push(path) } else { paths.push(path) }
        }
    }
    let read = |path: PathBuf| {
        let bytes = std::fs::read(root.join(&path)).map_err(|e| format!("{}: {e}", path.display()))?;
        if !is_page(&path) {
            return Ok((path, bytes));
        }
        let text = String::from_utf8(bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        let (text, _) = relinked(root, &PACKAGE, &path, &text)?;
        Ok((path, text.into_bytes()))
    };
    paths.into_iter().map(read).collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Of the first line, without its mark.
fn title(page: &[u8]) -> String {
    let text = String::from_utf8_lossy(page);
    text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_string()
}

/// In the source of the site. mdBook makes the index of a folder of its README.md, which here is that of the workspace.
fn place(path: &Path) -> PathBuf {
    match path.strip_prefix("docs") {
        Ok(page) if page == Path::new("README.md") => "pages.md".into(),
        Ok(page) => page.into(),
        Err(_) if path == Path::new("README.md") => "README.md".into(),
        Err(_) => Path::new("project").join(path),
    }
}

/// The page with its links as they are in this layout, and the files that they lead to. A link to a folder, or to a file that the layout
/// lacks, leads nowhere there: its words stay.
fn relinked(root: &Path, layout: &Layout, page: &Path, text: &str) -> Result<(String, Vec<PathBuf>), String> {
    let (mut out, mut linked, mut rest) = (String::new(), Vec::new(), text);
    while let Some(at) = rest.find("](") {
        let (before, behind) = rest.split_at(at);
        let Some((target, after)) = behind[2..].split_once(')') else { break };
        let (file, anchor) = target.split_once('#').map_or((target, ""), |(file, anchor)| (file, anchor));
        let is_elsewhere = file.is_empty() || file.contains("://") || file.contains(char::is_whitespace);
        let path = normal(&page.parent().unwrap_or(Path::new("")).join(file));
        out.push_str(before);
        if is_elsewhere {
            let _ = write!(out, "]({target})");
        } else if root.join(&path).is_dir() || (root.join(&path).is_file() && !(layout.has)(&path)) {
            let opening = out.rfind('[').unwrap_or(0);
            out.remove(opening);
        } else if root.join(&path).is_file() {
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            let _ = write!(out, "]({}{anchor})", between(&(layout.place)(page), &(layout.place)(&path)).display());
            linked.push(path);
        } else {
            return Err(format!("{}: link to {file}, which is not there", page.display()));
        }
        rest = after;
    }
    out.push_str(rest);
    Ok((out, linked))
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// From a page to a file, both from the same folder on.
fn between(page: &Path, file: &Path) -> PathBuf {
    let folders = page.parent().map_or(0, |folder| folder.components().count());
    (0..folders).map(|_| "..").collect::<PathBuf>().join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_their_files() {
        let root = crate::root();
        let text = "[a](install.md#a-package) [b](../README.md) [c](../examples) `x](y z)` [d](https://a.org/) [e](notebook/line.md) [f](#here)";
        let (said, linked) = relinked(&root, &SITE, Path::new("docs/service.md"), text).unwrap();
        let expected =
            "[a](install.md#a-package) [b](README.md) c `x](y z)` [d](https://a.org/) [e](notebook/line.md) [f](#here)";
        assert_eq!(said, expected);
        let paths = ["docs/install.md", "README.md", "docs/notebook/line.md"].map(PathBuf::from);
        assert_eq!(linked, paths);
        let (said, _) =
            relinked(&root, &SITE, Path::new("docs/notebook/line.md"), "[a](../../ARCHITECTURE.md) [b](../line.md)")
                .unwrap();
        assert_eq!(said, "[a](../project/ARCHITECTURE.md) [b](../line.md)");
        assert!(relinked(&root, &SITE, Path::new("README.md"), "[a](none.md)").is_err());
    }

    /// Every link of a packaged page leads to a packaged file.
    #[test]
    fn a_package_has_what_its_pages_link_to() {
        let files = packaged(&crate::root()).unwrap();
        let mut links = 0;
        for (page, bytes) in files.iter().filter(|(path, _)| is_page(path)) {
            let text = String::from_utf8_lossy(bytes);
            for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let file = target.split('#').next().unwrap_or_default();
                if file.is_empty() || file.contains("://") || file.contains(char::is_whitespace) {
                    continue;
                }
                let path = normal(&page.parent().unwrap_or(Path::new("")).join(file));
                assert!(files.contains_key(&path), "{}: {target}", page.display());
                links += 1;
            }
        }
        assert!(links > 100 && files.contains_key(Path::new("docs/reference.md")), "{links}");
        let readme = String::from_utf8_lossy(&files[Path::new("README.md")]);
        assert!(readme.contains("(docs/configuration.md)") && !readme.contains("(CONTRIBUTING.md)"), "{readme}");
    }

    /// Every link of every page leads to a file.
    #[test]
    fn all_pages_are_there() {
        let site = Site::collect(&crate::root()).unwrap();
        let summary = site.summary();
        assert_eq!(summary.matches("\n- [").count(), site.pages().count());
        assert!(summary.starts_with("# Summary\n\n- [Weir](README.md)\n- [Install](install.md)"), "{summary}");
    }
}
