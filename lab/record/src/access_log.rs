//! The access log of `weir` in JSON (`--log-format json`), read as the records of a run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use crate::{FileError, JobRecord, Manifest, Outcome, Run};

/// The maximum length of a line: a request head is below 64 KiB, and a byte takes at most 6 characters in JSON.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// From this status on, a response is not the one asked for (RFC 9110 sections 15.5 and 15.6).
const ERROR_STATUS_MIN: u16 = 400;

/// The group of responses from before classes were configured, in a log that continues over a reload.
const NO_CLASS: &str = "-";

/// The fields of a line that are used here.
#[derive(Deserialize)]
struct Line {
    start_time: StartTime,
    remote_addr: String,
    status: u16,
    content_length: u64,
    head_bytes: u64,
    body_bytes: u64,
    first_byte_ms: Option<f64>,
    duration_ms: f64,
    connection_reused: bool,
    class: Option<String>,
    client_over_share_bytes: Option<u64>,
    outcome: Outcome,
}

/// A time in UTC with a fraction of a second, in nanoseconds since 1970.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct StartTime(u64);

impl TryFrom<String> for StartTime {
    type Error = String;

    fn try_from(text: String) -> Result<StartTime, String> {
        let wrong = || format!("start_time `{text}`: expected a time such as 2026-11-21T10:00:00.123456789Z");
        unix_ns(&text).map(StartTime).ok_or_else(wrong)
    }
}

/// Reads `2026-11-21T10:00:00.123456789Z` (RFC 3339), from 1970 on.
fn unix_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.strip_suffix('Z')?.split_once('.')?;
    let is_form = seconds.bytes().zip(*b"0000-00-00T00:00:00").all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        mark => byte == mark,
    });
    if !is_form || seconds.len() != 19 || fraction.len() != 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |from: usize, to: usize| seconds[from..to].parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let of_day = (number(11, 13)? * 60 + number(14, 16)?) * 60 + number(17, 19)?;
    if year < 1970 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // Years begin with March, so that the day of a leap year is the last.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - DAYS_BEFORE_1970;
    (days * 86_400 + of_day).checked_mul(1_000_000_000)?.checked_add(fraction.parse().ok()?)
}

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

impl Line {
    /// The record of this line, with instants counted from `origin_ns`.
    fn record(&self, job: usize, origin_ns: u64, group: usize, client: usize) -> JobRecord {
        let arrival_ns = self.start_time.0 - origin_ns;
        let after = |ms: f64| arrival_ns.saturating_add((ms * 1e6).round() as u64);
        let is_wrong = self.outcome == Outcome::Complete && self.status >= ERROR_STATUS_MIN;
        JobRecord {
            job: job as u64,
            size_bytes: self.content_length,
            head_bytes: self.head_bytes,
            arrival_ns,
            start_ns: None,
            first_byte_ns: self.first_byte_ms.map(after),
            end_ns: after(self.duration_ms),
            body_bytes: self.body_bytes,
            status: self.status,
            outcome: if is_wrong { Outcome::Wrong } else { self.outcome },
            attempts: 1,
            group: group as u32,
            client: Some(client as u32),
            ahead_bytes: self.client_over_share_bytes,
        }
    }
}

/// Numbers for names, in the order in which they first appear.
#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(name.into()).or_insert(next)
    }

    fn in_order(self) -> Vec<String> {
        let mut names: Vec<_> = self.0.into_iter().collect();
        names.sort_by_key(|(_, number)| *number);
        names.into_iter().map(|(name, _)| name).collect()
    }
}

impl Run {
    /// Reads an access log in JSON as a run that its server recorded: one record for each line, in order of arrival,
    /// with the classes as groups and the addresses as clients. The errors name the line: `FILE:LINE: reason`.
    pub fn read_access_log(path: &Path) -> Result<Run, FileError> {
        let mut lines = read(path)?;
        lines.sort_by_key(|line| line.start_time.0);
        let origin_ns = lines.first().map_or(0, |line| line.start_time.0);
        let has_classes = lines.iter().any(|line| line.class.is_some());
        let (mut classes, mut clients) = (Names::default(), Names::default());
        let records: Vec<JobRecord> = (0..)
            .zip(&lines)
            .map(|(job, line)| {
                let group = if has_classes { classes.number(line.class.as_deref().unwrap_or(NO_CLASS)) } else { 0 };
                line.record(job, origin_ns, group, clients.number(&line.remote_addr))
            })
            .collect();
        let connections = lines.iter().filter(|line| !line.connection_reused).count() as u64;
        let manifest = manifest(path, &records, connections);
        Ok(Run { manifest: Manifest { clients: classes.in_order(), ..manifest }, records, pages: vec![] })
    }
}

fn read(path: &Path) -> Result<Vec<Line>, FileError> {
    let failed = |error: std::io::Error| FileError::new(path, error);
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let (mut lines, mut text) = (Vec::new(), Vec::new());
    for number in 1.. {
        text.clear();
        if reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text).map_err(failed)? == 0 {
            break;
        }
        let line = serde_json::from_slice(&text).map_err(|error| {
            // The error counts the lines of its text, which is one.
            let reason = error.to_string();
            let reason = reason.split(" at line 1 ").next().unwrap_or_default();
            FileError::in_line(path, number, format!("{reason}; expected a line of `weir serve --log-format json`"))
        })?;
        lines.push(line);
    }
    Ok(lines)
}

