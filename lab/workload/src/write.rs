//! Writes our own CSV. Reading it again gives the same requests, to the nanosecond.

use std::io::{self, BufWriter, Write};

use flate2::{Compression, GzBuilder};
use units::Nanos;

use crate::{Log, Request};

/// Writes `epoch_s,size_bytes,status,client`, gzipped if requested; trailing columns that no request has are left out.
///
/// Whole seconds stay whole, so that the reader's seed spreads them; other instants keep every digit.
pub fn write_csv(log: &Log, gzip: bool, out: impl Write) -> io::Result<()> {
    if gzip {
        // The header has no name and no time, so the same requests give the same bytes.
        let encoder = GzBuilder::new().write(out, Compression::best());
        let mut buffered = BufWriter::new(encoder);
        write_rows(log, &mut buffered)?;
        buffered.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()
    } else {
        let mut buffered = BufWriter::new(out);
        write_rows(log, &mut buffered)?;
        buffered.flush()
    }
}

fn write_rows(log: &Log, out: &mut impl Write) -> io::Result<()> {
    let has_status = log.requests.iter().any(|request| request.status.is_some());
    let has_client = log.requests.iter().any(|request| request.client.is_some());
    let columns = [",status", ",client"];
    let shown = if has_client { 2 } else { usize::from(has_status) };
    writeln!(out, "epoch_s,size_bytes{}", columns[..shown].concat())?;
    for Request { at, size_bytes, status, client } in &log.requests {
        write_instant(*at, log.whole_seconds, out)?;
        write!(out, ",{size_bytes}")?;
        for column in [status.map(u32::from), *client].into_iter().take(shown) {
            match column {
                Some(number) => write!(out, ",{number}")?,
                None => write!(out, ",")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes `5` for a whole second; otherwise at least one decimal, so that `5.0` is known to be exact.
fn write_instant(at: Nanos, is_whole: bool, out: &mut impl Write) -> io::Result<()> {
    let (second, nanos) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
    if is_whole {
        return write!(out, "{second}");
    }
    let digits = format!("{nanos:09}");
    let significant = digits.trim_end_matches('0');
    write!(out, "{second}.{}", if significant.is_empty() { "0" } else { significant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadLines, Format, ReadOptions, read};
    use proptest::prelude::*;

    fn written(log: &Log, gzip: bool) -> Vec<u8> {
        let mut out = Vec::new();
        write_csv(log, gzip, &mut out).unwrap();
        out
    }

    #[test]
    fn as_a_person_would_write_it() {
        for text in [
            "epoch_s,size_bytes,status\n5,0,304\n6,7,\n",
            "epoch_s,size_bytes,status,client\n5,0,304,7\n6,7,,\n6,7,,0\n",
            "epoch_s,size_bytes\n0.0,1\n0.000000001,2\n12.5,3\n",
            "epoch_s,size_bytes\n",
        ] {
            let log = read(text.as_bytes(), &ReadOptions::default()).unwrap();
            let whole_seconds = log.whole_seconds && !log.requests.is_empty();
            let log = Log { whole_seconds, ..log };
            assert_eq!(String::from_utf8(written(&log, false)).unwrap(), text);
        }
    }

    #[test]
    fn a_full_disk_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = read("1,2\n".as_bytes(), &ReadOptions::default()).unwrap();
        for gzip in [false, true] {
            assert_eq!(write_csv(&log, gzip, Full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }

    proptest! {
        #[test]
        fn reads_back(
            rows in prop::collection::vec(
                (0u64..1 << 62, 0u64..1 << 50, prop::option::of(0u16..1000), prop::option::of(0u32..10)),
                1..50
            ),
            whole_seconds: bool,
            gzip: bool,
        ) {
            let unit = if whole_seconds { 1_000_000_000 } else { 1 };
            let request = |(at, size_bytes, status, client)| {
                Request { at: Nanos(at / unit * unit), size_bytes, status, client }
            };
            let mut requests: Vec<Request> = rows.into_iter().map(request).collect();
            requests.sort_by_key(|request| request.at);
            let log = Log { format: Format::Csv, requests, whole_seconds, bad: BadLines::default() };
            prop_assert_eq!(read(&written(&log, gzip)[..], &ReadOptions::default()).unwrap(), log);
        }
    }
}
