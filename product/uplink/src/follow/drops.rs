//! Computes the bytes that the response bands drop: the bytes that the classifier has put into them, minus the bytes
//! that have left them or wait there. The kernel counts only dropped packets, which may be as large as 64 KB.

use crate::Counted;

/// Counts the bytes that the response bands drop.
#[derive(Debug, Default)]
pub struct Drops {
    before: Option<Reading>,
    /// The bytes put into the bands that are not accounted for yet.
    surplus_bytes: i64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    /// The bytes that the classifier has put into the bands.
    put_bytes: u64,
    /// The bytes that have left the bands or wait there.
    seen_bytes: u64,
    drops: u64,
}

impl Drops {
    /// Reads the counters of the bands, which must be read after `put_bytes`. Returns all bytes dropped so far.
    pub fn see(&mut self, put_bytes: u64, bands: &Counted) -> u64 {
        let now = Reading { put_bytes, seen_bytes: bands.bytes + bands.backlog_bytes, drops: bands.drops };
        let Some(before) = self.before.replace(now) else { return 0 };
        // A new classifier or new bands count from zero.
        let is_anew = put_bytes < before.put_bytes || now.drops < before.drops;
        if is_anew || now.drops == before.drops {
            self.surplus_bytes = 0;
            return self.bytes;
        }
        let seen = i128::from(now.seen_bytes) - i128::from(before.seen_bytes);
        let surplus = i128::from(put_bytes - before.put_bytes) - seen + i128::from(self.surplus_bytes);
        // Bytes that came between the two readings are seen before they count as put.
        self.surplus_bytes = i64::try_from(surplus.min(0)).unwrap_or(0);
        self.bytes += u64::try_from(surplus.max(0)).unwrap_or(0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bands(bytes: u64, drops: u64, backlog_bytes: u64) -> Counted {
        Counted { bytes, drops, backlog_bytes, ..Counted::default() }
    }

    #[test]
    fn dropped_is_what_neither_left_nor_waits() {
        let mut drops = Drops::default();
        assert_eq!(drops.see(50_000, &bands(10_000, 7, 2000)), 0, "of before");
        assert_eq!(drops.see(60_000, &bands(15_000, 9, 3000)), 4000);
        // 1500 bytes came between the two readings.
        assert_eq!(drops.see(70_000, &bands(26_500, 10, 3000)), 4000);
        assert_eq!(drops.see(81_500, &bands(34_000, 11, 3000)), 6500);
        // Nothing was dropped: another program took these bytes.
        assert_eq!(drops.see(99_000, &bands(34_000, 11, 0)), 6500);
    }

    #[test]
    fn counters_made_anew_are_no_drops() {
        let mut drops = Drops::default();
        drops.see(50_000, &bands(10_000, 7, 2000));
        assert_eq!(drops.see(1000, &bands(11_000, 8, 2000)), 0, "a classifier");
        assert_eq!(drops.see(3000, &bands(500, 3, 500)), 0, "bands");
        assert_eq!(drops.see(5000, &bands(1000, 4, 500)), 1500);
    }
}