/// The manifest of a log; fields that a log does not contain are `unknown`.
fn manifest(path: &Path, records: &[JobRecord], connections: u64) -> Manifest {
    let seconds = records.iter().map(|record| record.end_ns).max().unwrap_or_default() as f64 / 1e9;
    let connections = connections.max(1);
    let manifest = Manifest {
        server: "weir".into(),
        per_connection: ((records.len() as u64 + connections / 2) / connections).max(1),
        seconds,
        environment: BTreeMap::from([("connections".into(), connections.to_string())]),
        ..Manifest::new(&path.file_stem().unwrap_or_default().to_string_lossy())
    };
    manifest.of_server()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line for a response of 1,000 bytes that arrived this many milliseconds after the first, and took five.
    fn line(arrival_ms: u64, rest: &str) -> String {
        format!(
            "{{\"start_time\":\"2026-11-21T10:00:00.{:09}Z\",\"remote_addr\":\"198.18.0.7\",\"method\":\"GET\",\"uri\":\"/\",\
             \"protocol\":\"HTTP/1.1\",\"status\":200,\"content_length\":1000,\"head_bytes\":200,\"body_bytes\":1000,\
             \"first_byte_ms\":1.000001,\"duration_ms\":5.000000{rest},\"outcome\":\"complete\"}}\n",
            1 + arrival_ms * 1_000_000
        )
    }

    fn read(name: &str, text: &str) -> Result<Run, FileError> {
        let path = std::env::temp_dir().join(format!("weir-{name}-{}.json", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let run = Run::read_access_log(&path);
        std::fs::remove_file(&path).unwrap();
        run
    }

    /// A line is written when its response ends.
    #[test]
    fn responses_are_jobs_by_arrival() {
        let (opens, kept) = (",\"connection_reused\":false", ",\"connection_reused\":true");
        let of_class = |name: &str| format!("{kept},\"class\":\"{name}\",\"client_over_share_bytes\":7");
        let text = line(7, &of_class("b")) + &line(5, &of_class("a")) + &line(0, &format!("{opens},\"class\":\"a\""));
        let run = read("arrival", &text).unwrap();
        let seen: Vec<_> = run.records.iter().map(|row| (row.job, row.arrival_ns / 1_000_000, row.group)).collect();
        assert_eq!(seen, [(0, 0, 0), (1, 5, 0), (2, 7, 1)]);
        assert_eq!(run.manifest.clients, ["a", "b"]);
        let last = &run.records[2];
        assert_eq!((last.first_byte_ns, last.end_ns, last.client), (Some(8_000_001), 12_000_000, Some(0)));
        assert_eq!((last.size_bytes, last.head_bytes, last.body_bytes, last.status), (1000, 200, 1000, 200));
        assert_eq!((last.outcome, last.start_ns, last.ahead_bytes), (Outcome::Complete, None, Some(7)));
        assert_eq!((run.manifest.environment["recorded_by"].as_str(), run.manifest.per_connection), ("server", 3));
    }

    #[test]
    fn responses_from_before_there_were_classes_are_a_group() {
        let text = line(0, ",\"connection_reused\":false") + &line(1, ",\"connection_reused\":true,\"class\":\"a\"");
        let run = read("reload", &text).unwrap();
        assert_eq!(run.records.iter().map(|row| row.group).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(run.manifest.clients, ["-", "a"]);
    }

    #[test]
    fn an_error_is_not_what_was_asked_for() {
        let text = line(0, ",\"connection_reused\":false");
        let outcome = |text: &str| read("outcome", text).unwrap().records[0].outcome;
        assert_eq!(outcome(&text.replace("200,\"content", "404,\"content")), Outcome::Wrong);
        for expected in [Outcome::Reset, Outcome::Incomplete, Outcome::Wrong] {
            let text = text.replace("complete", expected.name());
            assert_eq!(outcome(&text), expected);
            assert_eq!(outcome(&text.replace("\"first_byte_ms\":1.000001,", "")), expected);
        }
    }

    #[test]
    fn times_are_read_to_the_nanosecond() {
        for (text, ns) in [
            ("1970-01-01T00:00:00.000000001Z", Some(1)),
            ("2000-02-29T12:34:56.000000000Z", Some(951_827_696_000_000_000)),
            ("2000-03-01T00:00:00.000000000Z", Some(951_868_800_000_000_000)),
            ("2026-11-21T09:59:59.987654322Z", Some(1_795_255_199_987_654_322)),
            ("2026-11-21T09:59:59Z", None),
            ("2026-13-21T09:59:59.000000000Z", None),
            ("2026-11-21 09:59:59.000000000Z", None),
            ("9999-12-31T23:59:59.999999999Z", None),
            ("", None),
        ] {
            assert_eq!(unix_ns(text), ns, "{text}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let good = line(0, ",\"connection_reused\":false");
        let said = |name: &str, text: &str| read(name, text).unwrap_err().to_string();
        let older = said("older", &(good.clone() + &good.replace("\"head_bytes\":200,", "")));
        assert!(older.contains(".json:2: missing field `head_bytes`; expected a line of `weir serve"), "{older}");
        let torn = said("torn", &(good.clone() + &good.clone() + &good[..40]));
        assert!(torn.contains(".json:3: EOF while parsing"), "{torn}");
        assert!(said("combined", "127.0.0.1 - - [").contains(".json:1: "));
        let absent = Run::read_access_log(Path::new("/nonexistent/a.json")).unwrap_err().to_string();
        assert!(absent.starts_with("/nonexistent/a.json: No such file"), "{absent}");
    }

    #[test]
    fn a_log_without_lines_is_a_run_without_jobs() {
        let run = read("empty", "").unwrap();
        assert!(run.records.is_empty() && run.manifest.seconds == 0.0);
    }
}
