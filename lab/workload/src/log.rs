//! A request log as it was recorded, and the trace of arrivals derived from it.

use units::Nanos;

use crate::{BadLines, Format, spread};

/// A request of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The instant since 1970, or since the log's own zero.
    pub at: Nanos,
    /// The size; 0 if the log does not record it.
    pub size_bytes: u64,
    /// The HTTP status; `None` if the log does not record it.
    pub status: Option<u16>,
    /// The client by the log's own number, or by its host's number in the order of the file; `None` if the log names no
    /// client.
    pub client: Option<u32>,
}

/// A request log, sorted by time; requests of one instant keep the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    pub format: Format,
    pub requests: Vec<Request>,
    /// True if no instant of the file has a fraction, so requests within a second must be spread.
    pub whole_seconds: bool,
    pub bad: BadLines,
}

impl Log {
    /// Returns the requests that loads replay: those that were answered 200, or whose status is not recorded, with a
    /// body.
    pub fn answered(&self) -> Log {
        let is_wanted =
            |request: &&Request| request.size_bytes > 0 && request.status.is_none_or(|status| status == 200);
        Log { requests: self.requests.iter().filter(is_wanted).copied().collect(), bad: self.bad.clone(), ..*self }
    }

    /// Returns the arrivals of this log. Whole seconds are spread by [`spread`]; fractions are kept exactly.
    pub fn trace(&self, seed: u64) -> Trace {
        let mut at: Vec<Nanos> = self.requests.iter().map(|request| request.at).collect();
        if self.whole_seconds {
            spread::inside_seconds(&mut at, seed);
        }
        let start = at.first().copied().unwrap_or(Nanos::ZERO);
        let arrival = |(&at, &Request { size_bytes, client, .. })| Arrival { at: at - start, size_bytes, client };
        Trace { arrivals: at.iter().zip(&self.requests).map(arrival).collect() }
    }
}

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The instant since the first request of the trace.
    pub at: Nanos,
    pub size_bytes: u64,
    /// The client, as in [`Request`].
    pub client: Option<u32>,
}

/// The instants of requests and their sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The arrivals, sorted by time; the first is at 0.
    pub arrivals: Vec<Arrival>,
}

impl Trace {
    /// The time from the first arrival to the last.
    pub fn span(&self) -> Nanos {
        self.arrivals.last().map_or(Nanos::ZERO, |last| last.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, read};

    fn log() -> Log {
        let text = "7,0,200\n5,10,200\n6,20,304\n5,30,\n6,40,200\n";
        read(text.as_bytes(), &ReadOptions { format: Some(Format::Csv), ..ReadOptions::default() }).unwrap()
    }

    fn sizes(log: &Log) -> Vec<u64> {
        log.requests.iter().map(|request| request.size_bytes).collect()
    }

    #[test]
    fn is_sorted_and_keeps_file_order_inside_a_second() {
        assert_eq!(sizes(&log()), [10, 30, 20, 40, 0]);
    }

    #[test]
    fn loads_replay_bodies_that_were_sent() {
        assert_eq!(sizes(&log().answered()), [10, 30, 40]);
    }

    #[test]
    fn whole_seconds_are_spread_and_start_at_zero() {
        let trace = log().trace(1);
        assert_eq!(trace.arrivals.iter().map(|arrival| arrival.size_bytes).collect::<Vec<_>>(), sizes(&log()));
        assert_eq!(trace.arrivals[0].at, Nanos::ZERO);
        assert!(trace.arrivals.is_sorted_by_key(|arrival| arrival.at));
        assert!(trace.arrivals[1].at > Nanos::ZERO, "two requests of one second do not arrive together");
        assert_eq!(trace, log().trace(1));
        assert_ne!(trace, log().trace(2));
    }

    #[test]
    fn fractions_are_kept_exactly() {
        let log = read("1.000000001,1\n1.5,2\n2,3\n".as_bytes(), &ReadOptions::default()).unwrap();
        let at: Vec<u64> = log.trace(9).arrivals.iter().map(|arrival| arrival.at.0).collect();
        assert_eq!(at, [0, 499_999_999, 999_999_999]);
    }
}
