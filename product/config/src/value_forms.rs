//! The types of values that are strings in the file.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sched::policy::{ClientShareSpec, NAMES, PolicyError, PolicySpec};
use units::{Rate, Share};

use crate::keys::Form;
use crate::pattern::Pattern;
use crate::suggest;
use crate::zone::{in_zone, zoned_listener};

/// The reason why a string is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The string does not have the form.
    Form,
    /// The form expected instead.
    Expected(String),
    /// The whole message, about a part of the string.
    Said(String),
}

/// A value that is written as a string.
pub(crate) trait FromText: Sized {
    const FORM: Form;

    fn from_text(text: &str) -> Result<Self, Wrong>;

    /// Returns the value as it applies in a file of this folder.
    fn in_folder(self, _: &Path) -> Self {
        self
    }
}

/// Defines types for strings that need no conversion. Each form has its own type, so that keys and values cannot be
/// mixed up.
macro_rules! texts {
    ($($name:ident: $form:expr, $check:expr;)*) => {$(
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $name(pub(crate) String);

        impl FromText for $name {
            const FORM: Form = $form;

            fn from_text(text: &str) -> Result<$name, Wrong> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok($name(text.into())) } else { Err(Wrong::Form) }
            }
        }
    )*};
}

const NAME_BYTES_MAX: usize = 64;
const FIELD_BYTES_MAX: usize = 4096;

texts! {
    Name: Form::Name, |text| (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_name_byte);
    SiteName: Form::SiteName, |text| !text.is_empty();
    FileName: Form::FileName, |text| is_path(text) && !text.contains('/') && ![".", ".."].contains(&text);
    FilePattern: Form::FilePattern, is_path;
    PathBelow: Form::PathBelow, |text| {
        let segments = |below: &str| below.split('/').all(|segment| !["", ".", ".."].contains(&segment));
        is_path(text) && text.strip_prefix('/').is_some_and(segments)
    };
    HttpsUrl: Form::HttpsUrl, is_https_url;
    Mail: Form::Mail, |text| {
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        text.len() <= FIELD_BYTES_MAX && text.split_once('@').is_some_and(|(name, host)| is_part(name) && is_part(host))
    };
    FieldName: Form::FieldName, is_field_name;
    MethodName: Form::Method, |text| is_field_name(text) && !text.bytes().any(|byte| byte.is_ascii_lowercase());
    FieldValue: Form::FieldValue, is_field_value;
    Realm: Form::Realm, |text| is_field_value(text) && !text.contains(['"', '\\']);
    MediaType: Form::MediaType, is_media_type;
    Extension: Form::Extension, |text| is_path(text) && !text.contains(['/', '.']);
    Charset: Form::Charset, is_field_name;
    CacheControl: Form::CacheControl, |text| is_field_value(text) && text.split(',').all(|part| is_directive(part.trim()));
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromText for Size {
    const FORM: Form = Form::Size;

    fn from_text(text: &str) -> Result<Size, Wrong> {
        units::parse_size(text).map(Size).map_err(|_| Wrong::Form)
    }
}

/// The statuses to which an error page applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statuses {
    first: u16,
    last: u16,
}

impl Statuses {
    const ERRORS: [(&str, u16, u16); 3] = [("4xx", 400, 499), ("5xx", 500, 599), ("*", 400, 599)];

    pub fn has(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }

    /// Returns true if these statuses include all of the others.
    pub(crate) fn covers(self, other: Statuses) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl FromText for Statuses {
    const FORM: Form = Form::Statuses;

    fn from_text(text: &str) -> Result<Statuses, Wrong> {
        if let Some((_, first, last)) = Statuses::ERRORS.into_iter().find(|(name, ..)| *name == text) {
            return Ok(Statuses { first, last });
        }
        let one = text.parse::<u16>().ok().filter(|status| (400..=599).contains(status) && text.len() == 3);
        one.map(|status| Statuses { first: status, last: status }).ok_or(Wrong::Form)
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Statuses::ERRORS.into_iter().find(|(_, first, last)| (*first, *last) == (self.first, self.last)) {
            Some((name, ..)) => f.write_str(name),
            None => write!(f, "{}", self.first),
        }
    }
}

/// The path of a request, with or without a query.
pub(crate) struct RequestPath(pub(crate) String);

const REQUEST_PATH_BYTES_MAX: usize = 1024;

impl FromText for RequestPath {
    const FORM: Form = Form::RequestPath;

