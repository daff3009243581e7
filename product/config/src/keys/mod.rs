//! The keys of `weir.toml` as data. The reference, the schema for editors and the check for unknown keys are made from
//! this table.

mod access;
mod acme;
mod classes;
mod compression;
mod files;
mod limits;
mod proxy;
mod request_header;
mod rewrite;
mod table;

use access::ACCESS;
use acme::ACME;
use classes::CLASSES;
use compression::COMPRESSION;
use files::{FILES, TOP};
use limits::LIMITS;
use proxy::PROXY;
use request_header::REQUEST_HEADER;
use rewrite::REWRITE;
use table::{SERVER, SITES};

/// All keys, in the order of the reference.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    [TOP, SERVER, LIMITS, SITES, COMPRESSION, FILES, REWRITE, ACCESS, PROXY, REQUEST_HEADER, CLASSES, ACME]
        .into_iter()
        .flatten()
}

/// A key of the file.
#[derive(Debug)]
pub struct Key {
    /// The path of the key: its tables and its name, joined by dots.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Unset,
    /// The effect of the key, for the reference.
    pub effect: &'static str,
    /// An example value, as TOML.
    pub example: &'static str,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Flag,
    Whole {
        min: u64,
        max: u64,
    },
    /// A whole number out of a list.
    Code(&'static [u64]),
    Text(Form),
    Texts(Form),
    Table,
    /// `[[name]]`, any number of times.
    Tables,
}

/// The form of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Address,
    /// A host name, with or without `*.` before it.
    Host,
    HostName,
    Path,
    /// A path of a file or files, which may contain `*`.
    FilePattern,
    /// The statuses of errors: a single status such as `404`, `4xx` or `5xx`, or `*` for both ranges.
    Statuses,
    FileName,
    /// A path beneath the root of a site.
    PathBelow,
    /// A path of a request.
    RequestPath,
    /// A decoded path of a folder, without its trailing slash.
    Prefix,
    Pattern,
    Target,
    /// A path, optionally with a query, with at most one `*`.
    Template,
    HttpsUrl,
    Mail,
    Upstream,
    /// The address of an authentication server, with a path.
    AuthUrl,
    /// A FastCGI responder.
    Responder,
    FieldName,
    Method,
    /// An origin of CORS.
    Origin,
    FieldValue,
    /// A field value with variables of the request.
    FieldTemplate,
    CacheControl,
    MediaType,
    /// A file extension: the part of the name after its last dot.
    Extension,
    /// The name of a charset, or `off`.
    Charset,
    /// A text within quotes in a header field.
    Realm,
    Rate,
    /// The rate of the uplink: `auto`, `off`, one rate or two.
    Uplink,
    Size,
    /// A percentage, with this maximum.
    Percent(u16),
    Time,
    /// A time of 1 ms or more.
    Timeout,
    /// A policy without classes.
    Order,
    ClientShare,
    /// The bits of an address that identify a client.
    ClientPrefix,
    /// The weight of a network's clients.
    ClientWeight,
    Name,
    /// The name of a site or one of its hosts.
    SiteName,
    Network,
    Field,
    Token,
    Objective,
    OneOf(&'static [&'static str]),
}

/// The meaning of an absent key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unset {
    Required,
    /// The consequence of the key's absence.
    Absent(&'static str),
    /// The default: a string, number or boolean. For a list it is the only element.
    Is(&'static str),
}

impl Key {
    /// Returns the key with this path.
    pub fn of(path: &str) -> Option<&'static Key> {
        keys().find(|key| key.path == path)
    }

    /// Returns the path of the key's table, and the key's name within the table.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.path.rsplit_once('.').unwrap_or(("", self.path))
    }

    /// The keys of this table.
    pub fn of_table(table: &str) -> impl Iterator<Item = &'static Key> {
        keys().filter(move |key| key.parts().0 == table)
    }
}

impl Kind {
    /// The values that are accepted, for error messages.
    pub fn expected(self) -> String {
        match self {
            Kind::Flag => "true or false".into(),
            Kind::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Code(codes) => one_of(&codes.iter().map(ToString::to_string).collect::<Vec<_>>()),
            Kind::Text(form) => form.expected(),
            Kind::Texts(form) => format!("a list in brackets, each {}", form.expected()),
            Kind::Table => "a table".into(),
            Kind::Tables => "a table in double brackets".into(),
        }
    }

    /// Returns the type's name in the reference.
    pub fn noun(self) -> &'static str {
        match self {
            Kind::Flag => "boolean",
            Kind::Whole { .. } | Kind::Code(_) => "number",
            Kind::Text(Form::Size | Form::Statuses) => "string or number",
            Kind::Text(_) => "string",
            Kind::Texts(_) => "list of strings",
            Kind::Table => "table",
            Kind::Tables => "tables",
        }
    }

    /// Returns the unit or the form of a value, for the reference.
    pub fn unit(self) -> String {
        match self {
            Kind::Flag | Kind::Table | Kind::Tables => String::new(),
            Kind::Whole { min, max } => format!("{min} to {max}"),
            Kind::Code(_) => self.expected(),
            Kind::Text(form) | Kind::Texts(form) => form.expected(),
        }
    }
}

