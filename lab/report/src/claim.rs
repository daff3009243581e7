//! What an experiment file says of the figure it reproduces: `[figure]`, and in `[[figure.expect]]` its claim as statements that
//! a program can check, so that a verdict is computed and not felt.
//!
//! ```toml
//! [figure]
//! paper = "000"; figure = "3"; claim = "mean response time 3-8 x lower for rho > 0.5"
//! [[figure.expect]]
//! text = "3-8 x at rho 0.8"; point = "rho-0.8"
//! value = "response_time_ms.mean"; of = "apache-fair"; over = "weir-bands"; least = 3.0; most = 8.0; larger = "more"
//! ```
//!
//! A claim has two sides: eighty times is not three to eight. One side is enough only where the paper's own statement has one,
//! and `one_sided` quotes it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::metric::Metric;

/// Names that an expectation may use beside those of runs: the oracles, computed from the jobs.
pub const BOUND: &str = "bound";
pub const IDEAL_PS: &str = "ideal-ps";

/// What a report takes from an experiment file; everything else in it is the laboratory's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Described {
    pub question: String,
    pub figure: Option<Figure>,
    /// Names of `[[run]]`, in their order: the first is what the others are compared with.
    pub runs: Vec<String>,
    /// Names of `[[client]]`, or of the classes of a load, in their order: group 0 is the first.
    pub clients: Vec<String>,
}

/// Which figure of which paper, and what it claims.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Number of the paper: `000`.
    pub paper: String,
    /// As the paper counts it: `3`, `table 2`, `§5.1`.
    pub figure: String,
    pub claim: String,
    #[serde(default, rename = "expect")]
    expects: Vec<Spanned<Expect>>,
}

/// One statement: a figure of `of`, or that of `of` divided by that of `over`, lies between `least` and `most`, the paper's size of
/// it. A figure of pairs, such as `share_gaining`, is of the requests of `of`, each against the same one under `over`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// For people.
    pub text: String,
    /// Folder of the point it speaks of; unset, it has to hold at every point.
    pub point: Option<String>,
    /// Folder of another point: what counts is the figure at `point` over the same figure there, with the same seed.
    pub against: Option<String>,
    pub value: Metric,
    pub of: String,
    pub over: Option<String>,
    pub least: Option<f64>,
    pub most: Option<f64>,
    /// Beyond which end the effect is larger than the paper's; unset, beyond neither. Called `better` in older results.
    #[serde(alias = "better")]
    pub larger: Option<Larger>,
    /// The paper's statement, where it has one side: without it one side is not enough for a verdict.
    pub one_sided: Option<String>,
    /// How long the paper's run was, where what is claimed grows with it: runs of another length are not compared with it.
    pub seconds: Option<f64>,
    /// Only jobs whose size lies between these percentiles (0 to 100) of all sizes.
    pub sizes: Option<[f64; 2]>,
    /// Only jobs of this group of clients.
    pub client: Option<String>,
    /// Numbers of what it settles, or a part of, among the items of `docs/reproduction/items.toml`.
    #[serde(default)]
    pub items: Vec<u32>,
}

/// Which figures are of a larger effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Larger {
    More,
    Less,
}

/// A mistake in an experiment file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct FigureError {
    pub file: PathBuf,
    pub line: usize,
    pub reason: String,
}

/// As much of the file as is read here.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    question: String,
    figure: Option<Figure>,
    #[serde(default)]
    client: Vec<Named>,
    /// Classes of WebStone's clients, `NAME:CLIENTS`.
    #[serde(default)]
    class: Vec<String>,
    #[serde(default)]
    run: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

