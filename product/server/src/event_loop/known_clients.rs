//! The data that a worker stores about clients.

use crate::clients::Client;

/// The clients that this worker has seen, by the index of their accounts.
#[derive(Default)]
pub(super) struct KnownClients {
    clients: Vec<KnownClient>,
}

/// The data about one client, in 6 bytes, because all clients are remembered.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(2))]
struct KnownClient {
    /// Bytes sent to the client and not yet added to its account. That is done once a second and when a connection
    /// ends, so that responses take no lock.
    bytes: u32,
    /// The generation of the account that the transmitter knows, plus one; 0 if it knows none.
    introduced: u16,
}

impl KnownClients {
    fn of(&mut self, client: u32) -> &mut KnownClient {
        let at = client as usize;
        if self.clients.len() <= at {
            self.clients.resize(at + 1, KnownClient::default());
        }
        &mut self.clients[at]
    }

    /// Adds sent bytes. More than 4 GB per second are not counted.
    pub fn add(&mut self, client: u32, bytes: u64) {
        let known = self.of(client);
        let before = known.bytes;
        known.bytes = before.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    pub fn take_bytes(&mut self, client: u32) -> u64 {
        let known = self.of(client);
        let bytes = known.bytes;
        known.bytes = 0;
        bytes.into()
    }

    /// Forgets that clients were introduced to the transmitter, except these, which must be in order of their indexes.
    pub fn keep_introduced(&mut self, kept: impl Iterator<Item = u32>) {
        let mut kept = kept.peekable();
        for (client, known) in (0..).zip(&mut self.clients) {
            if kept.next_if_eq(&client).is_none() {
                known.introduced = 0;
            }
        }
    }

    /// Returns whether this client has not been seen before under its index.
    pub fn is_new(&mut self, client: Client) -> bool {
        let introduced = client.generation.wrapping_add(1);
        let known = self.of(client.index);
        let before = known.introduced;
        known.introduced = introduced;
        before != introduced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_booked_once() {
        let mut known = KnownClients::default();
        [(3, 1000), (3, 5), (2, 7)].into_iter().for_each(|(client, bytes)| known.add(client, bytes));
        assert_eq!([3, 3, 2, 9].map(|client| known.take_bytes(client)), [1005, 0, 7, 0]);
        [u64::MAX, 1].into_iter().for_each(|bytes| known.add(0, bytes));
        assert_eq!(known.take_bytes(0), u64::from(u32::MAX));
    }

    #[test]
    fn a_client_is_introduced_once_and_again_under_the_index_of_another() {
        let mut known = KnownClients::default();
        let clients = [(5, 0), (5, 0), (5, 1), (5, 1), (4, 0)].map(|(index, generation)| Client { index, generation });
        assert_eq!(clients.map(|client| known.is_new(client)), [true, false, true, false, true]);
        assert_eq!(size_of::<KnownClient>(), 6);
    }
}
