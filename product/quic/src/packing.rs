//! Calculates how much content fits into a number of bytes of datagrams.
//!
//! quinn-proto cuts streams into packets when it makes them. Content that exceeds a last datagram by a few bytes would
//! need another one, mostly of headers. Content is therefore counted in whole datagrams before it is given.

use crate::h3::varint;

/// The bytes of a packet besides frames: the first byte, the packet number (at most two bytes with fewer than 32,000
/// packets in flight), and the cipher's tag (RFC 9001 section 5.3).
const PACKET_BYTES: usize = 1 + 2 + 16;
/// Bytes that quinn reserves for the length of a frame that does not fill its packet.
const LENGTH_BYTES: usize = 8;
/// Minimum room at the end of a packet for another frame.
const FRAME_ROOM_MIN: usize = 25;

/// The packing parameters of one connection and stream at present.
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    /// UDP payload of a full datagram.
    pub datagram: usize,
    /// Bytes of the client's connection ID.
    pub id_bytes: usize,
    pub stream_id: u64,
    /// The offset of the content in its stream.
    pub offset: u64,
}

impl Packing {
    fn packet(&self) -> usize {
        PACKET_BYTES + self.id_bytes
    }

    fn frame(&self) -> usize {
        // The encoded offset may grow by a size class in between.
        1 + varint::bytes(self.stream_id) + varint::bytes(self.offset.saturating_add(1 << 20))
    }

    /// Content of a full datagram.
    fn full(&self) -> usize {
        self.datagram - self.packet() - self.frame()
    }

    /// Content that still fits into a datagram with `used` bytes; 0 if none does.
    fn rest(&self, used: usize) -> usize {
        let left = (self.datagram - used).saturating_sub(FRAME_ROOM_MIN);
        if left == 0 { 0 } else { (self.datagram - used).saturating_sub(self.frame() + LENGTH_BYTES) }
    }

    /// Returns the content that fits within `room` bytes after the `waiting` bytes.
    pub fn fits(&self, waiting: usize, room: usize) -> usize {
        let Some(room) = room.checked_sub(waiting) else { return 0 };
        let used = waiting % self.datagram;
        let (first, room) = match used {
            0 => (0, room),
            used => (
                self.rest(used).min(room.saturating_sub(self.frame() + LENGTH_BYTES)),
                room.saturating_sub(self.datagram - used),
            ),
        };
        let tail = (room % self.datagram).saturating_sub(self.packet() + self.frame() + LENGTH_BYTES);
        let datagrams = room / self.datagram;
        match (datagrams, tail) {
            (0, tail) => first + tail,
            // The last datagram is not quite full, so that it stays the last whatever the length of the packet numbers.
            (datagrams, 0) => first + datagrams * self.full() - LENGTH_BYTES,
            (datagrams, tail) => first + datagrams * self.full() + tail,
        }
    }

    /// Returns the UDP payload that this content takes after the `waiting` bytes.
    pub fn takes(&self, waiting: usize, content: usize) -> usize {
        let used = waiting % self.datagram;
        let (here, spared) = match used {
            0 => (0, 0),
            used => (self.rest(used).min(content), self.datagram - used),
        };
        let left = content - here;
        if left == 0 {
            return if here == 0 { 0 } else { here + self.frame() + LENGTH_BYTES }.min(spared);
        }
        let (datagrams, tail) = (left / self.full(), left % self.full());
        let tail = if tail == 0 { 0 } else { (tail + self.packet() + self.frame() + LENGTH_BYTES).min(self.datagram) };
        spared + datagrams * self.datagram + tail
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_fits_takes_no_more_than_the_room(
            datagram in 1200usize..1453,
            id_bytes in 0usize..21,
            stream in 0u64..1 << 32,
            offset in 0u64..1 << 40,
            waiting in 0usize..5000,
            room in 0usize..100_000,
        ) {
            let packing = Packing { datagram, id_bytes, stream_id: stream, offset };
            let content = packing.fits(waiting, room);
            prop_assert!(waiting + packing.takes(waiting, content) <= room.max(waiting), "{content}");
            // Little room is left: the headers of two packets at most.
            if room >= waiting + datagram {
                prop_assert!(waiting + packing.takes(waiting, content + 150) > room);
            }
        }
    }
}
