//! The lines of an access log in JSON (`--log-format json`), as tests read them.

use std::path::Path;

use serde::Deserialize;

/// The fields of a line that tests read.
#[derive(Debug, Deserialize)]
pub struct LogLine {
    start_time: String,
    pub status: u16,
    pub content_length: u64,
    pub head_bytes: u64,
    pub body_bytes: u64,
    pub first_byte_ms: Option<f64>,
    pub duration_ms: f64,
    pub connection_reused: bool,
    pub class: Option<String>,
    pub outcome: String,
}

/// Reads a log. Its lines are sorted by the arrival of their requests.
pub fn read_log(path: &Path) -> Result<Vec<LogLine>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let read = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    let mut lines: Vec<LogLine> = text.lines().map(read).collect::<Result<_, _>>()?;
    lines.sort_by(|one, other| one.start_time.cmp(&other.start_time));
    Ok(lines)
}
