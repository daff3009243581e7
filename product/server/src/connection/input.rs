//! The reading side of a connection.

/// The maximum number of small parts of a request (smaller than a segment) that are acknowledged immediately.
const SMALL_PARTS_MAX: u8 = 16;
/// The minimum segment size: the datagram that every IPv4 host must accept, minus headers (RFC 9293 section 3.7.1). It
/// guards against nonsensical values.
pub const SEGMENT_BYTES_MIN: u32 = 88;

/// Input that is still to be read on a connection.
#[derive(Debug, Default)]
pub struct Input {
    /// True if bytes have arrived that were not read yet.
    pub is_readable: bool,
    /// True if the connection is in the worker's queue of connections to read.
    pub is_queued: bool,
    /// True if the event loop left the connection before all stored bytes were parsed.
    pub is_cut: bool,
    /// True if the client sends nothing more. The end of the stream follows the last bytes, and no other event reports
    /// it.
    pub has_ended: bool,
    /// The number of parts, each smaller than a segment, that were received of an incomplete request.
    small_parts: u8,
    /// True if only part of a TLS record or of HTTP/2 frames has arrived; it may belong to a request.
    pub has_part: bool,
}

impl Input {
    /// Returns true if there may be something to read or to parse.
    pub fn is_left(&self) -> bool {
        self.is_readable || self.is_cut
    }

    /// Records that `bytes` were received, and whether a request is still incomplete. Returns whether the bytes should
    /// be acknowledged immediately: a client may hold back the rest of its request until its first part is acknowledged
    /// (Nagle's algorithm, RFC 9293 section 3.7.4), and no response carries the acknowledgement. Such a client has sent
    /// either a full segment or a few small parts. In a flood of small parts, acknowledging each is not worth a system
    /// call.
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
