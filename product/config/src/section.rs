//! Reads a table of the file according to the table of keys.
//!
//! A caller requests a value by its name and type. The table of keys contains its default or marks it as required.
//! Mistakes are recorded and reading continues, so that one run finds all of them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::keys::{Form, Key, Kind, Unset};
use crate::place::{FileNames, Lines, Named, Place, Placed, Remark, quoted};
use crate::renamed_words::gone;
use crate::suggest;
use crate::value_forms::{FromText, Wrong};

type Value<'t> = toml::Spanned<DeValue<'t>>;

/// A setting that applies, from the file or by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub key: &'static str,
    pub value: String,
    /// The place of the setting in the file; `None` for a default.
    pub at: Option<Place>,
    /// The place of the setting's table, which distinguishes tables of the same name.
    pub table: Place,
}

/// The mistakes and notes collected while a file is read.
pub(crate) struct Book<'t> {
    lines: Lines<'t>,
    files: FileNames,
    /// The folder to which the paths of each file are relative.
    bases: Vec<PathBuf>,
    mistakes: RefCell<Vec<Remark>>,
    notes: RefCell<Vec<Remark>>,
}

impl<'t> Book<'t> {
    pub(crate) fn new(lines: Lines<'t>, files: FileNames, bases: Vec<PathBuf>) -> Book<'t> {
        Book { lines, files, bases, mistakes: RefCell::default(), notes: RefCell::default() }
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        self.lines.place(offset)
    }

    /// Formats a place for a message at another place; includes the file if the two places are in different files.
    pub(crate) fn line(&self, at: Place, other: Place) -> String {
        let of = if at.file == other.file { String::new() } else { format!(" of {}", self.files.name_of(at)) };
        format!("line {}{of}", at.line)
    }

    pub(crate) fn mistake(&self, at: Place, said: impl Into<String>) {
        self.mistakes.borrow_mut().push(Remark { at, said: said.into() });
    }

    pub(crate) fn note(&self, at: Place, said: impl Into<String>) {
        self.notes.borrow_mut().push(Remark { at, said: said.into() });
    }

    /// Returns the mistakes if there are any, or else the notes, in the order of the file.
    pub(crate) fn close(self) -> Result<Vec<Remark>, Vec<Remark>> {
        let (mut mistakes, mut notes) = (self.mistakes.into_inner(), self.notes.into_inner());
        if !mistakes.is_empty() {
            mistakes.sort();
            return Err(mistakes);
        }
        notes.sort();
        Ok(notes)
    }

    /// The text of a value in the file.
    fn source(&self, value: &Value<'t>) -> &'t str {
        self.lines.text().get(value.span()).unwrap_or("")
    }
}

/// A table of the file with the path of its keys. The table may be missing.
pub(crate) struct Section<'r, 't> {
    pub(crate) book: &'r Book<'t>,
    pub(crate) at: Place,
    path: &'static str,
    table: Option<&'r DeTable<'t>>,
    held: RefCell<Vec<Held>>,
}

impl<'r, 't> Section<'r, 't> {
    /// The table of the whole file.
    pub(crate) fn whole(book: &'r Book<'t>, table: &'r DeTable<'t>) -> Section<'r, 't> {
        Section::open(book, "", Some(table), Place::START)
    }

    fn open(book: &'r Book<'t>, path: &'static str, table: Option<&'r DeTable<'t>>, at: Place) -> Section<'r, 't> {
        for (name, _) in table.into_iter().flatten() {
            let at = book.place(name.span().start);
            if Key::of(&joined(path, name.get_ref())).is_none() {
                book.mistake(at, suggest::unknown_key(path, name.get_ref()));
            }
        }
        Section { book, at, path, table, held: RefCell::default() }
    }

    /// The settings of this table, for [`crate::Explanation`].
    pub(crate) fn held(self) -> Vec<Held> {
        self.held.into_inner()
    }

    /// The settings read so far.
    pub(crate) fn held_so_far(&self) -> Vec<Held> {
        self.held.borrow().clone()
    }

    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The names of the keys in the table, including unknown ones.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'r str> {
        self.table.into_iter().flatten().map(|(name, _)| name.get_ref().as_ref())
    }

    /// The place of a value, or of the table if the value is missing.
    pub(crate) fn place_of(&self, name: &str) -> Place {
        self.find(name).map_or(self.at, |value| self.book.place(value.span().start))
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        let key = self.key(name);
        assert_eq!(key.kind, Kind::Flag, "{}", key.path);
        match self.find(name).map(|value| (value, value.get_ref())) {
            None => self.default_of(key).is_some_and(|text| text == "true"),
            Some((value, DeValue::Boolean(flag))) => {
                self.hold(key, self.book.source(value), Some(value));
                *flag
            }
            Some((value, _)) => self.wrong::<()>(key, value).is_some(),
        }
    }

    /// Returns true if the value is not a boolean. Reading the value reports that mistake.
    pub(crate) fn is_wrong_flag(&self, name: &str) -> bool {
        self.find(name).is_some_and(|value| value.get_ref().as_bool().is_none())
    }

    pub(crate) fn whole_number(&self, name: &str) -> Option<u64> {
        let key = self.key(name);
        let Some(value) = self.find(name) else { return self.default_of(key).and_then(|text| text.parse().ok()) };
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let right = number.filter(|number| match key.kind {
            Kind::Whole { min, max } => (min..=max).contains(number),
            Kind::Code(codes) => codes.contains(number),
            _ => panic!("{} is no number", key.path),
        });
        let Some(right) = right else { return self.wrong(key, value) };
        self.hold(key, self.book.source(value), Some(value));
        Some(right)
    }

    pub(crate) fn text<T: FromText>(&self, name: &str) -> Option<Placed<T>> {
        let key = self.key(name);
        assert_eq!(key.kind, Kind::Text(T::FORM), "{}", key.path);
        let Some(value) = self.find(name) else {
            let value = self.default_of(key).and_then(|text| T::from_text(text).ok())?;
            return Some(Placed { value, at: self.at });
        };
        let read = self.read(key, value)?;
        self.hold(key, text_of(value).unwrap_or(self.book.source(value)), Some(value));
        Some(read)
    }

    pub(crate) fn texts<T: FromText>(&self, name: &str) -> Vec<Placed<T>> {
        let key = self.key(name);
        assert_eq!(key.kind, Kind::Texts(T::FORM), "{}", key.path);
        let Some(value) = self.find(name) else {
            let default = self.default_of(key).and_then(|text| T::from_text(text).ok());
            return default.into_iter().map(|value| Placed { value, at: self.at }).collect();
        };
        let Some(list) = value.get_ref().as_array() else { return self.wrong(key, value).into_iter().collect() };
        if list.is_empty() {
            let _: Option<()> = self.expect(key, value, "one or more in the brackets");
        }
        let texts: Vec<&str> = list.iter().filter_map(text_of).collect();
        self.hold(key, &texts.join(", "), Some(value));
        list.iter().filter_map(|value| self.read(key, value)).collect()
    }

    /// Returns the table of this name; an empty one if it is missing.
    pub(crate) fn table(&self, name: &str) -> Section<'r, 't> {
        let key = self.key(name);
        let Some(value) = self.find(name) else { return Section::open(self.book, key.path, None, self.at) };
        let table = value.get_ref().as_table();
        if table.is_none() {
            let _: Option<()> = self.expect(key, value, &format!("a table, [{}]", key.path));
        }
        Section::open(self.book, key.path, table, self.book.place(value.span().start))
    }

    /// The tables of this name.
    pub(crate) fn tables(&self, name: &str) -> Vec<Section<'r, 't>> {
        let key = self.key(name);
        let Some(value) = self.find(name) else { return Vec::new() };
        // A table below this one came first, such as [[site.proxy]] before any [[site]].
        let above = if value.get_ref().is_table() { " above the tables that are part of it" } else { "" };
        let expected = || format!("tables in double brackets, [[{}]]{above}", key.path);
        let Some(list) = value.get_ref().as_array().filter(|list| !list.is_empty()) else {
            return self.expect(key, value, &expected()).into_iter().collect();
        };
        let tables = list.iter().filter_map(|value| {
            let Some(table) = value.get_ref().as_table() else { return self.expect(key, value, &expected()) };
            Some(Section::open(self.book, key.path, Some(table), self.book.place(value.span().start)))
        });
        tables.collect()
    }

    fn key(&self, name: &str) -> &'static Key {
        Key::of(&joined(self.path, name)).unwrap_or_else(|| panic!("no key {name} in {}", self.path))
    }

