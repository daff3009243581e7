//! The keys of classes, in the order of the reference.

use super::Unset::{Absent, Is, Required};
use super::table::{CONNECTIONS, key, tables, text, whole};
use super::{Form, Key};

pub static CLASSES: &[Key] = &[
    tables("class", "all requests are alike", "A class of requests."),
    key("class.name", text(Form::Name), Required, "Name of the class; not `others`.", r#""premium""#),
    key("class.priority", whole(0, 15), Is("0"), "Priority: a class with a lower number always goes first.", "1"),
    key(
        "class.weight",
        whole(1, 1000),
        Absent("1 for a class with a rate or policy; other classes share by response, in one order"),
        "Weight of the class among the classes of its priority that have something to send.",
        "3",
    ),
    key(
        "class.min_rate",
        text(Form::Rate),
        Absent("none"),
        "Minimum rate of the class while it has something to send; all together fit the line. It ends no slow client: `limits.min_send_rate` does.",
        r#""2mbit""#,
    ),
    key("class.max_rate", text(Form::Rate), Absent("the rate of the uplink"), "Maximum rate.", r#""8mbit""#),
    key(
        "class.max_concurrent_requests",
        CONNECTIONS,
        Absent("no limit"),
        "Maximum responses of the class at once; others wait, and start by priority, client and age. [A client keeps \
            half](policies.md#classes) against others.",
        "50",
    ),
    key(
        "class.policy",
        text(Form::Order),
        Absent("`uplink.policy`"),
        "Order of the class's responses; clients share as `uplink.client_share` says.",
        r#""las""#,
    ),
    key(
        "class.objective",
        text(Form::Objective),
        Absent("none"),
        "Objective for response times, shown by `weir status`; the error log has a line each minute while it is missed.",
        r#""p99 of responses <= 64KiB under 200ms""#,
    ),
    //
    tables(
        "class.rule",
        "none",
        "Requests of the class: they meet every condition of the rule. The first matching rule of the file decides, over all classes.",
    ),
    key("class.rule.site", text(Form::SiteName), Absent("any"), "Site of the request.", r#""example.org""#),
    key(
        "class.rule.path",
        text(Form::Pattern),
        Absent("any"),
        "Path of the request, without its query.",
        r#""/members/*""#,
    ),
    key("class.rule.network", text(Form::Network), Absent("any"), "Network of the client.", r#""10.0.0.0/8""#),
    key("class.rule.header", text(Form::Field), Absent("any"), "Header field of the request.", r#""X-Tier: gold""#),
    key(
        "class.rule.token",
        text(Form::Token),
        Absent("any"),
        "Token in the field `Authorization: Bearer`. Keep a file with tokens unreadable for others.",
        r#""c2VjcmV0LXRva2VuLTAx""#,
    ),
];
