//! Tracks where records end in the received bytes: rustls buffers a partial record without reporting it.

/// Type, version and length (RFC 8446 section 5.1).
const HEADER_BYTES: usize = 5;

#[derive(Debug, Default)]
pub struct Records {
    /// The last two bytes received of a header. After the fifth byte they are the record's length.
    length: [u8; 2],
    header_bytes: u8,
    /// The length of the record's content. The next field is the number of its bytes still to come.
    content_bytes: u16,
    left: u16,
}

impl Records {
    /// Records that these bytes were received.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        loop {
            let passed = bytes.len().min(self.left.into());
            self.left -= passed as u16;
            bytes = &bytes[passed..];
            let Some((&byte, rest)) = bytes.split_first() else { return };
            self.length = [self.length[1], byte];
            self.header_bytes += 1;
            if usize::from(self.header_bytes) == HEADER_BYTES {
                self.content_bytes = u16::from_be_bytes(self.length);
                (self.header_bytes, self.left) = (0, self.content_bytes);
            }
            bytes = rest;
        }
    }

    /// Bytes received of an incomplete record.
    pub fn part_bytes(&self) -> usize {
        match self.left {
            0 => self.header_bytes.into(),
            left => HEADER_BYTES + usize::from(self.content_bytes - left),
        }
    }

    /// Returns true if the last record is incomplete.
    pub fn has_part(&self) -> bool {
        self.header_bytes > 0 || self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_part_up_to_its_last_byte_however_it_is_cut() {
        let of = |bytes: u16| [&[23, 3, 3][..], &bytes.to_be_bytes(), &vec![7; bytes.into()]].concat();
        let records = [of(0), of(1), of(300), of(16_401)];
        for piece_bytes in [1, 2, 4, 5, 6, 299, 17_000] {
            let mut walked = Records::default();
            for record in &records {
                let ((last, before), mut came) = (record.split_last().unwrap(), 0);
                for piece in before.chunks(piece_bytes) {
                    walked.pass(piece);
                    came += piece.len();
                    assert!(walked.has_part() && walked.part_bytes() == came);
                }
                walked.pass(&[*last]);
                assert!(!walked.has_part() && walked.part_bytes() == 0);
            }
            walked.pass(&records.concat());
            assert!(!walked.has_part());
        }
    }
}