    fn find(&self, name: &str) -> Option<&'r Value<'t>> {
        self.table?.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    /// Returns the default, if there is one. Records a mistake if the key is required.
    fn default_of(&self, key: &'static Key) -> Option<&'static str> {
        let shown = match key.default {
            Unset::Required => {
                let said =
                    format!("{} missing: expected {}, for example {}", key.path, key.kind.expected(), key.example);
                self.book.mistake(self.at, said);
                return None;
            }
            Unset::Absent(text) | Unset::Is(text) => text,
        };
        self.hold(key, shown, None);
        matches!(key.default, Unset::Is(_)).then_some(shown)
    }

    fn read<T: FromText>(&self, key: &'static Key, value: &Value<'t>) -> Option<Placed<T>> {
        let text = match value.get_ref() {
            DeValue::Integer(_) if [Form::Size, Form::Statuses].contains(&T::FORM) => self.book.source(value),
            _ => match text_of(value) {
                Some(text) => text,
                None => return self.expect(key, value, &format!("a string in quotes, {}", T::FORM.expected())),
            },
        };
        match T::from_text(text) {
            Ok(read) => {
                let at = self.book.place(value.span().start);
                let base = self.book.bases.get(usize::from(at.file)).map_or(Path::new(""), PathBuf::as_path);
                Some(Placed { value: read.in_folder(base), at })
            }
            Err(Wrong::Form) => match gone(&format!("{} {text}", key.path)) {
                Some(said) => {
                    self.book.mistake(self.book.place(value.span().start), said);
                    None
                }
                None => self.expect(key, value, &suggest::with_guess(T::FORM, text)),
            },
            Err(Wrong::Expected(expected)) => self.expect(key, value, &expected),
            Err(Wrong::Said(said)) => {
                self.book.mistake(self.book.place(value.span().start), format!("{}: {said}", key.path));
                None
            }
        }
    }

    fn wrong<T>(&self, key: &'static Key, value: &Value<'t>) -> Option<T> {
        self.expect(key, value, &key.kind.expected())
    }

    fn expect<T>(&self, key: &'static Key, value: &Value<'t>, expected: &str) -> Option<T> {
        // A token is a secret, even a wrong one.
        let shown = match text_of(value) {
            _ if is_secret(key) => "…",
            Some(text) => text,
            None => self.book.source(value),
        };
        let said = format!("{} {}: expected {expected}", key.path, quoted(shown));
        self.book.mistake(self.book.place(value.span().start), said);
        None
    }

    fn hold(&self, key: &'static Key, shown: &str, value: Option<&Value<'t>>) {
        let shown = if is_secret(key) && value.is_some() { "…" } else { shown };
        let at = value.map(|value| self.book.place(value.span().start));
        self.held.borrow_mut().push(Held { key: key.path, value: shown.into(), at, table: self.at });
    }
}

fn is_secret(key: &Key) -> bool {
    key.kind == Kind::Text(Form::Token)
}

fn text_of<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    value.get_ref().as_str()
}

fn joined(table: &str, name: &str) -> String {
    if table.is_empty() { name.into() } else { format!("{table}.{name}") }
}
