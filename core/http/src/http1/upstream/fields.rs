//! The fields of a response head, separated on arrival into fields for the client and fields that are not forwarded.

use crate::fields::FieldList;
use crate::gateway::hop::is_hop_by_hop;
use crate::name_filter::NameFilter;

/// The usual number of bytes of the fields that are not forwarded to a client.
const USUAL_OWN_BYTES: usize = 128;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResponseFields {
    pub for_client: FieldList,
    /// The fields of the upstream's connection, the Content-Length, and those meant for us.
    pub own: FieldList,
    /// The names of all fields.
    names: NameFilter,
}

impl ResponseFields {
    pub fn with_capacity(bytes: usize) -> ResponseFields {
        ResponseFields { for_client: FieldList::with_capacity(bytes), ..ResponseFields::default() }
    }

    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.names = self.names.add(name);
        let is_own = is_hop_by_hop(name) || name.eq_ignore_ascii_case(b"content-length") || is_for_us(name);
        if is_own && self.own.capacity() == 0 {
            self.own = FieldList::with_capacity(USUAL_OWN_BYTES);
        }
        let list = if is_own { &mut self.own } else { &mut self.for_client };
        list.push(name, value);
    }

    /// Returns the name and value of every field, those for a client first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.for_client.iter().chain(self.own.iter())
    }

    /// Returns the values of every field of this name, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let fields = self.names.may_have(name.as_bytes()).then(|| self.iter());
        let named = fields.into_iter().flatten().filter(move |(of, _)| of.eq_ignore_ascii_case(name.as_bytes()));
        named.map(|(_, value)| value)
    }
}

/// Returns true for fields that are meant for us and not for a client.
pub(crate) fn is_for_us(name: &[u8]) -> bool {
    let start = name.get(.."x-accel-".len()).unwrap_or_default();
    let is_named = || name.eq_ignore_ascii_case(b"x-sendfile") || start.eq_ignore_ascii_case(b"x-accel-");
    // Few names begin with this letter.
    matches!(name.first(), Some(b'x' | b'X')) && is_named()
}
