//! A connection's client: let in, refused, and booked for what it was sent.

use std::net::IpAddr;

use http::Request;

use super::Worker;
use super::exchange::Task;
use crate::clients::{Busy, Client, Column};
use crate::reply::{Reply, To};

/// What this worker knows of clients, by the indices of their accounts.
#[derive(Default)]
pub(super) struct Known {
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

impl Known {
    fn of(&mut self, client: u32) -> &mut KnownClient {
        let at = client as usize;
        if self.clients.len() <= at {
            self.clients.resize(at + 1, KnownClient::default());
        }
        &mut self.clients[at]
    }

    /// What is more than 4 GB in a second is not counted.
    fn add(&mut self, client: u32, bytes: u64) {
        let known = self.of(client);
        let before = known.bytes;
        known.bytes = before.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    fn take_bytes(&mut self, client: u32) -> u64 {
        let known = self.of(client);
        let bytes = known.bytes;
        known.bytes = 0;
        bytes.into()
    }

    /// Whether this client is new under its index.
    fn is_new(&mut self, client: Client) -> bool {
        let introduced = client.generation.wrapping_add(1);
        let known = self.of(client.index);
        let before = known.introduced;
        known.introduced = introduced;
        before != introduced
    }
}

impl Worker {
    /// The client of a newcomer, unless it has as many connections as it may.
    pub(super) fn let_in(&mut self, address: IpAddr) -> Option<u32> {
        match self.parts.clients.enter(address, self.now) {
            Ok(client) => {
                self.introduce(client, address);
                Some(client.index)
            }
            Err(refusal) => {
                self.parts.places.give_back();
                self.tell(refusal.notice);
                None
            }
        }
    }

    /// Sees to it that the transmitter keeps this client's account under its index, and no other's.
    fn introduce(&mut self, client: Client, address: IpAddr) {
        if self.known.is_new(client) {
            let weight = self.parts.limits.client_weights.of(address);
            self.parts.transmitter.on_client(client.index, weight);
        }
    }

    /// A connection of its ends. Behind the last one the index may be another's.
    pub(super) fn let_go(&mut self, at: usize) {
        let client = self.conns[at].client;
        let bytes = self.known.take_bytes(client);
        self.parts.clients.leave(client, bytes, self.now);
    }

    /// The answer to one request too many of a client.
    pub(super) fn refuse_frequent(&mut self, at: usize, to: To, request: &Request) -> Option<Reply> {
        let refusal = self.parts.clients.on_request(self.conns[at].client, self.now).err()?;
        self.tell(refusal.notice);
        Some(self.parts.replier.too_many(to, request, refusal.retry_after_s))
    }

    /// So many bytes were sent on it.
    pub(super) fn spend(&mut self, at: usize, bytes: u64) {
        self.known.add(self.conns[at].client, bytes);
    }

    /// Books what was sent, also of responses under way: the largest take hours.
    pub(super) fn book_spent(&mut self, at: usize) {
        let conn = &self.conns[at];
        let mut bytes = self.known.take_bytes(conn.client);
        for exchange in conn.exchanges.iter() {
            if let Task::Sending(job) = exchange.task {
                bytes += self.parts.transmitter.untold_bytes(job);
            }
        }
        if bytes > 0 {
            self.parts.clients.on_bytes(conn.client, bytes, self.now);
        }
    }

    pub(super) fn tell_refusals(&mut self) {
        while let Some(notice) = self.parts.clients.notice(self.now) {
            self.parts.log.error(&notice);
        }
    }

    /// Writes the busiest clients to the error log, if that was asked of this worker; with what each is ahead of its share, where that is kept.
    pub(super) fn tell_busiest(&self) {
        if !self.parts.clients.take_asked() {
            return;
        }
        let drain = self.parts.transmitter.drain();
        let ahead = |one: &Busy| drain.order().policy().ahead_bytes(one.client.index).unwrap_or(0).to_string();
        let columns: &[Column] =
            if drain.order().policy().ahead_bytes(0).is_some() { &[("ahead", &ahead)] } else { &[] };
        self.parts.clients.lines(self.now, columns).iter().for_each(|line| self.parts.log.error(line));
    }

    fn tell(&self, notice: Option<String>) {
        if let Some(notice) = notice {
            self.parts.log.error(&notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_booked_once() {
        let mut known = Known::default();
        [(3, 1000), (3, 5), (2, 7)].into_iter().for_each(|(client, bytes)| known.add(client, bytes));
        assert_eq!([3, 3, 2, 9].map(|client| known.take_bytes(client)), [1005, 0, 7, 0]);
        [u64::MAX, 1].into_iter().for_each(|bytes| known.add(0, bytes));
        assert_eq!(known.take_bytes(0), u64::from(u32::MAX));
    }

    #[test]
    fn a_client_is_introduced_once_and_again_under_the_index_of_another() {
        let mut known = Known::default();
        let clients = [(5, 0), (5, 0), (5, 1), (5, 1), (4, 0)].map(|(index, generation)| Client { index, generation });
        assert_eq!(clients.map(|client| known.is_new(client)), [true, false, true, false, true]);
        assert_eq!(size_of::<KnownClient>(), 6);
    }
}
