use std::fs;
use std::path::Path;

use record::Manifest;
use serde::Serialize;
use units::Rate;

use crate::ReportError;

/// Rates of a line that changes: seconds since the load began, bits per second.
const LINE: &str = "line.csv";
/// What a server's own words begin with; those of what shapes for it do not.
const OF_SERVER: &str = "uplink";
/// What stands before a rate that is no more.
const BEFORE: &str = "before";
/// What the server answered once a second: second, rate found, pace, what limits it, age.
const PACE: &str = "pace.csv";
/// What the server said of the line: seconds since the load began, its words.
const UPLINK: &str = "uplink.csv";

/// What was seen of a run's line beside its requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineSeen {
    /// When how many bytes had left the bottleneck, seconds and bytes.
    pub sent: Vec<(f64, f64)>,
    /// From when on which rate the line had, bits per second; empty where it always had the link's.
    pub rates: Vec<(f64, f64)>,
    pub notices: Vec<Notice>,
    /// What the server answered when it was asked, by the second.
    pub paces: Vec<Pace>,
}

/// What a server knew of its line.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pace {
    /// What it found, and what it used of it, bits per second.
    pub found_bps: Option<u64>,
    pub pace_bps: Option<u64>,
    /// What limits the pace.
    pub limit: String,
}

/// What a server said of the line.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub at_s: f64,
    pub text: String,
}

/// One second of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineSecond {
    /// It begins then.
    pub second: u64,
    /// What left the bottleneck.
    pub sent_bps: f64,
    /// What it could have let out.
    pub line_bps: f64,
    /// What the server, or what shapes for it, said last before the second ended, and the rate that it ends with: its pace from then on.
    pub said_bps: Option<u64>,
    pub said: String,
    /// What the server knew when the second began.
    pub pace: Pace,
}

impl LineSeen {
    /// The counter among a run's samples that says what left the bottleneck.
    pub const SENT: &str = "link_sent_bytes_total";

    /// Of the run in this folder, with that counter: nanoseconds since the load began, and bytes. A file that is not there says nothing.
    pub fn read(folder: &Path, sent: &[(u64, u64)]) -> Result<LineSeen, ReportError> {
        let sent = sent.iter().map(|&(ns, bytes)| (ns as f64 / 1e9, bytes as f64)).collect();
        let rates = rows(folder, LINE)?.into_iter().map(|(at, rate)| Some((at, rate.parse().ok()?)));
        let rates: Option<Vec<(f64, f64)>> = rates.collect();
        let rates = rates.ok_or_else(|| bad(folder, LINE, "a rate is no number"))?;
        let notices = rows(folder, UPLINK)?.into_iter().map(|(at_s, text)| Notice { at_s, text }).collect();
        let paces = rows(folder, PACE)?.into_iter().map(|(_, rest)| Pace::read(&rest)).collect();
        Ok(LineSeen { sent, rates, notices, paces })
    }

    /// When the server first named a rate of the line.
    pub fn found_s(&self) -> Option<f64> {
        let is_of_server = |notice: &&Notice| notice.text.starts_with(OF_SERVER) && notice.rate().is_some();
        self.notices.iter().find(is_of_server).map(|notice| notice.at_s)
    }

    /// Part of what the line could carry while requests arrived that it did.
    pub(super) fn used_share(&self, manifest: &Manifest) -> Option<f64> {
        let within: Vec<_> = self.sent.iter().filter(|(at, _)| *at <= manifest.seconds).collect();
        let (&&(from, first), &&(to, last)) = (within.first()?, within.last()?);
        let could = self.could_carry(from, to, manifest.link_bps as f64);
        (could > 0.0).then(|| 8.0 * (last - first) / could)
    }