impl Described {
    /// Reads the text of an experiment file; `file` is only for messages.
    pub fn parse(text: &str, file: &Path) -> Result<Described, FigureError> {
        let at = |offset: usize, reason: String| FigureError {
            file: file.into(),
            line: 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count(),
            reason,
        };
        let read: File = toml::from_str(text).map_err(|error| {
            at(error.span().map_or(0, |span| span.start), error.message().split('\n').collect::<Vec<_>>().join(", "))
        })?;
        let names = |named: Vec<Named>| named.into_iter().map(|named| named.name).collect::<Vec<String>>();
        let classes = read.class.iter().map(|class| class.split(':').next().unwrap_or_default().to_string());
        let clients: Vec<String> = names(read.client).into_iter().chain(classes).collect();
        let runs = names(read.run);
        for expect in read.figure.iter().flat_map(|figure| &figure.expects) {
            expect.get_ref().check(&runs, &clients).map_err(|reason| at(expect.span().start, reason))?;
        }
        Ok(Described { question: read.question, figure: read.figure, runs, clients })
    }
}

impl Figure {
    /// `000, figure 3`, or `003, §5.1` and `002, table 2` where the file says so.
    pub fn title(&self) -> String {
        let is_number = self.figure.starts_with(|first: char| first.is_ascii_digit());
        format!("{}, {}{}", self.paper, if is_number { "figure " } else { "" }, self.figure)
    }

    pub fn expects(&self) -> impl ExactSizeIterator<Item = &Expect> {
        self.expects.iter().map(Spanned::get_ref)
    }
}

impl Expect {
    /// Whether it says as much as the paper does: both ends of its range, or the statement that has one.
    pub fn has_size(&self) -> bool {
        (self.least.is_some() && self.most.is_some()) || self.one_sided.as_ref().is_some_and(|said| !said.is_empty())
    }

    /// Whether it is of one run over another, or of one point over another, so that it has a direction.
    pub fn is_ratio(&self) -> bool {
        self.against.is_some() || (self.over.is_some() && !self.value.is_of_pairs())
    }

