//! `weir top`: what a running server does, once a second.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use cli::Failure;
use serde_json::Value;

use crate::running::Which;
use crate::serve::control::STATUS_NAME;
use crate::status;

const EVERY: Duration = Duration::from_secs(1);
/// Rows of sites, those with the most bytes lately first.
const SITES_MAX: usize = 20;
/// Home, and what is left of the screen away behind each line and the last.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\r\n";
const CLEAR_BELOW: &str = "\x1b[J";

/// Show what a running server does, once a second; Ctrl-C ends it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir top
  weir top --pid 1234

turns: the time that the same responses would have taken if all that are ready shared the rate evenly.
Responses are counted by servers with --admin (server.admin). Where the output is no terminal it is
printed once.")]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let is_live = std::io::stdout().is_terminal();
    let mut before: Option<(Instant, Value)> = None;
    loop {
        let (pid, answer) = args.which.ask(STATUS_NAME, "top")?;
        let (at, told) = (Instant::now(), status::read(pid, &answer)?);
        let lately = before.as_ref().map(|(then, told)| (at - *then, told));
        let lines = page(pid, &told, lately);
        if !is_live {
            return Ok(std::io::stdout().write_all((lines.join("\n") + "\n").as_bytes())?);
        }
        // The first screen is cleared, the others are written over.
        let begin = if before.is_none() { "\x1b[2J\x1b[H" } else { HOME };
        let (columns, rows) = screen();
        let shown = fitted(&lines, columns, rows).join(CLEAR_LINE);
        std::io::stdout().write_all(format!("{begin}{shown}{CLEAR_BELOW}").as_bytes())?;
        std::io::stdout().flush()?;
        before = Some((at, told));
        std::thread::sleep(EVERY);
    }
}

/// Its columns and rows.
fn screen() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or((80, 24), |size| (usize::from(size.ws_col).max(20), usize::from(size.ws_row).max(4)))
}

/// What is told now, and how it differs from a moment ago.
fn page(pid: u32, told: &Value, lately: Option<(Duration, &Value)>) -> Vec<String> {
    let mut lines = vec![format!("weir {pid}"), status::uplink(told)];
    if let Some((passed, before)) = lately {
        let mbit = |bytes: u64| bytes as f64 * 8.0 / 1e6 / passed.as_secs_f64();
        let bytes = sent_bytes(told, told).saturating_sub(sent_bytes(before, told));
        let pace = told["uplink"]["pace_bits_per_s"].as_f64().map(|bits| bits / 1e6);
        let of = pace.map_or(String::new(), |pace| format!(", {:.0} % of the pace", 100.0 * mbit(bytes) / pace));
        lines.push(format!("leaving: {:.2} Mbit/s{of}", mbit(bytes)));
    }
    lines.push(String::new());
    if told["sizes"].as_array().is_none_or(Vec::is_empty) {
        lines.push(status::UNCOUNTED.to_string());
        return lines;
    }
    lines.extend(status::sizes(told));
    lines.push(String::new());
    lines.extend(sites(told, lately));
    lines
}

/// As many lines as the screen has, each as wide; the last line tells how to leave, and how many there was no room for.
fn fitted(lines: &[String], columns: usize, rows: usize) -> Vec<String> {
    let shown = lines.len().min(rows.saturating_sub(1));
    let left = lines.len() - shown;
    let end = if left == 0 { "ctrl-c ends this".into() } else { format!("{left} more lines; ctrl-c ends this") };
    let cut = |line: &String| match line.chars().count() > columns {
        true => line.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
        false => line.clone(),
    };
    lines[..shown].iter().chain([&end]).map(cut).collect()
}

/// On the wire, or of responses that have ended where `now` says that nothing is paced.
fn sent_bytes(told: &Value, now: &Value) -> u64 {
    match now["wire_bytes"].as_u64() {
        None | Some(0) => rows(told).iter().filter_map(|row| row["bytes"].as_u64()).sum(),
        Some(_) => told["wire_bytes"].as_u64().unwrap_or(0),
    }
}

fn rows(told: &Value) -> &[Value] {
    told["responses"].as_array().map_or(&[], Vec::as_slice)
}

/// A row for each site: responses, those a second, cut, errors, and bytes.
fn sites(told: &Value, lately: Option<(Duration, &Value)>) -> Vec<String> {
    let sum = |told: &Value, site: &str, key: &str, least_status: u64| -> u64 {
        let of_site =
            rows(told).iter().filter(|row| row["site"] == site && row["status"].as_u64() >= Some(least_status));
        of_site.filter_map(|row| row[key].as_u64()).sum()
    };
    let mut names: Vec<&str> = rows(told).iter().filter_map(|row| row["site"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| std::cmp::Reverse(sum(told, name, "bytes", 0)));
    let mut table = vec![["site", "responses", "a second", "cut", "errors", "MB"].map(String::from)];
    for name in names.into_iter().take(SITES_MAX) {
        let responses = sum(told, name, "responses", 0);
        let rate = lately.map_or("-".to_string(), |(passed, before)| {
            let more = responses.saturating_sub(sum(before, name, "responses", 0));
            format!("{:.1}", more as f64 / passed.as_secs_f64())
        });
        table.push([
            if name.is_empty() { "(no site)".into() } else { name.into() },
            responses.to_string(),
            rate,
            sum(told, name, "cut", 0).to_string(),
            sum(told, name, "responses", 4).to_string(),
            format!("{:.1}", sum(told, name, "bytes", 0) as f64 / 1e6),
        ]);
    }
    status::aligned(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(responses: u64, wire_bytes: u64) -> Value {
        let row = |site: &str, status: u64, responses: u64| json!({ "site": site, "class": "", "status": status, "responses": responses, "cut": 1, "bytes": 1_500_000 });
        json!({
            "uplink": { "text": "uplink 10 Mbit/s", "pace_bits_per_s": 10_000_000 },
            "wire_bytes": wire_bytes,
            "sizes": [{ "size": "10KB", "responses": 4, "took_s": 0.004, "compared": 4, "compared_s": 0.004, "turns": 2, "turns_s": 0.1 }],
            "responses": [row("a", 2, responses), row("a", 4, 3), row("b", 2, 1)],
        })
    }

    #[test]
    fn a_screen_that_is_too_small_says_so() {
        let lines: Vec<String> = (0..5).map(|at| format!("line {at} of five")).collect();
        assert_eq!(fitted(&lines, 9, 4), ["line 0 o…", "line 1 o…", "line 2 o…", "2 more l…"]);
        assert_eq!(fitted(&lines, 80, 24).last().unwrap(), "ctrl-c ends this");
    }

    #[test]
    fn without_counts_it_says_so() {
        let lines = page(7, &json!({ "sizes": [], "responses": [] }), None);
        assert_eq!(lines.last().unwrap(), status::UNCOUNTED);
    }

    #[test]
    fn a_moment_ago_tells_rates() {
        let (before, now) = (told(10, 0), told(20, 500_000));
        let lines = page(7, &now, Some((Duration::from_secs(2), &before)));
        let expected = [
            "weir 7",
            "uplink 10 Mbit/s",
            "leaving: 2.00 Mbit/s, 20 % of the pace",
            "",
            "responses    ended  mean     if all took turns  times sooner",
            "up to 10 KB  4      1.00 ms  50.0 ms            50",
            "",
            "site  responses  a second  cut  errors  MB",
            "a     23         5.0       2    3       3.0",
            "b     1          0.0       1    0       1.5",
        ];
        assert_eq!(lines, expected);
        assert_eq!(page(7, &now, None)[3], "responses    ended  mean     if all took turns  times sooner");
    }
}
