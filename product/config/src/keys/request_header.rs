//! The keys of the header fields of requests to upstreams, in the order of the reference.

use super::Unset::{Absent, Is, Required};
use super::table::{key, tables, text};
use super::{Form, Key};

pub static REQUEST_HEADER: &[Key] = &[
    tables(
        "site.request_header",
        "none",
        "A header field of requests to upstreams; for each name the first matching table decides.",
    ),
    key(
        "site.request_header.path",
        text(Form::Pattern),
        Is("*"),
        "Paths whose requests have the field.",
        r#""/api/*""#,
    ),
    key("site.request_header.name", text(Form::FieldName), Required, "Name of the field.", r#""X-Real-IP""#),
    key(
        "site.request_header.value",
        text(Form::FieldTemplate),
        Absent("the field is removed"),
        "Value that replaces the client's field. `{client}`, `{host}` and `{scheme}` are the client's address, host \
            and scheme, `{user}` is the user who has logged in.",
        r#""{client}""#,
    ),
];
