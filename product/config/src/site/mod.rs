//! Sites: their hosts, files and answers, and the site of a host.

mod access;
mod answers;
mod compression;
mod cors;
mod foreign_words;
mod forward_auth;
mod https;
mod media_types;
mod other_names;
mod proxy;
mod proxy_request;
mod redirect;
mod request_header;
mod rewrite;
mod rules;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use access::{Access, ByNetwork, Networks, UsersFile};
pub use answers::{Answers, MEASURED_PATHS, Unclear};
pub use compression::Compression;
pub use cors::{CorsRule, Origin};
pub use forward_auth::{AuthUrl, ForwardAuth};
pub use https::Https;
pub(crate) use https::{check as check_https, check_logins, check_loops};
pub use media_types::MediaTypes;
pub use other_names::Tries;
pub(crate) use proxy::Responder;
pub use proxy::{Health, Proxy, UpstreamAddress, UpstreamSocket, UpstreamVersion};
pub use proxy_request::ProxyRequest;
pub use redirect::split_host;
pub use redirect::{Redirect, Target};
pub use request_header::{FieldTemplate, RequestHeader, Variable};
pub use rewrite::{Rewrite, Rewritten, Template};
pub use rules::{CacheRule, ErrorPage, HeaderRule};

use crate::host::{Host, HostName};
use crate::pattern::Pattern;
use crate::place::{Place, Placed, quoted};
use crate::section::{Book, Held, Section};
use crate::settings::{AccessLog, Process};
use crate::suggest;
use crate::unreached_rules;
use crate::value_forms::{FileName, FromText, LogFormat, LogPath, Name, PathBelow, SiteName, SymlinkTargets};

/// The maximum number of sites. Finding the site of a host searches all of them.
const SITES_MAX: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Site {
    pub at: Place,
    pub name: String,
    pub hosts: Vec<Placed<Host>>,
    /// True if the site answers for hosts that no site has.
    pub is_default: bool,
    /// The folder of the files; `None` if every path is redirected or passed on.
    pub root: Option<PathBuf>,
    pub index: Vec<String>,
    pub autoindex: bool,
    /// A path beneath the root; it begins with a slash.
    pub listing_page: Option<String>,
    pub serve_dotfiles: bool,
    /// Folders outside the root that symlinks in the root may lead to.
    pub links_into: Vec<PathBuf>,
    pub types: MediaTypes,
    /// The places of the types, by extension.
    pub type_places: BTreeMap<String, Place>,
    pub access_log: Option<AccessLog>,
    /// The name of a class.
    pub class: Option<Placed<String>>,
    pub answers: Answers,
    pub compression: Compression,
    pub https: Https,
    pub held: Vec<Held>,
    /// The settings of its answers, in the order of their kinds.
    pub answers_held: Vec<Held>,
}

impl Site {
    /// Returns true if certificates are ordered for the site's hosts, provided that the file has an `[acme]` table.
    pub fn is_ordered(&self) -> bool {
        self.https.acme && self.https.certificate.is_none() && !self.hosts.is_empty()
    }
}

/// Returns the site of this host and that site's best matching host; the default site if none matches.
pub fn of_host<'s>(sites: &'s [Site], host: &HostName) -> Option<(usize, Option<&'s Placed<Host>>)> {
    let hosts = sites.iter().enumerate().flat_map(|(index, site)| site.hosts.iter().map(move |own| (index, own)));
    let fitting = hosts.filter_map(|(index, own)| Some((own.value.fits(host)?, index, own)));
    match fitting.max_by_key(|(fit, ..)| *fit) {
        Some((_, index, own)) => Some((index, Some(own))),
        None => Some((sites.iter().position(|site| site.is_default)?, None)),
    }
}

/// Reads the sites of the file.
pub(crate) fn read(file: &Section<'_, '_>, process: Option<&Process>) -> Vec<Site> {
    let tables = file.tables("site");
    if tables.is_empty() && !file.is_given("site") {
        file.book.mistake(Place::START, "site missing: expected [[site]] with root = \"FOLDER\"");
    }
    if tables.len() > SITES_MAX {
        file.book.mistake(tables[SITES_MAX].at, format!("site {}: expected {SITES_MAX} at most", SITES_MAX + 1));
    }
    let alone = tables.len() == 1;
    let sites: Vec<Site> = tables.into_iter().take(SITES_MAX).map(|table| site(table, alone, process)).collect();
    check_names(file.book, &sites);
    check_hosts(file.book, &sites);
    let mut defaults = sites.iter().filter(|site| site.is_default);
    if let Some(first) = defaults.next() {
        for other in defaults {
            let line = file.book.line(first.at, other.at);
            let said = format!("site `{}` is a default: expected one, that of {line}", other.name);
            file.book.mistake(other.at, said);
        }
    }
    sites
}

