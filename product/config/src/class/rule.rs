//! The rules that assign requests to classes, and their conditions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::keys::Form;
use crate::network::Network;
use crate::pattern::Pattern;
use crate::place::Place;
use crate::section::{Held, Section};
use crate::site;
use crate::unreached_rules;
use crate::value_forms::{FromText, SiteName, Wrong, is_field_name, is_field_value};

/// A rule. A request matches if all conditions that the rule has are met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub at: Place,
    /// The index of the rule's class.
    pub class: usize,
    /// The index of the rule's site.
    pub site: Option<usize>,
    pub path: Option<Pattern>,
    pub network: Option<Network>,
    pub field: Option<Field>,
    pub token: Option<Token>,
    pub held: Vec<Held>,
}

/// A header field of a request; the value is a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name, in lower case.
    name: String,
    value: Pattern,
}

/// The token of `Authorization: Bearer`. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The text itself, which must not be shown.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

/// The parts of a request that rules examine.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub site: usize,
    /// The decoded path; it begins with a slash.
    pub path: &'a [u8],
    /// The client's address. A rule with a network does not match if it is unknown.
    pub client: Option<IpAddr>,
    pub fields: &'a dyn FieldLines,
}

/// The header fields of a request.
pub trait FieldLines {
    /// Returns whether the condition is true for the value of any field of this name. The name must be in lower case.
    fn any(&self, name: &str, holds: &mut dyn FnMut(&str) -> bool) -> bool;
}

impl FieldLines for Vec<(String, String)> {
    fn any(&self, name: &str, holds: &mut dyn FnMut(&str) -> bool) -> bool {
        self.iter().any(|(own, value)| own.eq_ignore_ascii_case(name) && holds(value))
    }
}

impl Rule {
    pub(crate) fn read(table: &Section<'_, '_>, class: usize, sites: &BTreeMap<String, usize>) -> Option<Rule> {
        let (site, path) = (table.text::<SiteName>("site"), table.text::<Pattern>("path"));
        let (network, field) = (table.text::<Network>("network"), table.text::<Field>("header"));
        let token = table.text::<Token>("token");
        let site = site.map(|name| site::named(table.book, sites, &name));
        // If a wrong condition were dropped, the rule would match more requests than it should.
        let read = [path.is_some(), network.is_some(), field.is_some(), token.is_some(), site.flatten().is_some()];
        let given = ["path", "network", "header", "token", "site"].map(|name| table.is_given(name));
        (read == given).then(|| Rule {
            at: table.at,
            class,
            site: site.flatten(),
            path: path.map(|path| path.value),
            network: network.map(|network| network.value),
            field: field.map(|field| field.value),
            token: token.map(|token| token.value),
            held: table.held_so_far(),
        })
    }

    pub fn matches(&self, asked: &Asked<'_>) -> bool {
        self.site.is_none_or(|site| site == asked.site)
            && self.path.as_ref().is_none_or(|path| path.matches(asked.path))
            && self.network.is_none_or(|network| asked.client.is_some_and(|client| network.contains(client)))
            && self.field.as_ref().is_none_or(|field| field.matches(asked.fields))
            && self.token.as_ref().is_none_or(|token| token.matches(asked.fields))
    }
}

/// Returns whether the first condition is met whenever the second is.
fn wider<C>(first: &Option<C>, second: &Option<C>, covers: impl Fn(&C, &C) -> bool) -> bool {
    match (first, second) {
        (None, _) => true,
        (Some(first), Some(second)) => covers(first, second),
        (Some(_), None) => false,
    }
}

impl unreached_rules::Rule for Rule {
    const NOUN: &'static str = "class.rule";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        self.path.as_ref()
    }

    fn covers(&self, other: &Rule) -> bool {
        let any_path = self.path.as_ref().is_some_and(Pattern::is_any);
        wider(&self.site, &other.site, PartialEq::eq)
            && (any_path || wider(&self.path, &other.path, Pattern::covers))
            && wider(&self.network, &other.network, Network::covers)
            && wider(&self.field, &other.field, Field::covers)
            && wider(&self.token, &other.token, PartialEq::eq)
    }

    /// Returns whether the paths of two rules overlap. Rules with other conditions usually overlap on purpose; only
    /// overlapping paths are likely to be a mistake.
    fn competes(&self, other: &Rule) -> bool {
        let paths = self.path.as_ref().zip(other.path.as_ref());
        let alike = (&self.site, &self.network, &self.field, &self.token)
            == (&other.site, &other.network, &other.field, &other.token);
        alike && self.class != other.class && paths.is_some_and(|(path, other)| path.meets(other))
    }
}

