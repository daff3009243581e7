//! Parses a file as a configuration.

use std::fs::File;
use std::io;
use std::path::Path;

use toml::de::DeTable;

use crate::acme;
use crate::keys::{Key, Kind};
use crate::place::{FileNames, Lines, Place, Remark, quoted};
use crate::section::{Book, Section};
use crate::settings::Settings;
use crate::sources::Sources;
use crate::value_forms::FilePattern;
use crate::{Configuration, class, site, suggest};

/// The maximum size of a file. Ten thousand sites, each with a class and a few rules, take half of this.
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// The reason why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {path}: {source}{cure}", cure = cure(.source))]
    Read { path: String, source: std::io::Error },
    /// All mistakes, in the order of the files. `is_denied` is true if the process may not read an included file.
    #[error("{}", listed(files, .mistakes))]
    Mistakes { files: FileNames, mistakes: Vec<Remark>, is_denied: bool },
}

impl FileError {
    /// Returns true if the process may not read the file or a file that it includes.
    pub fn is_denied(&self) -> bool {
        match self {
            FileError::Read { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            FileError::Mistakes { is_denied, .. } => *is_denied,
        }
    }
}

fn cure(error: &std::io::Error) -> &'static str {
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    if is_missing { "; write one: weir init, or serve a folder: weir serve FOLDER" } else { "" }
}

fn listed(files: &FileNames, mistakes: &[Remark]) -> String {
    mistakes.iter().map(|mistake| mistake.line(files)).collect::<Vec<_>>().join("\n")
}

/// Reads a file and the files that it includes.
pub fn read_file(path: &Path) -> Result<Configuration, FileError> {
    let path_shown = || path.display().to_string();
    let sources = Sources::read(path).map_err(|source| FileError::Read { path: path_shown(), source })?;
    let sources = sources.map_err(|mistake| FileError::Mistakes {
        files: FileNames::new(vec![path_shown()]),
        mistakes: vec![mistake],
        is_denied: false,
    })?;
    let is_denied = sources.is_denied;
    read_all(&sources).map_err(|mistakes| FileError::Mistakes { files: sources.names(), mistakes, is_denied })
}

/// Opens a regular file. A FIFO would wait for a writer, and a device may have no end.
pub fn open(path: &Path) -> io::Result<File> {
    if path.metadata()?.is_file() {
        return File::open(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, a FIFO or a device; expected a regular file"))
}

/// Returns the configuration of a text, or all mistakes in the order of the file. Included files are not read.
pub fn read(bytes: &[u8]) -> Result<Configuration, Vec<Remark>> {
    read_all(&Sources::alone(bytes).map_err(|mistake| vec![mistake])?)
}

fn read_all(sources: &Sources) -> Result<Configuration, Vec<Remark>> {
    let mut unwhole = sources.unwhole();
    if !unwhole.is_empty() {
        unwhole.extend(sources.mistakes.iter().cloned());
        unwhole.sort();
        return Err(unwhole);
    }
    let (text, files) = sources.text();
    let lines = Lines::of_files(&text, files);
    let table = DeTable::parse(&text).map_err(|error| vec![syntax(&text, &lines, &error)])?;
    let book = Book::new(lines, sources.names(), sources.bases());
    sources.mistakes.iter().for_each(|mistake| book.mistake(mistake.at, mistake.said.clone()));
    let file = Section::whole(&book, table.get_ref());
    file.texts::<FilePattern>("include");
    let settings = Settings::read(&file);
    let sites = site::read(&file, settings.as_ref().map(|settings| &settings.process));
    let (classes, rules) = class::read(&file, &sites);
    if let Some(settings) = &settings {
        site::check_https(&book, &sites, settings);
        site::check_loops(&book, &sites, settings);
        acme::check(&book, settings.acme.as_ref(), &sites, &settings.listeners);
        site::check_logins(&book, &sites, &settings.listeners);
        class::check(&book, &classes, &rules, &sites, &settings.uplink);
    }
    drop(file);
    let notes = book.close()?;
    let (settings, include_folders) = (settings.expect("settings without a mistake"), sources.folders.clone());
    Ok(Configuration { settings, sites, classes, rules, notes, files: sources.names(), include_folders })
}

/// Returns the text of the file with this number.
pub(crate) fn decoded(bytes: &[u8], file: usize) -> Result<&str, Remark> {
    let mistake = |at: Place, said: String| Err(Remark { at, said }.of_file(file));
    if bytes.len() > FILE_BYTES_MAX {
        let most = FILE_BYTES_MAX >> 20;
        return mistake(Place::START, format!("file above {FILE_BYTES_MAX} bytes: expected {most} MiB at most"));
    }
    if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
        return mistake(Place::START, "text in UTF-16: expected UTF-8".into());
    }
    // The byte order mark that some editors write.
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let error = match str::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let (right, wrong) = bytes.split_at(error.valid_up_to());
    let right = str::from_utf8(right).unwrap_or("");
    let said = match error.error_len() {
        None => "end within a character: expected UTF-8; is the file complete?".into(),
        Some(_) => format!("byte `0x{:02x}`: expected UTF-8", wrong.first().unwrap_or(&0)),
    };
    mistake(Lines::new(right).place(right.len()), said)
}

/// Returns the first syntax mistake; later ones usually follow from it.
pub(crate) fn syntax(text: &str, lines: &Lines<'_>, error: &toml::de::Error) -> Remark {
    let offset = error.span().map_or(text.len(), |span| span.start);
    let at_end = text.get(offset..).is_none_or(|rest| rest.trim().is_empty());
    let whole = if at_end { "; is the file complete?" } else { "" };
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    if message.starts_with("duplicate key") {
        return Remark { at: lines.place(offset), said: repeated(text, offset) };
    }
    Remark { at: lines.place(offset), said: format!("TOML: {message}{whole}") }
}

/// Describes a key or table that occurs twice. Usually it is a table of an array in single brackets.
fn repeated(text: &str, offset: usize) -> String {
    let begin = text[..offset].rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next().unwrap_or_default().trim();
    let Some(header) = line.strip_prefix('[') else {
        let key = line.split('=').next().unwrap_or_default().trim();
        return format!("key {} a second time: expected once per table", quoted(key));
    };
    let path = header.trim_start_matches('[').split(']').next().unwrap_or_default().trim();
    let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
    match Key::of(path).map(|key| key.kind) {
        Some(Kind::Tables) => {
            format!("table {} a second time: expected [[{path}]], in double brackets, each time", quoted(path))
        }
        Some(_) => format!("table {} a second time: expected once", quoted(path)),
        None => suggest::unknown_key(table, name),
    }
}