impl Form {
    /// The strings that are accepted, for error messages.
    pub fn expected(self) -> String {
        match self {
            Form::Percent(max) => format!("a percentage from 0% to {max}%, for example 0.5%"),
            Form::OneOf(names) => one_of(names),
            form => EXPECTED
                .iter()
                .find(|(own, _)| *own == form)
                .map(|(_, expected)| (*expected).into())
                .unwrap_or_default(),
        }
    }
}

/// The form that each string is expected to have.
static EXPECTED: &[(Form, &str)] = &[
    (Form::Address, "an address and a port, for example 127.0.0.1:8080, [::]:80, or :80 for all addresses"),
    (Form::Host, "a host name in ASCII without a port, for example example.org or *.example.org"),
    (Form::HostName, "a host name in ASCII without a port or `*`, for example www.example.org"),
    (Form::Path, "a path"),
    (Form::FilePattern, "a path of files, for example sites/*.toml"),
    (Form::Statuses, "a status from 400 to 599, `4xx`, `5xx`, or `*` for both"),
    (Form::HttpsUrl, "an address with https://, for example https://ca.internal/acme/directory"),
    (Form::Mail, "a mail address, for example admin@example.org"),
    (Form::FileName, "a file name without a slash, for example index.html"),
    (Form::PathBelow, "a path beneath the root that begins with a slash, for example /404.html"),
    (Form::RequestPath, "a path of a request in ASCII, for example /healthz"),
    (
        Form::Pattern,
        "a path that begins with a slash or `*`, for example /assets/* or *.css; 256 characters and 8 `*` \
        at most",
    ),
    (Form::Prefix, "a path that begins with a slash and ends without one, for example /app"),
    (
        Form::Template,
        "a path that begins with a slash, without empty segments, `.`, `..`, `;` and encoded slashes, with one `*` at \
            most",
    ),
    (
        Form::FieldTemplate,
        "the value of a header field, in which {client}, {host}, {scheme} and {user} are the request's",
    ),
    (Form::Target, "a path that begins with a slash, or an address with http:// or https://, with one `*` at most"),
    (Form::Responder, "a FastCGI responder, for example unix:/run/php/php-fpm.sock or 127.0.0.1:9000"),
    (Form::Upstream, "an upstream, for example 127.0.0.1:3000, https://app.internal or unix:/run/app.sock"),
    (Form::FieldName, "the name of a header field, for example X-Frame-Options"),
    (Form::Method, "the name of a method in capitals, for example PUT"),
    (
        Form::Origin,
        "`*` or an origin in lower case, without a path, for example https://example.org or https://*.example.org",
    ),
    (Form::FieldValue, "the value of a header field, on one line of visible characters"),
    (Form::CacheControl, "directives of Cache-Control, for example max-age=3600, public"),
    (Form::MediaType, "a media type, with parameters or without, for example text/plain; charset=iso-8859-1"),
    (Form::Extension, "an extension without a dot, for example md"),
    (Form::Charset, "the name of a charset, for example utf-8, or off"),
    (Form::AuthUrl, "an address with http:// or https:// and a path, for example http://127.0.0.1:9091/auth"),
    (Form::Realm, "a text of visible characters without quotes and backslashes"),
    (Form::Uplink, "auto, off, a rate or two rates, for example 10mbit or 2mbit..20mbit"),
    (Form::Rate, "a rate in bit, kbit, mbit or gbit per second, for example 10mbit"),
    (Form::Size, "bytes, or with a unit of KB, MB, GB, KiB, MiB, GiB, for example 64KiB"),
    (Form::Timeout, "a time of 1ms or more in ms, s, m or h, for example 250ms or 10s"),
    (Form::Time, "a time in ns, us, ms, s, m or h, for example 250ms or 10s"),
    (Form::Order, "a policy without classes, for example srpt"),
    (Form::ClientShare, "on, off, strict, or the allowance as a size, for example 20MB"),
    (Form::ClientPrefix, "two lengths in bits, of IPv4 (1 to 32) and IPv6 (1 to 128), for example 32,56"),
    (Form::ClientWeight, "a network and a weight from 1 to 100, for example 192.0.2.0/24=8"),
    (Form::Name, "a name of up to 64 letters, digits, `.`, `-` and `_`"),
    (Form::SiteName, "the name of a site or one of its hosts"),
    (Form::Network, "an address, or a network with its length, for example 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32"),
    (Form::Field, "the name of a header field, a colon and its value, where `*` is any text, for example X-Tier: gold"),
    (Form::Token, "a bearer token of 16 to 256 letters, digits and `-._~+/=`"),
    (Form::Objective, "`pN of responses under TIME`, with or without a size: p99 of responses <= 64KiB under 200ms"),
];

fn one_of(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, [])) => last.to_string(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
