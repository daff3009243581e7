//! Responses of upstreams that name a file (X-Accel-Redirect or X-Sendfile): it is sent as any file is, and its upstream is free.

use http::http1::upstream::UpstreamHead;

use super::proxy::Proxy;
use super::proxy_context::ProxyContext;
use crate::connection::{ExchangeId, Task};
use crate::files::{CacheAnswer, SiteNumber};
use crate::net::Net;
use crate::upstream::{Step, pipe_of};

impl<N: Net> Proxy<N> {
    /// Sends the file or begins its lookup. Returns the last step of the transfer; what is left of its body is not
    /// wanted.
    pub(super) fn begin_named(
        &mut self,
        with: &mut ProxyContext<N>,
        (transfer, id): (usize, ExchangeId),
        head: UpstreamHead,
        (folder, path): (SiteNumber, Vec<u8>),
    ) -> Step {
        let now = with.timers.now();
        let account = with.connections[id.at].held.responses();
        let step = pipe_of(head.framing, account).map(|mut pipe| self.upstreams.read_body(now, transfer, &mut pipe));
        let left = if matches!(step, None | Some(Step::Done)) { Step::Done } else { Step::Unwanted };
        let exchange = with.connections.exchange(id);
        let owner = exchange.owner;
        let Task::PassedOn(request) = std::mem::take(&mut exchange.task) else {
            unreachable!("a transfer without a response has its request")
        };
        let said = head.into_response(());
        let found = match with.service.handler.look_for_named(folder, &path, now) {
            CacheAnswer::Ready(found) => found,
            CacheAnswer::Offload(lookup) => {
                let client = with.connections[id.at].client_of(id.stream);
                match with.service.handler.begin_lookup(lookup, owner, client, now) {
                    Ok(key) => {
                        with.connections.exchange(id).wait_for(key, request, Some(said));
                        return left;
                    }
                    Err(missing) => Err(missing),
                }
            }
        };
        self.push_reply(with, id, &request, None, |handler, to, request| {
            handler.reply_named(to, request, found, &said)
        });
        left
    }
}
