//! The page of `weir top`, made from the status of a server.

use std::time::Duration;

use serde_json::Value;

use super::layout::{Block, Style, Table};
use crate::status;

/// The maximum number of sites shown. Those with the most recent bytes come first.
const SITES_MAX: usize = 20;
/// The number of lines on a screen that do not list responses or clients: headings, and the times by size.
const LINES_BESIDE: usize = 17;

/// Returns the maximum rows of the two lists for a screen of this many rows, such that the other lines fit too;
/// unlimited without a screen.
fn rows_of_lists(screen_rows: Option<usize>) -> (usize, usize) {
    let Some(rows) = screen_rows else { return (usize::MAX, usize::MAX) };
    let left = rows.saturating_sub(LINES_BESIDE);
    let clients = (left / 3).clamp(2, 10);
    (left.saturating_sub(clients).max(4), clients)
}

/// Returns the page for this status. Rates are computed from the difference to an earlier status.
pub fn page(pid: u32, told: &Value, lately: Option<(Duration, &Value)>, screen_rows: Option<usize>) -> Vec<Block> {
    let is_paced = told["uplink"]["pace_bits_per_s"].is_number();
    let mut blocks = vec![
        Block::Text(format!("weir {pid}"), Style::Head),
        Block::Text(status::uplink(told), if is_paced { Style::Good } else { Style::Warning }),
    ];
    blocks.extend(lately.map(|lately| leaving(told, lately)));
    blocks.extend(status::worth(told).map(|text| Block::Text(text, Style::Plain)));
    let (responses_max, clients_max) = rows_of_lists(screen_rows);
    blocks.push(Block::Gap);
    blocks.extend(under_way(&told["under_way"], responses_max));
    blocks.extend(clients(&told["clients"], clients_max));
    blocks.push(Block::Gap);
    if told["sizes"].as_array().is_none_or(Vec::is_empty) {
        blocks.push(Block::Text(status::UNCOUNTED.to_string(), Style::Plain));
        return blocks;
    }
    let sizes = status::sizes(told).into_iter().map(Vec::from).collect();
    blocks.push(Block::Table(Table { rows: sizes, spare: &[1, 4, 2] }));
    blocks.extend(status::uncompared(told).map(|why| Block::Text(why.to_string(), Style::Plain)));
    blocks.push(Block::Gap);
    blocks.push(sites(told, lately));
    blocks
}

fn leaving(told: &Value, (passed, before): (Duration, &Value)) -> Block {
    let bytes = sent_bytes(told, told).saturating_sub(sent_bytes(before, told));
    let mbit = bytes as f64 * 8.0 / 1e6 / passed.as_secs_f64();
    let pace = told["uplink"]["pace_bits_per_s"].as_f64().map(|bits| bits / 1e6);
    let of = pace.map_or(String::new(), |pace| format!(", {:.0} % of the pace", 100.0 * mbit / pace));
    Block::Text(format!("leaving: {mbit:.2} Mbit/s{of}"), Style::Plain)
}

/// The kinds of waiting: the name, and the words for one response and for several.
const WAITING: [(&str, &str, &str); 7] = [
    ("turn", "its turn", "for their turn"),
    ("client", "its client", "for their clients"),
    ("file", "its file", "for files"),
    ("upstream", "its upstream", "for upstreams"),
    ("limit", "its limit", "for limits of clients"),
    ("slot", "a slot", "for slots of classes"),
    ("class_rate", "its class's max_rate", "for max_rate of classes"),
];

/// Lists the responses in progress.
fn under_way(told: &Value, rows_max: usize) -> Vec<Block> {
    let count = told["count"].as_u64().unwrap_or(0);
    let waiting = WAITING.iter().filter_map(|(name, _, words)| {
        let waiting = told["waiting"][name].as_u64().filter(|count| *count > 0)?;
        Some(format!("{waiting} {words}"))
    });
    let waiting = waiting.collect::<Vec<_>>().join(", ");
    let words = if count == 0 { "none".to_string() } else { format!("{count}, waiting {waiting}") };
    let mut blocks = vec![Block::Text(format!("responses in progress: {words}"), Style::Head)];
    let listed = told["responses"].as_array().map_or(&[][..], Vec::as_slice);
    if !listed.is_empty() {
        let head = ["left", "of", "waits for", "silent", "client", "site", "class", "protocol", "request"];
        let head = head.map(String::from).to_vec();
        let rows = [head].into_iter().chain(listed.iter().take(rows_max).map(response)).collect();
        blocks.push(Block::Table(Table { rows, spare: &[7, 6, 8, 5, 1, 3, 4] }));
    }
    blocks
}

