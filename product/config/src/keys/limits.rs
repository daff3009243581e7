//! The keys of limits and timeouts, in the order of the reference.

use super::Unset::{Absent, Is};
use super::table::{key, table, text, whole};
use super::{Form, Key};
use crate::defaults;

pub static LIMITS: &[Key] = &[
    table("limits", "the defaults", "Limits of memory, of message heads, of slow clients and of each client."),
    key(
        "limits.memory",
        text(Form::Size),
        Absent("half of the machine's memory, or of the cgroup's limit if that is less, at least 64 MiB"),
        "Maximum memory of the process, at least 32 MiB; near it, connections whose clients do not read are closed, then idle ones, and new ones wait.",
        r#""512MiB""#,
    ),
    key(
        "limits.spool",
        text(Form::Size),
        Is("1GB"),
        "Maximum bytes of temporary files, all proxies together; 0 disables them.",
        r#""10GB""#,
    ),
    key(
        "limits.head_bytes",
        text(Form::Size),
        Is("64KiB"),
        "Maximum head of a request (with target and cookies) or of an upstream's response, 4 KiB to 128 KiB; beyond it a request gets 431 or 414, a response is 502.",
        r#""128KiB""#,
    ),
    key(
        "limits.head_fields",
        whole(16, http::FIELDS_MAX as u64),
        Is("200"),
        "Maximum header lines of such a head; a request with more gets 431, a response is 502.",
        "400",
    ),
    key(
        "limits.min_request_rate",
        text(Form::Size),
        Is("500"),
        "Minimum average rate of a request body, in bytes per second; 0 disables the check.",
        r#""2KB""#,
    ),
    key(
        "limits.min_send_rate",
        text(Form::Size),
        Is("500"),
        "Minimum average rate at which a client takes bytes, per second, while Weir waits for it ([details](protocols.md#slow-clients)); a slower one's connection ends. 0: off.",
        "1000",
    ),
    key(
        "limits.min_send_rate_window",
        text(Form::Time),
        Is("30s"),
        "Time over which `min_send_rate` is averaged. It begins anew once Weir no longer waits for the client.",
        r#""1m""#,
    ),
    key(
        "limits.client_prefix",
        text(Form::ClientPrefix),
        Is("32,56"),
        "Leading bits of an IPv4 and of an IPv6 address that identify a client, for limits and shares.",
        r#""24,48""#,
    ),
    key(
        "limits.client_connections",
        whole(0, 1_000_000),
        Absent(
            "a quarter of `server.connections`, at least 64 but no more than half; no limit with `server.max_accepted_connections`",
        ),
        "Maximum connections of one client; a further one is closed. 0 disables the limit.",
        "20",
    ),
    key(
        "limits.client_requests",
        whole(0, 1_000_000),
        Is("0"),
        "Maximum requests of one client per second; a further one gets 429. 0 disables the limit.",
        "50",
    ),
    key(
        "limits.client_rate",
        text(Form::Rate),
        Absent("no limit"),
        "Maximum rate of one client; its responses wait.",
        r#""50mbit""#,
    ),
    //
    table("timeouts", "the defaults", "Timeouts."),
    key(
        "timeouts.idle",
        text(Form::Timeout),
        Is(defaults::IDLE_TIMEOUT),
        "Maximum time that a connection stays open without a request.",
        r#""30s""#,
    ),
    key(
        "timeouts.header",
        text(Form::Timeout),
        Is(defaults::HEADER_TIMEOUT),
        "Maximum time for the head of a request to arrive; one that is lost three times takes 21 s.",
        r#""25s""#,
    ),
    key(
        "timeouts.body",
        text(Form::Timeout),
        Is(defaults::BODY_TIMEOUT),
        "Maximum time between two bytes of a request body.",
        r#""10s""#,
    ),
    key(
        "timeouts.shutdown",
        text(Form::Time),
        Is(defaults::SHUTDOWN_TIMEOUT),
        "Maximum time to finish responses after SIGTERM.",
        r#""5m""#,
    ),
];
