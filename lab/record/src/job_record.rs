use serde::Deserialize;
use units::Nanos;

/// The outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every byte of a successful response arrived. Server: the kernel took every byte, with a status below 400.
    Complete,
    /// The run ended first; `end_ns` is when, so the time waited so far is counted, never dropped.
    Incomplete,
    /// The connection was refused. Never on the server's side.
    Refused,
    /// The connection was reset or closed before the whole response arrived. Server: before the kernel took the last byte, by
    /// the client, the network, or the server itself because the client read too slowly.
    Reset,
    /// TCP gave up: the connection was not made, or its bytes were not acknowledged, in the time the kernel allows. The
    /// server does not distinguish this from [`Outcome::Reset`].
    #[serde(rename = "timed_out")]
    TimedOut,
    /// The user gave up waiting. For the server a user who leaves is a [`Outcome::Reset`].
    Aborted,
    /// The response was not the one asked for (status or length). Server: a status from 400 on, or a file that could not be
    /// read to its end.
    Wrong,
}

impl Outcome {
    /// All outcomes, in the order in which they are printed.
    pub const ALL: [Outcome; 7] = [
        Outcome::Complete,
        Outcome::Incomplete,
        Outcome::Refused,
        Outcome::Reset,
        Outcome::TimedOut,
        Outcome::Aborted,
        Outcome::Wrong,
    ];

    /// The name in files and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Complete => "complete",
            Outcome::Incomplete => "incomplete",
            Outcome::Refused => "refused",
            Outcome::Reset => "reset",
            Outcome::TimedOut => "timed_out",
            Outcome::Aborted => "aborted",
            Outcome::Wrong => "wrong",
        }
    }
}

/// A request and its response, as seen from one side: by the client (the load generator, the simulator) or by the
/// server ([`Run::read_access_log`](crate::Run::read_access_log)). All instants are nanoseconds since the run began.
/// Fields that one side cannot know are empty in a file.
///
/// The server sees a response end when the kernel takes its last byte. That is before the link has carried it, by two
/// segments if it paces, by up to a socket buffer with the shaping `off`. It sees no SYN, no lost request and no queue
/// before its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Position in arrival order, from 0.
    pub job: u64,
    /// Bytes of body asked for. Server: bytes of the body that the response was to have: a range's own, 0 for HEAD,
    /// those of the error page for an error.
    pub size_bytes: u64,
    /// Bytes of response head that came before the body; 0 if none came. Server: the bytes that the kernel took.
    pub head_bytes: u64,
    /// When the request was scheduled to be submitted; response time counts from here. Server: when the event loop
    /// noticed that the last byte of the request had arrived; for a pipelined request, when the response before it was
    /// out of the way.
    pub arrival_ns: u64,
    /// When it was really submitted; later than `arrival_ns` only if the generator was late. Empty on the server's
    /// side.
    pub start_ns: Option<u64>,
    /// When the first byte of the response arrived, if one did, on the last attempt. Server: when the kernel took it.
    pub first_byte_ns: Option<u64>,
    /// When the last byte arrived (server: when the kernel took it), or when the job ended otherwise (see [`Outcome`]).
    pub end_ns: u64,
    /// Bytes of body that arrived. Server: the bytes that the kernel took.
    pub body_bytes: u64,
    /// HTTP status; 0 if no response head came (server: 499 if the client left before there was one).
    pub status: u16,
    pub outcome: Outcome,
    /// The number of attempts: 1, unless the user gave up an attempt and asked again. The results (`first_byte_ns`,
    /// `head_bytes`, `body_bytes`, `status`) are those of the last attempt; the instants of the job span all of them.
    /// For the server every attempt is a job of its own: 1.
    pub attempts: u32,
    /// The group of clients that asked, by its index in the run's list, from 0. Server: the class of the request.
    pub group: u32,
    /// The client, counted from 0. Server: addresses in the order in which they first appeared.
    pub client: Option<u32>,
    /// Server: the bytes that the client had received beyond its share of the link at the end, if clients share it.
    pub ahead_bytes: Option<u64>,
}

impl JobRecord {
    /// The record of a whole response with status 200 at the first attempt, submitted when it was due. Its head and its
    /// first byte are unknown.
    pub fn complete(job: u64, size_bytes: u64, arrival_ns: u64, end_ns: u64) -> JobRecord {
        JobRecord {
            job,
            size_bytes,
            head_bytes: 0,
            arrival_ns,
            start_ns: Some(arrival_ns),
            first_byte_ns: None,
            end_ns,
            body_bytes: size_bytes,
            status: 200,
            outcome: Outcome::Complete,
            attempts: 1,
            group: 0,
            client: None,
            ahead_bytes: None,
        }
    }

    /// Response time, or the time waited so far for a job that did not complete.
    pub fn response_time(&self) -> Nanos {
        Nanos(self.end_ns) - Nanos(self.arrival_ns)
    }

    /// The lateness of the generator in submitting the request; `None` if there was no generator.
    pub fn lateness(&self) -> Option<Nanos> {
        Some(Nanos(self.start_ns?) - Nanos(self.arrival_ns))
    }

    pub fn is_complete(&self) -> bool {
        self.outcome == Outcome::Complete
    }
}
