//! The keys, in the order of the reference.

use super::{Form, Key, Kind, Unset};
use Unset::{Absent, Is, Required};

/// One response a connection, and the scheduler takes this many.
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

pub static SERVER_AND_SITES: &[Key] = &[
    tables("listener", "one at 127.0.0.1:8080, for this machine alone", "An address that accepts connections."),
    key(
        "listener.address",
        text(Form::Address),
        Required,
        "Address and port; port 0 takes a free one.",
        r#""[::]:80""#,
    ),
    key("listener.tls", Kind::Flag, Is("false"), "Whether its clients speak TLS (HTTPS).", "true"),
    key(
        "listener.http3",
        Kind::Flag,
        Is("true"),
        "With `tls`, whether they may speak HTTP/3 too: UDP at the same address and port.",
        "false",
    ),
    key(
        "listener.proxy_protocol",
        Kind::Flag,
        Is("false"),
        "Whether connections begin with a header of the PROXY protocol (version 1 or 2) that tells the client; those of `server.trusted_proxies` alone.",
        "true",
    ),
    //
    table("server", "the defaults", "The process."),
    key("server.workers", whole(1, 256), Absent("one per core"), "Event loops. Paced shaping has one.", "4"),
    key(
        "server.connections",
        CONNECTIONS,
        Is("100000"),
        "Most connections at once; beyond, the longest idle one is closed.",
        "20000",
    ),
    key(
        "server.slots",
        CONNECTIONS,
        Absent("no slots"),
        "Connections served at a time, each until its client closes it; others wait to be accepted. One event loop. Excludes `connections` and `workers`.",
        "150",
    ),
    key(
        "server.backlog",
        whole(1, 65_535),
        Is("4096"),
        "Most connections that wait to be accepted, per event loop; the kernel lowers it to net.core.somaxconn.",
        "1024",
    ),
    key(
        "server.access_log",
        text(Form::Path),
        Absent("none"),
        "Access log of the sites without their own; `-` is standard output.",
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
        "Proxies in front, whose X-Forwarded-For or Forwarded tells the client: for the logs, the shares, the classes and upstreams.",
        r#"["127.0.0.1", "10.0.0.0/8"]"#,
    ),
    key(
        "server.admin",
        text(Form::Address),
        Absent("none"),
        "Address of this machine alone with a page of what the server does, and with /metrics, /status, /history, /healthz and /readyz.",
        r#""127.0.0.1:9180""#,
    ),
    key(
        "server.spool_folder",
        text(Form::Path),
        Is("/var/tmp"),
        "Folder of the unnamed files of `site.proxy.spool`; on a disk, not in memory.",
        r#""/var/spool/weir""#,
    ),
    key(
        "server.user",
        text(Form::Name),
        Absent("the one that started weir"),
        "User that weir becomes once it listens, if root starts it. It reads the folders and this file, and writes the logs.",
        r#""www-data""#,
    ),
    key("server.group", text(Form::Name), Absent("that of `server.user`"), "Group of this user.", r#""www-data""#),
    key(
        "server.sandbox",
        Kind::Flag,
        Is("true"),
        "Whether the kernel refuses weir the files and system calls that it does not need: see [the sandbox](service.md#sandbox).",
        "false",
    ),
    //
    table("uplink", "the defaults", "The link to the clients and its order."),
    key(
        "uplink.rate",
        text(Form::Uplink),
        Is("auto"),
        "Rate of the uplink: found (`auto`), at most this, between two, or without order (`off`).",
        r#""2mbit..20mbit""#,
    ),
    key(
        "uplink.shaping",
        text(Form::OneOf(&["auto", "paced", "bands", "off"])),
        Is("auto"),
        "Where the order is kept: in weir, in the kernel, or nowhere.",
        r#""paced""#,
    ),
    key(
        "uplink.policy",
        text(Form::Order),
        Is("srpt"),
        "Order of the responses, within a class where there are classes.",
        r#""fsp""#,
    ),
    key(
        "uplink.guard",
        whole(0, 1000),
        Is("10"),
        "Thousandths of the uplink for the response that has waited longest, once that is 1 s.",
        "20",
    ),
    key(
        "uplink.cross_share",
        whole(0, 900),
        Is("500"),
        "Thousandths of the uplink for other programs' traffic while it waits in the same queue.",
        "300",
    ),
    key(
        "uplink.client_share",
        text(Form::ClientShare),
        Is("on"),
        "Whether a client that has had much more than its share stands behind the others, or how much more.",
        r#""20MB""#,
    ),
    key(
        "uplink.slot_sharing",
        text(Form::OneOf(&["own", "any", "preempt"])),
        Is("own"),
        "Whose responses may use a class's `max_concurrent`: its own, any class's while free, or any class's until its own want it back.",
        r#""preempt""#,
    ),
    key(
        "uplink.default_class",
        text(Form::Name),
        Absent("`others`, without a weight at the last priority of the classes"),
        "Class of the requests that no rule and no site assigns.",
        r#""pages""#,
    ),
    //
    table("limits", "the defaults", "Memory, least rates of clients, and the most that one may have."),
    key(
        "limits.memory",
        text(Form::Size),
        Absent("half of the machine's memory, or of the cgroup's limit where that is less, at least 64 MiB"),
        "Memory of the process, 32 MiB at least; when it is nearly used, clients that do not read are ended, then idle connections, and new ones wait.",
        r#""512MiB""#,
    ),
    key(
        "limits.spool",
        text(Form::Size),
        Is("1GB"),
        "Most bytes of responses that all proxies keep on disk at once; 0 for none.",
        r#""10GB""#,
    ),
    key(
        "limits.head_bytes",
        text(Form::Size),
        Is("64KiB"),
        "Greatest head of a request (target and cookies too) or of an upstream's response, 4 KiB to 128 KiB; beyond, a request is 431 or 414, a response 502.",
        r#""128KiB""#,
    ),
    key(
        "limits.head_fields",
        whole(16, http::FIELDS_MAX as u64),
        Is("200"),
        "Most field lines of such a head; one with more is 431, a response 502.",
        "400",
    ),
    key(
        "limits.body_rate_min",
        text(Form::Size),
        Is("500"),
        "Least average rate of a request body, per second; 0 for any.",
        r#""2KB""#,
    ),
    key(
        "limits.send_rate_min",
        text(Form::Size),
        Is("500"),
        "Least average rate of a client's download, per second.",
        "1000",
    ),
    key("limits.send_window", text(Form::Time), Is("30s"), "Time over which `send_rate_min` is averaged.", r#""1m""#),
    key(
        "limits.client_connections",
        whole(0, 1_000_000),
        Absent("a quarter of `server.connections`, at least 64 but no more than half; with `server.slots` any"),
        "Most connections of one client; beyond, a new one is closed; 0 for any.",
        "20",
    ),
    key(
        "limits.client_requests",
        whole(0, 1_000_000),
        Is("0"),
        "Most requests of one client per second; beyond, the answer is 429; 0 for any.",
        "50",
    ),
    key(
        "limits.client_rate",
        text(Form::Rate),
        Absent("no limit"),
        "Most that one client is sent; its responses wait.",
        r#""50mbit""#,
    ),
    //
    table("timeouts", "the defaults", "Longest times."),
    key("timeouts.idle", text(Form::Time), Is("75s"), "Without a request, before a connection is closed.", r#""30s""#),
    key(
        "timeouts.head",
        text(Form::Time),
        Is("60s"),
        "For a request head to arrive; lost three times it takes 21 s.",
        r#""25s""#,
    ),
    key("timeouts.body", text(Form::Time), Is("20s"), "Between two bytes of a request body.", r#""10s""#),
    key("timeouts.stop", text(Form::Time), Is("30s"), "To finish responses after SIGTERM.", r#""5m""#),
    //
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
        "Hosts that it answers. `*.example.org` is every name below example.org; an exact host wins over a wildcard, the longer wildcard over the shorter.",
        r#"["example.org", "*.example.org"]"#,
    ),
    key(
        "site.default",
        Kind::Flag,
        Is("false"),
        "Whether it answers requests for hosts of no site. One site at most.",
        "true",
    ),
    key(
        "site.root",
        text(Form::Path),
        Absent("no files: every path needs a redirect"),
        "Folder of its files.",
        r#""/srv/www""#,
    ),
    key(
        "site.index",
        Kind::Texts(Form::FileName),
        Is("index.html"),
        "Names of the file that stands for its folder; the first that exists.",
        r#"["index.html", "index.htm"]"#,
    ),
    key("site.listing", Kind::Flag, Is("false"), "Whether folders without an index file are listed.", "true"),
    key(
        "site.listing_page",
        text(Form::PathBelow),
        Absent("that of Weir"),
        "HTML file beneath the root around listings: `{{listing}}` is the table, `{{path}}` the folder's path. At most 64 KiB; read at the start and at SIGHUP.",
        r#""/.listing.html""#,
    ),
    key(
        "site.hidden",
        Kind::Flag,
        Is("false"),
        "Serves names that begin with a dot. `/.well-known/` (RFC 8615) is served always: certificates are renewed through it.",
        "true",
    ),
    key(
        "site.follow_symlinks_into",
        Kind::Texts(Form::Path),
        Absent("none: a symlink that leaves the root is 404"),
        "Folders that symlinks may lead into, besides the root. Any other symlink out of the root is 404, and the error log names it.",
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
        "Format of its access log.",
        r#""json""#,
    ),
    key(
        "site.class",
        text(Form::Name),
        Absent("`uplink.default_class`"),
        "Class of its requests that match no rule of a class.",
        r#""premium""#,
    ),
    key(
        "site.cert",
        text(Form::Path),
        Absent(
            "the certificate of another site that is for these hosts; else that of the default site, or of the first with one, which clients refuse",
        ),
        "Certificate of its hosts as PEM, the chain behind it; read at the start and at SIGHUP.",
        r#""/etc/weir/fullchain.pem""#,
    ),
    key("site.key", text(Form::Path), Absent("none"), "Private key of `cert`.", r#""/etc/weir/privkey.pem""#),
    key(
        "site.http",
        text(Form::OneOf(&["serve", "redirect"])),
        Is("serve"),
        "Requests without TLS are served, or sent to https:// with status 308.",
        r#""redirect""#,
    ),
    key(
        "site.hsts",
        text(Form::FieldValue),
        Absent("no such field"),
        "`Strict-Transport-Security` of responses over TLS.",
        r#""max-age=31536000""#,
    ),
    key(
        "site.responsiveness",
        Kind::Flag,
        Is("false"),
        "Whether visitors may measure responsiveness under load, at `/.well-known/nq`: anybody can then fill the uplink.",
        "true",
    ),
    //
    tables("site.header", "none", "A header field of responses; for each name the first matching table decides."),
    key("site.header.path", text(Form::Pattern), Is("*"), "Paths that it holds for.", r#""/assets/*""#),
    key("site.header.name", text(Form::FieldName), Required, "Name of the field.", r#""X-Frame-Options""#),
    key("site.header.value", text(Form::FieldValue), Required, "Value of the field.", r#""DENY""#),
    //
    tables(
        "site.cache",
        "none",
        "`Cache-Control` of responses below status 300, and of 304; the first matching table decides.",
    ),
    key("site.cache.path", text(Form::Pattern), Required, "Paths that it holds for.", r#""*.css""#),
    key("site.cache.control", text(Form::CacheControl), Required, "Directives.", r#""max-age=86400, immutable""#),
    //
    tables(
        "site.error_page",
        "a sentence: a page for browsers, a line of text for others",
        "The body of an error. What is no request has none.",
    ),
    key("site.error_page.status", whole(400, 599), Required, "Status of the error.", "404"),
    key(
        "site.error_page.file",
        text(Form::PathBelow),
        Required,
        "File beneath the root, of 1 MiB at most; read at the start and at SIGHUP.",
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
        "Path or address. A `*` stands for what the `*` of `from` matched; the query of the request follows, unless there is a `?`.",
        r#""https://example.org*""#,
    ),
    key(
        "site.redirect.status",
        REDIRECT_STATUS,
        Is("302"),
        "Status. 301 and 308 are kept by browsers; 307 and 308 keep the method.",
        "308",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::form;
    use crate::keys::keys;

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

    /// What the reference shows is right, and what holds without a key too.
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
                let right = match key.kind {
                    Kind::Flag => text.parse::<bool>().is_ok(),
                    Kind::Whole { min, max } => text.parse().is_ok_and(|number| (min..=max).contains(&number)),
                    Kind::Code(codes) => text.parse().is_ok_and(|code| codes.contains(&code)),
                    Kind::Text(of) | Kind::Texts(of) => form::check(of, &text).is_ok(),
                    Kind::Table | Kind::Tables => false,
                };
                assert!(right, "{} = {text}", key.path);
            }
        }
    }
}
