//! A report as one HTML page: nothing is fetched, so it can be kept beside the results, mailed and printed.
//!
//! Claims, verdicts and the tables of runs are HTML and can be read without scripts. Plots are numbers, and the script draws them:
//! drawn here as well, they were two thirds of a page of 4 MB. `plot.js` draws, `page.js` filters and compares.

mod data;
mod html;
mod sections;
mod tables;

use serde_json::{Value, json};

use crate::cells;
use crate::chapter::Chapter;
use crate::plot::Plot;
use crate::verdict::{Tally, Verdict};
use html::escape;

const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 2] = [include_str!("plot.js"), include_str!("page.js")];

/// Text and numbers of the page, as they come together.
#[derive(Default)]
struct Page {
    body: String,
    plots: data::Plots,
    runs: Vec<Value>,
    /// One list of pairs for each point, with the place of its first run.
    pairs: Vec<Value>,
}

/// The page of these experiments.
pub fn html(title: &str, chapters: &[Chapter]) -> String {
    let mut page = Page::default();
    sections::overview(&mut page.body, title, chapters);
    for (number, chapter) in chapters.iter().enumerate() {
        page.chapter(number, chapter);
    }
    let figures = chapters
        .iter()
        .flat_map(|chapter| &chapter.points)
        .find_map(|point| Some(data::figures(point.summary.runs.first()?, point.extras.first()?)));
    let names: Vec<&str> = figures.unwrap_or_default().into_iter().map(|(name, _)| name).collect();
    let data = page.plots.into_json(json!({ "runs": page.runs, "pairs": page.pairs, "figures": names }));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body>\n{}\
         <div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n(() => {{\n{}}})();\n</script>\n</body></html>\n",
        escape(title),
        page.body,
        html::json(&data),
        SCRIPTS.concat(),
    )
}

impl Page {
    fn chapter(&mut self, number: usize, chapter: &Chapter) {
        sections::chapter_head(&mut self.body, chapter);
        let over_points = chapter.plots_over_points();
        self.plots(&format!("x{number}"), &over_points);
        for (at, point) in chapter.points.iter().enumerate() {
            sections::point_head(&mut self.body, chapter, point);
            tables::runs(&mut self.body, chapter, point);
            let prefix = format!("x{number}p{at}");
            self.plots(&prefix, &point.plots);
            self.body.push_str("</details>\n");
            self.pairs.push(json!([self.runs.len(), data::pairs(point)]));
            self.runs.extend((0..point.summary.runs.len()).map(|run| data::run(chapter, point, run, &prefix)));
        }
        self.body.push_str("</section>\n");
    }

    /// Places for plots side by side; `prefix` begins their keys.
    fn plots(&mut self, prefix: &str, plots: &[Plot]) {
        if plots.is_empty() {
            return;
        }
        self.body.push_str("<div class=\"plots script\">\n");
        for plot in plots {
            let key = format!("{prefix}-{}", plot.id);
            self.body.push_str(&format!("<figure class=\"plot\" id=\"{key}\"></figure>\n"));
            self.plots.add(&key, plot);
        }
        self.body.push_str("</div>\n");
    }
}

/// How many claims of a figure hold, and after it what became of the others.
fn tally(tally: &Tally) -> String {
    let rest = cells::tally_rest(tally);
    let rest = if rest.is_empty() { rest } else { format!(" <small>{}</small>", escape(&rest)) };
    format!("<span class=\"verdict {}\">{}</span>{rest}", tally.key(), tally.text())
}

/// A verdict as people and filters read it; not by colour alone.
fn badge(verdict: Verdict) -> String {
    format!("<span class=\"verdict {}\">{}</span>", verdict.key(), verdict.text())
}
