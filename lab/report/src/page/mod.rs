//! A report as one HTML page: nothing is fetched, so it can be kept beside the results, mailed and printed.
//!
//! Claims, verdicts and the tables of runs are HTML and can be read without scripts. Plots are numbers, and the script draws them:
//! drawn here as well, they were two thirds of a page of 4 MB. `plot.js` draws, `page.js` filters and compares.

mod data;
mod html;
mod sections;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::cells;
use crate::chapter::{Chapter, PointReport};
use crate::plot::Plot;
use crate::verdict::{Tally, Verdict};

const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 2] = [include_str!("plot.js"), include_str!("page.js")];

/// Numbers of the page, as they come together.
#[derive(Default)]
struct Page {
    plots: data::Plots,
    runs: Vec<Value>,
    /// One list of pairs for each point, with the place of its first run.
    pairs: Vec<Value>,
}

/// The page of these experiments.
pub fn html(title: &str, chapters: &[Chapter]) -> String {
    let mut page = Page::default();
    let sections: Vec<Markup> =
        chapters.iter().enumerate().map(|(number, chapter)| page.chapter(number, chapter)).collect();
    let data = html::json(&page.data(chapters));
    let scripts = PreEscaped(format!("\n(() => {{\n{}}})();\n", SCRIPTS.concat()));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (sections::overview(title, chapters))
                @for section in sections { (section) }
                div id="tip" role="status" hidden {}
                script type="application/json" id="data" { (data) }
                script { (scripts) }
            }
        }
    };
    page.into_string()
}

impl Page {
    fn chapter(&mut self, number: usize, chapter: &Chapter) -> Markup {
        let over_points = self.plots(&format!("x{number}"), &chapter.plots_over_points());
        let points = chapter.points.iter().enumerate();
        let points: Vec<Markup> =
            points.map(|(at, point)| self.point(&format!("x{number}p{at}"), chapter, point)).collect();
        sections::chapter(chapter, html! { (over_points) @for point in points { (point) } })
    }

    /// `prefix` begins the keys of its plots.
    fn point(&mut self, prefix: &str, chapter: &Chapter, point: &PointReport) -> Markup {
        self.pairs.push(json!([self.runs.len(), data::pairs(point)]));
        self.runs.extend((0..point.summary.runs.len()).map(|run| data::run(chapter, point, run, prefix)));
        let plots = self.plots(prefix, &point.plots);
        sections::point(chapter, point, html! { (tables::runs(chapter, point)) (plots) })
    }

    /// Places for plots side by side; `prefix` begins their keys.
    fn plots(&mut self, prefix: &str, plots: &[Plot]) -> Markup {
        let keys: Vec<String> = plots.iter().map(|plot| format!("{prefix}-{}", plot.id)).collect();
        keys.iter().zip(plots).for_each(|(key, plot)| self.plots.add(key, plot));
        html! {
            @if !keys.is_empty() {
                div class="plots script" {
                    @for key in keys { figure class="plot" id=(key) {} }
                }
            }
        }
    }

    /// What the scripts work with.
    fn data(self, chapters: &[Chapter]) -> Value {
        let figures = chapters
            .iter()
            .flat_map(|chapter| &chapter.points)
            .find_map(|point| Some(data::figures(point.summary.runs.first()?, point.extras.first()?)));
        let names: Vec<&str> = figures.unwrap_or_default().into_iter().map(|(name, _)| name).collect();
        self.plots.into_json(json!({ "runs": self.runs, "pairs": self.pairs, "figures": names }))
    }
}

/// How many claims of a figure hold, and after it what became of the others.
fn tally(tally: &Tally) -> Markup {
    let rest = cells::tally_rest(tally);
    html! {
        span class={ "verdict " (tally.key()) } { (tally.text()) }
        @if !rest.is_empty() { " " small { (rest) } }
    }
}

/// A verdict as people and filters read it; not by colour alone.
fn badge(verdict: Verdict) -> Markup {
    html! { span class={ "verdict " (verdict.key()) } { (verdict.text()) } }
}
