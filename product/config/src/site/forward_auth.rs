//! Forward authentication: Weir asks another server whether a client has access.

use std::time::Duration;

use crate::keys::Form;
use crate::place::{Placed, quoted};
use crate::section::Section;
use crate::value_forms::{FieldName, FromText, RequestPath, Timeout, Wrong};

use super::request_header::mistake;
use super::{Proxy, UpstreamAddress};

/// The server that decides whether a client has access, and the fields that Weir takes from its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardAuth {
    pub url: AuthUrl,
    /// Fields of the authentication server's answer that replace the client's fields in the request.
    pub copy_headers: Vec<String>,
    pub timeout: Duration,
}

/// The address of an authentication server, and the path to request there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthUrl {
    text: String,
    pub to: UpstreamAddress,
    /// The host and the port, as written in the address.
    pub host: String,
    /// With a query or without.
    pub path: String,
}

/// The maximum time to connect to an authentication server.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(5);
const HTTP_PORT: u16 = 80;

impl ForwardAuth {
    pub(super) fn read(table: &Section<'_, '_>) -> Option<ForwardAuth> {
        let (url, timeout) = (table.text::<AuthUrl>("auth_url"), table.text::<Timeout>("auth_timeout"));
        let copied = table.texts::<FieldName>("copy_headers");
        for Placed { value: FieldName(name), at } in &copied {
            if let Some(expected) = mistake(name) {
                table.book.mistake(*at, format!("site.access.copy_headers {}: expected {expected}", quoted(name)));
            }
        }
        if !table.is_given("auth_url") {
            for name in ["auth_timeout", "copy_headers"].iter().filter(|name| table.is_given(name)) {
                let said =
                    format!("site.access.{name} without site.access.auth_url: expected the server that is asked");
                table.book.mistake(table.place_of(name), said);
            }
        }
        let copy_headers = copied.into_iter().map(|name| name.value.0).collect();
        Some(ForwardAuth { url: url?.value, copy_headers, timeout: timeout?.value.0 })
    }

    /// The settings of the connections to that server.
    pub fn proxy(&self) -> Proxy {
        Proxy {
            host: Some(self.url.host.clone()),
            connect_timeout: self.timeout.min(CONNECT_TIMEOUT_MAX),
            read_timeout: self.timeout,
            max_temp_file_bytes: 0,
            ..Proxy::of_all(vec![self.url.to.clone()])
        }
    }
}

impl FromText for AuthUrl {
    const FORM: Form = Form::AuthUrl;

    fn from_text(text: &str) -> Result<AuthUrl, Wrong> {
        AuthUrl::new(text).ok_or(Wrong::Form)
    }
}

impl AuthUrl {
    fn new(text: &str) -> Option<AuthUrl> {
        let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))?;
        let (host, path) = rest.split_at(rest.find('/')?);
        let path = RequestPath::from_text(path).ok()?.0;
        let whole = || UpstreamAddress::new(&format!("{scheme}://{host}"));
        let to = whole().or_else(|| UpstreamAddress::new(&format!("{scheme}://{host}:{HTTP_PORT}")))?;
        let is_host = super::split_host(host).is_some();
        is_host.then(|| AuthUrl { text: text.into(), to, host: host.into(), path })
    }
}

impl std::fmt::Display for AuthUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_path() {
        for (text, to, host, path) in [
            (
                "http://127.0.0.1:9091/api/authz/forward-auth",
                "127.0.0.1:9091",
                "127.0.0.1:9091",
                "/api/authz/forward-auth",
            ),
            ("http://auth/verify?a=b", "auth:80", "auth", "/verify?a=b"),
            ("https://auth.example.org/x", "https://auth.example.org:443", "auth.example.org", "/x"),
            ("http://[::1]:80/", "[::1]:80", "[::1]:80", "/"),
        ] {
            let url = AuthUrl::new(text).unwrap();
            assert_eq!((url.to.to_string().as_str(), &*url.host, &*url.path), (to, host, path), "{text}");
            assert_eq!(url.to_string(), text);
        }
        for wrong in [
            "",
            "/verify",
            "127.0.0.1:9091/x",
            "http://a:1",
            "ftp://a/b",
            "http:///x",
            "http://a b/x",
            "http://:1/x",
            "http://a/ x",
        ] {
            assert_eq!(AuthUrl::new(wrong), None, "{wrong}");
        }
    }
}
