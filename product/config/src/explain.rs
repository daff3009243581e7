//! Explains one request: its site, its class and the values that apply, each with its place in the file.

use std::fmt;
use std::net::IpAddr;

use http::Readings;

use crate::class::{Asked, OTHERS, Why};
use crate::host::HostName;
use crate::network::Network;
use crate::place::{Named, Place, quoted};
use crate::section::Held;
use crate::site::{self, ByNetwork, Proxy, Rewritten, Site, Unclear, split_host};
use crate::value_forms::Satisfy;
use crate::{Configuration, UpstreamVersion, value_forms};

/// A request to explain.
#[derive(Debug)]
pub struct Question {
    host: HostName,
    /// The path as in a request, encoded.
    raw_path: Vec<u8>,
    query: Option<Vec<u8>>,
    client: Option<IpAddr>,
    fields: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("URL {}: expected http:// or https://, a host and a path, for example http://example.org/a", quoted(.0))]
    Url(String),
    #[error("path of the URL {}: {reason}", quoted(.path))]
    Path { path: String, reason: &'static str },
    #[error("path of the URL {}: the server redirects it (308) to {}; ask about that path", quoted(.path), quoted(.to))]
    Redirected { path: String, to: String },
    #[error("header {}: expected a name, a colon and a value, for example `X-Tier: gold`", quoted(.0))]
    Header(String),
}

impl Question {
    pub fn new(url: &str, client: Option<IpAddr>, headers: &[String]) -> Result<Question, AskError> {
        let wrong = || AskError::Url(url.into());
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).ok_or_else(wrong)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (host, _) = split_host(authority).ok_or_else(wrong)?;
        let raw = target.split(['?', '#']).next().filter(|path| !path.is_empty()).unwrap_or("/");
        Readings::of(raw.as_bytes()).map_err(|reject| match http::resolved(raw.as_bytes()) {
            Some(to) => AskError::Redirected { path: raw.into(), to: String::from_utf8_lossy(&to).into() },
            None => AskError::Path { path: raw.into(), reason: reject.reason },
        })?;
        let fields = headers.iter().map(|header| field(header)).collect::<Result<_, _>>()?;
        let query = target.split('#').next().and_then(|target| target.split_once('?')).map(|(_, query)| query.into());
        Ok(Question { host, raw_path: raw.into(), query, client, fields })
    }

    fn asked<'a>(&'a self, site: usize, path: &'a [u8]) -> Asked<'a> {
        Asked { site, path, client: self.client, fields: &self.fields }
    }

    fn query(&self) -> Option<&[u8]> {
        self.query.as_deref()
    }

    fn readings(&self) -> Readings<'_> {
        Readings::of(&self.raw_path).expect("a question has a path that can be read")
    }
}

fn field(header: &str) -> Result<(String, String), AskError> {
    let split = header.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    let (name, value) =
        split.filter(|(name, _)| value_forms::is_field_name(name)).ok_or_else(|| AskError::Header(header.into()))?;
    Ok((name.into(), value.into()))
}

/// The decisions about a request, and the settings that apply to it.
#[derive(Debug, Default)]
pub struct Explanation {
    /// The site, the class and the answer, each with its reason.
    decisions: Vec<Row>,
    /// The settings that apply to the request.
    settings: Vec<Row>,
    /// The index of the request's site.
    pub site: Option<usize>,
    /// The decoded path that the site answers. It begins with a slash.
    pub path: Vec<u8>,
    /// True if upstreams answer the request.
    pub is_passed_on: bool,
    /// True if the request's client is refused.
    pub is_refused: bool,
    /// True if the request's client has to log in.
    pub needs_login: bool,
}

#[derive(Debug)]
struct Row {
    said: String,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    None,
    At(Place),
    Default,
}

impl Explanation {
    /// Displays a line for each decision, with its place in its file.
    pub fn of_file<'e>(&'e self, files: &'e (impl Named + ?Sized)) -> impl fmt::Display + 'e {
        shown(&self.decisions, files)
    }

    /// Displays the settings of the site, the class and the server, including defaults.
    pub fn settings_of_file<'e>(&'e self, files: &'e (impl Named + ?Sized)) -> impl fmt::Display + 'e {
        shown(&self.settings, files)
    }

    fn say(&mut self, said: impl Into<String>, reason: Reason) {
        self.decisions.push(Row { said: said.into(), reason });
    }

    fn hold(&mut self, held: &[Held]) {
        for held in held {
            let reason = held.at.map_or(Reason::Default, Reason::At);
            self.settings.push(Row { said: format!("{} = {}", held.key, held.value), reason });
        }
    }
}

fn shown<'e>(lines: &'e [Row], files: &'e (impl Named + ?Sized)) -> impl fmt::Display + 'e {
    fmt::from_fn(move |f| {
        for line in lines {
            match line.reason {
                Reason::None => writeln!(f, "{}", line.said)?,
                Reason::At(at) => writeln!(f, "{} ({}:{})", line.said, files.name_of(at), at.line)?,
                Reason::Default => writeln!(f, "{} (default)", line.said)?,
            }
        }
        Ok(())
    })
}

