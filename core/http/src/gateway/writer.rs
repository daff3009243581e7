//! The destination of an upstream request's fields: HTTP/1.1 lines, or a list for an engine that makes frames.

use crate::fields::FieldList;
use crate::lines;

pub(super) trait Writer {
    /// Appends a field whose value has no control characters.
    fn field(&mut self, name: &[u8], value: &[u8]);

    /// Appends one field with these values, separated by `between`.
    fn joined<'v>(&mut self, name: &[u8], values: impl Iterator<Item = &'v [u8]>, between: &[u8]);
}

impl Writer for Vec<u8> {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        lines::line(self, name, value);
    }

    fn joined<'v>(&mut self, name: &[u8], values: impl Iterator<Item = &'v [u8]>, between: &[u8]) {
        self.extend_from_slice(name);
        self.extend_from_slice(b": ");
        join(self, values, between);
        self.extend_from_slice(b"\r\n");
    }
}

impl Writer for FieldList {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.push(name, value);
    }

    fn joined<'v>(&mut self, name: &[u8], values: impl Iterator<Item = &'v [u8]>, between: &[u8]) {
        let mut value = Vec::new();
        join(&mut value, values, between);
        self.push(name, &value);
    }
}

fn join<'v>(out: &mut Vec<u8>, values: impl Iterator<Item = &'v [u8]>, between: &[u8]) {
    for (nth, value) in values.enumerate() {
        out.extend_from_slice(if nth > 0 { between } else { b"" });
        out.extend_from_slice(value);
    }
}
