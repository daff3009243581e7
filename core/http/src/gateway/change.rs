//! Fields that an operator has set or removed.

use super::writer::Writer;

/// A field of a request with a value that replaces the values of others. Its name and value are those of a field that does not
/// frame the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    pub name: String,
    /// `None` removes the field.
    pub value: Option<Vec<u8>>,
}

/// Leaves out the fields that changes are for.
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
