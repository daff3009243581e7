//! Bytes that are read as a program. Reads past their end return zeros, so every input has a meaning.

#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Takes this many bytes, or the remaining ones.
    pub fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes bytes that follow their number, which is one byte.
    pub fn text(&mut self) -> &'a [u8] {
        let bytes = self.byte().into();
        self.take(bytes)
    }

    /// Takes bytes that follow their number, which has two bytes.
    pub fn long_text(&mut self) -> &'a [u8] {
        let bytes = self.short().into();
        self.take(bytes)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Input;

    #[test]
    fn past_the_end_are_zeros() {
        let mut input = Input::new(b"\x02abc\x09d");
        assert_eq!((input.text(), input.byte(), input.text()), (&b"ab"[..], b'c', &b"d"[..]));
        assert!(input.is_empty());
        assert_eq!((input.byte(), input.short(), input.text(), input.take(3)), (0, 0, &b""[..], &b""[..]));
    }

    #[test]
    fn numbers_are_read_the_first_byte_first() {
        let mut input = Input::new(b"\x01\x02\x00\x01xyz");
        assert_eq!((input.short(), input.long_text(), input.rest()), (0x0102, &b"x"[..], &b"yz"[..]));
    }
}