    fn from_text(text: &str) -> Result<RequestPath, Wrong> {
        let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if is_path && text.len() <= REQUEST_PATH_BYTES_MAX { Ok(RequestPath(text.into())) } else { Err(Wrong::Form) }
    }
}

/// A decoded path of a folder, without its trailing slash. All programs read it in the same way ([`http::Readings`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prefix(pub(crate) String);

impl FromText for Prefix {
    const FORM: Form = Form::Prefix;

    fn from_text(text: &str) -> Result<Prefix, Wrong> {
        let is_clear = http::Readings::of(text.as_bytes()).is_ok_and(|readings| !readings.are_several());
        let is_plain = text.len() <= REQUEST_PATH_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_literal = !text.contains(['*', '?', '#', '%']);
        if is_clear && is_plain && is_literal && !text.ends_with('/') {
            Ok(Prefix(text.into()))
        } else {
            Err(Wrong::Form)
        }
    }
}

/// A share of at most `MAX` percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percent<const MAX: u16>(pub(crate) Share);

impl<const MAX: u16> FromText for Percent<MAX> {
    const FORM: Form = Form::Percent(MAX);

    fn from_text(text: &str) -> Result<Percent<MAX>, Wrong> {
        let share = text.parse::<Share>().ok().filter(|share| share.permille() <= 10 * MAX);
        share.map(Percent).ok_or(Wrong::Form)
    }
}

impl FromText for Rate {
    const FORM: Form = Form::Rate;

    fn from_text(text: &str) -> Result<Rate, Wrong> {
        text.parse().map_err(|_| Wrong::Form)
    }
}

impl FromText for Duration {
    const FORM: Form = Form::Time;

    fn from_text(text: &str) -> Result<Duration, Wrong> {
        units::parse_duration(text).map_err(|_| Wrong::Form)
    }
}

/// The shortest timeout. A timeout of 0 would not disable it, as operators may expect, but end everything immediately.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// Reads a timeout.
pub fn timeout(text: &str) -> Result<Duration, String> {
    let time = units::parse_duration(text).map_err(|error| error.to_string())?;
    if time < TIMEOUT_MIN { Err("expected 1ms or more".to_string()) } else { Ok(time) }
}

/// A maximum waiting time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Duration);

impl FromText for Timeout {
    const FORM: Form = Form::Timeout;

    fn from_text(text: &str) -> Result<Timeout, Wrong> {
        timeout(text).map(Timeout).map_err(|_| Wrong::Form)
    }
}

impl FromText for SocketAddr {
    const FORM: Form = Form::Address;

    fn from_text(text: &str) -> Result<SocketAddr, Wrong> {
        listen_address(text).ok_or_else(|| Wrong::Expected(listen_expected(text)))
    }
}

/// Returns true for an https:// address with a host, in visible ASCII.
pub fn is_https_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").filter(|rest| !rest.is_empty() && !rest.starts_with('/'));
    text.len() <= FIELD_BYTES_MAX && rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// The form expected instead of the path of a Unix socket.
const NO_UNIX_SOCKET: &str = "an address and a port, because Weir does not listen on Unix sockets; a proxy or a \
    tunnel on this machine can use 127.0.0.1:8080";

/// Returns the form expected instead of a text that [`listen_address`] refuses.
pub fn listen_expected(text: &str) -> String {
    if is_unix_socket(text) {
        return NO_UNIX_SOCKET.into();
    }
    if let Some(Err(why)) = zoned_listener(text).map(|(zoned, port)| in_zone(zoned, port)) {
        return format!("an interface that exists, because {why}");
    }
    match text.parse::<u16>() {
        Ok(port) => format!(":{port} for all addresses, or 127.0.0.1:{port} for this machine only"),
        Err(_) => Form::Address.expected(),
    }
}

/// Returns true for the path of a Unix socket or an abstract socket name, as other programs write them.
fn is_unix_socket(text: &str) -> bool {
    ["unix:", "unix/", "/", "./", "@"].iter().any(|begins| text.starts_with(begins)) || text.ends_with(".sock")
}

/// Returns false if this machine has no IPv6 sockets (`ipv6.disable=1`), or this process's system call filter blocks
/// them.
pub fn has_ipv6() -> bool {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let opened = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    !matches!(opened, Err(rustix::io::Errno::AFNOSUPPORT))
}

/// Reads an address to listen on: an IP address and a port, a link-local address with its interface
/// (`[fe80::1%eth0]:80`), `localhost:8080`, or `:8080` for all addresses, including IPv6 if this machine has it. A port
/// without a colon is refused, because it does not show whether other machines are served.
pub fn listen_address(text: &str) -> Option<SocketAddr> {
    let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten();
    if let Some(port) = text.strip_prefix("localhost:").and_then(port) {
        return Some((Ipv4Addr::LOCALHOST, port).into());
    }
    let all = || if has_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { IpAddr::from(Ipv4Addr::UNSPECIFIED) };
    match text.strip_prefix(':') {
        Some(rest) => port(rest).map(|port| (all(), port).into()),
        None if text.contains('%') => {
            zoned_listener(text).and_then(|(zoned, port)| in_zone(zoned, port).ok()).map(SocketAddr::V6)
        }
        None => text.parse().ok(),
    }
}

impl FromText for PathBuf {
    const FORM: Form = Form::Path;

