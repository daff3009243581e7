//! The counterpart of [`crate::Input`]: writes programs, for seeds.

#[derive(Debug, Default, Clone)]
pub struct Script(Vec<u8>);

impl Script {
    pub fn new(bytes: &[u8]) -> Script {
        Script(bytes.to_vec())
    }

    pub fn byte(mut self, byte: u8) -> Script {
        self.0.push(byte);
        self
    }

    pub fn short(mut self, number: u16) -> Script {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Appends the number of bytes, which is one byte, and the bytes.
    pub fn text(self, text: &[u8]) -> Script {
        let bytes = u8::try_from(text.len()).expect("a text of up to 255 bytes");
        self.byte(bytes).raw(text)
    }

    /// Appends the number of bytes, which has two bytes, and the bytes.
    pub fn long_text(self, text: &[u8]) -> Script {
        let bytes = u16::try_from(text.len()).expect("a text of up to 65,535 bytes");
        self.short(bytes).raw(text)
    }

    pub fn raw(mut self, bytes: &[u8]) -> Script {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends all of another script.
    pub fn then(self, other: Script) -> Script {
        self.raw(&other.0)
    }

    pub fn done(self) -> Vec<u8> {
        self.0
    }
}
