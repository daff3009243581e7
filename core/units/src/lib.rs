//! The units that every other crate uses: rates, sizes, instants, and how many bytes a payload takes on the wire.
//!
//! Everything is an integer. Time is [`Nanos`] since an epoch that the caller chooses, so that the same code runs under
//! a real clock and a simulated one. A rate is in bits per second, written as in `tc` (`10mbit`).
//!
//! ```
//! use units::{Nanos, Rate};
//! let link: Rate = "10mbit".parse().unwrap();
//! assert_eq!(link.time_for(1514), Nanos::from_micros(1211) + Nanos(200));
//! ```

use std::borrow::Cow;

pub mod memory;
mod nanos;
mod rate;
mod share;
mod size;
pub mod wire;

pub use nanos::{Nanos, parse_duration};
pub use rate::Rate;
pub use share::Share;
pub use size::parse_size;

/// A quantity that could not be parsed: the given text and the accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a {what}: {right}")]
pub struct ParseError {
    what: &'static str,
    given: String,
    right: &'static str,
}

/// Strips the system's error numbers from a message: `Permission denied`, not `Permission denied (os error 13)`.
pub fn plain(text: &str) -> Cow<'_, str> {
    const NUMBER: &str = " (os error ";
    let Some((before, rest)) = text.split_once(NUMBER) else { return Cow::Borrowed(text) };
    let Some((_, behind)) = rest.split_once(')') else { return Cow::Borrowed(text) };
    Cow::Owned(format!("{before}{}", plain(behind)))
}

/// The number of digits of the greatest 64-bit number, so that every quantity can also be written in its smallest unit.
const WHOLE_DIGITS_MAX: usize = 20;

/// Splits `12.5mbit` into its number in millionths (here 12,500,000) and its unit (`mbit`).
///
/// Millionths keep a decimal fraction exact without floating point; more than six decimals are refused.
fn split_quantity(text: &str) -> Option<(u128, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty()
        || whole.len() > WHOLE_DIGITS_MAX
        || fraction.len() > 6
        || number.ends_with('.')
        || fraction.contains('.')
    {
        return None;
    }
    let micros = format!("{fraction:0<6}").parse::<u128>().ok()?;
    Some((whole.parse::<u128>().ok()? * 1_000_000 + micros, unit))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn words_go_without_numbers() {
        for (text, words) in [
            ("no", "no"),
            ("a: Permission denied (os error 13)", "a: Permission denied"),
            ("a (os error 1); b (os error 2): c", "a; b: c"),
            ("cut (os error 1", "cut (os error 1"),
        ] {
            assert_eq!(plain(text), words);
        }
    }
}
