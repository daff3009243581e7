//! The responses in progress, and the clients that were sent the most bytes, as JSON.

use serde_json::{Value, json};
use server::metrics::protocol_name;
use server::{ClientStatus, ResponseStatus, ResponsesStatus, WaitsFor};
use units::Nanos;

use super::status::Asker;

/// The maximum number of bytes of a request line that are reported.
const REQUEST_BYTES_MAX: usize = 200;

pub fn responses(status: &ResponsesStatus, asker: Asker) -> Value {
    let waiting =
        WaitsFor::ALL.iter().map(|waits_for| (name(*waits_for).into(), status.counts[*waits_for as usize].into()));
    json!({
        "count": status.counts.iter().sum::<u64>(),
        "waiting": waiting.collect::<serde_json::Map<String, Value>>(),
        "responses": status.first.iter().map(|one| response(one, asker)).collect::<Vec<_>>(),
    })
}

fn name(waits_for: WaitsFor) -> &'static str {
    match waits_for {
        WaitsFor::Turn => "turn",
        WaitsFor::Client => "client",
        WaitsFor::File => "file",
        WaitsFor::Upstream => "upstream",
        WaitsFor::Limit => "limit",
        WaitsFor::Slot => "slot",
        WaitsFor::ClassRate => "class_rate",
    }
}

fn response(one: &ResponseStatus, asker: Asker) -> Value {
    let mut told = json!({
        "site": one.site,
        "class": one.class,
        "protocol": protocol_name(one.protocol),
        "size_bytes": one.size,
        "sent_bytes": one.sent_bytes,
        "left_bytes": one.size.map(|size| size.saturating_sub(one.sent_bytes)),
        "silent_s": seconds(one.silent_for),
        "waits_for": name(one.waits_for),
    });
    if asker == Asker::Operator {
        told["client"] = one.client.to_canonical().to_string().into();
        told["request"] =
            one.requested.as_ref().map(|[method, target]| shown(&[&method[..], b" ", target].concat())).into();
    }
    told
}

pub fn clients(busiest: &[ClientStatus]) -> Value {
    let client = |one: &ClientStatus| {
        json!({
            "client": one.prefix,
            "connections": one.connections,
            "under_way": one.responses,
            "bytes_lately": one.bytes_lately,
            "refusals": one.refusals,
        })
    };
    busiest.iter().map(client).collect()
}

/// Formats text from a client: bytes that are not printable ASCII are percent-encoded.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        if text.len() >= REQUEST_BYTES_MAX {
            text.push_str("...");
            break;
        }
        match byte {
            b' '..=b'~' => text.push(byte.into()),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn seconds(time: Nanos) -> f64 {
    (time.0 as f64 / 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// The page printed `class_rate` for a class at its maximum rate.
    #[test]
    fn the_pages_have_words_for_every_reason() {
        let page = include_str!("admin/page.html");
        let words = page.split_once("const waits={").and_then(|(_, rest)| rest.split_once("};")).unwrap().0;
        for name in WaitsFor::ALL.map(name) {
            assert!(words.split("],").any(|entry| entry.starts_with(&format!("{name}:["))), "{name}: {words}");
        }
    }

    fn one() -> ResponseStatus {
        ResponseStatus {
            site: "a".into(),
            class: String::new(),
            protocol: (2, 0),
            client: Ipv4Addr::new(198, 18, 0, 7).to_ipv6_mapped().into(),
            requested: Some([b"GET".to_vec(), b"/\x1b[2J\n\xff<b>".to_vec()]),
            size: Some(1000),
            sent_bytes: 300,
            silent_for: Nanos::from_millis(1500),
            waits_for: WaitsFor::Client,
        }
    }

    #[test]
    fn an_operator_is_told_of_clients_and_nobody_else() {
        let mut status = ResponsesStatus { first: vec![one()], ..ResponsesStatus::default() };
        status.count(WaitsFor::Client, 3);
        let told = responses(&status, Asker::Operator);
        assert_eq!(
            (&told["count"], &told["waiting"]["client"], &told["waiting"]["turn"]),
            (&1.into(), &1.into(), &0.into())
        );
        let row = &told["responses"][0];
        assert_eq!(
            (&row["left_bytes"], &row["silent_s"], &row["client"]),
            (&700.into(), &1.5.into(), &"198.18.0.7".into())
        );
        assert_eq!(row["request"], "GET /%1B[2J%0A%FF<b>");
        let text = responses(&status, Asker::Anyone).to_string();
        assert!(!text.contains("198.18") && !text.contains("GET") && text.contains("\"left_bytes\":700"), "{text}");
    }

    #[test]
    fn a_size_that_is_not_known_is_null_and_a_long_request_is_cut() {
        let open = ResponseStatus { size: None, requested: Some([b"GET".to_vec(), vec![b'a'; 10_000]]), ..one() };
        let row = response(&open, Asker::Operator);
        assert!(row["left_bytes"].is_null() && row["size_bytes"].is_null());
        assert_eq!(row["request"].as_str().map(str::len), Some(REQUEST_BYTES_MAX + 3));
    }
}
