//! The World Cup 98 logs of the Internet Traffic Archive: the original binary records and a sample of them as text.
//!
//! A record is 20 bytes, big-endian: u32 time (seconds since 1970), client, object, size; u8 method, status, type,
//! server. The two high bits of the status byte are the HTTP version, the low six an index into the archive's list of
//! statuses. A size of 0xFFFFFFFF stands for `-`. Field meanings are from the README of the archive's tools.

use units::Nanos;

use super::{Reason, client, size, status};
use crate::{Request, calendar};

pub(crate) const RECORD_BYTES: usize = 20;

/// The archive's list is 100–101, 200–206, 300–305, 400–415, 500–505 in that order, then "other".
const STATUS_RUNS: [(u16, u16); 5] = [(100, 2), (200, 7), (300, 6), (400, 16), (500, 6)];

/// The archive's "other": it is not an HTTP status, but not "unrecorded" either.
const STATUS_OTHER: u16 = 0;

/// Methods 0–7 are named, 8 is "other".
const METHOD_MAX: u8 = 8;

pub(crate) fn parse_record(record: &[u8; RECORD_BYTES]) -> Result<Request, Reason> {
    let [t0, t1, t2, t3, c0, c1, c2, c3, _, _, _, _, s0, s1, s2, s3, method, status, _, _] = *record;
    if method > METHOD_MAX {
        return Err("the method is none of the archive's nine: not a World Cup record, or out of step");
    }
    let status = status_at(status & 0x3f).ok_or("the status is none of the archive's 38")?;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    let size_bytes = if size == u32::MAX { 0 } else { u64::from(size) };
    let at = Nanos::from_secs(u64::from(u32::from_be_bytes([t0, t1, t2, t3])));
    let client = Some(u32::from_be_bytes([c0, c1, c2, c3]));
    Ok(Request { at, size_bytes, status: Some(status), client })
}

fn status_at(index: u8) -> Option<u16> {
    let mut rest = u16::from(index);
    for (first, count) in STATUS_RUNS {
        if rest < count {
            return Some(first + rest);
        }
        rest -= count;
    }
    (rest == 0).then_some(STATUS_OTHER)
}

/// Parses `44,30/Apr/1998,22:46:12,/a.gif,200,508`. The URL may contain commas and bytes that are not UTF-8; times are
/// UTC.
pub(super) fn parse_line(line: &[u8]) -> Result<Request, Reason> {
    const COLUMNS: Reason = "there are not six columns: write ClientID,Date,Time,URL,Status,Size";
    let mut left = line.splitn(4, |&byte| byte == b',');
    let (id, date, time, rest) = (left.next(), left.next(), left.next(), left.next());
    let (Some(date), Some(time), Some(rest)) = (date, time, rest) else { return Err(COLUMNS) };
    let mut right = rest.rsplitn(3, |&byte| byte == b',');
    let (Some(bytes), Some(code), Some(_url)) = (right.next(), right.next(), right.next()) else {
        return Err(COLUMNS);
    };
    let second = calendar::parse_log_time(date, time).ok_or("the date is not like 30/Apr/1998,22:46:12")?;
    let client = id.map(client).transpose()?;
    Ok(Request { at: Nanos::from_secs(second), size_bytes: size(bytes)?, status: Some(status(code)?), client })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(method: u8, status: u8, size: u32) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&894_038_400u32.to_be_bytes());
        bytes[4..8].copy_from_slice(&70_000u32.to_be_bytes());
        bytes[12..16].copy_from_slice(&size.to_be_bytes());
        (bytes[16], bytes[17]) = (method, status);
        bytes
    }

    #[test]
    fn records() {
        let at = Nanos::from_secs(894_038_400);
        let request = |size_bytes, status| Request { at, size_bytes, status: Some(status), client: Some(70_000) };
        assert_eq!(parse_record(&record(0, 0x42, 900)), Ok(request(900, 200)));
        assert_eq!(parse_record(&record(0, 0x8d, u32::MAX)), Ok(request(0, 304)));
        assert!(parse_record(&record(9, 0x42, 900)).unwrap_err().contains("method"));
        assert!(parse_record(&record(0, 38, 900)).unwrap_err().contains("status"));
    }

    #[test]
    fn the_archives_statuses() {
        let all: Vec<u16> = (0..38).map(|index| status_at(index).unwrap()).collect();
        let given =
            [(0, 100), (1, 101), (2, 200), (8, 206), (9, 300), (14, 305), (15, 400), (30, 415), (31, 500), (36, 505)];
        for (index, status) in given {
            assert_eq!(all[index], status);
        }
        assert_eq!((all[37], status_at(38)), (STATUS_OTHER, None));
    }

    #[test]
    fn lines() {
        let at = Nanos::from_secs(893_976_372);
        for (line, size_bytes, status) in [
            (&b"1044,30/Apr/1998,22:46:12,/images/11104.gif,200,508"[..], 508, 200),
            (b"1044,30/Apr/1998,22:46:12,/a,b,c,304,-", 0, 304),
            (b"1044,30/Apr/1998,22:46:12,/caf\xe9,200,7", 7, 200),
        ] {
            let client = Some(1044);
            assert_eq!(parse_line(line), Ok(Request { at, size_bytes, status: Some(status), client }));
        }
    }

    #[test]
    fn bad_lines_say_why() {
        for (line, why) in [
            (&b"1,30/Apr/1998,22:46:12"[..], "six columns"),
            (b"1,30/Apr/1998,22:46:12,200,5", "six columns"),
            (b"1,30/Apr/1998,22:46,/a,200,5", "the date"),
            (b"1,31/Apr/1998,22:46:12,/a,200,5", "the date"),
            (b"18429,01/May/1998,19:12:25,/\"/,-,0", "the status"),
            (b"1,30/Apr/1998,22:46:12,/a,200,5x", "the size"),
            (b"x,30/Apr/1998,22:46:12,/a,200,5", "the client"),
        ] {
            let said = parse_line(line).unwrap_err();
            assert!(said.contains(why), "{}: {said}", String::from_utf8_lossy(line));
        }
    }
}