fn site(table: Section<'_, '_>, alone: bool, process: Option<&Process>) -> Site {
    let hosts = table.texts::<Host>("hosts");
    let is_default = table.flag("default") || (alone && !table.is_given("hosts"));
    let named = table.text::<Name>("name").map(|name| name.value.0);
    let name = named.or_else(|| hosts.first().map(|host| host.value.to_string())).unwrap_or("default".into());
    if !is_default && !table.is_given("hosts") {
        let said =
            "site without hosts: expected hosts = [\"example.org\"], or default = true for requests to all other hosts";
        table.book.mistake(table.at, said);
    }
    let files = (table.text::<PathBuf>("root"), table.texts::<FileName>("index"));
    let (autoindex, serve_dotfiles) = (table.flag("autoindex"), table.flag("serve_dotfiles"));
    let listing_page = listing_page(&table, autoindex);
    let (access_log, class) = (access_log(&table, process), table.text::<Name>("class"));
    let (mut answers, answers_held) = read_answers(&table);
    answers.tries = Tries::read(&table, &files.1);
    check_answers(&answers, &table, &hosts, is_default);
    let (types, type_places, types_held) = media_types::read(&table);
    Site {
        at: table.at,
        name,
        hosts,
        is_default,
        root: files.0.map(|root| root.value),
        index: files.1.into_iter().map(|name| name.value.0).collect(),
        autoindex,
        listing_page,
        serve_dotfiles,
        links_into: links_into(&table),
        types,
        type_places,
        access_log,
        class: class.map(|class| Placed { value: class.value.0, at: class.at }),
        answers,
        compression: compression::read(&table),
        https: https::read(&table),
        held: table.held(),
        answers_held: answers_held.into_iter().chain(types_held).collect(),
    }
}

/// Reads the folders that symlinks may lead to; `/` means all folders.
fn links_into(table: &Section<'_, '_>) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> =
        table.texts::<PathBuf>("follow_symlinks_into").into_iter().map(|folder| folder.value).collect();
    let targets = table.text::<SymlinkTargets>("symlinks");
    let Some(anywhere) = targets.filter(|targets| targets.value == SymlinkTargets::Anywhere) else { return folders };
    if table.is_given("follow_symlinks_into") {
        let said =
            "site.symlinks `anywhere` with site.follow_symlinks_into: expected `inside` with it, or `anywhere` without";
        table.book.mistake(anywhere.at, said);
    }
    vec!["/".into()]
}

/// Reads the template of listings. A template that is never used is a mistake.
fn listing_page(table: &Section<'_, '_>, is_listed: bool) -> Option<String> {
    let page = table.text::<PathBelow>("listing_page")?;
    let lacking = [("root", table.is_given("root")), ("autoindex", is_listed)];
    for (key, _) in lacking.into_iter().filter(|(_, is_there)| !is_there) {
        let expected = if key == "root" { "a folder with its file" } else { "autoindex = true" };
        table.book.mistake(page.at, format!("site.listing_page without site.{key}: expected {expected}"));
    }
    Some(page.value.0)
}

/// Returns the log of the site, or else of all sites. Path and format may come from different tables.
fn access_log(table: &Section<'_, '_>, process: Option<&Process>) -> Option<AccessLog> {
    let above = process.and_then(|process| process.access_log.as_ref());
    let (path, format) = (table.text::<LogPath>("access_log"), table.text::<LogFormat>("log_format"));
    let path = path.map(|path| path.value.0).or_else(|| above.map(|log| log.path.clone()))?;
    let format = format.map(|format| format.value).or_else(|| above.map(|log| log.format));
    Some(AccessLog { path, format: format.unwrap_or(LogFormat::Combined) })
}

