use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that four digits of year can write: 9999-12-31 23:59:59.
const SECONDS_MAX: u64 = 253_402_300_799;

/// A date as HTTP writes it, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7), kept as its 29 bytes.
///
/// Every response carries a date; formatting one costs more than parsing a small request, so the server keeps one
/// and calls [`HttpDate::update`] once per turn of its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpDate {
    text: [u8; 29],
    seconds: u64,
}

impl HttpDate {
    /// Times outside 1970 to 9999, which a file may well claim, become the nearest end.
    pub fn new(time: SystemTime) -> HttpDate {
        let seconds = seconds(time);
        let mut text = [b' '; 29];
        let written = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        text.copy_from_slice(written.as_bytes());
        HttpDate { text, seconds }
    }

    /// Becomes `now`; formats only when the second has changed.
    pub fn update(&mut self, now: SystemTime) {
        if seconds(now) != self.seconds {
            *self = HttpDate::new(now);
        }
    }

    pub fn as_bytes(&self) -> &[u8; 29] {
        &self.text
    }
}

/// Whole seconds since 1970, the precision of an HTTP date, held within the years it can write.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().min(SECONDS_MAX))
}

/// Reads any of the three forms of RFC 9110 section 5.6.7; `None` for everything else, lists of dates included.
pub(crate) fn parse(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    httpdate::parse_http_date(text).ok().map(seconds)
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
        for wrong in
            ["", "0", "Sun, 06 Nov 1994 08:49:37", "Mon, 06 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 2024 00:00:00 GMT"]
        {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_what_it_writes(seconds in 0..=SECONDS_MAX) {
            prop_assert_eq!(parse(HttpDate::new(at(seconds)).as_bytes()), Some(seconds));
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
