//! The authentication server that decides whether to admit the client of a request: the query, the answer, and the
//! reply if the query fails.

use std::sync::Arc;

use http::gateway::{FieldChange, Gateway, is_connection_login};
use http::http1::Head;
use http::{BodyLength, Method, Request};
use sched::routes::ServiceRoute;

use super::responder::Responder;
use super::upstream_request::{encode, gateway};
use crate::access::Verdict;
use crate::answer::To;
use crate::connection::{Connection, Task};
use crate::exchange_id::ExchangeId;
use crate::net::{Net, Socket};
use crate::proxy::Begun;
use crate::sites::AskedServer;
use crate::upstream::{ClientConnection, Transfer};

/// Fields that describe the representation that the client requests, and not the client itself.
const NOT_ASKED: [&str; 8] = [
    "Content-Encoding",
    "Content-Type",
    "If-Match",
    "If-Modified-Since",
    "If-None-Match",
    "If-Range",
    "If-Unmodified-Since",
    "Range",
];

impl<N: Net> Responder<N> {
    /// Queries the authentication server about the client of a request.
    pub(super) fn ask(
        &mut self,
        id: ExchangeId,
        to: To,
        (came, request): (&Request, &Request),
        head: Option<&Head>,
        server: &AskedServer,
    ) {
        if head.is_some_and(|head| self.must_postpone(id.slot(), head)) {
            return;
        }
        let class = self.service.handler.class_of(&self.connections[id], id.stream, to.site, request);
        let priority = self.service.handler.priority(class);
        let transfer = question(&self.connections[id], id, server, (came, head), priority);
        if let Err((fault, upstream)) = self.proxy.begin(&self.net, self.timers.now(), transfer) {
            self.note_fault(&upstream, &fault);
            let reply = self.service.handler.unanswered(to, request, fault.status());
            return self.follow(id, to, (request, head), reply.into());
        }
        self.wait_for_verdict(id, to, came, head);
        let deciding = &mut self.connections.exchange(id).task;
        if let Task::Deciding(deciding) = deciding {
            deciding.copied = server.copied.clone();
        }
        self.follow_begun(id);
    }

    /// Lets a request proceed if the head of the authentication server's answer admits the client. Otherwise returns
    /// the answer, to be sent to the client.
    pub(super) fn pass_or_answer(&mut self, begun: Box<Begun>) -> Option<Box<Begun>> {
        let id = begun.id;
        let copied = match self.connections.find(id).map(|exchange| &exchange.task) {
            Some(Task::Deciding(deciding)) => deciding.copied.clone(),
            _ => return Some(begun),
        };
        if !(200..300).contains(&begun.head.status.0) {
            return Some(begun);
        }
        let said = |name: &String| {
            let values: Vec<&[u8]> = begun.head.values(name).collect();
            let value = (!values.is_empty()).then(|| values.join(&b", "[..]));
            FieldChange { name: name.clone(), value }
        };
        let verdict = Verdict::LetIn(copied.iter().map(said).collect());
        // The rest of the answer is not wanted, and its end must not be logged as the end of the response.
        self.with_proxy(|proxy, net, now| proxy.on_sent(net, now, (id, begun.rest, None), false));
        self.decide(id, verdict);
        None
    }
}

/// Returns true for a field by which a client proves its identity. The authentication server needs it even if its
/// answer may set the field too.
fn is_login(name: &str) -> bool {
    ["authorization", "cookie"].iter().any(|login| login.eq_ignore_ascii_case(name))
}

/// Builds the request to the authentication server: a GET with the fields of the client's request, whose method and
/// target are in additional fields. Fields that the answer may set (`copy_headers`) are removed, because a server may
/// trust its proxy to set them.
fn question(
    conn: &Connection<impl Socket>,
    id: ExchangeId,
    server: &AskedServer,
    (came, head): (&Request, Option<&Head>),
    priority: u8,
) -> Transfer {
    let (path, query) = server.path.split_once('?').map_or((&*server.path, None), |(path, query)| (path, Some(query)));
    let get = came.as_get(path.as_bytes(), query.map(str::as_bytes));
    // The target in the form that the application receives, so that both servers decide about the same spelling.
    let (path, query) = came.encoded().unwrap_or_else(|| (came.path.to_vec(), came.query.map(<[u8]>::to_vec)));
    let uri = query.map_or(path.clone(), |query| [&path, &b"?"[..], &query].concat());
    let set = [("X-Forwarded-Method", came.method.token().to_vec()), ("X-Forwarded-Uri", uri)];
    let set = set.map(|(name, value)| FieldChange { name: name.into(), value: Some(value) });
    let copied = server.copied.iter().map(String::as_str).filter(|name| !is_login(name));
    let removed = NOT_ASKED.into_iter().chain(copied).map(|name| FieldChange { name: name.into(), value: None });
    let changes: Vec<FieldChange> = set.into_iter().chain(removed).collect();
    let group = &server.group;
    let gateway = Gateway {
        changes: &changes,
        is_upgrade: false,
        ..gateway((conn, id.stream), group, came, (head.map_or(0, |head| head.minor_version), None))
    };
    let encoded = encode((group, None), &get, &gateway, (gateway.client, gateway.is_secure), BodyLength::None);
    let client = conn.client_of(id.stream);
    let mut from = ClientConnection::new(conn.held.responses());
    from.logs_in = is_connection_login(came.values("authorization"));
    let route = ServiceRoute::of(&group.route(&get));
    let account = conn.held.account();
    Transfer::new(id, Arc::clone(group), Method::Get, encoded, BodyLength::None, account, from)
        .queued(client, priority, route)
}
