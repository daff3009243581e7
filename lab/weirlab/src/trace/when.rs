//! Parses instants as written on the command line.

use std::str::FromStr;

use workload::{EPOCH_S_MAX, Log};

/// A second of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Seconds since 1970, or since the trace's own zero.
    Epoch(u64),
    /// Seconds after midnight UTC of the trace's first busy day.
    Clock(u64),
}

impl When {
    pub fn epoch_s(self, log: &Log) -> u64 {
        match self {
            When::Epoch(second) => second,
            When::Clock(second) => log.first_busy_day().unwrap_or(0) + second,
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        let epoch = text.parse::<u64>().ok().filter(|&second| second <= EPOCH_S_MAX);
        let found = epoch.or_else(|| workload::parse_iso(text)).map(When::Epoch);
        found.or_else(|| workload::parse_clock(text).map(When::Clock)).ok_or_else(|| {
            "not a time: write 1998-05-01T16:00:00Z, or 16:00 of the trace's first busy day (both UTC), or seconds \
             since 1970"
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_written() {
        for (text, when) in [
            ("894038400", When::Epoch(894_038_400)),
            ("1998-05-01T16:00:00Z", When::Epoch(894_038_400)),
            ("16:00", When::Clock(57_600)),
            ("30", When::Epoch(30)),
        ] {
            assert_eq!(text.parse(), Ok(when));
        }
        for wrong in ["", "4pm", "16h", "-5", "1998-05-01", "99999999999"] {
            assert!(wrong.parse::<When>().unwrap_err().contains("16:00"));
        }
    }
}
