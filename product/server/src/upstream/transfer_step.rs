use http::http1::upstream::UpstreamHead;

use super::Fault;

/// The result of a step of a transfer.
#[derive(Debug)]
pub enum TransferStep {
    /// The transfer waits until the upstream or the client continues.
    Wait,
    /// The head of the response; [`super::Transfer::read_body`] reads its body.
    Head(UpstreamHead),
    /// An interim response for the client; the next step continues after it.
    Interim(UpstreamHead),
    /// The response is complete.
    Done,
    /// The rest of the body is not wanted.
    Unwanted,
    Failed(Fault),
}