impl Field {
    fn matches(&self, fields: &dyn FieldLines) -> bool {
        fields.any(&self.name, &mut |value| self.value.matches(value.as_bytes()))
    }

    fn covers(&self, other: &Field) -> bool {
        self.name == other.name && self.value.covers(&other.value)
    }
}

impl FromText for Field {
    const FORM: Form = Form::Field;

    fn from_text(text: &str) -> Result<Field, Wrong> {
        let (name, value) = text.split_once(':').ok_or(Wrong::Form)?;
        let (name, value) = (name.trim(), value.trim());
        if !is_field_name(name) || !is_field_value(value) {
            return Err(Wrong::Form);
        }
        Ok(Field { name: name.to_ascii_lowercase(), value: Pattern::new(value).ok_or(Wrong::Form)? })
    }
}

impl Token {
    fn matches(&self, fields: &dyn FieldLines) -> bool {
        fields.any("authorization", &mut |value| {
            let bearer = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            bearer.is_some_and(|(_, token)| is_same(token.trim().as_bytes(), self.0.as_bytes()))
        })
    }
}

/// Compares in constant time, so that the time does not reveal the first difference.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

impl FromText for Token {
    const FORM: Form = Form::Token;

    fn from_text(text: &str) -> Result<Token, Wrong> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let right = TOKEN_BYTES.contains(&text.len()) && text.bytes().all(is_token);
        if right { Ok(Token(text.into())) } else { Err(Wrong::Form) }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unreached_rules::Rule as _;

    fn rule(path: Option<&str>, network: Option<&str>, field: Option<&str>) -> Rule {
        Rule {
            at: Place::START,
            class: 0,
            site: None,
            path: path.and_then(Pattern::of_path),
            network: network.map(|text| Network::from_text(text).unwrap()),
            field: field.map(|text| Field::from_text(text).unwrap()),
            token: None,
            held: Vec::new(),
        }
    }

    #[test]
    fn every_condition_holds() {
        let fields = vec![
            ("x-tier".to_string(), "gold-2".to_string()),
            ("Authorization".into(), "bearer 0123456789abcdef".into()),
        ];
        let asked = Asked { site: 1, path: b"/a/b", client: "10.1.1.1".parse().ok(), fields: &fields };
        let all = rule(Some("/a/*"), Some("10.0.0.0/8"), Some("X-Tier: gold*"));
        assert!(all.matches(&asked) && rule(None, None, None).matches(&asked));
        assert!(!all.matches(&Asked { path: b"/b", ..asked }));
        assert!(!all.matches(&Asked { client: None, ..asked }));
        assert!(!all.matches(&Asked { fields: &Vec::new(), ..asked }));
        assert!(!Rule { site: Some(0), ..all.clone() }.matches(&asked));
        let token = |text: &str| Rule { token: Token::from_text(text).ok(), ..all.clone() };
        assert!(token("0123456789abcdef").matches(&asked) && !token("0123456789abcdeX").matches(&asked));
        assert_eq!(format!("{:?}", token("0123456789abcdef").token), "Some(Token(…))");
    }

    #[test]
    fn fewer_conditions_cover_more() {
        let (any, path) = (rule(None, None, None), rule(Some("/a/*"), None, None));
        let both = rule(Some("/a/b"), Some("10.0.0.0/8"), None);
        assert!(any.covers(&path) && any.covers(&both) && path.covers(&both));
        assert!(!path.covers(&any) && !both.covers(&path));
        assert!(rule(Some("/*"), None, None).covers(&any));
        assert!(rule(None, None, Some("X: *")).covers(&rule(None, None, Some("x: 1"))));
    }

    #[test]
    fn only_paths_that_meet_compete() {
        let other = |path| Rule { class: 1, ..rule(Some(path), None, None) };
        let first = rule(Some("/a/*"), None, None);
        assert!(first.competes(&other("*.iso")) && !first.competes(&other("/b/*")));
        assert!(!first.competes(&Rule { class: 0, ..other("*.iso") }), "of one class");
        assert!(!first.competes(&Rule { network: Network::from_text("::/0").ok(), ..other("*.iso") }));
    }
}