pub fn explain(configuration: &Configuration, question: &Question) -> Explanation {
    let mut explanation = Explanation::default();
    let Some((index, host)) = site::of_host(&configuration.sites, &question.host) else {
        let said = format!("site: none; host `{}` belongs to no site, and no site is the default", question.host);
        explanation.say(said, Reason::None);
        return explanation;
    };
    explanation.site = Some(index);
    let site = &configuration.sites[index];
    match host {
        Some(host) => explanation.say(format!("site: {}, by its host {}", site.name, host.value), Reason::At(host.at)),
        None => explanation.say(format!("site: {}, the default", site.name), Reason::At(site.at)),
    }
    let rewritten = explain_rewrite(&mut explanation, site, question);
    let path = rewritten.clone().ok().flatten().map_or(question.raw_path.clone(), |to| to.path);
    let readings = Readings::of(&path).expect("a path that a site answers by can be read");
    explanation.path = readings.plain().to_vec();
    let class = explain_class(&mut explanation, configuration, &question.asked(index, readings.plain()));
    let assignment = configuration.assignment();
    let by_path = assignment.looks_at_paths().then_some(|path: &[u8]| assignment.of(&question.asked(index, path)).0);
    match rewritten.and_then(|_| site.answers.check(Some(&question.host), &readings, by_path)) {
        Ok(()) => explain_answer(&mut explanation, site, question, &readings),
        Err(Unclear::Unmerged) => explain_merged(&mut explanation, site, question),
        Err(Unclear::Refused(reject)) => explanation.say(format!("refused: {reject}"), Reason::At(site.at)),
    }
    explanation.hold(&site.held);
    if let Some(class) = class {
        explanation.hold(&configuration.classes[class].held);
    }
    explanation.hold(&configuration.settings.held);
    explanation
}

/// Explains the rewrite of the path, if there is one.
fn explain_rewrite(
    explanation: &mut Explanation,
    site: &Site,
    question: &Question,
) -> Result<Option<Rewritten>, Unclear> {
    let rewritten = site.answers.rewrite(&question.readings(), question.query())?;
    Ok(rewritten.map(|(rewrite, to)| {
        explanation.say(format!("rewrite: to {to}"), Reason::At(rewrite.at));
        to
    }))
}

/// Explains the class: by a rule, or else by the site, or else by the default.
fn explain_class(explanation: &mut Explanation, configuration: &Configuration, asked: &Asked<'_>) -> Option<usize> {
    let (class, why) = configuration.assignment().of(asked);
    let name = configuration.classes.get(class).map_or(OTHERS, |class| &class.name);
    let given = match why {
        Why::Rule(at) => return explain_rule(explanation, configuration, class, at),
        Why::Site => configuration.sites[asked.site].class.as_ref().map(|name| (name, "by its site")),
        Why::Default => configuration.settings.uplink.default_class.as_ref().map(|name| (name, "the default")),
        Why::Nothing => None,
    };
    let Some((given, why)) = given else {
        explanation.say(format!("class: {OTHERS}, by no rule"), Reason::Default);
        return None;
    };
    explanation.say(format!("class: {name}, {why}"), Reason::At(given.at));
    Some(class)
}

fn explain_rule(
    explanation: &mut Explanation,
    configuration: &Configuration,
    class: usize,
    rule: usize,
) -> Option<usize> {
    let said = format!("class: {}, by a rule", configuration.classes[class].name);
    explanation.say(said, Reason::At(configuration.rules[rule].at));
    Some(class)
}

/// Explains the redirect to the path without empty segments.
fn explain_merged(explanation: &mut Explanation, site: &Site, question: &Question) {
    let merged = http::merge_slashes(&question.raw_path).unwrap_or_default();
    let said = format!("redirect: 308 to {}, without empty segments", String::from_utf8_lossy(&merged));
    explanation.say(said, Reason::At(site.at));
}

/// Explains which clients are admitted. Returns false if the client in question is not.
fn explain_access(explanation: &mut Explanation, site: &Site, question: &Question, path: &[u8]) -> bool {
    let Some(access) = site.answers.access(path) else { return true };
    if let Some(users) = &access.users {
        let any = if access.satisfy == Satisfy::Any { ", or by network" } else { "" };
        let said = format!("access: by password, users of {}{any}", users.file.display());
        explanation.say(said, Reason::At(access.at));
    }
    if let Some(auth) = &access.auth {
        explanation.say(format!("access: as {} answers", auth.url), Reason::At(access.at));
    }
    let (networks, at) = (&access.networks, Reason::At(access.at));
    let has_login = access.users.is_some() || access.auth.is_some();
    explanation.needs_login =
        has_login && question.client.is_none_or(|client| access.by_network(client) == ByNetwork::NeedsLogin);
    if networks.is_empty() {
        explanation.say("access: clients of all networks", at);
        return true;
    }
    let Some(client) = question.client else {
        let of = |list: &[Network]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let allowed = (!networks.allow.is_empty()).then(|| format!("clients of {} alone", of(&networks.allow)));
        let denied = (!networks.deny.is_empty()).then(|| format!("no client of {}", of(&networks.deny)));
        let said: Vec<String> = [allowed, denied].into_iter().flatten().collect();
        explanation.say(format!("access: {}; --client ADDRESS shows which decides", said.join(", ")), at);
        return true;
    };
    let (is_let_in, network) = networks.admits(client);
    let by = network.map_or("of no network of the table".into(), |network| format!("of {network}"));
    match access.by_network(client) {
        ByNetwork::Refused => {
            explanation.say(format!("access: 403 for client {client}, {by}"), at);
            explanation.is_refused = true;
        }
        ByNetwork::NeedsLogin if !is_let_in => {
            explanation.say(format!("access: a login for client {client}, {by}"), at)
        }
        _ => explanation.say(format!("access: client {client} is let in, {by}"), at),
    }
    !explanation.is_refused
}

