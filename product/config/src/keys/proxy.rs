//! The keys of a proxy, in the order of the reference.

use super::Unset::{Absent, Is, Required};
use super::table::{key, tables, text, whole};
use super::{Form, Key, Kind};

pub static PROXY: &[Key] = &[
    tables(
        "site.proxy",
        "none",
        "Requests that other servers answer; the first matching table decides, before any file.",
    ),
    key("site.proxy.path", text(Form::Pattern), Is("*"), "Paths that are passed on.", r#""/api/*""#),
    key(
        "site.proxy.to",
        Kind::Texts(Form::Upstream),
        Required,
        "Upstreams; each request goes to the one with the fewest under way. With h2c:// and h2:// they speak HTTP/2, gRPC too.",
        r#"["127.0.0.1:3000", "unix:/run/app.sock", "https://app.internal:8443"]"#,
    ),
    key(
        "site.proxy.ca",
        text(Form::Path),
        Absent("those of the system"),
        "Certificates of the authorities, as PEM, that upstreams over TLS are trusted by.",
        r#""/etc/weir/ca.pem""#,
    ),
    key(
        "site.proxy.tls_name",
        text(Form::HostName),
        Absent("the host of the upstream"),
        "Name that the certificates of upstreams are for.",
        r#""app.example.org""#,
    ),
    key(
        "site.proxy.host",
        text(Form::HostName),
        Absent("the client's"),
        "Host that upstreams are told.",
        r#""app.internal""#,
    ),
    key(
        "site.proxy.requests",
        whole(1, 65535),
        Is("256"),
        "Most requests at once to each upstream, of all event loops together; others wait, clients in turns, then are answered 503.",
        "8",
    ),
    key(
        "site.proxy.requests_per_client",
        whole(1, 65535),
        Absent("half of `requests`, rounded up"),
        "Most of them of one client; of those that wait as great a part, half where the key is absent.",
        "8",
    ),
    key(
        "site.proxy.request_buffering",
        Kind::Flag,
        Is("true"),
        "Whether a request takes its place only when its body, or the first 64 KB of it, is here. false, and for gRPC: at once, and each byte is passed on as it comes.",
        "false",
    ),
    key(
        "site.proxy.tunnels",
        whole(1, 65535),
        Is("1024"),
        "Most tunnels at once to each upstream, such as WebSocket, half of them of one client; they are none of the `requests`. Others are answered 503.",
        "4096",
    ),
    key(
        "site.proxy.ignore_client_abort",
        Kind::Flag,
        Is("false"),
        "Whether a request goes on whose client has shut its sending side of an HTTP/1.1 connection (`nc -N`); otherwise that client is taken to have gone.",
        "true",
    ),
    key("site.proxy.connect_timeout", text(Form::Time), Is("5s"), "Longest time to connect to an upstream.", r#""1s""#),
    key(
        "site.proxy.read_timeout",
        text(Form::Time),
        Is("60s"),
        "Longest time between two bytes of an upstream's response.",
        r#""5m""#,
    ),
    key(
        "site.proxy.health",
        text(Form::RequestPath),
        Absent("only requests tell which are well"),
        "Path that each upstream is asked for: after two failures (no status from 200 to 399 within `connect_timeout`) it gets no requests, until two successes.",
        r#""/healthz""#,
    ),
    key(
        "site.proxy.health_every",
        text(Form::Time),
        Is("5s"),
        "Time between two such requests; 1s or more.",
        r#""2s""#,
    ),
    key(
        "site.proxy.slow_start",
        text(Form::Time),
        Is("0s"),
        "Time in which an upstream that is well again comes to its whole share of requests, from a tenth. 0s: at once.",
        r#""30s""#,
    ),
    key(
        "site.proxy.proxy_protocol",
        Kind::Flag,
        Is("false"),
        "Whether connections to upstreams begin with the client's address (PROXY protocol, version 2); none is shared between clients then.",
        "true",
    ),
    key(
        "site.proxy.files",
        text(Form::Path),
        Absent("such fields do nothing"),
        "Folder of files that upstreams may name in X-Accel-Redirect or X-Sendfile, to be sent in the place of their body.",
        r#""/srv/private""#,
    ),
    key(
        "site.proxy.spool",
        text(Form::Size),
        Is("256MB"),
        "Most bytes of responses kept on disk for slow clients: larger ones, while half of an upstream's `requests` wait for their clients. 0: none.",
        r#""1GB""#,
    ),
];
