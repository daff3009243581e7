//! A connection's client: let in, refused, and booked for what it was sent.

use std::net::IpAddr;

use super::Worker;
use super::conn::Task;
use crate::reply::{self, Reply};

/// What this worker has sent to clients and not booked yet, by the indices of their accounts. It is booked once a second and when a
/// connection ends, so that no response takes a lock.
#[derive(Default)]
pub(super) struct Spent {
    bytes: Vec<u64>,
}

impl Spent {
    fn add(&mut self, client: u32, bytes: u64) {
        let at = client as usize;
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        self.bytes[at] += bytes;
    }

    fn take(&mut self, client: u32) -> u64 {
        self.bytes.get_mut(client as usize).map_or(0, std::mem::take)
    }
}

impl Worker {
    /// The client of a newcomer, unless it has as many connections as it may.
    pub(super) fn let_in(&mut self, address: IpAddr) -> Option<u32> {
        match self.parts.clients.enter(address, self.now) {
            Ok(client) => Some(client.index),
            Err(refusal) => {
                self.parts.places.give_back();
                self.tell(refusal.notice);
                None
            }
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

    /// So many bytes were sent on it.
    pub(super) fn spend(&mut self, at: usize, bytes: u64) {
        self.spent.add(self.conns[at].client, bytes);
    }

    /// Books what was sent, also of responses under way: the largest take hours.
    pub(super) fn book_spent(&mut self) {
        for (_, conn) in &self.conns {
            let mut bytes = self.spent.take(conn.client);
            if let Task::Sending(job) = conn.task {
                bytes += self.parts.transmitter.untold_bytes(job);
            }
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

    fn tell(&self, notice: Option<String>) {
        if let Some(notice) = notice {
            self.parts.log.error(&notice);
        }
    }
}