fn response(told: &Value) -> Vec<String> {
    let bytes = |name: &str| told[name].as_u64().map_or("unknown".to_string(), size);
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_string();
    let waits_for = WAITING.iter().find(|(name, ..)| told["waits_for"] == *name);
    let left = told["left_bytes"].as_u64().map_or_else(
        || {
            told["sent_bytes"]
                .as_u64()
                .filter(|sent| *sent > 0)
                .map_or("unknown".into(), |sent| format!("?, sent {}", size(sent)))
        },
        size,
    );
    vec![
        left,
        bytes("size_bytes"),
        waits_for.map_or_else(|| text("waits_for"), |(_, words, _)| words.to_string()),
        told["silent_s"].as_f64().map_or("-".into(), silent),
        text("client"),
        text("site"),
        text("class"),
        text("protocol"),
        text("request"),
    ]
}

/// A size with three digits: `1.25 GB`.
fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    let (number, unit) = match bytes {
        bytes if bytes < 999.5 => return format!("{bytes} B"),
        bytes if bytes < 999.5e3 => (bytes / 1e3, "KB"),
        bytes if bytes < 999.5e6 => (bytes / 1e6, "MB"),
        bytes => (bytes / 1e9, "GB"),
    };
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.digits$} {unit}")
}

fn silent(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s if s < 36_000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

/// The clients that were sent most recently.
fn clients(told: &Value, rows_max: usize) -> Option<Block> {
    let told = told.as_array().filter(|told| !told.is_empty())?;
    let row = |one: &Value| {
        let count = |name: &str| one[name].as_u64().unwrap_or(0).to_string();
        let lately = format!("{:.1}", one["bytes_lately"].as_f64().unwrap_or(0.0) / 1e6);
        let client = one["client"].as_str().unwrap_or_default().to_string();
        vec![client, lately, count("under_way"), count("connections"), count("refusals")]
    };
    let head = ["client", "MB lately", "under way", "connections", "refusals"].map(String::from).to_vec();
    let rows = [head].into_iter().chain(told.iter().take(rows_max).map(row)).collect();
    Some(Block::Table(Table { rows, spare: &[4, 3] }))
}

/// The bytes on the wire, or the bytes of responses if, according to `now`, nothing is paced.
fn sent_bytes(told: &Value, now: &Value) -> u64 {
    if now["uplink"].is_null() {
        return rows(told).iter().filter_map(|row| row["bytes"].as_u64()).sum();
    }
    told["wire_bytes"].as_u64().unwrap_or(0)
}

fn rows(told: &Value) -> &[Value] {
    told["responses"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns a row for each site: responses, responses per second, aborted responses, errors and bytes.
fn sites(told: &Value, lately: Option<(Duration, &Value)>) -> Block {
    let sum = |told: &Value, site: &str, key: &str, least_status: u64| -> u64 {
        let of_site =
            rows(told).iter().filter(|row| row["site"] == site && row["status"].as_u64() >= Some(least_status));
        of_site.filter_map(|row| row[key].as_u64()).sum()
    };
    let mut names: Vec<&str> = rows(told).iter().filter_map(|row| row["site"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| std::cmp::Reverse(sum(told, name, "bytes", 0)));
    let mut table = vec![["site", "responses", "a second", "cut", "errors", "MB"].map(String::from).to_vec()];
    for name in names.into_iter().take(SITES_MAX) {
        let responses = sum(told, name, "responses", 0);
        let rate = lately.map_or("-".to_string(), |(passed, before)| {
            let more = responses.saturating_sub(sum(before, name, "responses", 0));
            format!("{:.1}", more as f64 / passed.as_secs_f64())
        });
        table.push(vec![
            if name.is_empty() { "(no site)".into() } else { name.into() },
            responses.to_string(),
            rate,
            sum(told, name, "cut", 0).to_string(),
            sum(told, name, "responses", 4).to_string(),
            format!("{:.1}", sum(told, name, "bytes", 0) as f64 / 1e6),
        ]);
    }
    Block::Table(Table { rows: table, spare: &[3, 5, 4] })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::layout::{ScreenRow, lines};
    use super::*;

    fn told(responses: u64, wire_bytes: u64) -> Value {
        let row = |site: &str, status: u64, responses: u64| json!({ "site": site, "class": "", "status": status, "responses": responses, "cut": 1, "bytes": 1_500_000 });
        json!({
            "uplink": { "text": "uplink 10 Mbit/s", "pace_bits_per_s": 10_000_000 },
            "wire_bytes": wire_bytes,
            "order": { "text": "2 responses waited 98 ms less than if all took turns" },
            "sizes": [{ "size": "10KB", "responses": 4, "took_s": 0.004, "compared": 4, "compared_s": 0.004, "turns": 2, "turns_s": 0.1 }],
            "responses": [row("a", 2, responses), row("a", 4, 3), row("b", 2, 1)],
            "under_way": { "count": 3, "waiting": { "turn": 1, "client": 1, "upstream": 1 }, "responses": [
                { "site": "a", "class": "", "protocol": "HTTP/1.1", "size_bytes": 1_234_567_890_u64, "sent_bytes": 34_567_890, "left_bytes": 1_200_000_000,
                  "silent_s": 12.25, "waits_for": "client", "client": "198.18.0.7", "request": "GET /film" },
                { "site": "b", "class": "", "protocol": "HTTP/2.0", "size_bytes": null, "sent_bytes": 7000, "left_bytes": null,
                  "silent_s": 4000.0, "waits_for": "upstream", "client": "198.18.0.8", "request": null },
            ] },
            "clients": [{ "client": "198.18.0.7", "connections": 2, "under_way": 1, "bytes_lately": 2_000_000, "refusals": 0 }],
        })
    }

    fn shown(told: &Value, lately: Option<(Duration, &Value)>, columns: usize) -> Vec<String> {
        lines(&page(7, told, lately, None), columns).into_iter().map(|line: ScreenRow| line.text).collect()
    }

    /// With the order off, a large response over HTTP/2 still charges bytes, and later responses do not.
    #[test]
    fn what_leaves_without_a_pace_is_what_was_sent() {
        let (mut before, mut now) = (told(10, 1000), told(12, 1000));
        [&mut before, &mut now].into_iter().for_each(|told| told["uplink"] = Value::Null);
        now["responses"][0]["bytes"] = 2_750_000.into();
        let shown = page(7, &now, Some((Duration::from_secs(1), &before)), None);
        let shown: Vec<String> = lines(&shown, usize::MAX).into_iter().map(|line| line.text).collect();
        assert!(shown.iter().any(|line| line.starts_with("leaving: 10.00 Mbit/s")), "{shown:?}");
    }

    #[test]
    fn without_counts_it_says_so() {
        let lines = shown(&json!({ "sizes": [], "responses": [] }), None, 200);
        assert_eq!(lines.last().unwrap(), status::UNCOUNTED);
        assert_eq!(lines[3], "responses in progress: none");
    }

    #[test]
    fn a_moment_ago_tells_rates() {
        let (before, now) = (told(10, 0), told(20, 500_000));
        let lines = shown(&now, Some((Duration::from_secs(2), &before)), 200);
        let expected = [
            "weir 7",
            "uplink 10 Mbit/s",
            "leaving: 2.00 Mbit/s, 20 % of the pace",
            "2 responses waited 98 ms less than if all took turns",
            "",
            "responses in progress: 3, waiting 1 for their turn, 1 for their clients, 1 for upstreams",
            "left             of       waits for     silent  client      site  protocol  request",
            "1.20 GB          1.23 GB  its client    12 s    198.18.0.7  a     HTTP/1.1  GET /film",
            "?, sent 7.00 KB  unknown  its upstream  67 min  198.18.0.8  b     HTTP/2.0",
            "client      MB lately  under way  connections  refusals",
            "198.18.0.7  2.0        1          2            0",
            "",
            "responses    ended  mean     if all took turns  times sooner",
            "up to 10 KB  4      1.00 ms  50.0 ms            50",
            "",
            "site  responses  a second  cut  errors  MB",
            "a     23         5.0       2    3       3.0",
            "b     1          0.0       1    0       1.5",
        ];
        assert_eq!(lines, expected);
    }

    /// A server in front of programs compares nothing, and the columns about turns stay empty.
    #[test]
    fn why_nothing_is_compared_is_said() {
        let mut of_programs = told(20, 0);
        of_programs["sizes"] = json!([{ "size": "10KB", "responses": 4, "took_s": 0.1, "compared": 0 }]);
        let said = |told: &Value| shown(told, None, 200).iter().any(|line| line.starts_with("no response is compared"));
        assert!(said(&of_programs) && !said(&told(20, 0)));
        of_programs["sizes"][0]["responses"] = 0.into();
        assert!(!said(&of_programs), "nothing has ended");
    }

    #[test]
    fn forty_columns_have_what_matters() {
        let now = told(20, 500_000);
        let lines = shown(&now, Some((Duration::from_secs(2), &now)), 40);
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:#?}");
        let all = lines.join("\n");
        for word in ["1.20 GB", "its client", "198.18.0.7", "50.0 ms", "23 "] {
            assert!(all.contains(word), "{word}: {all}");
        }
    }

    #[test]
    fn a_small_screen_shows_the_first_of_each_list() {
        assert_eq!([None, Some(24), Some(60)].map(rows_of_lists), [(usize::MAX, usize::MAX), (5, 2), (33, 10)]);
        assert_eq!([0, 999, 999_400, 1_500_000, 99_960_000].map(size), ["0 B", "999 B", "999 KB", "1.50 MB", "100 MB"]);
    }
}
