//! The files of a configuration: the main file and the files that it includes.
//!
//! They are read as one text, so that keys and rules mean the same in every file. A place in the text records its file.
//! Each file must be complete by itself; otherwise a table that begins in one file could continue in the next.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::document::{FILE_BYTES_MAX, decoded, open, syntax};
use crate::keys::{Key, Kind};
use crate::place::{FileNames, Lines, Place, Remark, quoted};

/// Maximum number of files.
const FILES_MAX: usize = 10_000;

/// The texts of all files, in reading order.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Vec<Source>,
    /// The folders that are searched for files to include.
    pub folders: Vec<PathBuf>,
    /// Mistakes in the includes.
    pub mistakes: Vec<Remark>,
    /// True if the process may not read an included file or folder.
    pub is_denied: bool,
}

#[derive(Debug)]
struct Source {
    name: String,
    text: String,
    /// The folder to which the file's paths are relative, itself relative to the first file's folder.
    folder: PathBuf,
}

impl Sources {
    /// Creates the sources of a single text. Included files are not read.
    pub fn alone(bytes: &[u8]) -> Result<Sources, Remark> {
        let text = decoded(bytes, 0)?.to_string();
        Ok(Sources { files: vec![Source { name: String::new(), text, folder: PathBuf::new() }], ..Sources::default() })
    }

    /// Reads a file and all that it includes.
    pub fn read(path: &Path) -> io::Result<Result<Sources, Remark>> {
        let mut sources = match Sources::alone(&bytes_of(path)?) {
            Ok(sources) => sources,
            Err(mistake) => return Ok(Err(mistake)),
        };
        sources.files[0].name = path.display().to_string();
        let mut known = BTreeSet::from_iter(path.canonicalize());
        let mut at = 0;
        while at < sources.files.len() {
            sources.include_all(at, path, &mut known);
            at += 1;
        }
        Ok(Ok(sources))
    }

    /// Reads the files that a file includes.
    fn include_all(&mut self, at: usize, main: &Path, known: &mut BTreeSet<PathBuf>) {
        let source = &self.files[at];
        let Ok(table) = DeTable::parse(&source.text) else { return };
        let Some((_, value)) = include(table.get_ref()) else { return };
        let given = value.get_ref().as_array().map_or_else(|| vec![value], |list| list.iter().collect());
        let place = |offset| Lines::new(&source.text).place(offset).of_file(at);
        let texts = given.iter().filter_map(|value| Some((value.get_ref().as_str()?, place(value.span().start))));
        let patterns: Vec<(String, Place)> = texts.map(|(text, at)| (text.into(), at)).collect();
        let folder = folder_of(main).join(&source.folder);
        for (pattern, place) in patterns {
            match matching(&folder, &pattern) {
                Ok((beneath, files)) => {
                    self.folders.push(beneath);
                    files.iter().for_each(|file| self.include(file, main, place, known));
                }
                Err(Unmatched { said, is_denied }) => {
                    self.is_denied |= is_denied;
                    self.mistakes.push(Remark { at: place, said: format!("include {}: {said}", quoted(&pattern)) })
                }
            }
        }
    }

    fn include(&mut self, path: &Path, main: &Path, place: Place, known: &mut BTreeSet<PathBuf>) {
        let name = path.display().to_string();
        let wrong = |said: String| Remark { at: place, said: format!("include {}: {said}", quoted(&name)) };
        if path.canonicalize().is_ok_and(|path| !known.insert(path)) {
            return self.mistakes.push(wrong("is already included; expected each file once, and no cycle".into()));
        }
        let bytes_max =
            FILE_BYTES_MAX - self.files.iter().map(|file| file.text.len()).sum::<usize>().min(FILE_BYTES_MAX);
        let bytes = match bytes_of(path) {
            Ok(bytes) if bytes.len() <= bytes_max && self.files.len() < FILES_MAX => bytes,
            Ok(_) => {
                let most = FILE_BYTES_MAX >> 20;
                return self
                    .mistakes
                    .push(wrong(format!("expected {most} MiB and {FILES_MAX} files at most, all together")));
            }
            Err(error) => {
                self.is_denied |= error.kind() == io::ErrorKind::PermissionDenied;
                return self.mistakes.push(wrong(format!("cannot read it: {}", units::plain(&error.to_string()))));
            }
        };
        match decoded(&bytes, self.files.len()) {
            Ok(text) => {
                let own = path.parent().unwrap_or(Path::new(""));
                let folder = own.strip_prefix(folder_of(main)).unwrap_or(own).to_path_buf();
                self.files.push(Source { name, text: text.to_string(), folder });
            }
            Err(mistake) => {
                self.files.push(Source { name, text: String::new(), folder: PathBuf::new() });
                self.mistakes.push(mistake);
            }
        }
    }

    /// The names of all files.
    pub fn names(&self) -> FileNames {
        FileNames::new(self.files.iter().map(|file| file.name.clone()).collect())
    }

