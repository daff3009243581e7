use serde::{Deserialize, Serialize};
use units::Nanos;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every byte of a successful response arrived.
    Complete,
    /// The run ended first; `end_ns` is when, so the time waited so far is counted, never dropped.
    Incomplete,
    /// The connection was refused.
    Refused,
    /// The connection was reset or closed before the whole response arrived.
    Reset,
    /// TCP gave up: the connection was not made, or its bytes were not acknowledged, in the time the kernel allows.
    #[serde(rename = "timed_out")]
    TimedOut,
    /// The user gave up waiting.
    Aborted,
    /// The response was not the one asked for (status or length).
    Wrong,
}

impl Outcome {
    /// In the order in which they are printed.
    pub const ALL: [Outcome; 7] = [
        Outcome::Complete,
        Outcome::Incomplete,
        Outcome::Refused,
        Outcome::Reset,
        Outcome::TimedOut,
        Outcome::Aborted,
        Outcome::Wrong,
    ];

    /// As it stands in files and in JSON.
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

/// One request and its response, as seen by whoever wrote the record. All instants are nanoseconds since the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Position in arrival order, from 0.
    pub job: u64,
    /// Bytes of body asked for.
    pub size_bytes: u64,
    /// Bytes of response head that came before the body; 0 when none came.
    pub head_bytes: u64,
    /// When the request was scheduled to be submitted; response time counts from here.
    pub arrival_ns: u64,
    /// When it really was submitted; later than `arrival_ns` only if the generator was late.
    pub start_ns: u64,
    /// When the first byte of the response arrived, if one did, on the last attempt.
    pub first_byte_ns: Option<u64>,
    /// When the last byte arrived, or when the job ended otherwise (see [`Outcome`]).
    pub end_ns: u64,
    /// Bytes of body that arrived (client) or were handed to the kernel (server).
    pub body_bytes: u64,
    /// HTTP status; 0 when no response head came.
    pub status: u16,
    pub outcome: Outcome,
    /// How often it was asked for: 1, unless the user gave up an attempt and asked again. What came back (`first_byte_ns`,
    /// `head_bytes`, `body_bytes`, `status`) is that of the last attempt, all instants of the job span all of them.
    #[serde(default = "one")]
    pub attempts: u32,
    /// The group of clients that asked, by its place in the run's list, from 0.
    #[serde(default)]
    pub group: u32,
}

/// What files of before there were attempts mean.
fn one() -> u32 {
    1
}

impl JobRecord {
    /// Response time, or the time waited so far for a job that did not complete.
    pub fn response_time(&self) -> Nanos {
        Nanos(self.end_ns) - Nanos(self.arrival_ns)
    }

    /// How late the generator submitted the request.
    pub fn lateness(&self) -> Nanos {
        Nanos(self.start_ns) - Nanos(self.arrival_ns)
    }

    pub fn is_complete(&self) -> bool {
        self.outcome == Outcome::Complete
    }
}
