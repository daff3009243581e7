//! A report as one HTML page: nothing is fetched, so it can be kept beside the results, mailed and printed.
//!
//! Pictures are drawn here; the script only shows values under the pointer, fills the tables behind the plots, filters and
//! compares, and the page can be read without it.

mod data;
mod html;
mod sections;
mod svg;
mod tables;

use serde_json::{Map, Value, json};

use crate::chapter::Chapter;
use crate::plot::Plot;
use crate::verdict::Verdict;
use html::escape;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Pictures and numbers of the page, as they come together.
#[derive(Default)]
struct Page {
    body: String,
    /// By the plot's key.
    plots: Map<String, Value>,
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
    let data = json!({ "plots": page.plots, "runs": page.runs, "pairs": page.pairs, "figures": names });
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body>\n{}\
         <div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{SCRIPT}</script>\n</body></html>\n",
        escape(title),
        page.body,
        html::json(&data),
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
            let keyed = self.plots(&format!("x{number}p{at}"), &point.plots);
            self.body.push_str("</details>\n");
            self.pairs.push(json!([self.runs.len(), data::pairs(point)]));
            self.runs.extend((0..point.summary.runs.len()).map(|run| data::run(chapter, point, run, &keyed)));
        }
        self.body.push_str("</section>\n");
    }

    /// Draws plots side by side; `prefix` begins their keys. Gives each with its key.
    fn plots<'p>(&mut self, prefix: &str, plots: &'p [Plot]) -> Vec<(String, &'p Plot)> {
        if plots.is_empty() {
            return vec![];
        }
        self.body.push_str("<div class=\"plots\">\n");
        let keyed: Vec<(String, &Plot)> = plots.iter().map(|plot| (format!("{prefix}-{}", plot.id), plot)).collect();
        for (key, plot) in &keyed {
            let axes = svg::Axes::of(plot);
            sections::plot(&mut self.body, plot, key, &svg::svg(plot, &axes, key));
            self.plots.insert(key.clone(), data::plot(plot, &axes));
        }
        self.body.push_str("</div>\n");
        keyed
    }
}

/// A verdict as people and filters read it; not by colour alone.
fn badge(verdict: Verdict) -> String {
    format!("<span class=\"verdict {}\">{}</span>", verdict.key(), verdict.text())
}
