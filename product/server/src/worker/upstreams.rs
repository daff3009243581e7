//! The event loop's part in a proxy: it sends the replies that come of upstreams.

use std::sync::Arc;

use http::http1::Head;
use http::{BodyLength, Request};

use super::proxy::{Proxy, ProxyContext, ProxyReply};
use super::responder::Responder;
use crate::connection::ExchangeId;
use crate::handler::{Reply, To};
use crate::net::Net;
use crate::upstream::Group;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl<N: Net> Responder<N> {
    /// Does this with what the proxy may touch, and sends the replies that come of it.
    pub(super) fn with_upstreams<T>(&mut self, act: impl FnOnce(&mut Proxy<N>, &mut ProxyContext<N>) -> T) -> T {
        let (proxy, mut with) = ProxyContext::of(self);
        let done = act(proxy, &mut with);
        self.send_replies();
        done
    }

    fn send_replies(&mut self) {
        while let Some(ProxyReply { owner, reply, rest }) = self.proxy.next_reply() {
            // Its client may have left while others were sent.
            if let Some(id) = self.connections.exchange_id(owner) {
                assert!(self.sender.gathered.is_empty(), "what was gathered for one connection is not another's");
                self.send(id, *reply);
                self.flush(id.at);
                self.connections.go_on(id.at);
            }
            if let Some(step) = rest {
                let (proxy, mut with) = ProxyContext::of(self);
                proxy.on_sent(&mut with, owner, step);
            }
        }
    }

    /// Passes a request on; the reply where no upstream can have it. Nothing where its client has left meanwhile.
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

/// Gives a client over HTTP/1.1 leave to send the body, where it waits for that (RFC 9110 section 10.1.1). Whether the request comes again,
/// since its socket is full: the leave is given once more then.
pub(super) fn must_wait_for_leave<N: Net>(with: &mut Responder<N>, id: ExchangeId, head: Option<&Head>) -> bool {
    let Some(head) = head.filter(|head| head.expect_continue && head.request.body != BodyLength::None) else {
        return false;
    };
    with.sender.gathered.push(CONTINUE);
    with.must_postpone(id.at, head)
}
