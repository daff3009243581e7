//! Scripts: files that a FastCGI responder runs.
//!
//! Only a regular file below the root whose name ends in `.php` runs, and exactly that file runs. PHP by default treats
//! `/upload.jpg/x.php` as `/upload.jpg` (cgi.fix_pathinfo) and would run code inside a picture. The source of a script
//! is never sent.

use http::{Request, Status};

use super::error_replies::text;
use super::{Answer, Handler, Reply, To};
use crate::files::{Entry, Found, SearchStep};
use crate::upstream::{PassOn, Run};

const SCRIPT: &str = ".php";
/// Other extensions of code files, which some responders are configured to run.
const SOURCES: [&str; 3] = [".phtml", ".phar", ".phps"];

impl Handler {
    /// Returns the answer to a request whose file is a script, for these upstreams to run; `None` for other files.
    pub(super) fn script(
        &self,
        to: To,
        request: &Request,
        (found, step): (&Found, SearchStep),
        scripts: Option<Box<PassOn>>,
    ) -> Result<Answer, Option<Box<PassOn>>> {
        let (Found::File(entry), Some(site)) = (found, to.site) else { return Err(scripts) };
        if !self.served.runs_scripts(site) || !is_source(&entry.path) {
            return Err(scripts);
        }
        let admitted = |run: &Run, pass_on: &PassOn| pass_on.group.scripts.as_ref().is_some_and(|own| own.admits(run));
        match run(entry, request, step).zip(scripts) {
            Some((run, pass_on)) if admitted(&run, &pass_on) => {
                Ok(Answer::Upstream(PassOn { run: Some(Box::new(run)), ..*pass_on }))
            }
            _ => {
                let refused = Reply::from(text(Status::FORBIDDEN, "the source of a program is not sent"));
                Ok(self.with_headers(to, request, refused).into())
            }
        }
    }

    /// Returns true if a request may be for a script, which may need the request body.
    pub fn may_run(&self, request: &Request) -> bool {
        let group = self.site(request).and_then(|site| self.served.group(site, request));
        group.is_some_and(|group| group.scripts.is_some())
    }
}

/// Returns the script to run, if the file is one.
fn run(entry: &Entry, request: &Request, step: SearchStep) -> Option<Run> {
    // A name that is not UTF-8 would reach the responder as a different name.
    if !entry.path.ends_with(SCRIPT) || entry.path.contains('\u{fffd}') {
        return None;
    }
    let path_info = if step == SearchStep::Script { path_info(request.path)? } else { Vec::new() };
    Some(Run { name: [b"/", entry.path.as_bytes()].concat(), path_info })
}

/// Returns true for the name of a code file that a responder runs, by default or if configured to.
fn is_source(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let is_numbered = || {
        let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
        before.ends_with(SCRIPT)
    };
    is_numbered() || SOURCES.iter().any(|ending| name.ends_with(ending))
}

/// Returns the beginning of a path that may be a script followed by more path: `/a.php` of `/a.php/b`.
pub(super) fn script_part(path: &[u8]) -> Option<&[u8]> {
    let at =
        path.windows(SCRIPT.len() + 1).position(|part| part.starts_with(SCRIPT.as_bytes()) && part.ends_with(b"/"))?;
    Some(&path[..at + SCRIPT.len()])
}

/// Returns the decoded part of a path after its script: `/b` of `/a.php/b`.
pub(super) fn path_info(path: &[u8]) -> Option<Vec<u8>> {
    http::decode_path_info(&path[script_part(path)?.len()..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_behind_its_first_script() {
        for (path, script) in [
            ("/a.php/b.php/c", Some("/a.php")),
            ("/a.php/", Some("/a.php")),
            ("/d/a.php/x", Some("/d/a.php")),
            ("/a.php", None),
            ("/a.phpx/b", None),
            ("/a.PHP/b", None),
            ("/", None),
        ] {
            assert_eq!(script_part(path.as_bytes()), script.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn the_source_of_no_program_is_sent() {
        for path in ["a.php", "d/a.PHP", "a.php7", "a.phtml", "a.PhAr", "a.phps", ".php"] {
            assert!(is_source(path), "{path}");
        }
        for path in ["a.html", "a.php/b", "php", "a.php.txt", "aphp"] {
            assert!(!is_source(path), "{path}");
        }
    }
}
