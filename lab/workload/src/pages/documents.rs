//! A site of real files, as browsers load it: the files that a page needs, and the page that is read next.
//!
//! All other loads request bodies of zeros, which show nothing about compression. These are the files themselves;
//! another crate reads them from disk.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ObjectKind;

/// The maximum number of files of a site, and of their bytes together: all are kept in memory.
pub const DOCUMENTS_MAX: usize = 50_000;
pub const DOCUMENTS_BYTES_MAX: u64 = 512 << 20;

/// The files of a site from which pages are formed.
#[derive(Debug)]
pub struct Documents {
    all: Vec<Document>,
    /// The numbers of the documents that are pages.
    pages: Vec<u32>,
}

/// A file.
#[derive(Debug)]
pub struct Document {
    /// The path below the site, without a leading slash.
    pub path: String,
    pub bytes: Arc<[u8]>,
    pub kind: ObjectKind,
    /// The files that it names and needs, in the order of their names in it, each once.
    parts: Vec<(u32, ObjectKind)>,
    /// The page named by `<link rel="next">`.
    next: Option<u32>,
}

/// The reason why there are no documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentsError {
    #[error("no file of the site ends in .html: name the folder of a site")]
    NoPages,
    #[error("more than {DOCUMENTS_MAX} files or {DOCUMENTS_BYTES_MAX} bytes: name a smaller site")]
    TooMany,
}

impl Documents {
    /// The kind of the file with this name; `None` for files that are not part of pages.
    pub fn kind_of(path: &str) -> Option<ObjectKind> {
        match path.rsplit_once('.')?.1 {
            "html" | "htm" => Some(ObjectKind::Html),
            "css" => Some(ObjectKind::Style),
            "js" => Some(ObjectKind::Script),
            "svg" | "png" | "jpg" | "jpeg" | "gif" | "webp" | "avif" => Some(ObjectKind::FirstImage),
            _ => None,
        }
    }

    /// Creates the site from files, given by their paths below it and their bytes; files that are not part of pages are
    /// left out.
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Documents, DocumentsError> {
        let mut files: Vec<(String, Vec<u8>)> = files.into_iter().collect();
        files.sort_unstable();
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if files.len() > DOCUMENTS_MAX || bytes > DOCUMENTS_BYTES_MAX {
            return Err(DocumentsError::TooMany);
        }
        let mut all = vec![];
        for (path, bytes) in files {
            if let Some(kind) = Documents::kind_of(&path) {
                all.push(Document { path, bytes: bytes.into(), kind, parts: vec![], next: None });
            }
        }
        let numbers: HashMap<String, u32> = (0..).zip(&all).map(|(n, file)| (file.path.clone(), n)).collect();
        for file in &mut all {
            file.read(&numbers);
        }
        let is_page = |(_, file): &(u32, &Document)| file.kind == ObjectKind::Html;
        let pages: Vec<u32> = (0..).zip(&all).filter(is_page).map(|(n, _)| n).collect();
        if pages.is_empty() { Err(DocumentsError::NoPages) } else { Ok(Documents { all, pages }) }
    }

    pub fn get(&self, file: u32) -> &Document {
        &self.all[file as usize]
    }

    /// The numbers of the pages.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The page that is read after this one, if it names one.
    pub fn next(&self, page: u32) -> Option<u32> {
        self.get(page).next
    }

    /// The files that this page needs, itself first, each once, including those that its style sheets name.
    pub fn needed(&self, page: u32) -> Vec<(u32, ObjectKind)> {
        let mut needed = vec![(page, ObjectKind::Html)];
        let mut looked = 0;
        while let Some((file, _)) = needed.get(looked).copied() {
            for part in &self.get(file).parts {
                if needed.iter().all(|(known, _)| *known != part.0) {
                    needed.push(*part);
                }
            }
            looked += 1;
        }
        needed
    }
}

impl Document {
    /// Finds the files that each file names.
    fn read(&mut self, numbers: &HashMap<String, u32>) {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let found = |reference: &str| resolve(&self.path, reference).and_then(|path| numbers.get(&path).copied());
        let mut parts: Vec<(u32, ObjectKind)> = vec![];
        let mut next = None;
        match self.kind {
            ObjectKind::Html => {
                for tag in tags(&text) {
                    match part(tag) {
                        Some(Named::Part(kind, reference)) => parts.extend(found(reference).map(|file| (file, kind))),
                        Some(Named::Next(reference)) => next = found(reference),
                        None => {}
                    }
                }
            }
            ObjectKind::Style => parts.extend(imports(&text).filter_map(found).map(|file| (file, ObjectKind::Style))),
            _ => {}
        }
        let mut seen = vec![];
        parts.retain(|(file, _)| !seen.contains(file) && (seen.push(*file), true).1);
        (self.parts, self.next) = (parts, next);
    }
}

/// The address in a tag of HTML.
enum Named<'a> {
    Part(ObjectKind, &'a str),
    Next(&'a str),
}

fn part(tag: &str) -> Option<Named<'_>> {
    let name = tag.split(|c: char| c.is_ascii_whitespace()).next()?;
    match name.to_ascii_lowercase().as_str() {
        "script" => {
            let waits = attribute(tag, "async").is_none() && attribute(tag, "defer").is_none();
            let kind = if waits { ObjectKind::Script } else { ObjectKind::AsyncScript };
            Some(Named::Part(kind, attribute(tag, "src")?))
        }
        "img" => Some(Named::Part(ObjectKind::FirstImage, attribute(tag, "src")?)),
        "link" => match attribute(tag, "rel")? {
            "stylesheet" => Some(Named::Part(ObjectKind::Style, attribute(tag, "href")?)),
            "next" => Some(Named::Next(attribute(tag, "href")?)),
            _ => None,
        },
        _ => None,
    }
}

