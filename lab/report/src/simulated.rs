//! What a simulated sweep says of the same figure: the row of its table that has the same point and the same server.
//!
//! Of a sweep are kept `NAME-table.md` (a table in Markdown, one row per cell) or, beside the sweep, `NAME/table.md`.

use std::collections::BTreeMap;

use crate::claim::Figure;
use crate::metric::Metric;
use crate::verdict::Found;

/// The column that says which server, and so which run, a row is of.
const SERVER: &str = "server";

/// The table of one sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Simulated {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// How a run is to be found among a sweep's rows.
pub(crate) struct Sought<'a> {
    pub name: &'a str,
    pub policy: &'a str,
    pub shaping: &'a str,
}

impl Simulated {
    /// Reads the first table of a Markdown text; `None` if there is none.
    pub fn parse(text: &str) -> Option<Simulated> {
        let cells = |line: &str| -> Vec<String> {
            line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
        };
        let mut lines = text.lines().skip_while(|line| !line.starts_with('|'));
        let columns = cells(lines.next()?);
        let rows: Vec<Vec<String>> = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect();
        rows.iter().all(|row| row.len() == columns.len()).then_some(Simulated { columns, rows })
    }

    /// The metric of this run at this point, its interval that of the sweep (99 %). `None` where no row, or more than one,
    /// can be meant.
    pub(crate) fn find(
        &self,
        figure: &Figure,
        point: &[(String, String)],
        run: &Sought,
        metric: &Metric,
    ) -> Option<Found> {
        let column = metric.simulated_names().into_iter().find_map(|name| self.column(&name))?;
        let at: BTreeMap<&str, &str> = point
            .iter()
            .map(|(axis, value)| (axis.as_str(), value.as_str()))
            .chain(figure.simulated_at.iter().map(|(axis, value)| (axis.as_str(), value.as_str())))
            .collect();
        let is_there = |row: &&Vec<String>| {
            self.columns.iter().zip(row.iter()).all(|(axis, cell)| at.get(axis.as_str()).is_none_or(|v| same(v, cell)))
        };
        let rows: Vec<&Vec<String>> = self.rows.iter().filter(is_there).collect();
        let server = self.column(SERVER)?;
        self.server_names(figure, run).into_iter().find_map(|name| {
            match rows.iter().filter(|row| row[server] == name).collect::<Vec<_>>()[..] {
                [row] => estimate(&row[column]),
                _ => None,
            }
        })
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// What the file says, else the run's own name, else the name that sweeps give to what does the same.
    fn server_names(&self, figure: &Figure, run: &Sought) -> Vec<String> {
        if let Some(given) = figure.simulated_names.get(run.name) {
            return vec![given.clone()];
        }
        let alike = match (run.policy, run.shaping) {
            ("fair", _) => "fair",
            (policy, "bands") if policy.starts_with("srpt") => "srpt-bands",
            ("srpt", "paced") => "weir-srpt",
            _ => run.name,
        };
        vec![run.name.into(), alike.into()]
    }
}

/// Values are written differently in folders and in tables: 0.80 and 0.8 are one.
fn same(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => (one - other).abs() <= 1e-9 * one.abs(),
        _ => one == other,
    }
}

/// Reads `13.2 ± 8.5`, or `13.2`.
fn estimate(cell: &str) -> Option<Found> {
    let mut parts = cell.split('±').map(|part| part.trim().parse().ok());
    Some(Found::of_run(parts.next()??, parts.next().flatten()))
}

/// The ratio of two, the interval by the sum of squares of what each is unsure of.
pub(crate) fn ratio(of: Found, over: Found) -> Option<Found> {
    let value = Some(of.value / over.value).filter(|ratio| ratio.is_finite())?;
    let relative = |found: Found| found.half_width.map(|half| (half / found.value).powi(2));
    let half_width = relative(of).zip(relative(over)).map(|(of, over)| value.abs() * (of + over).sqrt());
    Some(Found::of_run(value, half_width.filter(|half| half.is_finite())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Described;

    const TABLE: &str = "question\n\nModel packet\n\n\
        | rho | server | response_time_ms | syn_drops |\n|---|---|---|---|\n\
        | 0.5 | fair | 28.5 ± 7.7 | 0 ± 0 |\n| 0.5 | weir-srpt | 6.12 | - |\n\
        | 0.8 | fair | 133 ± 89 | 7 |\n| 0.8 | weir-srpt | 9.27 ± 1.01 | 0 |\n";

    fn figure(more: &str) -> Figure {
        let text = format!("[figure]\npaper = \"000\"\nfigure = \"3\"\nclaim = \"c\"\n{more}");
        Described::parse(&text, std::path::Path::new("f.toml")).unwrap().figure.unwrap()
    }

    fn find(figure: &Figure, rho: Option<&str>, name: &str, shaping: &str, metric: &str) -> Option<Found> {
        let point: Vec<(String, String)> = rho.map(|rho| ("rho".into(), rho.into())).into_iter().collect();
        let policy = if name.ends_with("fair") { "fair" } else { "srpt" };
        let sought = Sought { name, policy, shaping };
        Simulated::parse(TABLE).unwrap().find(figure, &point, &sought, &metric.parse().unwrap())
    }

    #[test]
    fn finds_the_row_of_a_run() {
        let plain = figure("");
        let mean = "response_time_ms.mean";
        let fair = Some(Found::of_run(133.0, Some(89.0)));
        assert_eq!(find(&plain, Some("0.80"), "apache-fair", "off", mean), fair);
        let srpt = Some(Found::of_run(9.27, Some(1.01)));
        assert_eq!(find(&plain, Some("0.8"), "weir-paced", "paced", mean), srpt);
        assert_eq!(find(&plain, Some("0.5"), "weir-paced", "paced", mean), Some(Found::exact(6.12)));
        let named = figure("[figure.simulated_names]\nx = \"fair\"\n[figure.simulated_at]\nrho = \"0.8\"");
        assert_eq!(find(&named, None, "x", "ranked", "syn_drops"), Some(Found::exact(7.0)));
    }

    #[test]
    fn says_nothing_where_it_cannot_tell() {
        let plain = figure("");
        let mean = "response_time_ms.mean";
        assert_eq!(find(&plain, None, "apache-fair", "off", mean), None, "two rows may be meant");
        assert_eq!(find(&plain, Some("0.9"), "apache-fair", "off", mean), None, "no such point");
        assert_eq!(find(&plain, Some("0.8"), "other", "ranked", mean), None, "no such server");
        assert_eq!(find(&plain, Some("0.8"), "apache-fair", "off", "slowdown_mean"), None, "no such column");
        assert_eq!(find(&plain, Some("0.5"), "weir-paced", "paced", "syn_drops"), None, "no figure in it");
        assert_eq!(Simulated::parse("no table"), None);
    }

    #[test]
    fn a_ratio_is_as_unsure_as_both() {
        let ratio = ratio(Found::of_run(10.0, Some(3.0)), Found::of_run(2.0, Some(0.8)));
        assert_eq!(ratio.map(|found| (found.value, found.half_width)), Some((5.0, Some(2.5))));
    }
}
