//! `weirlab load --surge --describe`: what would be asked for beside what was published, without a server.

use serde_json::{Value, json};
use workload::surge::{Described, Statistic, describe};

use super::{Args, jobs};
use cli::Failure;

pub(crate) fn main(args: &Args) -> Result<(), Failure> {
    let described = describe(jobs::server_model(&args.load), args.load.seed);
    match args.json {
        true => crate::trace::print(&format!("{:#}\n", as_json(&described, args.load.seed))),
        false => crate::trace::print(&as_table(&described)),
    }
}

fn as_json(described: &Described, seed: u64) -> Value {
    let statistics: Vec<Value> = described.statistics.iter().map(statistic_as_json).collect();
    json!({ "model": described.model, "seed": seed, "requests": described.requests, "statistics": statistics })
}

fn statistic_as_json(statistic: &Statistic) -> Value {
    let Statistic { name, unit, published, source, checked, generated, note } = statistic;
    json!({
        "name": name, "unit": unit, "published": published, "source": source, "checked": checked.name(),
        "generated": generated, "note": note,
    })
}

fn as_table(described: &Described) -> String {
    let mut text = format!(
        "SURGE as in {}, {} requests\n{:<28}{:>12}{:>12}  {:<17}{}\n",
        described.model, described.requests, "", "published", "generated", "checked against", "source; why they differ"
    );
    for Statistic { name, unit, published, source, checked, generated, note } in &described.statistics {
        let name = if unit.is_empty() { (*name).to_owned() } else { format!("{name}, {unit}") };
        let published = published.map_or("-".into(), number);
        let semicolon = if note.is_empty() { "" } else { "; " };
        let (checked, generated) = (checked.name(), number(*generated));
        text += &format!("{name:<28}{published:>12}{generated:>12}  {checked:<17}{source}{semicolon}{note}\n");
    }
    text
}

/// Four digits that count, and all before the point.
fn number(number: f64) -> String {
    let digits = 3 - (number.abs().max(1e-9).log10().floor() as i32);
    format!("{number:.*}", usize::try_from(digits).unwrap_or(0).min(6))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_as_written() {
        let found = [13_727.4, 1000.0, 4.4817, 0.014_73, 0.0].map(number);
        assert_eq!(found, ["13727", "1000", "4.482", "0.01473", "0.000000"]);
    }
}
