//! Reads the bytes of a file as a configuration.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toml::de::DeTable;

use crate::keys::{Key, Kind};
use crate::place::{Lines, Place, Remark, quoted};
use crate::section::{Book, Section};
use crate::settings::Settings;
use crate::{Configuration, class, site, suggest};

/// Maximum size of a file. Ten thousand sites, each with a class and a few rules, take half of it.
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// The reason why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {path}: {source}{cure}", cure = cure(.source))]
    Read { path: String, source: std::io::Error },
    /// All mistakes, in the order of the file.
    #[error("{}", listed(path, .mistakes))]
    Mistakes { path: String, mistakes: Vec<Remark> },
}

fn cure(error: &std::io::Error) -> &'static str {
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    if is_missing { "; write one: weir init, or serve a folder: weir serve FOLDER" } else { "" }
}

fn listed(path: &str, mistakes: &[Remark]) -> String {
    mistakes.iter().map(|mistake| mistake.line(path)).collect::<Vec<_>>().join("\n")
}

/// Reads a file, at most one byte more than [`FILE_BYTES_MAX`].
pub fn read_file(path: &Path) -> Result<Configuration, FileError> {
    let mut bytes = Vec::new();
    let opened = open(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    let path = path.display().to_string();
    match opened {
        Ok(_) => read(&bytes).map_err(|mistakes| FileError::Mistakes { path, mistakes }),
        Err(source) => Err(FileError::Read { path, source }),
    }
}

/// Opens a regular file. A FIFO would wait for a writer, and a device may have no end.
pub fn open(path: &Path) -> io::Result<File> {
    if path.metadata()?.is_file() {
        return File::open(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, a FIFO or a device; expected a regular file"))
}

/// Returns the configuration, or all mistakes in the order of the file.
pub fn read(bytes: &[u8]) -> Result<Configuration, Vec<Remark>> {
    let text = decoded(bytes).map_err(|mistake| vec![mistake])?;
    let table = DeTable::parse(text).map_err(|error| vec![syntax(text, &error)])?;
    let book = Book::new(text);
    let file = Section::whole(&book, table.get_ref());
    let settings = Settings::read(&file);
    let sites = site::read(&file, settings.as_ref().map(|settings| &settings.process));
    let (classes, rules) = class::read(&file, &sites);
    if let Some(settings) = &settings {
        site::check_https(&book, &sites, &settings.listeners);
        class::check(&book, &classes, &rules, &sites, &settings.uplink);
    }
    drop(file);
    let notes = book.close()?;
    Ok(Configuration { settings: settings.expect("settings without a mistake"), sites, classes, rules, notes })
}

fn decoded(bytes: &[u8]) -> Result<&str, Remark> {
    let mistake = |at, said: String| Err(Remark { at, said });
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
        None => "end within a character: expected UTF-8; is the file whole?".into(),
        Some(_) => format!("byte `0x{:02x}`: expected UTF-8", wrong.first().unwrap_or(&0)),
    };
    mistake(Lines::new(right).place(right.len()), said)
}

/// The first mistake in the syntax; later ones usually follow from it.
fn syntax(text: &str, error: &toml::de::Error) -> Remark {
    let offset = error.span().map_or(text.len(), |span| span.start);
    let at_end = text.get(offset..).is_none_or(|rest| rest.trim().is_empty());
    let whole = if at_end { "; is the file whole?" } else { "" };
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    if message.starts_with("duplicate key") {
        return Remark { at: Lines::new(text).place(offset), said: repeated(text, offset) };
    }
    Remark { at: Lines::new(text).place(offset), said: format!("TOML: {message}{whole}") }
}

/// The mistake of a key or table that occurs twice, usually a table of an array in single brackets.
fn repeated(text: &str, offset: usize) -> String {
    let begin = text[..offset].rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next().unwrap_or_default().trim();
    let Some(header) = line.strip_prefix('[') else {
        let key = line.split('=').next().unwrap_or_default().trim();
        return format!("key {} a second time: expected once in its table", quoted(key));
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
