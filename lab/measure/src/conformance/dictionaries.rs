//! Chromium visits a site, and visits it again after the site was rebuilt. The browser decodes responses with
//! dictionaries (RFC 9842) and reports their sizes. A script goes from page to page and reports by requesting `report`,
//! which the access log records.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::browsers;
use super::run;

/// The time limit of a browser's first start, on a slow machine.
const LIMIT: Duration = Duration::from_secs(180);
const PAGES: usize = 6;
/// The maximum size of a page with the previous page's frame, as a percentage of the first page's bytes.
const NEW_PAGE_PERCENT: u64 = 60;
/// The maximum bytes of a page in which only the date is new.
const NEXT_VERSION_BYTES: u64 = 300;
const DATES: [&str; 2] = ["2026-11-27", "2026-12-24"];

/// A page shorter than any dictionary.
const START: &str = "<!doctype html><script>sessionStorage.clear(); sessionStorage.visit = location.search.slice(1); location = '/docs/0.html'</script>";
const SCRIPT: &str = "<script>
onload = () => setTimeout(() => {
  const size = performance.getEntriesByType('navigation')[0].encodedBodySize;
  const said = sessionStorage.said = (sessionStorage.said || '') + `${size}:${document.body.dataset.date}:${document.title},`;
  if (NEXT < PAGES) location = NEXT + '.html';
  else fetch(`/report?visit=${sessionStorage.visit}&said=${said}`);
}, 500);
</script>";

pub fn chromium(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let folder = bench.folder.join("dictionaries");
    let root = folder.join("root");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    write(&root, DATES[0]).map_err(failed)?;
    let file = folder.join("weir.toml");
    fs::write(&file, configuration(bench, &folder)).map_err(failed)?;
    let server = bench.running(&file, &folder.join("state"), "dictionaries")?;
    let home = folder.join("home");
    let visit = |number: usize, mut browser: Command| {
        let log = folder.join(format!("visit-{number}.log"));
        let address = format!("https://localhost:{}/?{number}", server.port);
        let visited = run::until(browser.arg(address), &log, LIMIT, |_| report(&access_log(&folder), number));
        let (_, said) = visited.map_err(|said| format!("visit {number}: no report; the browser said: {said}"))?;
        Ok::<_, String>(said)
    };
    let first = visit(0, browsers::chromium_at(bench, found, &home)?)?;
    write(&root, DATES[1]).map_err(failed)?;
    let second = visit(1, browsers::chromium_with(&found[0], &home))?;
    server.stop()?;
    judge(&first, &second)
}

/// Judges two reports. Returns a description of the savings, or of what is wrong.
fn judge(first: &str, second: &str) -> Result<String, String> {
    let [before, after] = [(first, DATES[0]), (second, DATES[1])].map(|(said, date)| sizes(said, date));
    let (before, after) = (before?, after?);
    let new_page_bytes_max = before[0] * NEW_PAGE_PERCENT / 100;
    if let Some(bytes) = before[1..].iter().find(|bytes| **bytes > new_page_bytes_max) {
        return Err(format!("a new page takes {bytes} bytes, expected {new_page_bytes_max} at most: {first}"));
    }
    if let Some(bytes) = after.iter().find(|bytes| **bytes > NEXT_VERSION_BYTES) {
        return Err(format!(
            "a page with a new date takes {bytes} bytes, expected {NEXT_VERSION_BYTES} at most: {second}"
        ));
    }
    let sum = |sizes: &[u64]| sizes.iter().sum::<u64>();
    Ok(format!("{PAGES} pages in {} bytes, and after the site was built again in {}", sum(&before), sum(&after)))
}

