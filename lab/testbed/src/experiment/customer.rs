//! A class of WebStone's clients, who request one customer's files: `A:15`, `A:15=/gold/`, `A:15=gold.example`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use workload::WEBSTONE_CLIENTS_MAX;

use super::check_name;

/// The clients of a customer, and the location of the customer's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    pub name: String,
    pub clients: u32,
    pub at: CustomerAt,
}

/// How the server recognises a customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomerAt {
    /// A folder below the URL's folder, with `/` at both ends.
    Path(String),
    /// The value of the `Host` field.
    Host(String),
}

impl FromStr for Customer {
    type Err = String;

    fn from_str(text: &str) -> Result<Customer, String> {
        let wrong = || {
            format!(
                "`{text}` is no class: write NAME:CLIENTS, with a folder or a host where that is not /NAME/ in small letters, \
                 for example A:15, A:15=/gold/ or A:15=gold.example"
            )
        };
        let (who, at) = text.split_once('=').map_or((text, None), |(who, at)| (who, Some(at)));
        let (name, clients) = who.split_once(':').ok_or_else(wrong)?;
        let clients = clients.parse().ok().filter(|clients| (1..=WEBSTONE_CLIENTS_MAX).contains(clients));
        check_name(name, "a class")?;
        let at = match at {
            None => CustomerAt::Path(format!("/{}/", name.to_ascii_lowercase())),
            Some(at) => place(at).ok_or_else(wrong)?,
        };
        Ok(Customer { name: name.into(), clients: clients.ok_or_else(wrong)?, at })
    }
}

fn place(text: &str) -> Option<CustomerAt> {
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if let Some(rest) = text.strip_prefix('/') {
        let names: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
        let is_folder =
            names.iter().all(|name| is_word(name) && *name != "." && *name != ".." && !name.contains(['?', '#', '\\']));
        return is_folder.then(|| CustomerAt::Path(format!("/{}/", names.join("/"))));
    }
    (is_word(text) && !text.contains('/')).then(|| CustomerAt::Host(text.into()))
}

impl fmt::Display for Customer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (CustomerAt::Path(at) | CustomerAt::Host(at)) = &self.at;
        write!(f, "{}:{}={at}", self.name, self.clients)
    }
}

impl Serialize for Customer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Customer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Customer, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Checks that classes, each valid by itself, are compatible.
pub fn check_customers(customers: &[Customer]) -> Result<(), String> {
    let clients: Vec<u32> = customers.iter().map(|customer| customer.clients).collect();
    workload::check_webstone(&clients)?;
    let twice = |(n, one): &(usize, &Customer)| customers[..*n].iter().any(|other| other.name == one.name);
    match customers.iter().enumerate().find(twice) {
        Some((_, one)) => Err(format!("two classes are called `{}`", one.name)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_and_written() {
        for (text, name, clients, written) in [
            ("A:15", "A", 15, "A:15=/a/"),
            ("gold:1=/x/gold", "gold", 1, "gold:1=/x/gold/"),
            ("A:4096=a.example:80", "A", 4096, "A:4096=a.example:80"),
        ] {
            let read: Customer = text.parse().unwrap();
            assert_eq!((read.name.as_str(), read.clients, read.to_string()), (name, clients, written.into()));
            assert_eq!(written.parse(), Ok(read));
        }
    }

    #[test]
    fn what_is_no_class_says_what_is() {
        for wrong in ["A", "A:", "A:0", "A:5000", "A:x", "A:1=", "A:1=/../", "A:1=/a b/", "A:1=a/b", "A:1=/", "A:1=//"]
        {
            assert!(wrong.parse::<Customer>().unwrap_err().contains("A:15=/gold/"), "{wrong}");
        }
        assert!(":15".parse::<Customer>().unwrap_err().contains("is not a name for a class"));
        let of = |texts: &[&str]| check_customers(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>());
        assert!(of(&["A:1", "A:2"]).unwrap_err().contains("two classes are called `A`"));
        assert!(of(&["A:4096", "B:1"]).unwrap_err().contains("up to 4096"));
        assert_eq!(of(&["A:15", "B:15"]), Ok(()));
    }
}
