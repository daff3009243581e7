//! The texts of an experiment, in layers: its own, over the set-up that it names, over the set-up named there.
//!
//! Twenty figures of one paper share the link, the limits and the runs. These are written once, in `setups/NAME.toml`
//! next to the experiment or next to its folder. A file takes precedence over its set-up.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::LabError;

/// The maximum number of layers: a figure over its paper's set-ups over the runs over the link, and one to spare.
const LAYERS_MAX: usize = 6;

/// The texts of an experiment, one after another, so that one offset identifies a place in any of them.
pub(crate) struct Sources {
    texts: Vec<Source>,
}

struct Source {
    file: PathBuf,
    /// The text, preceded by as many spaces as the texts before it have bytes, so that its spans are offsets in all of
    /// them.
    padded: String,
    begins: usize,
}

impl Sources {
    /// Reads the set-ups on which the experiment `text` builds; they are found relative to `file`.
    pub(crate) fn read(text: &str, file: &Path) -> Result<Sources, LabError> {
        let mut sources = Sources { texts: vec![] };
        sources.push(file, text);
        let beside = file.parent().unwrap_or(Path::new(""));
        let own = beside.join("setups");
        let folder = if own.is_dir() { own } else { beside.join("../setups") };
        while let Some((name, at)) = sources.setup_of_last()? {
            if sources.texts.len() == LAYERS_MAX {
                return Err(sources.error(at, format!("more than {LAYERS_MAX} set-ups build on each other")));
            }
            super::keys::check_name(&name, "a set-up").map_err(|reason| sources.error(at, reason))?;
            let path = folder.join(format!("{name}.toml"));
            let text = std::fs::read_to_string(&path)
                .map_err(|e| sources.error(at, format!("there is no set-up `{name}`: {}: {e}", path.display())))?;
            sources.push(&path, &text);
        }
        Ok(sources)
    }

    fn push(&mut self, file: &Path, text: &str) {
        let begins = self.texts.last().map_or(0, |last| last.padded.len() + 1);
        self.texts.push(Source { file: file.into(), padded: " ".repeat(begins) + text, begins });
    }

    fn setup_of_last(&self) -> Result<Option<(String, usize)>, LabError> {
        let table = self.table(self.texts.len() - 1)?;
        let Some(value) = table.get("setup") else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(name) => Ok(Some((name.to_string(), value.span().start))),
            _ => Err(self.error(value.span().start, "setup is the name of a file in setups/, a text".into())),
        }
    }

    fn table(&self, index: usize) -> Result<DeTable<'_>, LabError> {
        let parsed = DeTable::parse(&self.texts[index].padded).map_err(|e| self.toml_error(&e))?;
        Ok(parsed.into_inner())
    }

    /// Returns true if there is no set-up.
    pub(crate) fn is_one(&self) -> bool {
        self.texts.len() == 1
    }

    /// Merges all texts into one table.
    pub(crate) fn merged(&self) -> Result<DeTable<'_>, LabError> {
        let mut top = self.table(0)?;
        for index in 1..self.texts.len() {
            let mut below = self.table(index)?;
            join_runs(&mut top, &mut below);
            lay_under(&mut top, below);
        }
        top.remove("setup");
        Ok(top)
    }

    /// The error about this offset, with its file and line.
    pub(crate) fn error(&self, offset: usize, reason: String) -> LabError {
        let source = self.texts.iter().rev().find(|source| source.begins <= offset).unwrap_or(&self.texts[0]);
        let before = source.padded.bytes().take(offset);
        LabError::Experiment {
            file: source.file.clone(),
            line: 1 + before.filter(|byte| *byte == b'\n').count(),
            reason,
        }
    }

    pub(crate) fn toml_error(&self, error: &toml::de::Error) -> LabError {
        let reason = match error.message() {
            // The key's name in older experiments.
            message if message.starts_with("unknown field `drain`") => "`drain` is gone: write shaping".into(),
            message => crate::tool::one_line(message),
        };
        self.error(error.span().map_or(0, |span| span.start), reason)
    }
}

/// Adds to `top` the keys of `below` that it lacks. A table in both is merged key by key, a list is not.
pub(crate) fn lay_under<'a>(top: &mut DeTable<'a>, below: DeTable<'a>) {
    for (key, value) in below {
        match (top.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), value.get_ref()) {
            (Some(DeValue::Table(above)), DeValue::Table(_)) => {
                if let DeValue::Table(inner) = value.into_inner() {
                    lay_under(above, inner);
                }
            }
            (Some(_), _) => {}
            (None, _) => {
                top.insert(key, value);
            }
        }
    }
}

/// Puts the runs of a set-up before the experiment's own. Only this list is not replaced, because a figure has the runs
/// of all others and one more.
fn join_runs<'a>(top: &mut DeTable<'a>, below: &mut DeTable<'a>) {
    let (Some(DeValue::Array(own)), Some(DeValue::Array(runs))) =
        (top.get_mut("run").map(Spanned::get_mut), below.get_mut("run").map(Spanned::get_mut))
    else {
        return;
    };
    for run in own.iter() {
        runs.push(run.clone());
    }
    *own = runs.clone();
}

/// Sets the value at a path of keys and creates the tables on the path. Returns false if something else is there.
pub(crate) fn set<'a>(table: &mut DeTable<'a>, path: &[&str], value: Spanned<DeValue<'a>>) -> bool {
    let Some((key, rest)) = path.split_first() else { return false };
    let spanned = |key: &str| Spanned::new(value.span(), DeString::Owned(key.to_owned()));
    if rest.is_empty() {
        table.remove(*key);
        table.insert(spanned(key), value);
        return true;
    }
    if !table.contains_key(*key) {
        table.insert(spanned(key), Spanned::new(value.span(), DeValue::Table(DeTable::new())));
    }
    match table.get_mut(*key).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => set(inner, rest, value),
        _ => false,
    }
}
