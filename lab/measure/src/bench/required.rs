//! The bounds on loopback that Weir with its defaults must meet: never slower than the server that it replaces.

use super::outcome::{Contest, Ratio, Side};
use super::plan::{KB, KB_100, MB_10, Over};
use super::server::Kind;

/// Servers that Weir may replace.
const REPLACED: [Kind; 3] = [Kind::Nginx, Kind::H2o, Kind::Lighttpd];
/// Proxies that Weir may replace.
const REPLACED_PROXIES: [Kind; 3] = [Kind::Nginx, Kind::Haproxy, Kind::Caddy];
/// The maximum CPU per request with small files, relative to the best of these servers.
const SMALL_CPU_MAX: f64 = 0.8;
const CONNECTIONS: u32 = 64;

/// A bound and the measured value.
pub struct Required {
    pub row: String,
    pub text: &'static str,
    pub base: &'static str,
    pub bound: f64,
    is_upper: bool,
    /// The measured ratio; `None` if the servers did not answer correctly.
    pub ratio: Option<Ratio>,
    is_void: bool,
}

impl Required {
    /// Returns the verdict; "open" if the bound lies within the interval of the median.
    pub fn verdict(&self) -> &'static str {
        self.ratio.map_or("VOID", |ratio| verdict(ratio, self.bound, self.is_upper, self.is_void))
    }
}

fn verdict(ratio: Ratio, bound: f64, is_upper: bool, is_void: bool) -> &'static str {
    // With the sign changed, an upper bound becomes a lower one.
    let sign = if is_upper { -1.0 } else { 1.0 };
    let (low, high) = if is_upper { (-ratio.high, -ratio.low) } else { (ratio.low, ratio.high) };
    let verdicts = match (low >= sign * bound, high >= sign * bound) {
        (true, _) => ["met", "VOID (met)"],
        (false, true) => ["open", "VOID (open)"],
        (false, false) => ["missed", "VOID (missed)"],
    };
    verdicts[usize::from(is_void)]
}

pub fn of(contests: &[Contest]) -> Vec<Required> {
    let is_bound = |contest: &&Contest| {
        let row = &contest.row;
        row.is_keep_alive && row.connections == CONNECTIONS && [KB, KB_100, MB_10].contains(&row.file)
    };
    contests.iter().filter(is_bound).flat_map(of_contest).collect()
}

fn of_contest(contest: &Contest) -> Vec<Required> {
    let Some(weir) = contest.side(Kind::Weir.name()) else { return Vec::new() };
    let is_whole = contest.sides.iter().all(|side| side.void().is_none());
    let required = |text, base: &Side, bound, is_upper| {
        let ratio = if is_upper { weir.cpu_to(base) } else { weir.rate_to(base) };
        Required {
            row: contest.row.name(),
            text,
            base: base.server,
            bound,
            is_upper,
            ratio: is_whole.then_some(ratio),
            is_void: contest.is_void(),
        }
    };
    let mut all = Vec::new();
    if let Some(nginx) = contest.side(Kind::Nginx.name()) {
        all.push(required("rate at least", nginx, 1.0, false));
        all.push(required("CPU per request at most", nginx, 1.0, true));
    }
    let is_proxy = contest.row.over == Over::PassedOn;
    let replaced = if is_proxy { REPLACED_PROXIES } else { REPLACED };
    let others: Vec<&Side> = replaced.iter().filter_map(|kind| contest.side(kind.name())).collect();
    let cpu = |side: &Side| side.median(|round| round.cpu_us_per_request);
    let best = others.into_iter().min_by(|a, b| cpu(a).total_cmp(&cpu(b)));
    match best {
        Some(best) if is_proxy => all.push(required("CPU per request at most", best, 1.0, true)),
        Some(best) if contest.row.file == KB => {
            all.push(required("CPU per request at most", best, SMALL_CPU_MAX, true))
        }
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(is_upper: bool, low: f64, high: f64) -> &'static str {
        let ratio = Some(Ratio { median: (low + high) / 2.0, low, high });
        let (row, text) = (String::new(), "rate");
        Required { row, text, base: "nginx", bound: 1.0, is_upper, ratio, is_void: false }.verdict()
    }

    #[test]
    fn an_interval_is_met_open_or_missed() {
        assert_eq!([verdict(false, 1.0, 1.1), verdict(true, 0.9, 1.0)], ["met", "met"]);
        assert_eq!([verdict(false, 0.9, 1.1), verdict(true, 0.9, 1.1)], ["open", "open"]);
        assert_eq!([verdict(false, 0.9, 0.99), verdict(true, 1.01, 1.1)], ["missed", "missed"]);
    }
}
