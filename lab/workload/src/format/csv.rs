//! Our own columns: `epoch_s,size_bytes,status,client`. The header, the client and the status may be missing, and
//! seconds may have a fraction.

use units::Nanos;

use super::{Parsed, Reason, client, size, status};
use crate::{EPOCH_S_MAX, Request, calendar};

const COLUMNS: [&[u8]; 4] = [b"epoch_s", b"size_bytes", b"status", b"client"];

pub(super) fn is_header(line: &[u8]) -> bool {
    fields(line).any(|field| field == COLUMNS[0])
}

/// Returns true for a header that has one of our columns in a different position.
pub(super) fn is_other_order(line: &[u8]) -> bool {
    let place = |field: &[u8]| COLUMNS.iter().position(|column| *column == field);
    fields(line).enumerate().any(|(at, field)| place(field).is_some_and(|place| place != at))
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

pub(super) fn parse_line(line: &[u8]) -> Result<Parsed, Reason> {
    let mut fields = fields(line);
    let (Some(at), Some(bytes)) = (fields.next(), fields.next()) else {
        return Err("there are not two columns: write epoch_s,size_bytes or epoch_s,size_bytes,status");
    };
    let (at, has_fraction) = instant(at)?;
    let size_bytes = size(bytes)?;
    let status = fields.next().filter(|field| !field.is_empty()).map(status).transpose()?;
    let client = fields.next().filter(|field| !field.is_empty()).map(client).transpose()?;
    if fields.next().is_some() {
        return Err("there are more than four columns: write epoch_s,size_bytes,status,client");
    }
    Ok(Parsed { request: Request { at, size_bytes, status, client }, has_fraction })
}

/// Converts decimal seconds to nanoseconds without floating point; digits after the ninth are dropped.
fn instant(field: &[u8]) -> Result<(Nanos, bool), Reason> {
    const WRONG: Reason = "the time is not decimal seconds such as 894038400 or 12.345678";
    let mut parts = field.splitn(2, |&byte| byte == b'.');
    let (whole, fraction) = (parts.next().unwrap_or_default(), parts.next());
    let seconds = calendar::number(whole).ok_or(WRONG)?;
    if seconds > EPOCH_S_MAX {
        return Err("the time is after the year 2286: write seconds, not milliseconds");
    }
    let Some(digits) = fraction else { return Ok((Nanos::from_secs(seconds), false)) };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(WRONG);
    }
    let nanos = (0..9).fold(0, |sum, place| sum * 10 + digits.get(place).map_or(0, |digit| u64::from(digit - b'0')));
    Ok((Nanos::from_secs(seconds) + Nanos(nanos), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_written() {
        for (line, at_ns, size_bytes, status, client, has_fraction) in [
            (&b"12,5,200"[..], 12_000_000_000, 5, Some(200), None, false),
            (b"12,5", 12_000_000_000, 5, None, None, false),
            (b"12,-,", 12_000_000_000, 0, None, None, false),
            (b" 12.5 , 5 , 304 ", 12_500_000_000, 5, Some(304), None, true),
            (b"0.0000000019999,1", 1, 1, None, None, true),
            (b"12.0,1", 12_000_000_000, 1, None, None, true),
            (b"9999999999.999999999,1", 9_999_999_999_999_999_999, 1, None, None, true),
            (b"12,5,200, 4294967295", 12_000_000_000, 5, Some(200), Some(u32::MAX), false),
            (b"12,5,,0", 12_000_000_000, 5, None, Some(0), false),
            (b"12,5,200,", 12_000_000_000, 5, Some(200), None, false),
        ] {
            let request = Request { at: Nanos(at_ns), size_bytes, status, client };
            assert_eq!(parse_line(line), Ok(Parsed { request, has_fraction }));
        }
    }

    #[test]
    fn bad_lines_say_why() {
        for (line, why) in [
            (&b"12"[..], "two columns"),
            (b"12,5,200,7,8", "more than four"),
            (b"12,5,200,4294967296", "the client"),
            (b"12,5,200,host.example", "the client"),
            (b"-1,5", "the time"),
            (b"1e3,5", "the time"),
            (b"1.,5", "the time"),
            (b"1.2.3,5", "the time"),
            (b"894038400000,5", "milliseconds"),
            (b"1,five", "the size"),
            (b"1,1125899906842625", "the size"),
            (b"1,99999999999999999999999", "the size"),
            (b"1,5,OK", "the status"),
            (b"1,5,1000", "the status"),
        ] {
            let said = parse_line(line).unwrap_err();
            assert!(said.contains(why), "{}: {said}", String::from_utf8_lossy(line));
        }
    }
}
