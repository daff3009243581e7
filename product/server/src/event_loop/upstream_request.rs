//! Converts a client's request to a request for an upstream.

use std::net::IpAddr;

use http::fastcgi::{self, Script};
use http::gateway::{self, Gateway, RequestHead, asks_upgrade, encode_request, is_connection_login};
use http::{BodyLength, Method, Request, websocket};
use sched::routes::ServiceRoute;

use super::responder::Responder;
use crate::answer::To;
use crate::connection::Connection;
use crate::exchange_id::ExchangeId;
use crate::limits::Limits;
use crate::net::{Net, Socket};
use crate::upload::{Upload, UploadLimits};
use crate::upstream::{self, Announced, BodyAllowance, ClientConnection, Group, PassOn, Run, Scripts, Transfer};

impl<N: Net> Responder<N> {
    /// Starts the upload of the request's body, if its client sends one on a stream.
    pub(super) fn upload_of(&self, id: ExchangeId, group: &Group, request: &Request) -> Option<Box<Upload>> {
        // The bytes after a CONNECT are not a body.
        let has_body = request.method != Method::Connect && request.body != BodyLength::None;
        let is_on_stream = has_body && self.connections[id].keeps_bodies();
        let limits = upload_limits(&self.limits, group, request);
        is_on_stream.then(|| Box::new(Upload::new(self.timers.client_now(), limits)))
    }

    /// Creates the transfer of a request. A CONNECT becomes the equivalent upgrade (RFC 8441).
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
        let gateway = gateway((conn, id.stream), &group, request, (minor_version, key.as_ref().map(|key| &key[..])));
        let gateway = Gateway { changes: &changes, ..gateway };
        let is_upgrading = gateway.is_upgrade;
        // The bytes after a CONNECT are not a body.
        let (method, body) =
            if key.is_some() { (Method::Get, BodyLength::None) } else { (request.method, request.body) };
        let client_of = (conn.address_of(id.stream), to.is_secure);
        let encoded = encode((&group, run.as_deref()), request, &gateway, client_of, body);
        let on_stream = websocket_on_stream(&group, request, &gateway);
        let class = self.service.handler.class_of(conn, id.stream, to.site, request);
        let priority = self.service.handler.priority(class);
        let route = ServiceRoute::of(&group.route(request));
        let (account, client) = (conn.held.account(), conn.client_of(id.stream));
        let is_buffered = group.buffers_requests && !is_grpc(&group, request);
        let mut from = ClientConnection::new(conn.held.responses());
        from.body = BodyAllowance::new(group.request.max_body_bytes);
        from.logs_in = is_connection_login(request.values("authorization"));
        if group.tells_client {
            from.announced = Announced::Client(conn.client_address(id.stream));
        }
        let transfer = Transfer::new(id, group, method, encoded, body, account, from).queued(client, priority, route);
        let transfer = transfer.upgrading(is_upgrading, key.map(|key| websocket::accept(&key)), on_stream);
        let transfer = if is_buffered { transfer } else { transfer.unbuffered() };
        if is_on_stream { transfer.on_stream() } else { transfer }
    }
}

/// Returns the fields that the gateway adds to this client's request, which has this minor version of HTTP/1.
/// `websocket_key` is the key of a CONNECT.
pub(super) fn gateway<'r>(
    (conn, stream): (&Connection<impl Socket>, u32),
    group: &'r Group,
    request: &'r Request,
    (minor_version, websocket_key): (u8, Option<&'r [u8]>),
) -> Gateway<'r> {
    let may_upgrade = websocket_key.is_some() || minor_version > 0;
    // HTTP/2 has no upgrade but this one (RFC 8441).
    let may_open = || !group.is_http2() || websocket_key.or_else(|| gateway::websocket_key(request)).is_some();
    let is_upgradable = may_upgrade && group.scripts.is_none() && may_open();
    let host = group.host.as_ref().or_else(|| request.fields.host.is_none().then_some(&group.authority));
    Gateway {
        client: conn.peer.address,
        client_port: Some(conn.peer.port),
        is_secure: conn.channel.is_secure(),
        is_trusted: conn.is_trusted(),
        claimed_client: Some(conn.address_of(stream)).filter(|client| *client != conn.peer.address),
        host: host.map(String::as_bytes),
        version: conn.version(minor_version),
        is_upgrade: is_upgradable && asks_upgrade(request),
        websocket_key,
        changes: &[],
    }
}

