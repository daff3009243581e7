//! The event loop's part in a proxy: it sends the handler that result.

use std::sync::Arc;

use http::http1::Head;
use http::{BodyLength, Request};

use super::proxy::{Proxy, ProxyReply};
use super::proxy_context::ProxyContext;
use super::responder::Responder;
use crate::answer::{Reply, To};
use crate::connection::ExchangeId;
use crate::net::Net;
use crate::upstream::Group;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl<N: Net> Responder<N> {
    /// Splits the event loop's state into the proxy and everything else.
    fn split(&mut self) -> (&mut Proxy<N>, ProxyContext<'_, N>) {
        let Responder { net, timers, limits, connections, service, transmitter, proxy, .. } = self;
        (proxy, ProxyContext { net, timers, limits, connections, service, transmitter })
    }

    /// Runs `act` on the proxy, then sends the handler it produced.
    pub(super) fn with_upstreams<T>(&mut self, act: impl FnOnce(&mut Proxy<N>, &mut ProxyContext<N>) -> T) -> T {
        let (proxy, mut with) = self.split();
        let done = act(proxy, &mut with);
        self.send_replies();
        done
    }

    fn send_replies(&mut self) {
        while let Some(ProxyReply { owner, reply, rest }) = self.proxy.next_reply() {
            // Its client may have left while others were sent.
            if let Some(id) = self.connections.exchange_id(owner) {
                assert!(self.transmitter.gathered.is_empty(), "what was gathered for one connection is not another's");
                self.send(id, *reply);
                self.flush(id.at);
                self.connections.go_on(id.at);
            }
            if let Some(step) = rest {
                let (proxy, mut with) = self.split();
                proxy.on_sent(&mut with, owner, step);
            }
        }
    }

    /// Passes a request on. Returns the error reply if no upstream can take it, and `None` if it was passed on, must
    /// wait, or its client has left.
    pub(super) fn pass_request(
        &mut self,
        id: ExchangeId,
        (group, to): (Arc<Group>, To),
        request: &Request,
        head: Option<&Head>,
    ) -> Option<Box<Reply>> {
        if must_wait_for_leave(self, id, head) {
            return None;
        }
        let begun = self.with_upstreams(|proxy, with| proxy.begin(with, id, group, request, head));
        match begun {
            Ok(transfer) => {
                let minor_version = head.map_or(0, |head| head.minor_version);
                let conn = &mut self.connections[id.at];
                self.service.note(self.timers.now(), conn, id.stream, to.site, request, minor_version);
                if self.has_left(id.at) {
                    self.abort(id.at);
                } else {
                    self.with_upstreams(|proxy, with| proxy.go_on_with(with, transfer));
                }
                None
            }
            Err(reply) => Some(reply),
        }
    }
}

/// Sends 100 Continue to an HTTP/1.1 client that waits for it (RFC 9110 section 10.1.1). Returns whether the request
/// must be postponed because its socket is full: 100 Continue is then sent again.
pub(super) fn must_wait_for_leave<N: Net>(with: &mut Responder<N>, id: ExchangeId, head: Option<&Head>) -> bool {
    let Some(head) = head.filter(|head| head.expect_continue && head.request.body != BodyLength::None) else {
        return false;
    };
    with.transmitter.gathered.push(CONTINUE);
    with.must_postpone(id.at, head)
}
