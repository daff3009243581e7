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
        "Upstreams; each request goes to the one with the fewest requests in flight. h2c:// and h2:// are HTTP/2, gRPC too.",
        r#"["127.0.0.1:3000", "unix:/run/app.sock", "https://app.internal:8443"]"#,
    ),
    key(
        "site.proxy.tls_ca",
        text(Form::Path),
        Absent("those of the system"),
        "Certificate authorities that upstreams over TLS are verified against, as PEM.",
        r#""/etc/weir/ca.pem""#,
    ),
    key(
        "site.proxy.tls_server_name",
        text(Form::HostName),
        Absent("the host of the upstream"),
        "Name that the certificates of upstreams must be valid for.",
        r#""app.example.org""#,
    ),
    key(
        "site.proxy.host",
        text(Form::HostName),
        Absent("the client's"),
        "Host field of requests to upstreams.",
        r#""app.internal""#,
    ),
    key(
        "site.proxy.max_concurrent_requests",
        whole(1, 65535),
        Is("256"),
        "Maximum requests in flight to each upstream, all event loops together; others wait, clients in turns, then get 503.",
        "8",
    ),
    key(
        "site.proxy.max_concurrent_requests_per_client",
        whole(1, 65535),
        Absent("half of `max_concurrent_requests`, rounded up"),
        "Maximum of them of one client; of the waiting requests one client has the same fraction at most, half without this key.",
        "8",
    ),
    key(
        "site.proxy.request_buffering",
        Kind::Flag,
        Is("true"),
        "Enable buffering: a request is sent when its body, or the first 64 KB of it, is here. Without it, and for gRPC, each byte is passed on as it comes.",
        "false",
    ),
    key(
        "site.proxy.tunnels",
        whole(1, 65535),
        Is("1024"),
        "Maximum tunnels to each upstream, such as WebSocket, half of them of one client; not counted as requests. Others get 503.",
        "4096",
    ),
    key(
        "site.proxy.ignore_client_abort",
        Kind::Flag,
        Is("false"),
        "Continue the request of a client that has shut its sending side of an HTTP/1.1 connection (`nc -N`); otherwise it is cancelled.",
        "true",
    ),
    key("site.proxy.connect_timeout", text(Form::Time), Is("5s"), "Maximum time to connect to an upstream.", r#""1s""#),
    key(
        "site.proxy.read_timeout",
        text(Form::Time),
        Is("60s"),
        "Maximum time between two bytes of an upstream's response.",
        r#""5m""#,
    ),
    key(
        "site.proxy.health_uri",
        text(Form::RequestPath),
        Absent("no health checks: only requests show which upstreams fail"),
        "Path of health checks: after two failures (no status from 200 to 399 within `connect_timeout`) an upstream gets no requests, until two successes.",
        r#""/healthz""#,
    ),
    key(
        "site.proxy.health_interval",
        text(Form::Time),
        Is("5s"),
        "Time between two health checks of an upstream; 1s or more.",
        r#""2s""#,
    ),
    key(
        "site.proxy.slow_start",
        text(Form::Time),
        Is("0s"),
        "Time in which the share of an upstream that has recovered grows from a tenth to the whole. 0s: at once.",
        r#""30s""#,
    ),
    key(
        "site.proxy.proxy_protocol",
        Kind::Flag,
        Is("false"),
        "Enable the PROXY protocol (version 2): connections to upstreams begin with the client's address, and clients share none.",
        "true",
    ),
    key(
        "site.proxy.accel_root",
        text(Form::Path),
        Absent("these fields have no effect"),
        "Folder of files that upstreams may name in X-Accel-Redirect or X-Sendfile, sent in place of their body.",
        r#""/srv/private""#,
    ),
    key(
        "site.proxy.intercept_errors",
        Kind::Flag,
        Is("false"),
        "Enable error pages of the site in place of an upstream's own errors. Errors of reaching an upstream (502, 503, 504) have them in any case.",
        "true",
    ),
    key(
        "site.proxy.max_temp_file_size",
        text(Form::Size),
        Is("256MB"),
        "Maximum bytes of temporary files, all of this proxy together: larger responses go there while half of an upstream's places wait for slow clients. 0: none.",
        r#""1GB""#,
    ),
];
