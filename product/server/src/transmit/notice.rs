use std::fmt;

use sched::Presence;
use units::{Nanos, Rate};

use super::{Socket, Transmitter};

/// A line about foreign traffic is logged at most this often.
const FOREIGN_NOTICE_EVERY: Nanos = Nanos::from_secs(60);

/// News of the link for the operator, one line of the log each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Other programs' bytes wait in the queue our responses take.
    ForeignTraffic { interface: String, bytes: u64, share_permille: u32, rate: Rate },
    /// How the guard's promise was kept, at the end.
    LongestWait { wait: Nanos, responses: u64, promised: Nanos },
    /// The queue below can no longer be read.
    QueueLost { interface: String, why: String, rate: Rate },
    /// It can be read, or be read again.
    QueueFound { interface: String, rate: Rate },
    /// The shaper was changed.
    RateChanged { interface: String, before: Rate, rate: Rate },
    /// The line carries another rate than we were told, or does so no more.
    Pace(sched::line::Notice),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Pace(notice) => say_pace(f, *notice),
            Notice::ForeignTraffic { interface, bytes, share_permille, rate } => write!(
                f,
                "{interface}: {} KB of other traffic in the same queue; it keeps {} % of the link, responses get {rate} \
                 (--foreign-share)",
                bytes.div_ceil(1000),
                f64::from(*share_permille) / 10.0,
            ),
            Notice::LongestWait { wait, responses, promised } => write!(
                f,
                "longest wait of a ready response: {:.2} s; promised: at most {:.2} s (with {responses} responses)",
                wait.as_secs_f64(),
                promised.as_secs_f64(),
            ),
            Notice::QueueLost { interface, why, rate } => {
                write!(f, "{interface}: cannot read the queue: {why}; pacing at {rate} without it")
            }
            Notice::QueueFound { interface, rate } => {
                write!(f, "{interface}: found a shaper at {rate}; pacing at that rate")
            }
            Notice::RateChanged { interface, before, rate } => {
                write!(f, "{interface}: shaper changed from {before} to {rate}; pacing at that rate")
            }
        }
    }
}

fn say_pace(f: &mut fmt::Formatter<'_>, notice: sched::line::Notice) -> fmt::Result {
    use sched::line::Notice;
    match notice {
        Notice::Found { rate } => write!(f, "uplink {}: found, pacing by it", mbit(rate)),
        Notice::Changed { from, to } => write!(f, "uplink {}, before {}: pacing by it", mbit(to), mbit(from)),
        Notice::Others { rate, lasts } => write!(
            f,
            "uplink {}: others fill the line, pacing is left as it is for {:.0} s",
            mbit(rate),
            lasts.as_secs_f64()
        ),
    }
}

/// A rate as it was measured, three digits of it: `9.42 Mbit/s`.
pub fn mbit(rate: Rate) -> String {
    let bits_per_s = rate.bits_per_s() as f64;
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| bits_per_s >= *scale).unwrap_or((1.0, "bit/s"));
    let number = bits_per_s / scale;
    let decimals = if number >= 100.0 {
        0
    } else if number >= 10.0 {
        1
    } else {
        2
    };
    format!("{number:.decimals$} {unit}")
}

impl<S: Socket + Clone> Transmitter<S> {
    pub(super) fn notice_foreign(&mut self, now: Nanos) {
        let (foreign, rate) = (self.drain.ledger().foreign(), self.drain.ledger().rate());
        let is_due = self.foreign_noticed_at.is_none_or(|at| now - at >= FOREIGN_NOTICE_EVERY);
        if foreign.presence() != Presence::Shared || !is_due {
            return;
        }
        if let (Some(gauge), Some(rate)) = (&self.gauge, rate) {
            self.foreign_noticed_at = Some(now);
            let (bytes, share_permille) = (foreign.bytes(), foreign.share_permille());
            let interface = gauge.name().to_string();
            self.notices.push(Notice::ForeignTraffic { interface, bytes, share_permille, rate });
        }
    }
}
