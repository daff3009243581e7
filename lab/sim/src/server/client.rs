//! A user equivalent, its connection and its request.

use rand_chacha::ChaCha8Rng;
use sched::Path;
use units::Nanos;
use workload::surge::{Files, UserModel};

use super::config::{Config, Throughput};
use super::internet::{Place, Weather};
use super::tcp::{Link, Transfer};

/// The attempts after which a handshake or request succeeds in any case: at a loss of 5 % one in ten million needs
/// them.
const ATTEMPTS_MAX: u32 = 7;

/// The words of a user's random stream that are reserved for each request, more than its segments can need.
const REQUEST_WORDS: u128 = 1 << 24;

/// The first word whose draws decide the losses of segments. The words before it are for the request and its handshake,
/// which not every request has.
/// request has.
pub(super) const SEGMENT_WORDS: u128 = 256;

/// A user and its client program.
pub(super) struct Client {
    pub(super) place: Place,
    pub(super) rng: ChaCha8Rng,
    /// The files of the Web object still to be requested, after the current one.
    pub(super) embedded: u32,
    pub(super) submitted: Nanos,
    pub(super) asked: Asked,
    pub(super) link: Option<Link>,
    /// True if the connection was set up for this request.
    pub(super) is_new: bool,
    /// The number of requests so far.
    pub(super) serial: u32,
    pub(super) exchange: Option<Exchange>,
    /// The instant at which the access link will have delivered everything sent so far.
    pub(super) access_free: Nanos,
    /// The instant of the valid timer event; others are stale.
    pub(super) timer_at: Option<Nanos>,
    /// The rate of the last transfer, bits per second.
    pub(super) measured_bps: Option<u64>,
}

/// The random values of one request of a user, the same under every policy.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) size_bytes: u64,
    /// The round-trip time of the transfer.
    pub(super) rtt: Nanos,
    /// The time from its response to the next request.
    pub(super) off: Nanos,
}

/// A request at the server.
pub(super) struct Exchange {
    pub(super) number: u64,
    pub(super) size_bytes: u64,
    pub(super) transfer: Transfer,
    pub(super) arrived: Nanos,
    /// The processor time that it needs.
    pub(super) demand: Nanos,
    /// True if the processor has finished it.
    pub(super) is_parsed: bool,
    pub(super) waited: Nanos,
    pub(super) served: Nanos,
    pub(super) first_byte: Option<Nanos>,
}

impl Client {
    pub(super) fn new(place: Place, embedded: u32, rng: ChaCha8Rng) -> Client {
        Client {
            place,
            rng,
            embedded,
            submitted: Nanos::ZERO,
            asked: Asked { size_bytes: 0, rtt: place.rtt_least, off: Nanos::ZERO },
            link: None,
            is_new: false,
            serial: 0,
            exchange: None,
            access_free: Nanos::ZERO,
            timer_at: None,
            measured_bps: None,
        }
    }

    /// Draws the next request. Its words of the stream depend only on its number, not on the results of earlier
    /// requests. A user's requests and their losses are therefore the same under every policy, and policies do not
    /// differ by chance.
    pub(super) fn ask(&mut self, weather: &Weather, files: &Files, users: &UserModel) {
        self.go_to(0);
        let rng = &mut self.rng;
        let (size_bytes, rtt) = (files.draw(rng), weather.rtt(self.place.rtt_least, rng));
        let off = if self.embedded > 0 {
            self.embedded -= 1;
            users.active_off(rng)
        } else {
            self.embedded = users.embedded(rng);
            users.inactive_off(rng)
        };
        self.asked = Asked { size_bytes, rtt, off };
    }

    /// Moves to a word of the next request. The words before the first request were used for the user's start.
    pub(super) fn go_to(&mut self, word: u128) {
        self.rng.set_word_pos((u128::from(self.serial) + 1) * REQUEST_WORDS + word);
    }

    pub(super) fn exchange_mut(&mut self) -> &mut Exchange {
        self.exchange.as_mut().expect("the server is busy with requests only")
    }

    /// Returns the time for which a client retries in vain, with a doubling timer, if each attempt fails when any of
    /// `packets` is lost.
    pub(super) fn lost_for(&mut self, rto: Nanos, packets: u32, weather: &Weather) -> Nanos {
        let mut waited = Nanos::ZERO;
        for attempt in 0..ATTEMPTS_MAX {
            let is_lost = (0..packets).fold(false, |lost, _| weather.is_lost(&mut self.rng) || lost);
            if !is_lost {
                break;
            }
            waited += Nanos(rto.0 << attempt);
        }
        waited
    }

    /// The path as seen by policies.
    pub(super) fn path(&self, config: &Config) -> Path {
        let window_bps = u128::from(config.tcp.window_bytes) * 8_000_000_000 / u128::from(self.asked.rtt.0.max(1));
        let throughput_bps = match config.internet.throughput {
            Throughput::Path => Some(self.place.bandwidth.bits_per_s().min(window_bps as u64)),
            Throughput::Measured => self.measured_bps,
        };
        Path { rtt: Some(self.asked.rtt), cwnd_bytes: self.link.as_ref().map(Link::cwnd_bytes), throughput_bps }
    }
}
