//! The table of a run, in Markdown.

use std::time::Duration;

use crate::bench::table::aligned;

/// An attack on one server.
pub struct Row {
    pub attack: &'static str,
    pub server: &'static str,
    /// The number of connections held at the same time until the end, and of connections given up because the server refused
    /// or ended them.
    pub connections: [u32; 2],
    pub upload_bytes: u64,
    /// The CPU time of the server without the honest client's share: during the attack, and from its end until the
    /// server rests.
    pub cpu_s: [f64; 2],
    /// The resident memory before the attack, with all connections held, and after they have closed.
    pub memory: [u64; 3],
    /// The maximum resident memory at any time, and the memory limit of the server.
    pub peak_bytes: u64,
    pub budget_bytes: Option<u64>,
    /// The honest client's longest wait before, during and after the attack.
    pub waits: [Duration; 3],
    /// The number of refused honest requests.
    pub refused: u64,
    /// The number of lines missing in the access log, if the number of answered requests is known.
    pub lost: Option<u64>,
    pub is_alive: bool,
    /// The share of one core that all other programs took.
    pub others_cpu: f64,
}

impl Row {
    /// The longest wait from the beginning of the attack until the server rests.
    pub fn longest(&self) -> Duration {
        self.waits[1].max(self.waits[2])
    }

    pub fn end_us_per_connection(&self) -> f64 {
        self.cpu_s[1] * 1e6 / f64::from(self.connections[0].max(1))
    }

    /// Returns the memory per held connection of the attackers.
    pub fn kb_per_connection(&self) -> Option<f64> {
        let more = self.memory[1].saturating_sub(self.memory[0]) as f64;
        (self.connections[0] > 0).then(|| more / f64::from(self.connections[0]) / 1000.0)
    }

    fn cells(&self) -> Vec<String> {
        let [before, _, after] = self.memory.map(|bytes| bytes as f64);
        let or_dash = |value: Option<f64>, digits: usize| value.map_or("-".into(), |value| format!("{value:.digits$}"));
        let is_cut = self.is_alive && self.connections[0] > 0;
        vec![
            self.attack.to_owned(),
            self.server.to_owned(),
            format!("{} ({})", self.connections[0], self.connections[1]),
            format!("{:.1}", self.upload_bytes as f64 / 1000.0),
            or_dash(self.is_alive.then(|| self.cpu_s.iter().sum::<f64>() * 1e9 / self.upload_bytes.max(1) as f64), 0),
            or_dash(is_cut.then(|| self.end_us_per_connection()), 0),
            or_dash(self.kb_per_connection().filter(|_| self.is_alive), 1),
            or_dash(self.is_alive.then(|| after / before), 1),
            format!("{:.0}", self.peak_bytes as f64 / f64::from(1 << 20)),
            self.waits.map(|wait| format!("{:.1}", wait.as_secs_f64() * 1000.0)).join(" / "),
            self.refused.to_string(),
            self.lost.map_or("-".into(), |lost| lost.to_string()),
            if self.is_alive { "no" } else { "yes" }.to_owned(),
            format!("{:.0}", self.others_cpu * 100.0),
        ]
    }
}

const TITLES: [&str; 14] = [
    "attack",
    "server",
    "connections held (given up)",
    "upload, KB",
    "server CPU, ns per byte of it",
    "CPU per end, us",
    "memory per connection, KB",
    "memory after / before",
    "most memory, MiB",
    "longest honest wait before / during / after, ms",
    "honest refused",
    "log lines lost",
    "died",
    "others' CPU, % of a core",
];

pub fn table(rows: &[Row]) -> String {
    let head = TITLES.map(str::to_owned).to_vec();
    aligned(&[head].into_iter().chain(rows.iter().map(Row::cells)).collect::<Vec<_>>())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn row(held: u32, end_s: f64, wait_ms: u64) -> Row {
        Row {
            attack: "h2-stall",
            server: "weir",
            connections: [held, 0],
            upload_bytes: 1_000_000,
            cpu_s: [0.5, end_s],
            memory: [1_000_000, 3_000_000, 2_000_000],
            peak_bytes: 4_000_000,
            budget_bytes: None,
            waits: [1, 2, wait_ms].map(Duration::from_millis),
            refused: 0,
            lost: Some(0),
            is_alive: true,
            others_cpu: 0.0,
        }
    }

    #[test]
    fn costs_are_per_byte_and_per_connection() {
        let cells = row(1000, 0.5, 3).cells();
        assert_eq!(cells[3..10], ["1000.0", "1000", "500", "2.0", "2.0", "4", "1.0 / 2.0 / 3.0"]);
        assert_eq!(cells.len(), TITLES.len());
        let died = Row { is_alive: false, ..row(1000, 0.5, 3) };
        assert_eq!((&died.cells()[4][..], &died.cells()[12][..]), ("-", "yes"));
    }
}
