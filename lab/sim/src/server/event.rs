/// The next event. `client` is an index; `serial` distinguishes a request from the client's next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A user requests a file.
    Submit { client: u32 },
    /// The request has reached the server.
    Request { client: u32 },
    /// The processor may have finished a request, unless the generation is stale.
    Processor { generation: u64 },
    /// The disk has read a block.
    Disk,
    /// The interface has sent the segments that it was given.
    Network,
    /// The server receives an acknowledgement of all segments before this one.
    Acknowledged { client: u32, serial: u32, segment: u32 },
    /// A retransmission timer, which may have been postponed.
    Timer { client: u32, serial: u32 },
    /// The last byte has reached the client.
    Complete { client: u32 },
}
