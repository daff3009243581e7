//! The keys, in the order of the reference.

use super::{Form, Key, Kind, Unset};
use Unset::{Absent, Is, Required};

/// A number of connections. Each has at least one response, so the maximum is that of the scheduler.
pub(super) const CONNECTIONS: Kind = Kind::Whole { min: 1, max: 1_000_000 };

const REDIRECT_STATUS: Kind = Kind::Code(&[301, 302, 307, 308]);

pub(super) const fn key(
    path: &'static str,
    kind: Kind,
    default: Unset,
    effect: &'static str,
    example: &'static str,
) -> Key {
    Key { path, kind, default, effect, example }
}

pub(super) const fn table(path: &'static str, default: &'static str, effect: &'static str) -> Key {
    Key { path, kind: Kind::Table, default: Absent(default), effect, example: "" }
}

pub(super) const fn tables(path: &'static str, default: &'static str, effect: &'static str) -> Key {
    Key { path, kind: Kind::Tables, default: Absent(default), effect, example: "" }
}

pub(super) const fn text(form: Form) -> Kind {
    Kind::Text(form)
}

pub(super) const fn whole(min: u64, max: u64) -> Kind {
    Kind::Whole { min, max }
}

pub static SERVER: &[Key] = &[
    tables("listener", "127.0.0.1:8080, for this machine only", "An address that accepts connections."),
    key(
        "listener.address",
        text(Form::Address),
        Required,
        "Address and port; port 0 selects a free port.",
        r#""[::]:80""#,
    ),
    key("listener.tls", Kind::Flag, Is("false"), "Enable TLS (HTTPS).", "true"),
    key(
        "listener.http3",
        Kind::Flag,
        Is("true"),
        "Enable HTTP/3 where `tls` is on: UDP at the same address and port.",
        "false",
    ),
    key(
        "listener.proxy_protocol",
        Kind::Flag,
        Is("false"),
        "Require a PROXY protocol header (version 1 or 2) with the client's address, from `server.trusted_proxies` only.",
        "true",
    ),
    //
    table("server", "the defaults", "The process."),
    key("server.workers", whole(1, 256), Absent("one per core"), "Number of event loops. Paced shaping uses one.", "4"),
    key(
        "server.connections",
        CONNECTIONS,
        Is("100000"),
        "Maximum open connections; a further one replaces the longest idle one.",
        "20000",
    ),
    key(
        "server.max_accepted_connections",
        CONNECTIONS,
        Absent("no such maximum"),
        "Maximum connections served at a time, each until its client closes it; others wait in the backlog. One event loop. Excludes `connections` and `workers`.",
        "150",
    ),
    key(
        "server.backlog",
        whole(1, 65_535),
        Is("4096"),
        "Maximum connections that wait to be accepted, per event loop; the kernel lowers it to net.core.somaxconn.",
        "1024",
    ),
    key(
        "server.access_log",
        text(Form::Path),
        Absent("none"),
        "Access log of the sites without their own, and of refused requests; `-` is standard output.",
        r#""/var/log/weir/access.log""#,
    ),
    key(
        "server.log_format",
        text(Form::OneOf(&["combined", "json"])),
        Is("combined"),
        "Format of the access log.",
        r#""json""#,
    ),
    key(
        "server.trusted_proxies",
        Kind::Texts(Form::Network),
        Absent("none"),
        "Proxies in front whose X-Forwarded-For or Forwarded field names the client, for logs, shares, classes and upstreams.",
        r#"["127.0.0.1", "10.0.0.0/8"]"#,
    ),
    key(
        "server.admin",
        text(Form::Address),
        Absent("none"),
        "Loopback address of the admin page, with /metrics, /status, /history, /healthz and /readyz.",
        r#""127.0.0.1:9180""#,
    ),
    key(
        "server.spool_folder",
        text(Form::Path),
        Is("/var/tmp"),
        "Folder of the temporary files of `site.proxy.max_temp_file_size`; on a disk, not in memory.",
        r#""/var/spool/weir""#,
    ),
    key(
        "server.state",
        text(Form::Path),
        Absent("`STATE_DIRECTORY` in the environment; `/var/lib/weir` for root, else `~/.local/state/weir`"),
        "Folder of data kept across restarts: certificates by ACME with their keys, the uplink's rate, compressed \
            files.",
        r#""/srv/weir""#,
    ),
    key(
        "server.user",
        text(Form::Name),
        Absent("the one that started weir"),
        "User that weir switches to once it listens, if started by root. This user reads the folders and this file, \
            and writes the logs.",
        r#""www-data""#,
    ),
    key(
        "server.group",
        text(Form::Name),
        Absent("that of `server.user`"),
        "Group that weir switches to with `user`.",
        r#""www-data""#,
    ),
    key(
        "server.sandbox",
        Kind::Flag,
        Is("true"),
        "Enable [the sandbox](service.md#sandbox): the kernel refuses weir the files and system calls that it does not need.",
        "false",
    ),
    //
    table("uplink", "the defaults", "The link to the clients, and the order of responses on it."),
    key(
        "uplink.rate",
        text(Form::Uplink),
        Is("auto"),
        "Rate of the uplink: searched (`auto`), searched up to a maximum, searched between two rates, or no order (`off`).",
        r#""2mbit..20mbit""#,
    ),
    key(
        "uplink.shaping",
        text(Form::OneOf(&["auto", "paced", "bands", "off"])),
        Is("auto"),
        "Where the order is enforced: in weir (`paced`), in the kernel (`bands`), or nowhere (`off`). `auto` is `paced`.",
        r#""paced""#,
    ),
    key(
        "uplink.policy",
        text(Form::Order),
        Is("srpt"),
        "Order of the responses; with classes, the order within a class.",
        r#""fsp""#,
    ),
    key(
        "uplink.starvation_share",
        text(Form::Percent(100)),
        Is("1%"),
        "Share of the uplink for the response that has waited longest, once it has waited 1 s.",
        r#""2%""#,
    ),
    key(
        "uplink.other_traffic_share",
        text(Form::Percent(90)),
        Is("50%"),
        "Share of the uplink for other programs' traffic while it waits in the same queue.",
        r#""30%""#,
    ),
    key(
        "uplink.client_share",
        text(Form::ClientShare),
        Is("on"),
        "Enable sharing between clients: a client far ahead of its share waits for the others. A size says how far ahead.",
        r#""20MB""#,
    ),
    key(
        "uplink.client_weights",
        Kind::Texts(Form::ClientWeight),
        Absent("every client has a weight of 1"),
        "Weights of networks' clients in that share: a proxy with eight people behind it may have eight times as much.",
        r#"["192.0.2.0/24=8"]"#,
    ),
    key(
        "uplink.local_networks",
        Kind::Texts(Form::Network),
        Absent("none"),
        "Networks that are not reached over the uplink: their clients are not paced, and their bytes are not the line's.",
        r#"["192.168.0.0/16", "fd00::/8"]"#,
    ),
    key(
        "uplink.concurrency_sharing",
        text(Form::OneOf(&["own", "any", "preempt"])),
        Is("own"),
        "Responses that may use a class's `max_concurrent_requests`: its `own`, `any` while there is room, or any until its own need the room (`preempt`).",
        r#""preempt""#,
    ),
    key(
        "uplink.default_class",
        text(Form::Name),
        Absent("`others`, without a weight at the last priority of the classes"),
        "Class of the requests that no rule and no site assigns.",
        r#""pages""#,
    ),
];

