//! Searches for the file of a request: by its path, and then by the other names that its site tries.
//!
//! Each name is a separate lookup. So the file of a single-page app is one cache entry, however many paths lead to it,
//! and a name that a folder is known to lack costs no disk access.

use std::sync::Arc;

use config::Tries;
use http::{Method, Request, Status};
use units::Nanos;

use super::error_replies::unserved;
use super::scripts::{path_info, script_part};
use super::{ALLOW, Answer, Awaited, FormWait, Handler, Reply, To, is_of_files, redirect};
use crate::files::{CacheAnswer, Found, Key, ListingView, Missing, SearchStep, SiteNumber};
use crate::sites;
use crate::upstream::PassOn;

/// The fields of a request that decide whether it is a navigation.
const NAVIGATION: &str = "Sec-Fetch-Mode, Sec-Fetch-Dest, Accept";
const HTML: &[u8] = b".html";
/// The file whose clean URL is that of its folder.
const INDEX: &[u8] = b"index.html";

/// The outcome of a search, with the last step of the search.
pub type Searched = (Result<Found, Missing>, SearchStep);

impl Handler {
    /// Returns the answer with a file, or with a script for these upstreams to run.
    pub(super) fn answer_with_file(
        &mut self,
        to: To,
        site: SiteNumber,
        request: &Request,
        scripts: Option<PassOn>,
        now: Nanos,
    ) -> Answer {
        let scripts = scripts.filter(|_| request.method != Method::Connect);
        // `//a`, `/b/../a` and `/a` name one file, which should have a single address in caches, logs and the links of
        // a page.
        // No rule has seen a path with dot segments, so it does not reach a program either.
        if let Some(target) = sites::resolved(request) {
            // Rules cannot read the path with its dot segments.
            let path = target.split('?').next().unwrap_or_default().as_bytes();
            let resolved = request.with_path(path, request.query);
            // No file has a name like `a%2Fb`.
            if http::decode_path(path, &mut Vec::new()).is_ok() || self.served.group(site, &resolved).is_some() {
                return self.with_headers(to, &resolved, redirect(Status::PERMANENT_REDIRECT, &target)).into();
            }
        }
        if scripts.is_none() && !is_of_files(request.method) {
            return self.with_headers(to, request, unserved(request, ALLOW)).into();
        }
        let answer = self.look(site, request, SearchStep::Exact, now);
        self.search_on(to, site, request, (answer, SearchStep::Exact), (scripts.map(Box::new), true, now))
    }

    /// Returns the answer to a request, given the result of its lookup. The answer may be to wait for something else.
    pub fn answer_found(
        &mut self,
        to: To,
        request: &Request,
        (found, step): Searched,
        scripts: Option<Box<PassOn>>,
        (may_wait, now): (bool, Nanos),
    ) -> Answer {
        let Some(site) = to.site else { return self.reply_with(to, request, found).into() };
        self.search_on(to, site, request, (CacheAnswer::Ready(found), step), (scripts, may_wait, now))
    }

    /// Continues a search with a step's result, or with a step that is still pending.
    fn search_on(
        &mut self,
        to: To,
        site: SiteNumber,
        request: &Request,
        (mut answer, mut step): (CacheAnswer, SearchStep),
        (scripts, may_wait, now): (Option<Box<PassOn>>, bool, Nanos),
    ) -> Answer {
        loop {
            let found = match answer {
                CacheAnswer::Ready(found) => found,
                CacheAnswer::Offload(lookup) => return Answer::Lookup(Awaited::File(lookup, step), scripts),
            };
            match next(self.sites().tries(site), step, &found, request, scripts.is_some()) {
                Some(other) => step = other,
                None => return self.answer_searched(to, request, (found, step), scripts, may_wait),
            }
            answer = self.look(site, request, step, now);
        }
    }

    /// Returns the answer after the search for a file: its script, its reply, or the form for which the request should
    /// wait, if it may wait.
    fn answer_searched(
        &mut self,
        to: To,
        request: &Request,
        searched: Searched,
        scripts: Option<Box<PassOn>>,
        may_wait: bool,
    ) -> Answer {
        let scripts = match &searched {
            (Ok(found), step) => match self.script(to, request, (found, *step), scripts) {
                Ok(answer) => return answer,
                Err(scripts) => scripts,
            },
            _ => scripts,
        };
        // The index of a folder may be a script, which accepts all methods; the client repeats the request at the
        // folder's URL.
        let is_of_script = scripts.is_some() && matches!(searched.0, Ok(Found::Redirect(_)));
        if !is_of_files(request.method) && !is_of_script {
            return self.with_headers(to, request, unserved(request, ALLOW)).into();
        }
        match self.reply_searched(to, request, searched, may_wait) {
            Ok(reply) => reply.into(),
            Err(wait) => Answer::Lookup(wait, scripts),
        }
    }

