//! All that the five papers claim, one page: every item of `docs/reproduction/items.toml` with the claims that name it and what became of
//! them. Nothing on the page is written by hand but the items themselves.
//!
//! Figures come of `results/*/claims.json` (`weirlab report --claims`), the newest folder first; the range that a figure is judged by comes of the
//! experiment file. So another rule needs no other run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::claim::Larger;
use crate::findings::without_seed;
use crate::verdict::{Claimed, Found, Over, Verdict};
use crate::{Chapter, text};

mod page;

/// The figure of one claim at one point in a kept result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptClaim {
    /// Name of the experiment file: `000-fig3`.
    pub experiment: String,
    /// Its text, which names a claim within an experiment together with the point.
    pub text: String,
    /// Without a seed; empty where nothing else varies.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub point: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The ends of the interval over traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<[f64; 2]>,
    /// With requests of their own.
    #[serde(default)]
    pub traces: usize,
    /// Why the figure is not judged, if so: a key of [`Verdict`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
}

/// The data of the papers' page.
#[derive(Debug, Default)]
pub struct Papers {
    items: Vec<Item>,
    claims: Vec<DeclaredClaim>,
    /// By experiment and text: figures at each point, and the folder of results that they are from.
    kept: BTreeMap<(String, String), Vec<(KeptClaim, String)>>,
    /// Experiments whose results of one trace are kept, and where.
    once: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemsFile {
    item: Vec<Item>,
}

/// A mechanism, a figure or a statement of a paper.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    number: u32,
    paper: String,
    what: String,
    /// The file of a mechanism, with its tests.
    tests: Option<String>,
    /// Judged by people, and where.
    by_hand: Option<String>,
    /// Why nothing is claimed of it.
    gap: Option<String>,
}

/// As much of an experiment file as is read here. Its other keys are the laboratory's.
#[derive(Deserialize)]
struct ClaimsFile {
    figure: Option<FigureOfFile>,
    #[serde(default)]
    claim: Vec<ClaimOfFile>,
}

#[derive(Deserialize)]
struct FigureOfFile {
    #[serde(default)]
    expect: Vec<ClaimOfFile>,
}

#[derive(Debug, Clone, Deserialize)]
struct ClaimOfFile {
    text: String,
    #[serde(default)]
    point: String,
    over: Option<toml::Value>,
    against: Option<String>,
    least: Option<f64>,
    most: Option<f64>,
    larger: Option<Larger>,
    one_sided: Option<String>,
    #[serde(default)]
    items: Vec<u32>,
}

/// A claim of an experiment file.
#[derive(Debug, Clone)]
struct DeclaredClaim {
    experiment: String,
    is_simulated: bool,
    of_file: ClaimOfFile,
}

/// Returns the figures of all claims of the chapters, for `claims.json`.
pub fn kept_claims(chapters: &[Chapter]) -> Vec<KeptClaim> {
    let of = |chapter: &Chapter| {
        let name = chapter.name.clone();
        let kept = move |finding: &crate::Finding| KeptClaim {
            experiment: name.clone(),
            text: finding.expect.text.clone(),
            point: without_seed(&finding.point),
            value: finding.found.map(|found| found.value),
            ends: finding.found.and_then(|found| found.over?.ends),
            traces: finding.found.map_or(0, |found| found.over.map_or(1, |over| over.traces)),
            not_judged: (!finding.verdict.is_judged()).then(|| finding.verdict.key().into()),
        };
        chapter.findings.iter().map(kept).collect::<Vec<_>>()
    };
    chapters.iter().flat_map(of).collect()
}

