//! The rules for requests to upstreams: header fields that are set or removed.

use std::fmt;

use crate::keys::Form;
use crate::pattern::Pattern;
use crate::place::{Place, quoted};
use crate::section::Section;
use crate::unreached_rules::Rule;
use crate::value_forms::{FieldName, FromText, Wrong, is_field_value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    pub at: Place,
    pub path: Pattern,
    pub name: String,
    /// The value; `None` removes the field.
    pub value: Option<FieldTemplate>,
}

/// A value with variables of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldTemplate(String);

/// A variable in a value, replaced for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The address of the client.
    Client,
    /// The host that the client names.
    Host,
    /// The scheme of the client's connection.
    Scheme,
    /// The user who has logged in with a password; empty if there is none.
    User,
}

const VARIABLES: [(&str, Variable); 4] = [
    ("{client}", Variable::Client),
    ("{host}", Variable::Host),
    ("{scheme}", Variable::Scheme),
    ("{user}", Variable::User),
];

/// Fields that rules cannot set because they describe a connection or a message's framing, each with the alternative.
const NOT_SET: &[(&str, &str)] = &[
    ("connection", "a field that is not of one connection"),
    ("content-length", "a field that does not frame the body"),
    ("expect", "a field that is not of one connection"),
    ("host", "site.proxy.host for it"),
    ("http2-settings", "a field that is not of one connection"),
    ("keep-alive", "a field that is not of one connection"),
    ("proxy-connection", "a field that is not of one connection"),
    ("te", "a field that is not of one connection"),
    ("trailer", "a field that does not frame the body"),
    ("transfer-encoding", "a field that does not frame the body"),
    ("upgrade", "a field that is not of one connection"),
];

impl RequestHeader {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<RequestHeader> {
        let (path, name) = (table.text::<Pattern>("path"), table.text::<FieldName>("name"));
        let (is_given, value) = (table.is_given("value"), table.text::<FieldTemplate>("value"));
        let name = name?;
        if let Some(expected) = mistake(&name.value.0) {
            let said = format!("site.request_header.name {}: expected {expected}", quoted(&name.value.0));
            table.book.mistake(name.at, said);
            return None;
        }
        if is_given && value.is_none() {
            return None;
        }
        let value = value.map(|value| value.value);
        Some(RequestHeader { at: table.at, path: path?.value, name: name.value.0, value })
    }
}

/// Returns the expected form, if rules cannot set a field of this name.
pub(super) fn mistake(name: &str) -> Option<&'static str> {
    // Programs behind CGI and its successors take other characters for `-`.
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Some("letters, digits and `-`");
    }
    NOT_SET.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, expected)| *expected)
}

impl Rule for RequestHeader {
    const NOUN: &'static str = "site.request_header";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.path)
    }

    fn covers(&self, other: &RequestHeader) -> bool {
        self.name.eq_ignore_ascii_case(&other.name) && self.path.covers(&other.path)
    }

    fn competes(&self, other: &RequestHeader) -> bool {
        let is_same = self.name.eq_ignore_ascii_case(&other.name);
        is_same && self.path.meets(&other.path) && self.value != other.value
    }
}

impl FieldTemplate {
    /// Returns the value with each variable replaced by the result of `of`.
    pub fn filled(&self, of: impl Fn(Variable) -> Vec<u8>) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.0.len());
        let mut left = self.0.as_str();
        while let Some(begin) = left.find('{') {
            let (before, rest) = left.split_at(begin);
            value.extend_from_slice(before.as_bytes());
            let known = VARIABLES.iter().find_map(|(name, variable)| Some((rest.strip_prefix(name)?, *variable)));
            left = match known {
                Some((after, variable)) => {
                    value.extend(of(variable));
                    after
                }
                None => {
                    value.push(b'{');
                    &rest[1..]
                }
            };
        }
        value.extend_from_slice(left.as_bytes());
        value
    }
}

impl FromText for FieldTemplate {
    const FORM: Form = Form::FieldTemplate;

    fn from_text(text: &str) -> Result<FieldTemplate, Wrong> {
        if !is_field_value(text) {
            return Err(Wrong::Form);
        }
        let words = text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(word, _)| word);
        let is_word = |word: &&str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.')
        };
        let mut unknown = words
            .filter(is_word)
            .filter(|word| !VARIABLES.iter().any(|(name, _)| name.trim_matches(['{', '}']) == *word));
        match unknown.next() {
            Some(word) => {
                Err(Wrong::Expected(format!("{{client}}, {{host}}, {{scheme}} or {{user}} for `{{{word}}}`")))
            }
            None => Ok(FieldTemplate(text.into())),
        }
    }
}

impl fmt::Display for FieldTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_unknown_ones_are_mistakes() {
        let of = |variable| match variable {
            Variable::Client => b"192.0.2.1".to_vec(),
            Variable::Host => b"{client}".to_vec(),
            Variable::Scheme => b"https".to_vec(),
            Variable::User => Vec::new(),
        };
        for (text, value) in [
            ("plain", "plain"),
            ("{client}", "192.0.2.1"),
            ("a {scheme}://{host}/ {", "a https://{client}/ {"),
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("{}{CLIENT}", "{}{CLIENT}"),
        ] {
            let template = FieldTemplate::from_text(text).unwrap();
            assert_eq!(String::from_utf8(template.filled(of)).unwrap(), value, "{text}");
        }
        for wrong in ["{remote_addr}", "x{http.request.host}y", "", "a\nb", " a"] {
            assert!(FieldTemplate::from_text(wrong).is_err(), "{wrong}");
        }
    }
}