    fn from_text(text: &str) -> Result<PathBuf, Wrong> {
        if is_path(text) { Ok(text.into()) } else { Err(Wrong::Form) }
    }

    /// Returns the path in this folder; `-` stays as it is and means no file.
    fn in_folder(self, folder: &Path) -> PathBuf {
        let is_own = folder.as_os_str().is_empty() || self.as_os_str() == "-";
        if is_own { self } else { folder.join(self) }
    }
}

/// The file of a log.
pub(crate) struct LogPath(pub(crate) PathBuf);

impl FromText for LogPath {
    const FORM: Form = Form::Path;

    fn from_text(text: &str) -> Result<LogPath, Wrong> {
        if text == "off" {
            return Err(Wrong::Expected("no such key where there is no log; ./off is a file of this name".into()));
        }
        PathBuf::from_text(text).map(LogPath)
    }

    fn in_folder(self, folder: &Path) -> LogPath {
        LogPath(self.0.in_folder(folder))
    }
}

impl FromText for PolicySpec {
    const FORM: Form = Form::Order;

    fn from_text(text: &str) -> Result<PolicySpec, Wrong> {
        let parsed = text.parse::<PolicySpec>();
        if let Ok(policy) = &parsed
            && policy.needs_laboratory()
        {
            let said = "is for the laboratory, where routes learn other indices: expected gittins in place of mserpt";
            return Err(Wrong::Said(format!("`{policy}` {said}")));
        }
        parsed.map_err(|error| match error {
            PolicyError::Unknown(_) => Wrong::Expected(suggest::with_guess(Form::OneOf(NAMES), text)),
            other => Wrong::Said(other.to_string()),
        })
    }
}

impl FromText for Pattern {
    const FORM: Form = Form::Pattern;

    fn from_text(text: &str) -> Result<Pattern, Wrong> {
        Pattern::of_path(text).ok_or(Wrong::Form)
    }
}

impl FromText for ClientShareSpec {
    const FORM: Form = Form::ClientShare;

