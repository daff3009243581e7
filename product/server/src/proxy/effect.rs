//! The actions that the proxy requests from the event loop, as values.

use std::sync::Arc;

use http::http1::upstream::UpstreamHead;
use units::Nanos;

use crate::body::Pipe;
use crate::disk::Room;
use crate::exchange_id::ExchangeId;
use crate::files::SiteNumber;
use crate::upstream::{Attempt, Fault, TransferStep};

/// The next action for the event loop. `id` is the name of an exchange, which may have ended in the meantime.
#[derive(Debug)]
pub enum Effect {
    /// Sends an interim response.
    Interim { id: ExchangeId, head: Box<UpstreamHead> },
    /// Starts to send a response. [`super::Proxy::on_sent`] must follow.
    Respond(Box<Begun>),
    /// Sends a file that the response names in place of its body.
    Named(Box<Named>),
    /// Sends the site's error page in place of the response with this head.
    Intercepted { id: ExchangeId, head: Box<UpstreamHead> },
    /// Passes the sink of a response to [`super::Proxy::read_body`].
    Body { id: ExchangeId },
    /// Reads more of a request's body, which [`super::Proxy::push_request`] takes.
    ReadRequest { id: ExchangeId },
    /// Runs the clock of an upload on a stream while it waits for its client, and stops it while it waits for its
    /// upstream.
    Upload { id: ExchangeId, is_awaited: bool },
    /// Continues to receive a response into a file. If that can be started, [`super::Proxy::on_spooled`] must follow.
    Spool { id: ExchangeId, room: Arc<Room> },
    /// Completes the log data of an exchange.
    Ended { id: ExchangeId, tried: Option<Tried>, measured: Option<Measured> },
    /// Logs the fault. Cuts off the response if it is being sent, and otherwise replies with an error.
    Failed { id: ExchangeId, fault: Fault, upstream: Arc<str>, is_sending: bool },
    /// Logs text that a program wrote to its error stream.
    Said { upstream: Arc<str>, said: String },
    /// Writes a line to the error log.
    Note(String),
}

/// A response whose head has arrived, with the part of the body that came together with the head.
#[derive(Debug)]
pub struct Begun {
    pub id: ExchangeId,
    pub head: UpstreamHead,
    /// The pipe of the body; `None` for a response without a body.
    pub pipe: Option<Pipe>,
    /// The progress of the body.
    pub rest: TransferStep,
    pub tried: Option<Tried>,
}

/// A response that names the file with this path in this folder.
#[derive(Debug)]
pub struct Named {
    pub id: ExchangeId,
    pub head: UpstreamHead,
    pub folder: SiteNumber,
    pub path: Vec<u8>,
}

/// The upstream that was chosen for a request, and the last attempt.
#[derive(Debug)]
pub struct Tried {
    pub upstream: Arc<str>,
    /// The time at which enough of the request had arrived to queue it.
    pub queued_at: Nanos,
    pub attempt: Attempt,
}

/// The size and the prediction of a response whose transfer has ended by itself.
#[derive(Debug)]
pub struct Measured {
    /// The quantile of the response's size in the prediction.
    pub quantile: Option<f64>,
    pub body_bytes: u64,
}