/// Returns the Sec-WebSocket-Accept of a request that opens a WebSocket at upstreams over HTTP/2, and the head of the same
/// request over HTTP/1.1.
fn websocket_on_stream(
    group: &Group,
    request: &Request,
    gateway: &Gateway,
) -> Option<([u8; websocket::ACCEPT_BYTES], Vec<u8>)> {
    let key = gateway.websocket_key.or_else(|| gateway::websocket_key(request));
    let key = key.filter(|_| gateway.is_upgrade && group.is_http2())?;
    Some((websocket::accept(key), lines_of(group, request, gateway, BodyLength::None)))
}

/// Returns the head of a request over HTTP/1.1 for its upstreams.
fn lines_of(group: &Group, request: &Request, gateway: &Gateway, body: BodyLength) -> Vec<u8> {
    let mut lines = Vec::new();
    let request = &request.with_path(group.path_for(request.path), request.query);
    encode_request(&mut lines, request, gateway, body);
    lines
}

/// Returns the limits for a client that sends a body. A gRPC client sends messages from time to time, and may be silent
/// for as long as its upstream.
fn upload_limits(limits: &Limits, group: &Group, request: &Request) -> UploadLimits {
    let of_messages = UploadLimits { timeout: group.read_timeout, rate_bytes_per_s_min: 0 };
    if is_grpc(group, request) { of_messages } else { limits.upload() }
}

/// Returns true for a gRPC call, whose messages may be answered before all of them have arrived.
fn is_grpc(group: &Group, request: &Request) -> bool {
    group.is_http2() && request.values("content-type").any(|value| value.starts_with(b"application/grpc"))
}

/// Encodes the head of a request with this body length for its upstreams, which may run a script for it. `client` is
/// the client's address, and whether the client uses TLS.
pub(super) fn encode(
    (group, run): (&Group, Option<&Run>),
    request: &Request,
    gateway: &Gateway,
    client: (IpAddr, bool),
    body: BodyLength,
) -> upstream::Head {
    if let Some((run, scripts)) = run.zip(group.scripts.as_ref()) {
        return encode_script((scripts, run), request, gateway, client, body);
    }
    if !group.is_http2() {
        return lines_of(group, request, gateway, body).into();
    }
    let request = &request.with_path(group.path_for(request.path), request.query);
    upstream::Head::Fields(match gateway.is_upgrade {
        true => RequestHead::of_websocket(request, gateway, group.scheme),
        false => RequestHead::new(request, gateway, body, group.scheme),
    })
}

/// Encodes a request for the responder that runs this script.
fn encode_script(
    (scripts, run): (&Scripts, &Run),
    request: &Request,
    gateway: &Gateway,
    (client, is_secure): (IpAddr, bool),
    body: BodyLength,
) -> upstream::Head {
    let script = Script {
        root: &scripts.root,
        name: &run.name,
        path_info: &run.path_info,
        client,
        client_port: gateway.client_port.filter(|_| client == gateway.client),
        is_trusted: gateway.is_trusted,
        is_secure,
        version: gateway.version,
        keeps_connection: scripts.keeps_connections,
        changes: gateway.changes,
    };
    let mut records = Vec::new();
    fastcgi::encode_request(&mut records, request, &script, body);
    if body == BodyLength::Unknown { upstream::Head::Unmeasured(records) } else { upstream::Head::Records(records) }
}
