//! The part of `weir top` about interfaces on which `weir attach` orders the responses of other servers.

use std::time::{Duration, Instant};

use ::uplink::Counted;

use super::layout::{Block, Style, Table};
use crate::attach::figures::{self, Figures};
use crate::attach::{is_open, rate_of, said};

/// The attaches of this network namespace, from the latest reading and the one before.
#[derive(Default)]
pub struct Attaches {
    now: Vec<Figures>,
    before: Option<(Duration, Vec<Figures>)>,
    at: Option<Instant>,
}

impl Attaches {
    /// Reads the counters. They are missing if this process may not read them.
    pub fn read(&mut self) {
        let now = figures::all().unwrap_or_default();
        let before = std::mem::replace(&mut self.now, now);
        self.before = self.at.map(|at| (at.elapsed(), before));
        self.at = Some(Instant::now());
    }

    pub fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    pub fn blocks(&self) -> Vec<Block> {
        self.now.iter().flat_map(|now| self.of(now)).collect()
    }

    fn of(&self, now: &Figures) -> Vec<Block> {
        let is_same = |before: &&Figures| before.attached.facts.id == now.attached.facts.id;
        let before = self.before.as_ref().and_then(|(passed, all)| Some((*passed, all.iter().find(is_same)?)));
        let Some(settings) = &now.attached.settings else {
            let said = format!("{}: a classifier of another version of weir", now.name());
            return vec![Block::Text(said, Style::Warning)];
        };
        let missing = now.attached.missing();
        let style = if missing.is_none() { Style::Good } else { Style::Warning };
        let is_open = is_open(&now.attached.interface, now.tree.as_ref().map(|tree| &tree.plan));
        let mut blocks = vec![
            Block::Text(format!("{}: {}", now.name(), said(now.attached.place, settings, is_open)), Style::Head),
            Block::Text(missing.unwrap_or_else(|| rate_of(now)), style),
        ];
        blocks.extend(now.gain.as_ref().map(|gain| Block::Text(gain.said(), Style::Plain)));
        let bands = now.held().filter(|(.., counted)| counted.packets > 0 || counted.backlog_packets > 0);
        let earlier = |band: usize| before.and_then(|(passed, before)| Some((passed, *before.bands.get(band)?)));
        let rows = bands.map(|(band, held, counted)| row(held.said(settings.policy), &counted, earlier(band)));
        blocks.extend(table("band", rows.collect()));
        let earlier = |class: usize| before.and_then(|(passed, before)| Some((passed, *before.classes.get(class)?)));
        let rows = now.named().enumerate().map(|(nth, (name, counted))| row(name.to_string(), &counted, earlier(nth)));
        blocks.extend(table("class", rows.collect()));
        blocks.push(Block::Text(responses(now, before), Style::Plain));
        blocks.push(Block::Gap);
        blocks
    }
}

/// Returns a table of the rows with headings; `None` without rows.
fn table(what: &str, rows: Vec<Vec<String>>) -> Option<Block> {
    let head = [what, "Mbit/s", "packets/s", "waiting", "lost", "packets", "MB"].map(String::from).to_vec();
    (!rows.is_empty())
        .then(|| Block::Table(Table { rows: [head].into_iter().chain(rows).collect(), spare: &[2, 5, 6] }))
}

/// Returns the row of a band or a class. With earlier counters, it includes rates.
fn row(what: String, now: &Counted, before: Option<(Duration, Counted)>) -> Vec<String> {
    let a_second = |of: fn(&Counted) -> u64, unit: f64, digits: usize| {
        before.map_or(String::new(), |(passed, before)| {
            let count = of(now).saturating_sub(of(&before)) as f64;
            format!("{:.digits$}", count * unit / passed.as_secs_f64().max(1e-3))
        })
    };
    vec![
        what,
        a_second(|of| of.bytes, 8e-6, 2),
        a_second(|of| of.packets, 1.0, 0),
        now.backlog_packets.to_string(),
        now.drops.to_string(),
        now.packets.to_string(),
        format!("{:.1}", now.bytes as f64 / 1e6),
    ]
}

/// Returns a line with the number of ordered responses and packets.
fn responses(now: &Figures, before: Option<(Duration, &Figures)>) -> String {
    let counters = &now.attached.counters;
    let a_second = before.map_or(String::new(), |(passed, before)| {
        let count = counters.responses.saturating_sub(before.attached.counters.responses) as f64;
        format!(" ({:.1} a second)", count / passed.as_secs_f64().max(1e-3))
    });
    let ordered = now.ordered_packets();
    let (by_flow, unordered) = (counters.by_flow, counters.no_storage);
    format!(
        "responses {}{a_second}; packets ordered {ordered}, by flow {by_flow} of them, not ordered {unordered}",
        counters.responses
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_rates_where_there_is_an_earlier_one() {
        let counted = |packets, bytes| Counted { packets, bytes, drops: 3, backlog_packets: 7, backlog_bytes: 9000 };
        let now = counted(1500, 2_250_000);
        let lately = row("up to 2048 B".into(), &now, Some((Duration::from_secs(2), counted(500, 1_000_000))));
        assert_eq!(lately, ["up to 2048 B", "5.00", "500", "7", "3", "1500", "2.2"]);
        assert_eq!(row("other".into(), &now, None)[..3], ["other", "", ""]);
        // The bands were created again between the readings.
        let anew = row("other".into(), &counted(5, 400), Some((Duration::from_secs(1), now)));
        assert_eq!(anew[1..3], ["0.00", "0"]);
    }
}