/// The text between `<` and `>`.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    html.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0))
}

/// The value of an attribute of a tag; empty if it has no value.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag.split_once(|c: char| c.is_ascii_whitespace())?.1;
    loop {
        rest = rest.trim_start().trim_start_matches('/');
        let end = rest.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (this, after) = rest.split_at(end);
        if this.is_empty() && after.is_empty() {
            return None;
        }
        let (value, left) = match after.trim_start().strip_prefix('=') {
            None => ("", after),
            Some(value) => {
                let value = value.trim_start();
                match value.chars().next().filter(|first| matches!(first, '"' | '\'')) {
                    Some(quote) => value[1..].split_once(quote)?,
                    None => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
                }
            }
        };
        if this.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = left;
    }
}

/// The addresses that a style sheet imports.
fn imports(css: &str) -> impl Iterator<Item = &str> {
    css.split("@import").skip(1).filter_map(|rest| {
        let value = rest.split_once(';')?.0.trim();
        let value = value.strip_prefix("url(").and_then(|value| value.strip_suffix(')')).unwrap_or(value);
        Some(value.trim().trim_matches(['"', '\'']))
    })
}

/// The path below the site to which a reference in the file at `base` leads; `None` if it leads elsewhere.
fn resolve(base: &str, reference: &str) -> Option<String> {
    let end = reference.find(['?', '#']).unwrap_or(reference.len());
    let reference = &reference[..end];
    if reference.is_empty() || reference.starts_with("//") || reference.contains(':') {
        return None;
    }
    let folder = if reference.starts_with('/') { "" } else { base.rsplit_once('/').map_or("", |(folder, _)| folder) };
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in reference.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three pages in two folders, with style sheets, one of which names another.
    pub(crate) fn documents() -> Documents {
        let head = r#"<link rel="stylesheet" type="text/css" href="../s/a.css?2" /><script src=../s/a.js></script>
            <script async src='../s/b.js'></script><img alt="" src="/s/a.svg"><img src="https://elsewhere.example/x.png">"#;
        let page = |next: &str| format!("<!DOCTYPE html><html><head>{head}{next}</head>{}</html>", "text ".repeat(50));
        let files = [
            ("a/one.html", page(r#"<link rel="next" title="2" href="two.html#top">"#)),
            ("a/two.html", page(r#"<LINK href="../b/three.html" rel=next>"#)),
            ("b/three.html", page("")),
            ("s/a.css", "@import url(\"b.css\");\nbody { color: red }".into()),
            ("s/b.css", "@import 'a.css'; @import url(https://elsewhere.example/c.css);".into()),
            ("s/a.js", "1".repeat(400)),
            ("s/b.js", "2".into()),
            ("s/a.svg", "<svg/>".into()),
            ("notes.txt", "not of a page".into()),
        ];
        Documents::new(files.map(|(path, text)| (path.to_owned(), text.into_bytes()))).unwrap()
    }

    #[test]
    fn a_page_needs_what_it_names_and_what_its_style_sheets_name() {
        let documents = documents();
        let paths = |page| {
            let needed = documents.needed(page);
            needed.iter().map(|(file, kind)| (documents.get(*file).path.as_str(), *kind)).collect::<Vec<_>>()
        };
        let first = documents.pages()[0];
        let wanted = [
            ("a/one.html", ObjectKind::Html),
            ("s/a.css", ObjectKind::Style),
            ("s/a.js", ObjectKind::Script),
            ("s/b.js", ObjectKind::AsyncScript),
            ("s/a.svg", ObjectKind::FirstImage),
            ("s/b.css", ObjectKind::Style),
        ];
        assert_eq!(paths(first), wanted);
        let second = documents.next(first).unwrap();
        assert_eq!(documents.get(second).path, "a/two.html");
        let third = documents.next(second).unwrap();
        assert_eq!((documents.get(third).path.as_str(), documents.next(third)), ("b/three.html", None));
    }

    #[test]
    fn references_lead_below_the_site_or_nowhere() {
        let of = |reference| resolve("a/b/c.html", reference);
        for (reference, path) in [("d.html", "a/b/d.html"), ("../x.js?1#2", "a/x.js"), ("/x/./y.css", "x/y.css")] {
            assert_eq!(of(reference).as_deref(), Some(path));
        }
        for nowhere in ["", "#top", "//h/x", "https://h/x", "data:x", "../../../x"] {
            assert_eq!(of(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn a_site_without_pages_is_refused() {
        let none = Documents::new([("a.css".to_owned(), vec![])]);
        assert_eq!(none.unwrap_err(), DocumentsError::NoPages);
    }

    proptest! {
        #[test]
        fn any_html_is_read(html: String) {
            Documents::new([("a.html".to_owned(), html.into_bytes())]).unwrap();
        }

        #[test]
        fn any_tag_is_read(tag in "[a-z]{1,3}[ a-z='\"/]{0,30}", name in "[a-z]{1,2}") {
            let _ = attribute(&tag, &name);
        }
    }
}