fn read_answers(table: &Section<'_, '_>) -> (Answers, Vec<Held>) {
    let kinds = ["header", "cache", "error_page", "redirect", "proxy", "cors", "rewrite", "request_header", "access"]
        .map(|name| table.tables(name));
    let [headers, cache, error_pages, redirects, proxies, cors, rewrites, request_headers, access] = &kinds;
    let answers = Answers {
        rewrites: rewrites.iter().filter_map(Rewrite::read).collect(),
        access: access.iter().filter_map(Access::read).collect(),
        request_headers: request_headers.iter().filter_map(RequestHeader::read).collect(),
        headers: headers.iter().filter_map(HeaderRule::read).collect(),
        cache: cache.iter().filter_map(CacheRule::read).collect(),
        error_pages: error_pages.iter().filter_map(ErrorPage::read).collect(),
        error_root: table.text::<PathBuf>("error_root").map(|folder| folder.value),
        redirects: redirects.iter().filter_map(Redirect::read).collect(),
        proxies: fastcgi(table, proxies.iter().filter_map(Proxy::read)),
        cors: cors.iter().filter_map(CorsRule::read).collect(),
        responsiveness: table.flag("responsiveness"),
        tries: Tries::default(),
    };
    (answers, kinds.into_iter().flatten().flat_map(Section::held).collect())
}

/// Returns the proxies, followed by the proxy for all scripts if the site's own key names a responder.
fn fastcgi(table: &Section<'_, '_>, proxies: impl Iterator<Item = Proxy>) -> Vec<Proxy> {
    let except = table.texts::<Pattern>("fastcgi_except").into_iter().map(|path| path.value);
    let except: Vec<Pattern> = except.collect();
    let own = table.text::<Responder>("fastcgi");
    let own = own.map(|own| Proxy { at: own.at, ..Proxy::of_all(vec![own.value.0]) });
    let mut proxies: Vec<Proxy> = proxies.chain(own).collect();
    let scripts = proxies.iter_mut().filter(|proxy| proxy.version() == UpstreamVersion::FastCgi);
    scripts.for_each(|proxy| proxy.fastcgi_except.clone_from(&except));
    proxies
}

fn check_answers(answers: &Answers, table: &Section<'_, '_>, hosts: &[Placed<Host>], is_default: bool) {
    let book = table.book;
    unreached_rules::check(book, &answers.rewrites);
    unreached_rules::check(book, &answers.access);
    unreached_rules::check(book, &answers.request_headers);
    unreached_rules::check(book, &answers.headers);
    unreached_rules::check(book, &answers.cache);
    unreached_rules::check(book, &answers.error_pages);
    unreached_rules::check(book, &answers.redirects);
    unreached_rules::check(book, &answers.proxies);
    unreached_rules::check(book, &answers.cors);
    for redirect in &answers.redirects {
        let Some(host) = redirect.host.as_ref().filter(|_| !is_default) else { continue };
        if !hosts.iter().any(|own| own.value.fits(host).is_some()) {
            let said = format!("site.redirect.from_host `{host}`: expected a host of the site");
            book.mistake(redirect.at, said);
        }
    }
    foreign_words::check(book, answers);
    check_unread_root(answers, table);
    check_errors(answers, table);
    check_clean(answers, table);
    if let Some(rule) = answers.request_headers.first().filter(|_| answers.proxies.is_empty()) {
        book.mistake(rule.at, "site.request_header without site.proxy: expected a proxy whose upstreams get the field");
    }
    check_scripts(answers, table);
    let all_redirected = answers.redirects.iter().any(|redirect| redirect.host.is_none() && redirect.from.is_any());
    let all_proxied = answers.proxies.iter().any(|proxy| proxy.path.is_any() && !proxy.is_of_files());
    let has_mistakes = (table.is_given("redirect") && answers.redirects.is_empty())
        || (table.is_given("proxy") && answers.proxies.is_empty());
    if table.is_given("root") || all_redirected || all_proxied || has_mistakes {
        return;
    }
    book.mistake(table.at, "site.root missing: expected a folder, or a redirect or a proxy of every path");
}

/// Notes a folder whose files no path reaches because a proxy has all paths.
fn check_unread_root(answers: &Answers, table: &Section<'_, '_>) {
    let is_read = |proxy: &Proxy| proxy.is_of_files() || proxy.version() == UpstreamVersion::FastCgi;
    let has_pages = !answers.error_pages.is_empty();
    if !table.is_given("root") || has_pages || answers.proxies.iter().any(is_read) {
        return;
    }
    if let Some(all) = answers.proxies.iter().find(|proxy| proxy.path.is_any() && proxy.accel_root.is_none()) {
        let line = table.book.line(all.at, table.at);
        let said = format!(
            "site.root: no path reaches its files, since site.proxy of {line} has all; expected serve_files = true in a table before it for theirs"
        );
        table.book.note(table.place_of("root"), said);
    }
}