    fn check(&self, runs: &[String], clients: &[String]) -> Result<(), String> {
        for name in [Some(&self.of), self.over.as_ref()].into_iter().flatten() {
            if ![BOUND, IDEAL_PS].contains(&name.as_str()) && !runs.contains(name) {
                return Err(format!(
                    "there is no run `{name}`; the runs are {}, and {BOUND} and {IDEAL_PS}",
                    runs.join(", ")
                ));
            }
        }
        if let Some(client) = self.client.as_ref().filter(|client| !clients.contains(client)) {
            return Err(format!("there is no client `{client}`; the clients are {}", clients.join(", ")));
        }
        let (least, most) = (self.least.unwrap_or(f64::MIN), self.most.unwrap_or(f64::MAX));
        if self.least.or(self.most).is_none() || least.is_nan() || most.is_nan() || least > most {
            return Err(format!("`{}` claims nothing: write least, or most, or both, the lesser as least", self.text));
        }
        if self.one_sided.is_some() && (self.least.is_some() && self.most.is_some()) {
            return Err(format!("`{}` has two sides: leave one_sided out, or least or most", self.text));
        }
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
            return Err(format!("`{}`: seconds is how long the paper's run was, above 0", self.text));
        }
        if let Some([from, to]) = self.sizes.filter(|[from, to]| !(0.0 <= *from && from < to && *to <= 100.0)) {
            return Err(format!(
                "sizes = [{from}, {to}] are no percentiles: write two from 0 to 100, the lesser first"
            ));
        }
        if self.against.is_some() && self.against == self.point {
            return Err(format!("`{}` compares a point with itself: against names another", self.text));
        }
        if self.against.is_some() && self.point.is_none() {
            return Err(format!("`{}` compares two points: write point", self.text));
        }
        if self.value.is_of_pairs() && self.over.is_none() {
            return Err(format!("`{}` compares two runs: write over", self.value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
question = \"how much\"
rho = 0.8
[vary]
rho = [0.5, 0.8]
[figure]
paper = \"000\"
figure = \"3\"
claim = \"3-8 x lower\"
[[figure.expect]]
text = \"3-8 x at rho 0.8\"
point = \"rho-0.8\"
value = \"response_time_ms.mean\"
of = \"fair\"
over = \"srpt\"
least = 3.0
[[client]]
name = \"wan1\"
[[run]]
name = \"fair\"
server = \"weir\"
[[run]]
name = \"srpt\"
server = \"weir\"
";

    #[test]
    fn reads_what_concerns_a_report() {
        let described = Described::parse(FILE, Path::new("f.toml")).unwrap();
        let figure = described.figure.unwrap();
        assert_eq!((figure.title(), described.clients), ("000, figure 3".into(), vec!["wan1".to_string()]));
        let expect = figure.expects().next().unwrap();
        assert_eq!((expect.over.as_deref(), expect.least, expect.most), (Some("srpt"), Some(3.0), None));
        assert_eq!(Described::parse("question = \"q\"", Path::new("f.toml")).unwrap().figure, None);
    }

    /// Every claim of ours: a range, or the paper's own words for having none.
    #[test]
    fn every_experiment_says_the_size_of_its_claims() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
        let mut claims = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            if !text.contains("\n[figure]\n") {
                continue;
            }
            // Runs may come from a setup, which the laboratory adds.
            let read: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for expect in read.figure.iter().flat_map(Figure::expects) {
                assert!(expect.has_size(), "{}: `{}` has one side and no one_sided", file.display(), expect.text);
                claims += 1;
            }
        }
        assert!(claims > 90, "{claims} claims");
    }

    #[test]
    fn mistakes_have_a_line_and_say_what_would_be_right() {
        for (right, wrong, said) in [
            (
                "over = \"srpt\"",
                "over = \"sprt\"",
                "f.toml:9: there is no run `sprt`; the runs are fair, srpt, and bound",
            ),
            ("least = 3.0", "", "f.toml:9: `3-8 x at rho 0.8` claims nothing"),
            ("least = 3.0", "least = 3.0\nmost = 1.0", "f.toml:9: `3-8 x at rho 0.8` claims nothing"),
            (
                "least = 3.0",
                "least = 3.0\nmost = 8.0\none_sided = \"at least 3\"",
                "f.toml:9: `3-8 x at rho 0.8` has two",
            ),
            ("least = 3.0", "least = 3.0\nseconds = 0", "f.toml:9: `3-8 x at rho 0.8`: seconds is how long"),
            (
                "least = 3.0",
                "least = 3.0\nlarger = \"higher\"",
                "f.toml:16: unknown variant `higher`, expected `more` or",
            ),
            ("least = 3.0", "lest = 3.0", "f.toml:15: unknown field `lest`"),
            ("least = 3.0", "least = 3.0\nsizes = [80, 0]", "f.toml:9: sizes = [80, 0] are no percentiles"),
            (
                "least = 3.0",
                "least = 3.0\nclient = \"wan2\"",
                "f.toml:9: there is no client `wan2`; the clients are wan1",
            ),
            ("least = 3.0", "least = 3.0\nagainst = \"rho-0.8\"", "f.toml:9: `3-8 x at rho 0.8` compares a point with"),
            ("point = \"rho-0.8\"", "against = \"rho-0.5\"", "f.toml:9: `3-8 x at rho 0.8` compares two points: write"),
            ("ms.mean", "ms.men", "f.toml:12: `response_time_ms.men` is nothing a report computes"),
            ("paper = \"000\"", "", "f.toml:5: missing field `paper`"),
        ] {
            let error = Described::parse(&FILE.replace(right, wrong), Path::new("f.toml")).unwrap_err().to_string();
            assert!(error.starts_with(said), "{wrong}: {error}");
        }
        let alone = FILE.replace("over = \"srpt\"", "").replace("response_time_ms.mean", "share_gaining");
        let said = Described::parse(&alone, Path::new("f.toml")).unwrap_err().to_string();
        assert!(said.starts_with("f.toml:9: `share_gaining` compares two runs"), "{said}");
    }
}
