//! Response time by size: who gains and who pays, on one page.
//!
//! Both axes are logarithmic, as sizes and times span many powers of ten. Each line joins the means of the jobs in bins of
//! sizes [x, 1.2 x); the same jobs are in the same bin on every line.

use record::Run;
use stats::growth_bins;
use units::Nanos;

use crate::ReportError;
use crate::axis::{Scale, millis_label};
use crate::jobs::Jobs;
use crate::plot::{Line, Look, Plot, Point, Unit};
use crate::validity::void_reason;

/// Draws mean response time against size, one line per run, with ideal processor sharing and the bound dashed.
pub fn response_by_size_svg(experiment: &str, runs: &[Run]) -> Result<String, ReportError> {
    let jobs = Jobs::of(runs)?;
    let (x, y) =
        (("size of the response body", Scale::Log, Unit::Bytes), ("mean response time", Scale::Log, Unit::Millis));
    let plot =
        Plot::new("by-size", format!("{experiment}: response time by size"), x, y).with_points(lines(runs, &jobs));
    let note = format!(
        "{} jobs, link {}, rho {}; mean of the jobs in each bin of sizes [x, 1.2 x)",
        jobs.sizes.len(),
        jobs.link,
        runs[0].manifest.rho
    );
    Plot { note, ..plot }.svg()
}

fn lines(runs: &[Run], jobs: &Jobs) -> Vec<(Line, Vec<Point>)> {
    let measured = runs.iter().map(|run| {
        let responses: Vec<Nanos> = run.records.iter().map(|record| record.response_time()).collect();
        let mark = if void_reason(run).is_some() { " VOID" } else { "" };
        line(&format!("{}{mark}", run.manifest.name), jobs, &responses, Look::Measured)
    });
    let oracles =
        [("ideal processor sharing", &jobs.ideal_ps, Look::Dashed), ("clairvoyant bound", &jobs.bound, Look::Dotted)];
    measured.chain(oracles.map(|(name, responses, look)| line(name, jobs, responses, look))).collect()
}

fn line(name: &str, jobs: &Jobs, responses: &[Nanos], look: Look) -> (Line, Vec<Point>) {
    let millis: Vec<f64> = responses.iter().map(|response| response.as_millis_f64()).collect();
    let bins = growth_bins(&jobs.sizes, &millis);
    let points = bins.into_iter().map(|bin| Point::exact(bin.size_bytes_mean, bin.value_mean)).collect();
    let mean_ms = stats::mean(&millis).unwrap_or_default();
    (Line { note: Some(format!("mean {}", millis_label(mean_ms))), ..Line::new(name, look) }, points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{experiment, run};

    #[test]
    fn says_what_it_shows() {
        let svg = response_by_size_svg("first-light", &experiment()).unwrap();
        for words in [
            "first-light: response time by size",
            "nginx-fair",
            "weir-paced-srpt",
            "ideal processor sharing",
            "clairvoyant bound",
            "size of the response body",
            "mean response time",
            "1 KB",
            "10 ms",
        ] {
            assert!(svg.contains(words), "`{words}` is not in the picture");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && !svg.contains("NaN"));
    }

    #[test]
    fn marks_a_void_run() {
        let mut void = run("a", &[(0, 1000, 5)]);
        void.manifest.void = Some("why".into());
        assert!(response_by_size_svg("e", &[void]).unwrap().contains("a VOID"));
    }

    #[test]
    fn names_cannot_break_out_of_the_text() {
        let svg = response_by_size_svg("<script>", &[run("a<b&c", &[(0, 1000, 5)])]).unwrap();
        assert!(!svg.contains("<script>") && !svg.contains("a<b"), "{svg}");
    }

    #[test]
    fn draws_what_has_no_logarithm() {
        let svg = response_by_size_svg("empty bodies", &[run("a", &[(0, 0, 0), (1, 0, 0)])]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn refuses_what_cannot_be_compared() {
        assert_eq!(response_by_size_svg("none", &[]), Err(ReportError::NoRuns));
    }
}