/// Checks that scripts have a folder, and that keys for scripts have a responder.
fn check_scripts(answers: &Answers, table: &Section<'_, '_>) {
    let book = table.book;
    let scripts = answers.proxies.iter().find(|proxy| proxy.version() == UpstreamVersion::FastCgi);
    if scripts.is_none() && table.is_given("fastcgi_except") {
        let said = "site.fastcgi_except without FastCGI: expected site.fastcgi, or fastcgi: in a proxy";
        book.mistake(table.place_of("fastcgi_except"), said);
    }
    if let Some(proxy) = scripts.filter(|_| !table.is_given("root")) {
        book.mistake(proxy.at, "site.fastcgi without site.root: expected the folder of its scripts");
    }
    let Some(files) = answers.proxies.iter().find(|proxy| proxy.is_of_files()) else { return };
    if !table.is_given("root") {
        book.mistake(files.at, "site.proxy.serve_files without site.root: expected the folder of the files");
    }
    // Without a responder, the source of a script would be sent.
    if scripts.is_some() {
        book.mistake(
            files.at,
            "site.proxy.serve_files with FastCGI: expected no such table, since files that are no scripts are sent without it",
        );
    }
}

/// Notes rules for `.html` paths on a site with clean URLs, where no page has such a path.
fn check_clean(answers: &Answers, table: &Section<'_, '_>) {
    if !answers.tries.has_clean_urls {
        return;
    }
    let headers = answers.headers.iter().map(|rule| ("header", rule.at, &rule.path));
    let caches = answers.cache.iter().map(|rule| ("cache", rule.at, &rule.path));
    let access = answers.access.iter().map(|rule| ("access", rule.at, &rule.path));
    let cors = answers.cors.iter().map(|rule| ("cors", rule.at, &rule.path));
    for (noun, at, path) in headers.chain(caches).chain(access).chain(cors) {
        if path.to_string().ends_with(".html") {
            let said = format!(
                "site.{noun} for `{path}`: no page has this path with clean_urls = true; expected it without .html"
            );
            table.book.note(at, said);
        }
    }
}

/// Checks that error pages have a folder, and that keys for error pages come with such a page.
fn check_errors(answers: &Answers, table: &Section<'_, '_>) {
    let book = table.book;
    let has_folder = table.is_given("root") || table.is_given("error_root");
    let Some(page) = answers.error_pages.first() else {
        if table.is_given("error_root") {
            book.note(table.place_of("error_root"), "site.error_root: no effect without [[site.error_page]]");
        }
        for proxy in answers.proxies.iter().filter(|proxy| proxy.intercept_errors) {
            book.note(proxy.at, "site.proxy.intercept_errors: no effect without [[site.error_page]]");
        }
        return;
    };
    if !has_folder {
        book.mistake(page.at, "site.error_page without site.root or site.error_root: expected a folder with its file");
    }
}

fn check_names(book: &Book<'_>, sites: &[Site]) {
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for site in sites {
        if let Some(first) = seen.insert(&site.name, site.at) {
            let line = book.line(first, site.at);
            let said = format!("site `{}`: expected a name of its own, {line} has it", site.name);
            book.mistake(site.at, said);
        }
    }
}

fn check_hosts(book: &Book<'_>, sites: &[Site]) {
    let mut seen: BTreeMap<&Host, Place> = BTreeMap::new();
    for host in sites.iter().flat_map(|site| &site.hosts) {
        if let Some(first) = seen.insert(&host.value, host.at) {
            let line = book.line(first, host.at);
            let said = format!("site.hosts `{}`: expected once, {line} has it", host.value);
            book.mistake(host.at, said);
        }
    }
}

/// The indices of sites, by name and host, as rules refer to them.
pub(crate) fn names(sites: &[Site]) -> BTreeMap<String, usize> {
    let hosts = sites
        .iter()
        .enumerate()
        .flat_map(|(index, site)| site.hosts.iter().map(move |host| (host.value.to_string(), index)));
    let names = sites.iter().enumerate().map(|(index, site)| (site.name.clone(), index));
    hosts.chain(names).collect()
}

/// The index of the site that a rule names.
pub(crate) fn named(book: &Book<'_>, names: &BTreeMap<String, usize>, name: &Placed<SiteName>) -> Option<usize> {
    let given = &name.value.0;
    let found = names.get(given).or_else(|| names.get(&given.to_ascii_lowercase())).copied();
    if found.is_none() {
        let guess = suggest::nearest(given, names.keys().map(String::as_str));
        let expected = suggest::guessed(SiteName::FORM.expected(), guess);
        book.mistake(name.at, format!("class.rule.site {}: expected {expected}", quoted(given)));
    }
    found
}
