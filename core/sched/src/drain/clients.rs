//! Clients in the drain, for an order that is fair between them.

use units::Nanos;

use super::Drain;

impl Drain {
    /// From now on this number is another client's ([`Arrival::client`]), of this weight, from 1 to [`crate::policy::CLIENT_WEIGHT_MAX`].
    pub fn on_client(&mut self, client: u32, weight: u8) {
        self.policy.on_client(client, weight);
    }

    /// What a client has had beyond its share of the link; `None` where no account is kept.
    pub fn ahead_bytes(&self, client: u32) -> Option<u64> {
        self.policy.ahead_bytes(client)
    }

    /// Somebody is ready again: the time since bytes were last handed down was idle.
    pub(super) fn tell_idle(&mut self, now: Nanos) {
        self.policy.on_idle(now - self.sent_at);
        self.sent_at = now;
    }
}