    fn from_text(text: &str) -> Result<ClientShareSpec, Wrong> {
        text.parse().map_err(|_| Wrong::Form)
    }
}

/// Defines types whose variants have names in the file.
macro_rules! names {
    ($($(#[$doc:meta])* $type:ident { $($variant:ident = $name:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type { $($variant,)* }

        impl FromText for $type {
            const FORM: Form = Form::OneOf(&[$($name,)*]);

            fn from_text(text: &str) -> Result<$type, Wrong> {
                match text {
                    $($name => Ok($type::$variant),)*
                    _ => Err(Wrong::Form),
                }
            }
        }
    )*};
}

names! {
    /// The place where the order is enforced.
    Shaping { Auto = "auto", Paced = "paced", Bands = "bands", Off = "off", }
    LogFormat { Combined = "combined", Json = "json", }
    /// The targets that symlinks in a root may have.
    SymlinkTargets { Inside = "inside", Anywhere = "anywhere", }
    /// The responses that may use the `max_concurrent_requests` of a class.
    ConcurrencySharing { Own = "own", Any = "any", Preempt = "preempt", }
    /// The number of conditions of an access rule that a client must meet.
    Satisfy { All = "all", Any = "any", }
    /// A coding of compression.
    CodingName { Brotli = "br", Zstd = "zstd", Gzip = "gzip", }
}

impl From<CodingName> for http::Coding {
    fn from(name: CodingName) -> http::Coding {
        match name {
            CodingName::Brotli => http::Coding::Brotli,
            CodingName::Zstd => http::Coding::Zstd,
            CodingName::Gzip => http::Coding::Gzip,
        }
    }
}

impl From<ConcurrencySharing> for sched::Sharing {
    fn from(sharing: ConcurrencySharing) -> sched::Sharing {
        match sharing {
            ConcurrencySharing::Own => sched::Sharing::Own,
            ConcurrencySharing::Any => sched::Sharing::Any,
            ConcurrencySharing::Preempt => sched::Sharing::AnyUntilWanted,
        }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_".contains(&byte)
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && text.len() <= FIELD_BYTES_MAX && !text.chars().any(char::is_control)
}

/// Returns true for a token (RFC 9110 section 5.6.2).
pub(crate) fn is_field_name(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_token)
}

pub(crate) fn is_field_value(text: &str) -> bool {
    let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    (1..=FIELD_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_visible) && text.trim() == text
}

/// Returns true for a media type with its parameters (RFC 9110 section 8.3.1).
fn is_media_type(text: &str) -> bool {
    let mut parts = text.split(';').map(str::trim);
    let is_essence =
        |essence: &str| essence.split_once('/').is_some_and(|(kind, sub)| is_field_name(kind) && is_field_name(sub));
    let is_quoted = |value: &str| {
        let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        inner.is_some_and(|inner| !inner.contains(['"', '\\']))
    };
    let is_value = |value: &str| is_field_name(value) || is_quoted(value);
    is_field_value(text)
        && parts.next().is_some_and(is_essence)
        && parts.all(|part| part.split_once('=').is_some_and(|(name, value)| is_field_name(name) && is_value(value)))
}

/// Directives of RFC 9111, 5861 and 8246 whose value is a number of seconds.
const SECONDS: &[&str] = &["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];

fn is_directive(text: &str) -> bool {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let is_number = |value: &str| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let needs_number = SECONDS.iter().any(|known| known.eq_ignore_ascii_case(name));
    is_field_name(name) && value != Some("") && (!needs_number || value.is_some_and(is_number))
}

/// Checks that a string has this form.
#[cfg(test)]
pub(crate) fn check(form: Form, text: &str) -> Result<(), Wrong> {
    match form {
        Form::Address => read_as::<SocketAddr>(text),
        Form::Host => read_as::<crate::host::Host>(text),
        Form::HostName => read_as::<crate::host::HostName>(text),
        Form::Path => read_as::<PathBuf>(text),
        Form::FilePattern => read_as::<FilePattern>(text),
        Form::FileName => read_as::<FileName>(text),
        Form::Statuses => read_as::<Statuses>(text),
        Form::Realm => read_as::<Realm>(text),
        Form::Rate => read_as::<Rate>(text),
        Form::Uplink => read_as::<crate::uplink_rate::UplinkRate>(text),
        Form::Size => read_as::<Size>(text),
        Form::Percent(100) => read_as::<Percent<100>>(text),
        Form::Percent(90) => read_as::<Percent<90>>(text),
        Form::Percent(max) => panic!("no key has {max} %"),
        Form::Time => read_as::<Duration>(text),
        Form::Timeout => read_as::<Timeout>(text),
        Form::Order => read_as::<PolicySpec>(text),
        Form::ClientShare => read_as::<ClientShareSpec>(text),
        Form::ClientPrefix => read_as::<crate::client_prefix::ClientPrefix>(text),
        Form::ClientWeight => read_as::<crate::client_weight::ClientWeight>(text),
        Form::Name => read_as::<Name>(text),
        Form::SiteName => read_as::<SiteName>(text),
        Form::Network => read_as::<crate::network::Network>(text),
        Form::Field => read_as::<crate::class::Field>(text),
        Form::Token => read_as::<crate::class::Token>(text),
        Form::Objective => read_as::<crate::class::Objective>(text),
        Form::OneOf(names) => names.contains(&text).then_some(()).ok_or(Wrong::Form),
        form => check_of_request(form, text),
    }
}

/// Checks a string whose form is a path, an address or a request field.
#[cfg(test)]
fn check_of_request(form: Form, text: &str) -> Result<(), Wrong> {
    match form {
        Form::PathBelow => read_as::<PathBelow>(text),
        Form::Pattern => read_as::<Pattern>(text),
        Form::RequestPath => read_as::<RequestPath>(text),
        Form::Target => read_as::<crate::site::Target>(text),
        Form::Template => read_as::<crate::site::Template>(text),
        Form::Prefix => read_as::<Prefix>(text),
        Form::HttpsUrl => read_as::<HttpsUrl>(text),
        Form::Mail => read_as::<Mail>(text),
        Form::Upstream => read_as::<crate::site::UpstreamAddress>(text),
        Form::AuthUrl => read_as::<crate::site::AuthUrl>(text),
        Form::Responder => read_as::<crate::site::Responder>(text),
        Form::FieldName => read_as::<FieldName>(text),
        Form::Method => read_as::<MethodName>(text),
        Form::Origin => read_as::<crate::site::Origin>(text),
        Form::FieldValue => read_as::<FieldValue>(text),
        Form::FieldTemplate => read_as::<crate::site::FieldTemplate>(text),
        Form::CacheControl => read_as::<CacheControl>(text),
        Form::MediaType => read_as::<MediaType>(text),
        Form::Extension => read_as::<Extension>(text),
        Form::Charset => read_as::<Charset>(text),
        form => panic!("{form:?} is read elsewhere"),
    }
}

#[cfg(test)]
fn read_as<T: FromText>(text: &str) -> Result<(), Wrong> {
    T::from_text(text).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_form_or_do_not() {
        for (form, right, wrong) in [
            (Form::Name, &["a", "shop-1.old_2"][..], &["", "a b", "ä", "*"][..]),
            (Form::FileName, &["index.html", "..."], &["", ".", "..", "a/b", "a\0"]),
            (Form::PathBelow, &["/404.html", "/e/404.html"], &["404.html", "/", "/../x", "/a//b", "//a"]),
            (Form::Statuses, &["404", "5xx", "*"], &["399", "600", "3xx", "0404", "", "4XX"]),
            (
                Form::Prefix,
                &["/app", "/a/b.c"],
                &["", "/", "app", "/app/", "/a//b", "/a/../b", "/a*", "/a%20b", "/a;b"],
            ),
            (Form::FieldName, &["X-A"], &["", "X A", "X:", "ä"]),
            (Form::FieldValue, &["a b"], &["", " a", "a\r\nSet-Cookie: b", "ä"]),
            (
                Form::CacheControl,
                &["no-store", "Max-Age=3, public", "x=\"y\""],
                &["max-age", "max-age=1h", "a,,b", "max_age=", "a b"],
            ),
            (
                Form::MediaType,
                &["text/plain", "text/html; charset=koi8-r", "a/b;c=\"d e\""],
                &["text", "text/", "/x", "text/plain;", "text/plain; charset", "a/b, c/d", "a/b; c=\"", "a/b\r\nX: y"],
            ),
            (Form::Extension, &["md", "7z", "tar_gz", "ä"], &["", ".md", "tar.gz", "a/b"]),
            (Form::Charset, &["utf-8", "off", "ISO-8859-1"], &["", "utf 8", "x;y"]),
            (Form::ClientPrefix, &["32,56", "1,128"], &["32", "0,64", "32,129"]),
            (Form::ClientShare, &["on", "strict", "5MB"], &["yes", ""]),
            (Form::Uplink, &["auto", "off", "9mbit", "1mbit..2mbit"], &["9", "on", "2mbit..1mbit", "1mbit..1mbit", ""]),
            (Form::Size, &["5", "64KiB"], &["5 KB", "-1"]),
            (Form::Percent(90), &["0%", "0.5%", "90%"], &["5", "0.05", "90.1%", "0.05%", "5 %", ""]),
            (Form::Path, &["/", "www"], &["", "a\nb"]),
        ] {
            for text in right {
                assert_eq!(check(form, text), Ok(()), "{text}");
            }
            for text in wrong {
                assert!(check(form, text).is_err(), "{form:?} {text:?}");
            }
        }
    }

    #[test]
    fn a_policy_that_is_none_says_what_is() {
        assert!(
            matches!(PolicySpec::from_text("sprt"), Err(Wrong::Expected(said)) if said.contains("did you mean `srpt`?"))
        );
        let said = "rank `left * rt`, column 8: unknown name `rt`";
        assert!(matches!(PolicySpec::from_text("rank:left * rt"), Err(Wrong::Said(text)) if text.starts_with(said)));
        assert!(matches!(PolicySpec::from_text("fcf:0"), Err(Wrong::Said(said)) if said.contains("beta `0`: write")));
    }
}
