//! Factors for people: one table, losses first, and below it which seeds do not count; the same as Markdown.

use std::fmt::Write as _;

use super::{Estimate, FactorRow, Factors, LeftOut, PageFactor, Standing};
use crate::table::{Row, WIDTH_MAX, aligned, cut, figure, wrap};
use crate::text;

/// Longer names of runs are cut in the table, and those of groups to what is left of its width, but not to less than that.
const RUN_CHARS_MAX: usize = 20;
const GROUP_CHARS_MIN: usize = 12;

/// Seeds that are named one by one.
const SEEDS_NAMED_MAX: usize = 10;

const COLUMNS: [&str; 8] =
    ["group", "run", "seeds", "mean, ms ± 95 %", "/ packets ± 95 %", "factor, 95 %", "top 0.5 %, 95 %", "losses"];

impl Factors {
    /// For a terminal.
    pub fn table(&self) -> String {
        let mut text = String::new();
        wrap(&mut text, &self.legend());
        text.push('\n');
        let mut rows: Vec<Row> = vec![COLUMNS.map(String::from).to_vec()];
        rows.extend(self.rows.iter().map(|row| row.cells().to_vec()));
        rows.iter_mut().for_each(|row| row[1] = cut(&row[1], RUN_CHARS_MAX));
        let rest: usize = aligned(&rows.iter().map(|row| row[1..].to_vec()).collect::<Vec<_>>())
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0);
        let room = WIDTH_MAX.saturating_sub(rest + "  ".len()).max(GROUP_CHARS_MIN);
        rows.iter_mut().for_each(|row| row[0] = cut(&row[0], room));
        text.push_str(&aligned(&rows));
        for (heading, rows) in self.pages() {
            let heading = heading.iter().map(|name| (*name).to_owned()).collect();
            let _ = write!(text, "\n{}", aligned(&std::iter::once(heading).chain(rows).collect::<Vec<_>>()));
        }
        let remarks = self.remarks();
        if !remarks.is_empty() {
            text.push('\n');
        }
        remarks.iter().for_each(|remark| wrap(&mut text, remark));
        text
    }

    /// For a page.
    pub fn markdown(&self, title: &str) -> String {
        let rows = self.rows.iter().map(|row| {
            let cells = row.cells().map(|cell| cell.replace('*', "\\*"));
            let is_loss = !row.losses().is_empty();
            cells.into_iter().map(|cell| if is_loss { format!("**{cell}**") } else { cell }).collect()
        });
        let mut text = format!("# {title}\n\n{}\n\n{}", self.legend(), text::table(&COLUMNS, rows));
        for (heading, rows) in self.pages() {
            let _ = write!(text, "\n{}", text::table(&heading, rows.into_iter()));
        }
        let remarks = self.remarks();
        if !remarks.is_empty() {
            text.push('\n');
        }
        remarks.iter().for_each(|remark| {
            let _ = writeln!(text, "- {remark}");
        });
        text
    }

    /// Where pages were loaded: tables of first views, of whole pages and of their bodies, each figure with its factor.
    fn pages(&self) -> Vec<(Vec<&'static str>, Vec<Row>)> {
        let rows = |from: usize, count: usize| {
            let of_row = |row: &FactorRow| {
                let cells = row.pages.get(from..from + count)?.iter().map(PageFactor::cell);
                Some([row.group.clone(), cut(&row.run, RUN_CHARS_MAX)].into_iter().chain(cells).collect())
            };
            self.rows.iter().filter_map(of_row).collect::<Vec<Row>>()
        };
        let tables =
            [("first view, ms (factor)", 0, 3), ("whole page, ms (factor)", 3, 3), ("bodies, KB (factor)", 6, 1)];
        let heading = |name, count| ["group", name].into_iter().chain(["mean", "p50", "p95"].into_iter().take(count));
        let tables = tables.map(|(name, from, count)| (heading(name, count).collect::<Vec<_>>(), rows(from, count)));
        tables.into_iter().filter(|(_, rows)| !rows.is_empty()).collect()
    }

    fn legend(&self) -> String {
        let over = &self.over;
        format!(
            "Factors are the mean response time of a run over that of {over}, the same of the largest 0.5 % of requests: geometric \
             means of the ratios of each seed, with the 95 % interval of their logarithms by Student's t. Below 1 {over} loses; \
             losses come first, and those with a question mark have an interval that includes 1."
        )
    }

    fn remarks(&self) -> Vec<String> {
        let of_row = |row: &FactorRow| {
            let name = format!("{} / {}", row.group, row.run);
            let seeds = row.seeds;
            row.left_out.iter().map(move |left_out| format!("{name}: {}", left_out.text(seeds))).collect::<Vec<_>>()
        };
        let mut remarks: Vec<String> = self.rows.iter().flat_map(of_row).collect();
        let mut groups: Vec<&str> = vec![];
        for row in self.rows.iter().filter(|row| row.used > row.loads) {
            if !groups.contains(&row.group.as_str()) {
                groups.push(&row.group);
                remarks.push(row.of_few_loads());
            }
        }
        if self.rows.iter().any(|row| row.used == 1 || row.pairs == 1) {
            remarks.push("1 seed has no interval: what another seed would give is not known".into());
        }
        remarks
    }
}

