//! Why a response is not ready. There can be several reasons at once, and it is ready when the last is gone: a socket that
//! takes bytes again is of no use while the disk has not answered.

/// What a response waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The reader: its socket is full.
    Socket = 1,
    /// The disk: the next byte is not in memory.
    Storage = 2,
}

/// A set of reasons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits(u8);

impl Waits {
    pub fn insert(&mut self, why: Why) {
        self.0 |= why as u8;
    }

    /// Says whether this was the last reason.
    pub fn remove(&mut self, why: Why) -> bool {
        let before = self.0;
        self.0 &= !(why as u8);
        before != 0 && self.0 == 0
    }

    /// Whether only the reader is waited for.
    pub fn is_for_reader(self) -> bool {
        self.0 == Why::Socket as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reason_makes_ready() {
        let mut waits = Waits::default();
        assert!(!waits.remove(Why::Socket), "it was ready");
        waits.insert(Why::Socket);
        assert!(waits.is_for_reader());
        waits.insert(Why::Storage);
        assert!(!waits.is_for_reader());
        assert!(!waits.remove(Why::Socket) && !waits.remove(Why::Socket));
        assert!(waits.remove(Why::Storage) && waits == Waits::default());
    }
}