/// Returns the text of `claims.json`: a claim a line.
pub fn claims_json(claims: &[KeptClaim]) -> String {
    let lines: Vec<String> = claims.iter().map(|claim| json!(claim).to_string()).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

impl Papers {
    /// Reads the items, the claims and what was kept below the folder of the project.
    pub fn read(project: &Path) -> Result<Papers, String> {
        let experiments = project.join("experiments");
        let items: ItemsFile = parse(&project.join("docs/reproduction/items.toml"))?;
        let mut papers = Papers { items: items.item, ..Papers::default() };
        let papers_of = folders_below(&experiments, 1)?.into_iter().filter(|folder| is_paper(folder));
        let files = papers_of.map(|folder| files_in(&folder, "toml")).collect::<Result<Vec<_>, _>>()?;
        for file in files.concat() {
            let name = stem(&file);
            let read: ClaimsFile = parse(&file)?;
            let expects = read.figure.map_or(vec![], |figure| figure.expect);
            let claims = expects.into_iter().map(|of_file| (false, of_file));
            let claims = claims.chain(read.claim.into_iter().map(|of_file| (true, of_file)));
            let experiment = name.as_str();
            papers.claims.extend(claims.map(|(is_simulated, of_file)| DeclaredClaim {
                experiment: experiment.into(),
                is_simulated,
                of_file,
            }));
        }
        papers.read_results(&project.join("results"))?;
        papers.check(project)?;
        Ok(papers)
    }

    /// The newest folder that has a claim at a point decides it there: dates begin their names. A result of several experiments has a folder of each.
    fn read_results(&mut self, results: &Path) -> Result<(), String> {
        for folder in folders_below(results, 2)? {
            let name = folder.strip_prefix(results).unwrap_or(&folder).to_string_lossy().into_owned();
            let file = folder.join("claims.json");
            if file.is_file() {
                let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
                let kept: Vec<KeptClaim> =
                    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
                for claim in kept.into_iter().filter(|claim| claim.value.is_some()) {
                    let of_claim = self.kept.entry((claim.experiment.clone(), claim.text.clone())).or_default();
                    of_claim.retain(|(older, _)| older.point != claim.point);
                    of_claim.push((claim, name.clone()));
                }
            }
            for table in files_in(&folder, "md")? {
                let link = format!("results/{name}/{}.md", stem(&table));
                self.once.entry(stem(&table)).or_insert(link);
            }
        }
        Ok(())
    }

    /// Returns an error if the page would be untrue: if an item stands twice or has nothing, or a claim names an item that does not exist.
    fn check(&self, project: &Path) -> Result<(), String> {
        for (at, item) in (1..).zip(&self.items) {
            let number = item.number;
            if number != at {
                return Err(format!("items.toml: item {number} is the one at place {at}: they count up from 1"));
            }
            if let Some(missing) = item.tests.as_ref().filter(|tests| !project.join(tests).exists()) {
                return Err(format!("items.toml: item {number}: there is no {missing}"));
            }
            let said = [&item.tests, &item.by_hand, &item.gap].into_iter().flatten().count();
            let has_claims = self.claims_of(number).next().is_some();
            match (said, has_claims) {
                (0, false) => {
                    return Err(format!("items.toml: item {number} has no claim: write tests, by_hand or gap"));
                }
                (0, true) => {}
                (1, false) => {}
                (1, true) if item.tests.is_some() => {}
                _ => {
                    return Err(format!(
                        "items.toml: item {number} has more than one of claims, tests, by_hand and gap"
                    ));
                }
            }
        }
        let last = self.items.len() as u32;
        match self.claims.iter().find(|claim| claim.of_file.items.iter().any(|item| !(1..=last).contains(item))) {
            Some(DeclaredClaim { experiment, of_file, .. }) => {
                Err(format!("{experiment}.toml: `{}`: items.toml has items 1 to {last}", of_file.text))
            }
            None => Ok(()),
        }
    }

    fn claims_of(&self, item: u32) -> impl Iterator<Item = &DeclaredClaim> {
        self.claims.iter().filter(move |claim| claim.of_file.items.contains(&item))
    }

    /// Returns the verdict of a claim at each point with its figure and the folder of the result; nothing if no result is kept.
    fn judged(&self, claim: &DeclaredClaim) -> Vec<(&KeptClaim, Verdict, &str)> {
        let key = (claim.experiment.clone(), claim.of_file.text.clone());
        let kept = self.kept.get(&key).map_or(&[][..], Vec::as_slice);
        let is_of_it =
            |kept: &&(KeptClaim, String)| claim.of_file.point.is_empty() || claim.of_file.point == kept.0.point;
        kept.iter().filter(is_of_it).map(|(kept, from)| (kept, claim.judge(kept), from.as_str())).collect()
    }
}

impl DeclaredClaim {
    fn judge(&self, kept: &KeptClaim) -> Verdict {
        if let Some(key) = &kept.not_judged {
            return Verdict::ALL.into_iter().find(|verdict| verdict.key() == key).unwrap_or(Verdict::NotMeasured);
        }
        let Some(value) = kept.value else { return Verdict::NotMeasured };
        let over = Some(Over { traces: kept.traces, ends: kept.ends });
        let ClaimOfFile { least, most, larger, .. } = self.of_file;
        let has_size = (least.is_some() && most.is_some()) || self.of_file.one_sided.is_some();
        let is_ratio = self.of_file.over.is_some() || self.of_file.against.is_some();
        Claimed { least, most, larger, has_size, is_ratio }.judge(Found { value, half_width: None, over }).0
    }
}

fn parse<T: serde::de::DeserializeOwned>(file: &Path) -> Result<T, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let read = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(read.flatten().map(|entry| entry.path()).collect())
}

/// The folders below this one, to that depth, by name.
fn folders_below(folder: &Path, depth: usize) -> Result<Vec<std::path::PathBuf>, String> {
    let mut found: Vec<_> = entries(folder)?.into_iter().filter(|entry| entry.is_dir()).collect();
    if depth > 1 {
        for at in found.clone() {
            found.extend(folders_below(&at, depth - 1)?);
        }
    }
    found.sort();
    Ok(found)
}

/// By name.
fn files_in(folder: &Path, extension: &str) -> Result<Vec<std::path::PathBuf>, String> {
    let is_of = |file: &std::path::PathBuf| file.extension().is_some_and(|is| is == extension);
    let mut files: Vec<_> = entries(folder)?.into_iter().filter(is_of).collect();
    files.sort();
    Ok(files)
}

