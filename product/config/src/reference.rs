//! The reference of the keys, as Markdown.

use std::fmt::Write;

use crate::keys::{KEYS, Key, Kind, Unset};

const HEAD: &str = "\
# Configuration: weir.toml

<!-- Made from the table of keys; `WEIR_WRITE=1 cargo test -p config --test reference` writes it anew. -->

One file in TOML for listeners, sites, the uplink and classes. `weir check [FILE]` prints all its mistakes, each as
`FILE:LINE:COLUMN: noun value: expected form`; `weir check --explain URL` prints the site, the class and the values of a request, each with
its line; `weir check --schema` prints a JSON schema for editors. Unknown keys are mistakes. Examples: [examples](../examples).

```toml
[uplink]
rate = \"10mbit\"

[[listener]]
address = \"[::]:8080\"

[[site]]
root = \"/srv/www\"
```

Paths are matched decoded and without their query; `*` in a pattern is any text, slashes included. Of several matching tables the first of the
file decides; one that is never reached is a mistake. A relative path of a file or folder begins at the folder of this file.
";

/// The page `docs/configuration.md`.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    for table in KEYS.iter().filter(|key| matches!(key.kind, Kind::Table | Kind::Tables)) {
        let brackets = if table.kind == Kind::Tables { ("[[", "]]") } else { ("[", "]") };
        let _ = write!(page, "\n## `{}{}{}`\n\n{}", brackets.0, table.path, brackets.1, table.effect);
        let _ = match table.default {
            Unset::Required => write!(page, " Required.\n\n"),
            _ => write!(page, " Without: {}.\n\n", default(table)),
        };
        page.push_str("| key | type | unit or form | default | effect | example |\n|---|---|---|---|---|---|\n");
        for key in Key::of_table(table.path).filter(|key| !matches!(key.kind, Kind::Table | Kind::Tables)) {
            page.push_str(&row(key));
        }
    }
    page
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
