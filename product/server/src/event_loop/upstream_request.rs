//! Converts a client's request into the one that an upstream receives.

use http::gateway::{Gateway, is_connection_login};
use http::{BodyLength, Method, Request, websocket};
use sched::routes::ServiceRoute;

use super::responder::Responder;
use super::upstream_messages::{encode, gateway, is_grpc, upload_limits};
use crate::answer::To;
use crate::exchange_id::ExchangeId;
use crate::net::Net;
use crate::upload::Upload;
use crate::upstream::{Announced, BodyAllowance, ClientConnection, Group, PassOn, Transfer};

impl<N: Net> Responder<N> {
    /// Begins the upload of the request's body, if its client sends one on a stream.
    pub(super) fn upload_of(&self, id: ExchangeId, group: &Group, request: &Request) -> Option<Box<Upload>> {
        // What follows a CONNECT is not a body.
        let has_body = request.method != Method::Connect && request.body != BodyLength::None;
        let is_on_stream = has_body && self.connections[id].keeps_bodies();
        let limits = upload_limits(&self.limits, group, request);
        is_on_stream.then(|| Box::new(Upload::new(self.timers.client_now(), limits)))
    }

    /// Creates the transfer of a request. CONNECT becomes the upgrade that
    /// it stands for (RFC 8441).
    pub(super) fn transfer_of(
        &mut self,
        id: ExchangeId,
        pass_on: PassOn,
        (request, minor_version): (&Request, u8),
        to: To,
        is_on_stream: bool,
    ) -> Transfer {
        let PassOn { group, changes, run } = pass_on;
        let conn = &mut self.connections[id];
        let key = (request.method == Method::Connect).then(|| websocket::key(tls::nonce()));
        let gateway = gateway(conn, &group, request, (minor_version, key.as_ref().map(|key| &key[..])));
        let gateway = Gateway { changes: &changes, ..gateway };
        let is_upgrading = gateway.upgrade.is_some();
        // What follows a CONNECT is not a body.
        let (method, body) =
            if key.is_some() { (Method::Get, BodyLength::None) } else { (request.method, request.body) };
        let client_of = (conn.address_of(id.stream), to.is_secure);
        let encoded = encode((&group, run.as_deref()), request, &gateway, client_of, body);
        let class = self.service.handler.class_of(conn, id.stream, to.site, request);
        let priority = self.service.handler.priority(class);
        let route = ServiceRoute::of(&group.route(request));
        let accept = key.map(|key| websocket::accept(&key));
        let (account, client) = (conn.held.account(), conn.client_of(id.stream));
        let is_buffered = group.buffers_requests && !is_grpc(&group, request);
        let mut from = ClientConnection::new(conn.held.responses());
        from.body = BodyAllowance::new(group.request.max_body_bytes);
        from.logs_in = is_connection_login(request.values("authorization"));
        if group.tells_client {
            from.announced = Announced::Client(conn.client_address(id.stream));
        }
        let transfer = Transfer::new(id, group, method, encoded, body, account, from).queued(client, priority, route);
        let mut transfer = transfer.upgrading(is_upgrading, accept);
        if !is_buffered {
            transfer = transfer.unbuffered();
        }
        if is_on_stream { transfer.on_stream() } else { transfer }
    }
}
