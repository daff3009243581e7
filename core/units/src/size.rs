use crate::{ParseError, split_quantity};

/// Parses a size in bytes such as `512`, `64KiB`, `2MB`, `1.5GiB`; a bare number is bytes.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    let error = || ParseError {
        what: "size",
        given: text.into(),
        right: "write a number and a unit of B, KB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024), for example 64KiB",
    };
    let (millionths, unit) = split_quantity(text).ok_or_else(error)?;
    let scale: u128 = match unit {
        "" | "B" => 1,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(error()),
    };
    let bytes = millionths.checked_mul(scale).ok_or_else(error)? / 1_000_000;
    u64::try_from(bytes).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_written() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64KiB", 65_536),
            ("2MB", 2_000_000),
            ("1.5GiB", 1_610_612_736),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes));
        }
    }

    #[test]
    fn wrong_sizes_say_what_is_right() {
        for wrong in ["18446744073709551616", "100000000000000000000GiB", "", "KiB", "1kib", "1 MB", "-1B", "1mbit"] {
            assert!(parse_size(wrong).unwrap_err().to_string().contains("64KiB"));
        }
    }
}