    /// Returns the reply with a file, or the form for which the request should wait, if it may wait.
    fn reply_searched(
        &mut self,
        to: To,
        request: &Request,
        searched: Searched,
        may_wait: bool,
    ) -> Result<Reply, Awaited> {
        if let Some(reply) = to.site.and_then(|site| self.to_clean(site, request, &searched)) {
            return Ok(self.with_headers(to, request, reply));
        }
        let (found, step) = searched;
        // Only a file is a fallback.
        let found = if step == SearchStep::Fallback && !matches!(found, Ok(Found::File(_))) {
            Err(Missing::NotFound)
        } else {
            found
        };
        let (Ok(Found::File(entry)), Some(site)) = (&found, to.site) else {
            return Ok(self.reply_with(to, request, found));
        };
        let response = match self.file_or_wait(to, request, entry, may_wait) {
            Ok(response) => response,
            Err(wished) => {
                let (key, entry) = (Key::new(site, request.path), Arc::clone(entry));
                return Err(Awaited::Form(Box::new(FormWait { key, wished, entry, step })));
            }
        };
        let Some(path) = self.sites().tries(site).fallback_path().filter(|_| step == SearchStep::Fallback) else {
            return Ok(self.with_headers(to, request, response.into()));
        };
        // The rules for paths without a file, which may set a year in caches, do not apply to this file.
        let mut named = *request;
        named.path = path.as_bytes();
        Ok(self.with_headers(to, &named, response.varying_by(NAVIGATION).into()))
    }

    /// Returns the reply for a missing file. If the site has a fallback, the reply has a Vary field, because a
    /// navigation would get the fallback.
    pub(super) fn missing(&self, to: To, missing: Missing, request: &Request) -> Reply {
        let reply = super::error_replies::missing(missing, request.path);
        let has_fallback = to.site.is_some_and(|site| self.sites().tries(site).fallback.is_some());
        match has_fallback && reply.response.status == Status::NOT_FOUND {
            true => Reply { response: reply.response.varying_by(NAVIGATION), ..reply },
            false => reply,
        }
    }

    /// Looks up the path of one step. The query matters for listings only.
    fn look(&mut self, site: SiteNumber, request: &Request, step: SearchStep, now: Nanos) -> CacheAnswer {
        let path = match step {
            SearchStep::Exact | SearchStep::Settled if !request.path.ends_with(b"/") => {
                return self.cache.lookup(site, request.path, now);
            }
            SearchStep::Exact | SearchStep::Settled => match view_of(request).suffix() {
                suffix if suffix.is_empty() => return self.cache.lookup(site, request.path, now),
                suffix => [request.path, suffix.as_bytes()].concat(),
            },
            SearchStep::Page => [without_slash(request.path), HTML].concat(),
            SearchStep::Script => script_part(request.path).unwrap_or(request.path).into(),
            SearchStep::Fallback => self.sites().tries(site).fallback_path().unwrap_or_default().into(),
        };
        self.cache.lookup(site, &path, now)
    }

    /// Returns the redirect to the clean URL of a file, if the request has a different URL.
    pub(super) fn to_clean(&self, site: SiteNumber, request: &Request, found: &Searched) -> Option<Reply> {
        let (Ok(Found::File(_)), step) = found else { return None };
        let path = clean(self.sites().tries(site), *step, request.path)?;
        let target = sites::with_query(String::from_utf8_lossy(path).into_owned(), request);
        Some(redirect(Status::PERMANENT_REDIRECT, &target))
    }
}

/// Returns the next step, if the result of this step is not the answer.
fn next(
    tries: &Tries,
    step: SearchStep,
    found: &Result<Found, Missing>,
    request: &Request,
    has_scripts: bool,
) -> Option<SearchStep> {
    let is_nothing = matches!(found, Err(Missing::NotFound | Missing::NoIndex));
    let is_folder = matches!(found, Ok(Found::Redirect(_)));
    let is_unanswered = is_nothing || is_folder;
    let may_be_page =
        tries.has_clean_urls && without_end(request.path, HTML).is_none() && !without_slash(request.path).is_empty();
    // A path with more after its script names no file.
    let is_no_file = is_nothing || matches!(found, Err(Missing::BadPath(_)));
    let may_be_script = has_scripts && is_no_file && path_info(request.path).is_some();
    // A program decides by itself about paths that lead nowhere.
    let is_program = |file: &str| has_scripts && file.ends_with(".php");
    let answers = |file: &str| is_program(file) || is_navigation(request);
    let has_fallback = is_nothing && tries.fallback.as_ref().is_some_and(|file| answers(&file.value));
    match step {
        SearchStep::Exact if may_be_page && is_unanswered => Some(SearchStep::Page),
        SearchStep::Page if is_unanswered => Some(SearchStep::Settled),
        SearchStep::Exact | SearchStep::Settled if may_be_script => Some(SearchStep::Script),
        SearchStep::Exact | SearchStep::Settled | SearchStep::Script if has_fallback => Some(SearchStep::Fallback),
        SearchStep::Exact | SearchStep::Page | SearchStep::Settled | SearchStep::Script | SearchStep::Fallback => None,
    }
}