/// Returns true for the experiments of a paper: its folder has the paper's number.
fn is_paper(folder: &Path) -> bool {
    stem(folder).starts_with(|first: char| first.is_ascii_digit())
}

fn stem(file: &Path) -> String {
    file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    /// `weirlab papers > docs/reproduction/items.md` writes it anew.
    #[test]
    fn the_page_on_disk_is_the_one_that_is_generated() {
        let page = Papers::read(project()).unwrap().markdown();
        let on_disk = fs::read_to_string(project().join("docs/reproduction/items.md")).unwrap();
        let first = page.lines().zip(on_disk.lines()).find(|(new, old)| new != old);
        assert!(page == on_disk, "run `weirlab papers > docs/reproduction/items.md`; the first other line: {first:?}");
    }

    #[test]
    fn every_claim_of_a_paper_names_its_item() {
        let papers = Papers::read(project()).unwrap();
        assert_eq!(papers.items.len(), 117);
        for DeclaredClaim { experiment, of_file, .. } in &papers.claims {
            let is_ours = of_file.text.ends_with("(ours)")
                || of_file.one_sided.as_ref().is_some_and(|said| said.starts_with("ours"));
            assert!(is_ours == of_file.items.is_empty(), "{experiment}.toml: `{}`", of_file.text);
            for item in &of_file.items {
                let paper = &papers.items[*item as usize - 1].paper;
                assert!(experiment.starts_with(paper.as_str()), "{experiment}.toml: `{}`: {item}", of_file.text);
            }
        }
    }

    fn claim(text: &str, items: Vec<u32>) -> DeclaredClaim {
        let of_file = ClaimOfFile {
            text: text.into(),
            point: String::new(),
            against: None,
            over: Some("b".into()),
            least: Some(3.0),
            most: Some(8.0),
            larger: Some(Larger::More),
            one_sided: None,
            items,
        };
        DeclaredClaim { experiment: "000-x".into(), is_simulated: false, of_file }
    }

    fn kept(point: &str, ends: [f64; 2], traces: usize) -> (KeptClaim, String) {
        let claim = KeptClaim {
            experiment: "000-x".into(),
            text: "3 to 8".into(),
            point: point.into(),
            value: Some((ends[0] * ends[1]).sqrt()),
            ends: Some(ends),
            traces,
            not_judged: None,
        };
        (claim, "2030-r".into())
    }

    fn of(kept: Vec<(KeptClaim, String)>) -> Papers {
        let item =
            |number| Item { number, paper: "000".into(), what: "w".into(), tests: None, by_hand: None, gap: None };
        let kept = BTreeMap::from([(("000-x".to_string(), "3 to 8".to_string()), kept)]);
        Papers { items: vec![item(1)], claims: vec![claim("3 to 8", vec![1])], kept, once: BTreeMap::new() }
    }

    /// A claim that has to hold at every point is refuted by one.
    #[test]
    fn an_item_is_what_its_claims_are_at_every_point() {
        let state = |kept| of(kept).state(&of(vec![]).items[0]).0;
        assert_eq!(state(vec![]), "not measured");
        assert_eq!(state(vec![kept("a", [4.0, 5.0], 10)]), "reproduced");
        assert_eq!(state(vec![kept("a", [4.0, 5.0], 10), kept("b", [9.0, 10.0], 10)]), "larger");
        assert_eq!(state(vec![kept("a", [4.0, 5.0], 10), kept("b", [2.0, 4.0], 10)]), "undecided");
        assert_eq!(state(vec![kept("a", [4.0, 5.0], 10), kept("b", [1.0, 2.0], 10)]), "refuted");
        assert_eq!(state(vec![kept("a", [4.0, 5.0], 1)]), "undecided");
        let mut void = kept("a", [4.0, 5.0], 10);
        void.0.not_judged = Some("void".into());
        assert_eq!(state(vec![void]), "not measured");
    }

    #[test]
    fn mistakes_are_named() {
        let mut papers = of(vec![]);
        papers.claims[0].of_file.items = vec![2];
        let said = papers.check(project()).unwrap_err();
        assert_eq!(said, "items.toml: item 1 has no claim: write tests, by_hand or gap");
        papers.items[0].gap = Some("why".into());
        assert_eq!(papers.check(project()).unwrap_err(), "000-x.toml: `3 to 8`: items.toml has items 1 to 1");
        papers.claims[0].of_file.items = vec![1];
        let said = papers.check(project()).unwrap_err();
        assert_eq!(said, "items.toml: item 1 has more than one of claims, tests, by_hand and gap");
        (papers.items[0].gap, papers.items[0].tests) = (None, Some("no/such/file".into()));
        assert_eq!(papers.check(project()).unwrap_err(), "items.toml: item 1: there is no no/such/file");
        papers.items[0].number = 3;
        let said = papers.check(project()).unwrap_err();
        assert_eq!(said, "items.toml: item 3 is the one at place 1: they count up from 1");
    }
}
