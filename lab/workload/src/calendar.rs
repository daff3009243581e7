//! Converts dates in UTC to seconds since 1970. Logs need no time zones beyond a written offset, and no leap seconds.

use jiff::civil::Date;
use jiff::tz::Offset;

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

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

    #[test]
    fn known_instants() {
        // `date -u -d @N` gives the same results.
        for (date, time, epoch_s) in [
            ("01/Jan/1970", "00:00:00", 0),
            ("01/May/1998", "16:00:00", 894_038_400),
            ("29/Feb/2000", "23:59:59", 951_868_799),
            ("01/Mar/2100", "00:00:00", 4_107_542_400),
            ("30/Apr/1998", "23:59:60", 893_980_800),
        ] {
            assert_eq!(parse_log_time(date.as_bytes(), time.as_bytes()), Some(epoch_s), "{date}");
        }
    }

    #[test]
    fn no_such_instant() {
        for (date, time) in [
            ("", ""),
            ("29/Feb/1998", "00:00:00"),
            ("01/jan/1998", "00:00:00"),
            ("31/Dec/1969", "00:00:00"),
            ("01/Jan/98", "00:00:00"),
            ("01/Jan/1998", "24:00:00"),
            ("01/Jan/1998", "16:60:00"),
            ("01/Jan/1998", "16:00"),
            ("01/Jan/1998", "-1:00:00"),
        ] {
            assert_eq!(parse_log_time(date.as_bytes(), time.as_bytes()), None, "{date} {time}");
        }
    }
}
