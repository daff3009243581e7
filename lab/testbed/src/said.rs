//! The messages of a server about its line during a run: the lines of its log with `weir: uplink`, each with the second
//! in which it appeared, as `uplink.csv` in the run's folder.

use std::fmt::Write as _;
use std::path::Path;

use crate::LabError;
use crate::server::SERVER_LOG;

pub(crate) const FILE: &str = "uplink.csv";
const HEADING: &str = "at_s,text\n";
/// The mark in each line of the log. It follows the time that lines on standard error have, and precedes messages such
/// as `uplink 9.42 Mbit/s: found` and `uplink: pace lowered`.
const PREFIX: &str = "weir: ";
const MARKS: [&str; 2] = ["uplink ", "uplink: "];
/// The maximum number of lines. More than one in a tenth of a second of the longest run are not messages for an
/// operator.
const LINES_MAX: usize = 1_000_000;

/// Writes `uplink.csv` (`at_s,text`) if there is anything to write. A line counts from the first sample in which the
/// log had reached its length, so up to 100 ms late.
pub(crate) fn write(folder: &Path, lengths: &[(u64, u64)]) -> Result<(), LabError> {
    let log = folder.join(SERVER_LOG);
    let bytes = std::fs::read(&log).map_err(|e| LabError::path(&log, e))?;
    let text = table(&String::from_utf8_lossy(&bytes), lengths);
    keep(&folder.join(FILE), &text)
}

/// Writes rows of seconds and quoted texts, unless there are none.
pub(crate) fn keep(file: &Path, rows: &str) -> Result<(), LabError> {
    if rows.is_empty() {
        return Ok(());
    }
    std::fs::write(file, format!("{HEADING}{rows}")).map_err(|e| LabError::path(file, e))
}

/// Returns the rows. `lengths` has nanoseconds since the load began, and the bytes of the log at that time.
fn table(log: &str, lengths: &[(u64, u64)]) -> String {
    let (mut table, mut end) = (String::new(), 0);
    for line in log.split_inclusive('\n').take(LINES_MAX) {
        end += line.len() as u64;
        let (time, words) = line.split_once(PREFIX).unwrap_or((line, ""));
        if !(time.is_empty() || time.ends_with("Z ")) || !MARKS.iter().any(|mark| words.starts_with(mark)) {
            continue;
        }
        let since = lengths.partition_point(|(_, length)| *length < end);
        // A message after the last sample was written as the server ended.
        let Some((ns, _)) = lengths.get(since) else { continue };
        let said = words.trim_end().replace('"', "\"\"");
        let _ = writeln!(table, "{},\"{said}\"", *ns as f64 / 1e9);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_at_which_the_log_was_so_long() {
        let log = "weir: serving (--uplink auto)\nweir: uplink: found 9.7mbit, \"x\"\nuplink \n2026-11-27T01:02:03.456Z weir: uplink 5.00 Mbit/s: found\nweir: uplink: late\n";
        let ends: Vec<u64> = log.match_indices('\n').map(|(at, _)| at as u64 + 1).collect();
        let lengths = [(0, ends[0]), (100_000_000, ends[1] - 1), (200_000_000, ends[1]), (300_000_000, ends[3])];
        let want = "0.2,\"uplink: found 9.7mbit, \"\"x\"\"\"\n0.3,\"uplink 5.00 Mbit/s: found\"\n";
        assert_eq!(table(log, &lengths), want);
        assert_eq!(table("weir: serving (--uplink auto)\n", &lengths), "");
        assert_eq!(table(log, &[]), "", "a run without samples");
    }
}
