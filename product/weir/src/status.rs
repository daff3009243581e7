//! `weir status`: prints the uplink of a running server, the times of its responses, the counters and the objective of
//! each class, and the certificates by ACME. With `--routes`, prints the sizes that the server has learned from the
//! responses of upstreams.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use acme::span;
use cli::Failure;
use serde_json::Value;
use server::{in_words, mbit};
use units::{Nanos, Rate};

use crate::running::Which;
use crate::serve::control::{ROUTES_NAME, STATUS_NAME};
use crate::uplink::{print, print_again};

const AFTER_HELP: &str = "\
Examples:
  weir status
  weir status --pid 1234 --json
  weir status --routes
  weir status --watch --seconds 60

met: share of an objective's responses that are within its time; burn: share of misses over the share that the
objective allows, above 1 it is missed. below median, below p99: share of the sizes that were predicted for a route
and came out below these, 50 and 99 where the prediction is right. --watch: rate is what the line carries, pace what
is used of it, limit the reason (line, others on the same line, ceiling of --uplink, shaper), age the time since the
rate was last confirmed. Servers of the same user can be asked, all of them as root.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Print what was learned of the responses of upstreams
    #[arg(long)]
    routes: bool,
    /// Print the rate and the pace of the uplink, a line each second, until the server ends
    #[arg(long, conflicts_with = "routes")]
    watch: bool,
    /// End after N seconds, with --watch [default: with the server]
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Print JSON; with --watch, one object a line
    #[arg(long)]
    json: bool,
}

const WATCH: &str = "status --watch";
const INTERVAL: Duration = Duration::from_secs(1);

