//! Request fields that an operator sets or removes.

use super::writer::Writer;

/// A request field with a value that replaces all values of that name. It must not be a field that frames the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    pub name: String,
    /// `None` removes the field.
    pub value: Option<Vec<u8>>,
}

/// A writer that leaves out the fields that are changed.
pub(super) struct Unchanged<'w, W> {
    pub out: &'w mut W,
    pub changes: &'w [FieldChange],
}

impl<W> Unchanged<'_, W> {
    fn is_kept(&self, name: &[u8]) -> bool {
        !self.changes.iter().any(|change| change.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl<W: Writer> Writer for Unchanged<'_, W> {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.is_kept(name) {
            self.out.field(name, value);
        }
    }

    fn joined<'v>(&mut self, name: &[u8], values: impl Iterator<Item = &'v [u8]>, between: &[u8]) {
        if self.is_kept(name) {
            self.out.joined(name, values, between);
        }
    }
}