impl FactorRow {
    fn cells(&self) -> [String; 8] {
        let seeds =
            if self.used == self.seeds { self.seeds.to_string() } else { format!("{}/{}", self.used, self.seeds) };
        [
            self.group.clone(),
            self.run.clone(),
            seeds,
            self.mean_ms.map_or("-".into(), Estimate::plus_minus),
            self.packet_bound_ratio.map_or("-".into(), Estimate::plus_minus),
            self.factor.map_or("-".into(), Estimate::with_ends),
            self.factor_top.map_or("-".into(), Estimate::with_ends),
            Some(self.losses()).filter(|losses| !losses.is_empty()).unwrap_or("-".into()),
        ]
    }

    fn of_few_loads(&self) -> String {
        let FactorRow { group, used, loads, .. } = self;
        let had = match loads {
            1 => format!("all {used} seeds had the same requests"),
            _ => format!("{used} seeds had only {loads} different loads"),
        };
        format!(
            "{group}: {had}: the intervals are of what machine and programs left to chance, and say nothing of other requests"
        )
    }

    /// Of the mean, of the largest; with a question mark where the interval includes 1.
    fn losses(&self) -> String {
        let said = |name: &str, standing: Option<Standing>| match standing {
            Some(Standing::Loses) => Some(name.to_string()),
            Some(Standing::Open) => Some(format!("{name}?")),
            Some(Standing::Gains) | None => None,
        };
        let both = [said("mean", self.standing), said("top", self.standing_top)];
        both.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl PageFactor {
    fn cell(&self) -> String {
        let value = self.value.map_or("-".into(), |value| figure(value.value));
        let factor = self.factor.map_or_else(String::new, |factor| format!(" ({})", factor.with_ends()));
        value + &factor
    }
}

impl Estimate {
    pub(crate) fn plus_minus(self) -> String {
        let half = self.high.map(|high| format!(" ± {}", figure(high - self.value)));
        figure(self.value) + half.as_deref().unwrap_or(" (1 seed)")
    }

    pub(crate) fn with_ends(self) -> String {
        let ends = self.low.zip(self.high).map(|(low, high)| format!(" {}-{}", figure(low), figure(high)));
        figure(self.value) + ends.as_deref().unwrap_or(" (1 seed)")
    }
}

impl LeftOut {
    /// `2 of 10 seeds void (3, 7): the server used 0.75 of a core, more than 0.5`.
    fn text(&self, seeds: usize) -> String {
        let LeftOut { what, seeds: those, reason } = self;
        let mut named: Vec<String> = those.iter().take(SEEDS_NAMED_MAX).map(u64::to_string).collect();
        if those.len() > SEEDS_NAMED_MAX {
            named.push("…".into());
        }
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let word = if seeds == 1 { "seed" } else { "seeds" };
        format!("{} of {seeds} {word} {what} ({}){reason}", those.len(), named.join(", "))
    }
}
