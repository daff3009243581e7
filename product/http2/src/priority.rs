//! Parses a client's priority (RFC 9218 section 4): a dictionary of structured fields (RFC 9651 section 3.2) with two
//! known keys.

use crate::Priority;

/// The default priority (RFC 9218 section 4).
pub const DEFAULT: Priority = Priority { urgency: 3, is_incremental: false };

/// Parses a value of the field. A key that is missing or invalid has its default (section 4: receivers ignore unknown
/// parameters).
pub fn parse(value: &[u8]) -> Priority {
    let mut priority = DEFAULT;
    let mut is_quoted = false;
    let members = value.split(|&byte| {
        is_quoted ^= byte == b'"';
        byte == b',' && !is_quoted
    });
    for member in members {
        let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        match member {
            [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
            b"i" | b"i=?1" => priority.is_incremental = true,
            b"i=?0" => priority.is_incremental = false,
            _ => {}
        }
    }
    priority
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read() {
        let of = |text: &str| {
            let Priority { urgency, is_incremental } = parse(text.as_bytes());
            (urgency, is_incremental)
        };
        assert_eq!(of(""), (3, false));
        assert_eq!(of("u=0"), (0, false));
        assert_eq!(of("u=7, i"), (7, true));
        assert_eq!(of("i,u=5;x=1"), (5, true));
        assert_eq!(of("i=?1, i=?0, u=1, u=2"), (2, false));
        assert_eq!(of("u=8, i=1"), (3, false));
        assert_eq!(of("x=\"u=1, i\", u=2"), (2, false));
        assert_eq!(of("u=-1,u=10,u,U=1"), (3, false));
    }
}
