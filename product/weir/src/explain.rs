//! Finds the answer to one request, with a temporary server inside this process.

mod asked_server;
mod forms;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use config::{Configuration, Explanation, Named, Site, UpstreamVersion};

use asked_server::AskedServer;

const HTTPS: &str = "https://";

#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub url: &'a str,
    pub headers: &'a [String],
}

/// Returns a line for each of the status, the file and every field, or the reason why there is no answer.
pub fn answer(configuration: &Configuration, file: &Path, explanation: &Explanation, asked: &Asked) -> String {
    let mut lines = String::new();
    let is_secure = asked.url.starts_with(HTTPS);
    if is_secure && !configuration.settings.listeners.iter().any(|listener| listener.value.is_secure) {
        lines += "note: no listener speaks TLS: expected tls = true in one for https://\n";
    }
    if explanation.is_refused {
        return lines;
    }
    if explanation.is_passed_on {
        let site = explanation.site.map(|site| &configuration.sites[site]);
        return lines + &site.map(|site| script_line(configuration, site, file, &explanation.path)).unwrap_or_default();
    }
    let started = AskedServer::start(configuration, file);
    let asking = started.and_then(|server| Ok((server.head(asked.url, asked.headers)?, server)));
    let (answer, server) = match asking {
        Ok(answered) => answered,
        Err(failure) => {
            let _ = writeln!(lines, "answer: none: {}", units::plain(&failure.into_text()));
            return lines;
        }
    };
    let login = if explanation.needs_login { "401 without a login; with one " } else { "" };
    let _ = writeln!(lines, "answer: {login}{}", answer.status);
    let site = explanation.site.map(|site| &configuration.sites[site]);
    let site = site.filter(|site| !site.answers.is_measured(&explanation.path));
    if let Some(site) = site {
        lines += &file_line(configuration, site, file, &explanation.path, &answer.status);
    }
    answer.fields.iter().for_each(|field| lines += &format!("field: {field}\n"));
    if answer.is_ok() {
        lines += &forms::lines(&server, asked, &answer);
    }
    if let Some(field) = site.filter(|_| is_secure).and_then(|_| alternative(configuration, asked.url)) {
        let _ = writeln!(lines, "field: {field}");
    }
    lines
}

/// Returns the Alt-Svc field that announces HTTP/3, which the temporary server does not send.
fn alternative(configuration: &Configuration, url: &str) -> Option<String> {
    let listeners = configuration.settings.listeners.iter().map(|listener| &listener.value);
    let secure: Vec<_> = listeners.filter(|listener| listener.is_secure).collect();
    let asked = port_of(url);
    let listener = secure.iter().find(|listener| listener.address.port() == asked).or(secure.first());
    let alternative = listener.filter(|listener| listener.has_http3 && orders_http3(configuration));
    let alternative = alternative.map(|listener| server::alternative(listener.address.port()));
    alternative.map(|value| format!("Alt-Svc: {value}"))
}

/// Returns false with bands, because the kernel cannot order the datagrams of a response.
fn orders_http3(configuration: &Configuration) -> bool {
    configuration.settings.uplink.shaping != config::Shaping::Bands
}

/// The port of an https:// URL.
fn port_of(url: &str) -> u16 {
    let authority = url.strip_prefix(HTTPS).and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    config::split_host(authority).and_then(|(_, port)| port).unwrap_or(443)
}

/// Returns a line for the script that a responder runs for the request, or for the file that is sent. Empty for other
/// upstreams.
fn script_line(configuration: &Configuration, site: &Site, file: &Path, path: &[u8]) -> String {
    let proxy = site.answers.proxy(path).map(|at| &site.answers.proxies[at]);
    let is_script = |file: &Path| file.extension().is_some_and(|extension| extension == "php");
    if proxy.is_none_or(|proxy| proxy.version() != UpstreamVersion::FastCgi) {
        return String::new();
    }
    let root = site.root.as_deref().map(|root| file.parent().unwrap_or(Path::new("")).join(root));
    let Some(root) = root else { return String::new() };
    let behind = path.windows(5).position(|part| part == b".php/").map(|at| below(&root, &path[..at + 4]));
    let (found, key) = match file_of(site, file, path) {
        Some((found, key)) if key != Some(FALLBACK) && found.exists() => (found, key),
        _ if behind.as_ref().is_some_and(|script| script.is_file()) => (behind.unwrap_or_default(), None),
        Some((found, key @ Some(FALLBACK))) if is_script(&found) => (found, key),
        _ => return "file: none, so the answer is 404\n".into(),
    };
    let noun = if is_script(&found) { "script" } else { "file" };
    let why = if key == Some(FALLBACK) { ", for what leads nowhere" } else { "" };
    let place = key.map(|key| place_of(configuration, site, key)).unwrap_or_default();
    format!("{noun}: {}{why}{place}\n", found.display())
}

/// Returns the place of a site's key, in brackets.
fn place_of(configuration: &Configuration, site: &Site, key: &str) -> String {
    let at = site.held.iter().find(|held| held.key == key).and_then(|held| held.at);
    at.map(|at| format!(" ({}:{})", configuration.files.name_of(at), at.line)).unwrap_or_default()
}

/// Returns the path in a root for a request's decoded path.
fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
}

/// Returns a line with the file of the answer or the listed folder, and the reason if its name differs from the path.
fn file_line(configuration: &Configuration, site: &Site, file: &Path, path: &[u8], status: &str) -> String {
    let tries = &site.answers.tries;
    let found = if status.starts_with("200") { file_of(site, file, path) } else { None };
    let reason = |key: &str| place_of(configuration, site, key);
    match found {
        Some((path, None)) => format!("file: {}\n", path.display()),
        Some((path, Some(key))) => {
            let why =
                if key == FALLBACK { "the fallback of a navigation that leads nowhere" } else { "by its clean URL" };
            format!("file: {}, {why}{}\n", path.display(), reason(key))
        }
        None if status.starts_with("404") && tries.fallback.is_some() => {
            let cure =
                "a navigation has Sec-Fetch-Mode: navigate, or text/html in Accept; try --header 'Accept: text/html'";
            format!("fallback: not for this request, which is no navigation: {cure}{}\n", reason(FALLBACK))
        }
        None => String::new(),
    }
}

const FALLBACK: &str = "site.fallback";
const CLEAN: &str = "site.clean_urls";

/// Returns the file of the answer or the listed folder, and the key because of which its name differs from the path.
fn file_of(site: &Site, file: &Path, path: &[u8]) -> Option<(PathBuf, Option<&'static str>)> {
    let root = file.parent().unwrap_or(Path::new("")).join(site.root.as_ref()?);
    let below = |path: &[u8]| below(&root, path);
    let own = below(path);
    if let Some(index) = site.index.iter().map(|index| own.join(index)).find(|index| index.is_file()) {
        return Some((index, None));
    }
    let page = below(&[path, &b".html"[..]].concat());
    if site.answers.tries.has_clean_urls && !own.is_file() && page.is_file() {
        return Some((page, Some(CLEAN)));
    }
    match &site.answers.tries.fallback {
        Some(fallback) if !(own.is_file() || own.is_dir() && site.autoindex) => {
            Some((below(fallback.value.as_bytes()), Some(FALLBACK)))
        }
        _ => Some((own, None)),
    }
}
