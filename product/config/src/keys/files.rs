//! Further keys for a site's files, in the order of the reference.

use super::Unset::{Absent, Is, Required};
use super::table::{key, tables, text};
use super::{Form, Key, Kind};

/// The keys outside all tables.
pub static TOP: &[Key] = &[key(
    "include",
    Kind::Texts(Form::FilePattern),
    Absent("none"),
    "Files of [tables that belong to this file](files.md#several-files), read in the order of their names at the start and at SIGHUP.",
    r#"["sites/*.toml"]"#,
)];

pub static FILES: &[Key] = &[
    key(
        "site.clean_urls",
        Kind::Flag,
        Is("false"),
        "Enable [paths without `.html`](files.md#clean-urls): `/about` is the file `about.html`, and `/about.html` is redirected to `/about`.",
        "true",
    ),
    key(
        "site.fallback",
        text(Form::PathBelow),
        Absent("a path that leads nowhere is 404"),
        "File for [navigations that lead nowhere](files.md#single-page-apps), with status 200; a missing script or picture stays 404.",
        r#""/index.html""#,
    ),
    key(
        "site.symlinks",
        text(Form::OneOf(&["inside", "anywhere"])),
        Is("inside"),
        "Where symlinks in the root may lead: beneath it and into `follow_symlinks_into` (`inside`), or [to any file that weir may read](files.md#symlinks).",
        r#""anywhere""#,
    ),
    key(
        "site.error_root",
        text(Form::Path),
        Absent("`root`"),
        "Folder of the files of [error pages](files.md#error-pages), for a site without a root or to keep them apart.",
        r#""/srv/errors""#,
    ),
    key(
        "site.fastcgi",
        text(Form::Responder),
        Absent("scripts are files like others"),
        "FastCGI responder, such as php-fpm, for [files that end in `.php`](php.md); `[[site.proxy]]` with `fastcgi:` has more settings.",
        r#""unix:/run/php/php-fpm.sock""#,
    ),
    key(
        "site.fastcgi_except",
        Kind::Texts(Form::Pattern),
        Absent("none"),
        "Paths below the root whose scripts do not run and are not sent: 403. For folders that programs write into.",
        r#"["/wp-content/uploads/*"]"#,
    ),
    key(
        "site.default_type",
        text(Form::MediaType),
        Absent("`text/plain` if the first 512 bytes are text in UTF-8, else `application/octet-stream`"),
        "[Media type of files](files.md#media-types) whose extension has none, or that have no extension.",
        r#""text/plain""#,
    ),
    key(
        "site.charset",
        text(Form::Charset),
        Is("utf-8"),
        "Charset in the `Content-Type` of files of text (`text/*`) whose type names none; `off` for none.",
        r#""windows-1251""#,
    ),
    //
    tables("site.type", "the types that Weir knows", "The media type of files with one of these extensions."),
    key(
        "site.type.extensions",
        Kind::Texts(Form::Extension),
        Required,
        "Extensions, in any case; what follows the last dot of a name.",
        r#"["log", "conf"]"#,
    ),
    key(
        "site.type.media_type",
        text(Form::MediaType),
        Required,
        "Media type, with a charset of its own or that of the site.",
        r#""text/plain""#,
    ),
    //
    tables(
        "site.cors",
        "none: browsers keep scripts of other origins from reading responses",
        "CORS: origins whose scripts may read responses; the first matching table decides. Preflights are answered here, also for programs.",
    ),
    key("site.cors.path", text(Form::Pattern), Is("*"), "Paths that scripts may read.", r#""/api/*""#),
    key(
        "site.cors.allow_origins",
        Kind::Texts(Form::Origin),
        Required,
        "Origins of the scripts.",
        r#"["https://app.example.org", "https://*.example.net"]"#,
    ),
    key(
        "site.cors.allow_methods",
        Kind::Texts(Form::Method),
        Absent("GET, HEAD and POST"),
        "Methods of their requests.",
        r#"["GET", "PUT", "DELETE"]"#,
    ),
    key(
        "site.cors.allow_headers",
        Kind::Texts(Form::FieldName),
        Absent("those that need no permission"),
        "Fields that their requests may have.",
        r#"["Authorization", "Content-Type"]"#,
    ),
    key(
        "site.cors.expose_headers",
        Kind::Texts(Form::FieldName),
        Absent("those that need no permission"),
        "Fields of responses that they may read.",
        r#"["X-Total-Count"]"#,
    ),
    key(
        "site.cors.allow_credentials",
        Kind::Flag,
        Is("false"),
        "Enable requests with cookies and logins; not with the origin `*`.",
        "true",
    ),
    key(
        "site.cors.max_age",
        text(Form::Time),
        Absent("5 s, as browsers have it"),
        "Time for which a browser may keep the answer to a preflight.",
        r#""1h""#,
    ),
];
