//! Priorities of RFC 7540, for servers that support no others: a PRIORITY frame follows the request of each part of a
//! page.
//!
//! Chromium sends both kinds (`Http2PriorityDependencies` in `net/spdy`). Every request depends exclusively on the last
//! one in flight that is no less urgent. The tree is therefore a line, ordered by urgency and then by time.

use workload::Part;

use super::frames::FRAME_HEAD_BYTES;
use crate::plan::URGENCY_USUAL;

const PRIORITY: u8 = 2;
const PAYLOAD_BYTES: usize = 5;
const EXCLUSIVE: u32 = 1 << 31;

/// The step from one urgency to the next. Chromium spreads weights over 1 to 256 in the same way.
const WEIGHT_STEP: f64 = 255.9 / 7.0;

/// Returns the urgency of a request; a request without a part of a page has the usual one.
pub(super) fn urgency(part: Option<Part>) -> u8 {
    part.map_or(URGENCY_USUAL, |part| part.urgency)
}

/// Returns the frame for a stream, given the streams in flight with their urgencies.
pub(super) fn frame(
    stream: u32,
    urgency: u8,
    others: impl Iterator<Item = (u32, u8)>,
) -> [u8; FRAME_HEAD_BYTES + PAYLOAD_BYTES] {
    let before = others.filter(|&(_, other)| other <= urgency).max_by_key(|&(id, other)| (other, id));
    let depends_on = before.map_or(0, |(id, _)| id) | EXCLUSIVE;
    let mut out = [0; FRAME_HEAD_BYTES + PAYLOAD_BYTES];
    (out[2], out[3]) = (PAYLOAD_BYTES as u8, PRIORITY);
    out[5..9].copy_from_slice(&stream.to_be_bytes());
    out[9..13].copy_from_slice(&depends_on.to_be_bytes());
    // One less than the weight, which is 1 to 256.
    out[13] = (WEIGHT_STEP * f64::from(7 - urgency.min(7))) as u8;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(urgency: u8, others: &[(u32, u8)]) -> u32 {
        let frame = frame(9, urgency, others.iter().copied());
        let depends_on = u32::from_be_bytes([frame[9], frame[10], frame[11], frame[12]]);
        assert_eq!(depends_on & EXCLUSIVE, EXCLUSIVE);
        depends_on & !EXCLUSIVE
    }

    #[test]
    fn a_frame_in_bytes() {
        let expected = [0, 0, 5, 2, 0, 0, 0, 0, 9, 0x80, 0, 0, 7, 182];
        assert_eq!(frame(9, 2, [(7, 2)].into_iter()), expected);
        assert_eq!([0, 1, 3].map(|urgency| frame(9, urgency, [].into_iter())[13]), [255, 219, 146]);
    }

    #[test]
    fn the_most_urgent_stand_first_and_among_them_the_earlier() {
        assert_eq!(parent(2, &[]), 0);
        assert_eq!(parent(2, &[(1, 3), (3, 0), (5, 2), (7, 2)]), 7);
        assert_eq!(parent(1, &[(1, 3), (3, 0), (5, 2), (7, 2)]), 3);
        assert_eq!(parent(0, &[(1, 3)]), 0);
    }
}
