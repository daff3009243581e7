//! `[vary]`: the values that an experiment tries one after another. Each combination of them is a point.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::check_name;
use super::layers::set;

/// The maximum number of points: the largest figure has 24, the grid of lines 300.
const POINTS_MAX: usize = 400;

/// A mistake, and its offset.
type Wrong = (usize, String);

/// A key of `[vary]` and its values.
struct Axis<'a> {
    /// The key as words: `limits`, `initial_rto`.
    path: Vec<String>,
    choices: Vec<Choice<'a>>,
}

/// A value of an axis: its settings, and its name in a point.
#[derive(Clone)]
struct Choice<'a> {
    label: String,
    /// The entry in the point's `values`: the value, or its name if it has one.
    shown: toml::Value,
    sets: Vec<(Vec<String>, Spanned<DeValue<'a>>)>,
}

/// A combination of the values of `[vary]`.
pub(crate) struct Combination<'a> {
    /// The name of its folder: `rho-0.8`, `link-10mbit_rho-0.8`; empty if nothing varies.
    pub(crate) name: String,
    /// The varied keys and their values.
    pub(crate) values: toml::Table,
    pub(crate) table: DeTable<'a>,
}

/// Returns every combination of the values in `[vary]`, which is removed from the table; the last key changes first.
pub(crate) fn combinations(mut table: DeTable<'_>) -> Result<Vec<Combination<'_>>, Wrong> {
    let Some(vary) = table.remove("vary") else {
        return Ok(vec![Combination { name: String::new(), values: toml::Table::new(), table }]);
    };
    let at = vary.span().start;
    let DeValue::Table(vary) = vary.into_inner() else {
        return Err((at, "vary is a table: write [vary] and under it lists, such as rho = [0.5, 0.8]".into()));
    };
    let axes = axes(vec![], vary)?;
    let count = axes.iter().map(|axis| axis.choices.len()).try_fold(1, usize::checked_mul);
    if axes.is_empty() || count.is_none_or(|count| count > POINTS_MAX) {
        return Err((at, format!("[vary] makes {} points: 1 to {POINTS_MAX} make sense", count.unwrap_or(usize::MAX))));
    }
    let first = Combination { name: String::new(), values: toml::Table::new(), table };
    axes.iter().try_fold(vec![first], |points, axis| {
        let choices = |point| axis.choices.iter().map(move |choice| with(point, axis, choice));
        points.iter().flat_map(choices).collect()
    })
}

fn with<'a>(point: &Combination<'a>, axis: &Axis<'a>, choice: &Choice<'a>) -> Result<Combination<'a>, Wrong> {
    let own = format!("{}-{}", axis.path.last().map_or("", String::as_str), choice.label);
    let name = if point.name.is_empty() { own } else { format!("{}_{own}", point.name) };
    let (mut table, mut values) = (point.table.clone(), point.values.clone());
    values.insert(axis.path.join("."), choice.shown.clone());
    for (path, value) in &choice.sets {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        if !set(&mut table, &words, value.clone()) {
            return Err((value.span().start, format!("`{}` cannot be varied: it is not in a table", path.join("."))));
        }
    }
    Ok(Combination { name, values, table })
}

/// Returns the lists in a table, including those in nested tables, which a dot in a key also creates.
fn axes<'a>(path: Vec<String>, table: DeTable<'a>) -> Result<Vec<Axis<'a>>, Wrong> {
    let mut found = vec![];
    for (key, value) in table {
        let path: Vec<String> = path.iter().cloned().chain([key.get_ref().to_string()]).collect();
        let at = value.span().start;
        match value.into_inner() {
            DeValue::Table(inner) => found.extend(axes(path, inner)?),
            DeValue::Array(list) => found.push(axis(path, list.into_iter().collect(), at)?),
            _ => return Err((at, format!("what varies is a list: write {} = [ONE, OTHER]", path.join(".")))),
        }
    }
    Ok(found)
}

fn axis<'a>(path: Vec<String>, list: Vec<Spanned<DeValue<'a>>>, at: usize) -> Result<Axis<'a>, Wrong> {
    let mut choices: Vec<Choice> = vec![];
    for value in list {
        let at = value.span().start;
        let choice = choice(&path, value)?;
        check_name(&choice.label, "a point").map_err(|reason| (at, reason))?;
        if choices.iter().any(|other| other.label == choice.label) {
            return Err((at, format!("`{}` is there twice", choice.label)));
        }
        choices.push(choice);
    }
    if choices.is_empty() {
        return Err((at, "the list is empty: give at least one value".into()));
    }
    Ok(Axis { path, choices })
}

/// Returns the choice of a value. A plain value sets its key. A list of tables also sets its key and is named after its
/// tables. A table sets its own keys and is named by its `name`.
fn choice<'a>(path: &[String], value: Spanned<DeValue<'a>>) -> Result<Choice<'a>, Wrong> {
    let at = value.span().start;
    match value.get_ref() {
        DeValue::Table(table) => {
            let mut table = table.clone();
            let name = table.remove("name").and_then(|name| label(name.get_ref()));
            let name = name.ok_or((at, "a table in [vary] has a `name` that stands for it".to_owned()))?;
            let mut sets = vec![];
            flatten(vec![], table, &mut sets);
            Ok(Choice { shown: name.clone().into(), label: name, sets })
        }
        DeValue::Array(list) => {
            let names: Option<Vec<String>> = list.iter().map(|entry| entry_name(entry.get_ref())).collect();
            let names = names.ok_or((at, "every table of a list in [vary] has a `name`".to_owned()))?.join("+");
            let label = if list.iter().len() == 0 { "none".into() } else { names.replace('+', "-") };
            Ok(Choice { label, shown: names.into(), sets: vec![(path.to_vec(), value)] })
        }
        plain => {
            let shown = toml_value(plain).ok_or((at, "a date cannot be varied".to_owned()))?;
            let label = label(plain).unwrap_or_default();
            Ok(Choice { label, shown, sets: vec![(path.to_vec(), value)] })
        }
    }
}

fn entry_name(entry: &DeValue) -> Option<String> {
    let DeValue::Table(table) = entry else { return None };
    label(table.get("name")?.get_ref())
}

fn flatten<'a>(path: Vec<String>, table: DeTable<'a>, sets: &mut Vec<(Vec<String>, Spanned<DeValue<'a>>)>) {
    for (key, value) in table {
        let path: Vec<String> = path.iter().cloned().chain([key.get_ref().to_string()]).collect();
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(inner) => flatten(path, inner, sets),
            other => sets.push((path, Spanned::new(span, other))),
        }
    }
}

/// Formats a value as part of a folder's name: characters other than letters, digits, `-`, `_` and `.` become `-`.
fn label(value: &DeValue) -> Option<String> {
    let text = match toml_value(value)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    Some(text.chars().map(|c| if is_fine(c) { c } else { '-' }).collect())
}

fn toml_value(value: &DeValue) -> Option<toml::Value> {
    Some(match value {
        DeValue::String(text) => text.to_string().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.into(),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok()?.into(),
        DeValue::Boolean(is) => (*is).into(),
        _ => return None,
    })
}
