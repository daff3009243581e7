//! A trace with the times of one log and the sizes of another, where no log has both.
//!
//! Of the World Cup's busiest days only gaps between requests could be had, of a quiet day only every sixth request with its
//! size. Together they have the days' rise and fall and the sizes' tail, but no connection between the two. Look at the gaps
//! before you believe in their bursts (`weirlab trace info`): those of day 53 that are passed around have a squared variation
//! of 0.02 within any ten minutes, far less than Poisson arrivals: they have been smoothed.

use std::io::{self, BufRead};

use units::Nanos;

use crate::input::{self, Line};
use crate::{BadLines, EPOCH_S_MAX, Format, Log, REQUESTS_MAX, Request, endless};

/// The longest gap between two requests: above it the numbers are not seconds.
const GAP_S_MAX: f64 = 86_400.0;

/// Why there is no such trace.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Line, from 1, and what stands there.
    #[error("line {0}: `{1}` is no gap: write seconds from 0 to {GAP_S_MAX}, one number a line")]
    NotAGap(u64, String),
    #[error("none of its requests has a body and status 200 (or no status)")]
    NoSizes,
    #[error("more than {REQUESTS_MAX} gaps: cut them")]
    TooMany,
    /// The line, from 1, at which the gaps so far are longer than any log.
    #[error("line {0}: the gaps add up to more than {EPOCH_S_MAX} s: cut them")]
    TooLong(u64),
}

/// Requests with these gaps between them (seconds, one a line, gzipped or not). The first comes after the first gap.
///
/// Sizes are those of `sizes` in their order, then, when they are used up, again and again in orders drawn by the seed.
pub fn pair(gaps: impl BufRead, sizes: &Log, seed: u64) -> Result<Log, PairError> {
    let list: Vec<u64> = sizes.requests.iter().map(|request| request.size_bytes).filter(|&size| size > 0).collect();
    if list.is_empty() {
        return Err(PairError::NoSizes);
    }
    let mut input = input::open(gaps)?;
    let (mut line, mut number, mut at_s) = (Vec::new(), 0, 0.0);
    let (mut requests, mut sizes) = (Vec::new(), endless(list, seed));
    loop {
        number += 1;
        let found = input::next_line(&mut *input.bytes, &mut line)?;
        if found == Line::End {
            break;
        }
        at_s += gap(&line).ok_or_else(|| {
            let start = &line[..line.len().min(40)];
            PairError::NotAGap(number, String::from_utf8_lossy(start).into_owned())
        })?;
        if requests.len() == REQUESTS_MAX {
            return Err(PairError::TooMany);
        }
        // Where time would no longer fit its nanoseconds.
        if at_s > EPOCH_S_MAX as f64 {
            return Err(PairError::TooLong(number));
        }
        let at = Nanos((at_s * 1e9).round() as u64);
        requests.extend(sizes.next().map(|size_bytes| Request { at, size_bytes, status: None, client: None }));
    }
    Ok(Log { format: Format::Csv, requests, whole_seconds: false, bad: BadLines::default() })
}

fn gap(line: &[u8]) -> Option<f64> {
    let seconds: f64 = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
    (0.0..=GAP_S_MAX).contains(&seconds).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, read};

    fn sizes() -> Log {
        read("epoch_s,size_bytes\n5,10\n6,0\n7,20\n8,30\n".as_bytes(), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn times_of_one_and_sizes_of_the_other() {
        let log = pair("0.5\n0\n1.25\n3\n".as_bytes(), &sizes(), 1).unwrap();
        let found: Vec<(u64, u64)> = log.requests.iter().map(|request| (request.at.0, request.size_bytes)).collect();
        assert_eq!(found[..3], [(500_000_000, 10), (500_000_000, 20), (1_750_000_000, 30)]);
        assert!(found[3].0 == 4_750_000_000 && [10, 20, 30].contains(&found[3].1), "from the start again");
        assert!(pair("".as_bytes(), &sizes(), 1).unwrap().requests.is_empty());
    }

    #[test]
    fn what_is_no_gap_is_named_by_its_line() {
        for wrong in ["-1", "x", "nan", "90000", ""] {
            let said = pair(format!("0.5\n{wrong}\n1\n").as_bytes(), &sizes(), 1).unwrap_err().to_string();
            assert!(said.starts_with(&format!("line 2: `{wrong}` is no gap")), "{said}");
        }
        let said = pair("86400\n".repeat(120_000).as_bytes(), &sizes(), 1).unwrap_err().to_string();
        assert!(said.starts_with("line 115741: the gaps add up to more than"), "{said}");
        let none = read("epoch_s,size_bytes\n5,0\n".as_bytes(), &ReadOptions::default()).unwrap();
        assert!(matches!(pair("1\n".as_bytes(), &none, 1), Err(PairError::NoSizes)));
    }
}
