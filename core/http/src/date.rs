use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that a four-digit year can express: 9999-12-31 23:59:59.
const SECONDS_MAX: u64 = 253_402_300_799;

/// A date in the format of HTTP, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7), stored as its 29 bytes.
///
/// Every response carries a date, and formatting one costs more than parsing a small request. The server therefore
/// keeps one and calls [`HttpDate::update`] once in each cycle of its event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpDate {
    text: [u8; 29],
    seconds: u64,
}

impl HttpDate {
    /// Formats `time`. Times before 1970 or after 9999, which files may have, are clamped to the nearest end.
    pub fn new(time: SystemTime) -> HttpDate {
        let seconds = seconds(time);
        let mut text = [b' '; 29];
        let written = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        text.copy_from_slice(written.as_bytes());
        HttpDate { text, seconds }
    }

    /// Sets the date to `now`; formats only if the second has changed.
    pub fn update(&mut self, now: SystemTime) {
        if seconds(now) != self.seconds {
            *self = HttpDate::new(now);
        }
    }

    pub fn as_bytes(&self) -> &[u8; 29] {
        &self.text
    }

    /// Returns the date in the format of RFC 3339: `1994-11-06T08:49:37Z`.
    pub fn iso(&self) -> String {
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let text = String::from_utf8_lossy(&self.text);
        let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
        let month = MONTHS.find(month).map_or(0, |place| place / 3 + 1);
        format!("{year}-{month:02}-{day}T{clock}Z")
    }
}

/// Returns whole seconds since 1970, the precision of an HTTP date, clamped to the years that it can express.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().min(SECONDS_MAX))
}

/// Returns true if a time of modification says when a file was modified. Nix, OSTree and reproducible archives set all
/// times to 0 or 1 second after 1970.
pub(crate) fn is_known(modified: SystemTime) -> bool {
    seconds(modified) > 1
}

/// The length of the calendar's cycle in years; the next constant is the same in seconds. After it, days of the year
/// and of the week repeat.
const CALENDAR_YEARS: u32 = 400;
const CALENDAR_SECONDS: i64 = 146_097 * 86_400;

/// Parses any of the three forms of RFC 9110 section 5.6.7 to seconds since 1970. Returns `None` for everything else,
/// lists of dates included.
///
/// httpdate supports neither years before 1970 nor leap seconds. It is given the same day of a later calendar cycle
/// instead, or the second before the leap second.
pub(crate) fn parse(value: &[u8]) -> Option<i64> {
    let mut text: [u8; TEXT_BYTES_MAX] = [b' '; TEXT_BYTES_MAX];
    let text = text.get_mut(..value.len())?;
    text.copy_from_slice(value);
    let (second_at, year_at) = places(text)?;
    let leap = text.get(second_at..second_at + 2)? == b"60";
    if leap {
        text[second_at..second_at + 2].copy_from_slice(b"59");
    }
    let cycles = year_at.map_or(0, |at| cycles_before_1970(&mut text[at..at + 4]));
    let time = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    let seconds = i64::try_from(seconds(time)).ok()?;
    Some(seconds - i64::from(cycles) * CALENDAR_SECONDS + i64::from(leap))
}

/// The longest date, `Wednesday, 06-Nov-94 08:49:37 GMT`.
const TEXT_BYTES_MAX: usize = 33;

/// Returns the offset of the second in a date of this form, and of the year if it has four digits.
fn places(text: &[u8]) -> Option<(usize, Option<usize>)> {
    match text.len() {
        24 => Some((17, Some(20))),                             // asctime
        29 => Some((23, Some(12))),                             // IMF-fixdate
        bytes @ 30..=TEXT_BYTES_MAX => Some((bytes - 6, None)), // RFC 850
        _ => None,
    }
}

/// Moves a year before 1970 to the same year of a later calendar cycle. Returns the number of cycles.
fn cycles_before_1970(year: &mut [u8]) -> u32 {
    let Some(number) = crate::list::decimal(year).and_then(|number| u32::try_from(number).ok()) else { return 0 };
    let cycles = 1970u32.saturating_sub(number).div_ceil(CALENDAR_YEARS);
    year.copy_from_slice(format!("{:04}", number + cycles * CALENDAR_YEARS).as_bytes());
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn written_as_the_rfc_writes_it() {
        assert_eq!(HttpDate::new(at(784_111_777)).as_bytes(), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn times_no_date_can_write_become_the_nearest() {
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(HttpDate::new(before).as_bytes(), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(HttpDate::new(at(SECONDS_MAX + 1)).as_bytes(), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn update_follows_the_clock_both_ways() {
        let mut date = HttpDate::new(at(100));
        for seconds in [100, 101, 50] {
            date.update(at(seconds) + Duration::from_millis(999));
            assert_eq!(date, HttpDate::new(at(seconds)));
        }
    }

    #[test]
    fn three_forms_are_read() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"Wednesday, 09-Nov-94 08:49:37 GMT"), Some(784_111_777 + 3 * 86_400));
        for wrong in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 2024 00:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov -994 08:49:37 GMT",
            "Wednesday,  09-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn leap_seconds_are_read() {
        for text in ["Sat, 31 Dec 2016 23:59:60 GMT", "Saturday, 31-Dec-16 23:59:60 GMT", "Sat Dec 31 23:59:60 2016"] {
            assert_eq!(parse(text.as_bytes()), Some(1_483_228_800), "{text}");
        }
        assert_eq!(parse(b"Wed, 31 Dec 1969 23:59:60 GMT"), Some(0));
    }

    /// The expected seconds and weekdays were printed by `date --utc`.
    #[test]
    fn years_before_1970_are_read() {
        for (text, seconds) in [
            ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Thu Jan  1 00:00:00 1970", 0),
            ("Sun, 06 Nov 1904 08:49:37 GMT", -2_056_029_023),
            ("Sun Nov  6 08:49:37 1904", -2_056_029_023),
            ("Wed, 31 Dec 1569 00:00:00 GMT", -12_622_867_200),
            ("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(seconds), "{text}");
        }
        assert_eq!(parse(b"Thu, 31 Dec 1969 23:59:59 GMT"), None);
    }

    proptest! {
        #[test]
        fn reads_back_what_it_writes(seconds in 0..=SECONDS_MAX) {
            prop_assert_eq!(parse(HttpDate::new(at(seconds)).as_bytes()), i64::try_from(seconds).ok());
        }

        #[test]
        fn mutated_dates_never_panic(form in 0..3usize, place in 0..29usize, byte: u8, cut in 0..31usize) {
            let forms =
                [&b"Sun, 06 Nov 1994 08:49:37 GMT"[..], b"Sunday, 06-Nov-94 08:49:37 GMT", b"Sun Nov  6 08:49:37 1994"];
            let mut text = forms[form].to_vec();
            let place = place % text.len();
            text[place] = byte;
            text.truncate(cut);
            parse(&text);
        }
    }
}
