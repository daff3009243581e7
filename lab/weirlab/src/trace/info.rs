//! `trace info`: summarises a log in a few numbers, as text or JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use units::Nanos;
use workload::{Log, Summary};

use super::{Source, output};
use cli::Failure;

/// The instant before which times count as seconds since the trace began, and not as dates: HTTP was not logged in
/// 1970.
const RELATIVE_BEFORE: Nanos = Nanos(365 * 86_400 * 1_000_000_000);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Spreads requests inside whole seconds, which the variation of interarrival times depends on.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let log = args.source.read()?;
    let Some(summary) = Summary::of(&log, args.seed) else {
        return Err(super::about(&args.source.file, "no requests in it"));
    };
    let file = args.source.file.to_string_lossy();
    if args.json {
        output::print(&format!("{:#}\n", as_json(&file, &log, &summary)))
    } else {
        output::print(&as_text(&file, &log, &summary))
    }
}

fn as_json(file: &str, log: &Log, summary: &Summary) -> Value {
    let statuses: serde_json::Map<String, Value> =
        summary.statuses.iter().map(|(status, count)| (status_name(*status), json!(count))).collect();
    let bad: Vec<Value> =
        log.bad.first.iter().map(|bad| json!({"line": bad.line, "reason": bad.reason, "text": bad.text})).collect();
    json!({
        "file": file,
        "format": log.format.name(),
        "whole_seconds": log.whole_seconds,
        "requests": summary.requests,
        "first_epoch_s": summary.first.as_secs_f64(),
        "last_epoch_s": summary.last.as_secs_f64(),
        "span_s": summary.span().as_secs_f64(),
        "clients": summary.clients,
        "requests_per_s": summary.rate_per_s,
        "interarrival_scv": summary.interarrival_scv,
        "sizes": summary.sizes.as_ref().map(|sizes| json!({
            "requests": sizes.requests,
            "bytes": sizes.bytes,
            "mean_bytes": sizes.mean_bytes,
            "min_bytes": sizes.min_bytes,
            "p50_bytes": sizes.median_bytes,
            "p90_bytes": sizes.p90_bytes,
            "p99_bytes": sizes.p99_bytes,
            "max_bytes": sizes.max_bytes,
            "half_of_bytes_pct": sizes.half_of_bytes_pct,
        })),
        "statuses": statuses,
        "bad_lines": {"count": log.bad.count, "first": bad},
    })
}

fn as_text(file: &str, log: &Log, summary: &Summary) -> String {
    let mut rows = vec![
        ("format", format!("{}{}", log.format, if log.whole_seconds { ", whole seconds" } else { "" })),
        ("requests", grouped(summary.requests as u64)),
        ("first", instant(summary.first)),
        ("last", instant(summary.last)),
        ("span", format!("{:.1} s", summary.span().as_secs_f64())),
        ("per second", optional(summary.rate_per_s)),
        ("interarrival SCV", optional(summary.interarrival_scv)),
    ];
    rows.extend(summary.clients.map(|clients| ("clients", grouped(clients as u64))));
    if let Some(sizes) = &summary.sizes {
        rows.extend([
            ("with a body", format!("{}, {} B in all", grouped(sizes.requests as u64), grouped(sizes.bytes))),
            ("mean size", format!("{} B", grouped(sizes.mean_bytes.round() as u64))),
            ("min size", format!("{} B", grouped(sizes.min_bytes))),
            ("median size", format!("{} B", grouped(sizes.median_bytes))),
            ("p90 size", format!("{} B", grouped(sizes.p90_bytes))),
            ("p99 size", format!("{} B", grouped(sizes.p99_bytes))),
            ("max size", format!("{} B", grouped(sizes.max_bytes))),
            ("half of the bytes", format!("in the largest {:.2} %", sizes.half_of_bytes_pct)),
        ]);
    }
    let count =
        |(status, count): (&Option<u16>, &usize)| format!("{}: {}", status_name(*status), grouped(*count as u64));
    rows.push(("statuses", summary.statuses.iter().map(count).collect::<Vec<_>>().join(", ")));
    rows.push(("bad lines", grouped(log.bad.count)));
    let mut text = format!("{file}\n");
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<18}{value}");
    }
    text + &bad_lines(log)
}

fn bad_lines(log: &Log) -> String {
    let mut text = String::new();
    for bad in &log.bad.first {
        let _ = writeln!(text, "    {} {}: {}: `{}`", log.format.entry(), bad.line, bad.reason, bad.text);
    }
    let more = log.bad.count - log.bad.first.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "    and {} more", grouped(more));
    }
    text
}

fn status_name(status: Option<u16>) -> String {
    status.map_or("none".into(), |status| status.to_string())
}

fn instant(at: Nanos) -> String {
    if at < RELATIVE_BEFORE { format!("{} s", at.as_secs_f64()) } else { workload::iso(at.0 / 1_000_000_000) }
}

fn optional(number: Option<f64>) -> String {
    number.map_or("-".into(), |number| format!("{number:.2}"))
}

/// `1,234,567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