/// Returns the bytes of each page; all pages must have this date.
fn sizes(said: &str, date: &str) -> Result<Vec<u64>, String> {
    let page = |(number, page): (usize, &str)| {
        let mut parts = page.split(':');
        let bytes = parts.next().and_then(|bytes| bytes.parse().ok());
        let is_right = parts.next() == Some(date) && parts.next() == Some(&number.to_string());
        bytes.filter(|bytes| is_right && *bytes > 0)
    };
    let pages: Option<Vec<u64>> = said.trim_end_matches(',').split(',').enumerate().map(page).collect();
    pages.filter(|pages| pages.len() == PAGES).ok_or_else(|| format!("expected {PAGES} pages of {date}: {said}"))
}

/// The configuration with a line so slow that it is always worth waiting until a form with a dictionary is made.
fn configuration(bench: &Bench, folder: &Path) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    format!(
        "[server]\naccess_log = '{}'\n[uplink]\nrate = '256kbit'\n[[listener]]\naddress = '127.0.0.1:0'\ntls = true\n\
         [[site]]\nroot = '{}'\ncert = '{}'\nkey = '{}'\n\
         [[site.cache]]\npath = '*.html'\ncontrol = 'max-age=0, stale-while-revalidate=604800'\n",
        path("access.log"),
        path("root"),
        bench.certificates.chain.display(),
        bench.certificates.key.display()
    )
}

/// Writes the site as of this date. Files are replaced, as by tools that build sites.
fn write(root: &Path, date: &str) -> std::io::Result<()> {
    fs::create_dir_all(root.join("docs"))?;
    fs::write(root.join("index.html"), START)?;
    fs::write(root.join("report"), "")?;
    for number in 0..PAGES {
        let new = root.join("docs/new");
        fs::write(&new, page(number, date))?;
        fs::rename(new, root.join(format!("docs/{number}.html")))?;
    }
    Ok(())
}

/// A page with the common frame and its own text.
fn page(number: usize, date: &str) -> String {
    let text = |seed: usize, words: usize| {
        let word = |at: usize| format!("{:x}", (at + 1).wrapping_mul(0x9e37_79b9 + 2 * seed) % 0x1_0000);
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    };
    let script = SCRIPT.replace("NEXT", &(number + 1).to_string()).replace("PAGES", &PAGES.to_string());
    format!(
        "<!doctype html><html><head><meta charset='utf-8'><title>{number}</title><link rel='icon' href='data:,'></head>\n\
         <body data-date='{date}'>\n<nav>{}</nav>\n<p>{}</p>\n<footer>{date}</footer>{script}</body></html>\n",
        text(PAGES, 1_500),
        text(number, 300)
    )
}

fn access_log(folder: &Path) -> String {
    fs::read_to_string(folder.join("access.log")).unwrap_or_default()
}

/// Returns the report of the last page of this visit.
fn report(log: &str, visit: usize) -> Option<String> {
    let begin = format!("\"GET /report?visit={visit}&said=");
    let rest = log.lines().find_map(|line| line.split_once(&begin))?.1;
    Some(rest.split_once(' ')?.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_judged() {
        let said = |sizes: [u64; PAGES], date: &str| -> String {
            sizes.iter().enumerate().map(|(number, bytes)| format!("{bytes}:{date}:{number},")).collect()
        };
        let (first, second) = (said([1000, 500, 500, 500, 500, 500], DATES[0]), said([90; PAGES], DATES[1]));
        assert_eq!(judge(&first, &second).unwrap(), "6 pages in 3500 bytes, and after the site was built again in 540");
        assert!(
            judge(&said([1000, 500, 500, 900, 500, 500], DATES[0]), &second).unwrap_err().starts_with("a new page")
        );
        assert!(
            judge(&first, &said([90, 90, 90, 90, 90, 400], DATES[1])).unwrap_err().starts_with("a page with a new")
        );
        assert!(judge(&first, &first).unwrap_err().contains("expected 6 pages of 2026-12-24"), "an old page is shown");
        assert!(judge("", &second).is_err() && judge(&first.replace("500", "0"), &second).is_err());
        let log = "a \"GET /report?visit=1&said=90:x, HTTP/2.0\" 200\n";
        assert_eq!((report(log, 1).as_deref(), report(log, 0)), (Some("90:x,"), None));
    }
}