/// Returns the clean path of a file that was found under this path; `None` if the path is clean already.
fn clean<'p>(tries: &Tries, step: SearchStep, path: &'p [u8]) -> Option<&'p [u8]> {
    let folder =
        |index: &[u8]| without_end(path, index).filter(|folder| tries.has_index_page && folder.ends_with(b"/"));
    match step {
        SearchStep::Exact if tries.has_clean_urls => {
            let page = || without_end(path, HTML).filter(|page| !page.ends_with(b"/"));
            folder(INDEX).or_else(page)
        }
        SearchStep::Page => {
            let page = without_slash(path);
            folder(b"index").or((page != path).then_some(page))
        }
        SearchStep::Exact | SearchStep::Settled | SearchStep::Script | SearchStep::Fallback => None,
    }
}

/// Removes the end of a percent-encoded path if it decodes to these letters.
fn without_end<'p>(path: &'p [u8], end: &[u8]) -> Option<&'p [u8]> {
    end.iter().rev().try_fold(path, |path, letter| {
        if let Some((rest, [b'%', digits @ ..])) = path.split_last_chunk::<3>() {
            let is_letter =
                std::str::from_utf8(digits).is_ok_and(|digits| u8::from_str_radix(digits, 16) == Ok(*letter));
            return is_letter.then_some(rest);
        }
        path.strip_suffix(&[*letter])
    })
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// Returns the listing for the case that the request's path leads to a folder.
pub(super) fn view_of(request: &Request) -> ListingView {
    let is_json = sites::names_json(request) && !sites::is_for_browser(request);
    ListingView::of_query(request.query.unwrap_or_default(), is_json)
}

/// Returns true if a browser requests a page to show and not a part of one. Browsers that send no Sec-Fetch-Mode
/// include HTML in Accept only for pages.
fn is_navigation(request: &Request) -> bool {
    let value = |name: &str| request.values(name).next();
    let is_part = || value("sec-fetch-dest").is_some_and(|dest| [&b"embed"[..], b"object"].contains(&dest));
    match value("sec-fetch-mode") {
        Some(mode) => mode == b"navigate" && !is_part(),
        None => sites::is_for_browser(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(has_index_page: bool) -> Tries {
        Tries { has_clean_urls: true, has_index_page, fallback: None }
    }

    #[test]
    fn a_page_has_one_clean_path() {
        for (step, path, expected) in [
            (SearchStep::Exact, "/about.html", Some("/about")),
            (SearchStep::Exact, "/a/index.html", Some("/a/")),
            (SearchStep::Exact, "/index.html", Some("/")),
            (SearchStep::Exact, "/a.index.html", Some("/a.index")),
            (SearchStep::Exact, "/about%2Ehtml", Some("/about")),
            (SearchStep::Exact, "/about.%68t%6dl", Some("/about")),
            (SearchStep::Exact, "/a%2Fb.html", Some("/a%2Fb")),
            (SearchStep::Exact, "/about%2fhtml", None),
            (SearchStep::Exact, "/a/ind%65x%2e%68%74%6d%6C", Some("/a/")),
            (SearchStep::Page, "/a/%69ndex", Some("/a/")),
            (SearchStep::Exact, "/about", None),
            (SearchStep::Exact, "/a/.html", None),
            (SearchStep::Exact, "/a.css", None),
            (SearchStep::Page, "/about", None),
            (SearchStep::Page, "/about/", Some("/about")),
            (SearchStep::Page, "/a/index", Some("/a/")),
            (SearchStep::Settled, "/about/", None),
            (SearchStep::Fallback, "/about/", None),
        ] {
            let found = clean(&tries(true), step, path.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{step:?} {path}");
        }
        assert_eq!(clean(&tries(false), SearchStep::Exact, b"/a/index.html"), Some(&b"/a/index"[..]));
        assert_eq!(clean(&tries(false), SearchStep::Page, b"/a/index"), None);
        assert_eq!(clean(&Tries::default(), SearchStep::Exact, b"/about.html"), None);
    }
}
