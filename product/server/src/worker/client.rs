//! A connection's client: let in, refused, and booked for what it was sent.

use std::net::IpAddr;

use http::Request;

use super::Worker;
use super::exchange::Task;
use crate::clients::Client;
use crate::handler::{Reply, To};
use crate::net::Net;

/// What this worker knows of clients, by the indices of their accounts.
#[derive(Default)]
pub(super) struct KnownClients {
    clients: Vec<KnownClient>,
}

/// In 6 bytes, since all are remembered.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(2))]
struct KnownClient {
    /// What was sent to it and not booked yet. It is booked once a second and when a connection ends, so that no response takes a lock.
    bytes: u32,
    /// One more than the generation whose account the transmitter keeps; 0 where it keeps none.
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

    /// What is more than 4 GB in a second is not counted.
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

    /// Whether this client is new under its index.
    pub fn is_new(&mut self, client: Client) -> bool {
        let introduced = client.generation.wrapping_add(1);
        let known = self.of(client.index);
        let before = known.introduced;
        known.introduced = introduced;
        before != introduced
    }
}

impl<N: Net> Worker<N> {
    /// The client of a newcomer, unless it has as many connections as it may.
    pub(super) fn let_in(&mut self, address: IpAddr) -> Option<u32> {
        match self.admission.enter(self.timers.now(), address) {
            Ok(admitted) => {
                if let Some(weight) = admitted.weight {
                    self.transmitter.link.scheduler_mut().on_client(admitted.client, weight);
                }
                Some(admitted.client)
            }
            Err(notice) => {
                notice.inspect(|notice| self.journal.error(notice));
                None
            }
        }
    }

    /// The answer to one request too many of a client.
    pub(super) fn refuse_frequent(&mut self, at: usize, to: To, request: &Request) -> Option<Reply> {
        let refusal = self.admission.on_request(self.timers.now(), self.conns[at].client).err()?;
        refusal.notice.inspect(|notice| self.journal.error(notice));
        Some(self.replies.handler().too_many(to, request, refusal.retry_after_s))
    }

    /// Books what was sent, also of responses under way: the largest take hours.
    pub(super) fn book_spent(&mut self, at: usize) {
        let conn = &self.conns[at];
        let mut bytes = 0;
        for exchange in conn.exchanges.iter() {
            if let Task::Sending(job) = exchange.task {
                bytes += self.transmitter.sendings.untold_bytes(job);
            }
        }
        self.admission.book(self.timers.now(), conn.client, bytes);
    }

    /// Writes the busiest clients to the error log, if that was asked of this worker.
    pub(super) fn log_busiest(&self) {
        let scheduler = self.transmitter.link.scheduler();
        let lines = self.admission.busiest(self.timers.now(), |client| scheduler.order().policy().ahead_bytes(client));
        lines.iter().for_each(|line| self.journal.error(line));
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
