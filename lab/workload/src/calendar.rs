//! Converts dates in UTC to seconds since 1970 and back. Logs need no time zones beyond a written offset, and no leap
//! seconds.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

const DAY_S: u64 = 86_400;
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Formats `1998-05-01T16:00:00Z` for 894,038,400; later than the year 9999, its end.
pub fn iso(epoch_s: u64) -> String {
    let timestamp = i64::try_from(epoch_s).ok().and_then(|second| Timestamp::from_second(second).ok());
    timestamp.unwrap_or(Timestamp::MAX).to_string()
}

/// Parses the format of [`iso`]. Seconds and the `Z` may be left out; the time is UTC in any case.
pub fn parse_iso(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z').unwrap_or(text).split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 {
        return None;
    }
    let midnight = epoch_of(number(year.as_bytes())?, number(month.as_bytes())?, number(day.as_bytes())?)?;
    Some(midnight + parse_clock(time)?)
}

/// Returns the seconds after midnight for `16:00` or `16:00:30`; `24:00` is the end of the day.
pub fn parse_clock(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next().unwrap_or("00"));
    if parts.next().is_some() || [hour, minute, second].iter().any(|part| part.len() != 2) {
        return None;
    }
    if (hour, minute, second) == ("24", "00", "00") {
        return Some(DAY_S);
    }
    clock(hour.as_bytes(), minute.as_bytes(), second.as_bytes())
}

/// Parses `30/Apr/1998` and `22:46:12`, the format of logs.
pub(crate) fn parse_log_time(date: &[u8], time: &[u8]) -> Option<u64> {
    let mut parts = date.split(|&byte| byte == b'/');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|&name| name == month)? as u64 + 1;
    let mut clock_parts = time.split(|&byte| byte == b':');
    let (hour, minute, second) = (clock_parts.next()?, clock_parts.next()?, clock_parts.next()?);
    if parts.next().is_some() || clock_parts.next().is_some() {
        return None;
    }
    Some(epoch_of(number(year)?, month, number(day)?)? + clock(hour, minute, second)?)
}

/// Returns the first day that contains a substantial part of a trace: midnight of the first UTC day that has at least
/// half as many requests as the busiest one. A log that starts two hours before its day counts as that day's log.
pub(crate) fn first_busy_day(mut epoch_s: impl Iterator<Item = u64>) -> Option<u64> {
    let mut days: Vec<(u64, u64)> = vec![(epoch_s.next()? / DAY_S, 1)];
    for day in epoch_s.map(|second| second / DAY_S) {
        match days.last_mut() {
            Some((last, count)) if *last == day => *count += 1,
            _ => days.push((day, 1)),
        }
    }
    let most = days.iter().map(|&(_, count)| count).max()?;
    days.iter().find(|&&(_, count)| count * 2 >= most).map(|&(day, _)| day * DAY_S)
}

/// Parses a number that consists only of decimal digits, without a sign; at most 18 of them, so that it fits.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Parses a time of day. A leap second (`:60`) counts as the first of the next minute, as in Unix time.
fn clock(hour: &[u8], minute: &[u8], second: &[u8]) -> Option<u64> {
    let (hour, minute, second) = (number(hour)?, number(minute)?, number(second)?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

fn epoch_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = i16::try_from(year).ok().filter(|year| (1970..=2285).contains(year))?;
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    u64::try_from(midnight.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_instants() {
        // `date -u -d @N` gives the same results.
        for (text, epoch_s) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1998-05-01T16:00:00Z", 894_038_400),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!((parse_iso(text), iso(epoch_s).as_str()), (Some(epoch_s), text));
        }
        assert_eq!(parse_log_time(b"30/Apr/1998", b"22:46:12"), parse_iso("1998-04-30T22:46:12"));
        assert_eq!(parse_iso("1998-05-01T16:00"), Some(894_038_400));
        assert_eq!((parse_clock("16:00"), parse_clock("24:00")), (Some(57_600), Some(86_400)));
    }

    #[test]
    fn no_such_instant() {
        for wrong in
            ["", "T", "1998-02-29T00:00", "1998-13-01T00:00", "1998-01-01 00:00", "1969-12-31T00:00", "98-01-01T00:00"]
        {
            assert_eq!(parse_iso(wrong), None, "{wrong}");
        }
        for wrong in ["", "16", "16:60", "24:01", "6:00", "16:00:00:00", "-1:00"] {
            assert_eq!(parse_clock(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_busy_day_is_not_the_evening_before_it() {
        let seconds = [86_399, 86_400, 86_401, 86_402, 200_000, 200_001, 200_002, 200_003];
        assert_eq!(first_busy_day(seconds.into_iter()), Some(86_400));
        assert_eq!(first_busy_day([].into_iter()), None);
    }

    proptest! {
        #[test]
        fn iso_reads_back(epoch_s in 0..=crate::EPOCH_S_MAX) {
            // Years up to 2285 are read; EPOCH_S_MAX is in November 2286.
            prop_assume!(epoch_s < 9_972_028_800);
            prop_assert_eq!(parse_iso(&iso(epoch_s)), Some(epoch_s));
        }
    }
}
