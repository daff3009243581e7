//! The `access` keys, in the order of the reference.

use super::Unset::{Absent, Is};
use super::table::{key, tables, text};
use super::{Form, Key, Kind};

pub static ACCESS: &[Key] = &[
    tables(
        "site.access",
        "everybody",
        "Access to paths; the first matching table decides, after redirects and before all answers.",
    ),
    key("site.access.path", text(Form::Pattern), Is("*"), "Paths that the table is for.", r#""/admin/*""#),
    key(
        "site.access.allow",
        Kind::Texts(Form::Network),
        Absent("all but those of `deny`"),
        "Networks whose clients have access; others get 403. If both `allow` and `deny` match a client, the longer \
            network decides.",
        r#"["192.168.0.0/16", "2001:db8::/32"]"#,
    ),
    key(
        "site.access.deny",
        Kind::Texts(Form::Network),
        Absent("none"),
        "Networks whose clients get 403.",
        r#"["192.168.7.0/24"]"#,
    ),
    key(
        "site.access.users",
        text(Form::Path),
        Absent("no password is asked for"),
        "File of users with bcrypt or Argon2 hashes (`weir hash-password`, `htpasswd -B`), who log in by basic authentication; read at the start and at SIGHUP.",
        r#""/etc/weir/users""#,
    ),
    key(
        "site.access.realm",
        text(Form::Realm),
        Is("restricted"),
        "Name of the part of the site that browsers show when they ask for a password.",
        r#""Home""#,
    ),
    key(
        "site.access.auth_url",
        text(Form::AuthUrl),
        Absent("no server is queried"),
        "Server that is asked about each request first (Authelia, Authentik, oauth2-proxy). 2xx admits the request; \
            the client gets any other answer.",
        r#""http://127.0.0.1:9091/api/authz/forward-auth""#,
    ),
    key(
        "site.access.copy_headers",
        Kind::Texts(Form::FieldName),
        Absent("none"),
        "Fields of that answer that are copied into the request; the client's own fields of these names are removed.",
        r#"["Remote-User", "Remote-Groups"]"#,
    ),
    key(
        "site.access.auth_timeout",
        text(Form::Timeout),
        Is("10s"),
        "Maximum time for that answer; then 504.",
        r#""3s""#,
    ),
    key(
        "site.access.satisfy",
        text(Form::OneOf(&["all", "any"])),
        Is("all"),
        "Conditions that a client has to meet: its network and its login (`all`), or one of them (`any`).",
        r#""any""#,
    ),
];
