//! The keys of rewrites, in the order of the reference.

use super::Unset::{Is, Required};
use super::table::{key, tables, text};
use super::{Form, Key};

pub static REWRITE: &[Key] = &[
    tables(
        "site.rewrite",
        "none",
        "Another path for a request; the first matching table decides, before all other tables, once.",
    ),
    key("site.rewrite.from", text(Form::Pattern), Is("*"), "Paths that are rewritten.", r#""/docs/*""#),
    key(
        "site.rewrite.to",
        text(Form::Template),
        Required,
        "New path, which all other tables use. A `*` stands for what the `*` of `from` matched; the query of the \
            request follows.",
        r#""/index.php?page=*""#,
    ),
];
