//! Generates the reference of the keys, as Markdown and as a manual page.

use std::fmt::Write;

use roff::{Roff, bold, roman};

use crate::keys::{Key, Kind, Unset, keys};

const HEAD: &str = "\
# Configuration: weir.toml

<!-- Made from the table of keys; `WEIR_WRITE=1 cargo test -p config --test reference` writes it anew. -->

One file in TOML for listeners, sites, the uplink and classes. `weir check [FILE]` prints the mistakes of its text, or, without any, all that `weir run` could not open, each as
`FILE:LINE:COLUMN: noun value: expected form`; `weir check --explain URL` prints the site and the class of a request, each with
its line, and its answer; `weir check --schema` prints a JSON schema for editors. Unknown keys are mistakes. Examples: [examples](../examples).

```toml
[uplink]
rate = \"10mbit\"

[[listener]]
address = \"[::]:8080\"

[[site]]
root = \"/srv/www\"
```

Paths are matched decoded, byte by byte and without their query; `*` in a pattern is any bytes, slashes included, and those that are not UTF-8.
Of several matching tables the first of the file decides; one that is never reached is a mistake. A relative path of a file or folder begins at the
folder of the file that has it.

A page around listings (`site.listing_page`) is HTML such as

```html
<!DOCTYPE html>
<meta charset=\"utf-8\"><title>{{path}}</title><link rel=\"stylesheet\" href=\"/style.css\">
<h1>Index of {{path}}</h1>
{{listing}}
```

`{{listing}}`, once, becomes a `table` of names, sizes and times, between a `nav` with the way up and one with the number of names and further pages.
`{{path}}` belongs in text or in a quoted attribute; it and the names are escaped.
A page whose name begins with a dot is not served itself.
";

/// The page `docs/configuration.md`.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    for Part { title, sentence, keys } in parts() {
        let _ = write!(page, "\n## {title}\n\n{sentence}\n\n");
        page.push_str("| key | type | unit or form | default | effect | example |\n|---|---|---|---|---|---|\n");
        keys.for_each(|key| page.push_str(&row(key)));
    }
    page
}

/// Returns the manual page `weir.toml(5)` in the format of man(7), with the same keys.
pub fn manual() -> String {
    let mut page = Roff::new();
    let heading = |page: &mut Roff, text: &str| {
        page.control("SH", [text]);
    };
    page.control("TH", ["weir.toml", "5", "", concat!("weir ", env!("CARGO_PKG_VERSION"))]);
    heading(&mut page, "NAME");
    page.text([roman("weir.toml - configuration of weir(1)")]);
    heading(&mut page, "DESCRIPTION");
    let (_, about) = HEAD.split_once("-->\n\n").expect("the head has a comment");
    let (mut is_example, mut is_begun) = (false, false);
    for line in about.replace(" Examples: [examples](../examples).", "").lines() {
        if line.starts_with("```") {
            is_example = !is_example;
            page.control(if is_example { "EX" } else { "EE" }, []);
        } else if line.is_empty() && !is_example {
            is_begun = false;
        } else {
            if !is_begun && !is_example {
                page.control("PP", []);
                is_begun = true;
            }
            page.text([roman(line.replace('`', ""))]);
        }
    }
    for Part { title, sentence, keys } in parts() {
        heading(&mut page, &title.replace('`', ""));
        page.text([roman(sentence)]);
        for key in keys {
            page.control("TP", []).text([bold(key.parts().1), roman(format!(" = {}", key.example))]);
            let (unit, default) = (key.kind.unit(), default(key).replace('`', ""));
            let form =
                if unit.is_empty() { key.kind.noun().to_owned() } else { format!("{}: {unit}", key.kind.noun()) };
            page.text([roman(format!("{} ({form}; default: {default})", key.effect.replace('`', "")))]);
        }
    }
    heading(&mut page, "SEE ALSO");
    page.text([roman("weir(1), weir-run(1), weir-check(1)")]);
    page.to_roff()
}

/// A part of the page: a table and its keys.
struct Part<K> {
    title: String,
    sentence: String,
    keys: K,
}

/// Returns the keys outside all tables, then each table.
fn parts() -> impl Iterator<Item = Part<impl Iterator<Item = &'static Key>>> {
    let is_table = |key: &&Key| matches!(key.kind, Kind::Table | Kind::Tables);
    let keys_of = move |table: &'static str| Key::of_table(table).filter(move |key| !is_table(key));
    let top =
        Part { title: "Above all tables".into(), sentence: "Keys at the top of the file.".into(), keys: keys_of("") };
    let tables = keys().filter(is_table).map(move |table| {
        let title = format!("`{}`", title(table));
        Part { title, sentence: sentence(table), keys: keys_of(table.path) }
    });
    std::iter::once(top).chain(tables)
}

/// Returns the heading of a table, as written in a file.
fn title(table: &Key) -> String {
    let brackets = if table.kind == Kind::Tables { ("[[", "]]") } else { ("[", "]") };
    format!("{}{}{}", brackets.0, table.path, brackets.1)
}

fn sentence(table: &Key) -> String {
    match table.default {
        Unset::Required => format!("{} Required.", table.effect),
        _ => format!("{} Without: {}.", table.effect, default(table)),
    }
}

fn row(key: &Key) -> String {
    let cells = [
        format!("`{}`", key.parts().1),
        key.kind.noun().into(),
        key.kind.unit(),
        default(key),
        key.effect.into(),
        format!("`{}`", key.example),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn default(key: &Key) -> String {
    match key.default {
        Unset::Required => "required".into(),
        Unset::Absent(text) => text.into(),
        Unset::Is(value) => format!("`{value}`"),
    }
}