    /// The seconds in which requests arrived.
    pub fn seconds(&self, manifest: &Manifest) -> Vec<LineSecond> {
        let seconds = manifest.seconds.max(0.0) as u64;
        let second = |second: u64| {
            let (from, to) = (second as f64, (second + 1) as f64);
            let said = self.notices.iter().rfind(|notice| notice.at_s < to);
            LineSecond {
                second,
                sent_bps: 8.0 * (self.sent_by(to) - self.sent_by(from)),
                line_bps: self.could_carry(from, to, manifest.link_bps as f64),
                said_bps: said.and_then(Notice::rate).map(Rate::bits_per_s),
                said: said.map_or_else(String::new, |notice| notice.text.clone()),
                pace: self.paces.get(second as usize).cloned().unwrap_or_default(),
            }
        };
        (0..seconds).map(second).collect()
    }

    /// Bytes by then, on the straight line between two samples.
    fn sent_by(&self, at: f64) -> f64 {
        let next = self.sent.partition_point(|(sample, _)| *sample < at);
        match (next.checked_sub(1).and_then(|last| self.sent.get(last)), self.sent.get(next)) {
            (Some((from, first)), Some((to, last))) => first + (last - first) * (at - from) / (to - from),
            (Some((_, bytes)), None) | (None, Some((_, bytes))) => *bytes,
            (None, None) => 0.0,
        }
    }

    /// Bits between two instants.
    fn could_carry(&self, from: f64, to: f64, link_bps: f64) -> f64 {
        let ends = self.rates.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
        let spans: Vec<(f64, f64, f64)> = match self.rates.is_empty() {
            true => vec![(0.0, f64::INFINITY, link_bps)],
            false => self.rates.iter().zip(ends).map(|(&(at, rate), end)| (at, end, rate)).collect(),
        };
        spans.iter().map(|(at, end, rate)| (to.min(*end) - from.max(*at)).max(0.0) * rate).sum()
    }
}

impl Pace {
    /// The cells behind the second. What is no number was not known.
    fn read(cells: &str) -> Pace {
        let mut cells = cells.split(',');
        let mut number = || cells.next().and_then(|cell| cell.parse().ok());
        let (found_bps, pace_bps) = (number(), number());
        Pace { found_bps, pace_bps, limit: cells.next().unwrap_or_default().to_owned() }
    }
}

impl Notice {
    /// The last rate in its words that is no former one, as `9.7mbit`, or `9.7 Mbit/s`: that from then on.
    pub fn rate(&self) -> Option<Rate> {
        let trimmed = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase();
            word.strip_suffix("/s").map_or(word.clone(), str::to_owned)
        };
        let words: Vec<String> = self.text.split_whitespace().map(trimmed).collect();
        let alone = |at: usize| words[at].parse().ok();
        let with_next = |at: usize| format!("{}{}", words[at], words.get(at + 1)?).parse().ok();
        let is_former = |at: usize| at.checked_sub(1).is_some_and(|last| words[last] == BEFORE);
        (0..words.len()).rev().filter(|at| !is_former(*at)).find_map(|at| alone(at).or_else(|| with_next(at)))
    }
}

/// Rows below the heading: seconds, and the rest of the line, out of its quotes.
fn rows(folder: &Path, name: &str) -> Result<Vec<(f64, String)>, ReportError> {
    let file = folder.join(name);
    if !file.exists() {
        return Ok(vec![]);
    }
    let text = fs::read_to_string(&file).map_err(|error| bad(folder, name, &error.to_string()))?;
    let row = |line: &str| {
        let (at, rest) = line.split_once(',')?;
        let rest = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(rest);
        Some((at.parse().ok()?, rest.replace("\"\"", "\"")))
    };
    let rows: Option<Vec<_>> = text.lines().skip(1).map(row).collect();
    rows.ok_or_else(|| bad(folder, name, "a row is not seconds and a value"))
}