    /// The folder of each file, relative to the first file's.
    pub fn bases(&self) -> Vec<PathBuf> {
        self.files.iter().map(|file| file.folder.clone()).collect()
    }

    /// The text of all files, with the offset of each.
    pub fn text(&self) -> (String, Vec<usize>) {
        let (mut whole, mut starts) = (String::new(), Vec::new());
        for (at, file) in self.files.iter().enumerate() {
            if at > 0 {
                whole.push('\n');
            }
            starts.push(whole.len());
            let span = if at == 0 { None } else { include_span(&file.text) };
            match span {
                Some(span) => {
                    whole.push_str(&file.text[..span.start]);
                    whole.extend(file.text[span.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
                    whole.push_str(&file.text[span.end..]);
                }
                None => whole.push_str(&file.text),
            }
        }
        (whole, starts)
    }

    /// Returns the mistakes that make a file incomplete; at most one of them is a syntax mistake.
    pub fn unwhole(&self) -> Vec<Remark> {
        let of_file = |(at, file): (usize, &Source)| match DeTable::parse(&file.text) {
            Err(error) => vec![syntax(&file.text, &Lines::new(&file.text), &error).of_file(at)],
            Ok(_) if at == 0 => Vec::new(),
            Ok(table) => outside(&file.text, table.get_ref()).into_iter().map(|mistake| mistake.of_file(at)).collect(),
        };
        match self.files.len() {
            1 => Vec::new(),
            _ => self.files.iter().enumerate().flat_map(of_file).collect(),
        }
    }
}

/// Returns the keys of an included file that would belong to a table of another file.
fn outside(text: &str, table: &DeTable<'_>) -> Vec<Remark> {
    let lines = Lines::new(text);
    let wrong = table.iter().filter_map(|(name, value)| {
        let said = match (Key::of(name.get_ref()).map(|key| key.kind), value.get_ref()) {
            _ if name.get_ref() == INCLUDE => return None,
            (Some(Kind::Tables), DeValue::Array(_)) | (_, DeValue::Table(_)) if !is_single(name.get_ref(), value) => {
                return None;
            }
            (Some(Kind::Tables), _) => {
                format!(
                    "table {}: expected [[{}]] above the tables that are part of it",
                    quoted(name.get_ref()),
                    name.get_ref()
                )
            }
            _ => format!(
                "key {} outside a table: expected a file of whole tables, such as [[site]]",
                quoted(name.get_ref())
            ),
        };
        Some(Remark { at: lines.place(name.span().start), said })
    });
    wrong.collect()
}

/// Returns true for a single table where an array of tables is expected.
fn is_single(name: &str, value: &toml::Spanned<DeValue<'_>>) -> bool {
    Key::of(name).is_some_and(|key| key.kind == Kind::Tables) && value.get_ref().is_table()
}

const INCLUDE: &str = "include";

type Entry<'r, 't> = (&'r toml::Spanned<std::borrow::Cow<'t, str>>, &'r toml::Spanned<DeValue<'t>>);

fn include<'r, 't>(table: &'r DeTable<'t>) -> Option<Entry<'r, 't>> {
    table.iter().find(|(name, _)| name.get_ref() == INCLUDE)
}

/// Returns the byte range of the key `include` and its value in a text.
fn include_span(text: &str) -> Option<Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    let (name, value) = include(table.get_ref())?;
    Some(name.span().start..value.span().end)
}

/// Reads a file, at most one byte more than [`FILE_BYTES_MAX`].
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file: File = open(path)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// The reason why the files that match a pattern could not be listed.
struct Unmatched {
    said: String,
    is_denied: bool,
}

/// Returns the files that a pattern matches, sorted by name, and the folder above all of them.
fn matching(folder: &Path, pattern: &str) -> Result<(PathBuf, Vec<PathBuf>), Unmatched> {
    let is_pattern = |part: &str| part.contains(['*', '?', '[']);
    let fixed: PathBuf = pattern.split_inclusive('/').take_while(|part| !is_pattern(part)).collect();
    if !is_pattern(pattern) {
        let file = folder.join(pattern);
        return Ok((folder_of(&file).into(), vec![file]));
    }
    let whole = match Path::new(pattern).is_absolute() {
        true => pattern.into(),
        false if folder.as_os_str().is_empty() => pattern.into(),
        false => format!("{}/{pattern}", glob::Pattern::escape(&folder.display().to_string())),
    };
    let paths = glob::glob(&whole).map_err(|error| Unmatched {
        said: format!("{}; expected a path such as sites/*.toml", error.msg),
        is_denied: false,
    })?;
    let files: Result<Vec<PathBuf>, _> = paths.take(FILES_MAX + 1).collect();
    let files = files.map_err(|error| Unmatched {
        said: format!("cannot read `{}`: {}", error.path().display(), error.error()),
        is_denied: error.error().kind() == io::ErrorKind::PermissionDenied,
    })?;
    Ok((folder.join(fixed), files.into_iter().filter(|file| !is_hidden(file)).collect()))
}

/// Returns true for the files that editors and package managers leave behind.
fn is_hidden(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}
