//! The keys of access, in the order of the reference.

use super::Unset::{Absent, Is};
use super::table::{key, tables, text};
use super::{Form, Key, Kind};

pub static ACCESS: &[Key] = &[
    tables(
        "site.access",
        "everybody",
        "Clients that may have some paths; the first matching table decides, after redirects and before all answers.",
    ),
    key("site.access.path", text(Form::Pattern), Is("*"), "Paths that the table is for.", r#""/admin/*""#),
    key(
        "site.access.allow",
        Kind::Texts(Form::Network),
        Absent("all but those of `deny`"),
        "Networks whose clients are let in; others get 403. Of `allow` and `deny` the longest network of a client decides.",
        r#"["192.168.0.0/16", "2001:db8::/32"]"#,
    ),
    key(
        "site.access.deny",
        Kind::Texts(Form::Network),
        Absent("none"),
        "Networks whose clients get 403.",
        r#"["192.168.7.0/24"]"#,
    ),
];