fn bad(folder: &Path, name: &str, reason: &str) -> ReportError {
    ReportError::BadRun { run: folder.display().to_string(), reason: format!("{name}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::manifest;

    fn rate_in(text: &str) -> Option<u64> {
        Notice { at_s: 0.0, text: text.into() }.rate().map(Rate::bits_per_s)
    }

    #[test]
    fn a_rate_is_found_in_words() {
        assert_eq!(rate_in("uplink: found 9.7mbit, pacing at 98 %"), Some(9_700_000));
        assert_eq!(rate_in("uplink 4.02 Mbit/s, before 9.42 Mbit/s: pacing by it"), Some(4_020_000));
        assert_eq!(
            rate_in("uplink 9.42 Mbit/s: others fill the line, pacing is left as it is for 4 s"),
            Some(9_420_000)
        );
        let lowered = "uplink: 4.0 % of the bytes lost at 9.800 Mbit/s: pace lowered to 9.267 Mbit/s";
        assert_eq!(rate_in(lowered), Some(9_267_000));
        assert_eq!(rate_in("uplink: 5 seconds without a queue"), None);
    }

    #[test]
    fn a_rate_that_another_named_is_not_found_by_the_server() {
        let notice = |at_s, text: &str| Notice { at_s, text: text.into() };
        let mut seen = LineSeen { notices: vec![notice(0.5, "autorate: 3 ms: 9 Mbit/s")], ..LineSeen::default() };
        assert_eq!(seen.found_s(), None);
        seen.notices.extend([notice(0.6, "uplink: no queue yet"), notice(0.9, "uplink: found 9mbit")]);
        assert_eq!(seen.found_s(), Some(0.9));
    }

    #[test]
    fn what_a_line_could_carry_is_by_its_rate_at_each_time() {
        let rates = vec![(0.0, 8e6), (1.0, 4e6), (1.5, 8e6)];
        let notices = vec![
            Notice { at_s: 0.5, text: "uplink: looking".into() },
            Notice { at_s: 1.2, text: "uplink: found 4mbit".into() },
        ];
        let sent = vec![(0.0, 1000.0), (1.0, 501_000.0), (2.0, 1_001_000.0), (3.0, 9e9)];
        let seen = LineSeen { sent, rates, notices, ..LineSeen::default() };
        assert_eq!(seen.found_s(), Some(1.2));
        assert_eq!(seen.used_share(&manifest("a")), Some(8.0 / 14.0));
        let seconds = seen.seconds(&manifest("a"));
        let sent: Vec<_> = seconds.iter().map(|one| (one.second, one.sent_bps, one.line_bps, one.said_bps)).collect();
        assert_eq!(sent, [(0, 4e6, 8e6, None), (1, 4e6, 6e6, Some(4_000_000))]);
        let still = LineSeen { rates: vec![], ..seen };
        assert_eq!(still.used_share(&manifest("a")), Some(0.5));
        assert_eq!(LineSeen::default().used_share(&manifest("a")), None);
    }

    #[test]
    fn files_are_read_and_what_is_no_row_is_said() {
        let folder = std::env::temp_dir().join(format!("weir-line-seen-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let read = || LineSeen::read(&folder, &[]);
        assert_eq!(read().unwrap(), LineSeen::default());
        fs::write(folder.join(LINE), "at_s,rate_bps\n0,10000000\n0.5,5000000\n").unwrap();
        fs::write(folder.join(UPLINK), "at_s,text\n0.7,\"uplink: found 5mbit, \"\"x\"\"\"\n").unwrap();
        let seen = read().unwrap();
        assert_eq!(seen.rates, [(0.0, 1e7), (0.5, 5e6)]);
        assert_eq!(seen.notices, [Notice { at_s: 0.7, text: "uplink: found 5mbit, \"x\"".into() }]);
        fs::write(folder.join(PACE), "second,rate_bps,pace_bps,limit,age_s\n0,,,,\n1,9420000,9200000,line,0.5\n")
            .unwrap();
        let known = Pace { found_bps: Some(9_420_000), pace_bps: Some(9_200_000), limit: "line".into() };
        assert_eq!(read().unwrap().paces, [Pace::default(), known]);
        fs::write(folder.join(LINE), "at_s,rate_bps\n0,fast\n").unwrap();
        assert!(read().unwrap_err().to_string().ends_with("line.csv: a rate is no number"));
        fs::remove_dir_all(folder).unwrap();
    }
}
