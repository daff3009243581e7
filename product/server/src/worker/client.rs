//! A connection's client: let in, refused, and booked for what it was sent.

use std::net::IpAddr;

use super::Worker;
use super::conn::Task;
use crate::clients::{Busy, Client, Column};
use crate::reply::{self, Reply};

/// Bytes of a client that are booked together, so that a small response takes no lock.
const BOOKED_BYTES_MIN: u64 = 64 << 10;

/// What this worker has sent to clients and not booked yet, by the indices of their accounts.
#[derive(Default)]
pub(super) struct Spent {
    bytes: Vec<u64>,
}

impl Spent {
    /// Adds bytes; gives those to be booked, if they are enough.
    fn add(&mut self, client: u32, bytes: u64) -> Option<u64> {
        let at = client as usize;
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        self.bytes[at] += bytes;
        (self.bytes[at] >= BOOKED_BYTES_MIN).then(|| self.take(client))
    }

    fn take(&mut self, client: u32) -> u64 {
        self.bytes.get_mut(client as usize).map_or(0, std::mem::take)
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
        let at = client.index as usize;
        if self.introduced.len() <= at {
            self.introduced.resize(at + 1, None);
        }
        if self.introduced[at].replace(client.generation) != Some(client.generation) {
            let weight = self.parts.limits.client_weights.of(address);
            self.parts.transmitter.on_client(client.index, weight);
        }
    }

    /// A connection of its ends. Behind the last one the index may be another's.
    pub(super) fn let_go(&mut self, at: usize) {
        let client = self.conns[at].client;
        let bytes = self.spent.take(client);
        self.parts.clients.leave(client, bytes, self.now);
    }

    /// The answer to one request too many of a client.
    pub(super) fn refuse_frequent(&mut self, at: usize) -> Option<Reply> {
        let refusal = self.parts.clients.on_request(self.conns[at].client, self.now).err()?;
        self.tell(refusal.notice);
        Some(reply::too_many(refusal.retry_after_s))
    }

    /// Books what was sent.
    pub(super) fn book(&mut self, at: usize, bytes: u64) {
        let client = self.conns[at].client;
        if let Some(bytes) = self.spent.add(client, bytes) {
            self.parts.clients.on_bytes(client, bytes, self.now);
        }
    }

    /// Books what was sent of responses under way: the largest take hours.
    pub(super) fn book_sendings(&mut self) {
        for (_, conn) in &mut self.conns {
            let Task::Sending(job) = conn.task else { continue };
            let bytes = self.parts.transmitter.untold_bytes(job);
            if bytes > 0 {
                self.parts.clients.on_bytes(conn.client, bytes, self.now);
            }
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
        let ahead = |one: &Busy| drain.ahead_bytes(one.client.index).unwrap_or(0).to_string();
        let columns: &[Column] = if drain.ahead_bytes(0).is_some() { &[("ahead", &ahead)] } else { &[] };
        self.parts.clients.lines(self.now, columns).iter().for_each(|line| self.parts.log.error(line));
    }

    fn tell(&self, notice: Option<String>) {
        if let Some(notice) = notice {
            self.parts.log.error(&notice);
        }
    }
}
