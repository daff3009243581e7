//! `weirlab load --describe`: what `--surge` or `--webstone` would ask for beside what was published, without a server.

use serde_json::{Value, json};
use workload::WebStone;
use workload::surge::{Described, Statistic, describe};

use super::{Args, jobs};
use cli::Failure;

pub(crate) fn main(args: &Args) -> Result<(), Failure> {
    if let Some(of) = args.load.webstone {
        return match args.json {
            true => crate::trace::print(&format!("{:#}\n", files_as_json(of))),
            false => crate::trace::print(&files_as_table(of)),
        };
    }
    if args.load.surge.is_none() {
        return Err(Failure::Usage("--describe: of what: write --surge, or --webstone WA too".into()));
    }
    let described = describe(jobs::server_model(&args.load), args.load.seed);
    match args.json {
        true => crate::trace::print(&format!("{:#}\n", as_json(&described, args.load.seed))),
        false => crate::trace::print(&as_table(&described)),
    }
}

fn files_as_json(of: WebStone) -> Value {
    let files = of.files();
    let file = |(file, size): (usize, &u64)| json!({ "size_bytes": size, "share": files.share(file) });
    let list: Vec<Value> = files.sizes().iter().enumerate().map(file).collect();
    json!({ "workload": of.name(), "mean_bytes": files.mean(), "files": list })
}

/// Each file, so that a shell can make them.
fn files_as_table(of: WebStone) -> String {
    let files = of.files();
    let mean = files.mean();
    let mut text = format!(
        "# WebStone {} of 004: {} files, {mean:.0} bytes in the mean of the requests\n",
        of.name(),
        files.sizes().len()
    );
    text += "# bytes, per mille of the requests\n";
    for (file, size) in files.sizes().iter().enumerate() {
        text += &format!("{size}\t{:.3}\n", 1000.0 * files.share(file));
    }
    text
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
