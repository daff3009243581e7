//! What is to be read of a connection.

/// Parts of a request, each less than a segment, that are acknowledged at once.
const SMALL_PARTS_MAX: u8 = 16;
/// What every IPv4 host must be able to receive, less headers (RFC 9293 section 3.7.1); guards against nonsense.
pub const SEGMENT_BYTES_MIN: u32 = 88;

/// What is to be read of a connection.
#[derive(Debug, Default)]
pub struct Input {
    /// Something arrived that was not read yet.
    pub is_readable: bool,
    /// It is on the worker's list of those with something to be read.
    pub is_queued: bool,
    /// Its turn ended before all that was kept was looked at.
    pub is_cut: bool,
    /// The client sends no more: behind the last bytes is an end, of which no other event will tell.
    pub has_ended: bool,
    /// Parts of the request that is coming, each less than a segment.
    small_parts: u8,
    /// Of a record or of frames only a part is here, which may be one of a request.
    pub has_part: bool,
}

impl Input {
    /// There may be something to be read or looked at.
    pub fn is_left(&self) -> bool {
        self.is_readable || self.is_cut
    }

    /// So many bytes were received, which leave a request incomplete or not. Whether they should be acknowledged at once: a client may hold
    /// the rest of its request back until it knows that the beginning came (Nagle's algorithm, RFC 9293 section 3.7.4), and no response
    /// takes the acknowledgement along. One that holds back has sent a whole segment before, or a few words; a flood of bytes is not worth a
    /// system call each.
    pub fn on_received(&mut self, bytes: usize, is_incomplete: bool) -> bool {
        if !is_incomplete || self.is_cut {
            self.small_parts = 0;
            return false;
        }
        let is_small = bytes < SEGMENT_BYTES_MIN as usize;
        let is_worth_it = !is_small || self.small_parts < SMALL_PARTS_MAX;
        self.small_parts += u8::from(is_small && is_worth_it);
        is_worth_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_segments_and_the_first_small_parts_of_a_request_are_acknowledged_at_once() {
        let mut input = Input::default();
        assert!(!input.on_received(5, false), "the response does");
        (0..SMALL_PARTS_MAX).for_each(|_| assert!(input.on_received(5, true)));
        assert!(!input.on_received(5, true) && input.on_received(1460, true) && !input.on_received(5, true));
        input.on_received(5, false);
        assert!(input.on_received(5, true), "of the next request");
        input.is_cut = true;
        assert!(!input.on_received(5, true), "more is here already");
    }
}
