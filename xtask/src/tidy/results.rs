//! Kept results: figures that nobody can compute again are an assertion. A folder of `results/` with figures has the manifest of its runs and
//! their records beside them: response times (`python -m weirlab keep`), or the runs of a sweep.

use std::collections::BTreeMap;

const PARENT: &str = "results/";
/// Files that hold published figures, by the ends of their names.
const FIGURES: [&str; 4] = [".json", ".csv", ".md", ".txt"];
/// Manifests, by the beginnings and ends of their names.
const MANIFESTS: [&str; 2] = ["manifest", "sweep.json"];
/// Records of runs: the folder of response times, and the runs of a sweep.
const RECORDS: [&str; 2] = ["responses/", "runs.parquet"];

const RATCHET: &str = "xtask/tidy.toml";

/// The folders of one topic that lack something, each with a description of the fault.
pub type Lacking = BTreeMap<String, Vec<String>>;

/// The files of one folder.
#[derive(Default)]
struct Folder {
    figures: Option<String>,
    has_manifest: bool,
    has_records: bool,
}

impl Folder {
    fn take(&mut self, name: &str) {
        if MANIFESTS.iter().any(|part| name.starts_with(part) || name.ends_with(part)) {
            self.has_manifest = true;
        } else if RECORDS.iter().any(|records| name.starts_with(records)) {
            self.has_records = true;
        } else if name != "README.md" && !name.contains('/') && FIGURES.iter().any(|end| name.ends_with(end)) {
            self.figures.get_or_insert_with(|| name.to_owned());
        }
    }

    fn fault(&self) -> Option<String> {
        let figures = self.figures.as_ref()?;
        let lacks = match (self.has_manifest, self.has_records) {
            (true, true) => return None,
            (true, false) => "no records: keep `responses/` (`python -m weirlab keep`) or `runs.parquet`",
            (false, true) => "no manifest: keep `manifest.json` or `sweep.json`",
            (false, false) => "neither a manifest nor records: keep both",
        };
        Some(format!("{figures} has {lacks}"))
    }
}

/// The folders without manifest or records, by topic: the first folder below `results/`.
pub fn measure<'p>(paths: impl Iterator<Item = &'p str>) -> Lacking {
    let mut folders: BTreeMap<&str, Folder> = BTreeMap::new();
    for path in paths.filter(|path| path.starts_with(PARENT)) {
        let Some((folder, name)) = split(path) else { continue };
        folders.entry(folder).or_default().take(name);
    }
    let mut lacking = Lacking::new();
    for (folder, of_folder) in &folders {
        let Some(fault) = of_folder.fault() else { continue };
        let topic = folder[PARENT.len()..].split('/').next().unwrap_or_default();
        lacking.entry(topic.to_owned()).or_default().push(format!("{folder}: {fault}"));
    }
    lacking
}

/// A path as folder and name; a file of response times belongs to the folder above it. Files of `results/` itself belong to none.
fn split(path: &str) -> Option<(&str, &str)> {
    let at = path.find("/responses/").or_else(|| path.rfind('/')).filter(|at| *at >= PARENT.len())?;
    Some((&path[..at], &path[at + 1..]))
}

/// `[results]` has the older topics with the number of folders that lack something, which may only shrink.
pub fn check(ratchet: &str, lacking: &Lacking) -> Vec<String> {
    // The check of sizes reports a ratchet that is no table.
    let table: toml::Table = ratchet.parse().unwrap_or_default();
    let none = toml::Table::new();
    let entries = table.get("results").and_then(toml::Value::as_table).unwrap_or(&none);
    let allowed = |topic: &str| entries.get(topic).and_then(toml::Value::as_integer).unwrap_or(0) as usize;
    let mut problems = Vec::new();
    for (topic, faults) in lacking.iter().filter(|(topic, faults)| faults.len() > allowed(topic)) {
        let beyond = format!("{topic} has {} such folders, at most {} in {RATCHET}", faults.len(), allowed(topic));
        problems.extend(
            faults.iter().map(|fault| if allowed(topic) > 0 { format!("{fault} ({beyond})") } else { fault.clone() }),
        );
    }
    for topic in entries.keys() {
        let count = lacking.get(topic).map_or(0, Vec::len);
        match count {
            0 => problems.push(format!("{RATCHET}: [results] \"{topic}\" is no longer needed; remove the entry")),
            _ if count < allowed(topic) => problems.push(format!(
                "{RATCHET}: [results] \"{topic}\" shrank from {} to {count}; lower the entry",
                allowed(topic)
            )),
            _ => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [&str; 5] = [
        "results/README.md",
        "results/day-000/README.md",
        "results/day-000/fig3/claims.json",
        "results/day-000/fig3/manifest.json",
        "results/day-000/fig3/responses/rho-0.8.parquet",
    ];

    fn faults(paths: &[&str]) -> Vec<String> {
        check("", &measure(paths.iter().copied()))
    }

    #[test]
    fn figures_with_manifest_and_records_are_right() {
        assert_eq!(faults(&WHOLE), [""; 0]);
        assert_eq!(
            faults(&["results/day-001/table.md", "results/day-001/sweep.json", "results/day-001/runs.parquet"]),
            [""; 0]
        );
        assert_eq!(faults(&["docs/table.md", "results/day-001/README.md"]), [""; 0]);
    }

    #[test]
    fn figures_without_records_or_manifest_are_named() {
        let no_records = faults(&WHOLE[..4]);
        assert_eq!(no_records.len(), 1, "{no_records:?}");
        assert!(no_records[0].starts_with("results/day-000/fig3: claims.json has no records"), "{no_records:?}");
        let no_manifest = faults(&[WHOLE[2], WHOLE[4]]);
        assert!(no_manifest[0].starts_with("results/day-000/fig3: claims.json has no manifest"), "{no_manifest:?}");
        assert!(faults(&["results/day/a.csv"])[0].contains("neither"));
    }

    #[test]
    fn the_list_of_older_results_may_only_shrink() {
        let lacking = measure(["results/day/a/x.json", "results/day/b/x.json"].into_iter());
        assert_eq!(check("[results]\nday = 2", &lacking), [""; 0]);
        assert_eq!(check("[results]\nday = 1", &lacking).len(), 2);
        assert!(check("[results]\nday = 3", &lacking)[0].contains("shrank from 3 to 2"));
        assert!(check("[results]\nday = 2\nother = 1", &lacking)[0].contains("no longer needed"));
    }
}