pub fn main(args: Args) -> Result<(), Failure> {
    if args.watch {
        return watch(&args);
    }
    let (name, command) = if args.routes { (ROUTES_NAME, "status --routes") } else { (STATUS_NAME, "status") };
    let (pid, answer) = args.which.ask(name, command)?;
    let told = read(pid, &answer)?;
    if args.json {
        return print(&format!("{answer}\n"));
    }
    let lines = if args.routes { routes_said(pid, &told) } else { said(&told) };
    print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

/// Prints the server's report about its uplink once a second.
fn watch(args: &Args) -> Result<(), Failure> {
    let which = Which::fixed(args.which.pid(WATCH)?);
    for second in 0..args.seconds.unwrap_or(u64::MAX) {
        if second > 0 {
            std::thread::sleep(INTERVAL);
        }
        match which.ask(STATUS_NAME, WATCH).and_then(|(pid, answer)| read(pid, &answer)) {
            Ok(told) => {
                let uplink = &told["uplink"];
                let line = if args.json { uplink.to_string() } else { uplink_line(uplink) };
                if !print_again(&format!("{line}\n"))? {
                    return Ok(());
                }
            }
            // The server has ended.
            Err(_) if second > 0 => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn uplink_line(uplink: &Value) -> String {
    if uplink.is_null() {
        return "nothing is paced".into();
    }
    let rate = |name: &str, without: &str| {
        let rate = uplink[name].as_u64().and_then(Rate::from_bits_per_s);
        rate.map_or(without.to_string(), mbit)
    };
    let age = uplink["age_s"].as_f64().map_or("-".into(), |seconds| in_words(Nanos::from_secs(seconds as u64)));
    let limit = uplink["limit"].as_str().unwrap_or("-");
    let unfound = if limit == "ceiling" { "as configured" } else { "not found yet" };
    let (found, pace) = (rate("rate_bits_per_s", unfound), rate("pace_bits_per_s", "none"));
    format!("rate {found:<13}  pace {pace:<11}  limit {limit:<7}  age {age}")
}

fn said(told: &Value) -> Vec<String> {
    let classes = told["classes"].as_array().map_or(&[][..], Vec::as_slice);
    let is_counted = told["sizes"].as_array().is_some_and(|sizes| !sizes.is_empty());
    let times = if is_counted { aligned(&sizes(told)) } else { vec![UNCOUNTED.to_string()] };
    let uncompared = uncompared(told).map(String::from).into_iter().collect();
    let mut lines = [vec![uplink(told)], worth(told).into_iter().collect(), times, uncompared].concat();
    if !classes.is_empty() {
        lines.extend(aligned(&[vec![HEADER.map(String::from)], classes.iter().map(row).collect()].concat()));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    lines.extend(certificates(&told["certificates"], now));
    lines
}

const CERTIFICATE_HEADER: [&str; 4] = ["certificate", "expires", "next order", "last failure"];

/// Returns the rows about certificates by ACME, if there are any; `now` is in seconds since 1970.
fn certificates(told: &Value, now: u64) -> Vec<String> {
    let hosts = told["hosts"].as_array().map_or(&[][..], Vec::as_slice);
    if hosts.is_empty() {
        return Vec::new();
    }
    let row = |host: &Value| {
        let from_now = |name: &str| host[name].as_u64().map(|at| from_now(at, now));
        let failed = host["failed_at"].as_u64().map(|at| {
            format!("{} ago: {}", span(Duration::from_secs(now.saturating_sub(at))), said_of(&host["failure"]))
        });
        [
            host["host"].as_str().unwrap_or_default().to_string(),
            from_now("not_after").unwrap_or("none yet".into()),
            from_now("next_order").unwrap_or("by another process".into()),
            failed.unwrap_or("-".into()),
        ]
    };
    let rows = [vec![CERTIFICATE_HEADER.map(String::from)], hosts.iter().map(row).collect()].concat();
    let mut lines = aligned(&rows);
    let known = told["known"].as_u64().unwrap_or(0);
    if known > hosts.len() as u64 {
        lines.push(format!("{} of {known} certificates, those that expire first", hosts.len()));
    }
    lines
}

/// Formats a failure as one line for the terminal.
fn said_of(failure: &Value) -> String {
    let lines: Vec<&str> = failure.as_str().unwrap_or("see the error log").lines().collect();
    units::plain(&lines.join(" ")).into_owned()
}

/// Formats an instant relative to `now`: `in 59 days`.
fn from_now(at: u64, now: u64) -> String {
    let words = |seconds| span(Duration::from_secs(seconds));
    match at.checked_sub(now) {
        None => format!("{} ago", words(now - at)),
        Some(0) => "now".into(),
        Some(left) => format!("in {}", words(left)),
    }
}

/// The minimum difference between mean times; smaller ones do not come from the order.
const ALIKE_S: f64 = 0.001;
pub const UNCOUNTED: &str =
    "times of responses are not counted: start the server with --admin 127.0.0.1:9180 (server.admin)";

/// The state of the uplink in words.
pub fn uplink(told: &Value) -> String {
    told["uplink"]["text"].as_str().unwrap_or("uplink not searched: nothing is paced").to_string()
}

/// Returns a sentence about the gain from the order; `None` if nothing was counted or no times differ.
pub fn worth(told: &Value) -> Option<String> {
    told["order"]["text"].as_str().map(String::from)
}

/// Returns why the columns about turns are empty, if responses have ended and none was compared.
pub fn uncompared(told: &Value) -> Option<&'static str> {
    let sizes = told["sizes"].as_array().map_or(&[][..], Vec::as_slice);
    let has = |name: &str| sizes.iter().any(|of_size| of_size[name].as_f64().is_some_and(|count| count > 0.0));
    (has("responses") && !has("compared"))
        .then_some("no response is compared: those of programs are not, nor those sent without a pace")
}

/// Returns the rows of a table: the times of complete responses by size, and the times that they would have had if all
/// responses had taken turns.
pub fn sizes(told: &Value) -> Vec<[String; 5]> {
    let mut rows = vec![["responses", "ended", "mean", "if all took turns", "times sooner"].map(String::from)];
    for of_size in told["sizes"].as_array().map_or(&[][..], Vec::as_slice) {
        let mean = |total: &str, count: &str| {
            let (total, count) = (of_size[total].as_f64()?, of_size[count].as_f64()?);
            (count > 0.0).then(|| total / count)
        };
        let (own, turns) = (mean("compared_s", "compared"), mean("turns_s", "turns"));
        let shown = |time: Option<f64>| time.map_or("-".to_string(), duration);
        // Differences below a millisecond come from the work of the server.
        let differ = own.zip(turns).filter(|(own, turns)| (turns - own).abs() >= ALIKE_S);
        let sooner = differ.map_or("-".to_string(), |(own, turns)| figures(turns / own, 2));
        let size = match of_size["size"].as_str().unwrap_or_default() {
            "more" => "larger".to_string(),
            size => format!("up to {}", size.replace("KB", " KB").replace("MB", " MB")),
        };
        rows.push([size, of_size["responses"].to_string(), shown(mean("took_s", "responses")), shown(turns), sooner]);
    }
    rows
}

/// A duration with three digits: `1.25 ms`, `12.5 s`.
pub fn duration(seconds: f64) -> String {
    if seconds < 1.0 { format!("{} ms", figures(seconds * 1000.0, 3)) } else { format!("{} s", figures(seconds, 3)) }
}

/// Formats a number with this many digits, or more if its integer part has more.
fn figures(number: f64, figures: usize) -> String {
    let before = if number >= 1.0 { number.log10() as usize + 1 } else { 1 };
    format!("{number:.*}", figures.saturating_sub(before))
}

fn routes_said(pid: u32, told: &Value) -> Vec<String> {
    let routes = told["routes"].as_array().map_or(&[][..], Vec::as_slice);
    if routes.is_empty() {
        return vec![format!(
            "server {pid} has passed no requests on: a proxy, with [[site.proxy]] or `weir proxy`, learns"
        )];
    }
    let rows = [vec![ROUTE_HEADER.map(String::from)], routes.iter().map(route_row).collect()].concat();
    let mut lines = aligned(&rows);
    let known = told["known"].as_u64().unwrap_or(0);
    if known > routes.len() as u64 {
        lines.push(format!("{} of {known} routes", routes.len()));
    }
    lines
}

const ROUTE_HEADER: [&str; 9] =
    ["responses", "aborted", "median", "p99", "predicted", "below median", "below p99", "service", "route"];

fn route_row(route: &Value) -> [String; 9] {
    let none = || "-".to_string();
    let number = |name: &str| route[name].as_u64().map_or_else(none, |number| number.to_string());
    let percent = |name: &str| route[name].as_f64().map_or_else(none, |percent| format!("{percent:.1} %"));
    let service = route["service_ms"].as_f64().map_or_else(none, |ms| format!("{ms:.1} ms"));
    [
        number("finished"),
        number("aborted"),
        number("median_bytes"),
        number("p99_bytes"),
        number("predicted"),
        percent("below_median_percent"),
        percent("below_p99_percent"),
        service,
        route["route"].as_str().unwrap_or_default().to_string(),
    ]
}

/// Reads the answer of a server.
pub fn read(pid: u32, answer: &str) -> Result<Value, Failure> {
    let wrong = |said: &str| Failure::Failed(format!("server {pid}: {said}"));
    let told: Value = serde_json::from_str(answer).map_err(|error| wrong(&unreadable(answer, &error)))?;
    match told["error"].as_str() {
        Some(said) => Err(wrong(said)),
        None => Ok(told),
    }
}

/// Returns the message about an incomplete answer from a server that ended while writing it.
fn unreadable(answer: &str, error: &serde_json::Error) -> String {
    let bytes = answer.len();
    format!("an answer of {bytes} bytes is not JSON ({error}), expected a complete object: run `weir status` again")
}

const COLUMNS: usize = 9;
const HEADER: [&str; COLUMNS] = [
    "class",
    "responses",
    "bytes",
    "running",
    "asleep",
    "longest sleep",
    "met, last minute",
    "met, since start",
    "objective",
];

fn row(class: &Value) -> [String; COLUMNS] {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let none = || "-".to_string();
    let asleep_s = class["asleep_s_max"].as_f64().map_or_else(none, |seconds| format!("{seconds:.1} s"));
    let objective = &class["objective"];
    let removed = if class["in_file"] == Value::Bool(false) { " (not in the file)" } else { "" };
    [
        format!("{}{removed}", text(&class["name"])),
        text(&class["responses"]),
        text(&class["bytes"]),
        text(&class["running"]),
        text(&class["asleep"]),
        asleep_s,
        met(&objective["last_minute"]).unwrap_or_else(none),
        met(&objective["since_start"]).unwrap_or_else(none),
        objective["text"].as_str().map_or_else(none, String::from),
    ]
}

/// `96.9 % of 812, burn 3.1`.
fn met(counts: &Value) -> Option<String> {
    let (percent, burn) = (counts["met_percent"].as_f64()?, counts["burn"].as_f64()?);
    Some(format!("{percent:.1} % of {}, burn {burn:.1}", counts["responses"]))
}

/// Aligns columns, separated by two spaces.
pub fn aligned<R: AsRef<[String]>>(rows: &[R]) -> Vec<String> {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width = |column: usize| rows.iter().map(|row| row.as_ref()[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &R| {
        let cells = row.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  "));
        cells.collect::<String>().trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let found = serde_json::json!({
            "rate_bits_per_s": 9_420_000, "pace_bits_per_s": 9_200_000, "limit": "line", "age_s": 12.4,
        });
        assert_eq!(uplink_line(&found), "rate 9.42 Mbit/s    pace 9.20 Mbit/s  limit line     age 12 s");
        let old = serde_json::json!({
            "rate_bits_per_s": 9_420_000, "pace_bits_per_s": 9_200_000, "limit": "line", "age_s": 10_800.0,
        });
        assert!(uplink_line(&old).ends_with("  age 3 h"), "{}", uplink_line(&old));
        let none =
            serde_json::json!({ "rate_bits_per_s": null, "pace_bits_per_s": null, "limit": null, "age_s": null });
        assert_eq!(uplink_line(&none), "rate not found yet  pace none         limit -        age -");
        let told = serde_json::json!({ "rate_bits_per_s": null, "pace_bits_per_s": 9_800_000, "limit": "ceiling", "age_s": null });
        assert_eq!(uplink_line(&told), "rate as configured  pace 9.80 Mbit/s  limit ceiling  age -");
        // The samples of docs/line.md.
        let page = include_str!("../../../docs/line.md");
        for sample in [uplink_line(&none), uplink_line(&found), uplink_line(&told)] {
            assert!(page.lines().any(|shown| shown == sample), "docs/line.md lacks `{sample}`");
        }
        assert_eq!(uplink_line(&Value::Null), "nothing is paced");
    }

    #[test]
    fn an_answer_that_is_cut_asks_for_another() {
        let answer = "{\"classes\":[";
        let said = unreadable(answer, &serde_json::from_str::<Value>(answer).unwrap_err());
        assert!(
            said.starts_with("an answer of 12 bytes is not JSON (EOF ") && said.contains("run `weir status` again"),
            "{said}"
        );
    }

    #[test]
    fn a_route_is_a_row() {
        let told = serde_json::json!({ "known": 300, "routes": [
            { "route": "a GET /x 2xx text/html -", "finished": 40, "aborted": 2, "median_bytes": 2000, "p99_bytes": 9000,
              "predicted": 24, "below_median_percent": 51.26, "below_p99_percent": 100.0, "service_ms": 12.34 },
            { "route": "a GET /y 2xx - -", "finished": 0, "aborted": 1, "median_bytes": null, "p99_bytes": null,
              "predicted": 0, "below_median_percent": null, "below_p99_percent": null, "service_ms": null },
        ]});
        let lines = routes_said(1, &told);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[1]), "40 2 2000 9000 24 51.3 % 100.0 % 12.3 ms a GET /x 2xx text/html -");
        assert_eq!(words(&lines[2]), "0 1 - - 0 - - - a GET /y 2xx - -");
        assert_eq!(lines[3], "2 of 300 routes");
        assert!(
            routes_said(1, &serde_json::json!({ "known": 0, "routes": [] }))[0].contains("has passed no requests on")
        );
    }

    #[test]
    fn a_certificate_is_a_row() {
        let now = 1_800_000_000;
        let told = serde_json::json!({ "known": 102, "hosts": [
            { "host": "new.test", "not_after": null, "next_order": now + 90, "failed_at": now - 30, "failure": "no such\nhost" },
            { "host": "old.test", "not_after": now - 2 * 86_400, "next_order": now, "failed_at": now - 7200, "failure": null },
            { "host": "a.test", "not_after": now + 89 * 86_400, "next_order": null, "failed_at": null, "failure": null },
        ]});
        let lines = certificates(&told, now);
        let words =
            |line: &str| line.split("  ").filter(|word| !word.is_empty()).map(str::trim).collect::<Vec<_>>().join("|");
        let rows: Vec<String> = lines.iter().map(|line| words(line)).collect();
        assert_eq!(
            rows,
            [
                "certificate|expires|next order|last failure",
                "new.test|none yet|in 90 s|30 s ago: no such host",
                "old.test|2 days ago|now|2 h ago: see the error log",
                "a.test|in 89 days|by another process|-",
                "3 of 102 certificates, those that expire first",
            ]
        );
        assert!(certificates(&serde_json::json!({ "known": 0, "hosts": [] }), now).is_empty());
        assert!(certificates(&Value::Null, now).is_empty(), "of an older server");
    }

    #[test]
    fn a_class_is_a_row() {
        let told = serde_json::json!({
            "name": "paid", "in_file": true, "responses": 900, "bytes": 5_000_000, "running": 3, "asleep": 2, "asleep_s_max": 1.25,
            "objective": { "text": "p99 of responses under 1s",
                "last_minute": { "responses": 812, "missed": 25, "met_percent": 96.92, "burn": 3.08 },
                "since_start": { "responses": 0, "missed": 0, "met_percent": null, "burn": null } },
        });
        let expected =
            ["paid", "900", "5000000", "3", "2", "1.2 s", "96.9 % of 812, burn 3.1", "-", "p99 of responses under 1s"];
        assert_eq!(row(&told), expected);
        let plain = serde_json::json!({
            "name": "old", "in_file": false, "responses": 1, "bytes": 2, "running": 0, "asleep": 0, "asleep_s_max": null,
            "objective": null,
        });
        assert_eq!(row(&plain)[0], "old (not in the file)");
        let lines = aligned(&[row(&told), row(&plain)]);
        assert!(lines[1].ends_with("  -") && lines[0].find("900") == lines[1].find("1  "), "{lines:#?}");
    }
}
