//! Request bodies that are counted and discarded, and the refusal of bodies that arrive too slowly on a stream. The
//! reply, which reports the length of the body, is made when the body is complete. Each turn reads the connection's
//! share of a body. Over HTTP/2 and HTTP/3 the flow-control window opens as the body is read, so no body is stored.

use http::http1::Head;
use http::{BodyLength, Request};
use http2::BodyRead;

use super::responder::Responder;
use crate::answer::{self, Reply, To};
use crate::connection::http1::TOO_SLOW;
use crate::connection::{KeptRequest, Receiving, Task};
use crate::exchange_id::ExchangeId;
use crate::net::Net;
use crate::sites::received;
use crate::upload::Upload;

/// The maximum number of bytes of a body taken from its stream in one step.
const PART_BYTES: usize = 16 << 10;

impl<N: Net> Responder<N> {
    /// Starts to receive the body of a request. Returns the reply immediately if there is no body.
    pub(super) fn receive_body(
        &mut self,
        id: ExchangeId,
        to: To,
        request: &Request,
        head: Option<&Head>,
    ) -> Option<Reply> {
        if request.body == BodyLength::None {
            return Some(self.service.handler.passed_on(to, request, received(0)));
        }
        if self.must_wait_for_leave(id, head) {
            return None;
        }
        let (now, limits) = (self.timers.client_now(), self.limits.upload());
        self.connections.want_body(id, request, self.timers.date());
        let conn = &mut self.connections[id];
        self.service.note(
            self.timers.now(),
            conn,
            id.stream,
            to.site,
            request,
            head.map_or(0, |head| head.minor_version),
        );
        let mut request = KeptRequest::new(request, conn.held.account());
        request.upload = conn.keeps_bodies().then(|| Box::new(Upload::new(now, limits)));
        conn.exchange(id.stream).task = Task::Receiving(Box::new(Receiving { request, bytes: 0 }));
        None
    }

    /// Takes more of a request's body from an HTTP/1.1 connection.
    pub(super) fn take_data(&mut self, at: usize, bytes: &[u8], is_last: bool) {
        let Task::Receiving(receiving) = &mut self.connections[at].exchange(0).task else {
            return self.pass_on(at, bytes, is_last);
        };
        receiving.bytes += bytes.len() as u64;
        if is_last {
            let id = self.connections[at].exchange_id(0);
            self.reply_received(id);
        }
    }

    /// Takes more of a request's body from a stream.
    pub(super) fn take_stream_data(&mut self, id: ExchangeId) {
        let now = self.timers.client_now();
        let Some(exchange) = self.connections.find(id) else { return };
        match exchange.task {
            Task::Receiving(_) => {}
            // The client must be let in first.
            Task::Deciding(_) => return,
            _ => return self.pass_on_stream(id),
        }
        let mut part = Vec::with_capacity(PART_BYTES);
        // The stream's flow-control window bounds the bytes in memory.
        let read = loop {
            part.clear();
            let connection = &mut self.connections[id];
            let read = connection.engine().read_body(id.stream, &mut part, PART_BYTES);
            let exchange = connection.exchange(id.stream);
            exchange.upload().into_iter().for_each(|upload| upload.on_bytes(now, part.len()));
            if let Task::Receiving(receiving) = &mut exchange.task {
                receiving.bytes += part.len() as u64;
            }
            if read != BodyRead::More {
                break read;
            }
        };
        self.connections.queue_output(id.slot());
        // The end of the stream reports a body that was cut off.
        if read == BodyRead::End {
            self.reply_received(id);
        }
    }

    /// Replies to a request whose body is complete.
    fn reply_received(&mut self, id: ExchangeId) {
        let conn = &mut self.connections[id];
        let Task::Receiving(receiving) = std::mem::take(&mut conn.exchange(id.stream).task) else { return };
        let request = receiving.request.view();
        // The sites in force may have changed since the request began.
        let to = self.service.target(conn, id.stream, &request);
        let reply = self.service.handler.passed_on(to, &request, received(receiving.bytes));
        self.send(id, reply);
    }

    /// Refuses bodies that arrive too slowly on the streams of a connection.
    pub(super) fn end_slow_bodies(&mut self, at: usize) {
        let now = self.timers.client_now();
        while let Some(conn) = self.connections.get_mut(at) {
            let late = conn.protocol.exchanges_mut().find_map(|exchange| {
                let is_late = exchange.upload().is_some_and(|upload| now >= upload.deadline());
                is_late.then_some(exchange.id)
            });
            let Some(id) = late else { return };
            self.leave_upstream(id);
            let exchange = self.connections.exchange(id);
            (exchange.task, exchange.class) = (Task::None, self.service.handler.default_class());
            self.connections.leave_body(id);
            self.send(id, answer::reject(TOO_SLOW));
        }
    }
}
