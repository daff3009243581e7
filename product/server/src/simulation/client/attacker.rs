//! A client that tries to cost the server as much as possible, and ignores what it receives.

use http2::testing::{PING, RST_STREAM, SETTINGS, frame, hello, request, wide};
use units::Nanos;

use super::super::random::Random;

/// The number of steps after which the client leaves in any case.
const STEPS_MAX: u32 = 60;
/// The time after which the client leaves in any case.
const ATTACKS_FOR: Nanos = Nanos::from_secs(150);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// The head of a request, a byte at a time.
    SlowHead,
    /// The body of a request, a byte at a time.
    SlowBody,
    /// Streams that are reset at once.
    RapidReset,
    /// A closed window, and the maximum number of streams.
    ShutWindow,
    Settings,
    Pings,
    /// Exceeds the maximum number of streams.
    ManyStreams,
    /// A part of a HEADERS frame, a byte at a time.
    SlowFrame,
    /// A body, or a chunk, of a length near a power of two.
    GreatLength,
    /// Malformed streams.
    Malformed,
}

const ATTACKS: [Attack; 10] = [
    Attack::SlowHead,
    Attack::SlowBody,
    Attack::RapidReset,
    Attack::ShutWindow,
    Attack::Settings,
    Attack::Pings,
    Attack::ManyStreams,
    Attack::SlowFrame,
    Attack::GreatLength,
    Attack::Malformed,
];

#[derive(Debug)]
pub struct Attacker {
    attack: Attack,
    steps: u32,
    /// The time of the next step, once the attack has begun.
    next_at: Nanos,
    leaves_at: Nanos,
    /// The next stream.
    stream: u32,
    path: String,
    /// A length near a power of two.
    great: u128,
    pub asked_count: u64,
}

impl Attacker {
    pub fn new(files: usize, random: &mut Random) -> Attacker {
        Attacker {
            attack: random.one_of(&ATTACKS),
            steps: 0,
            next_at: Nanos::ZERO,
            leaves_at: Nanos::MAX,
            stream: 1,
            path: format!("/f{}", random.below(files as u64)),
            great: random.near_power(),
            asked_count: 0,
        }
    }

    pub fn describe(&self) -> String {
        format!("{self:?}")
    }

    pub fn speaks_http2(&self) -> bool {
        !matches!(self.attack, Attack::SlowHead | Attack::SlowBody | Attack::GreatLength)
    }

    pub fn is_done(&self) -> bool {
        self.steps >= STEPS_MAX
    }

    pub fn think_at(&self) -> Option<Nanos> {
        (!self.is_done()).then_some(self.next_at)
    }

    pub fn say(&mut self, now: Nanos, into: &mut Vec<u8>, random: &mut Random) {
        if now < self.next_at || self.is_done() {
            return;
        }
        if self.steps == 0 {
            self.leaves_at = now + ATTACKS_FOR;
            self.begin(into);
        } else {
            self.go_on(into);
        }
        self.steps = if now >= self.leaves_at { STEPS_MAX } else { self.steps + 1 };
        self.next_at = now + self.pause(random);
    }

    fn pause(&self, random: &mut Random) -> Nanos {
        match self.attack {
            Attack::SlowHead | Attack::SlowBody | Attack::ShutWindow | Attack::SlowFrame | Attack::GreatLength => {
                random.micros(1, 10_000_000)
            }
            _ => random.micros(1, 50_000),
        }
    }

    fn begin(&mut self, into: &mut Vec<u8>) {
        match self.attack {
            Attack::SlowHead => into.extend(b"GET /"),
            Attack::SlowBody => {
                let head = format!("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", self.path);
                into.extend(head.as_bytes());
            }
            Attack::GreatLength => {
                let head = match self.great % 2 {
                    0 => format!("Content-Length: {}\r\n\r\n", self.great),
                    _ => format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", self.great),
                };
                into.extend(format!("POST {} HTTP/1.1\r\nHost: a\r\n{head}", self.path).as_bytes());
            }
            Attack::ShutWindow => {
                into.extend(hello());
                into.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
                (0..http2::STREAMS_MAX).for_each(|_| self.ask(into));
            }
            _ => into.extend([hello(), wide()].concat()),
        }
        self.asked_count += u64::from(!self.speaks_http2());
    }

    fn go_on(&mut self, into: &mut Vec<u8>) {
        match self.attack {
            Attack::SlowHead | Attack::SlowBody | Attack::GreatLength => into.push(b'a'),
            Attack::Malformed => (0..3).for_each(|nth| self.ask_malformed(nth, into)),
            Attack::SlowFrame => {
                into.push([0, 0, 100, 1, 5, 0, 0, 0, 1].get(self.steps as usize - 1).map_or(0, |byte| *byte))
            }
            Attack::RapidReset => (0..20).for_each(|_| {
                let stream = self.stream;
                self.ask(into);
                into.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
            }),
            Attack::ShutWindow => into.extend(frame(PING, 0, 0, &[7; 8])),
            Attack::Settings => into.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(50)),
            Attack::Pings => into.extend(frame(PING, 0, 0, &[7; 8]).repeat(50)),
            Attack::ManyStreams => (0..30).for_each(|_| self.ask(into)),
        }
    }

    fn ask_malformed(&mut self, nth: u32, into: &mut Vec<u8>) {
        let great = self.great.to_string();
        let wrong = [("content-length", great.as_str()), ("a", "b\r\nc: d"), ("connection", "close")];
        into.extend(request(self.stream, &self.path, &[wrong[nth as usize]]));
        self.stream += 2;
        self.asked_count += 1;
    }

    fn ask(&mut self, into: &mut Vec<u8>) {
        into.extend(request(self.stream, &self.path, &[]));
        self.stream += 2;
        self.asked_count += 1;
    }
}