fn explain_answer(explanation: &mut Explanation, site: &Site, question: &Question, readings: &Readings) {
    let path = readings.plain();
    if let Some((redirect, to)) = site.answers.redirect(Some(&question.host), readings) {
        explanation.say(format!("redirect: {} to {to}", redirect.status), Reason::At(redirect.at));
        return;
    }
    if !explain_access(explanation, site, question, path) {
        return;
    }
    let is_measured = site.answers.is_measured(path);
    if is_measured {
        explanation.say("responsiveness: what clients measure it with", Reason::At(site.at));
    }
    match site.answers.proxies.iter().find(|proxy| proxy.path.matches(path)).filter(|_| !is_measured) {
        Some(proxy) if proxy.is_of_files() => explanation.say("proxy: none, the site's files", Reason::At(proxy.at)),
        Some(proxy) => explain_proxy(explanation, site, proxy, path),
        None => {}
    }
    if !explanation.is_passed_on {
        explain_type(explanation, site, path);
    }
    for rule in site.answers.headers(path) {
        explanation.say(format!("header: {}: {}", rule.name, rule.value), Reason::At(rule.at));
    }
    if let Some(rule) = site.answers.cache(path) {
        explanation.say(format!("header: Cache-Control: {}", rule.control), Reason::At(rule.at));
    }
    if let Some(rule) = site.answers.cors(path) {
        let origins: Vec<String> = rule.origins.iter().map(ToString::to_string).collect();
        explanation.say(format!("cors: scripts of {}", origins.join(", ")), Reason::At(rule.at));
    }
    for page in &site.answers.error_pages {
        explanation.say(format!("error page: {} is {}", page.statuses, page.file), Reason::At(page.at));
    }
}

/// Explains the media type of a file, if the site sets it.
fn explain_type(explanation: &mut Explanation, site: &Site, path: &[u8]) {
    let path = String::from_utf8_lossy(path);
    let extension = std::path::Path::new(&*path).extension().and_then(|extension| extension.to_str());
    let Some(extension) = extension.filter(|_| !path.ends_with('/')) else { return };
    let Some(media_type) = site.types.of_extension(extension) else { return };
    let at = site.type_places.get(&extension.to_ascii_lowercase()).map_or(Reason::Default, |at| Reason::At(*at));
    explanation.say(format!("type: {}, of files in .{extension}", site.types.with_charset(media_type)), at);
}

/// Explains the request that upstreams get.
fn explain_proxy(explanation: &mut Explanation, site: &Site, proxy: &Proxy, path: &[u8]) {
    let to: Vec<String> = proxy.to.iter().map(ToString::to_string).collect();
    let is_scripts = proxy.version() == UpstreamVersion::FastCgi;
    let noun = if is_scripts { "scripts (files in .php)" } else { "proxy" };
    explanation.say(format!("{noun}: to {}", to.join(", ")), Reason::At(proxy.at));
    let host = proxy.host.as_ref();
    host.inspect(|host| explanation.say(format!("proxy: host {host}"), Reason::At(proxy.at)));
    if let Some(prefix) = &proxy.request.strip_prefix {
        explanation.say(format!("proxy: without {prefix} at the beginning of the path"), Reason::At(proxy.at));
    }
    if let Some(bytes) = proxy.request.max_body_bytes {
        explanation.say(format!("proxy: 413 for a body over {bytes} bytes"), Reason::At(proxy.at));
    }
    for rule in site.answers.request_headers(path) {
        let value = rule.value.as_ref().map_or("removed".into(), ToString::to_string);
        explanation.say(format!("request header: {}: {value}", rule.name), Reason::At(rule.at));
    }
    if site.compression.has_upstream_dictionaries {
        let pages = "dictionary: its pages, over https, for requests without Cookie, Authorization and query";
        explanation.say(pages, Reason::At(site.at));
    }
    let size = "proxy: the running server learns a size that has no Content-Length, and it alone knows it";
    explanation.say(size, Reason::At(proxy.at));
    explanation.is_passed_on = true;
}