pub static SITES: &[Key] = &[
    Key { default: Required, ..tables("site", "", "A site: its hosts, files and answers. At least one.") },
    key(
        "site.name",
        text(Form::Name),
        Absent("its first host, or `default`"),
        "Name for rules and messages.",
        r#""shop""#,
    ),
    key(
        "site.hosts",
        Kind::Texts(Form::Host),
        Absent("none; a site alone is the default"),
        "Hosts of the site. `*.example.org` is every name below example.org; an exact host wins over a wildcard, the longer wildcard over the shorter.",
        r#"["example.org", "*.example.org"]"#,
    ),
    key(
        "site.default",
        Kind::Flag,
        Is("false"),
        "Enable answers to requests for hosts of no site. At most one site.",
        "true",
    ),
    key(
        "site.root",
        text(Form::Path),
        Absent("no files: every path needs a redirect or a proxy"),
        "Folder of the site's files.",
        r#""/srv/www""#,
    ),
    key(
        "site.index",
        Kind::Texts(Form::FileName),
        Is("index.html"),
        "Names of index files; the first that exists is served for its folder.",
        r#"["index.html", "index.htm"]"#,
    ),
    key("site.autoindex", Kind::Flag, Is("false"), "Enable listings of folders without an index file.", "true"),
    key(
        "site.listing_page",
        text(Form::PathBelow),
        Absent("that of Weir"),
        "HTML file beneath the root around listings: `{{listing}}` is the table, `{{path}}` the folder's path. At most 64 KiB; read at the start and at SIGHUP.",
        r#""/.listing.html""#,
    ),
    key(
        "site.serve_dotfiles",
        Kind::Flag,
        Is("false"),
        "Enable names that begin with a dot. `/.well-known/` (RFC 8615) is always served: certificates are renewed through it.",
        "true",
    ),
    key(
        "site.follow_symlinks_into",
        Kind::Texts(Form::Path),
        Absent("none: a symlink that leaves the root is 404"),
        "Folders outside the root that symlinks may lead into. Any other symlink out of the root is 404, and the error log names it.",
        r#"["/media/films"]"#,
    ),
    key(
        "site.access_log",
        text(Form::Path),
        Absent("`server.access_log`"),
        "Access log of this site; `-` is standard output. Several may share one.",
        r#""/var/log/weir/shop.log""#,
    ),
    key(
        "site.log_format",
        text(Form::OneOf(&["combined", "json"])),
        Absent("`server.log_format`"),
        "Format of the site's access log.",
        r#""json""#,
    ),
    key(
        "site.class",
        text(Form::Name),
        Absent("`uplink.default_class`"),
        "Class of the site's requests that match no rule of a class.",
        r#""premium""#,
    ),
    key(
        "site.cert",
        text(Form::Path),
        Absent(
            "the certificate of another site that is for these hosts; else that of the default site, or of the first with one, which clients refuse",
        ),
        "Certificate of the site's hosts as PEM, followed by its chain; read at the start and at SIGHUP.",
        r#""/etc/weir/fullchain.pem""#,
    ),
    key("site.key", text(Form::Path), Absent("none"), "Private key of `cert`.", r#""/etc/weir/privkey.pem""#),
    key(
        "site.acme",
        Kind::Flag,
        Is("true"),
        "Order certificates for the hosts, if there is an `[acme]` table and no `cert`; until one is there, requests without TLS are served rather than redirected.",
        "false",
    ),
    key(
        "site.https_redirect",
        Kind::Flag,
        Is("false"),
        "Enable redirects of requests without TLS to https://, with status 308; otherwise they are served.",
        "true",
    ),
    key(
        "site.hsts",
        text(Form::FieldValue),
        Absent("no such field"),
        "Value of `Strict-Transport-Security` in responses over TLS.",
        r#""max-age=31536000""#,
    ),
    key(
        "site.responsiveness",
        Kind::Flag,
        Is("false"),
        "Enable measurements of responsiveness under load at `/.well-known/nq`; any visitor can then fill the uplink.",
        "true",
    ),
    //
    tables("site.header", "none", "A header field of responses; for each name the first matching table decides."),
    key("site.header.path", text(Form::Pattern), Is("*"), "Paths whose responses have the field.", r#""/assets/*""#),
    key("site.header.name", text(Form::FieldName), Required, "Name of the field.", r#""X-Frame-Options""#),
    key("site.header.value", text(Form::FieldValue), Required, "Value of the field.", r#""DENY""#),
    //
    tables(
        "site.cache",
        "none",
        "`Cache-Control` of responses below status 300, and of 304; the first matching table decides.",
    ),
    key("site.cache.path", text(Form::Pattern), Required, "Paths whose responses have the field.", r#""*.css""#),
    key(
        "site.cache.control",
        text(Form::CacheControl),
        Required,
        "Directives of the field.",
        r#""max-age=86400, immutable""#,
    ),
    //
    tables(
        "site.error_page",
        "a sentence, as a page for browsers and as a line of text for others",
        "The body of an error; the answer to bytes that are not a request has none.",
    ),
    key(
        "site.error_page.status",
        text(Form::Statuses),
        Required,
        "Status of the error, or the statuses; the first matching table decides.",
        r#""5xx""#,
    ),
    key(
        "site.error_page.file",
        text(Form::PathBelow),
        Required,
        "File beneath the root, or `error_root`, at most 1 MiB; read at the start and at SIGHUP.",
        r#""/errors/404.html""#,
    ),
    //
    tables("site.redirect", "none", "A redirect; the first matching table decides, before any file."),
    key("site.redirect.from", text(Form::Pattern), Is("*"), "Paths that are redirected.", r#""/old/*""#),
    key(
        "site.redirect.from_host",
        text(Form::HostName),
        Absent("all hosts of the site"),
        "Host that is redirected.",
        r#""www.example.org""#,
    ),
    key(
        "site.redirect.to",
        text(Form::Target),
        Required,
        "Path or URL. A `*` stands for what the `*` of `from` matched; the query of the request follows, unless there is a `?`.",
        r#""https://example.org*""#,
    ),
    key(
        "site.redirect.status",
        REDIRECT_STATUS,
        Is("302"),
        "Status of the redirect. Browsers cache 301 and 308; 307 and 308 keep the method.",
        "308",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::keys::keys;
    use crate::value_forms;

    #[test]
    fn every_key_stands_once_below_its_table_and_is_described() {
        let mut seen = BTreeSet::new();
        for key in keys() {
            assert!(seen.insert(key.path), "{} twice", key.path);
            let (table, name) = key.parts();
            assert!(table.is_empty() || seen.contains(table), "{} before its table", key.path);
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{}",
                key.path
            );
            assert!(key.effect.ends_with('.') && key.effect.len() < 170, "{}: {}", key.path, key.effect);
        }
    }

    /// The examples of the reference and the defaults are valid values.
    #[test]
    fn examples_and_defaults_have_the_form_of_their_key() {
        for key in keys().filter(|key| !matches!(key.kind, Kind::Table | Kind::Tables)) {
            let read = format!("x = {}", key.example).parse::<toml::Table>();
            let example = read.unwrap_or_else(|error| panic!("{}: {error}", key.path)).remove("x").unwrap();
            let given = match &example {
                toml::Value::Array(list) => list.clone(),
                one => vec![one.clone()],
            };
            let default = match key.default {
                Is(text) => vec![toml::Value::String(text.into())],
                _ => vec![],
            };
            assert_eq!(example.is_array(), matches!(key.kind, Kind::Texts(_)), "{}", key.path);
            for value in given.iter().chain(&default) {
                let text = value.as_str().map_or_else(|| value.to_string(), String::from);
                if let Kind::Text(of) | Kind::Texts(of) = key.kind {
                    assert!(!of.expected().is_empty(), "{of:?}");
                }
                let right = match key.kind {
                    Kind::Flag => text.parse::<bool>().is_ok(),
                    Kind::Whole { min, max } => text.parse().is_ok_and(|number| (min..=max).contains(&number)),
                    Kind::Code(codes) => text.parse().is_ok_and(|code| codes.contains(&code)),
                    Kind::Text(of) | Kind::Texts(of) => value_forms::check(of, &text).is_ok(),
                    Kind::Table | Kind::Tables => false,
                };
                assert!(right, "{} = {text}", key.path);
            }
        }
    }
}
